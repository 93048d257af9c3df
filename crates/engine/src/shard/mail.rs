//! What the router posts: events, ends, and what clients that came back have missed.

use std::sync::Arc;

use hub::{ConnRef, DisconnectReason};

use super::core::{At, End};
use super::{Shard, key_of};
use crate::conn::life::{Act, Input};
use crate::conn::{Marks, Queue};
use crate::limits;
use crate::mailbox::{Mail, Targets};
use crate::receipt::Stub;
use crate::sockets::Sockets;
use crate::{Event, form};

impl<S: Sockets> Shard<S> {
    /// Takes one mail. Returns what it cost, in deliveries.
    pub(crate) fn mail(&mut self, mail: Mail) -> usize {
        let mut weight = mail.weight();
        match mail {
            Mail::Deliver { event, targets, stub } => {
                weight += self.compress_for(&event, &targets);
                self.deliver(&event, &targets, stub);
            }
            Mail::Close { reason, targets, stub } => self.disconnect(reason, targets, stub),
            Mail::CatchUp(catch_up) => {
                weight += limits::CATCH_UP_DELIVERIES;
                let target = catch_up.target;
                if self.conns.find(key_of(target)).is_some() {
                    self.serve(target.slot() as u32, |core, at| core.catch_up(at, *catch_up));
                }
            }
            Mail::Drain { .. } => self.drain(),
        }
        weight
    }

    fn deliver(&mut self, event: &Arc<Event>, targets: &Targets, mut stub: Stub) {
        // Mail comes in the order of its numbers.
        self.settle(event.number());
        let bulk = targets.len() > limits::EXPRESS_TARGETS_MAX;
        for &target in targets {
            if self.deliver_one(event, target, bulk) {
                stub.count_one();
                self.core.counters.deliveries.add(1);
            } else {
                self.core.counters.dropped.add(1);
            }
        }
        self.end_some();
    }

    /// Whether the connection still lived and took the event.
    fn deliver_one(&mut self, event: &Arc<Event>, target: ConnRef, bulk: bool) -> bool {
        let key = key_of(target);
        let Some((generation, conn)) = self.conns.find(key) else { return false };
        let bytes_max = self.core.rules.config.backlog_bytes_max;
        let (waiting, takes) = match conn.on(Input::Event, self.core.now) {
            Act::Take => (conn.push_event(event), true),
            // Without room it is asked for again, so it was not handed over.
            Act::Hold => (0, conn.hold(event, limits::held_bytes(bytes_max))),
            _ => return false,
        };
        let mut at = At { slot: key.slot, generation, conn };
        if at.conn.work().is_some()
            && let Err(End { reason, .. }) = self.core.enter(&mut at)
        {
            self.cut_later(target, reason);
            return false;
        }
        if waiting > bytes_max {
            return self.bound_backlog(target);
        }
        if at.conn.queued != Queue::Express && !at.conn.is_flushed() {
            self.core.queue(&mut at, bulk);
        }
        takes
    }

    /// A connection has more waiting than it may. Whether it lives on.
    fn bound_backlog(&mut self, target: ConnRef) -> bool {
        let key = key_of(target);
        let is_blocked = |(_, conn): (_, &mut crate::conn::Conn<_>)| conn.is(Marks::BLOCKED);
        if self.conns.find(key).is_some_and(is_blocked) {
            self.cut_later(target, DisconnectReason::SlowReader);
            return false;
        }
        let mut lives = false;
        self.serve(key.slot, |core, at| {
            core.bound(at)?;
            lives = true;
            Ok(())
        });
        lives
    }

    /// Compresses `event` if one of the `targets` agreed to it and nobody has. Returns what that
    /// cost, in deliveries.
    fn compress_for(&mut self, event: &Arc<Event>, targets: &Targets) -> usize {
        if !self.core.rules.config.websocket_deflate {
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
