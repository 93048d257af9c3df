//! Standard error, which the log goes to, as who serves writes there: a reader that stands still
//! holds up nobody.
//!
//! Whoever reads the log may be stopped, or its disk be full. A write into its pipe would wait for
//! it then, and with it the API. So what finds no room is lost, and counted, and how much that was
//! is told as soon as there is room again.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use sys::pipe::has_room;

/// How long a reader that has read all so far may take.
const PATIENCE_MS: i32 = 100;

/// What a pipe takes in one piece.
const PIECE_BYTES: usize = 4_096;

/// Lines that found no room since the last one that did. Relaxed: it is told and nothing else.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Standard error.
pub(super) struct Errors;

impl Errors {
    /// Writes one line, with its end, or gives it up.
    fn line(text: &[u8]) -> io::Result<()> {
        let mut out = io::stderr().lock();
        let lost = LOST.load(Ordering::Relaxed);
        let patience = if lost == 0 { PATIENCE_MS } else { 0 };
        if !has_room(&out, patience)? {
            LOST.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        if lost > 0 {
            LOST.fetch_sub(lost, Ordering::Relaxed);
            out.write_all(super::lost_lines(lost).as_bytes())?;
        }
        for piece in text.chunks(PIECE_BYTES) {
            if !has_room(&out, PATIENCE_MS)? {
                // Its end is missing.
                LOST.fetch_add(1, Ordering::Relaxed);
                break;
            }
            out.write_all(piece)?;
        }
        Ok(())
    }
}

impl Write for Errors {
    /// What writes logs writes a line at a time.
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        Errors::line(text).map(|()| text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
