//! An event is handed to its connections: onto their outboxes, which costs a few stores each, and
//! is written where there is no room for it.

use std::sync::Arc;

use hub::{ConnRef, DisconnectReason};
use smallvec::SmallVec;

use super::core::{At, End};
use super::parked::Rest;
use super::{Shard, key_of};
use crate::conn::action::EventAction;
use crate::conn::{Conn, Marks, Queue};
use crate::limits;
use crate::mailbox::{Mail, Targets};
use crate::receipt::Stub;
use crate::said::DirectMessage;
use crate::shared_ids::SharedChannels;
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

/// An event, and how it is handed over.
struct Delivering<'e> {
    event: &'e Arc<Event>,
    /// The channels that are shared with its subjects.
    shared: SharedChannels,
    bulk: bool,
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
        let apps = self.core.config.pusher.as_ref();
        let shared = apps.map(|apps| apps.shared_channels(&self.core.names, &event));
        let mut delivery = Delivering { event: &event, shared: shared.unwrap_or_default(), bulk };
        for (at, &target) in targets.iter().enumerate().skip(from) {
            match self.deliver_one(&mut delivery, target) {
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

    fn deliver_one(&mut self, delivery: &mut Delivering<'_>, target: ConnRef) -> Handed {
        if self.core.pending_gap.is_some() {
            self.tell_first(target);
        }
        let is_plain = self.core.channels.are_plain() & delivery.shared.is_empty();
        if !is_plain && let Some(handed) = self.deliver_in_channels(delivery, target) {
            return handed;
        }
        match self.make_room(target) {
            true => self.hand_to(delivery.event, target, delivery.bulk),
            false => Handed::NotYet,
        }
    }

    /// Writes to a connection whose backlog is full. `false` if there is no time for it.
    fn make_room(&mut self, target: ConnRef) -> bool {
        let (key, bytes_max) = (key_of(target), self.core.config.backlog_bytes_max);
        let is_full = |conn: &Conn<_>| !conn.is(Marks::BLOCKED) && conn.backlog_bytes() > bytes_max;
        if self.conns.find(key).is_some_and(|(_, conn)| is_full(conn)) {
            if self.core.has_no_time_for_full() {
                return false;
            }
            self.flush_full(key.slot);
        }
        true
    }

    fn hand_to(&mut self, event: &Arc<Event>, target: ConnRef, bulk: bool) -> Handed {
        let (key, bytes_max) = (key_of(target), self.core.config.backlog_bytes_max);
        let Some((place, conn)) = self.conns.find(key) else { return Handed::ToNobody };
        let before = conn.backlog_bytes();
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
        self.core.mind_gathered(&at, before, waiting);
        if takes { Handed::Over } else { Handed::ToNobody }
    }

    /// Hands the event to one that is told it in another way than all others.
    fn deliver_in_channels(
        &mut self,
        delivery: &mut Delivering<'_>,
        target: ConnRef,
    ) -> Option<Handed> {
        if let Some(events) = self.heard_in_channels(delivery, target) {
            return Some(self.hand_all_to(&events, target, delivery.bulk));
        }
        let (key, event) = (key_of(target), delivery.event);
        let channels = &mut self.core.channels;
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

    /// What the connection hears of the event in channels that are shared with its subjects, but
    /// for what it is told otherwise; `None` if it is in none of them.
    fn heard_in_channels(
        &mut self,
        delivery: &mut Delivering<'_>,
        target: ConnRef,
    ) -> Option<SmallVec<[Arc<Event>; 1]>> {
        let key = key_of(target);
        if delivery.shared.is_empty() || !self.core.channels.apps.has(key.slot) {
            return None;
        }
        let (place, conn) = self.conns.find(key)?;
        let (core, at) = (&mut self.core, At { slot: key.slot, place, conn });
        let mut events = None;
        for channel in &mut delivery.shared {
            if !core.has_id(&at, channel.id) {
                continue;
            }
            let events = events.get_or_insert_with(SmallVec::new);
            let Some(event) = channel.event(delivery.event) else { continue };
            let channels = &mut core.channels;
            let is_told = channels.fresh.has_told(key.slot, event);
            if !is_told && !channels.missed.passes_over(key.slot, event) {
                events.push(Arc::clone(event));
            }
        }
        events
    }

    /// Hands one event for each channel to a connection that counts once.
    fn hand_all_to(&mut self, events: &[Arc<Event>], target: ConnRef, bulk: bool) -> Handed {
        if events.is_empty() {
            return Handed::ToNobody;
        }
        // With room for the first there is room for all: else the first would come twice.
        if !self.make_room(target) {
            return Handed::NotYet;
        }
        let mut handed = Handed::ToNobody;
        for event in events {
            if let Handed::Over = self.hand_to(event, target, bulk) {
                handed = Handed::Over;
            }
        }
        handed
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
