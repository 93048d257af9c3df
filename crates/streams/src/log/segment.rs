//! What stands in a segment of the log: groups, each written at once and on disk before the next.
//!
//! A group begins with a sector of the disk, so that nothing is written into a sector twice. Its
//! head says which generation of the segment it is of, and its number in it. What an older
//! generation has left behind the last group is none of it. The checksum is seeded by a number that
//! no client knows: bytes of a client are never taken for a group.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::file::FileName;

/// Groups are multiples of it: what a disk writes as a whole.
pub(super) const SECTOR: usize = 512;

/// The first bytes of a group; the last but one is the version of its form.
const MAGIC: &[u8; 8] = b"ENCKEL1\n";

/// Magic, checksum, generation, salt, number, and the length of what follows.
pub(super) const HEAD_BYTES: usize = 6 * 8;

/// Name, number and place, time, and length of what is appended.
pub(super) const ENTRY_HEAD_BYTES: usize = 20 + 3 * 8 + LEN_BYTES;
const LEN_BYTES: usize = 4;

/// One append to one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry<'b> {
    pub(crate) name: FileName,
    /// The number of the stream.
    pub(crate) id: u64,
    /// Where in its file.
    pub(crate) position: u64,
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    pub(crate) bytes: &'b [u8],
}

impl Entry<'_> {
    /// Writes it behind what `out` has, with the bytes that `content` writes there for its own;
    /// where these begin.
    pub(super) fn write_with(
        &self,
        out: &mut Vec<u8>,
        content: impl FnOnce(&mut Vec<u8>),
    ) -> usize {
        out.extend(self.name);
        for number in [self.id, self.position, self.at_ms] {
            out.extend(number.to_le_bytes());
        }
        out.extend([0; LEN_BYTES]);
        let from = out.len();
        content(out);
        let len = u32::try_from(out.len() - from).expect("longer ones are not logged");
        out[from - LEN_BYTES..from].copy_from_slice(&len.to_le_bytes());
        from
    }
}

/// One use of a segment, from its first byte on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Generation {
    pub(super) number: u64,
    /// The seed of its checksums.
    salt: u64,
}

impl Generation {
    pub(super) fn new(number: u64) -> Generation {
        Generation { number, salt: RandomState::new().build_hasher().finish() }
    }

    /// Makes a group of it of room for a head and entries behind that.
    pub(super) fn seal(self, number: u64, group: &mut Vec<u8>) {
        let len = group.len() - HEAD_BYTES;
        group[..MAGIC.len()].copy_from_slice(MAGIC);
        let numbers = [0, self.number, self.salt, number, len as u64];
        for (place, number) in group[MAGIC.len()..HEAD_BYTES].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let sum = xxh3_64_with_seed(&group[16..], self.salt);
        group[8..16].copy_from_slice(&sum.to_le_bytes());
        group.resize(group.len().next_multiple_of(SECTOR), 0);
    }

    /// Its first group, without entries.
    pub(super) fn begin(self) -> Vec<u8> {
        let mut group = vec![0; HEAD_BYTES];
        self.seal(0, &mut group);
        group
    }
}

/// Bytes of a group with so many bytes of entries.
pub(super) fn group_bytes(entries: usize) -> u64 {
    (HEAD_BYTES + entries).next_multiple_of(SECTOR) as u64
}

/// A group that was found.
struct FoundGroup<'b> {
    generation: Generation,
    number: u64,
    entries: &'b [u8],
}

/// What may be the group at the beginning of `bytes`, and its checksum.
fn head(bytes: &[u8]) -> Option<(FoundGroup<'_>, u64)> {
    let head = bytes.get(..HEAD_BYTES).filter(|head| head.starts_with(MAGIC))?;
    let number = |at: usize| number(&head[8 * at..]);
    let (sum, salt, len) = (number(1)?, number(3)?, usize::try_from(number(5)?).ok()?);
    let entries = bytes[HEAD_BYTES..].get(..len)?;
    let generation = Generation { number: number(2)?, salt };
    Some((FoundGroup { generation, number: number(4)?, entries }, sum))
}

