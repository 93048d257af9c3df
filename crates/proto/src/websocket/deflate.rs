//! Compressed messages (RFC 7692, `permessage-deflate`), each by itself: neither side refers to an
//! earlier message (`…_no_context_takeover`, section 7.1.1). So an event is compressed once for
//! everybody, and a connection has no window of 32 KiB.
//!
//! Cost: a [`Deflater`] is tables of hundreds of kilobytes, so that one is kept where events come
//! often. Decompressing takes a window of 32 KiB for as long as the call lasts.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::Frame;
use crate::websocket::error::ReadError;
use crate::websocket::frame::FrameHead;
use crate::websocket::head::{FIN, Opcode, RSV1};
use crate::websocket::read::{Received, received};

/// Every compressed message ends in an empty block of which these are the length and its
/// complement; they are not sent (section 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// An empty last block: whatever comes before it must have been whole.
const LAST_BLOCK: [u8; 5] = [1, 0, 0, 0xff, 0xff];

/// Last blocks of one message, with ours: no sender known makes more than one.
const LAST_BLOCKS_MAX: usize = 9;

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
        debug_assert_eq!(self.0.total_in() as usize, bytes.len(), "an event would be cut short");
        debug_assert!(out.ends_with(&TAIL), "section 7.2.1");
        if out.ends_with(&TAIL) {
            out.truncate(out.len() - TAIL.len());
        }
        out
    }
}

/// Decompresses a message (section 7.2.2) that [`Received::Compressed`] tells of, into `out`, which
/// need not be empty before.
///
/// # Errors
/// [`ReadError::TooLong`] past `bytes_max`, as soon as so much is decompressed, however much more
/// there is; [`ReadError::Undecompressable`] or [`ReadError::InvalidUtf8`] for what it is not.
/// Undecompressable is one, too, that refers to an earlier message, against what was agreed.
pub fn inflate<'r>(
    is_text: bool,
    bytes: &[u8],
    bytes_max: usize,
    out: &'r mut Vec<u8>,
) -> Result<Received<'r>, ReadError> {
    out.clear();
    let mut inflating = Inflating { decoder: Decompress::new(false), ends: 0 };
    for piece in [bytes, &TAIL] {
        inflating.read(piece, bytes_max, out)?;
    }
    match inflating.read(&LAST_BLOCK, bytes_max, out)? {
        true => received(is_text, out),
        false => Err(ReadError::Undecompressable),
    }
}

/// A message that is being decompressed.
struct Inflating {
    decoder: Decompress,
    /// Last blocks that have ended.
    ends: usize,
}

impl Inflating {
    /// Says whether the piece ended with the end of a last block.
    fn read(
        &mut self,
        piece: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, ReadError> {
        let decoder = &mut self.decoder;
        debug_assert!(out.len() <= bytes_max);
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
                // Section 7.2.3.4: a sender may end each block as if it were the last. Each takes
                // as long as a new decoder does.
                self.ends += 1;
                if self.ends > LAST_BLOCKS_MAX {
                    return Err(ReadError::Undecompressable);
                }
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
}

#[cfg(test)]
mod tests;
