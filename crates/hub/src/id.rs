//! Ids: the 8-byte value that the whole server computes with, and the text that people write.
//!
//! An integer id *is* its number. Every other name is interned (see [`crate::Names`]) and carries
//! the top bit. So a table of users with integer ids needs no dictionary at all.

use std::fmt;

use thiserror::Error;

use crate::key::{self, KEY_BYTES_MAX};

/// The longest id, in bytes of UTF-8.
pub const ID_BYTES_MAX: usize = 255;

const NAME_BIT: u64 = 1 << 63;

/// Of a name's counter: set where the name is a [key](crate::Key). No store has it, since its ids
/// are counted from 0 and no key is ever stored.
const KEY_BIT: u64 = 1 << 31;

/// Anything that can be online or be followed, in 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct Id(u64);

impl Id {
    /// What stands where there is no id: no text has it.
    pub const NONE: Id = Id(u64::MAX);

    /// The id of an integer below 2^63; `None` above (such a number is treated as a name).
    pub fn integer(number: u64) -> Option<Id> {
        (number & NAME_BIT == 0).then_some(Id(number))
    }

    /// The number, when this id is one.
    pub fn as_integer(self) -> Option<u64> {
        (self.0 & NAME_BIT == 0).then_some(self.0)
    }

    /// Whether a name stands behind this id.
    pub fn is_name(self) -> bool {
        self.0 & NAME_BIT != 0
    }

    /// The value as it is stored on disk.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The inverse of [`Id::to_bits`].
    pub fn from_bits(bits: u64) -> Id {
        Id(bits)
    }

    /// Whether a [key](crate::Key) stands behind it, and no id that clients can name. Such a one is
    /// followed by nobody and shown to nobody as an id.
    pub fn is_key(self) -> bool {
        self.0 & (NAME_BIT | KEY_BIT) == NAME_BIT | KEY_BIT && self != Id::NONE
    }

    /// The id of an interned name: 31 bits of its hash, 31 bits of a counter that tells apart names
    /// that share them, and whether it is a key.
    pub(crate) fn name(hash: u32, counter: u32, is_key: bool) -> Id {
        let counter = u64::from(counter) & (KEY_BIT - 1);
        let mark = if is_key { KEY_BIT } else { 0 };
        Id(NAME_BIT | u64::from(hash & 0x7fff_ffff) << 32 | mark | counter)
    }

    /// The counter that [`Id::name`] put in.
    pub(crate) fn name_counter(self) -> u32 {
        (self.0 & (KEY_BIT - 1)) as u32
    }

    /// What stays the same when a name is freed and gets another id: its hash, and whether it is a
    /// key. Of an integer all.
    pub(crate) fn lasting_bits(self) -> u64 {
        if self.is_name() { self.0 & !(KEY_BIT - 1) } else { self.0 }
    }

    /// The bits of the name's hash that [`Id::name`] put in.
    pub(crate) fn name_hash(self) -> u32 {
        ((self.0 & !NAME_BIT) >> 32) as u32
    }
}

/// An id as a part of a record of which there are many: it makes that no longer by its alignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NarrowId([u32; 2]);

impl NarrowId {
    /// The id.
    pub fn id(self) -> Id {
        let [low, high] = self.0.map(u64::from);
        Id(high << 32 | low)
    }
}

impl From<Id> for NarrowId {
    fn from(Id(bits): Id) -> NarrowId {
        NarrowId([bits as u32, (bits >> 32) as u32])
    }
}

/// An id as text, checked against the rules, not yet looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdText<'a> {
    /// Canonical decimal digits below 2^63: `0`, `123`, not `007`.
    Integer(Id),
    /// Every other valid id.
    Name(&'a str),
}

/// Why a text is not an id. The message tells the client what to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum IdError {
    /// No bytes at all.
    #[error("an id must not be empty")]
    Empty,
    /// Over [`ID_BYTES_MAX`].
    #[error("an id has at most 255 bytes of UTF-8, this one has {0}")]
    TooLong(usize),
    /// A character that the rules exclude.
    #[error(
        "an id must not contain {0:?}: no control characters, no white space, no '/', '?', '#'"
    )]
    Forbidden(char),
}

