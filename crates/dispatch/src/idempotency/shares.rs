//! How many keys single clients have in the table, so that none takes the places of all others.
//!
//! Cost: nothing for keys of applications; 16 bytes for one of a client until its time is over, and
//! an entry for each client that has any.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// Entries that are looked through for the one whose place is free next: some 10 µs.
pub(super) const LOOKED_THROUGH_MAX: usize = 4096;

/// Who is counted, by a hash of its name. Two that share one share their places.
pub(super) type Share = u64;

/// Keys of clients, counted.
#[derive(Debug, Default)]
pub(super) struct Shares {
    hasher: RandomState,
    counts: HashMap<Share, u32>,
    /// When a key is over that was remembered, in milliseconds, and whose it was.
    ends: VecDeque<(u64, Share)>,
}

impl Shares {
    /// The share of the client that is counted as `name`.
    pub(super) fn of(&self, name: &str) -> Share {
        self.hasher.hash_one(name)
    }

    /// How many keys it has.
    pub(super) fn count(&self, share: Share) -> usize {
        self.counts.get(&share).map_or(0, |&count| count as usize)
    }

    /// One more, which is not remembered yet.
    pub(super) fn take(&mut self, share: Share) {
        *self.counts.entry(share).or_default() += 1;
    }

    /// One of them is remembered until `until_ms`; those that come later are over later.
    pub(super) fn keep(&mut self, share: Share, until_ms: u64) {
        debug_assert!(self.ends.back().is_none_or(|&(before_ms, _)| before_ms <= until_ms));
        self.ends.push_back((until_ms, share));
    }

    /// One of them is not.
    pub(super) fn give_back(&mut self, share: Share) {
        let Some(count) = self.counts.get_mut(&share) else {
            debug_assert!(false, "what is given back was taken");
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&share);
        }
    }

    /// Counts at most `most` of those no more that are over.
    pub(super) fn forget(&mut self, now_ms: u64, most: usize) {
        for _ in 0..most {
            match self.ends.front().copied() {
                Some((until_ms, share)) if until_ms <= now_ms => {
                    self.ends.pop_front();
                    self.give_back(share);
                }
                _ => break,
            }
        }
        if self.counts.is_empty() && self.ends.capacity() > 1024 {
            (self.counts, self.ends) = (HashMap::new(), VecDeque::new());
        }
    }

    /// When the oldest of a share is over, or what stands before it as far as it is looked through:
    /// not before then.
    pub(super) fn oldest_ms(&self, share: Share) -> Option<u64> {
        let mut ends = self.ends.iter().take(LOOKED_THROUGH_MAX);
        let own = ends.find(|(_, of)| *of == share);
        let own = own.or_else(|| self.ends.get(LOOKED_THROUGH_MAX - 1));
        own.map(|&(until_ms, _)| until_ms)
    }

    /// Memory in use.
    pub(super) fn bytes(&self) -> usize {
        self.ends.capacity() * size_of::<(u64, Share)>()
            + self.counts.capacity() * size_of::<(Share, u32)>()
    }
}
