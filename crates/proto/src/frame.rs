//! Encoded bytes that many connections share.

use crate::Framing;
use crate::chunked::SizeLine;

/// One event as one transport sends it, made once and written to every connection as it stands.
///
/// The bytes are laid out as a chunk, `<size>\r\n<body>\r\n`, and the body inside it is at the
/// same time the form for HTTP/1.0. So one allocation serves both framings and a delivery copies
/// nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    bytes: Box<[u8]>,
    /// Where the body starts; it ends two bytes before the end of `bytes`.
    body_start: usize,
}

const CRLF: &[u8] = b"\r\n";

impl Frame {
    /// A whole chunk of `parts` one after the other. They must not all be empty: an empty chunk
    /// would end the stream.
    pub(crate) fn chunk(parts: &[&[u8]]) -> Frame {
        let size_line = SizeLine::new(parts.iter().map(|part| part.len()).sum());
        Frame::new(size_line.as_bytes(), parts)
    }

    /// The end of a chunk whose size line and first bytes differ from connection to connection.
    pub(crate) fn chunk_tail(parts: &[&[u8]]) -> Frame {
        Frame::new(b"", parts)
    }

    fn new(head: &[u8], parts: &[&[u8]]) -> Frame {
        let body_len: usize = parts.iter().map(|part| part.len()).sum();
        let mut bytes = Vec::with_capacity(head.len() + body_len + CRLF.len());
        bytes.extend_from_slice(head);
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        bytes.extend_from_slice(CRLF);
        Frame { bytes: bytes.into_boxed_slice(), body_start: head.len() }
    }

    /// The bytes to write to a connection.
    pub fn for_framing(&self, framing: Framing) -> &[u8] {
        match framing {
            Framing::Chunked => &self.bytes,
            Framing::Close => self.body(),
        }
    }

    /// The bytes without their chunk.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.body_start..self.bytes.len() - CRLF.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_is_size_line_body_and_line_end() {
        let frame = Frame::chunk(&[b"hello, ", b"", b"world"]);
        assert_eq!(frame.for_framing(Framing::Chunked), b"c\r\nhello, world\r\n");
        assert_eq!(frame.for_framing(Framing::Close), b"hello, world");
    }

    #[test]
    fn tail_has_no_size_line() {
        let tail = Frame::chunk_tail(&[b"world"]);
        assert_eq!(tail.for_framing(Framing::Chunked), b"world\r\n");
        assert_eq!(tail.for_framing(Framing::Close), b"world");
    }
}
