//! The sum over the log, by which nodes find out that they have read different logs.
//!
//! The value at a sequence is the sum, modulo 2^64, of XXH3 of every record up to there, seeded
//! with its sequence. It is a sum and not a chain in the strict sense. So a node that begins in the
//! middle of the log can begin with 0, and add what was before once another tells it. It guards
//! against logs that differ by mistake, not against somebody who forges records: who may publish
//! can do worse.
//!
//! Cost: a hash of the record at memory speed; 1 MiB for the last 131,072 values.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::limits::SUMS_KEPT;

/// The last sums. Grows to its full size only with the log.
#[derive(Debug)]
pub(crate) struct Chain {
    /// The value after sequence `s` at `s % SUMS_KEPT`.
    sums: Vec<u64>,
    /// The first sequence whose value is there, and the last.
    first: u64,
    last: u64,
    /// The record with which it has begun, and what that adds.
    begun: Option<(u64, u64)>,
}

impl Chain {
    /// A log of which all up to `last` is unknown, and counts as 0.
    pub(crate) fn new(last: u64) -> Chain {
        let mut chain = Chain { sums: Vec::new(), first: last, last, begun: None };
        chain.put(last, 0);
        chain
    }

    fn put(&mut self, sequence: u64, sum: u64) {
        debug_assert_eq!(sequence, self.last, "a sum is that of the last record");
        let place = (sequence % SUMS_KEPT as u64) as usize;
        if self.sums.len() <= place {
            self.sums.resize((place + 1).next_power_of_two(), 0);
        }
        debug_assert!(self.sums.len() <= SUMS_KEPT);
        self.sums[place] = sum;
    }

    /// What the record that was read at `sequence` has added; `None` where that is forgotten.
    pub(crate) fn added(&self, sequence: u64) -> Option<u64> {
        if let Some((_, hash)) = self.begun.filter(|(begun, _)| *begun == sequence) {
            return Some(hash);
        }
        Some(self.at(sequence)?.wrapping_sub(self.at(sequence.checked_sub(1)?)?))
    }

    /// What the record at `sequence` adds.
    pub(crate) fn hash(sequence: u64, record: &[u8]) -> u64 {
        xxh3_64_with_seed(record, sequence)
    }

    /// The next record.
    pub(crate) fn push(&mut self, record: &[u8]) {
        let sum = self.sums[(self.last % SUMS_KEPT as u64) as usize];
        self.last += 1;
        self.put(self.last, sum.wrapping_add(Chain::hash(self.last, record)));
        self.first = self.first.max((self.last + 1).saturating_sub(SUMS_KEPT as u64));
        debug_assert!(self.first <= self.last);
        debug_assert!(self.last - self.first < SUMS_KEPT as u64, "a sum was written over");
    }

    /// The value after `sequence`, if it is still known.
    pub(crate) fn at(&self, sequence: u64) -> Option<u64> {
        let known = (self.first..=self.last).contains(&sequence);
        known.then(|| self.sums[(sequence % SUMS_KEPT as u64) as usize])
    }

    /// The first sequence whose value is known, and what all behind it adds up to.
    pub(crate) fn span(&self) -> (u64, u64) {
        let [first, last] = [self.first, self.last].map(|at| self.at(at).unwrap_or_default());
        (self.first, last.wrapping_sub(first))
    }

    /// Whether `record` is the one that was read at `sequence`; `None` where that is forgotten.
    pub(crate) fn is(&self, sequence: u64, record: &[u8]) -> Option<bool> {
        let before = self.at(sequence.checked_sub(1)?)?;
        Some(before.wrapping_add(Chain::hash(sequence, record)) == self.at(sequence)?)
    }

    /// The value after the last record is `sum`: what was before the first one was added.
    pub(crate) fn anchor(&mut self, sum: u64) {
        let last = self.at(self.last).expect("the last one is known");
        let before = sum.wrapping_sub(last);
        self.sums.iter_mut().for_each(|sum| *sum = sum.wrapping_add(before));
        debug_assert_eq!(self.at(self.last), Some(sum));
    }

    /// The sum begins with the last record, which is `record`; all before is forgotten.
    pub(crate) fn begin_with(&mut self, record: &[u8]) {
        self.first = self.last;
        let hash = Chain::hash(self.last, record);
        self.begun = Some((self.last, hash));
        self.put(self.last, hash);
        debug_assert_eq!(self.added(self.last), Some(hash));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_begins_in_the_middle_has_the_same_sums_once_it_is_told() {
        let (mut whole, mut late) = (Chain::new(0), Chain::new(40));
        for n in 1..=100_u8 {
            whole.push(&[n]);
            if n > 40 {
                late.push(&[n]);
            }
        }
        assert_ne!(whole.at(100), late.at(100));
        late.anchor(whole.at(100).unwrap());
        for sequence in 40..=100 {
            assert_eq!(whole.at(sequence), late.at(sequence));
        }
        assert_eq!((late.at(39), late.at(101)), (None, None));
        let since = whole.at(100).unwrap().wrapping_sub(whole.at(40).unwrap());
        assert_eq!(late.span(), (40, since));
        assert_eq!((late.is(77, &[77]), late.is(77, &[78])), (Some(true), Some(false)));
        // The same records in another order.
        let mut swapped = Chain::new(0);
        [2, 1].iter().for_each(|&n| swapped.push(&[n]));
        assert_ne!(swapped.at(2), whole.at(2));
    }

    #[test]
    fn oldest_sums_are_forgotten() {
        let mut chain = Chain::new(0);
        (0..SUMS_KEPT + 10).for_each(|_| chain.push(b"x"));
        assert_eq!(chain.at(10), None);
        assert!(chain.at(11).is_some() && chain.at(SUMS_KEPT as u64 + 10).is_some());
        assert_eq!(chain.sums.len(), SUMS_KEPT);
        chain.begin_with(b"y");
        assert_eq!(chain.at(SUMS_KEPT as u64 + 9), None);
    }
}
