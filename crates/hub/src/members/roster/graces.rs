//! Members that have gone and wait for their grace, in the order in which it ends.
//!
//! There are [`GRACES_MAX`] at most. Past that the one that waits longest leaves early. One id has
//! half of the places at most: a user that goes there past that leaves at once. So no crowd makes
//! those of other ids leave early.
//!
//! Cost of one that waits: a place in a table, and two in a queue at most. An entry of the queue
//! counts for nothing once its member waits no more or anew. When most are such, all of them are
//! taken out.

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
    /// How many of them are of one id.
    of_rooms: HashMap<Id, usize>,
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
            queue: VecDeque::new(),
            turns: 0,
        }
    }
}

/// What became of a member that is to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Placed {
    /// It waits.
    Waits,
    /// It waits, and this one, which has waited longest, is to leave early.
    WaitsFor(Membership),
    /// It is to leave itself.
    HasNoPlace,
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
    pub(super) fn begin(&mut self, pair: Membership, over_ms: u64) -> Placed {
        debug_assert!(self.queue.back().is_none_or(|last| last.over_ms <= over_ms));
        let mut first = None;
        if !self.waiting.contains_key(&pair) {
            if self.of_rooms.get(&pair.room).is_some_and(|&of_room| of_room >= self.most / 2) {
                return Placed::HasNoPlace;
            }
            if self.len() >= self.most {
                first = self.take_first();
            }
        }
        self.turns += 1;
        if self.waiting.insert(pair, self.turns).is_none() {
            *self.of_rooms.entry(pair.room).or_default() += 1;
        }
        self.queue.push_back(Turn { number: self.turns, pair, over_ms });
        if self.queue.len() > 2 * self.len() + PASSED_OVER {
            let waiting = &self.waiting;
            self.queue.retain(|turn| waiting.get(&turn.pair) == Some(&turn.number));
        }
        first.map_or(Placed::Waits, Placed::WaitsFor)
    }

    /// `pair` waits no more, if it did.
    pub(super) fn end(&mut self, pair: Membership) {
        if self.waiting.remove(&pair).is_none() {
            return;
        }
        if let Some(of_room) = self.of_rooms.get_mut(&pair.room) {
            *of_room -= 1;
            if *of_room == 0 {
                self.of_rooms.remove(&pair.room);
            }
        }
        // What a storm has taken is given back.
        if self.waiting.is_empty() {
            *self = Graces { most: self.most, ..Graces::default() };
        }
    }

    /// Takes the one out that has waited longest.
    pub(super) fn take_first(&mut self) -> Option<Membership> {
        self.take_over(u64::MAX)
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
