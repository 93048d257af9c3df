//! What a turn does by itself: it begins, does what is due, and keeps for later what it has no time
//! for.

use super::Shard;
use crate::budget::Part;
use crate::reports::Report;
use crate::sockets::Sockets;
use crate::timer::TICK_MS;

impl<S: Sockets> Shard<S> {
    /// Reads on where the turn before had no time, as far as this turn has.
    pub(crate) fn read_deferred(&mut self) {
        for _ in 0..self.core.deferred.len() {
            if self.core.budget.is_spent() {
                return;
            }
            let Some(slot) = self.core.deferred.pop_front() else { return };
            self.serve(slot, |core, at| core.read_deferred(at));
        }
    }

    /// The next turn comes by then, in milliseconds since the engine's start, if anything is to be
    /// done by a time.
    pub(crate) fn turn_comes_by(&mut self, due_ms: Option<u64>) {
        self.core.pauses.turn_comes_by(due_ms);
    }

    /// Time goes on, in milliseconds since the engine's start, and a turn begins.
    pub(crate) fn begin_turn(&mut self, now_ms: u64) {
        self.core.pauses.turn_begins(now_ms, self.core.now);
        self.core.now = (now_ms / TICK_MS) as u32;
        self.core.now_ns = now_ms * 1_000_000;
        self.core.budget.renew();
        self.core.spent_on_full = 0;
    }

    /// What is due is done, within its part of the turn.
    pub(crate) fn do_due(&mut self) {
        self.begin_part(Part::Due);
        // A crowd of one kind is not to keep those of the others waiting.
        let mut kinds: [fn(&mut Self); 8] = [
            Self::fire_timers,
            Self::turn_late_away,
            Self::go_on_taken_over,
            Self::end_some,
            Self::move_some,
            Self::end_revoked,
            Self::look_at_ends,
            Self::tell_some,
        ];
        let begins = self.turns % kinds.len();
        kinds.rotate_left(begins);
        self.turns = self.turns.wrapping_add(1);
        kinds.into_iter().for_each(|kind| kind(self));
    }

    fn fire_timers(&mut self) {
        while !self.core.budget.is_spent() {
            let Some(slot) = self.core.wheel.fire(self.core.now) else { return };
            self.serve(slot, |core, at| core.time_has_come(at));
        }
    }

    /// The turn comes to this part of it.
    pub(crate) fn begin_part(&mut self, part: Part) {
        self.core.budget.begin(part);
    }

    /// Whether this part of the turn has no more time for clients.
    pub(crate) fn is_spent(&self) -> bool {
        self.core.budget.is_spent()
    }

    /// Does what the kernel reports of a connection.
    pub(crate) fn deal_with(&mut self, report: Report) {
        if report.writable {
            self.writable(report.slot);
        }
        if report.readable {
            self.readable(report.slot, report.hung_up);
        }
    }

    /// Leaves a report to a later turn, unless its connection is closed.
    pub(crate) fn put_off(&mut self, report: Report) {
        if self.conns.look_at(report.slot).is_some() {
            self.put_off.get_or_insert_default().push(report);
        }
    }

    /// The next report that was left to a later turn.
    pub(crate) fn next_put_off(&mut self) -> Option<Report> {
        let report = self.put_off.as_mut()?.pop();
        self.put_off.take_if(|put_off| put_off.is_empty());
        report
    }

    /// Whether reports were left to a later turn.
    pub(crate) fn has_put_off(&self) -> bool {
        self.put_off.is_some()
    }
}
