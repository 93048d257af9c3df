//! What comes out of the log in its order is handed out, and what is done of it counted.

use super::Node;
use crate::action::{Action, EndReason};
use crate::message::Counted;
use crate::pipeline::{Done, Out};

impl Node {
    /// Hands out what may go, and takes note of what is done.
    pub(super) fn pump(&mut self, now_ms: u64) {
        let mut done = Vec::new();
        while !self.ended && self.left_at.is_none() && self.broken.is_none() {
            let Some(out) = self.pipeline.next(&mut done) else { break };
            self.hand_out(now_ms, out);
        }
        self.proofs.applied(self.pipeline.applied());
        let mut told = Vec::new();
        for Done { sequence, origin, me, counts } in done {
            let Some(me) = me else { continue };
            debug_assert!(sequence <= self.read);
            let counted = Counted { sequence, counts };
            if self.sums.has(sequence) {
                self.sums.add(self.epoch, me, &counted, &mut told);
            } else if Some(origin) != self.incarnation {
                self.counts.push(now_ms, origin, me, counted);
            }
        }
        self.tell(told);
        if self.left_at.is_some() && !self.ended {
            // Nobody asks it any more for what it has counted.
            let said = self.counts.say(now_ms, true);
            self.say_counts(said);
            self.end(EndReason::Drained);
        }
    }

    fn hand_out(&mut self, now_ms: u64, out: Out) {
        let action = match out {
            Out::Event { sequence, index, event } => {
                let number = self.epoch.number_of(sequence, index);
                Action::Deliver(crate::Deliver { sequence, index, number, event })
            }
            Out::Order { sequence, order } => Action::Obey { sequence, order },
            Out::Change(change) if change.version <= self.replica.version() => {
                self.pipeline.graph(self.replica.version());
                return;
            }
            Out::Change(change) => Action::Apply(change),
            Out::Graph(version) if version <= self.replica.version() => {
                self.pipeline.graph(version);
                return;
            }
            // It is on its way; if not, it is asked for.
            Out::Graph(_) => return,
            Out::Latest => {
                self.fresh_ask = self.asks + 1;
                return self.check_version(now_ms);
            }
            Out::Joined(incarnation) => Action::Joined { incarnation },
            Out::Left => Action::Left,
            Out::Gap(sequence) => {
                debug_assert!(self.floor <= self.epoch.behind(sequence), "a gap was forgotten");
                self.floor = self.epoch.behind(sequence);
                Action::Gap { after: self.floor }
            }
            Out::Drained(sequence) => {
                self.left_at = Some(sequence);
                return;
            }
        };
        self.actions.push_back(action);
    }
}
