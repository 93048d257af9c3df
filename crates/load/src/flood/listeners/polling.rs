//! When a listener that polls asks again: as soon as it is answered. After an answer that brings
//! nothing and comes at once it waits, or all of them would ask a server that stops, or whatever
//! answers for it, as fast as they can.

use std::collections::VecDeque;

use sys::clock;

use super::Listeners;
use crate::flood::cursor::Cursor;
use crate::flood::listener::{Listener, Phase};
use crate::flood::tally::Totals;

/// An answer that comes before this is too early to bring nothing, and the next poll waits as long.
const PAUSE_MS: u32 = 1_000;

/// When listeners asked, and when they ask again. Four bytes for each that polls.
pub(super) struct Polls {
    /// Milliseconds on the monotonic clock, cut to 32 bits; 0 once the answer has brought
    /// something, and for the first poll, which does not wait.
    asked_ms: Vec<u32>,
    /// When who asks, in the order of that time, and on which of its connections.
    later: VecDeque<(u64, u32, u32)>,
}

impl Polls {
    /// Of so many listeners.
    pub(super) fn new(count: u32) -> Polls {
        Polls { asked_ms: vec![0; count as usize], later: VecDeque::new() }
    }

    /// The answer to `slot`, or what is here of it, brings something; or none is awaited.
    pub(super) fn content(&mut self, slot: u32) {
        if let Some(asked_ms) = self.asked_ms.get_mut(slot as usize) {
            *asked_ms = 0;
        }
    }

    /// When the next of those who wait asks.
    pub(super) fn due_ms(&self) -> Option<u64> {
        self.later.front().map(|&(due_ms, ..)| due_ms)
    }
}

/// What was heard, to be compared with what is heard later.
pub(super) struct Heard {
    events: u64,
    gaps: u64,
    place: Option<Cursor>,
}

impl Heard {
    /// By `listener` and all others whose counts are in `totals`.
    pub(super) fn of(totals: &Totals, listener: &Listener) -> Heard {
        let Totals { events, told_gaps: gaps, .. } = *totals;
        Heard { events, gaps, place: listener.cursor.clone() }
    }

    /// Whether `later` has more. A gap that is told again with the same place leads nowhere.
    pub(super) fn is_less(&self, later: &Heard) -> bool {
        self.events < later.events || (self.gaps < later.gaps && self.place != later.place)
    }
}

impl Listeners {
    /// The poll of `slot` is answered: the next one goes out now, or in a while.
    pub(super) fn poll_on(&mut self, slot: u32) {
        let now_ms = clock::monotonic_ms();
        let asked_ms = self.polls.asked_ms[slot as usize];
        if asked_ms != 0 && (now_ms as u32).wrapping_sub(asked_ms) < PAUSE_MS {
            let attempt = self.listeners[slot as usize].attempt;
            self.polls.later.push_back((now_ms + u64::from(PAUSE_MS), slot, attempt));
        } else {
            self.poll(slot, now_ms);
        }
    }

    /// Sends the polls that have waited.
    pub(super) fn poll_due(&mut self, now_ms: u64) {
        let due = |&mut (due_ms, ..): &mut (u64, u32, u32)| due_ms <= now_ms;
        while let Some((_, slot, attempt)) = self.polls.later.pop_front_if(due) {
            let listener = &self.listeners[slot as usize];
            // Its connection may have ended meanwhile.
            if listener.attempt == attempt && matches!(listener.phase, Phase::Polling(_)) {
                self.poll(slot, now_ms);
            }
        }
    }

    fn poll(&mut self, slot: u32, now_ms: u64) {
        self.polls.asked_ms[slot as usize] = (now_ms as u32).max(1);
        let cursor = self.listeners[slot as usize].cursor.as_ref();
        self.task.poll(slot, false, cursor, &mut self.request);
        self.send_request(slot);
    }
}
