//! The index of a sealed segment: which of its records has a key, in a file beside it.
//!
//! A place is 12 bytes: the key's hash, the record's offset, and what the key's records up to this
//! one weigh. So how many records of a key there are and how many bytes is known without a look at
//! them. The places are sorted, in pages of 4 KiB that each have a sum and are read when they are
//! asked for. In memory are small tables: the first place of each page, a number for each 32 KiB of
//! records, and a filter of a byte for each key. So a segment without the key is mostly passed over
//! without a read.
//!
//! An index is not synced: one that is lost or damaged is made again from its segment.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use crate::disk::{DiskFile, is_lost};
use crate::format::{long, word};
use crate::record::sum;

const MAGIC: &[u8; 8] = b"ENCKEIDX";
const VERSION: u32 = 2;
/// Bytes of a place in a page, with its weight.
const ENTRY: usize = 12;
/// So that a page has 4 KiB at most.
pub(crate) const PAGE_PLACES: usize = 340;
const PAGE: usize = 8 + ENTRY * PAGE_PLACES;
/// Records between two numbers in memory.
const STEP_BYTES: u32 = 32 << 10;
/// Bits that a key sets in the filter: with 8 bits a key, one look-up of 46 is for nothing.
const FILTER_BITS: u64 = 5;
const HEAD: usize = 80;

/// What a segment has, beside its places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Where what counts in the segment ends.
    pub(crate) end: u64,
    /// Its first number, or the one that it began with if none is left.
    pub(crate) first: u64,
    /// The greatest number known to be in it or before it.
    pub(crate) last: u64,
    pub(crate) records: u64,
    /// When the last of its records expires.
    pub(crate) expires_ms: u64,
    /// Between these numbers, both exclusive, records are lost.
    pub(crate) lost: Vec<(u64, u64)>,
}

/// A key's hash and an offset, as they are sorted.
pub(crate) fn place(hash: u32, offset: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(offset)
}

enum Pages {
    File(Arc<dyn DiskFile>),
    /// Its file could not be written.
    Memory(Vec<u8>),
}

pub(crate) struct Index {
    pub(crate) summary: Summary,
    pub(crate) bytes: u64,
    /// Numbers and the offsets of their records, some 32 KiB apart.
    steps: Vec<(u64, u32)>,
    fences: Vec<u64>,
    filter: Vec<u8>,
    pages_at: u64,
    pages: Pages,
}

/// A page is not what was written.
#[derive(Debug)]
pub(crate) struct Damaged;

