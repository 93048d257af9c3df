//! What clients may make a worker do in one turn, counted in work and not in bytes: see
//! [`WORK_PER_TURN`]. Each [`Part`] of a turn has a share that the others cannot take.

use crate::limits::{WORK_PER_CONNECTION, WORK_PER_TURN, work};

/// What a turn does for clients, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Who comes.
    Accepts,
    /// What is due by time, and ends.
    Due,
    /// Who has said more than an earlier turn had time for.
    Deferred,
    /// What is reported, and all that follows.
    Reports,
}

impl Part {
    const COUNT: u32 = 4;
}

/// What is left of a turn's budget, and of one connection's part in it.
#[derive(Debug)]
pub(crate) struct Budget {
    per_turn: u32,
    per_connection: u32,
    spent: u32,
    /// How far the present part may go.
    end: u32,
    /// What was spent before the connection that is being served.
    before: u32,
}

impl Budget {
    pub(crate) fn new() -> Budget {
        let (per_turn, per_connection) = (WORK_PER_TURN, WORK_PER_CONNECTION);
        Budget { per_turn, per_connection, spent: 0, end: per_turn, before: 0 }
    }

    /// Another one: a small one is spent by few clients, a large one by none.
    #[cfg(test)]
    pub(crate) fn set(&mut self, per_turn: u32) {
        (self.per_turn, self.per_connection) = (per_turn, per_turn / 10);
        self.end = per_turn;
    }

    /// A turn begins, with who comes.
    pub(crate) fn renew(&mut self) {
        (self.spent, self.before) = (0, 0);
        self.begin(Part::Accepts);
    }

    /// The turn comes to `part`, which has its share of the budget, and what those before it have
    /// left.
    pub(crate) fn begin(&mut self, part: Part) {
        let share = self.per_turn.div_ceil(Part::COUNT);
        let of_others = share * (Part::COUNT - 1 - part as u32);
        let left = self.per_turn.saturating_sub(of_others);
        self.end = left.max(self.spent.saturating_add(share));
    }

    /// The next connection is being served.
    pub(crate) fn begin_connection(&mut self) {
        self.before = self.spent;
    }

    pub(crate) fn spend(&mut self, work: u32) {
        self.spent = self.spent.saturating_add(work);
    }

    /// Spends what looking at so many bytes costs.
    pub(crate) fn spend_bytes(&mut self, bytes: usize) {
        self.spend(u32::try_from(bytes).unwrap_or(u32::MAX) / work::BYTES);
    }

    /// Spends what so many log-ins and log-outs cost.
    pub(crate) fn spend_ids(&mut self, ids: usize) {
        self.spend(u32::try_from(ids).unwrap_or(u32::MAX).saturating_mul(work::ID));
    }

    /// What the turn has spent.
    pub(crate) fn spent(&self) -> u32 {
        self.spent
    }

    /// Whether this part of the turn has no more for clients.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent >= self.end
    }

    /// Whether it is another connection's turn.
    pub(crate) fn is_anothers(&self) -> bool {
        self.is_spent() || self.spent - self.before >= self.per_connection
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: [Part; 4] = [Part::Accepts, Part::Due, Part::Deferred, Part::Reports];

    /// What each part may spend, where those in `greedy` take all that they get.
    fn spend(greedy: &[Part]) -> [u32; 4] {
        let mut budget = Budget::new();
        budget.renew();
        PARTS.map(|part| {
            budget.begin(part);
            let before = budget.spent();
            let left = budget.end - before;
            if greedy.contains(&part) {
                budget.spend(left);
                assert!(budget.is_spent() && budget.is_anothers());
            }
            left
        })
    }

    #[test]
    fn no_part_takes_the_share_of_another_and_what_is_left_goes_to_the_next() {
        let share = WORK_PER_TURN / 4;
        assert_eq!(spend(&PARTS), [share; 4]);
        assert_eq!(spend(&[]), [share, 2 * share, 3 * share, 4 * share]);
        assert_eq!(spend(&[Part::Deferred]), [share, 2 * share, 3 * share, share]);
    }

    #[test]
    fn part_that_goes_past_its_end_takes_nothing_from_the_others() {
        let mut budget = Budget::new();
        budget.renew();
        budget.spend(WORK_PER_TURN);
        budget.begin(Part::Due);
        assert!(!budget.is_spent(), "whoever came");
        budget.spend(WORK_PER_TURN / 4);
        assert!(budget.is_spent());
    }

    #[test]
    fn turn_without_a_budget_does_nothing() {
        let mut budget = Budget::new();
        budget.set(0);
        budget.renew();
        assert!(PARTS.iter().all(|&part| {
            budget.begin(part);
            budget.is_spent()
        }));
    }
}
