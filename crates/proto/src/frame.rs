//! Encoded bytes that many connections share.

use crate::Carrier;
use crate::chunked::{SIZE_LINE_MAX, SizeLine};

/// One event as one transport sends it, made once and written to every connection as it stands.
///
/// The bytes of an HTTP stream are laid out as a chunk, `<size>\r\n<body>\r\n`, and the body inside
/// it is at the same time the form for HTTP/1.0. So one allocation serves all carriers and a
/// delivery copies nothing. A transport that is no HTTP stream has the body alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    bytes: Box<[u8]>,
    /// Bytes before the body: a size line, when there is one.
    before: u8,
    /// Bytes after the body: a line end, when there is one.
    after: u8,
}

const CRLF: &[u8] = b"\r\n";
const _: () = assert!(SIZE_LINE_MAX <= u8::MAX as usize);

impl Frame {
    /// A whole chunk of `parts` one after the other. They must not all be empty: an empty chunk
    /// would end the stream.
    pub(crate) fn chunk(parts: &[&[u8]]) -> Frame {
        let size_line = SizeLine::new(parts.iter().map(|part| part.len()).sum());
        Frame::new(size_line.as_bytes(), parts, CRLF)
    }

    /// Appends the bytes that [`Frame::chunk`] of the same `parts` has for `carrier`.
    pub(crate) fn push_chunk(parts: &[&[u8]], carrier: Carrier, out: &mut Vec<u8>) {
        let size_line = SizeLine::new(parts.iter().map(|part| part.len()).sum());
        let (before, after) = match carrier {
            Carrier::Chunked => (size_line.as_bytes(), CRLF),
            Carrier::Close | Carrier::WebSocket => (&b""[..], &b""[..]),
        };
        out.extend_from_slice(before);
        parts.iter().for_each(|part| out.extend_from_slice(part));
        out.extend_from_slice(after);
    }

    /// The end of a chunk whose size line and first bytes differ from connection to connection.
    pub(crate) fn chunk_tail(parts: &[&[u8]]) -> Frame {
        Frame::new(b"", parts, CRLF)
    }

    /// One frame under every carrier: `parts` one after the other.
    pub fn bare(parts: &[&[u8]]) -> Frame {
        Frame::new(b"", parts, b"")
    }

    /// A part that follows others, `body` behind a `separator`; the first one goes out as the
    /// [body](Frame::body) alone.
    pub(crate) fn after(separator: &[u8], body: &[u8]) -> Frame {
        Frame::new(separator, &[body], b"")
    }

    fn new(before: &[u8], parts: &[&[u8]], after: &[u8]) -> Frame {
        let body_len: usize = parts.iter().map(|part| part.len()).sum();
        let mut bytes = Vec::with_capacity(before.len() + body_len + after.len());
        bytes.extend_from_slice(before);
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        bytes.extend_from_slice(after);
        // Neither is longer than a size line, which fits (asserted above).
        let (before, after) = (before.len() as u8, after.len() as u8);
        Frame { bytes: bytes.into_boxed_slice(), before, after }
    }

    /// The bytes to write to a connection.
    pub fn for_carrier(&self, carrier: Carrier) -> &[u8] {
        match carrier {
            Carrier::Chunked => &self.bytes,
            Carrier::Close | Carrier::WebSocket => self.body(),
        }
    }

    /// The bytes without their chunk.
    pub fn body(&self) -> &[u8] {
        &self.bytes[usize::from(self.before)..self.bytes.len() - usize::from(self.after)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_is_size_line_body_and_line_end() {
        let frame = Frame::chunk(&[b"hello, ", b"", b"world"]);
        assert_eq!(frame.for_carrier(Carrier::Chunked), b"c\r\nhello, world\r\n");
        assert_eq!(frame.for_carrier(Carrier::Close), b"hello, world");
    }

    #[test]
    fn tail_has_no_size_line() {
        let tail = Frame::chunk_tail(&[b"world"]);
        assert_eq!(tail.for_carrier(Carrier::Chunked), b"world\r\n");
        assert_eq!(tail.for_carrier(Carrier::Close), b"world");
    }

    #[test]
    fn bare_frame_is_the_same_under_both_framings() {
        let frame = Frame::bare(&[b"hello", b"world"]);
        for carrier in Carrier::ALL {
            assert_eq!(frame.for_carrier(carrier), b"helloworld");
        }
    }

    #[test]
    fn part_has_its_separator_before_it() {
        let frame = Frame::after(b", ", b"world");
        assert_eq!(frame.for_carrier(Carrier::Chunked), b", world");
        assert_eq!(frame.for_carrier(Carrier::Close), b"world");
    }
}
