//! The store of record, and the graphs that are made of it.

use std::collections::BTreeSet;

use crate::{Change, GraphPlace, Pair};

/// A pair's part of the set hash: any function of both will do here.
fn hash(pair: &Pair) -> u64 {
    xxhash_rust::xxh3::xxh3_64(format!("{}\0{}", pair.0, pair.1).as_bytes())
}

/// A set of pairs at a version.
#[derive(Clone, Default)]
pub(super) struct Graph {
    pub(super) place: GraphPlace,
    pub(super) pairs: BTreeSet<Pair>,
}

impl Graph {
    pub(super) fn apply(&mut self, change: &Change) {
        assert_eq!(change.version, self.place.version + 1, "versions are applied one by one");
        self.place.version = change.version;
        for pair in &change.added {
            if self.pairs.insert(pair.clone()) {
                self.place.hash = self.place.hash.wrapping_add(hash(pair));
            }
        }
        for pair in &change.removed {
            if self.pairs.remove(pair) {
                self.place.hash = self.place.hash.wrapping_sub(hash(pair));
            }
        }
    }

    pub(super) fn has(&self, subscriber: usize, subscribee: usize) -> bool {
        self.pairs.contains(&(subscriber.to_string(), subscribee.to_string()))
    }
}

/// All changes, and what they make.
#[derive(Default)]
pub(super) struct Store {
    pub(super) changes: Vec<Change>,
    pub(super) graph: Graph,
    pub(super) away_until_ms: u64,
}

impl Store {
    pub(super) fn commit(&mut self, added: Vec<Pair>, removed: Vec<Pair>) -> Change {
        let version = self.graph.place.version + 1;
        let mut change = Change { version, hash: 0, added, removed };
        self.graph.apply(&change);
        change.hash = self.graph.place.hash;
        self.changes.push(change.clone());
        change
    }

    /// Brings a replica up to date.
    pub(super) fn catch_up(&self, graph: &mut Graph) {
        for change in &self.changes[graph.place.version as usize..] {
            graph.apply(change);
        }
    }
}
