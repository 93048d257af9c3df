//! A segment's file: its name, its header, and the marks between its records.
//!
//! The header stands there twice, so that no one damaged byte takes a segment away:
//! `"ENCKELOG" | u32 version | u32 salt | u64 previous | u32 sequence | u32 sum`. `previous` is the
//! last number before the segment, so a file that is gone leaves a hole that is seen. The salt
//! begins the sums of its records: bytes of a body that look like a record are never taken for one.
//!
//! A mark (`u32::MAX | u32 sum | u64 last`) stands where a sync ended: all before it was on disk
//! when it was written, up to number `last`.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

use crate::OpenError;
use crate::record::sum;

pub(crate) const HEADER: u64 = 2 * COPY as u64;
const COPY: usize = 32;
pub(crate) const MARK: usize = 16;
const MAGIC: &[u8; 8] = b"ENCKELOG";
const VERSION: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) salt: u32,
    /// The last number before the segment, or 0.
    pub(crate) previous: u64,
    pub(crate) sequence: u32,
}

impl Header {
    pub(crate) fn bytes(&self) -> [u8; HEADER as usize] {
        let mut bytes = [0; HEADER as usize];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.salt.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.previous.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.sequence.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..28]);
        bytes[28..32].copy_from_slice(&sum.to_le_bytes());
        bytes.copy_within(..COPY, COPY);
        bytes
    }

    /// The header at the start of the bytes, if one of its copies is whole.
    pub(crate) fn read(path: &Path, bytes: &[u8]) -> Result<Option<Header>, OpenError> {
        for copy in bytes.chunks_exact(COPY).take(2) {
            if copy[..8] != *MAGIC || word(copy, 28) != crc32fast::hash(&copy[..28]) {
                continue;
            }
            if word(copy, 8) != VERSION {
                return Err(OpenError::Format { file: path.to_owned() });
            }
            let previous = long(copy, 16);
            return Ok(Some(Header { salt: word(copy, 12), previous, sequence: word(copy, 24) }));
        }
        Ok(None)
    }
}

/// A salt that no client knows.
pub(crate) fn new_salt() -> u32 {
    RandomState::new().hash_one(0) as u32
}

pub(crate) fn mark(salt: u32, offset: u64, last: u64) -> [u8; MARK] {
    let mut bytes = [0xff; MARK];
    bytes[8..].copy_from_slice(&last.to_le_bytes());
    bytes[4..8].copy_from_slice(&mark_sum(salt, offset, last).to_le_bytes());
    bytes
}

fn mark_sum(salt: u32, offset: u64, last: u64) -> u32 {
    let mut covered = [0; 16];
    covered[..8].copy_from_slice(&offset.to_le_bytes());
    covered[8..].copy_from_slice(&last.to_le_bytes());
    sum(!salt, &covered)
}

/// The last number of the mark at the place in a segment's bytes, if there is one.
pub(crate) fn mark_at(bytes: &[u8], at: usize, salt: u32) -> Option<u64> {
    let bytes = bytes.get(at..at + MARK)?;
    let last = long(bytes, 8);
    let is = word(bytes, 0) == u32::MAX && word(bytes, 4) == mark_sum(salt, at as u64, last);
    is.then_some(last)
}

/// The little-endian number at a place that is there.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The little-endian number of eight bytes at a place that is there.
pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

pub(crate) fn name(sequence: u32, first: u64) -> String {
    format!("{sequence:010}-{first:020}.log")
}

/// The sequence and the first number that a segment's name tells. The greatest sequences are none
/// of ours: others must have room behind it.
pub(crate) fn parse_name(path: &Path) -> Option<(u32, u64)> {
    let (sequence, first) = path.file_name()?.to_str()?.strip_suffix(".log")?.split_once('-')?;
    let sequence = sequence.parse().ok().filter(|&sequence| sequence < u32::MAX / 2)?;
    Some((sequence, first.parse().ok()?))
}

/// The file of a segment's index.
pub(crate) fn index_path(segment: &Path) -> PathBuf {
    segment.with_extension("idx")
}
