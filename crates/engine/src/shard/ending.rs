//! How connections end: gracefully, a few at a time where many are to go.
//!
//! A stream that ends well hears what it was already handed and the end of the stream, and is
//! logged out at once. Our side is ended when all of that is written, and the client has a moment
//! for its own. What stands still meanwhile is cut; what moves goes on.
//!
//! Ends cost: a write, a call, a log-out under each id. So where an application logs thousands out,
//! a drain ends all, or many readers are too slow at once, each connection is told at once that it
//! [leaves](State::Leaving), which costs a store, and is ended in its turn.

use hub::{ConnRef, DisconnectReason};
use proto::Format;

use super::core::{At, Core, End, Lives};
use super::{Shard, key_of};
use crate::conn::state::{Input, Leave, State};
use crate::limits::work;
use crate::mailbox::Targets;
use crate::receipt::Stub;
use crate::sockets::Sockets;

/// Connections that are to be ended.
pub(super) struct LeavingBatch {
    targets: Targets,
    /// So many of them have been.
    ended: usize,
    /// Completes when all of them are.
    _stub: Option<Stub>,
}

impl<S: Sockets> Shard<S> {
    /// Tells connections that they are to end, as far as they hear, and ends as many as there is
    /// time for. The others follow, and then the receipt is complete.
    pub(super) fn disconnect(
        &mut self,
        reason: DisconnectReason,
        targets: Targets,
        mut stub: Stub,
    ) {
        for &target in &targets {
            let Some((_, conn)) = self.conns.find(key_of(target)) else { continue };
            if conn.state().hears() {
                conn.move_to(State::Leaving(Leave::Graceful(reason)));
                stub.count_one();
            }
        }
        self.leaving.push_back(LeavingBatch { targets, ended: 0, _stub: Some(stub) });
        self.end_some();
    }

    /// Has a connection that hears cut in its turn.
    pub(super) fn cut_later(&mut self, target: ConnRef, reason: DisconnectReason) {
        if let Some((_, conn)) = self.conns.find(key_of(target)) {
            conn.move_to(State::Leaving(Leave::Cut(reason)));
            let targets = Targets::from_elem(target, 1);
            self.leaving.push_back(LeavingBatch { targets, ended: 0, _stub: None });
        }
    }

    /// Begins to end all connections.
    pub(super) fn drain(&mut self) {
        self.drained_to = (self.conns.slots() > 0).then_some(0);
        self.end_some();
    }

    /// Ends connections that are to end, as far as the turn's budget goes.
    pub(super) fn end_some(&mut self) {
        while !self.core.budget.is_spent()
            && let Some(batch) = self.leaving.front_mut()
        {
            let Some(&target) = batch.targets.get(batch.ended) else {
                self.leaving.pop_front();
                continue;
            };
            batch.ended += 1;
            self.core.budget.spend(work::END);
            if self.conns.find(key_of(target)).is_some() {
                self.serve(target.slot() as u32, |core, at| core.end_leaving(at));
            }
        }
        while !self.core.budget.is_spent()
            && let Some(slot) = self.drained_to
        {
            self.drained_to = Some(slot + 1).filter(|&next| next < self.conns.slots());
            self.core.budget.spend(1);
            let disconnect = Input::Disconnect(DisconnectReason::Shutdown);
            self.serve(slot, |core, at| {
                core.budget.spend(work::END);
                core.happen(at, disconnect)
            });
        }
    }

    /// Ends every connection without an end of its stream, and without taking back its log-ins: the
    /// worker is at its end.
    pub(crate) fn abort_all(&mut self) {
        for slot in 0..self.conns.slots() {
            self.remove(slot, DisconnectReason::Shutdown, true);
        }
    }
}

impl<S: Sockets> Core<S> {
    /// It is the turn of one that is to end.
    fn end_leaving(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        match at.conn.state() {
            State::Leaving(Leave::Cut(reason)) => Err(End { reason, abort: true }),
            State::Leaving(Leave::Graceful(reason)) => {
                self.end_stream(at, reason)?;
                // What it has said meanwhile is still in the kernel: a close over it would be a
                // reset.
                self.defer(at);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Ends a stream gracefully.
    pub(super) fn end_stream(
        &mut self,
        at: &mut At<'_, S::Socket>,
        reason: DisconnectReason,
    ) -> Lives {
        if at.conn.wire.format() == Format::Poll {
            return self.answer_poll(at, Some(reason), None);
        }
        self.push_end(at, reason);
        self.end_with_answer(at, reason)
    }

    /// Ends a stream whose last words are in the buffer for answers.
    pub(super) fn end_with_answer(
        &mut self,
        at: &mut At<'_, S::Socket>,
        reason: DisconnectReason,
    ) -> Lives {
        // What has come while it was held is not told, or its client would take it for all.
        at.conn.take_held();
        self.leave(at);
        at.conn.move_to(State::Ending(reason));
        self.send_answer(at)?;
        self.finish(at, reason)
    }

    /// Sends what waits, then our end, then gives the client a moment for its own.
    pub(super) fn finish(&mut self, at: &mut At<'_, S::Socket>, reason: DisconnectReason) -> Lives {
        if matches!(at.conn.state(), State::Lingering(_)) {
            return Ok(());
        }
        at.conn.move_to(State::Ending(reason));
        if at.conn.is_flushed() {
            self.linger(at, reason);
            return Ok(());
        }
        // For what is said last its client has time of its own.
        at.conn.active = self.now;
        self.wait(at);
        self.flush(at)
    }

    /// The client has been told all that it is told. What waits for it would mean nothing to it.
    pub(super) fn fail(&mut self, at: &mut At<'_, S::Socket>, reason: DisconnectReason) {
        self.leave(at);
        at.conn.forget_all();
        self.linger(at, reason);
    }

    /// All is written.
    pub(super) fn linger(&mut self, at: &mut At<'_, S::Socket>, reason: DisconnectReason) {
        at.conn.move_to(State::Lingering(reason));
        self.io.shutdown(&at.conn.socket);
        at.conn.active = self.now;
        self.wait(at);
    }
}