/// The group at the beginning of `bytes`, if it is `wanted`. That is asked first: a checksum takes
/// as long as its group is, and a client may have written as many heads as there are sectors.
fn first(bytes: &[u8], wanted: impl Fn(&FoundGroup<'_>) -> bool) -> Option<FoundGroup<'_>> {
    let (found, sum) = head(bytes).filter(|(found, _)| wanted(found))?;
    let summed = &bytes[16..HEAD_BYTES + found.entries.len()];
    (xxh3_64_with_seed(summed, found.generation.salt) == sum).then_some(found)
}

/// What a segment has.
#[derive(Default)]
pub(super) struct Segment<'b> {
    /// Of its first group; 0 where there is none.
    pub(super) generation: u64,
    /// The entries of its groups, in their order.
    pub(super) groups: Vec<&'b [u8]>,
    /// Where bytes stand that are no group, though later ones are.
    pub(super) damaged_at: Option<usize>,
}

/// Reads a segment, of which a process or the power may have left a torn end. A generation that was
/// begun after the segment of `other` is newer than that.
pub(super) fn read(bytes: &[u8], other: u64) -> Segment<'_> {
    let mut segment = Segment::default();
    let Some(begin) = first(bytes, |found| found.number == 0) else {
        // A generation whose beginning is lost: what is behind it cannot be told from what others
        // have made up, and is not used. So nobody knows its salt, and its head is enough.
        let is_newer = |found: &FoundGroup<'_>| found.number > 0 && found.generation.number > other;
        let heads = |place: usize| head(&bytes[place..]).is_some_and(|(found, _)| is_newer(&found));
        segment.damaged_at = places_behind(bytes, 0).any(heads).then_some(0);
        return segment;
    };
    let generation = begin.generation;
    segment.generation = generation.number;
    let (mut at, mut expected) = (0, 0);
    loop {
        let is_next =
            |found: &FoundGroup<'_>| (found.generation, found.number) == (generation, expected);
        match first(&bytes[at..], is_next) {
            Some(found) => {
                segment.groups.push(found.entries);
                at += group_bytes(found.entries.len()) as usize;
                expected += 1;
            }
            None => {
                // No group is written before the one before it is on disk.
                let is_later = |found: &FoundGroup<'_>| {
                    found.generation == generation && found.number > expected
                };
                let number = |place: usize| Some((place, first(&bytes[place..], is_later)?.number));
                let Some(next) = places_behind(bytes, at).find_map(number) else { return segment };
                segment.damaged_at = segment.damaged_at.or(Some(at));
                (at, expected) = next;
            }
        }
        if at >= bytes.len() {
            return segment;
        }
    }
}

/// Where groups behind the one at `at` may begin.
fn places_behind(bytes: &[u8], at: usize) -> impl Iterator<Item = usize> {
    (at + SECTOR..bytes.len()).step_by(SECTOR)
}

/// The entries of a group, whose checksum was right.
pub(super) fn entries(mut rest: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    std::iter::from_fn(move || {
        let (name, after) = rest.split_first_chunk::<20>()?;
        let at = |place: usize| number(after.get(8 * place..)?);
        let (id, position, at_ms) = (at(0)?, at(1)?, at(2)?);
        let len = u32::from_le_bytes(after.get(24..28)?.try_into().ok()?) as usize;
        let bytes = rest[ENTRY_HEAD_BYTES..].get(..len)?;
        rest = &rest[ENTRY_HEAD_BYTES + len..];
        Some(Entry { name: *name, id, position, at_ms, bytes })
    })
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(position: u64, bytes: &[u8]) -> Entry<'_> {
        Entry { name: [7; 20], id: 3, position, at_ms: 5, bytes }
    }

    fn group(generation: Generation, number: u64) -> Vec<u8> {
        let mut group = vec![0; HEAD_BYTES];
        for bytes in [&[generation.number as u8; 700][..], &[generation.number as u8]] {
            entry(number, bytes).write_with(&mut group, |out| out.extend(bytes));
        }
        generation.seal(number, &mut group);
        group
    }

    fn positions(segment: &Segment<'_>) -> Vec<u64> {
        let all = segment.groups.iter().flat_map(|group| entries(group));
        all.map(|entry| entry.position).collect()
    }

    #[test]
    fn groups_are_read_back_and_a_cut_end_is_none() {
        let new = Generation::new(2);
        let whole = [group(new, 0), group(new, 1), group(new, 2)].concat();
        let one = whole.len() / 3;
        let read_all = read(&whole, 1);
        assert_eq!((positions(&read_all), read_all.generation), (vec![0, 0, 1, 1, 2, 2], 2));
        assert_eq!(entries(read_all.groups[1]).last(), Some(entry(1, &[2])));
        // What an older generation has left stands behind.
        let older = Generation::new(1);
        let old: Vec<u8> = (0..3).flat_map(|number| group(older, number)).collect();
        for cut in 0..one {
            let mut torn = old.clone();
            torn[..2 * one + cut].copy_from_slice(&whole[..2 * one + cut]);
            let segment = read(&torn, 1);
            let is_whole = cut >= 48 + 2 * ENTRY_HEAD_BYTES + 701;
            assert_eq!(positions(&segment).len(), if is_whole { 6 } else { 4 }, "cut at {cut}");
            assert_eq!(segment.damaged_at, None, "cut at {cut}");
        }
    }

    #[test]
    fn wrong_bit_before_the_last_group_is_damage_and_the_groups_behind_it_are_read() {
        let new = Generation::new(2);
        let whole = [group(new, 0), group(new, 1), group(new, 2)].concat();
        let one = whole.len() / 3;
        for at in (0..48).chain([100, 600, 700]) {
            let mut wrong = whole.clone();
            wrong[one + at] ^= 1;
            let segment = read(&wrong, 1);
            assert_eq!(positions(&segment), [0, 0, 2, 2], "byte {at}");
            assert_eq!(segment.damaged_at, Some(one));
            let mut wrong = whole.clone();
            wrong[at] ^= 1;
            let segment = read(&wrong, 1);
            assert_eq!((positions(&segment), segment.damaged_at), (vec![], Some(0)), "byte {at}");
        }
        assert_eq!(read(&[0; 4096], 1).damaged_at, None, "a new segment");
    }
}
