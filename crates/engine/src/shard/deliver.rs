//! An event is handed to its connections: onto their outboxes, which costs a few stores each, and
//! is written where there is no room for it.

use std::sync::Arc;

use hub::{ConnRef, DisconnectReason};

use super::core::{At, End};
use super::parked::Rest;
use super::{Shard, key_of};
use crate::conn::action::EventAction;
use crate::conn::{Conn, Marks, Queue};
use crate::limits;
use crate::mailbox::{Mail, Targets};
use crate::receipt::Stub;
use crate::said::DirectMessage;
use crate::sockets::Sockets;
use crate::{Event, form};

/// What has become of an event for a connection.
enum Handed {
    /// It lives and took it.
    Over,
    /// There is no such connection any more, or it did not take it.
    ToNobody,
    /// Its backlog is full, and there is no time to write it.
    NotYet,
}

impl<S: Sockets> Shard<S> {
    /// Hands the event to those of `targets` that do not have it. Returns to how many, and what is
    /// left of the mail.
    pub(super) fn deliver(
        &mut self,
        event: Arc<Event>,
        targets: Targets,
        is_last: bool,
        from: usize,
        mut stub: Stub,
    ) -> (usize, Option<Rest>) {
        // Mail comes in the order of its numbers, and of one event there may be several.
        if event.number() > self.core.latest {
            self.core.settle(self.core.latest);
            self.core.latest = event.number();
        }
        if !self.core.channels.fresh.is_empty() {
            let settled = self.core.settled;
            self.core.channels.fresh.forget_up_to(settled);
        }
        let bulk = targets.len() > limits::EXPRESS_TARGETS_MAX;
        for (at, &target) in targets.iter().enumerate().skip(from) {
            match self.deliver_one(&event, target, bulk) {
                Handed::Over => {
                    stub.count_one();
                    self.core.counters.deliveries.add(1);
                }
                Handed::ToNobody => self.core.counters.dropped.add(1),
                Handed::NotYet => {
                    let mail = Mail::Deliver { event, targets, is_last, stub };
                    return (at - from, Some(Rest { mail, from: at }));
                }
            }
        }
        self.end_some();
        (targets.len() - from, None)
    }

    fn deliver_one(&mut self, event: &Arc<Event>, target: ConnRef, bulk: bool) -> Handed {
        if self.core.pending_gap.is_some() {
            self.tell_first(target);
        }
        let key = key_of(target);
        if !self.core.channels.are_plain()
            && let Some(handed) = self.deliver_in_channels(event, target)
        {
            return handed;
        }
        let bytes_max = self.core.config.backlog_bytes_max;
        let is_full = |conn: &Conn<_>| !conn.is(Marks::BLOCKED) && conn.backlog_bytes() > bytes_max;
        if self.conns.find(key).is_some_and(|(_, conn)| is_full(conn)) {
            if self.core.has_no_time_for_full() {
                return Handed::NotYet;
            }
            self.flush_full(key.slot);
        }
        let Some((place, conn)) = self.conns.find(key) else { return Handed::ToNobody };
        let (waiting, takes) = match conn.state().on_event() {
            EventAction::Take => (conn.push_event(event), true),
            // Without room it is asked for again, so it was not handed over.
            EventAction::Hold => (0, conn.hold(event, limits::held_bytes(bytes_max))),
            EventAction::Drop => return Handed::ToNobody,
        };
        let mut at = At { slot: key.slot, place, conn };
        if at.conn.work().is_some()
            && let Err(End { reason, .. }) = self.core.enter(&mut at)
        {
            self.cut_later(target, reason);
            return Handed::ToNobody;
        }
        if waiting > bytes_max && at.conn.is(Marks::BLOCKED) {
            self.cut_later(target, DisconnectReason::SlowReader);
            return Handed::ToNobody;
        }
        if waiting > bytes_max && !self.core.has_no_time_for_full() {
            let lives = self.flush_full(key.slot);
            return if lives { Handed::Over } else { Handed::ToNobody };
        }
        if at.conn.queued() != Queue::Express && !at.conn.is_flushed() {
            self.core.queue(&mut at, bulk);
        }
        if takes { Handed::Over } else { Handed::ToNobody }
    }

    /// Hands the event to one that is told it in another way than all others.
    fn deliver_in_channels(&mut self, event: &Arc<Event>, target: ConnRef) -> Option<Handed> {
        let (key, channels) = (key_of(target), &mut self.core.channels);
        let is_told = channels.fresh.has_told(key.slot, event);
        if is_told || channels.missed.passes_over(key.slot, event) {
            return Some(Handed::ToNobody);
        }
        let frame = channels.graph.frame(key.slot, event)?;
        if self.conns.find(key).is_none() {
            return Some(Handed::ToNobody);
        }
        let text: Arc<str> = frame.into();
        self.serve(key.slot, |core, at| core.say(at, DirectMessage::Message(text)));
        Some(Handed::Over)
    }

    /// Writes to a connection that has more waiting than it may. It may be we who are slow: what
    /// waits for its turn to be written is no backlog yet. Whether it lives on.
    fn flush_full(&mut self, slot: u32) -> bool {
        let (mut lives, before) = (false, self.core.budget.spent());
        self.serve(slot, |core, at| {
            core.flush(at)?;
            lives = true;
            Ok(())
        });
        self.core.spent_on_full += self.core.budget.spent() - before;
        lives
    }

    /// Compresses `event` if one of the `targets` agreed to it and nobody has. Returns what that
    /// cost, in deliveries.
    pub(super) fn compress_for(&mut self, event: &Arc<Event>, targets: &[ConnRef]) -> usize {
        if !self.core.config.websocket_deflate {
            return 0;
        }
        let agreed = |&target: &ConnRef| {
            self.conns.find(key_of(target)).is_some_and(|(_, conn)| conn.is(Marks::DEFLATE))
        };
        let is_new = targets.iter().any(agreed)
            && form::compress(event, self.core.deflater.get_or_insert_default());
        match is_new {
            true => {
                limits::COMPRESSION_DELIVERIES
                    + event.json().len() / limits::COMPRESSION_BYTES_PER_DELIVERY
            }
            false => 0,
        }
    }
}
