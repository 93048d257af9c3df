//! Response heads (RFC 9112, section 4), and whole answers to requests that open no stream.
//!
//! Every connection carries one request, so every answer says `Connection: close`. Those of polls,
//! which share one, are [`poll`](crate::poll)'s, and those of sends, which do as well, are
//! [`outcome`]s. Everything is appended to the caller's buffer; after an answer other than a stream
//! to a `GET` the caller closes. A `Date` is left out: this room has no clock, and RFC 9110,
//! section 6.6.1 lets an origin server without one do so.
//!
//! `cors` names the request's `Origin` when the caller lets pages of that origin in. The answer
//! then allows it by name and varies with it (Fetch Standard, section 3.2.5).

use crate::append::push;
use crate::cors::Cors;
use crate::problem::{self, Problem};
use crate::request::Route;
use crate::{Carrier, Format};

/// What all streams have in common. The two that are not HTTP's own keep reverse proxies (nginx)
/// from holding events back and browsers from holding them back to guess their type.
const STREAM_FIELDS: &str = "Cache-Control: no-cache, no-store, no-transform\r\n\
                             X-Accel-Buffering: no\r\n\
                             X-Content-Type-Options: nosniff\r\n\
                             Connection: close\r\n";

/// What an answer says after which the connection ends.
const CLOSE: &str = "Connection: close\r\n";

/// What says that a client may go on with its body (RFC 9110, section 15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What a client must do to get its WebSocket.
const UPGRADE: &str = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Connection: close, upgrade\r\n";

/// Request headers that a page may set, beside those that it may always set.
const CORS_HEADERS: &str =
    "Authorization, Cache-Control, Content-Type, Idempotency-Key, Last-Event-ID";

/// Those that it may set of a request about a durable stream, beside them.
const DURABLE_CORS_HEADERS: &str = ", If-None-Match, Producer-Epoch, Producer-Id, Producer-Seq, \
                                    Stream-Closed, Stream-Seq";

/// What a page of another origin may read of a head that says where one goes on, beside the fields
/// that it may always read.
pub(crate) const CORS_EXPOSED: &str =
    "Access-Control-Expose-Headers: Encke-Next, Encke-Gap, Encke-Retry, Encke-Members\r\n";

/// What it may read of a stream's head.
pub(crate) const CORS_EXPOSED_OF_STREAM: &str =
    "Access-Control-Expose-Headers: Encke-Connection, Encke-Next, Encke-Gap\r\n";

/// Appends the head of a stream but for its end, see [`end_head`](crate::resume::end_head); for a
/// `HEAD` it is the whole answer.
pub fn stream_head(format: Format, carrier: Carrier, cors: Option<Cors<'_>>, out: &mut Vec<u8>) {
    push(out, &["HTTP/1.1 200 OK\r\nContent-Type: ", format.content_type(), "\r\n", STREAM_FIELDS]);
    if carrier == Carrier::Chunked {
        push(out, &["Transfer-Encoding: chunked\r\n"]);
    }
    is_let_in(cors, out);
}

/// Appends the whole answer to a request that is refused. With `head_only` (the request was a
/// `HEAD`) the body is described but not sent.
pub fn problem(problem: &Problem, head_only: bool, cors: Option<Cors<'_>>, out: &mut Vec<u8>) {
    // RFC 9110, section 15.5.22: 426 says what to upgrade to; RFC 6455, section 4.4: which version.
    let connection = if problem.status == 426 { UPGRADE } else { CLOSE };
    let body = push_problem_head(problem, connection, cors, out);
    if !head_only {
        push(out, &[&body]);
    }
}

/// Appends the answer to a request that the control plane has dealt with: the JSON text `outcome`,
/// or a problem. With `keep_alive_seconds` the connection waits for another request, for at most so
/// many seconds; with `head_only` the body is described but not sent.
pub fn outcome(
    outcome: Result<&str, &Problem>,
    head_only: bool,
    keep_alive_seconds: Option<u32>,
    cors: Option<Cors<'_>>,
    out: &mut Vec<u8>,
) {
    let connection = match keep_alive_seconds {
        Some(seconds) => format!("Keep-Alive: timeout={seconds}\r\n"),
        None => CLOSE.to_owned(),
    };
    let json = match outcome {
        Ok(json) => json,
        Err(problem) => {
            let body = push_problem_head(problem, &connection, cors, out);
            return push(out, &[if head_only { "" } else { &body }]);
        }
    };
    let length = format!("Content-Length: {}\r\n", json.len() + 1);
    push(out, &["HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n", &length]);
    push(out, &["Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n", &connection]);
    is_let_in(cors, out);
    push(out, &["\r\n"]);
    if !head_only {
        push(out, &[json, "\n"]);
    }
}

