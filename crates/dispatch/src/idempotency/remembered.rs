//! Keys whose events are posted, in the order in which their time ends, found by their hash.
//!
//! They lie in blocks, so that growing copies no entry and each block goes back when its last entry
//! is over. An index of 9 bytes a slot leads from the hash to the place. Cost: a look-up touches a
//! slot and an entry. A full index is built anew at twice its size, 10 ms for a million keys.

use std::collections::VecDeque;

use hashbrown::HashTable;
use tokio::sync::watch;

use super::Progress;
use super::key::is_own;
use crate::outcome::Delivered;

/// Entries of a block: 64 KiB.
const BLOCK: usize = 1024;

/// Slots below which the index is not made smaller.
const INDEX_MIN: usize = 1024;

/// What is remembered of a key.
#[derive(Debug)]
pub(super) struct Entry {
    /// The hashes of the key and of what was sent.
    pub(super) key: u128,
    pub(super) body: u128,
    /// When its time is over, in milliseconds since the start.
    pub(super) until_ms: u64,
    pub(super) outcome: Outcome,
}

/// What became of the event.
#[derive(Debug)]
pub(super) enum Outcome {
    Posted(watch::Receiver<Progress>),
    Answered(Delivered),
}

/// Where an entry is, for the index.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Bits of the key's hash, which tell almost all others apart and place the slot.
    check: u32,
    /// The lowest bits of its place. There are never so many that two share them.
    place: u32,
}

/// A queue of entries with an index. Places count from the first entry that ever was.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    blocks: VecDeque<Vec<Entry>>,
    /// The place of the first entry of the first block.
    first: u64,
    /// The place of the oldest entry that is not over.
    oldest: u64,
    index: HashTable<Slot>,
    /// How many are of what nodes send by themselves.
    own: usize,
}

impl Remembered {
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// How many of them are of what nodes send by themselves.
    pub(super) fn own(&self) -> usize {
        self.own
    }

    /// Memory in use.
    pub(super) fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK * size_of::<Entry>()
            + self.blocks.capacity() * size_of::<Vec<Entry>>()
            + self.index.allocation_size()
    }

    pub(super) fn find(&self, key: u128, now_ms: u64) -> Option<&Entry> {
        self.slot(key, now_ms).map(|place| self.at(place))
    }

    pub(super) fn find_mut(&mut self, key: u128, now_ms: u64) -> Option<&mut Entry> {
        let (block, index) = self.in_block(self.slot(key, now_ms)?);
        Some(&mut self.blocks[block][index])
    }

    /// The lowest bits of a key's place. A key may stand here twice, once of a time that is over:
    /// what is over is popped a few at a time.
    fn slot(&self, key: u128, now_ms: u64) -> Option<u32> {
        let check = check(key);
        let is_it = |slot: &Slot| {
            slot.check == check && {
                let entry = self.at(slot.place);
                entry.key == key && now_ms < entry.until_ms
            }
        };
        self.index.find(hash(check), is_it).map(|slot| slot.place)
    }

    /// The entry at `place`, if it is not over.
    pub(super) fn get_mut(&mut self, place: u64) -> Option<&mut Entry> {
        let index = (place >= self.oldest).then(|| (place - self.first) as usize)?;
        self.blocks.get_mut(index / BLOCK)?.get_mut(index % BLOCK)
    }

    pub(super) fn oldest(&self) -> Option<&Entry> {
        (!self.index.is_empty()).then(|| self.at(self.oldest as u32))
    }

    /// The oldest but `n`.
    pub(super) fn nth(&self, n: usize) -> Option<&Entry> {
        (n < self.len()).then(|| self.at(self.oldest.wrapping_add(n as u64) as u32))
    }

    pub(super) fn youngest(&self) -> Option<&Entry> {
        self.blocks.back()?.last()
    }

    /// Those at `place` or behind it, with their places.
    pub(super) fn from(&self, place: u64) -> impl Iterator<Item = (u64, &Entry)> {
        let places = self.oldest.max(place)..self.oldest + self.index.len() as u64;
        places.map(|place| (place, self.at(place as u32)))
    }

    /// Adds the youngest, which is over last; returns its place.
    pub(super) fn push(&mut self, entry: Entry) -> u64 {
        let place = self.oldest + self.index.len() as u64;
        debug_assert!(
            self.youngest().is_none_or(|youngest| youngest.until_ms <= entry.until_ms),
            "the oldest is over first"
        );
        let check = check(entry.key);
        self.own += usize::from(is_own(entry.key));
        match self.blocks.back_mut().filter(|block| block.len() < BLOCK) {
            Some(block) => block.push(entry),
            None => {
                let mut block = Vec::with_capacity(BLOCK);
                block.push(entry);
                self.blocks.push_back(block);
            }
        }
        let slot = Slot { check, place: place as u32 };
        self.index.insert_unique(hash(check), slot, |slot| hash(slot.check));
        place
    }

    /// Forgets the oldest, of which there must be one.
    pub(super) fn pop(&mut self) {
        let (place, key) = (self.oldest as u32, self.at(self.oldest as u32).key);
        let check = check(key);
        self.own -= usize::from(is_own(key));
        let found = self.index.find_entry(hash(check), |slot| slot.place == place);
        debug_assert!(found.is_ok(), "an entry that nobody finds is never forgotten");
        if let Ok(slot) = found {
            slot.remove();
        }
        self.oldest += 1;
        if self.oldest - self.first == BLOCK as u64 {
            self.blocks.pop_front();
            self.first = self.oldest;
        } else if self.index.is_empty() {
            self.blocks.clear();
            self.first = self.oldest;
        }
        debug_assert!(self.first <= self.oldest && self.oldest - self.first < BLOCK as u64);
        let (len, capacity) = (self.index.len(), self.index.capacity());
        if capacity > INDEX_MIN && len < capacity / 4 {
            self.index.shrink_to(len * 2, |slot| hash(slot.check));
            self.blocks.shrink_to(2 * self.blocks.len());
        }
    }

    fn at(&self, place: u32) -> &Entry {
        let (block, index) = self.in_block(place);
        &self.blocks[block][index]
    }

    /// In which block, and where in it.
    fn in_block(&self, place: u32) -> (usize, usize) {
        let index = place.wrapping_sub(self.first as u32) as usize;
        (index / BLOCK, index % BLOCK)
    }
}

