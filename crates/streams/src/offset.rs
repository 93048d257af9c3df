//! Offsets: where a reader is.
//!
//! An offset is 24 hexadecimal digits: 11 of the stream's creation, which no other stream of the
//! same path shares, and 13 of a place in its file. So they grow byte by byte, and an offset of a
//! stream that was deleted is known as one.

use std::fmt;

/// A place between two appends of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offset {
    /// The stream's own number.
    pub(crate) id: u64,
    /// A place in its file.
    pub(crate) position: u64,
}

/// Where a reader wants to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// At the beginning.
    Beginning,
    /// At the tail of this moment.
    Now,
    /// Behind what it has.
    At(Offset),
}

/// This is no offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this is no offset: send `-1`, `now`, or a Stream-Next-Offset of this server")]
pub struct OffsetFault;

const ID_DIGITS: usize = 11;
const DIGITS: usize = 24;

impl Offset {
    /// Whether both are places in one stream, and not in two that were at one path.
    pub fn is_of_same_stream(self, other: Offset) -> bool {
        self.id == other.id
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:011x}{:013x}", self.id, self.position)
    }
}

impl Start {
    /// Reads what a client has sent.
    ///
    /// # Errors
    /// It is neither one of the two words nor an offset of ours.
    pub fn parse(text: &str) -> Result<Start, OffsetFault> {
        match text {
            "-1" => return Ok(Start::Beginning),
            "now" => return Ok(Start::Now),
            _ => {}
        }
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != DIGITS || !text.bytes().all(is_digit) {
            return Err(OffsetFault);
        }
        let (id, position) = text.split_at(ID_DIGITS);
        let number = |digits| u64::from_str_radix(digits, 16).map_err(|_| OffsetFault);
        Ok(Start::At(Offset { id: number(id)?, position: number(position)? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_grow_byte_by_byte_and_are_read_back() {
        let offset = |position| Offset { id: 0x19a_2b3c_4d5e, position };
        let texts: Vec<String> =
            [8, 9, 10, 16, 255, 1 << 40].map(|position| offset(position).to_string()).into();
        assert!(texts.is_sorted_by(|a, b| a < b));
        assert_eq!(Start::parse(&texts[3]), Ok(Start::At(offset(16))));
        assert_eq!(Start::parse("-1"), Ok(Start::Beginning));
        assert_eq!(Start::parse("now"), Ok(Start::Now));
        for wrong in
            ["", "0", "-2", "NOW", "0,1", "0 1", "+0000000000000000000000a", &texts[0][1..]]
        {
            assert_eq!(Start::parse(wrong), Err(OffsetFault), "{wrong}");
        }
    }
}