impl Index {
    /// The bytes of an index of these places, each with what its key's records up to it weigh, and
    /// of all numbers with their offsets.
    pub(crate) fn encode(
        summary: &Summary,
        numbers: impl Iterator<Item = (u64, u32)>,
        mut places: Vec<(u64, u32)>,
    ) -> Vec<u8> {
        places.sort_unstable();
        let steps = steps(numbers);
        let filter = filter(&places);
        let pages: Vec<&[(u64, u32)]> = places.chunks(PAGE_PLACES).collect();
        let mut out = Vec::with_capacity(HEAD + filter.len() + (pages.len() + 1) * PAGE);
        out.extend_from_slice(MAGIC);
        for number in [VERSION, 0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let Summary { end, first, last, records, expires_ms, lost } = summary;
        let counts = [lost.len(), steps.len(), pages.len(), filter.len()];
        let small = HEAD + 16 * lost.len() + 12 * steps.len() + 8 * pages.len() + filter.len();
        for number in [small as u64, *end, *first, *last, *records, *expires_ms] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        counts.iter().for_each(|count| out.extend_from_slice(&(*count as u32).to_le_bytes()));
        for (after, before) in lost {
            out.extend_from_slice(&after.to_le_bytes());
            out.extend_from_slice(&before.to_le_bytes());
        }
        for (number, offset) in &steps {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&offset.to_le_bytes());
        }
        pages.iter().for_each(|page| out.extend_from_slice(&page[0].0.to_le_bytes()));
        out.extend_from_slice(&filter);
        debug_assert_eq!(out.len(), small);
        let total = sum(0, &out[16..]);
        out[12..16].copy_from_slice(&total.to_le_bytes());
        for (at, page) in pages.iter().enumerate() {
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&(page.len() as u32).to_le_bytes());
            for (place, weight) in *page {
                out.extend_from_slice(&place.to_le_bytes());
                out.extend_from_slice(&weight.to_le_bytes());
            }
            let sum = sum(at as u32, &out[start + 4..]);
            out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
        }
        out
    }

    /// An index whose file could not be written, kept in memory until the next start.
    pub(crate) fn in_memory(bytes: Vec<u8>) -> Option<Index> {
        let mut index = Index::small(&bytes, 0)?;
        index.pages = Pages::Memory(bytes.get(index.pages_at as usize..)?.to_vec());
        Some(index)
    }

    /// Reads the small tables; none if they are not what was written.
    pub(crate) fn load(file: Arc<dyn DiskFile>) -> io::Result<Option<Index>> {
        let length = file.len()?;
        if length < HEAD as u64 {
            return Ok(None);
        }
        let mut head = [0; 24];
        file.read_at(&mut head, 0)?;
        let small = long(&head, 16);
        if small > length {
            return Ok(None);
        }
        let mut bytes = vec![0; small as usize];
        file.read_at(&mut bytes, 0)?;
        let Some(mut index) = Index::small(&bytes, length) else { return Ok(None) };
        index.pages = Pages::File(file);
        Ok(Some(index))
    }

    fn small(bytes: &[u8], length: u64) -> Option<Index> {
        let head = bytes.get(..HEAD)?;
        let small = usize::try_from(long(head, 16)).ok()?;
        let covered = bytes.get(16..small)?;
        if head[..8] != *MAGIC || word(head, 8) != VERSION || word(head, 12) != sum(0, covered) {
            return None;
        }
        let [lost, steps, pages, filter] = [64, 68, 72, 76].map(|at| word(head, at) as usize);
        let rest = bytes.get(HEAD..small)?;
        let (lost, rest) = rest.split_at_checked(16 * lost)?;
        let (steps, rest) = rest.split_at_checked(12 * steps)?;
        let (fences, rest) = rest.split_at_checked(8 * pages)?;
        let summary = Summary {
            end: long(head, 24),
            first: long(head, 32),
            last: long(head, 40),
            records: long(head, 48),
            expires_ms: long(head, 56),
            lost: lost.chunks_exact(16).map(|pair| (long(pair, 0), long(pair, 8))).collect(),
        };
        Some(Index {
            summary,
            bytes: length,
            steps: steps.chunks_exact(12).map(|step| (long(step, 0), word(step, 8))).collect(),
            fences: fences.chunks_exact(8).map(|fence| long(fence, 0)).collect(),
            filter: rest.get(..filter)?.to_vec(),
            pages_at: small as u64,
            pages: Pages::Memory(Vec::new()),
        })
    }

    /// Offsets between which all records of numbers above and below these lie.
    pub(crate) fn range(&self, (above, below): (u64, u64)) -> (u32, u32) {
        let start = self.steps.partition_point(|(number, _)| *number <= above);
        let end = self.steps.partition_point(|(number, _)| *number < below);
        let low = start.checked_sub(1).map_or(0, |at| self.steps[at].1);
        (low, self.steps.get(end).map_or(u32::MAX, |(_, offset)| *offset))
    }

    /// The record at the offset has this number at most.
    pub(crate) fn number_at_most(&self, offset: u32) -> u64 {
        let next = self.steps.partition_point(|(_, at)| *at <= offset);
        self.steps.get(next).map_or(self.summary.last, |(number, _)| number - 1)
    }

    /// At most that many of the key's offsets in the range, which excludes its end, from its start
    /// on or from its end back.
    pub(crate) fn find(
        &self,
        hash: u32,
        (low, high): (u32, u32),
        newest_first: bool,
        most: usize,
    ) -> io::Result<Result<Vec<u32>, Damaged>> {
        let mut found = Vec::new();
        if !self.may_have(hash) {
            return Ok(Ok(found));
        }
        let (low, high) = (place(hash, low), place(hash, high));
        let first = self.fences.partition_point(|fence| *fence <= low).saturating_sub(1);
        let end = self.fences.partition_point(|fence| *fence < high).max(first);
        for step in 0..end - first {
            let page = if newest_first { end - 1 - step } else { first + step };
            let Some(bytes) = self.page(page)? else { return Ok(Err(Damaged)) };
            let places = entries(&bytes);
            let start = places.partition_point(|entry| weighed(entry).0 < low);
            let end = places.partition_point(|entry| weighed(entry).0 < high);
            let inside = places[start..end.max(start)].iter();
            // The offset is the lower half.
            let inside = inside.map(|entry| weighed(entry).0 as u32);
            let left = most - found.len();
            match newest_first {
                true => found.extend(inside.rev().take(left)),
                false => found.extend(inside.take(left)),
            }
            if found.len() == most {
                break;
            }
        }
        Ok(Ok(found))
    }

    /// Whether it may have the key: no, or perhaps.
    pub(crate) fn may_have(&self, hash: u32) -> bool {
        let mut bits = filter_bits(hash, self.filter.len());
        !self.fences.is_empty() && bits.all(|bit| self.filter[bit / 8] & 1 << (bit % 8) != 0)
    }

    /// The last page that begins below the place.
    pub(crate) fn last_page_below(&self, place: u64) -> Option<usize> {
        self.fences.partition_point(|fence| *fence < place).checked_sub(1)
    }

    /// A page with its sum and its count; none if it is not what was written.
    pub(crate) fn page(&self, page: usize) -> io::Result<Option<Cow<'_, [u8]>>> {
        let start = page * PAGE;
        let bytes = match &self.pages {
            Pages::Memory(bytes) => {
                Cow::Borrowed(&bytes[start.min(bytes.len())..bytes.len().min(start + PAGE)])
            }
            Pages::File(file) => {
                let left = self.bytes.saturating_sub(self.pages_at + start as u64);
                let mut bytes = vec![0; left.min(PAGE as u64) as usize];
                match file.read_at(&mut bytes, self.pages_at + start as u64) {
                    Err(error) if is_lost(&error) => return Ok(None),
                    result => result?,
                }
                Cow::Owned(bytes)
            }
        };
        let whole = bytes.len() >= 8 && word(&bytes, 0) == sum(page as u32, &bytes[4..]);
        Ok(whole.then_some(bytes))
    }
}

