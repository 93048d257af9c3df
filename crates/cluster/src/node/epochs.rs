//! What ends a log, and begins another one.

use super::Node;
use super::joining::Joining;
use crate::action::{Action, Epoch, Known, LogFault};
use crate::chain::Chain;
use crate::counts::{Counts, Sums};
use crate::limits::PROPOSE_AGAIN_MS;
use crate::liveness::Liveness;
use crate::pipeline::Pipeline;
use crate::roster::Roster;

impl Node {
    /// The cluster's epoch is this one.
    pub fn epoch(&mut self, now_ms: u64, epoch: Epoch) {
        if epoch.number <= self.epoch.number || self.ended {
            return;
        }
        let old = std::mem::replace(&mut self.epoch, epoch);
        let known = self.top.max(self.publisher.acked()).max(self.read_before());
        self.above = self.above.max(old.behind(known));
        let mut told = Vec::new();
        self.sums.end(old, &mut told);
        self.publisher.abandon(&mut told);
        self.actions.retain(|action| matches!(action, Action::Answer { .. }));
        self.restart(now_ms);
        self.tell(told);
        let number = epoch.number;
        self.actions.push_back(Action::EpochBegan(epoch));
        self.actions.push_back(Action::Follow { epoch: number, from: Some(1) });
        self.check_version(now_ms);
        // Changes that somebody has acknowledged may be in the log of the epoch before alone.
        self.known = Known::Nothing;
        self.was_at = None;
        if epoch.base <= self.above {
            self.fault(now_ms, LogFault::BaseTooLow);
        }
        self.step(now_ms);
    }

    /// There is no stream of this epoch any more.
    pub fn stream_gone(&mut self, now_ms: u64, epoch: u64) {
        if epoch == self.epoch.number {
            self.fault(now_ms, LogFault::Gone);
        }
    }

    /// No number that was given, as far as is known, is above this one: so no later epoch may begin
    /// below it.
    pub fn above(&self) -> u64 {
        let known = self.top.max(self.read).max(self.read_before());
        self.above.max(self.epoch.behind(known)).max(self.epoch.base)
    }

    /// All of an epoch is forgotten.
    fn restart(&mut self, now_ms: u64) {
        (self.followed, self.read, self.head, self.top) = (false, 0, 0, 0);
        (self.stalled_ms, self.is_view_new) = (None, true);
        self.floor = self.epoch.base;
        self.chain = Chain::new(0);
        (self.before, self.newer) = (None, None);
        self.roster = Roster::new(0);
        self.liveness = Liveness::new(now_ms);
        self.pipeline = Pipeline::new(0);
        (self.sums, self.counts) = (Sums::default(), Counts::default());
        self.replica.restart();
        (self.incarnation, self.left, self.left_at) = (None, false, None);
        self.proofs.clear();
        (self.left_ms, self.returning_ms) = (now_ms, Some(now_ms));
        self.joining = Joining::new(now_ms, self.config.nonce);
        self.leaves.clear();
        self.broken = None;
        let parts = std::mem::take(&mut self.changes);
        parts.into_values().for_each(|(part, _)| self.publish_part(now_ms, part));
    }

    /// The log is not the one that was read: nothing more of it is believed.
    pub(super) fn fault(&mut self, now_ms: u64, fault: LogFault) {
        if self.broken.is_none() && !self.ended {
            self.propose(now_ms, fault);
        }
    }

    pub(super) fn propose(&mut self, now_ms: u64, fault: LogFault) {
        debug_assert!(!self.ended);
        self.broken = Some((fault, now_ms + PROPOSE_AGAIN_MS));
        let above = self.above();
        debug_assert!(above >= self.floor && above >= self.applied_number());
        let epoch = self.epoch.number + 1;
        self.actions.push_back(Action::ProposeEpoch { epoch, above, fault });
    }
}
