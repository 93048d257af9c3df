//! What is known of the replica at a start: whether the log has all that it lacks, and what to keep
//! with it for the next start.

use super::Node;
use crate::action::{Known, LogMark};
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
    pub(super) fn compare_mark(&mut self) {
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
