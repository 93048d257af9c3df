//! A record's bytes: `u32 len | u32 crc | u64 number | u64 at | u64 expires | u8 kind | u8 keys |
//! (u16 length | key)… | body`, little endian; `len` counts what follows the sum, which covers it.

/// Bytes before what the sum covers.
pub(crate) const PREFIX: usize = 8;
const FIXED: usize = 26;

/// What is appended.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its number; numbers ascend strictly.
    pub number: u64,
    /// When it was posted, in milliseconds since 1970.
    pub at_ms: u64,
    /// From when on it is not answered and may be dropped; `u64::MAX` is never.
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
    /// The bytes it takes on disk, which is what to reserve for it.
    pub fn bytes(&self) -> usize {
        let keys: usize = self.keys.iter().map(|key| 2 + key.len()).sum();
        PREFIX + FIXED + keys + self.body.len()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.keys.len() <= usize::from(u8::MAX), "at most 255 keys a record");
        let start = out.len();
        out.extend_from_slice(&[0; PREFIX]);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.at_ms.to_le_bytes());
        out.extend_from_slice(&self.expires_ms.to_le_bytes());
        out.extend_from_slice(&[self.kind, self.keys.len() as u8]);
        for key in self.keys {
            let length = u16::try_from(key.len()).expect("a key has at most 65,535 bytes");
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(key);
        }
        out.extend_from_slice(self.body);
        let covered = &out[start + PREFIX..];
        let length = u32::try_from(covered.len()).expect("a record is shorter than 4 GiB");
        let sum = crc32fast::hash(covered);
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        out[start + 4..start + PREFIX].copy_from_slice(&sum.to_le_bytes());
    }
}

/// The record at the start of the bytes and the bytes it takes; none if it is torn or damaged.
pub(crate) fn decode(bytes: &[u8]) -> Option<(RecordRead, usize)> {
    let length = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let sum = u32::from_le_bytes(bytes.get(4..PREFIX)?.try_into().ok()?);
    let covered = bytes.get(PREFIX..PREFIX.checked_add(length)?)?;
    if length < FIXED || crc32fast::hash(covered) != sum {
        return None;
    }
    let word = |at: usize| Some(u64::from_le_bytes(covered.get(at..at + 8)?.try_into().ok()?));
    let mut keys = Vec::with_capacity(usize::from(covered[25]));
    let mut at = FIXED;
    for _ in 0..covered[25] {
        let length = usize::from(u16::from_le_bytes(covered.get(at..at + 2)?.try_into().ok()?));
        keys.push(covered.get(at + 2..at + 2 + length)?.to_vec());
        at += 2 + length;
    }
    let record = RecordRead {
        number: word(0)?,
        at_ms: word(8)?,
        expires_ms: word(16)?,
        keys,
        kind: covered[24],
        body: covered[at..].to_vec(),
    };
    Some((record, PREFIX + length))
}
