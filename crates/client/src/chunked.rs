//! The chunked transfer coding, reading side (RFC 9112, section 7.1).
//!
//! The body comes out as slices of the caller's own buffer: nothing is copied and nothing is kept
//! but 16 bytes of state. Chunk extensions and trailer fields are skipped.

/// What was wrong with a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkError {
    /// A size that is no hexadecimal number or has more than 16 digits (section 7.1).
    Size,
    /// No CRLF where one must stand (section 7.1).
    LineEnd,
}

impl std::fmt::Display for ChunkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ChunkError::Size => "a chunk's size is no hexadecimal number",
            ChunkError::LineEnd => "a chunk does not end in CRLF",
        })
    }
}

impl std::error::Error for ChunkError {}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// In the size; how many digits of it were read.
    Size(u8),
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the start of a line after the last chunk.
    TrailerStart,
    Trailer,
    TrailerLf,
    EndLf,
    End,
}

/// Where a reader stands in one chunked body.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    /// Bytes of the chunk that are still to come, or its size as far as it was read.
    left: u64,
    state: State,
}

impl Default for ChunkedDecoder {
    fn default() -> ChunkedDecoder {
        ChunkedDecoder { left: 0, state: State::Size(0) }
    }
}

impl ChunkedDecoder {
    /// The next piece of body in `input`, which is moved past it. `None` when `input` is used up or
    /// the body has [ended](ChunkedDecoder::is_end); a piece is never empty.
    pub fn next<'b>(&mut self, input: &mut &'b [u8]) -> Result<Option<&'b [u8]>, ChunkError> {
        while let [byte, rest @ ..] = *input {
            if self.state == State::Data {
                let len =
                    usize::try_from(self.left).map_or(input.len(), |left| left.min(input.len()));
                let (piece, rest) = input.split_at(len);
                *input = rest;
                self.left -= len as u64;
                if self.left == 0 {
                    self.state = State::DataCr;
                }
                return Ok(Some(piece));
            }
            if self.state == State::End {
                return Ok(None);
            }
            self.state = self.step(*byte)?;
            *input = rest;
        }
        Ok(None)
    }

    /// The last chunk and its trailer section were read: what follows is no part of this body.
    pub fn is_end(&self) -> bool {
        self.state == State::End
    }

    /// The state after one byte of framing.
    fn step(&mut self, byte: u8) -> Result<State, ChunkError> {
        let line_end = |expected: u8, next: State| {
            if byte == expected { Ok(next) } else { Err(ChunkError::LineEnd) }
        };
        match self.state {
            State::Size(digits) => match (byte, digits) {
                (b'\r', 1..) => Ok(State::SizeLf),
                (b';' | b' ' | b'\t', 1..) => Ok(State::Extension),
                _ => {
                    let digit = char::from(byte).to_digit(16).ok_or(ChunkError::Size)?;
                    if digits == 16 {
                        return Err(ChunkError::Size);
                    }
                    self.left = self.left << 4 | u64::from(digit);
                    Ok(State::Size(digits + 1))
                }
            },
            State::Extension if byte == b'\r' => Ok(State::SizeLf),
            State::Extension => Ok(State::Extension),
            State::SizeLf if self.left == 0 => line_end(b'\n', State::TrailerStart),
            State::SizeLf => line_end(b'\n', State::Data),
            State::DataCr => line_end(b'\r', State::DataLf),
            State::DataLf => line_end(b'\n', State::Size(0)),
            State::TrailerStart if byte == b'\r' => Ok(State::EndLf),
            State::Trailer if byte == b'\r' => Ok(State::TrailerLf),
            State::TrailerStart | State::Trailer => Ok(State::Trailer),
            State::TrailerLf => line_end(b'\n', State::TrailerStart),
            State::EndLf => line_end(b'\n', State::End),
            State::Data | State::End => unreachable!("no framing is read in these states"),
        }
    }
}

#[cfg(test)]
mod tests;
