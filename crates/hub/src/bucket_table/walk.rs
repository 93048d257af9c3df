//! A walk over all entries of a table in slices, between which entries come and go.
//!
//! Entries stand in the order of their hashes, read from the last bit to the first. By that order a
//! bucket is an interval: those of its hashes have the same last bits, and no other has them. When
//! a bucket is shared with a new one its interval is cut in two, and when one is merged both are
//! one again. So what is before a place stays before it. A walk meets each entry once that is there
//! all the while, and one that comes or goes meanwhile once or not at all (Redis' SCAN, dict.c, has
//! the same order, and may meet an entry twice).
//!
//! Cost: a hash of each entry, and those of the first bucket again that are behind the place.

use super::BucketTable;

/// Where an entry with this hash stands in a walk.
pub(crate) fn walk_place(hash: u64) -> u64 {
    hash.reverse_bits()
}

impl<T, const MEAN: usize> BucketTable<T, MEAN> {
    /// Visits entries from the place `from` on, whole buckets, until `most` entries or more were
    /// looked at. Where the walk goes on; `None` at its end.
    pub(crate) fn walk(
        &self,
        from: u64,
        most: usize,
        hash_of: impl Fn(&T) -> u64,
        mut visit: impl FnMut(&T),
    ) -> Option<u64> {
        let (mut from, mut seen) = (from, 0);
        while seen < most {
            let bucket = self.place(walk_place(from));
            let entries = self.buckets.get(bucket)?;
            let is_ahead = |entry: &&T| walk_place(hash_of(entry)) >= from;
            entries.iter().filter(is_ahead).for_each(&mut visit);
            // An empty bucket is looked at, too.
            seen += entries.len().max(1);
            from = self.end_of(bucket)?;
        }
        Some(from)
    }

    /// Where in a walk the entries of a bucket end; `None` of the last one.
    fn end_of(&self, bucket: usize) -> Option<u64> {
        let half = self.buckets.len().next_power_of_two() / 2;
        // Where its last bits with another one before them name no bucket, it has those as well.
        let is_whole = bucket < half && bucket + half >= self.buckets.len();
        let bits = half.checked_ilog2().map_or(0, |bits| bits + u32::from(!is_whole));
        let entries = 1_u64.checked_shl(u64::BITS - bits)?;
        walk_place(bucket as u64).checked_add(entries)
    }
}
