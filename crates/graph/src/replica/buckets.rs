//! The daily check: sums over all pairs, to be compared with those of the store of record.
//!
//! They are those of one version, though no snapshot is kept for as long as it takes: old snapshots
//! keep old pages alive. The pairs are read in slices, each of a snapshot of its own. The writer
//! tells what changes meanwhile among those that were read, so the sums follow it.

use std::sync::PoisonError;

use heed::RoTxn;
use hub::{BUCKETS, Id, PairHash, pair_hash};

use super::ReplicaState;
use crate::Graph;
use crate::block::unpack;
use crate::error::{ReadError, Unusable};
use crate::follower::{Moved, PairPlace};
use crate::open::Store;
use crate::pins;

/// Pairs that are read in one snapshot: some 10 ms.
const SLICE: usize = 1 << 16;

/// The sums of a replica's pairs at one version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BucketSums {
    /// Of which version. Its set hash is the sum of all sums; if not, the pairs are not those that
    /// were applied.
    pub state: ReplicaState,
    /// For each bucket the sum of its pairs' hashes, modulo 2^64.
    pub sums: Box<[u64; BUCKETS]>,
}

impl BucketSums {
    /// The sum of all sums, modulo 2^64.
    pub fn total(&self) -> u64 {
        self.sums.iter().fold(0, |total, sum| total.wrapping_add(*sum))
    }
}

impl Graph {
    /// Sums up all pairs of a replica. One at a time; further callers wait. Changes go on.
    ///
    /// Cost: some 0.2 µs a pair, of one thread.
    pub fn bucket_sums(&self) -> Result<BucketSums, ReadError> {
        let store = self.0.store.load_full();
        store.readable()?;
        let _one_at_a_time = store.follower.summing.lock().unwrap_or_else(PoisonError::into_inner);
        let summed = Summing::new(&store).run();
        let summed = summed.map_err(|error| store.read_error(error))?;
        store.readable()?;
        summed.ok_or_else(|| Unusable::MustRebuild("it is no replica".into()).into())
    }
}

struct Summing<'s> {
    store: &'s Store,
    sums: Box<[u64; BUCKETS]>,
    /// The last pair that is in the sums.
    done: Option<PairPlace>,
    all: bool,
}

impl<'s> Summing<'s> {
    fn new(store: &'s Store) -> Summing<'s> {
        Summing { store, sums: Box::new([0; BUCKETS]), done: None, all: false }
    }

    fn run(mut self) -> heed::Result<Option<BucketSums>> {
        loop {
            let txn = {
                // While the state is locked nothing is committed: what moved is complete.
                let committed = self.store.committed.lock();
                let committed = committed.unwrap_or_else(PoisonError::into_inner);
                let moved = self.store.follower.moved().replace(Vec::new());
                moved.into_iter().flatten().for_each(|moved| self.follow(moved));
                if self.all {
                    let sums = self.sums.clone();
                    return Ok(committed.replica.map(|state| BucketSums { state, sums }));
                }
                self.store.env.read_txn()?
            };
            match self.slice(&txn)? {
                Some(place) => self.done = Some(place),
                None => self.all = true,
            }
        }
    }

    /// A pair that was read already came or went.
    fn follow(&mut self, moved: Moved) {
        if self.all || self.done.is_some_and(|done| moved.place <= done) {
            self.add(moved.hash, moved.added);
        }
    }

    fn add(&mut self, PairHash { hash, bucket }: PairHash, added: bool) {
        let sum = &mut self.sums[bucket];
        *sum = if added { sum.wrapping_add(hash) } else { sum.wrapping_sub(hash) };
    }

    /// Reads on; returns the last pair read when there are more.
    fn slice(&mut self, txn: &RoTxn<'_>) -> heed::Result<Option<PairPlace>> {
        let followers = self.store.tables.followers;
        let mut left = SLICE;
        let mut ids = Vec::new();
        if let Some((subject, member)) = self.done {
            let more = followers.slice(txn, subject, Some(member), left, |id| ids.push(id))?;
            self.list(txn, subject, &ids)?;
            if more.is_some() {
                return Ok(more.map(|last| (subject, last)));
            }
            left -= ids.len();
        }
        for entry in followers.blocks_after(txn, self.done.map(|(subject, _)| subject))? {
            let (subject, block) = entry?;
            ids.clear();
            ids.extend(block.ids.iter().map(|&bytes| unpack(bytes)));
            self.list(txn, subject, &ids)?;
            left = left.saturating_sub(ids.len());
            if let Some(&last) = ids.last().filter(|_| left == 0) {
                return Ok(Some((subject, last)));
            }
        }
        Ok(None)
    }

    fn list(&mut self, txn: &RoTxn<'_>, subject: Id, members: &[Id]) -> heed::Result<()> {
        if members.is_empty() {
            return Ok(());
        }
        let subscribee = self.text(txn, subject)?;
        for &member in members {
            let subscriber = self.text(txn, member)?;
            self.add(pair_hash(&subscriber, &subscribee), true);
        }
        Ok(())
    }

    /// The text of `id` as of the snapshot: by now its name may have been forgotten.
    fn text(&self, txn: &RoTxn<'_>, id: Id) -> heed::Result<String> {
        if let Some(text) = self.store.names.text(id) {
            return Ok(text);
        }
        let stored = self.store.tables.names.get(txn, &pins::key(id))?;
        stored.map(str::to_owned).ok_or(heed::MdbError::Corrupted.into())
    }
}

impl Drop for Summing<'_> {
    fn drop(&mut self) {
        // Nobody listens any more, however it ended.
        *self.store.follower.moved() = None;
    }
}
