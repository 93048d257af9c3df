//! The wall clock, by which a token's end is meant, beside the one that only grows.
//!
//! A stream's end is counted by the latter. When somebody sets the clock forward, or the machine
//! was suspended, all ends come nearer by as much. When the clock is set back no stream lasts
//! longer for it.

use super::Shard;
use super::core::Core;
use crate::conn::Conn;
use crate::sockets::Sockets;
use crate::timer::{TICK_MS, Tick};

/// By how much the clocks may differ before it counts, in milliseconds.
const STEP_MS: i64 = 1_000;

impl<S: Sockets> Core<S> {
    /// When the time of a connection's token is over; [`Tick::MAX`] is never.
    pub(super) fn ends(&self, conn: &Conn<S::Socket>) -> Tick {
        match conn.expires {
            Tick::MAX => Tick::MAX,
            expires => expires.saturating_sub(self.wall.ahead),
        }
    }

    /// What is to be noted of a token whose time is over at `tick`.
    pub(super) fn expires_at(&self, tick: Tick) -> Tick {
        tick.saturating_add(self.wall.ahead).min(Tick::MAX - 1)
    }
}

impl<S: Sockets> Shard<S> {
    /// Whether the wall clock matters.
    pub(crate) fn has_tokens(&self) -> bool {
        let config = &self.core.config;
        let is_hubs = config.mercure.as_ref().is_some_and(|hub| hub.check.is_some());
        config.tokens.is_some() || is_hubs
    }

    /// The wall clock shows `unix_ms`.
    pub(crate) fn set_wall(&mut self, unix_ms: u64) {
        let offset_ms = unix_ms as i64 - (self.core.now_ns / 1_000_000) as i64;
        let wall = &mut self.core.wall;
        let step_ms = offset_ms - *wall.offset_ms.get_or_insert(offset_ms);
        if step_ms.abs() < STEP_MS {
            return;
        }
        wall.offset_ms = Some(offset_ms);
        if step_ms > 0 {
            let ticks = (step_ms as u64).div_ceil(TICK_MS).min(u64::from(Tick::MAX));
            wall.ahead = wall.ahead.saturating_add(ticks as Tick);
            self.ends_looked_at = Some(0);
        }
    }

    /// Starts the timers of streams anew whose ends have come nearer, as far as the turn's budget
    /// goes.
    pub(super) fn look_at_ends(&mut self) {
        while !self.core.budget.is_spent()
            && let Some(slot) = self.ends_looked_at
        {
            if slot >= self.conns.slots() {
                // Nobody is there, or no more.
                self.ends_looked_at = None;
                break;
            }
            self.ends_looked_at = Some(slot + 1);
            self.core.budget.spend(1);
            self.serve(slot, |core, at| {
                if at.conn.expires < Tick::MAX {
                    core.wait(at);
                }
                Ok(())
            });
        }
    }
}
