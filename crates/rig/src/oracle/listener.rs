//! What one listener has heard, in order.

use std::collections::BTreeSet;

use super::EventId;

/// How an id stands to those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// It is greater than all of them.
    Next,
    /// It is the last one once more.
    Again,
    /// A greater one came before.
    Behind,
}

/// Ids between which a listener misses nothing.
#[derive(Clone, Copy, Debug)]
struct Segment {
    after: EventId,
    until: EventId,
}

/// A listener, over all its streams.
#[derive(Clone, Debug, Default)]
pub struct Listener {
    segments: Vec<Segment>,
    /// Behind a gap nothing is known until something is told.
    is_known: bool,
    /// The numbers of the events that it has heard, if they are kept.
    numbers: Option<BTreeSet<u64>>,
}

impl Listener {
    /// One that keeps what it has heard: some 20 bytes an event.
    pub fn remembering() -> Listener {
        Listener { numbers: Some(BTreeSet::new()), ..Listener::default() }
    }

    /// It hears something with that id.
    pub fn advance(&mut self, id: EventId) -> Order {
        let Some(segment) = self.segments.last_mut().filter(|_| self.is_known) else {
            self.begin(id.saturating_sub(1), id);
            return Order::Next;
        };
        let order = match id {
            _ if id > segment.until => Order::Next,
            _ if id == segment.until => Order::Again,
            _ => Order::Behind,
        };
        segment.until = segment.until.max(id);
        order
    }

    /// It is told where it stands: what comes next is behind that. A place that it has heard stands
    /// where it should be.
    pub fn place(&mut self, id: EventId) -> Order {
        match self.segments.last_mut().filter(|_| self.is_known) {
            Some(segment) if id < segment.until => Order::Behind,
            Some(segment) => {
                segment.until = id;
                Order::Next
            }
            None => {
                self.begin(id, id);
                Order::Next
            }
        }
    }

    /// It is told that it has missed something.
    pub fn gap(&mut self) {
        self.is_known = false;
    }

    fn begin(&mut self, after: EventId, until: EventId) {
        self.segments.push(Segment { after, until });
        self.is_known = true;
    }

    /// Keeps that it has heard an event; whether it has not before, for all that is kept.
    pub(super) fn remember(&mut self, number: u64) -> bool {
        self.numbers.as_mut().is_none_or(|numbers| numbers.insert(number))
    }

    /// Whether an event of that id and number, if it was to be heard, is missing.
    pub(super) fn misses(&self, id: EventId, number: u64) -> bool {
        let inside = |segment: &Segment| segment.after < id && id <= segment.until;
        let has_heard = |numbers: &BTreeSet<u64>| numbers.contains(&number);
        self.segments.iter().any(inside) && !self.numbers.as_ref().is_some_and(has_heard)
    }
}
