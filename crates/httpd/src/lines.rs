//! The lines of an NDJSON body, cut out of its pieces as they come.
//!
//! A line that stands whole in one piece is a slice of it. Only one that is split over pieces is
//! put together, up to [`LINE_BYTES_MAX`]. A longer line is told as such and skipped, so the memory
//! of a stream does not depend on what its sender does.

use bytes::{Bytes, BytesMut};

use super::body::BYTE_ORDER_MARK;
use super::problem::ApiProblem;

/// The longest line. The longest event that a server with default settings takes is a sixteenth.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// One line that is not blank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Counted from 1, blank lines too.
    pub number: u64,
    /// Its bytes without the line end; `None` when it is longer than [`LINE_BYTES_MAX`].
    pub text: Option<Bytes>,
}

impl Line {
    /// Its text, or the problem that there is too much of it.
    pub fn text(&self) -> Result<&[u8], ApiProblem> {
        self.text.as_deref().ok_or_else(|| {
            let detail = format!("Line {} is longer than {LINE_BYTES_MAX} bytes.", self.number);
            ApiProblem::too_large(detail).on_line(self.number)
        })
    }
}

/// Cuts lines. Line ends are LF or CR LF.
#[derive(Debug, Default)]
pub struct Lines {
    piece: Bytes,
    /// The start of a line that did not end in its piece.
    partial: BytesMut,
    /// The line under way is too long and is being skipped.
    skipping: bool,
    number: u64,
}

impl Lines {
    /// Those of a body whose first line has the number `first`.
    pub fn from(first: u64) -> Lines {
        Lines { number: first.saturating_sub(1), ..Lines::default() }
    }

    /// Takes the next piece of the body, when [`Lines::next_line`] has no more lines.
    pub fn push(&mut self, piece: Bytes) {
        debug_assert!(self.piece.is_empty(), "the piece before is used up");
        self.piece = piece;
    }

    /// The number of the line that [`Lines::next_line`] would look at.
    pub fn next_number(&self) -> u64 {
        self.number + 1
    }

    /// The next line that ends in the pieces so far.
    pub fn next_line(&mut self) -> Option<Line> {
        while !self.piece.is_empty() {
            let Some(end) = memchr::memchr(b'\n', &self.piece) else {
                let rest = std::mem::take(&mut self.piece);
                self.keep(&rest);
                return None;
            };
            let line = self.piece.split_to(end + 1).slice(..end);
            if let Some(line) = self.complete(line) {
                return Some(line);
            }
        }
        None
    }

    /// The last line, when the body ended without a line end.
    pub fn finish(&mut self) -> Option<Line> {
        debug_assert!(self.piece.is_empty(), "all pieces are used up");
        if self.partial.is_empty() && !self.skipping { None } else { self.complete(Bytes::new()) }
    }

    fn keep(&mut self, part: &[u8]) {
        self.skipping |= self.partial.len() + part.len() > LINE_BYTES_MAX;
        if self.skipping {
            self.partial.clear();
        } else {
            self.partial.extend_from_slice(part);
        }
        debug_assert!(self.partial.len() <= LINE_BYTES_MAX);
    }

    /// The line that ends with `end`; `None` when it is blank.
    fn complete(&mut self, end: Bytes) -> Option<Line> {
        self.number += 1;
        let number = self.number;
        let too_long = self.skipping || self.partial.len() + end.len() > LINE_BYTES_MAX;
        self.skipping = false;
        if too_long {
            self.partial.clear();
            return Some(Line { number, text: None });
        }
        let text = if self.partial.is_empty() {
            end
        } else {
            self.partial.extend_from_slice(&end);
            self.partial.split().freeze()
        };
        debug_assert!(self.partial.is_empty() && text.len() <= LINE_BYTES_MAX);
        let text = if text.ends_with(b"\r") { text.slice(..text.len() - 1) } else { text };
        let marked = number == 1 && text.starts_with(BYTE_ORDER_MARK);
        let text = if marked { text.slice(BYTE_ORDER_MARK.len()..) } else { text };
        let blank = text.iter().all(u8::is_ascii_whitespace);
        (!blank).then_some(Line { number, text: Some(text) })
    }
}

#[cfg(test)]
mod tests;
