//! How long a worker's turns take: a histogram by powers of two, and the longest of all.
//!
//! While a worker turns, whoever waits for it waits. A turn that takes a second is a second's delay
//! for all its connections, which an average would hide. A turn is what lies between two waits; the
//! wait itself does not count. The figures only grow, so a reader subtracts two looks and several
//! readers do not disturb each other. Those of several workers can be added.
//!
//! Cost: one look at the clock and four additions a turn.

use std::array;

use crate::count::SingleWriterCount;

/// Turns up to this are all short.
const FIRST_BOUND_NS: u64 = 64_000;

const BUCKETS: usize = TurnSnapshot::BUCKETS;

/// What a worker counts.
#[derive(Debug, Default)]
pub(crate) struct TurnTimes {
    buckets: [SingleWriterCount; BUCKETS],
    total_ns: SingleWriterCount,
    longest_ns: SingleWriterCount,
}

impl TurnTimes {
    /// A turn took so long.
    pub(crate) fn add(&self, ns: u64) {
        self.buckets[bucket_of(ns)].add(1);
        self.total_ns.add(ns);
        if ns > self.longest_ns.read() {
            self.longest_ns.set(ns);
        }
    }

    pub(crate) fn snapshot(&self) -> TurnSnapshot {
        TurnSnapshot {
            buckets: array::from_fn(|bucket| self.buckets[bucket].read()),
            total_ns: self.total_ns.read(),
            longest_ns: self.longest_ns.read(),
        }
    }
}

/// The turns since start, of one worker or of all.
#[derive(Clone, Copy, Debug, Default)]
pub struct TurnSnapshot {
    /// How many took as long, by [`TurnSnapshot::BOUNDS_NS`]; the last one has no bound.
    pub buckets: [u64; BUCKETS],
    /// Time spent in turns, in nanoseconds.
    pub total_ns: u64,
    /// The longest turn, in nanoseconds.
    pub longest_ns: u64,
}

impl TurnSnapshot {
    /// From 64 µs to 1.05 s, and one for those above.
    pub const BUCKETS: usize = 16;

    /// The most nanoseconds of a turn in each bucket but the last.
    pub const BOUNDS_NS: [u64; BUCKETS - 1] = {
        let mut bounds = [FIRST_BOUND_NS; BUCKETS - 1];
        let mut bucket = 1;
        while bucket < bounds.len() {
            bounds[bucket] = 2 * bounds[bucket - 1];
            bucket += 1;
        }
        bounds
    };

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub(crate) fn merge(&mut self, other: &TurnSnapshot) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(sum, count)| *sum += count);
        self.total_ns += other.total_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

fn bucket_of(ns: u64) -> usize {
    let doublings = u64::BITS - (ns.saturating_sub(1) / FIRST_BOUND_NS).leading_zeros();
    (doublings as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_is_counted_under_the_first_bound_that_holds_it() {
        for (bucket, bound) in TurnSnapshot::BOUNDS_NS.into_iter().enumerate() {
            assert_eq!((bucket_of(bound), bucket_of(bound + 1)), (bucket, bucket + 1));
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
        assert_eq!(TurnSnapshot::BOUNDS_NS.last(), Some(&1_048_576_000));
    }

    #[test]
    fn merged_turns_are_those_of_both() {
        let (one, other) = (TurnTimes::default(), TurnTimes::default());
        [10, 100_000, 2_000_000_000].into_iter().for_each(|ns| one.add(ns));
        other.add(3_000_000_000);
        let mut whole = one.snapshot();
        whole.merge(&other.snapshot());
        assert_eq!((whole.count(), whole.longest_ns), (4, 3_000_000_000));
        assert_eq!(whole.total_ns, 5_000_100_010);
        assert_eq!((whole.buckets[0], whole.buckets[1], whole.buckets[BUCKETS - 1]), (1, 1, 2));
    }
}
