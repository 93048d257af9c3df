//! For the simulator, which does at any moment what clients do by commands, and looks inside.

use hub::{ConnRef, ConnectionId};

use super::Shard;
use crate::conn::HeldEvents;
use crate::limits::HELD_EVENT_BYTES;
use crate::slab::Key;
use crate::sockets::Sockets;

impl<S: Sockets> Shard<S> {
    pub(crate) fn reply(&mut self, slot: u32, bytes: &[u8]) {
        self.serve(slot, |core, at| core.reply(at, bytes));
    }

    pub(crate) fn login(&mut self, slot: u32, texts: &[hub::IdText<'_>]) -> usize {
        let mut new = 0;
        self.serve(slot, |core, at| {
            new = core.login(at, texts, None).unwrap();
            Ok(())
        });
        new
    }

    pub(crate) fn logout(&mut self, slot: u32, texts: &[hub::IdText<'_>]) -> usize {
        let mut gone = 0;
        self.serve(slot, |core, at| {
            gone = core.logout(at, texts);
            Ok(())
        });
        gone
    }

    /// Does all that a turn had no time for.
    pub(crate) fn finish_mail(&mut self) {
        while !self.parked.is_empty() {
            self.core.spent_on_full = 0;
            self.go_on();
        }
    }

    /// All mail up to `posted` is taken.
    pub(crate) fn settle(&mut self, posted: u64) {
        self.core.settle(posted);
    }

    /// Whether a connection waits for its turn to be written to.
    pub(crate) fn owes_writes(&self) -> bool {
        !self.core.express.is_empty() || !self.core.bulk.is_empty()
    }

    /// Whether it may not have done all that is due: for want of time, or somebody is to end or to
    /// be written to in another turn.
    pub(crate) fn is_behind(&self) -> bool {
        self.core.budget.is_spent() || self.is_busy() || self.owes_writes()
    }

    /// Whether all that is kept for its connections is entered in the account, and nothing else.
    pub(crate) fn accounts_truly(&mut self) -> bool {
        // The slots behind the last connection are many, and a simulator asks after each turn.
        let (mut slots, mut left) = (0..self.conns.slots(), self.conns.len());
        while left > 0 {
            let slot = slots.next().expect("each connection has a slot");
            let Some((_, conn)) = self.conns.at(slot) else { continue };
            left -= 1;
            let polled = self.core.polled_bytes(slot);
            let below = self.core.io.kept_bytes(&conn.socket) as u32 + polled;
            let is_counted = conn.work().is_none_or(|work| is_counted(&work.held));
            if !is_counted || conn.charged != conn.kept_bytes() + below {
                return false;
            }
        }
        true
    }

    /// The key of the connection in `slot`.
    pub(crate) fn key_in(&mut self, slot: u32) -> Option<Key> {
        self.conns.at(slot).map(|(place, _)| Key { slot, generation: place.generation })
    }

    /// What the connection in `slot` is called.
    pub(crate) fn connection_id(&mut self, slot: u32) -> Option<ConnectionId> {
        let Key { slot, generation } = self.key_in(slot)?;
        let place = ConnRef::new(self.core.worker, slot as usize, generation);
        Some(self.core.connection_id(place))
    }

    /// Gives it another budget a turn.
    pub(crate) fn set_work_per_turn(&mut self, work: u32) {
        self.core.budget.set(work);
    }

    /// Has it read no more than that at a time.
    pub(crate) fn set_read_bytes(&mut self, bytes: usize) {
        self.core.scratch = vec![0; bytes].into();
    }
}

/// Whether what is put by counts for what it is.
fn is_counted(held: &HeldEvents) -> bool {
    let bytes = held.events.iter().map(|event| event.json().len() + HELD_EVENT_BYTES);
    held.bytes == bytes.sum::<usize>()
}
