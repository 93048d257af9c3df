//! Where a stream is resumed, in few bytes: the id of the event that its listener heard last.

use std::fmt::{self, Write};
use std::num::NonZeroU8;

/// An event's id, of the length that Encke's have. What it says is nobody's business.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor(NonZeroU8, [u8; Cursor::LEN - 1]);

impl Cursor {
    const LEN: usize = 16;

    /// Takes note of an id that can stand in a header and in a query as it is.
    pub(super) fn read(id: &[u8]) -> Option<Cursor> {
        let (&first, rest) =
            id.split_first().filter(|_| id.iter().all(u8::is_ascii_alphanumeric))?;
        Some(Cursor(NonZeroU8::new(first)?, rest.try_into().ok()?))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char(char::from(self.0.get()))?;
        f.write_str(str::from_utf8(&self.1).expect("letters and digits are ASCII"))
    }
}