/// Appends the head of an answer that tells a problem; its body.
fn push_problem_head(
    problem: &Problem,
    connection: &str,
    cors: Option<Cors<'_>>,
    out: &mut Vec<u8>,
) -> String {
    debug_assert!((400..600).contains(&problem.status));
    // RFC 9110, sections 15.5.2 and 15.5.6.
    debug_assert!(problem.status != 401 || problem.challenge.is_some());
    debug_assert!(problem.status != 405 || problem.allow.is_some());
    let body = problem.to_json();
    let status_line = format!("HTTP/1.1 {:03} {}\r\n", problem.status, problem.title());
    let length = format!("Content-Length: {}\r\n", body.len());
    push(out, &[&status_line, "Content-Type: ", problem::CONTENT_TYPE, "\r\n", &length]);
    if let Some(methods) = problem.allow {
        push(out, &["Allow: ", methods, "\r\n"]);
    }
    if let Some(challenge) = &problem.challenge {
        push(out, &["WWW-Authenticate: ", challenge, "\r\n"]);
    }
    if let Some(seconds) = problem.retry_after {
        push(out, &[&format!("Retry-After: {seconds}\r\n")]);
    }
    push(out, &["Cache-Control: no-store\r\n", connection]);
    if is_let_in(cors, out) {
        // Unless it is named, a page of another origin cannot read it (Fetch Standard, 3.2.3).
        let retry = problem.retry_after.map(|_| "Retry-After");
        let challenge = problem.challenge.as_ref().map(|_| "WWW-Authenticate");
        let named: Vec<&str> = [retry, challenge].into_iter().flatten().collect();
        if !named.is_empty() {
            push(out, &["Access-Control-Expose-Headers: ", &named.join(", "), "\r\n"]);
        }
    }
    push(out, &["\r\n"]);
    body
}

/// Appends the whole answer to a request for a text that no browser shall take for a page. With
/// `head_only` it is described but not sent.
pub fn text(text: &str, head_only: bool, out: &mut Vec<u8>) {
    let length = format!("Content-Length: {}\r\n", text.len());
    push(out, &["HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n", &length]);
    push(out, &["Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"]);
    push(out, &["Connection: close\r\n\r\n", if head_only { "" } else { text }]);
}

/// Appends the whole answer to an `OPTIONS`, which is mostly a browser's question whether a page
/// may connect (Fetch Standard, section 4.8). Without `cors` the answer is no. With
/// `private_network` a page of the open network may connect to this one.
pub fn preflight(route: Route, cors: Option<Cors<'_>>, private_network: bool, out: &mut Vec<u8>) {
    let methods = route.methods();
    push(out, &["HTTP/1.1 204 No Content\r\nAllow: ", methods, "\r\n", CLOSE]);
    if is_let_in(cors, out) {
        push(out, &["Access-Control-Allow-Methods: ", methods, "\r\n"]);
        let more = match route {
            Route::Durable => DURABLE_CORS_HEADERS,
            // Datastar has it in each of its requests.
            Route::Mercure => ", Datastar-Request",
            Route::MercureList => ", If-None-Match",
            _ => "",
        };
        push(out, &["Access-Control-Allow-Headers: ", CORS_HEADERS, more, "\r\n"]);
        push(out, &["Access-Control-Max-Age: 86400\r\n"]);
        if private_network {
            push(out, &["Access-Control-Allow-Private-Network: true\r\n"]);
        }
    }
    push(out, &["\r\n"]);
}