/// The places of a page.
pub(crate) fn entries(page: &[u8]) -> &[[u8; ENTRY]] {
    page.get(8..).unwrap_or_default().as_chunks::<ENTRY>().0
}

/// A place, and what the records of its key up to it weigh.
pub(crate) fn weighed(entry: &[u8; ENTRY]) -> (u64, u32) {
    (long(entry, 0), word(entry, 8))
}

/// What an index of that many places takes at most, when each has a key of its own.
pub(crate) fn bytes_at_most(places: u64, segment_bytes: u64) -> u64 {
    let pages = places.div_ceil(PAGE_PLACES as u64);
    HEAD as u64 + 64 + 13 * places + 16 * pages + 12 * (segment_bytes / u64::from(STEP_BYTES) + 2)
}

fn steps(numbers: impl Iterator<Item = (u64, u32)>) -> Vec<(u64, u32)> {
    let mut steps: Vec<(u64, u32)> = Vec::new();
    for (number, offset) in numbers {
        if steps.last().is_none_or(|(_, last)| offset - last >= STEP_BYTES) {
            steps.push((number, offset));
        }
    }
    steps
}

fn filter(sorted: &[(u64, u32)]) -> Vec<u8> {
    let hashes = || sorted.chunk_by(|(one, _), (next, _)| one >> 32 == next >> 32);
    let mut filter = vec![0; hashes().count()];
    for hash in hashes().map(|places| (places[0].0 >> 32) as u32) {
        for bit in filter_bits(hash, filter.len()) {
            filter[bit / 8] |= 1 << (bit % 8);
        }
    }
    filter
}

