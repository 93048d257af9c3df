//! What is known of the replica at a start: whether the log has all that it lacks, and what to keep
//! with it for the next start.

use super::Node;
use crate::action::{Known, LogFault, LogMark};
use crate::pipeline::Item;

impl Node {
    /// A place up to which the replica has all that the log says, if there is one: to be kept with
    /// the replica, for [`Known::Since`] of the next process.
    pub fn mark(&self) -> Option<LogMark> {
        let sequence = self.left_at.unwrap_or(self.pipeline.applied());
        let settled = self.followed && self.broken.is_none() && self.replica.is_settled();
        if !settled || !self.served || self.pipeline.waits_for_graph().is_some() {
            return None;
        }
        debug_assert!(sequence <= self.read, "the mark is of what was read");
        let hash = self.chain.added(sequence)?;
        Some(LogMark { epoch: self.epoch.number, sequence, hash })
    }

    /// An earlier process of this node had read the log up to there, as its [`Node::mark`] says. To
    /// be told before the first input. A log that does not have that record any more was put back
    /// to an older state. If all nodes that had read further were killed meanwhile, no living one
    /// knows, and numbers that clients have heard would be given to other events.
    pub fn was_at(&mut self, mark: LogMark) {
        debug_assert!(!self.followed, "the log is compared from its first record on");
        self.was_at = (mark.epoch == self.epoch.number && mark.sequence > 0).then_some(mark);
    }

    /// The log ends at `head`: behind what an earlier process has read?
    pub(super) fn compare_head(&mut self, now_ms: u64, head: u64) {
        if let Some(mark) = self.was_at.filter(|mark| mark.sequence > head) {
            self.other_than(now_ms, mark, LogFault::HeadBehind);
        }
    }

    /// Up to where an earlier process has read this epoch's log, until that is compared: whatever
    /// the log is given up for before, no later epoch may begin below it.
    pub(super) fn read_before(&self) -> u64 {
        self.was_at.map_or(0, |mark| mark.sequence)
    }

    /// No number that an earlier process has read comes again in the next epoch.
    fn other_than(&mut self, now_ms: u64, mark: LogMark, fault: LogFault) {
        self.top = self.top.max(mark.sequence);
        self.was_at = None;
        self.fault(now_ms, fault);
    }

    /// Whether the log, which is followed behind `before` and ends at `head`, has all that the
    /// replica lacks, as far as that can be said now.
    pub(super) fn has_all(&self, before: u64, head: u64) -> bool {
        match self.known {
            Known::Read { epoch, sequence } => epoch == self.epoch.number && before <= sequence,
            // The record itself comes once more, and is compared.
            Known::Since(LogMark { epoch, sequence, .. }) => {
                epoch == self.epoch.number && (before + 1..=head).contains(&sequence)
            }
            Known::Nothing => false,
        }
    }

    /// What was read may be what the replica was complete up to, in another process.
    pub(super) fn compare_mark(&mut self, now_ms: u64) {
        if let Some(mark) = self.was_at.filter(|mark| mark.sequence <= self.read) {
            self.was_at = None;
            // Where it was passed over, it is older than all that anybody may come back to here.
            let read = mark.sequence == self.read;
            if read && self.chain.added(self.read) != Some(mark.hash) {
                self.other_than(now_ms, mark, LogFault::OtherRecord);
            }
        }
        if let Known::Since(LogMark { sequence, hash, .. }) = self.known
            && sequence == self.read
            && self.chain.added(sequence) != Some(hash)
        {
            // It is another log. What was read of it is not to be relied upon for the graph.
            self.known = Known::Nothing;
            self.pipeline.push(sequence, 0, Item::Latest);
        }
    }
}
