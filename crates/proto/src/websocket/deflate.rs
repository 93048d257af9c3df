//! Compressed messages (RFC 7692, `permessage-deflate`), each by itself: neither side refers to an
//! earlier message (`…_no_context_takeover`, section 7.1.1). So an event is compressed once for
//! everybody, and a connection has no window of 32 KiB.
//!
//! Cost: a [`Deflater`] is tables of hundreds of kilobytes, so that one is kept where events come
//! often. Decompressing takes a window of 32 KiB for as long as the call lasts.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::Frame;
use crate::websocket::frame::FrameHead;
use crate::websocket::head::{FIN, Opcode, RSV1};
use crate::websocket::read::{ReadError, Received, received};

/// Every compressed message ends in an empty block of which these are the length and its
/// complement; they are not sent (section 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// An empty last block: whatever comes before it must have been whole.
const LAST_BLOCK: [u8; 5] = [1, 0, 0, 0xff, 0xff];

/// Output is made room for in steps of this, so that a few bytes of input claim little.
const STEP: usize = 4096;

/// Compresses events.
pub struct Deflater(Compress);

impl Default for Deflater {
    fn default() -> Deflater {
        // No zlib header (section 7.2.1).
        Deflater(Compress::new(Compression::default(), false))
    }
}

impl std::fmt::Debug for Deflater {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Deflater")
    }
}

impl Deflater {
    /// The event whose JSON is `json`, as one compressed text message; uncompressed where that is
    /// shorter, which section 6 leaves to the sender.
    pub fn event(&mut self, json: &str) -> Frame {
        let compressed = self.compress(json.as_bytes());
        if compressed.len() >= json.len() {
            return super::event(json);
        }
        let head = FrameHead::new(FIN | RSV1 | Opcode::Text as u8, 0, compressed.len());
        Frame::bare(&[head.as_bytes(), &compressed])
    }

    /// The payload of a compressed message (section 7.2.1).
    fn compress(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.0.reset();
        let mut out = Vec::with_capacity(bytes.len() / 2 + 64);
        loop {
            let read = self.0.total_in() as usize;
            let flushed = self.0.compress_vec(&bytes[read..], &mut out, FlushCompress::Sync);
            debug_assert!(flushed.is_ok(), "memory to memory, nothing can fail");
            let all_read = self.0.total_in() as usize == bytes.len();
            // Room that is left says that there was nothing more to write.
            if flushed.is_err() || (all_read && out.len() < out.capacity()) {
                break;
            }
            out.reserve(out.len());
        }
        if out.ends_with(&TAIL) {
            out.truncate(out.len() - TAIL.len());
        }
        out
    }
}

/// Decompresses a message (section 7.2.2) that [`Received::Compressed`] tells of, into `out`, which
/// need not be empty before. One that refers to an earlier message, against what was agreed, reads
/// zeros there.
///
/// # Errors
/// [`ReadError::TooLong`] past `bytes_max`, as soon as so much is decompressed, however much more
/// there is; [`ReadError::Undecompressable`] or [`ReadError::InvalidUtf8`] for what it is not.
pub fn inflate<'r>(
    is_text: bool,
    bytes: &[u8],
    bytes_max: usize,
    out: &'r mut Vec<u8>,
) -> Result<Received<'r>, ReadError> {
    out.clear();
    let mut decoder = Decompress::new(false);
    for piece in [bytes, &TAIL] {
        inflate_piece(&mut decoder, piece, bytes_max, out)?;
    }
    match inflate_piece(&mut decoder, &LAST_BLOCK, bytes_max, out)? {
        true => received(is_text, out),
        false => Err(ReadError::Undecompressable),
    }
}

