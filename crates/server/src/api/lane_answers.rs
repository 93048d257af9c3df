//! Answers to what a worker's lane has posted, as the library would write them.

use axum::http::{StatusCode, header};
use axum::response::Response;
use dispatch::outcome::Delivered;
use engine::Event;
use futures_util::FutureExt as _;
use http_body_util::{BodyExt as _, Collected};
use proto::decimal::push_decimal;

use super::at_once::AnswerAtOnce;
use super::endpoints::event::push_answer;
use super::mercure::{DELIVERED, own_id};
use super::state::Api;
use super::stream_requests::dress;
use super::streams::PostedAppend;

/// Appends an answer that is made as the library's is, head and body; `date` is what its `Date`
/// field says.
fn push_response(out: &mut Vec<u8>, response: Response, date: &[u8]) {
    let (head, body) = response.into_parts();
    let (status, reason) = (head.status, head.status.canonical_reason().unwrap_or_default());
    for part in ["HTTP/1.1 ", status.as_str(), " ", reason, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    for (name, value) in &head.headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    // It is here as a whole.
    let body = body.collect().now_or_never().and_then(Result::ok).map(Collected::to_bytes);
    let body = body.unwrap_or_default();
    if status != StatusCode::NO_CONTENT && !head.headers.contains_key(header::CONTENT_LENGTH) {
        out.extend_from_slice(b"content-length: ");
        push_decimal(out, body.len() as u64);
        out.extend_from_slice(b"\r\n");
    }
    for part in [b"date: ", date, b"\r\n\r\n", &body] {
        out.extend_from_slice(part);
    }
}

impl Api {
    /// Appends the answer to an append that is done; `false` where nothing was, and the control
    /// plane is to do it.
    pub(crate) fn push_append_answer(
        &self,
        out: &mut Vec<u8>,
        append: &PostedAppend,
        date: &[u8],
    ) -> bool {
        let Some(mut response) = append.answer() else { return false };
        dress(response.headers_mut());
        push_response(out, response, date);
        true
    }

    /// Appends the answer to what has reached `count` connections, head and body; `date` is what
    /// its `Date` field says. What was in `body` is overwritten.
    pub(crate) fn push_http_answer(
        &self,
        out: &mut Vec<u8>,
        body: &mut Vec<u8>,
        (answer, event, count): (AnswerAtOnce, &Event, u32),
        date: &[u8],
    ) {
        let delivered = Delivered::of(event, count);
        body.clear();
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-type: ");
        match answer {
            AnswerAtOnce::Event => {
                push_answer(body, &delivered);
                body.push(b'\n');
                out.extend_from_slice(b"application/json");
            }
            AnswerAtOnce::Update { id, media_type } => {
                body.extend_from_slice(id.unwrap_or_else(|| own_id(&delivered)).as_bytes());
                for part in [media_type, "\r\n", DELIVERED, ": "] {
                    out.extend_from_slice(part.as_bytes());
                }
                push_decimal(out, count.into());
            }
        }
        out.extend_from_slice(b"\r\ncontent-length: ");
        push_decimal(out, body.len() as u64);
        out.extend_from_slice(b"\r\ndate: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(body);
    }
}
