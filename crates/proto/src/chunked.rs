//! The chunked transfer coding, writing side (RFC 9112, section 7.1).
//!
//! No chunk extensions and no trailers are ever written. Reading is a client's.

/// The last chunk and the empty trailer section: the body ends here, as its sender meant it to.
pub const LAST: &[u8] = b"0\r\n\r\n";

/// The longest size line: 16 hexadecimal digits and CRLF.
pub(crate) const SIZE_LINE_MAX: usize = 18;

/// The line that opens a chunk of `size` bytes, on the stack.
const _: () = {
    assert!(SIZE_LINE_MAX == 2 * size_of::<usize>() + 2);
};

pub(crate) struct SizeLine {
    bytes: [u8; SIZE_LINE_MAX],
    start: usize,
}

impl SizeLine {
    pub(crate) fn new(size: usize) -> SizeLine {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut bytes = [b'\n'; SIZE_LINE_MAX];
        let mut start = SIZE_LINE_MAX - 2;
        bytes[start] = b'\r';
        let mut rest = size;
        loop {
            start -= 1;
            bytes[start] = DIGITS[rest & 15];
            rest >>= 4;
            if rest == 0 {
                return SizeLine { bytes, start };
            }
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// Appends `body` to `out` as one chunk. An empty body appends nothing, since an empty chunk is
/// the end of a stream.
pub fn push(out: &mut Vec<u8>, body: &[u8]) {
    if body.is_empty() {
        return;
    }
    out.extend_from_slice(SizeLine::new(body.len()).as_bytes());
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn size_line_is_the_size_in_hex() {
        for size in [0, 1, 9, 10, 15, 16, 255, 256, 4096, 65_535, usize::MAX] {
            assert_eq!(SizeLine::new(size).as_bytes(), format!("{size:x}\r\n").as_bytes());
        }
    }

    #[test]
    fn chunks_decode_to_what_went_in() {
        let bodies: [&[u8]; 5] = [b"a", b"", &[b'x'; 16], &[0; 70_000], b"\r\n0\r\n\r\n"];
        let mut wire = Vec::new();
        for body in bodies {
            push(&mut wire, body);
        }
        wire.extend_from_slice(LAST);
        let mut decoded = Vec::new();
        chunked_transfer::Decoder::new(&wire[..]).read_to_end(&mut decoded).unwrap();
        assert_eq!(decoded, bodies.concat());
    }
}
