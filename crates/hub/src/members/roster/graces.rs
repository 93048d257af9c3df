//! Members that have gone and wait for their grace, in the order in which it ends.
//!
//! There are [`GRACES_MAX`] at most. A room, and a user in all its rooms, have at most as many
//! places as are free: who goes past that leaves at once. So one room alone has half of the places,
//! and two have a third each. A few that take all they can leave places to those of another
//! (Choudhury and Hahne, "Dynamic queue length thresholds", 1998). Nobody who waits leaves early
//! because of others.
//!
//! Cost of one that waits: a place in a table, two in a queue at most, and two counts where its
//! room and its user have no other. An entry of the queue counts for nothing once its member waits
//! no more or anew. When most are such, all of them are taken out.

use std::collections::{HashMap, VecDeque};

use super::Membership;
use crate::id::Id;

/// Members that wait for their grace: 100,000 that go each second, for the five seconds of the
/// default.
const GRACES_MAX: usize = 1 << 19;

/// So few entries of the queue that count for nothing are no reason to go through it.
const PASSED_OVER: usize = 64;

/// Who waits, and until when.
pub(in crate::members) struct Graces {
    pub(in crate::members) most: usize,
    /// The turn of each.
    waiting: HashMap<Membership, u64>,
    /// How many of them are of one room, and of one user.
    of_rooms: HashMap<Id, usize>,
    of_users: HashMap<Id, usize>,
    queue: VecDeque<Turn>,
    /// How many turns there were.
    turns: u64,
}

/// A place in the queue.
struct Turn {
    /// Another one each time: a member can wait anew within the same millisecond.
    number: u64,
    pair: Membership,
    /// When its grace is over.
    over_ms: u64,
}

impl Default for Graces {
    fn default() -> Graces {
        Graces {
            most: GRACES_MAX,
            waiting: HashMap::new(),
            of_rooms: HashMap::new(),
            of_users: HashMap::new(),
            queue: VecDeque::new(),
            turns: 0,
        }
    }
}

impl Graces {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Places in the queue, also those that count for nothing.
    #[cfg(test)]
    pub(in crate::members) fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// The grace of `pair` begins, or begins anew; no other that waits ends later than `over_ms`.
    /// `false` where there is no place for it, as if there were `most` places at most.
    #[must_use]
    pub(super) fn begin(&mut self, pair: Membership, over_ms: u64, most: usize) -> bool {
        debug_assert!(self.queue.back().is_none_or(|last| last.over_ms <= over_ms));
        let most = self.most.min(most);
        let has_one = self.waiting.contains_key(&pair) && self.len() <= most;
        if !has_one && !self.has_place(pair, most) {
            return false;
        }
        self.turns += 1;
        if self.waiting.insert(pair, self.turns).is_none() {
            *self.of_rooms.entry(pair.room).or_default() += 1;
            *self.of_users.entry(pair.sub).or_default() += 1;
        }
        self.queue.push_back(Turn { number: self.turns, pair, over_ms });
        if self.queue.len() > 2 * self.len() + PASSED_OVER {
            let waiting = &self.waiting;
            self.queue.retain(|turn| waiting.get(&turn.pair) == Some(&turn.number));
        }
        true
    }

    /// Whether the room and the user have taken fewer places than are free of `most`.
    fn has_place(&self, pair: Membership, most: usize) -> bool {
        let free = most.saturating_sub(self.len());
        let taken = |counts: &HashMap<Id, usize>, id| counts.get(&id).copied().unwrap_or(0);
        taken(&self.of_rooms, pair.room).max(taken(&self.of_users, pair.sub)) < free
    }

    /// `pair` waits no more, if it did.
    pub(super) fn end(&mut self, pair: Membership) {
        if self.waiting.remove(&pair).is_none() {
            return;
        }
        for (counts, id) in [(&mut self.of_rooms, pair.room), (&mut self.of_users, pair.sub)] {
            if let Some(count) = counts.get_mut(&id) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&id);
                }
            }
        }
        // What a storm has taken is given back.
        if self.waiting.is_empty() {
            *self = Graces { most: self.most, ..Graces::default() };
        }
    }

    /// Takes the next one out whose grace is over at `now_ms`.
    pub(super) fn take_over(&mut self, now_ms: u64) -> Option<Membership> {
        while let Some(turn) = self.queue.pop_front_if(|turn| turn.over_ms <= now_ms) {
            if self.waiting.get(&turn.pair) == Some(&turn.number) {
                self.end(turn.pair);
                return Some(turn.pair);
            }
        }
        None
    }

    /// Whether there may be one whose grace is over at `now_ms`.
    pub(super) fn is_any_over(&self, now_ms: u64) -> bool {
        self.queue.front().is_some_and(|turn| turn.over_ms <= now_ms)
    }
}