fn is_let_in(cors: Option<Cors<'_>>, out: &mut Vec<u8>) -> bool {
    cors.is_some_and(|cors| cors.push(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::METHODS;
    use crate::resume::end_head;
    use crate::testing::field;

    /// A whole head as an outside parser reads it: status, fields, and what comes after it.
    fn read(wire: &[u8]) -> (u16, Vec<(String, String)>, String) {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        let head_len = response.parse(wire).unwrap().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let fields = response.headers.iter();
        let fields = fields.map(|field| (field.name.to_ascii_lowercase(), text(field.value)));
        (response.code.unwrap(), fields.collect(), text(&wire[head_len..]))
    }

    #[test]
    fn stream_head_names_type_and_framing() {
        let types = [
            (Format::Sse, "text/event-stream"),
            (Format::Ndjson, "application/x-ndjson"),
            (Format::Classic, "text/html; charset=utf-8"),
        ];
        for (format, content_type) in types {
            for carrier in [Carrier::Chunked, Carrier::Close] {
                let mut wire = Vec::new();
                stream_head(format, carrier, None, &mut wire);
                end_head(&mut wire, None, None);
                let (status, fields, rest) = read(&wire);
                assert_eq!((status, rest.as_str()), (200, ""));
                assert_eq!(field(&fields, "content-type"), Some(content_type));
                let chunked = (carrier == Carrier::Chunked).then_some("chunked");
                assert_eq!(field(&fields, "transfer-encoding"), chunked);
                assert_eq!(field(&fields, "connection"), Some("close"));
                assert_eq!(field(&fields, "x-accel-buffering"), Some("no"));
                assert!(field(&fields, "cache-control").unwrap().contains("no-store"));
                assert_eq!(field(&fields, "access-control-allow-origin"), None);
                assert_eq!(field(&fields, "content-length"), None);
            }
        }
    }

    #[test]
    fn allowed_origin_is_named_in_every_kind_of_answer() {
        for credentials in [false, true] {
            let origin = "http://pages.example:8080";
            let cors = Some(Cors { origin, credentials });
            let mut answers = [Vec::new(), Vec::new(), Vec::new()];
            stream_head(Format::Sse, Carrier::Chunked, cors, &mut answers[0]);
            end_head(&mut answers[0], None, cors);
            problem(&Problem::not_acceptable(), false, cors, &mut answers[1]);
            preflight(Route::Stream, cors, false, &mut answers[2]);
            for wire in answers {
                let (_, fields, _) = read(&wire);
                assert_eq!(field(&fields, "access-control-allow-origin"), Some(origin));
                assert_eq!(field(&fields, "vary"), Some("Origin"));
                let with_cookies = field(&fields, "access-control-allow-credentials");
                assert_eq!(with_cookies, credentials.then_some("true"));
            }
        }
    }

    #[test]
    fn page_that_is_let_in_may_read_what_it_is_to_do() {
        let exposed = |sent: &Problem, cors| {
            let mut wire = Vec::new();
            problem(sent, false, cors, &mut wire);
            let (_, fields, _) = read(&wire);
            field(&fields, "access-control-expose-headers").map(str::to_owned)
        };
        let full = Problem::unavailable(7);
        assert_eq!(
            exposed(&full, Some(Cors::plain("http://pages.example"))).as_deref(),
            Some("Retry-After")
        );
        assert_eq!(exposed(&full, None), None);
        let (unknown, page) = (Problem::token_missing(), Some(Cors::plain("http://pages.example")));
        assert_eq!(exposed(&unknown, page).as_deref(), Some("WWW-Authenticate"));
        let both = Problem { retry_after: Some(1), ..unknown };
        assert_eq!(exposed(&both, page).as_deref(), Some("Retry-After, WWW-Authenticate"));
        assert_eq!(exposed(&Problem::bad_id("ü"), Some(Cors::plain("http://pages.example"))), None);
    }

    #[test]
    fn forged_origin_is_not_let_in() {
        let mut wire = Vec::new();
        stream_head(
            Format::Sse,
            Carrier::Close,
            Some(Cors::plain("x\r\nSet-Cookie: a=b")),
            &mut wire,
        );
        assert!(!String::from_utf8(wire).unwrap().contains("Set-Cookie"));
    }

    #[test]
    fn problem_has_its_fields_and_a_body_of_the_length_it_says() {
        let mut wire = Vec::new();
        problem(&Problem::token_missing(), false, None, &mut wire);
        assert_eq!(field(&read(&wire).1, "www-authenticate"), Some("Bearer"));
        for (sent, allow, retry_after) in [
            (Problem::method_not_allowed(METHODS), Some(METHODS), None),
            (Problem::unavailable(7), None, Some("7")),
            (Problem::bad_id("ü"), None, None),
        ] {
            let mut wire = Vec::new();
            problem(&sent, false, None, &mut wire);
            let (status, fields, body) = read(&wire);
            assert_eq!((status, body.as_str()), (sent.status, sent.to_json().as_str()));
            assert_eq!(field(&fields, "content-type"), Some("application/problem+json"));
            assert_eq!(field(&fields, "content-length"), Some(body.len().to_string().as_str()));
            assert_eq!(field(&fields, "allow"), allow);
            assert_eq!(field(&fields, "retry-after"), retry_after);

            let mut head = Vec::new();
            problem(&sent, true, None, &mut head);
            assert_eq!(wire.strip_suffix(body.as_bytes()), Some(head.as_slice()));
        }
    }

    #[test]
    fn outcome_of_a_send_leaves_the_connection_to_the_next_one() {
        let refused = Problem::too_many("Slowly.", 2);
        for keep_alive in [None, Some(75)] {
            for (sent, body) in [(Ok("{}"), "{}\n"), (Err(&refused), &*refused.to_json())] {
                let mut wire = Vec::new();
                let cors = Some(Cors::plain("http://a.test"));
                outcome(sent, false, keep_alive, cors, &mut wire);
                let mut head = Vec::new();
                outcome(sent, true, keep_alive, cors, &mut head);
                assert_eq!(wire.strip_suffix(body.as_bytes()), Some(&head[..]));
                let (status, fields, rest) = read(&wire);
                assert_eq!((status, rest.as_str()), (sent.map_or(429, |_| 200), body));
                let length = body.len().to_string();
                assert_eq!(field(&fields, "content-length"), Some(length.as_str()));
                let closes = keep_alive.is_none().then_some("close");
                assert_eq!(field(&fields, "connection"), closes);
                let kept = keep_alive.map(|_| "timeout=75");
                assert_eq!(field(&fields, "keep-alive"), kept);
                assert_eq!(field(&fields, "access-control-allow-origin"), Some("http://a.test"));
                assert_eq!(field(&fields, "retry-after"), sent.err().map(|_| "2"));
            }
        }
    }

    #[test]
    fn preflight_says_how_events_are_sent() {
        let mut wire = Vec::new();
        preflight(Route::Send, Some(Cors::plain("null")), false, &mut wire);
        let (_, fields, _) = read(&wire);
        assert_eq!(field(&fields, "access-control-allow-methods"), Some("POST, OPTIONS"));
        let headers = field(&fields, "access-control-allow-headers").unwrap();
        assert!(headers.contains("Content-Type, Idempotency-Key"), "{headers}");
    }

    #[test]
    fn preflight_of_the_hub_lets_datastar_in() {
        let mut wire = Vec::new();
        preflight(Route::Mercure, Some(Cors::plain("null")), false, &mut wire);
        let (_, fields, _) = read(&wire);
        let headers = field(&fields, "access-control-allow-headers").unwrap();
        assert!(headers.split(", ").any(|header| header == "Datastar-Request"), "{headers}");
    }

    #[test]
    fn preflight_of_a_durable_stream_says_how_it_is_read_and_appended_to() {
        let mut wire = Vec::new();
        preflight(Route::Durable, Some(Cors::plain("null")), false, &mut wire);
        let (_, fields, _) = read(&wire);
        let methods = field(&fields, "access-control-allow-methods");
        assert_eq!(methods, Some("GET, HEAD, POST, OPTIONS"));
        let headers = field(&fields, "access-control-allow-headers").unwrap();
        for name in ["If-None-Match", "Content-Type", "Stream-Closed", "Producer-Seq"] {
            assert!(headers.split(", ").any(|header| header == name), "{headers}");
        }
    }

    #[test]
    fn preflight_without_an_allowed_origin_says_no() {
        let mut wire = Vec::new();
        preflight(Route::Stream, None, true, &mut wire);
        let (status, fields, body) = read(&wire);
        assert_eq!((status, body.as_str()), (204, ""));
        assert_eq!(field(&fields, "allow"), Some(METHODS));
        assert!(!fields.iter().any(|field| field.0.starts_with("access-control")));
    }

    #[test]
    fn preflight_lets_pages_send_what_event_sources_send() {
        let mut wire = Vec::new();
        preflight(Route::Stream, Some(Cors::plain("null")), false, &mut wire);
        let (_, fields, _) = read(&wire);
        assert_eq!(field(&fields, "access-control-allow-private-network"), None);
        preflight(Route::Stream, Some(Cors::plain("null")), true, &mut wire);
        let asked = String::from_utf8_lossy(&wire).contains("Allow-Private-Network: true\r\n\r\n");
        assert!(asked);
        assert_eq!(field(&fields, "access-control-allow-methods"), Some(METHODS));
        assert!(field(&fields, "access-control-allow-headers").unwrap().contains("Last-Event-ID"));
    }
}
