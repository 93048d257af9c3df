//! When this process stood still: a machine that was moved or suspended, a debugger, SIGSTOP.
//!
//! What a client could not say to anybody, or we did not read, is no silence of its own. So who
//! waits for a client waits longer by each pause that came in between. What the server owes, such
//! as a sign of life or the answer to a poll, and the end of a token, are at their time all the
//! same. A pause is seen by a turn that comes later than it was to come.

use std::collections::VecDeque;

use crate::timer::{TICK_MS, Tick};

/// What a turn may be late by without anybody having stood still, in milliseconds.
const LATE_MS: u64 = 300;

/// How many pauses are remembered: a process that stands still again and again, since its machine
/// is too busy, ends those who say nothing all the same.
const PAUSES_MAX: usize = 8;

/// The last pauses, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// When each began, and how long it was.
    past: VecDeque<(Tick, Tick)>,
    /// When the next turn comes at the latest, in milliseconds.
    turn_due_ms: Option<u64>,
}

impl Pauses {
    /// The next turn comes by then, if at all.
    pub(crate) fn turn_comes_by(&mut self, due_ms: Option<u64>) {
        self.turn_due_ms = due_ms;
    }

    /// A turn begins at `now_ms`. The one before began at the tick `before`.
    pub(crate) fn turn_begins(&mut self, now_ms: u64, before: Tick) {
        let Some(due_ms) = self.turn_due_ms.take() else { return };
        let late_ms = now_ms.saturating_sub(due_ms);
        if late_ms < LATE_MS {
            return;
        }
        if self.past.len() == PAUSES_MAX {
            self.past.pop_front();
        }
        let len = late_ms.div_ceil(TICK_MS).min(u64::from(Tick::MAX / 4));
        self.past.push_back((before, len as Tick));
    }

    /// When somebody has been silent for `silence` who was heard of at `since`.
    pub(crate) fn after(&self, since: Tick, silence: Tick) -> Tick {
        let due = since.saturating_add(silence);
        self.past.iter().fold(due, |due, &(began, len)| match (since..=due).contains(&began) {
            true => due.saturating_add(len),
            false => due,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pauses that begin at these ticks and last so many.
    fn pauses(past: &[(Tick, u64)]) -> Pauses {
        let mut pauses = Pauses::default();
        for &(began, len) in past {
            let due_ms = u64::from(began) * TICK_MS;
            pauses.turn_comes_by(Some(due_ms));
            pauses.turn_begins(due_ms + len * TICK_MS, began);
        }
        pauses
    }

    #[test]
    fn pause_is_nobodys_silence() {
        let pauses = pauses(&[(50, 600), (700, 30)]);
        assert_eq!(pauses.after(0, 49), 49, "it was over before");
        assert_eq!(pauses.after(0, 100), 100 + 600 + 30, "the second began before it was over");
        assert_eq!(pauses.after(0, 60), 660);
        assert_eq!(pauses.after(650, 100), 780);
        assert_eq!(pauses.after(731, 100), 831);
    }

    #[test]
    fn turn_that_is_a_little_late_or_waits_for_nothing_is_no_pause() {
        let mut little = pauses(&[(50, 2)]);
        assert_eq!(little.after(0, 100), 100);
        little.turn_comes_by(None);
        little.turn_begins(1_000_000, 60);
        little.turn_begins(2_000_000, 10_000);
        assert_eq!(little.after(0, 100_000), 100_000);
    }

    #[test]
    fn who_stands_still_again_and_again_waits_for_nobody_for_ever() {
        let many: Vec<_> = (0..1_000).map(|at| (at * 5, 4)).collect();
        assert_eq!(pauses(&many).after(3_000, 2_000), 5_000 + 4 * PAUSES_MAX as Tick);
    }
}
