//! What the replica and the store of record say.

use super::Node;
use crate::action::{Action, GraphPlace};
use crate::change::Change;
use crate::limits::CHANGES_WAITING_MAX;
use crate::pipeline::UNKNOWN;

impl Node {
    /// A change that the store of record has committed goes into the log; also the answer to
    /// [`Action::FetchChange`]. `change.hash` may be 0. [`Action::ChangeApplied`] says when whoever
    /// asked for it may be answered.
    ///
    /// Where too many wait for the log it is passed over: the store of record has it, and it is
    /// read there when it is the next one. It may be told again meanwhile.
    pub fn change(&mut self, now_ms: u64, change: Change) {
        if self.ended {
            return;
        }
        if self.has_place_for(change.version) {
            for part in change.parts_of(self.part_bytes).into_iter().flatten() {
                self.publish_part(now_ms, part);
            }
        } else {
            self.replica.latest(now_ms, self.rank(), change.version);
        }
        self.step(now_ms);
    }

    /// Whether a change may wait for the log. The one that the replica needs next has a place among
    /// any number of later ones, since all of these wait for it. Where an earlier one waits, the
    /// log is away: the replica goes on by the store of record, and needs one after the other.
    fn has_place_for(&self, version: u64) -> bool {
        let first = self.changes.first_key_value().map(|(&(first, _), _)| first);
        let is_first = first.is_none_or(|first| version < first);
        self.changes.len() < CHANGES_WAITING_MAX
            || is_first && version <= self.replica.version().saturating_add(1)
            || self.changes.contains_key(&(version, 0))
    }

    /// The replica is at `graph`: after each [`Action::Apply`], and after what else has moved it.
    pub fn graph(&mut self, now_ms: u64, graph: GraphPlace) {
        let moved = self.replica.moved(now_ms, graph);
        self.moved(now_ms, moved);
    }

    /// The replica is at `graph`, and was made anew out of the store of record.
    pub fn graph_renewed(&mut self, now_ms: u64, graph: GraphPlace) {
        let moved = self.replica.renewed(now_ms, graph);
        self.moved(now_ms, moved);
    }

    fn moved(&mut self, now_ms: u64, (differs, complete): (bool, Vec<Change>)) {
        if differs {
            self.actions.push_back(Action::RebuildGraph);
        }
        self.pass_on(self.read, complete);
        self.pipeline.graph(self.replica.version());
        self.acknowledge();
        self.step(now_ms);
    }

    /// The store of record is at `version`. `ask` is the [`Action::CheckVersion`] that this
    /// answers, or 0 where it is told without a question.
    pub fn latest_version(&mut self, now_ms: u64, ask: u64, version: u64) {
        if ask == self.asks {
            self.check_ms = None;
        }
        // What was asked before, or polled, may be older than a change that somebody acknowledged.
        if ask >= self.fresh_ask && self.pipeline.waits_for_graph() == Some(UNKNOWN) {
            self.pipeline.latest(version);
            if !self.pipeline.graph(self.replica.version()) {
                self.actions.push_back(Action::ReadChanges);
            }
        }
        self.replica.latest(now_ms, self.rank(), version);
        self.step(now_ms);
    }
}
