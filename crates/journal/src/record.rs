//! A record's bytes: `u32 len | u32 sum | number | at | life | u8 kind | u8 keys`, then
//! `length | key` for each key, then the body; little endian.
//!
//! `len` counts what follows the sum, which covers it and begins with the segment's salt. `number`,
//! `at`, `life` and `length` are variable-length integers of seven bits a byte; `life` is 0 for
//! what never expires, else the milliseconds from `at` to the expiry and one. A record of one key
//! takes some 30 bytes beside the key and the body.

/// Bytes before what the sum covers.
pub(crate) const PREFIX: usize = 8;
/// What the sum covers has at least five numbers of a byte.
const FIXED_MIN: usize = 5;

/// What is appended.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its number; numbers ascend strictly.
    pub number: u64,
    /// When it was posted, in milliseconds since 1970.
    pub at_ms: u64,
    /// From when on it is not answered and may be dropped, not before `at_ms`; `u64::MAX` is never.
    pub expires_ms: u64,
    /// The keys it is found by: at most 255, each at most 65,535 bytes.
    pub keys: &'a [&'a [u8]],
    /// The user's own mark.
    pub kind: u8,
    /// The user's bytes.
    pub body: &'a [u8],
}

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRead {
    /// Its number.
    pub number: u64,
    /// When it was posted, in milliseconds since 1970.
    pub at_ms: u64,
    /// From when on it is not answered.
    pub expires_ms: u64,
    /// The keys it is found by.
    pub keys: Vec<Vec<u8>>,
    /// The user's own mark.
    pub kind: u8,
    /// The user's bytes.
    pub body: Vec<u8>,
}

impl Record<'_> {
    fn lifetime(&self) -> u64 {
        match self.expires_ms {
            u64::MAX => 0,
            expires_ms => expires_ms.saturating_sub(self.at_ms) + 1,
        }
    }

    /// The bytes it takes on disk, which is what to reserve for it.
    pub fn bytes(&self) -> usize {
        let numbers = width(self.number) + width(self.at_ms) + width(self.lifetime());
        PREFIX + numbers + 2 + self.weight()
    }

    /// The bytes of its keys, with their lengths, and of its body.
    pub(crate) fn weight(&self) -> usize {
        let keys: usize = self.keys.iter().map(|key| width(key.len() as u64) + key.len()).sum();
        keys + self.body.len()
    }

    pub(crate) fn encode(&self, salt: u32, out: &mut Vec<u8>) {
        assert!(self.keys.len() <= usize::from(u8::MAX), "at most 255 keys a record");
        let start = out.len();
        out.extend_from_slice(&[0; PREFIX]);
        for number in [self.number, self.at_ms, self.lifetime()] {
            put(number, out);
        }
        out.extend_from_slice(&[self.kind, self.keys.len() as u8]);
        for key in self.keys {
            assert!(key.len() <= usize::from(u16::MAX), "a key has at most 65,535 bytes");
            put(key.len() as u64, out);
            out.extend_from_slice(key);
        }
        out.extend_from_slice(self.body);
        let covered = &out[start + PREFIX..];
        let length = u32::try_from(covered.len()).expect("a record is shorter than 4 GiB");
        let sum = sum(salt, covered);
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        out[start + 4..start + PREFIX].copy_from_slice(&sum.to_le_bytes());
    }
}

/// A record in the bytes that it was read from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) number: u64,
    at_ms: u64,
    pub(crate) expires_ms: u64,
    kind: u8,
    keys: u8,
    /// The keys and the body.
    rest: &'a [u8],
}

impl<'a> View<'a> {
    /// The keys, and after the last one the body.
    fn parts(&self) -> (Vec<&'a [u8]>, &'a [u8]) {
        let mut keys = Vec::with_capacity(usize::from(self.keys));
        let mut rest = self.rest;
        for _ in 0..self.keys {
            let Some((key, after)) = key(rest) else { break };
            keys.push(key);
            rest = after;
        }
        (keys, rest)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.rest;
        (0..self.keys).map_while(move |_| {
            let (key, after) = key(rest)?;
            rest = after;
            Some(key)
        })
    }