/// The bits of a key in a filter (double hashing: Kirsch and Mitzenmacher, 2006).
fn filter_bits(hash: u32, bytes: usize) -> impl Iterator<Item = usize> {
    let mixed = u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (start, step) = (mixed >> 32, mixed & 0xffff_ffff | 1);
    (0..FILTER_BITS).map(move |at| (start.wrapping_add(at * step) % (bytes as u64 * 8)) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, RealDisk};

    fn sample() -> (Vec<u8>, Vec<(u32, u32)>) {
        // Key 9 is in every second record: its places fill many pages.
        let keys: Vec<(u32, u32)> = (0..5000u32)
            .map(|at| (if at % 2 == 0 { 9 } else { at.wrapping_mul(2_654_435_761) }, 64 + at * 100))
            .collect();
        let numbers = keys.iter().enumerate().map(|(at, (_, offset))| (at as u64 + 1, *offset));
        let summary = Summary {
            end: 600_000,
            first: 1,
            last: 5000,
            records: 5000,
            expires_ms: 7,
            lost: vec![(3, 5)],
        };
        let places = keys.iter().map(|(hash, offset)| (place(*hash, *offset), 1)).collect();
        (Index::encode(&summary, numbers, places), keys)
    }

    fn all(index: &Index, hash: u32, newest_first: bool, most: usize) -> Vec<u32> {
        index.find(hash, (0, u32::MAX), newest_first, most).expect("reads").expect("is whole")
    }

    #[test]
    fn index_finds_each_key_both_ways_and_passes_over_most_others() {
        let (bytes, keys) = sample();
        let index = Index::in_memory(bytes).expect("it is whole");
        let of_nine: Vec<u32> =
            keys.iter().filter(|(hash, _)| *hash == 9).map(|(_, offset)| *offset).collect();
        assert_eq!(all(&index, 9, false, usize::MAX), of_nine);
        assert_eq!(
            all(&index, 9, true, 3),
            of_nine.iter().rev().take(3).copied().collect::<Vec<_>>()
        );
        for (hash, offset) in keys.iter().filter(|(hash, _)| *hash != 9) {
            assert_eq!(all(&index, *hash, true, 5), [*offset]);
        }
        let (low, high) = index.range((2000, 3001));
        let some = index.find(9, (low, high), false, 10_000).expect("reads").expect("is whole");
        let number = |offset: &u32| u64::from((offset - 64) / 100) + 1;
        assert!(
            (2001..=3000).filter(|at| at % 2 == 1).all(|at| some.iter().any(|o| number(o) == at))
        );
        assert!(some.len() < 500 + 2 * 400, "{}", some.len());
        for (_, offset) in &keys {
            let most = index.number_at_most(*offset);
            assert!(most >= number(offset) && most <= number(offset) + 400);
        }
        let passed = |hash: u32| {
            !filter_bits(hash, index.filter.len())
                .all(|bit| index.filter[bit / 8] & 1 << (bit % 8) != 0)
        };
        let passed =
            (0..10_000u32).filter(|at| passed(at.wrapping_mul(40_503) ^ 0x5555_5555)).count();
        assert!(passed > 9_000, "{passed}");
    }

    #[test]
    fn index_with_any_byte_flipped_is_refused_or_its_page_is() {
        let (bytes, keys) = sample();
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("index");
        let small = long(&bytes, 16) as usize;
        for at in (0..bytes.len()).step_by(97) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            std::fs::write(&path, flipped).expect("it writes");
            let index = Index::load(RealDisk.open(&path).expect("opens")).expect("it reads");
            assert_eq!(index.is_none(), at < small, "byte {at}");
            let Some(index) = index else { continue };
            // Key 9 and every hundredth other one reach all pages.
            let damaged = keys.iter().skip(1).step_by(101).chain(&keys[..1]).filter(|(hash, _)| {
                index.find(*hash, (0, u32::MAX), false, usize::MAX).expect("reads").is_err()
            });
            assert!(damaged.count() > 0, "byte {at}");
        }
    }
}
