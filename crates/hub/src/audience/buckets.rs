//! A large audience, sorted and freed of doubles piece by piece.
//!
//! A bucket takes the connections of one worker whose slots differ in the lowest 12 bits only, so
//! it holds some 4,096 different ones at most. The buckets are in the order of workers and slots.
//! So to sort each bucket by itself is to sort them all, and no step of it takes longer than one
//! bucket.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::FEW;
use crate::conn_ref::ConnRef;

/// Connections of a bucket past which doubles are looked for while it is being filled.
const BUCKET_TRIMMED: usize = 8192;

/// Connections that are sorted in one step, or the last bucket's more.
const SORTED_PER_STEP: usize = 8192;

/// Connections that are sorted with each slice that is taken in, to look for doubles: four times
/// as many as come, so that no bucket runs away.
const TRIMMED_PER_SLICE: usize = 32_768;

/// Connections by worker and range of slots.
#[derive(Debug, Default)]
pub(super) struct Buckets {
    buckets: BTreeMap<u32, Bucket>,
    /// All up to here are sorted and free of doubles.
    sorted_up_to: Option<u32>,
}

#[derive(Debug)]
struct Bucket {
    conns: Vec<ConnRef>,
    /// How many it may hold before doubles are looked for.
    trimmed_at: usize,
}

impl Buckets {
    pub(super) fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Takes all of `slice` into the buckets.
    pub(super) fn take_in(&mut self, slice: &mut SmallVec<[ConnRef; FEW]>) {
        debug_assert!(self.sorted_up_to.is_none(), "what comes now would stay unsorted");
        slice.sort_unstable();
        slice.dedup();
        let mut budget = TRIMMED_PER_SLICE;
        for piece in slice.chunk_by(|one, next| one.slot_range() == next.slot_range()) {
            let Some(first) = piece.first() else { continue };
            let bucket = self.buckets.entry(first.slot_range()).or_insert_with(Bucket::new);
            bucket.conns.extend_from_slice(piece);
            if bucket.conns.len() > bucket.trimmed_at && budget > 0 {
                budget = budget.saturating_sub(bucket.conns.len());
                bucket.sort();
                bucket.trimmed_at = BUCKET_TRIMMED.max(2 * bucket.conns.len());
            }
        }
        slice.clear();
    }

    /// Sorts the next buckets, once all is taken in. `true` when there are more.
    pub(super) fn sort_on(&mut self) -> bool {
        let from = self.sorted_up_to.map_or(0, |range| range + 1);
        let mut sorted = 0;
        for (&range, bucket) in self.buckets.range_mut(from..) {
            if sorted >= SORTED_PER_STEP {
                return true;
            }
            sorted += bucket.conns.len();
            bucket.sort();
            self.sorted_up_to = Some(range);
        }
        false
    }

    /// The worker of each bucket and how many connections it holds, in order.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (usize, usize)> {
        let size = |(&range, bucket): (&u32, &Bucket)| {
            (ConnRef::worker_of_range(range), bucket.conns.len())
        };
        self.buckets.iter().map(size)
    }

    /// The last bucket's worker and connections.
    pub(super) fn last(&self) -> Option<(usize, &[ConnRef])> {
        let (&range, bucket) = self.buckets.last_key_value()?;
        Some((ConnRef::worker_of_range(range), &bucket.conns))
    }

    /// Takes the connections from `start` on off the last bucket, and the bucket when it is empty.
    pub(super) fn take_last(&mut self, start: usize) -> Vec<ConnRef> {
        let Some(mut last) = self.buckets.last_entry() else { return Vec::new() };
        debug_assert!(start < last.get().conns.len(), "nothing would be taken, for ever");
        if start == 0 {
            return last.remove().conns;
        }
        last.get_mut().conns.split_off(start)
    }
}

impl Bucket {
    fn new() -> Bucket {
        Bucket { conns: Vec::new(), trimmed_at: BUCKET_TRIMMED }
    }

    fn sort(&mut self) {
        self.conns.sort_unstable();
        self.conns.dedup();
    }
}
