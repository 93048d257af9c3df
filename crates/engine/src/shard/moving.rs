//! The end of all connections, spread over a time, because other nodes take their clients.
//!
//! In each slice of the time as many are ended as its share of them is, in the order of their
//! slots. Nobody else is let in meanwhile. Until its turn comes a connection is as it was: it hears
//! events, and counts.

use hub::DisconnectReason;

use super::{NoPlace, Shard};
use crate::conn::state::Input;
use crate::limits::{MOVE_SLICE_MS, work};
use crate::sockets::Sockets;

/// How far it has come.
#[derive(Debug)]
pub(super) struct Moving {
    /// In milliseconds since the engine's start.
    began_ms: u64,
    over_ms: u64,
    /// Connections that there were, and those of them that are ended.
    all: u64,
    ended: u64,
    /// The slot to look at next.
    slot: u32,
}

impl Moving {
    /// How many are to be ended by `now_ms`.
    fn due(&self, now_ms: u64) -> u64 {
        let passed_ms = now_ms.saturating_sub(self.began_ms);
        if passed_ms >= self.over_ms { u64::MAX } else { self.all * passed_ms / self.over_ms }
    }
}

impl<S: Sockets> Shard<S> {
    /// Begins to end all connections, evenly over so many milliseconds.
    pub(crate) fn move_all(&mut self, over_ms: u64) {
        if self.moving.is_none() {
            let (began_ms, all) = (self.now_ms(), self.conns.len() as u64);
            self.moving = Some(Moving { began_ms, over_ms, all, ended: 0, slot: 0 });
            self.move_some();
        }
    }

    /// Ends those whose time has come, as far as the turn's budget goes.
    pub(super) fn move_some(&mut self) {
        while !self.core.budget.is_spent()
            && self.is_to_move()
            && let Some(moving) = &mut self.moving
        {
            let slot = moving.slot;
            moving.slot += 1;
            let is_there = self.conns.at(slot).is_some();
            moving.ended += u64::from(is_there);
            self.core.budget.spend(1);
            if is_there {
                self.core.budget.spend(work::END);
                let moved = Input::Disconnect(DisconnectReason::Moved);
                self.serve(slot, |core, at| core.happen(at, moved));
            }
        }
    }

    /// Whether the time of some has come.
    pub(super) fn is_to_move(&self) -> bool {
        let moving = self.moving.as_ref().filter(|moving| moving.slot < self.conns.slots());
        moving.is_some_and(|moving| moving.ended < moving.due(self.now_ms()))
    }

    /// When the next ones are to be ended, in milliseconds since the engine's start.
    pub(crate) fn next_move_ms(&self) -> Option<u64> {
        let moving = self.moving.as_ref().filter(|moving| moving.slot < self.conns.slots())?;
        let (all, over_ms) = (moving.all.max(1), moving.over_ms);
        let next_ms = moving.began_ms + ((moving.ended + 1) * over_ms / all).min(over_ms);
        Some(next_ms.max(self.now_ms() + MOVE_SLICE_MS))
    }

    /// Why nobody is let in, if that is so.
    pub(crate) fn lets_nobody_in(&self) -> Option<NoPlace> {
        self.moving.as_ref().map(|_| NoPlace::Moving)
    }

    fn now_ms(&self) -> u64 {
        self.core.now_ns / 1_000_000
    }
}