impl<'a> IdText<'a> {
    /// Checks `text` against the rules for ids: 1 to 255 bytes, no control characters, no white
    /// space, no `/`, `?`, `#`.
    pub fn parse(text: &'a str) -> Result<IdText<'a>, IdError> {
        if text.is_empty() {
            return Err(IdError::Empty);
        }
        if text.len() > ID_BYTES_MAX {
            return Err(IdError::TooLong(text.len()));
        }
        if let Some(integer) = canonical_integer(text) {
            return Ok(IdText::Integer(integer));
        }
        let forbidden =
            |c: char| c.is_control() || c.is_whitespace() || matches!(c, '/' | '?' | '#');
        match text.chars().find(|&c| forbidden(c)) {
            Some(c) => Err(IdError::Forbidden(c)),
            None => Ok(IdText::Name(text)),
        }
    }
}

impl<'a> IdText<'a> {
    /// The text of an id or of a [key](crate::Key), for what the server says to itself. What
    /// clients name is read by [`IdText::parse`], which knows no keys.
    pub fn of_key(text: &'a str) -> Result<IdText<'a>, IdError> {
        if !key::is_key(text) {
            return IdText::parse(text);
        }
        if text.len() > KEY_BYTES_MAX {
            return Err(IdError::TooLong(text.len()));
        }
        match text.chars().find(|c| c.is_control()) {
            Some(c) => Err(IdError::Forbidden(c)),
            None => Ok(IdText::Name(text)),
        }
    }

    /// Whether it is a key.
    pub fn is_key(self) -> bool {
        matches!(self, IdText::Name(name) if key::is_key(name))
    }
}

impl fmt::Display for IdText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdText::Integer(id) => id.to_bits().fmt(f),
            IdText::Name(name) => f.write_str(name),
        }
    }
}

/// `007` and numbers from 2^63 on are names, so that every text has exactly one id.
fn canonical_integer(text: &str) -> Option<Id> {
    let digits = text.as_bytes();
    if digits.len() > 19 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    if digits[0] == b'0' && digits.len() > 1 {
        return None;
    }
    Id::integer(text.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_digits_are_integers_and_the_rest_are_names() {
        for (text, number) in [("0", 0), ("123", 123), ("9223372036854775807", i64::MAX as u64)] {
            assert_eq!(IdText::parse(text), Ok(IdText::Integer(Id::integer(number).unwrap())));
        }
        for text in ["007", "-5", "1e3", "9223372036854775808", "99999999999999999999", "photo:789"]
        {
            assert_eq!(IdText::parse(text), Ok(IdText::Name(text)));
        }
    }

    #[test]
    fn key_is_told_from_ids_by_its_number() {
        let (id, key) = (Id::name(5, 7, false), Id::name(5, 7, true));
        assert!(key.is_key() && !id.is_key() && key.is_name());
        assert!(!Id::NONE.is_key() && !Id::integer(KEY_BIT).unwrap().is_key());
        assert_ne!(id.lasting_bits(), key.lasting_bits());
        assert_eq!(key.lasting_bits(), Id::name(5, 8, true).lasting_bits());
        assert_eq!((key.name_counter(), key.name_hash()), (7, 5));
        assert!(!Id::name(5, u32::MAX, false).is_key(), "however many there were");
        for id in [key, id, Id::NONE, Id(1 << 32 | 7)] {
            assert_eq!(NarrowId::from(id).id(), id);
        }
        assert_eq!(IdText::of_key("#c1:a\nb"), Err(IdError::Forbidden('\n')));
        let long = "#".repeat(KEY_BYTES_MAX + 1);
        assert_eq!(IdText::of_key(&long), Err(IdError::TooLong(KEY_BYTES_MAX + 1)));
        assert_eq!(IdText::of_key("a b"), Err(IdError::Forbidden(' ')), "no key and no id");
    }

    #[test]
    fn bad_ids_say_what_is_wrong() {
        assert_eq!(IdText::parse(""), Err(IdError::Empty));
        assert_eq!(IdText::parse(&"é".repeat(128)), Err(IdError::TooLong(256)));
        for c in ['/', '?', '#', ' ', '\t', '\n', '\0', '\u{7f}', '\u{85}', '\u{2028}', '\u{a0}'] {
            assert_eq!(IdText::parse(&format!("a{c}b")), Err(IdError::Forbidden(c)));
        }
        assert!(IdText::parse(&"x".repeat(255)).is_ok());
    }
}
