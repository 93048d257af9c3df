//! What clients may make a worker do in one turn, counted in work and not in bytes: see
//! [`WORK_PER_TURN`].

use crate::limits::{WORK_PER_CONNECTION, WORK_PER_TURN, work};

/// What is left of a turn's budget, and of one connection's part in it.
#[derive(Debug)]
pub(crate) struct Budget {
    per_turn: u32,
    per_connection: u32,
    spent: u32,
    /// What was spent before the connection that is being served.
    before: u32,
}

impl Budget {
    pub(crate) fn new() -> Budget {
        Budget { per_turn: WORK_PER_TURN, per_connection: WORK_PER_CONNECTION, spent: 0, before: 0 }
    }

    /// Another one: a small one is spent by few clients, a large one by none.
    #[cfg(test)]
    pub(crate) fn set(&mut self, per_turn: u32) {
        (self.per_turn, self.per_connection) = (per_turn, per_turn / 10);
    }

    /// A turn begins.
    pub(crate) fn renew(&mut self) {
        (self.spent, self.before) = (0, 0);
    }

    /// The next connection is being served.
    pub(crate) fn begin_connection(&mut self) {
        self.before = self.spent;
    }

    pub(crate) fn spend(&mut self, work: u32) {
        self.spent = self.spent.saturating_add(work);
    }

    /// The same for looking at so many bytes.
    pub(crate) fn spend_bytes(&mut self, bytes: usize) {
        self.spend(u32::try_from(bytes).unwrap_or(u32::MAX) / work::BYTES);
    }

    /// The same for log-ins and log-outs.
    pub(crate) fn spend_ids(&mut self, ids: usize) {
        self.spend(u32::try_from(ids).unwrap_or(u32::MAX).saturating_mul(work::ID));
    }

    /// What the turn has spent.
    pub(crate) fn spent(&self) -> u32 {
        self.spent
    }

    /// Whether the turn has no more for clients.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent >= self.per_turn
    }

    /// Whether it is another connection's turn.
    pub(crate) fn is_anothers(&self) -> bool {
        self.is_spent() || self.spent - self.before >= self.per_connection
    }
}
