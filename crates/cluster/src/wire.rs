//! Here is how numbers, texts and ids stand in records and messages: big endian, or LEB128 for
//! those that are mostly small. Each value has one form, so what was read is written again byte by
//! byte.

use crate::limits::{ID_BYTES_MAX, SEQUENCE_MAX};

/// What is wrong with bytes that should be a record or a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// It ends too early.
    #[error("it ends too early")]
    Short,
    /// Something stands behind its end.
    #[error("something stands behind its end")]
    Long,
    /// It is of a later format than this node reads.
    #[error("a newer version has written it")]
    Newer,
    /// Its format or kind is none that this node knows.
    #[error("its format or kind is not known here")]
    Unknown,
    /// A text is no UTF-8, or too long, or an id in a form that is not its own.
    #[error("a text or an id is not well formed")]
    Text,
    /// A number is out of its range, or written in more bytes than it takes.
    #[error("a number is out of its range")]
    Number,
}

/// A place in the log that somebody names.
pub(crate) fn sequence(number: u64) -> Result<u64, Malformed> {
    if number <= SEQUENCE_MAX { Ok(number) } else { Err(Malformed::Number) }
}

/// Takes values from the front of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(crate) fn u128(&mut self) -> Result<u128, Malformed> {
        Ok(u128::from_be_bytes(self.array()?))
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Number),
        }
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for place in 0..10 {
            let byte = self.u8()?;
            // The tenth byte has one bit left; a last byte of zero says nothing.
            if place == 9 && byte > 1 || place > 0 && byte == 0 {
                return Err(Malformed::Number);
            }
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed::Number)
    }

    /// A number of items that follow, of which each takes at least one byte: never more than there
    /// are bytes, so that nobody reserves memory for what does not come.
    pub(crate) fn items(&mut self, max: usize) -> Result<usize, Malformed> {
        let items = usize::try_from(self.varint()?).map_err(|_| Malformed::Number)?;
        if items > max {
            return Err(Malformed::Number);
        }
        if items > self.0.len() {
            return Err(Malformed::Short);
        }
        Ok(items)
    }

    /// A text of a length that a varint says.
    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        let len = self.varint()?;
        self.text_of(len)
    }

    fn text_of(&mut self, len: u64) -> Result<String, Malformed> {
        let len = usize::try_from(len).ok().filter(|&len| len <= ID_BYTES_MAX);
        let bytes = self.bytes(len.ok_or(Malformed::Text)?)?;
        Ok(str::from_utf8(bytes).map_err(|_| Malformed::Text)?.to_owned())
    }

    /// An id; see [`put_id`].
    pub(crate) fn id(&mut self) -> Result<String, Malformed> {
        let head = self.varint()?;
        if head & 1 == 0 {
            return Ok((head >> 1).to_string());
        }
        let text = self.text_of(head >> 1)?;
        if integer(&text).is_some() { Err(Malformed::Text) } else { Ok(text) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Long) }
    }
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// An id that is a number in its one text form stands there as twice the number, any other text as
/// twice its length and one, and the text: an id of eight digits takes four bytes.
pub(crate) fn put_id(out: &mut Vec<u8>, id: &str) {
    if let Some(number) = integer(id) {
        debug_assert_eq!(number.to_string(), id, "another id would be read");
        put_varint(out, number << 1);
    } else {
        put_varint(out, (id.len() as u64) << 1 | 1);
        out.extend_from_slice(id.as_bytes());
    }
}

/// The number that `id` is the decimal text of, if it is one below 2^63.
fn integer(id: &str) -> Option<u64> {
    let digits = id.as_bytes();
    let plain = digits.iter().all(u8::is_ascii_digit)
        && (digits.len() == 1 || digits.first() != Some(&b'0'));
    if digits.is_empty() || !plain {
        return None;
    }
    id.parse().ok().filter(|&number: &u64| number < 1 << 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_as_they_were_in_one_form() {
        let texts = ["0", "7", "00", "007", "-1", "+1", "rj", "", "9223372036854775807"];
        let more = ["9223372036854775808", "18446744073709551616", "\u{e9}t\u{e9}", "1 "];
        for text in texts.into_iter().chain(more) {
            let mut out = Vec::new();
            put_id(&mut out, text);
            let mut reader = Reader::new(&out);
            assert_eq!(reader.id().as_deref(), Ok(text));
            assert_eq!(reader.end(), Ok(()));
        }
        // The text "7" instead of the number 7.
        assert_eq!(Reader::new(&[3, b'7']).id(), Err(Malformed::Text));
    }

    #[test]
    fn varints_have_one_form() {
        for value in [0, 1, 127, 128, 300, 1 << 35, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(Reader::new(&out).varint(), Ok(value));
            assert_eq!(Reader::new(&out[..out.len() - 1]).varint(), Err(Malformed::Short));
        }
        assert_eq!(Reader::new(&[0x80, 0]).varint(), Err(Malformed::Number));
        assert_eq!(Reader::new(&[0xff; 11]).varint(), Err(Malformed::Number));
    }
}
