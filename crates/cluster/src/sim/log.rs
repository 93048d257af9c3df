//! This is a log as NATS may be. It knows message ids for a while and is trimmed by age. It may
//! lose its tail, or show one node another record than it shows the others.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// So long a message id is known: shorter than late copies take, so that some come twice.
const KNOWN_MS: u64 = 2_000;

/// The stream of one epoch.
#[derive(Default)]
pub(super) struct Log {
    /// With the time of each.
    records: VecDeque<(u64, Arc<[u8]>)>,
    trimmed: u64,
    ids: BTreeMap<String, (u64, u64)>,
    /// All that is in it or was trimmed, for the model.
    pub(super) all: Vec<Arc<[u8]>>,
    /// What one node reads instead of what is there: node, sequence, record.
    pub(super) fork: Option<(usize, u64, Arc<[u8]>)>,
    /// It lost its tail, or was forked: not all that was told of it is true any more.
    pub(super) damaged: bool,
    /// It takes nothing more.
    pub(super) sealed: bool,
    /// It was deleted.
    pub(super) absent: bool,
}

impl Log {
    pub(super) fn last(&self) -> u64 {
        self.trimmed + self.records.len() as u64
    }

    pub(super) fn first(&self) -> u64 {
        self.trimmed + 1
    }

    /// The first sequence that is not older than `since_ms`.
    pub(super) fn since(&self, since_ms: u64) -> u64 {
        self.first() + self.records.iter().take_while(|(at_ms, _)| *at_ms < since_ms).count() as u64
    }

    pub(super) fn append(&mut self, now_ms: u64, id: &str, record: Arc<[u8]>) -> u64 {
        self.ids.retain(|_, (at_ms, _)| *at_ms + KNOWN_MS > now_ms);
        if let Some(&(_, sequence)) = self.ids.get(id) {
            return sequence;
        }
        self.records.push_back((now_ms, Arc::clone(&record)));
        self.all.push(record);
        self.ids.insert(id.to_owned(), (now_ms, self.last()));
        self.last()
    }

    pub(super) fn read(&self, node: usize, sequence: u64) -> Option<Arc<[u8]>> {
        if let Some((_, _, other)) =
            self.fork.as_ref().filter(|(who, at, _)| (*who, *at) == (node, sequence))
        {
            return (sequence <= self.last()).then(|| Arc::clone(other));
        }
        let index = sequence.checked_sub(self.first())? as usize;
        self.records.get(index).map(|(_, record)| Arc::clone(record))
    }

    pub(super) fn trim(&mut self, before_ms: u64) {
        while self.records.front().is_some_and(|(at_ms, _)| *at_ms < before_ms) {
            self.records.pop_front();
            self.trimmed += 1;
        }
    }

    /// Is deleted. What is lost, by sequence.
    pub(super) fn delete(&mut self) -> Vec<(u64, Arc<[u8]>)> {
        self.absent = true;
        self.forget(usize::MAX)
    }

    /// Loses the last records, and what it knew of their ids. What is lost, by sequence.
    pub(super) fn forget(&mut self, records: usize) -> Vec<(u64, Arc<[u8]>)> {
        let mut lost = Vec::new();
        for _ in 0..records.min(self.records.len()) {
            let last = self.last();
            lost.extend(self.records.pop_back().map(|(_, record)| (last, record)));
            self.all.pop();
            self.ids.retain(|_, (_, sequence)| *sequence != last);
        }
        self.damaged = true;
        lost
    }
}
