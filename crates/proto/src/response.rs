//! Response heads (RFC 9112, section 4), and whole answers to requests that open no stream.
//!
//! Every connection carries one request, so every answer says `Connection: close`. Everything is
//! appended to the caller's buffer; after an answer other than a stream to a `GET` the caller
//! closes. A `Date` is left out: this room has no clock, and RFC 9110, section 6.6.1 lets an
//! origin server without one do so.
//!
//! `cors_origin` is the request's `Origin` when the caller lets pages of that origin in. The
//! answer then allows it by name and varies with it (Fetch Standard, section 3.2.5).

use crate::problem::{self, Problem};
use crate::request::METHODS;
use crate::{Framing, Transport};

/// What all streams have in common. The two that are not HTTP's own keep reverse proxies (nginx)
/// from holding events back and browsers from holding them back to guess their type.
const STREAM_FIELDS: &str = "Cache-Control: no-cache, no-store, no-transform\r\n\
                             X-Accel-Buffering: no\r\n\
                             X-Content-Type-Options: nosniff\r\n\
                             Connection: close\r\n";

/// Request headers that a page may set, beside those that it may always set.
const CORS_HEADERS: &str = "Authorization, Cache-Control, Content-Type, Last-Event-ID";

/// Appends the head of a stream; for a `HEAD` it is the whole answer.
pub fn stream_head(
    transport: Transport,
    framing: Framing,
    cors_origin: Option<&str>,
    out: &mut Vec<u8>,
) {
    let content_type = match transport {
        Transport::Sse => "text/event-stream",
        Transport::Ndjson => "application/x-ndjson",
        Transport::Classic => "text/html; charset=utf-8",
    };
    push(out, &["HTTP/1.1 200 OK\r\nContent-Type: ", content_type, "\r\n", STREAM_FIELDS]);
    if framing == Framing::Chunked {
        push(out, &["Transfer-Encoding: chunked\r\n"]);
    }
    push_cors(out, cors_origin);
    push(out, &["\r\n"]);
}

/// Appends the whole answer to a request that is refused. With `head_only` (the request was a
/// `HEAD`) the body is described but not sent.
pub fn problem(problem: &Problem, head_only: bool, cors_origin: Option<&str>, out: &mut Vec<u8>) {
    let body = problem.to_json();
    let status_line = format!("HTTP/1.1 {:03} {}\r\n", problem.status, problem.title());
    let length = format!("Content-Length: {}\r\n", body.len());
    push(out, &[&status_line, "Content-Type: ", problem::CONTENT_TYPE, "\r\n", &length]);
    if let Some(methods) = problem.allow {
        push(out, &["Allow: ", methods, "\r\n"]);
    }
    if let Some(seconds) = problem.retry_after {
        push(out, &[&format!("Retry-After: {seconds}\r\n")]);
    }
    push(out, &["Cache-Control: no-store\r\nConnection: close\r\n"]);
    push_cors(out, cors_origin);
    push(out, &["\r\n"]);
    if !head_only {
        push(out, &[&body]);
    }
}

/// Appends the whole answer to an `OPTIONS`, which is mostly a browser's question whether a page
/// may connect (Fetch Standard, section 4.8). Without a `cors_origin` the answer is no.
pub fn preflight(cors_origin: Option<&str>, out: &mut Vec<u8>) {
    push(out, &["HTTP/1.1 204 No Content\r\nAllow: ", METHODS, "\r\nConnection: close\r\n"]);
    if push_cors(out, cors_origin) {
        push(out, &["Access-Control-Allow-Methods: ", METHODS, "\r\n"]);
        push(out, &["Access-Control-Allow-Headers: ", CORS_HEADERS, "\r\n"]);
        push(out, &["Access-Control-Max-Age: 86400\r\n"]);
    }
    push(out, &["\r\n"]);
}

/// Says whether it let the origin in. One with control characters, which could forge a line of the
/// head, is never let in; the request parser does not let such a one through either.
fn push_cors(out: &mut Vec<u8>, cors_origin: Option<&str>) -> bool {
    match cors_origin {
        Some(origin) if !origin.contains(|c: char| c.is_control()) => {
            push(out, &["Access-Control-Allow-Origin: ", origin, "\r\nVary: Origin\r\n"]);
            true
        }
        _ => false,
    }
}

fn push(out: &mut Vec<u8>, parts: &[&str]) {
    parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
}