    /// As [`Record::weight`].
    pub(crate) fn weight(&self) -> u32 {
        self.rest.len() as u32
    }

    pub(crate) fn to_read(self) -> RecordRead {
        let (keys, body) = self.parts();
        RecordRead {
            number: self.number,
            at_ms: self.at_ms,
            expires_ms: self.expires_ms,
            keys: keys.into_iter().map(<[u8]>::to_vec).collect(),
            kind: self.kind,
            body: body.to_vec(),
        }
    }
}

/// The bytes that the record at the start of these takes, by its own word.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    (length >= FIXED_MIN).then_some(PREFIX.checked_add(length)?)
}

/// The record at the start of the bytes and the bytes it takes; none if it is torn or damaged.
pub(crate) fn decode(bytes: &[u8], salt: u32) -> Option<(View<'_>, usize)> {
    let length = length(bytes)?;
    let expected = u32::from_le_bytes(bytes.get(4..PREFIX)?.try_into().ok()?);
    let covered = bytes.get(PREFIX..length)?;
    if sum(salt, covered) != expected {
        return None;
    }
    parse(bytes)
}

/// As [`decode`], of bytes that never left the memory of this process.
pub(crate) fn parse(bytes: &[u8]) -> Option<(View<'_>, usize)> {
    let length = length(bytes)?;
    let rest = bytes.get(PREFIX..length)?;
    let (number, rest) = take(rest)?;
    let (at_ms, rest) = take(rest)?;
    let (lifetime, rest) = take(rest)?;
    let (&[kind, keys], rest) = rest.split_first_chunk()?;
    let expires_ms = match lifetime {
        0 => u64::MAX,
        lifetime => at_ms.saturating_add(lifetime - 1),
    };
    let view = View { number, at_ms, expires_ms, kind, keys, rest };
    (view.keys().count() == usize::from(keys)).then_some((view, length))
}

pub(crate) fn sum(salt: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(salt);
    hasher.update(bytes);
    hasher.finalize()
}

/// What an index knows of a key.
pub(crate) fn hash(key: &[u8], salt: u32) -> u32 {
    xxhash_rust::xxh3::xxh3_64_with_seed(key, u64::from(salt)) as u32
}

fn key(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = take(bytes)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

fn width(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

fn put(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f).checked_shl(7 * at as u32)?;
        if byte & 0x80 == 0 {
            return Some((number, &bytes[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_of_any_numbers_reads_as_it_was_written_and_no_shorter() {
        for number in [1, 0x7f, 0x80, u64::from(u32::MAX), u64::MAX] {
            for (at_ms, expires_ms) in [(0, u64::MAX), (5, 5), (1 << 40, (1 << 40) + 604_800_000)] {
                let keys: &[&[u8]] = &[b"", b"key", &[7; 300]];
                let record = Record { number, at_ms, expires_ms, keys, kind: 9, body: b"body" };
                let mut bytes = Vec::new();
                record.encode(3, &mut bytes);
                assert_eq!(bytes.len(), record.bytes());
                let (view, length) = decode(&bytes, 3).expect("it reads");
                assert_eq!(view.weight() as usize, record.weight());
                let read = view.to_read();
                assert_eq!(length, bytes.len());
                assert_eq!((read.number, read.at_ms, read.expires_ms), (number, at_ms, expires_ms));
                assert_eq!(
                    (read.keys, read.kind, read.body),
                    (keys.iter().map(|key| key.to_vec()).collect(), 9, b"body".to_vec())
                );
                assert!(decode(&bytes, 4).is_none(), "another segment's salt");
                assert!((0..bytes.len()).all(|end| decode(&bytes[..end], 3).is_none()));
            }
        }
    }
}
