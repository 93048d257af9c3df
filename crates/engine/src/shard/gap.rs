//! A gap in mid-stream: events are missing that nobody will bring, and whoever hears is told so.
//!
//! It comes as mail, in its order among events. There may be half a million connections, each of
//! which takes a write, so they are told slot by slot in the course of many turns, with a part of
//! each turn's budget. Meanwhile events go on: who is handed one before it was its slot's turn is
//! told before it, in the same write. So everybody hears of the gap once and before whatever was
//! posted behind it, and nobody's events wait for the crowd.
//!
//! A stream that is held, since it is not known what it has missed, is told that it has, and goes
//! on with what is posted from here on; an answer that is on its way to it comes too late. One that
//! waits for a place [ahead](crate::ahead) of the gap goes on waiting: it misses nothing of it. A
//! poll is answered. One that comes back between two polls brings a place from before the gap. The
//! classic page has no word for it.
//!
//! Cost: while it lasts a bit for each slot, and a look at it for each event; else a look at a
//! pointer.

use hub::ConnRef;

use super::core::{At, Core, Lives};
use super::tables::pending_gap::PendingGap;
use super::{Shard, key_of};
use crate::conn::Marks;
use crate::conn::action::GapAction;
use crate::conn::state::State;
use crate::limits::GAP_WORK_PER_TURN;
use crate::slab::Key;
use crate::sockets::Sockets;

impl<S: Sockets> Shard<S> {
    /// Events up to the number `up_to` may be missing; all that was posted before has been handed
    /// over.
    pub(super) fn begin_gap(&mut self, up_to: u64) {
        // Another gap before all were told of the first is told with it. It begins where that has
        // come to, or one after the other would leave the last ones waiting for ever.
        let next = self.core.pending_gap.take().map_or(0, |gap| gap.next);
        let slots = self.conns.slots();
        if slots > 0 {
            self.core.pending_gap = Some(Box::new(PendingGap::all(up_to, slots, next)));
        }
        self.core.except_begun_behind();
        self.core.latest = self.core.latest.max(up_to);
        self.core.settle(up_to);
        self.tell_some();
    }

    /// Tells the next ones, as far as a turn has time for it.
    pub(super) fn tell_some(&mut self) {
        let end = self.core.budget.spent().saturating_add(GAP_WORK_PER_TURN);
        while self.core.pending_gap.is_some()
            && self.core.budget.spent() < end
            && !self.core.budget.is_spent()
        {
            let next = self.core.pending_gap.as_mut().and_then(|gap| gap.take_next());
            let Some(slot) = next else {
                self.core.pending_gap = None;
                return;
            };
            self.core.budget.spend(1);
            if self.core.has_pending_gap(slot) {
                self.serve(slot, |core, at| core.tell_gap(at));
                self.core.note_told(slot);
            }
        }
    }

    /// Tells `target` before it is handed something that was posted behind the gap: not with a
    /// write of its own.
    pub(super) fn tell_first(&mut self, target: ConnRef) {
        let Key { slot, .. } = key_of(target);
        if self.core.has_pending_gap(slot) && self.conns.find(key_of(target)).is_some() {
            self.serve(slot, |core, at| {
                core.put_gap(at);
                Ok(())
            });
        }
    }
}

impl<S: Sockets> Core<S> {
    /// Whether the connection in `slot`, if it hears, is still to be told of a gap.
    pub(super) fn has_pending_gap(&self, slot: u32) -> bool {
        self.pending_gap.as_ref().is_some_and(|gap| gap.has(slot))
    }

    /// A stream has logged in when so many `gaps` had been told: it begins behind them all, also
    /// behind those that are on their way to this shard.
    pub(super) fn note_begun(&mut self, slot: u32, gaps: u64) {
        self.note_told(slot);
        if gaps > self.gaps_come {
            self.begun_behind.push((slot, gaps));
        }
    }

    /// A gap has come. Who has begun behind it is not told.
    fn except_begun_behind(&mut self) {
        self.gaps_come += 1;
        let begun = std::mem::take(&mut self.begun_behind);
        begun.iter().for_each(|&(slot, _)| self.note_told(slot));
        self.begun_behind = begun;
        let come = self.gaps_come;
        self.begun_behind.retain(|&(_, gaps)| gaps > come);
    }

    /// It has been told, or has logged in after the gap.
    fn note_told(&mut self, slot: u32) {
        if let Some(gap) = &mut self.pending_gap {
            gap.take(slot);
        }
    }

    /// Whether the client has heard all up to a place behind the gap, at another node, and waits
    /// until this one comes there: nothing is missing of what it wants.
    fn is_beyond(&self, at: &At<'_, S::Socket>) -> bool {
        let up_to = self.pending_gap.as_ref().map(|gap| gap.up_to);
        at.conn.has_asked() && up_to.is_some_and(|up_to| at.conn.handed_up_to() > up_to)
    }

    /// Tells a connection of a gap, at once.
    fn tell_gap(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        if self.is_beyond(at) {
            return Ok(());
        }
        match at.conn.state().on_gap() {
            Some(GapAction::Tell) => {
                self.let_go(at);
                self.push_gap(at);
                self.send_answer(at)
            }
            // It looks around and asks again from there.
            Some(GapAction::TellPoll) => {
                let up_to = self.pending_gap.as_ref().map(|gap| gap.up_to);
                self.put_gap(at);
                self.answer_poll(at, None, up_to)
            }
            None => Ok(()),
        }
    }

    /// Puts the notice of a gap behind what waits for the connection.
    fn put_gap(&mut self, at: &mut At<'_, S::Socket>) {
        if self.is_beyond(at) {
            self.note_told(at.slot);
            return;
        }
        match at.conn.state().on_gap() {
            Some(GapAction::Tell) => {
                self.let_go(at);
                self.push_gap(at);
                if !self.answer.is_empty() {
                    at.conn.push_reply(&self.answer);
                    self.answer.clear();
                    self.queue(at, true);
                }
            }
            Some(GapAction::TellPoll) => {
                self.let_go(at);
                self.put_gap_of_poll(at);
            }
            None => {}
        }
    }

    /// Has the answer to a poll say so, if its client is still to be told of a gap.
    pub(super) fn put_gap_of_poll(&mut self, at: &mut At<'_, S::Socket>) {
        if self.has_pending_gap(at.slot) {
            self.note_told(at.slot);
            at.conn.mark(Marks::GAP, true);
            self.counters.gaps.add(1);
        }
    }

    /// What a held connection waits for does not come any more, and what was put by is of before
    /// the gap.
    fn let_go(&mut self, at: &mut At<'_, S::Socket>) {
        at.conn.take_held();
        match at.conn.state() {
            State::Held => at.conn.move_to(State::Stream),
            State::HeldPoll => at.conn.move_to(State::Poll),
            _ => {}
        }
    }

    /// The notice, and where the stream stands behind it, in the buffer for answers.
    fn push_gap(&mut self, at: &At<'_, S::Socket>) {
        let Some(up_to) = self.pending_gap.as_ref().map(|gap| gap.up_to) else { return };
        self.note_told(at.slot);
        let wire = at.conn.wire;
        if wire.format().resumes() {
            self.counters.gaps.add(1);
        }
        let id = self.event_ids.id(up_to).to_string();
        wire.format().push_gap(&mut self.answer, wire.carrier(), Some(&id));
        if !self.channels.missed.is_empty() {
            self.give_up_missed(at);
        }
    }
}
