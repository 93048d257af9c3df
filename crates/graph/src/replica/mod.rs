//! The graph of a node that is one of many: a copy, which follows a log of changes.
//!
//! The store is the same as that of a single node and look-ups are the same. What differs is who
//! changes it and what a crash may cost. A change is applied by the caller's thread, without a
//! sync, in 20 to 40 µs. The pairs and the place in the log are of one transaction. A process that
//! dies loses nothing, since the page cache lives on. A machine that dies may leave a torn file:
//! then, as after damage, the replica says [`Standing::MustRebuild`], answers no look-up, and is
//! made anew from the store of record.
//!
//! How it is driven:
//!
//! 1. [`Replica::open`]; [`Replica::graph`] is for all who read.
//! 2. [`Replica::standing`]: a replica that follows goes on from its state. One that must be
//!    rebuilt gets [`Replica::rebuild`], or beside its work a [`Rebuild`], two sorted streams of
//!    pairs out of one snapshot of the store of record. At a start, before `open`, [`install`]
//!    takes a peer's copy instead.
//! 3. [`Replica::apply`] for each change, or batch of them; [`Replica::at`] for a part of the log
//!    that has none.
//! 4. [`ApplyError::HashDiffers`], another lineage, or a version of the store of record that is
//!    below ours: rebuild. Look-ups are answered from the old pairs until the new ones are there.
//! 5. Dropping it syncs, and marks that all is well.
//!
//! What it does not know: where the log comes from, how a gap is filled.
//!
//! Nothing here is async. `apply` waits for no disk but may read pages that are not in memory. The
//! longer calls (`open`, `rebuild`, a copy, the sums) belong on a thread that may block.

mod apply;
mod buckets;
mod copy;
mod open;
mod pairs;
mod rebuild;
mod sorter;
mod swap;
mod sync;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use super::Graph;
use super::lock::DirectoryLock;
use super::open::{GraphOptions, Store};

pub use super::replica_state::{LogPlace, ReplicaState};
pub use apply::{Applied, ApplyError, Change};
pub use buckets::BucketSums;
pub use copy::install;
pub use pairs::{NumberedId, PairBatch};
pub use rebuild::{Built, Origin, Rebuild, RebuildError};

use sync::Syncing;

/// How to open a replica.
#[derive(Clone, Debug, Default)]
pub struct ReplicaOptions {
    /// As for any store.
    pub graph: GraphOptions,
    /// A directory whose graph is a single node's own record is taken all the same: that graph is
    /// not read, and is lost once the replica is rebuilt.
    pub replace_own_record: bool,
}

/// What to do with a replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It goes on from here.
    Follows(ReplicaState),
    /// Its pairs cannot be relied upon, or there are none: see [`Replica::rebuild`].
    MustRebuild {
        /// For the log: what happened.
        why: String,
    },
}

/// The one who changes a replica. Dropped, it leaves a store that is known to be whole; the graphs
/// that were handed out go on answering.
pub struct Replica {
    graph: Graph,
    dir: PathBuf,
    options: ReplicaOptions,
    lock: Arc<DirectoryLock>,
    /// `None` only while being dropped.
    syncing: Option<Syncing>,
}

impl Replica {
    /// The graph, for all who read. It stays the same when the replica is rebuilt; to change it
    /// through this is refused.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Whether it can go on, and from where. To be asked after opening, and after an error.
    pub fn standing(&self) -> Standing {
        let store = self.store();
        match (store.readable(), store.damage.get(), store.replica_state()) {
            (Err(why), ..) => Standing::MustRebuild { why: why.to_string() },
            (_, Some(damage), _) => {
                Standing::MustRebuild { why: format!("data.mdb is damaged: {damage}") }
            }
            (.., None) => Standing::MustRebuild { why: "it has no state".into() },
            (.., Some(state)) => Standing::Follows(state),
        }
    }

    /// Takes note that the log has been followed up to `place`, without a change. Costs nothing:
    /// it is stored within a second, or with the next change.
    pub fn at(&mut self, place: LogPlace) {
        *self.store().follower.place() = Some(place);
    }

    fn store(&self) -> Arc<Store> {
        self.graph.0.store.load_full()
    }
}

impl Graph {
    /// What the graph is a copy of, when it is a replica that can be relied upon.
    pub fn replica_state(&self) -> Option<ReplicaState> {
        let store = self.store();
        store.readable().ok().and_then(|()| store.replica_state())
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // Its thread must not write after the mark.
        drop(self.syncing.take());
        self.store().close_replica();
    }
}

impl Store {
    /// The number of the last commit.
    fn transaction(&self) -> u64 {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner).transaction
    }

    /// As of the last commit, and the place in the log that is to be stored with the next one.
    fn replica_state(&self) -> Option<ReplicaState> {
        let place = *self.follower.place();
        let state = self.committed.lock().unwrap_or_else(PoisonError::into_inner).replica?;
        Some(ReplicaState { at: place.unwrap_or(state.at), ..state })
    }
}

#[cfg(test)]
mod tests;
