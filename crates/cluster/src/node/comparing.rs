//! Whether what was read is what others have read, and what the log itself has said.

use super::Node;
use crate::action::LogFault;
use crate::change::Part;
use crate::publisher::Attempt;
use crate::record::Head;

impl Node {
    /// Another node's sum over the log up to `at`.
    pub(super) fn compare(&mut self, now_ms: u64, at: u64, chain: u64) {
        let Some(ours) = self.chain.at(at) else { return };
        // Who does not know the sum of what was before finds the same difference each time.
        let before = chain.wrapping_sub(ours);
        let known = if self.roster.is_known() { 0 } else { *self.before.get_or_insert(before) };
        if before != known {
            self.fault(now_ms, LogFault::Differs);
        }
    }

    /// What the log has acknowledged at a sequence that was read must have been there: otherwise it
    /// has lost its tail since, and has begun to fill it anew.
    pub(super) fn check_ours(&mut self, now_ms: u64) {
        let read = self.read;
        // Of joins and leaves only those are left that were not read.
        let mut unread = self.leaves.values().chain(&self.joining.attempt);
        let missed = self.publisher.misses(read) || unread.any(|attempt| attempt.is_at(read));
        let mut parts = self.changes.iter().filter(|(_, (_, attempt))| attempt.is_at(read));
        let another = |(&(version, part), (_, attempt)): (&(u64, u16), &(Part, Attempt))| {
            attempt.acked().is_some_and(|at| self.parts_read.misses(at, version, part))
        };
        if missed || parts.any(another) {
            self.fault(now_ms, LogFault::NotOurs);
        }
    }

    /// What a node that founds a view has read: behind its join nobody's sum says anything of it.
    pub(super) fn compare_since(&mut self, now_ms: u64, since: u64, head: &Head) {
        let (from, to) = (self.chain.at(since), self.chain.at(head.after));
        let ours = from.zip(to).map(|(from, to)| to.wrapping_sub(from));
        if ours.is_some_and(|ours| ours != head.chain) {
            self.fault(now_ms, LogFault::Differs);
        }
    }

    pub(super) fn check_claims(&mut self, now_ms: u64) {
        for (at, chain) in self.liveness.claims(self.read) {
            self.compare(now_ms, at, chain);
        }
    }
}