fn check(key: u128) -> u32 {
    (key >> 64) as u32
}

/// The table takes the place from the lowest bits, and seven more from the highest.
fn hash(check: u32) -> u64 {
    u64::from(check) << 32 | u64::from(check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_has_the_size_that_the_bound_counts_with() {
        assert!(size_of::<Entry>() <= 64, "{}", size_of::<Entry>());
        assert_eq!(size_of::<Slot>(), 8);
    }

    /// Random pushes and pops beside a plain list.
    #[test]
    fn queue_finds_what_a_list_finds() {
        let seed = testing::seed();
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut queue, mut list) = (Remembered::default(), VecDeque::new());
        for step in 0..20_000 {
            let growing = (step / 5000) % 2 == 0;
            if random.u8(..10) < if growing { 8 } else { 1 } {
                // Few checks, so that some keys share theirs.
                let key = u128::from(random.u64(..)) | u128::from(random.u8(..)) << 64;
                let outcome =
                    Outcome::Answered(Delivered { count: step, id: [0; 16], at_least: false });
                let entry = Entry { key, body: 0, until_ms: u64::from(step) + 1, outcome };
                let place = queue.push(entry);
                list.push_back((place, key, step));
            } else if list.pop_front().is_some() {
                queue.pop();
            }
            assert_eq!(queue.len(), list.len(), "ENCKE_SEED={seed}");
            let oldest = queue.oldest().map(|entry| entry.key);
            assert_eq!(oldest, list.front().map(|(_, key, _)| *key), "ENCKE_SEED={seed}");
            let Some(index) = list.len().checked_sub(1).map(|last| random.usize(..=last)) else {
                continue;
            };
            let (place, key, step) = list[index];
            let found = queue.find(key, u64::from(step)).map(|entry| entry.until_ms);
            assert_eq!(found, Some(u64::from(step) + 1), "ENCKE_SEED={seed}");
            assert_eq!(queue.get_mut(place).map(|entry| entry.key), Some(key), "ENCKE_SEED={seed}");
            assert!(queue.get_mut(list[0].0.wrapping_sub(1)).is_none(), "ENCKE_SEED={seed}");
            assert!(queue.find(key, u64::from(step) + 1).is_none(), "ENCKE_SEED={seed}");
            assert!(queue.find(key ^ 1, 0).is_none(), "ENCKE_SEED={seed}");
        }
        while queue.oldest().is_some() {
            queue.pop();
        }
        assert!(queue.bytes() < 64 << 10, "{} bytes", queue.bytes());
    }
}
