//! Newline-delimited JSON, writing side: one event is one line.

use crate::Frame;

/// An empty line, which a reader of NDJSON skips.
pub(crate) const KEEP_ALIVE: &[u8] = b"\n";
pub(crate) const KEEP_ALIVE_CHUNK: &[u8] = b"1\r\n\n\r\n";

/// The event whose JSON is `json`, which must not hold a line break; the hub makes it such.
pub fn event(json: &str) -> Frame {
    Frame::chunk(&[json.as_bytes(), b"\n"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Carrier;

    #[test]
    fn event_is_one_line() {
        let frame = event(r#"{"id":"1"}"#);
        assert_eq!(frame.for_carrier(Carrier::Close), b"{\"id\":\"1\"}\n");
        assert_eq!(frame.for_carrier(Carrier::Chunked), b"b\r\n{\"id\":\"1\"}\n\r\n");
    }
}
