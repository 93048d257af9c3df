//! The events of a held connection: what it has missed goes before what came meanwhile.
//!
//! Both are bounded like everything else that is kept for a client. What it has missed comes in
//! windows, each asked for when the one before is written; what comes meanwhile is put by as far as
//! there is room, and asked for again past that. So a client that reads nothing holds a window, and
//! one that reads hears all that is remembered, however much that is.

use std::sync::Arc;

use crate::Event;
use crate::conn::{Conn, HeldEvents};
use crate::limits;
use crate::past::{Floors, Past};

/// What a held connection has missed.
pub(crate) struct Missed {
    /// In the order of their numbers, none left out up to `up_to`.
    pub(crate) events: Vec<Arc<Event>>,
    pub(crate) up_to: u64,
    /// Nothing is missing behind them either.
    pub(crate) whole: bool,
    /// Above which number each id's last events stand, if that was asked for.
    pub(crate) floors: Option<Floors>,
    /// The number up to which others may be missing, if the client is told so and it is known.
    pub(crate) gap_up_to: u64,
}

impl<S> Conn<S> {
    /// Puts `event` by. `false` when its client has heard it, at a node of the cluster that was
    /// faster, or when there is no room: then it is asked for again.
    pub(crate) fn hold(&mut self, event: &Arc<Event>, bytes_max: usize) -> bool {
        let held = &mut self.new_work().held;
        if event.number() <= held.after {
            return false;
        }
        let bytes = event.json().len() + limits::HELD_EVENT_BYTES;
        if held.dropped_from.is_none() && held.bytes + bytes <= bytes_max {
            held.events.push(event.clone());
            held.bytes += bytes;
            return true;
        }
        held.dropped_from.get_or_insert(event.number());
        false
    }

    /// Puts what it has `missed` into the outbox, merged with what was put by up to there, each
    /// event once, with the bytes of `before` before them. Says up to which number all is there
    /// then; `None` when that is all there is.
    pub(crate) fn catch_up(&mut self, before: &[u8], missed: Missed) -> Option<u64> {
        let Missed { events: missed, up_to, whole, floors, gap_up_to } = missed;
        let held = std::mem::take(&mut self.new_work().held);
        let gap_up_to = gap_up_to.max(held.gap_up_to);
        let HeldEvents { events: came, dropped_from, past, .. } = held;
        let end = match (whole, dropped_from) {
            (true, None) => None,
            (true, Some(dropped)) => Some(dropped - 1),
            (false, dropped) => Some(up_to.min(dropped.map_or(u64::MAX, |dropped| dropped - 1))),
        };
        if !before.is_empty() {
            self.push_reply(before);
        }
        let last = end.unwrap_or(u64::MAX);
        let mut missed = missed.into_iter().filter(|event| event.number() <= last).peekable();
        for event in came.iter().filter(|event| event.number() <= last) {
            while let Some(earlier) = missed.next_if(|missed| missed.number() < event.number()) {
                self.push_event(&earlier);
            }
            missed.next_if(|missed| missed.number() == event.number());
            self.push_event(event);
        }
        missed.for_each(|event| {
            self.push_event(&event);
        });
        if let Some(end) = end {
            self.keep_later(came, end, past.map(|past| Box::new(past.behind(end, floors))));
            self.new_work().held.gap_up_to = gap_up_to;
        }
        self.tidy();
        end
    }

    /// Goes on putting by what is behind `end`, up to which all is handed over.
    fn keep_later(&mut self, mut came: Vec<Arc<Event>>, end: u64, past: Option<Box<Past>>) {
        came.retain(|event| event.number() > end);
        let cost = |event: &Arc<Event>| event.json().len() + limits::HELD_EVENT_BYTES;
        let bytes = came.iter().map(cost).sum();
        self.new_work().held =
            HeldEvents { events: came, bytes, after: end, past, ..HeldEvents::default() };
    }

    /// Gives back what was put by.
    pub(crate) fn take_held(&mut self) -> Vec<Arc<Event>> {
        let held = self.some_work().map(|work| std::mem::take(&mut work.held));
        self.tidy();
        held.unwrap_or_default().events
    }
}
