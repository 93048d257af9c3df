//! Names in terms: atoms, and what carries the name of its node.

use std::borrow::Cow;

/// An atom as it was sent: in UTF-8, or in Latin-1 as OTP 25 still has it where that will do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Atom<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) latin1: bool,
}

impl<'a> Atom<'a> {
    /// Whether it is the atom of this name, which must be ASCII: that is the same in both.
    pub fn is(self, name: &str) -> bool {
        debug_assert!(name.is_ascii());
        self.bytes == name.as_bytes()
    }

    /// Its name. Copied only if it is sent as Latin-1 with other characters than ASCII.
    pub fn text(self) -> Cow<'a, str> {
        match str::from_utf8(self.bytes) {
            Ok(text) if !self.latin1 || self.bytes.is_ascii() => Cow::Borrowed(text),
            _ => Cow::Owned(self.bytes.iter().map(|&byte| char::from(byte)).collect()),
        }
    }
}

/// A process, anywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pid<'a> {
    /// The node that it runs on.
    pub node: Atom<'a>,
    /// The lower part of its number there.
    pub id: u32,
    /// The upper part of its number there.
    pub serial: u32,
    /// Tells the node from one of the same name that ran before.
    pub creation: u32,
}

/// A unique value made by a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference<'a> {
    /// The node that made it.
    pub node: Atom<'a>,
    /// Tells the node from one of the same name that ran before.
    pub creation: u32,
    /// Words of four bytes, greatest byte first.
    pub(super) words: &'a [u8],
}

impl Reference<'_> {
    /// Its words, if they are so many.
    pub fn words<const N: usize>(self) -> Option<[u32; N]> {
        let (words, rest) = self.words.as_chunks::<4>();
        let words: &[[u8; 4]; N] = words.try_into().ok().filter(|_| rest.is_empty())?;
        Some(words.map(u32::from_be_bytes))
    }
}
