//! Clients for whom there is no place, and whose request is waited for ([`crate::shard::full`]).

use std::collections::VecDeque;

use crate::limits;
use crate::timer::{TICK_MS, Tick};

/// How long one of them is waited for at most.
const MOST: Tick = (limits::UNPLACED_MS / TICK_MS) as Tick;

/// How long one is waited for at least, though others want to be: a tick has begun already.
const LEAST: Tick = (limits::UNPLACED_MS_MIN / TICK_MS) as Tick + 1;

/// Their slots, and since when they are waited for, in the order in which they came.
#[derive(Debug, Default)]
pub(in crate::shard) struct Unplaced(VecDeque<(u32, Tick)>);

impl Unplaced {
    pub(in crate::shard) fn len(&self) -> usize {
        self.0.len()
    }

    pub(in crate::shard) fn has(&self, slot: u32) -> bool {
        self.0.iter().any(|&(other, _)| other == slot)
    }

    /// One more is waited for.
    pub(in crate::shard) fn push(&mut self, slot: u32, now: Tick) {
        self.0.push_back((slot, now));
    }

    /// One has gone. Whether it was one of them.
    pub(in crate::shard) fn take(&mut self, slot: u32) -> bool {
        let at = self.0.iter().position(|&(other, _)| other == slot);
        at.and_then(|at| self.0.remove(at)).is_some()
    }

    /// The one that has waited longest, if it may have to go for another.
    pub(in crate::shard) fn gives_way(&self, now: Tick) -> Option<u32> {
        self.first_after(LEAST, now)
    }

    /// One whose time is over.
    pub(in crate::shard) fn late(&self, now: Tick) -> Option<u32> {
        self.first_after(MOST, now)
    }

    /// When the time of the first of them is over.
    pub(in crate::shard) fn next(&self) -> Option<Tick> {
        self.0.front().map(|&(_, since)| since + MOST)
    }

    fn first_after(&self, wait: Tick, now: Tick) -> Option<u32> {
        self.0.front().filter(|&&(_, since)| since + wait <= now).map(|&(slot, _)| slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_that_came_gives_way_after_its_least_time_and_is_late_after_the_most() {
        let mut unplaced = Unplaced::default();
        assert_eq!(unplaced.next(), None);
        unplaced.push(7, 100);
        unplaced.push(3, 101);
        assert_eq!(unplaced.gives_way(100 + LEAST - 1), None);
        assert_eq!(unplaced.gives_way(100 + LEAST), Some(7));
        assert_eq!(unplaced.late(100 + MOST - 1), None);
        assert_eq!(unplaced.late(100 + MOST), Some(7));
        assert_eq!(unplaced.next(), Some(100 + MOST));
        assert!(unplaced.take(7) && !unplaced.take(7));
        assert!(unplaced.has(3) && !unplaced.has(7));
        assert_eq!((unplaced.len(), unplaced.late(100 + MOST)), (1, None));
        assert_eq!(unplaced.late(101 + MOST), Some(3));
    }
}
