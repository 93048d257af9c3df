//! Standard error, which the log goes to, as who serves writes there: a reader that stands still
//! holds up nobody.
//!
//! Whoever reads the log may be stopped, or its disk be full. A write into its pipe would wait for
//! it then, and with it the API. So what finds no room is lost, and counted, and how much that was
//! is told as soon as there is room again.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use sys::pipe::has_room;

/// How long a reader that has read all so far may take.
const PATIENCE_MS: i32 = 100;

/// What a pipe takes in one piece.
const PIECE_BYTES: usize = 4_096;

/// What of the log was lost.
static LOSS: Mutex<LostLines> = Mutex::new(LostLines { lines: 0, is_cut: false });

/// What found no room since the last line that did.
#[derive(Debug)]
struct LostLines {
    lines: u64,
    /// The last one was begun, and has no end.
    is_cut: bool,
}

impl LostLines {
    /// Writes one line, with its end, or gives it up.
    fn line(&mut self, out: &mut (impl Write + AsFd), text: &[u8]) -> io::Result<()> {
        let patience = if self.lines == 0 { PATIENCE_MS } else { 0 };
        if !has_room(out, patience)? {
            self.lines += 1;
            return Ok(());
        }
        if self.lines > 0 {
            let end = if self.is_cut { "\n" } else { "" };
            out.write_all(format!("{end}{}", super::lost_lines(self.lines)).as_bytes())?;
            *self = LostLines { lines: 0, is_cut: false };
        }
        for piece in text.chunks(PIECE_BYTES) {
            if !has_room(out, PATIENCE_MS)? {
                *self = LostLines { lines: 1, is_cut: true };
                break;
            }
            out.write_all(piece)?;
        }
        Ok(())
    }
}

/// Standard error.
pub(super) struct Errors;

impl Write for Errors {
    /// What writes logs writes a line at a time.
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut out = io::stderr().lock();
        let mut loss = LOSS.lock().unwrap_or_else(PoisonError::into_inner);
        loss.line(&mut out, text).map(|()| text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};

    use super::*;

    #[test]
    fn line_that_is_cut_ends_before_what_is_told_of_it() {
        let (mut reader, mut writer) = pipe().unwrap();
        let mut loss = LostLines { lines: 0, is_cut: false };
        // More than a pipe holds.
        loss.line(&mut writer, &[b'x'; 1 << 20]).unwrap();
        loss.line(&mut writer, b"not a word of it\n").unwrap();
        let mut cut = vec![0; 1 << 16];
        reader.read_exact(&mut cut).unwrap();
        assert_eq!(cut, [b'x'; 1 << 16]);
        loss.line(&mut writer, b"the next\n").unwrap();
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        let lines: Vec<_> = rest.lines().collect();
        let [end, told, next] = lines[..] else { panic!("{rest:?}") };
        assert_eq!((end, next), ("", "the next"));
        assert!(told.contains(" 2 lines of this log were lost"), "{told}");
    }
}