/// Says whether the piece ended with the end of a last block.
fn inflate_piece(
    decoder: &mut Decompress,
    piece: &[u8],
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> Result<bool, ReadError> {
    let mut input = piece;
    let mut ended = false;
    while !input.is_empty() || out.len() == out.capacity() {
        if out.len() == out.capacity() {
            out.reserve_exact((bytes_max - out.len() + 1).min(STEP));
        }
        let (total_in, len) = (decoder.total_in(), out.len());
        let status = decoder.decompress_vec(input, out, FlushDecompress::None);
        let status = status.map_err(|_| ReadError::Undecompressable)?;
        if out.len() > bytes_max {
            return Err(ReadError::TooLong);
        }
        let read = (decoder.total_in() - total_in) as usize;
        input = &input[read..];
        ended = status == Status::StreamEnd;
        if ended {
            // Section 7.2.3.4: a sender may end each block as if it were the last.
            decoder.reset(false);
            if input.is_empty() {
                break;
            }
        } else if read == 0 && out.len() == len {
            break;
        }
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn inflated(bytes: &[u8], bytes_max: usize) -> Result<String, ReadError> {
        let mut out = Vec::new();
        match inflate(true, bytes, bytes_max, &mut out)? {
            Received::Text(text) => Ok(text.to_owned()),
            other => panic!("{other:?}"),
        }
    }

    /// Sections 7.2.3.1 to 7.2.3.6. The second message of 7.2.3.2 refers to the first, so it does
    /// not say what it said there.
    #[test]
    fn examples_of_the_rfc_are_read() {
        let table: [(&str, &[u8], Result<&str, ReadError>); 6] = [
            ("one block", b"\xf2\x48\xcd\xc9\xc9\x07\x00", Ok("Hello")),
            ("earlier window", b"\xf2\x00\x11\x00\x00", Ok("H\0\0\0\0")),
            ("no compression", b"\x00\x05\x00\xfa\xffHello\x00", Ok("Hello")),
            ("last block", b"\xf3\x48\xcd\xc9\xc9\x07\x00\x00", Ok("Hello")),
            ("two blocks", b"\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", Ok("Hello")),
            ("empty", b"\x00", Ok("")),
        ];
        for (case, bytes, expected) in table {
            assert_eq!(inflated(bytes, 100), expected.map(str::to_owned), "{case}");
        }
        assert_eq!(Deflater::default().compress(b"Hello"), b"\xf2\x48\xcd\xc9\xc9\x07\x00");
        assert_eq!(Deflater::default().compress(b""), b"\x00");
    }

    #[test]
    fn what_was_compressed_is_read_back() {
        let mut deflater = Deflater::default();
        testing::seeded(500, |rng| {
            let text = testing::text(rng, 200).repeat(rng.usize(..200));
            let compressed = deflater.compress(text.as_bytes());
            assert_eq!(inflated(&compressed, text.len()), Ok(text.clone()));
            if !text.is_empty() {
                assert_eq!(inflated(&compressed, text.len() - 1), Err(ReadError::TooLong));
            }
        });
    }

    #[test]
    fn event_is_compressed_where_that_makes_it_shorter() {
        let mut deflater = Deflater::default();
        let long = format!("{{\"data\":\"{}\"}}", "again and ".repeat(50));
        let frame = deflater.event(&long);
        let [first, len, payload @ ..] = frame.body() else { panic!("a head") };
        assert_eq!((*first, usize::from(*len)), (0xc1, payload.len()));
        assert!(payload.len() < 60, "{} bytes", payload.len());
        assert_eq!(inflated(payload, 1000), Ok(long));
        assert_eq!(deflater.event("{}"), crate::websocket::event("{}"));
    }

    /// A few bytes that decompress to much are refused at the bound, and take no more than that.
    #[test]
    fn decompression_bomb_is_too_long() {
        let bomb = Deflater::default().compress(&vec![b'x'; 50 << 20]);
        assert!(bomb.len() < 60_000, "{} bytes", bomb.len());
        let mut out = Vec::new();
        let result = inflate(true, &bomb, 4096, &mut out);
        assert_eq!(result, Err(ReadError::TooLong));
        assert!(out.capacity() <= 2 * STEP, "{} bytes", out.capacity());
    }

    #[test]
    fn broken_messages_are_refused() {
        let whole = Deflater::default().compress("κόσμε, again and again and again".as_bytes());
        for len in 0..whole.len() {
            let result = inflated(&whole[..len], 1000);
            assert!(result.is_err(), "{len} bytes gave {result:?}");
        }
        testing::seeded(5_000, |rng| {
            let noise: Vec<u8> = (0..rng.usize(..40)).map(|_| rng.u8(..)).collect();
            if let Ok(text) = inflated(&noise, 1000) {
                assert!(text.len() <= 1000);
            }
        });
        let not_text = Deflater::default().compress(b"\xff\xff\xff");
        assert_eq!(inflated(&not_text, 10), Err(ReadError::InvalidUtf8));
    }
}
