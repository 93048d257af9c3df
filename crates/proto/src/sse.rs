//! Server-Sent Events (WHATWG HTML, section 9.2), writing side.
//!
//! Each event has an `id` line, so that a browser that reconnects says which it heard last, and
//! exactly one `data` line, since an event's JSON is one line.

use crate::Frame;

/// A comment, then the blank line that also keeps clients content which split on blank lines.
pub(crate) const KEEP_ALIVE: &[u8] = b":\n\n";
pub(crate) const KEEP_ALIVE_CHUNK: &[u8] = b"3\r\n:\n\n\r\n";

/// The event `id` whose JSON is `json`. Neither may hold a line break, which would tear the event
/// in two; the hub makes both such that they do not.
pub fn event(id: &str, json: &str) -> Frame {
    Frame::chunk(&[b"id: ", id.as_bytes(), b"\ndata: ", json.as_bytes(), b"\n\n"])
}
