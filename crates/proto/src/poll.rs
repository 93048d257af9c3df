//! Long poll, writing side: an HTTP answer whose body is a JSON array of events.
//!
//! An answer is a [head](Answer::push_head), the events' frames and the [end](ARRAY_END). Its
//! length is known before it is sent, so the connection can carry the next poll. A frame begins
//! with the comma that parts it from the event before it, and the first one of an array goes out
//! without.
//!
//! What the poller must know beside the events stands in the head, so that the body is the events
//! and nothing else.

use crate::cors::Cors;
use crate::{Carrier, Frame, append, response, resume};

/// The start of the array; it goes out with the head.
const ARRAY_START: &str = "[";
/// The end of the array.
pub const ARRAY_END: &[u8] = b"]\n";
/// What parts two events.
pub const SEPARATOR: &[u8] = b",\n";

/// The event whose JSON is `json`.
pub fn event(json: &str) -> Frame {
    Frame::after(SEPARATOR, json.as_bytes())
}

/// The bytes of `frame` in an answer that holds `before` events already.
pub fn element(frame: &Frame, before: usize) -> &[u8] {
    match before {
        0 => frame.body(),
        _ => frame.for_carrier(Carrier::Chunked),
    }
}

/// What an answer says before its events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Answer<'i> {
    /// The length of all elements together.
    pub elements_len: usize,
    /// The id of the event after which the next poll goes on; `None` when it is not known.
    pub next: Option<&'i str>,
    /// Whether events between the cursor that the poll came with and this answer are lost.
    pub gap: bool,
    /// After how long to come back where the server ends; `None` where that is not known.
    pub retry_ms: Option<u32>,
    /// Where the client stands in what is told of the members of its rooms, if it asks for some.
    pub members: Option<&'i str>,
    /// Whether the connection waits for another request, for at most so many seconds.
    pub keep_alive_seconds: Option<u32>,
    /// The page of another origin that is let in and asked.
    pub cors: Option<Cors<'i>>,
}

impl Answer<'_> {
    /// Appends the head, and the start of the array.
    pub fn push_head(&self, out: &mut Vec<u8>) {
        let len = ARRAY_START.len() + self.elements_len + ARRAY_END.len();
        self.push_fields(out);
        append::push(out, &[&format!("Content-Length: {len}\r\n\r\n"), ARRAY_START]);
    }

    /// Appends the answer to a `HEAD`, which waits for no event and so knows no length.
    pub fn push_head_only(&self, out: &mut Vec<u8>) {
        self.push_fields(out);
        append::push(out, &["\r\n"]);
    }

    fn push_fields(&self, out: &mut Vec<u8>) {
        append::push(
            out,
            &[
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n",
                "X-Content-Type-Options: nosniff\r\n",
            ],
        );
        if let Some(id) = self.next {
            debug_assert!(resume::is_plain(id));
            append::push(out, &["Encke-Next: ", id, "\r\n"]);
        }
        if self.gap {
            append::push(out, &["Encke-Gap: true\r\n"]);
        }
        if let Some(retry_ms) = self.retry_ms {
            append::push(out, &[&format!("Encke-Retry: {retry_ms}\r\n")]);
        }
        if let Some(places) = self.members {
            append::push(out, &["Encke-Members: ", places, "\r\n"]);
        }
        match self.keep_alive_seconds {
            Some(seconds) => append::push(out, &[&format!("Keep-Alive: timeout={seconds}\r\n")]),
            None => append::push(out, &["Connection: close\r\n"]),
        }
        if self.cors.is_some_and(|cors| cors.push(out)) {
            append::push(out, &[response::CORS_EXPOSED]);
        }
    }
}

#[cfg(test)]
mod tests;
