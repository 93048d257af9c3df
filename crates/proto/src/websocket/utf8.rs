//! UTF-8 (RFC 3629) of a text that comes in pieces, which may tear a character apart.
//!
//! What is wrong is found at its first byte, not when the text is whole (RFC 6455, section 8.1 asks
//! for no more than the latter). A client that sends megabytes of garbage is done with at once.

/// Where the text so far ends: mostly between two characters.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Utf8 {
    /// The start of a character whose rest has not come, in `torn[..len]`.
    torn: [u8; 3],
    len: u8,
}

/// A byte that cannot stand where it stands.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct NotUtf8;

impl Utf8 {
    /// Takes in the next piece of the text.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Result<(), NotUtf8> {
        let mut rest = piece;
        while self.len > 0 {
            let [byte, after @ ..] = rest else { return Ok(()) };
            self.mend(*byte)?;
            rest = after;
        }
        match str::from_utf8(rest) {
            Ok(_) => Ok(()),
            Err(error) if error.error_len().is_some() => Err(NotUtf8),
            Err(error) => {
                let torn = &rest[error.valid_up_to()..];
                debug_assert!((1..=3).contains(&torn.len()), "four bytes are a character or none");
                self.torn[..torn.len()].copy_from_slice(torn);
                self.len = torn.len() as u8;
                Ok(())
            }
        }
    }

    /// Adds one byte to the character that was torn.
    fn mend(&mut self, byte: u8) -> Result<(), NotUtf8> {
        let len = usize::from(self.len);
        debug_assert!((1..=3).contains(&len), "nothing is torn");
        let mut character = [0; 4];
        character[..len].copy_from_slice(&self.torn[..len]);
        character[len] = byte;
        match str::from_utf8(&character[..=len]) {
            Ok(_) => self.len = 0,
            Err(error) if error.error_len().is_some() => return Err(NotUtf8),
            // Four bytes are a character or an error, so there is room for this one.
            Err(_) => {
                self.torn[len] = byte;
                self.len += 1;
            }
        }
        Ok(())
    }

    /// The start of a character whose rest has not come.
    pub(crate) fn torn(&self) -> &[u8] {
        &self.torn[..usize::from(self.len)]
    }

    /// A text that ends with the start of this character; `None` where that is none.
    pub(crate) fn of_torn(torn: &[u8]) -> Option<Utf8> {
        let mut utf8 = Utf8::default();
        utf8.feed(torn).ok()?;
        (usize::from(utf8.len) == torn.len()).then_some(utf8)
    }

    /// Whether the text may end here.
    pub(crate) fn is_whole(self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn is_text(pieces: &[&[u8]]) -> bool {
        let mut utf8 = Utf8::default();
        pieces.iter().all(|piece| utf8.feed(piece).is_ok()) && utf8.is_whole()
    }

    #[test]
    fn any_three_pieces_are_what_the_whole_is() {
        const BYTES: [u8; 16] = [
            b'a', b'z', 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1, 0xc2, 0xe0, 0xed, 0xef, 0xf0,
            0xf4, 0xf5,
        ];
        testing::seeded(20_000, |rng| {
            let bytes: Vec<u8> = match rng.bool() {
                true => testing::text(rng, 6).into_bytes(),
                false => (0..rng.usize(..8)).map(|_| BYTES[rng.usize(..BYTES.len())]).collect(),
            };
            let cut = rng.usize(..=bytes.len());
            let again = rng.usize(cut..=bytes.len());
            let pieces = [&bytes[..cut], &bytes[cut..again], &bytes[again..]];
            assert_eq!(is_text(&pieces), str::from_utf8(&bytes).is_ok(), "{pieces:x?}");
        });
    }

    /// The prefix that no character begins with is refused, however short it is.
    #[test]
    fn error_is_found_at_its_first_byte() {
        for (good, bad) in [
            (&b""[..], 0x80),
            (b"", 0xc0),
            (b"", 0xf5),
            (b"\xe0", 0x9f),
            (b"\xed", 0xa0),
            (b"\xf0", 0x8f),
            (b"\xf4", 0x90),
            (b"\xf4\x8f\xbf", b'a'),
        ] {
            let mut utf8 = Utf8::default();
            assert_eq!(utf8.feed(good), Ok(()));
            assert_eq!(utf8.feed(&[bad]), Err(NotUtf8), "{good:x?} {bad:x}");
        }
    }
}
