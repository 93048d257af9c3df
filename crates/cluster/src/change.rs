//! A change of the graph as it travels in the log, in as many records as it takes.
//!
//! The parts are cut by the change alone, so whoever publishes a version, once more or at the same
//! time, publishes the same parts under the same message ids.

use crate::limits::{RECORD_BYTES_MAX, RECORD_HEAD_BYTES};
use crate::wire::{Malformed, Reader, put_id};

/// A pair: subscriber, subscribee.
pub type Pair = (String, String);

/// One version of the graph: what it adds to the one before, and what it takes away.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// Its version; versions have no gaps.
    pub version: u64,
    /// The set hash after it; 0 where the publisher does not know it, and then nobody compares.
    pub hash: u64,
    /// Pairs that it adds.
    pub added: Vec<Pair>,
    /// Pairs that it takes away.
    pub removed: Vec<Pair>,
}

/// A part of a [`Change`]: the pairs of one record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Which one of `parts`, from 0.
    pub part: u16,
    /// In how many parts the change travels.
    pub parts: u16,
    /// Version, hash, and the pairs of this part.
    pub change: Change,
}

/// Bytes of pairs in one part.
pub(crate) const PART_BYTES_MAX: usize = RECORD_BYTES_MAX - 2 * RECORD_HEAD_BYTES;

impl Change {
    /// The parts, at least one; `None` when it takes more than 65,535, which is 16 GB.
    pub fn parts(self) -> Option<Vec<Part>> {
        self.parts_of(PART_BYTES_MAX)
    }

    /// The parts, of so many bytes each.
    pub(crate) fn parts_of(self, bytes_max: usize) -> Option<Vec<Part>> {
        debug_assert!((1..=PART_BYTES_MAX).contains(&bytes_max), "a part must fit into a record");
        let Change { version, hash, added, removed } = self;
        let pairs_len = added.len() + removed.len();
        let mut changes = vec![Change { version, hash, ..Change::default() }];
        let mut bytes = 0;
        let pairs = added.into_iter().map(|pair| (true, pair));
        for (adds, pair) in pairs.chain(removed.into_iter().map(|pair| (false, pair))) {
            // An operation, and a length of at most three bytes before each id; a number of 19
            // digits takes no more than its text.
            bytes += pair.0.len() + pair.1.len() + 9;
            if bytes > bytes_max {
                changes.push(Change { version, hash, ..Change::default() });
                bytes = pair.0.len() + pair.1.len() + 9;
            }
            let last = changes.last_mut().expect("there is always one");
            if adds { last.added.push(pair) } else { last.removed.push(pair) }
        }
        let of_part = |change: &Change| change.added.len() + change.removed.len();
        let cut: usize = changes.iter().map(of_part).sum();
        assert_eq!(cut, pairs_len, "a pair of the change is in none of its parts, or in two");
        let parts = u16::try_from(changes.len()).ok()?;
        let part = |(part, change)| Part { part: part as u16, parts, change };
        Some(changes.into_iter().enumerate().map(part).collect())
    }

    /// What it counts for where it waits.
    pub(crate) fn bytes(&self) -> usize {
        // Two texts of 24 bytes each beside their letters.
        let pair = |pair: &Pair| pair.0.len() + pair.1.len() + 48;
        self.added.iter().chain(&self.removed).map(pair).sum()
    }
}

impl Part {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Change { version, hash, added, removed } = &self.change;
        out.extend_from_slice(&version.to_be_bytes());
        out.extend_from_slice(&hash.to_be_bytes());
        out.extend_from_slice(&self.part.to_be_bytes());
        out.extend_from_slice(&self.parts.to_be_bytes());
        out.extend_from_slice(&((added.len() + removed.len()) as u32).to_be_bytes());
        for (op, pairs) in [(b'+', added), (b'-', removed)] {
            for (subscriber, subscribee) in pairs {
                out.push(op);
                put_id(out, subscriber);
                put_id(out, subscribee);
            }
        }
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Part, Malformed> {
        let (version, hash, part, parts) = (from.u64()?, from.u64()?, from.u16()?, from.u16()?);
        if part >= parts {
            return Err(Malformed::Number);
        }
        let mut change = Change { version, hash, ..Change::default() };
        for _ in 0..from.u32()? {
            let op = from.u8()?;
            let pair = (from.id()?, from.id()?);
            match op {
                // What is added stands first: one form for each change.
                b'+' if change.removed.is_empty() => change.added.push(pair),
                b'-' => change.removed.push(pair),
                _ => return Err(Malformed::Unknown),
            }
        }
        Ok(Part { part, parts, change })
    }
}
