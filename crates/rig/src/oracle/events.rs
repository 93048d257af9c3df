//! The events, and how many have heard each.

use std::collections::{BTreeMap, VecDeque};

use super::{EventId, Listener, Order, Totals};

/// What an event was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is in the log; so many connections heard it, or at least so many.
    Acknowledged {
        /// Its id.
        id: EventId,
        /// How many connections.
        delivered: u64,
        /// Whether there may be more.
        at_least: bool,
    },
    /// It was not sent, and never will be.
    NotSent,
    /// A problem: it may have been sent, and may still be.
    Refused,
    /// None: the node ended before.
    Missing,
}

/// Whether a listener is to hear an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// It is.
    Must,
    /// Nobody knows.
    May,
    /// It is not.
    MustNot,
}

/// Who is to hear what.
pub trait Audience {
    /// What is known of an event: whom it is about, and what its sender keeps with it.
    type Event;

    /// Whether `listener` is to hear it.
    fn expected(&self, event: &Self::Event, listener: usize) -> Expected;

    /// How many are.
    fn count(&self, event: &Self::Event) -> u32;
}

/// What is wrong with something that was heard, or answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nobody has sent it.
    NeverSent,
    /// It was answered that it was not sent.
    NotSent,
    /// The listener is not to hear it.
    Stray,
    /// The listener has heard it before.
    Doubled,
    /// It came behind a later one.
    OutOfOrder,
    /// Others know it by another id, so it is in the log twice.
    OtherId(EventId),
}

/// An event that a listener should have heard, and did not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missed {
    /// The listener.
    pub listener: usize,
    /// The event's number.
    pub number: u64,
}

#[derive(Debug)]
pub(super) struct Entry<E> {
    event: E,
    heard: u32,
    /// From whoever knew it first.
    id: Option<EventId>,
    answer: Option<Answer>,
}

impl<E> Entry<E> {
    fn is_acknowledged(&self) -> bool {
        matches!(self.answer, Some(Answer::Acknowledged { .. }))
    }

    /// Gives it its id; what is wrong where it has another one.
    fn identify(&mut self, id: EventId) -> Option<Fault> {
        let known = *self.id.get_or_insert(id);
        (known != id).then_some(Fault::OtherId(known))
    }
}

/// The events of a run, numbered from 0.
#[derive(Debug)]
pub struct Oracle<A: Audience> {
    audience: A,
    events: VecDeque<Entry<A::Event>>,
    /// The number of the first of them.
    pub(super) first: u64,
    /// Those of before that are not done.
    pub(super) aside: BTreeMap<u64, Entry<A::Event>>,
    /// The sums so far.
    pub totals: Totals,
}

impl<A: Audience> Oracle<A> {
    /// One without events.
    pub fn new(audience: A) -> Oracle<A> {
        let (events, aside) = (VecDeque::new(), BTreeMap::new());
        Oracle { audience, events, first: 0, aside, totals: Totals::default() }
    }

    /// Who is to hear what.
    pub fn audience(&self) -> &A {
        &self.audience
    }

    /// The number that the next event has.
    pub fn next_number(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Enters the next event, before it is sent. Returns its number.
    pub fn send(&mut self, event: A::Event) -> u64 {
        let number = self.next_number();
        self.events.push_back(Entry { event, heard: 0, id: None, answer: None });
        self.totals.sent += 1;
        number
    }

    /// What is known of an event, unless it is forgotten or was never sent.
    pub fn event(&self, number: u64) -> Option<&A::Event> {
        let entry = match number.checked_sub(self.first) {
            Some(place) => self.events.get(usize::try_from(place).ok()?),
            None => self.aside.get(&number),
        };
        entry.map(|entry| &entry.event)
    }

    /// An event was answered, or will not be.
    pub fn answer(&mut self, number: u64, answer: Answer) -> Option<Fault> {
        let entry = entry(&mut self.events, self.first, &mut self.aside, number)?;
        entry.answer = Some(answer);
        match answer {
            Answer::Acknowledged { id, delivered, at_least } => {
                self.totals.acknowledged += 1;
                self.totals.delivered += delivered;
                self.totals.at_least += u64::from(at_least);
                let fault = entry.identify(id);
                self.totals.doubled += u64::from(fault.is_some());
                // Its own word counts from now on.
                entry.id = Some(id);
                fault
            }
            Answer::NotSent | Answer::Refused => {
                self.totals.refused += 1;
                None
            }
            Answer::Missing => {
                self.totals.unanswered += 1;
                None
            }
        }
    }

    /// A listener, the one of that number, hears an event. Returns what is wrong with it.
    pub fn hear(
        &mut self,
        listener: &mut Listener,
        number_of_listener: usize,
        id: EventId,
        number: u64,
    ) -> Vec<Fault> {
        let mut faults = Vec::new();
        let order = listener.advance(id);
        if order == Order::Behind {
            self.totals.out_of_order += 1;
            faults.push(Fault::OutOfOrder);
        }
        if number >= self.next_number() {
            faults.push(Fault::NeverSent);
            return faults;
        }
        self.totals.heard += 1;
        let is_new = listener.remember(number) && order != Order::Again;
        let entry = entry(&mut self.events, self.first, &mut self.aside, number);
        // One that is forgotten was heard by all.
        let Some(entry) = entry.filter(|_| is_new) else {
            self.totals.doubled += 1;
            faults.push(Fault::Doubled);
            return faults;
        };
        if entry.answer == Some(Answer::NotSent) {
            faults.push(Fault::NotSent);
        }
        if self.audience.expected(&entry.event, number_of_listener) == Expected::MustNot {
            self.totals.strays += 1;
            faults.push(Fault::Stray);
        }
        if let Some(fault) = entry.identify(id) {
            self.totals.doubled += 1;
            faults.push(fault);
        }
        let counts = |fault: &Fault| matches!(fault, Fault::OutOfOrder | Fault::NotSent);
        entry.heard += u32::from(faults.iter().all(counts));
        faults
    }

    /// Forgets the oldest events that are acknowledged and heard by all, and puts those aside that
    /// are not, where they are `old`.
    pub fn forget(&mut self, old: impl Fn(&A::Event) -> bool) {
        while let Some(entry) = self.events.front() {
            let done = entry.is_acknowledged() && entry.heard == self.audience.count(&entry.event);
            if !done && !old(&entry.event) {
                return;
            }
            let entry = self.events.pop_front().filter(|_| !done);
            self.aside.extend(entry.map(|entry| (self.first, entry)));
            self.first += 1;
        }
    }

    /// Whether all events are answered, and all that was acknowledged is heard.
    pub fn is_settled(&self) -> bool {
        let done = |entry: &Entry<A::Event>| match entry.answer {
            Some(Answer::Acknowledged { .. }) => entry.heard >= self.audience.count(&entry.event),
            Some(_) => true,
            None => false,
        };
        self.events.iter().chain(self.aside.values()).all(done)
    }

    /// Checks by counts what is not forgotten: nothing more is heard, and nobody was told of a gap.
    /// Each listener's ids grow and each event has one id, so nobody has heard one twice unseen.
    pub fn settle(&mut self) -> &Totals {
        let open = std::mem::take(&mut self.aside).into_values();
        for entry in open.chain(std::mem::take(&mut self.events)) {
            let (to_hear, acknowledged) =
                (self.audience.count(&entry.event), entry.is_acknowledged());
            if acknowledged || entry.heard > 0 {
                self.totals.lost += u64::from(to_hear.saturating_sub(entry.heard));
                self.totals.doubled += u64::from(entry.heard.saturating_sub(to_hear));
            }
            let all = !acknowledged && entry.heard >= to_hear;
            self.totals.heard_without_answer += u64::from(all);
        }
        &self.totals
    }

    /// Checks by what each listener remembers: what it misses of the log between the first and the
    /// last that it knows without a gap.
    pub fn missed(&self, listeners: &[Listener]) -> Vec<Missed> {
        let mut missed = Vec::new();
        for (number, entry) in (self.first..).zip(&self.events) {
            let Some(id) = entry.id else { continue };
            for (listener, remembered) in listeners.iter().enumerate() {
                let expected = self.audience.expected(&entry.event, listener);
                if expected == Expected::Must && remembered.misses(id, number) {
                    missed.push(Missed { listener, number });
                }
            }
        }
        missed
    }
}

/// The event of that number, unless it is forgotten or was never sent.
fn entry<'e, E>(
    events: &'e mut VecDeque<Entry<E>>,
    first: u64,
    aside: &'e mut BTreeMap<u64, Entry<E>>,
    number: u64,
) -> Option<&'e mut Entry<E>> {
    match number.checked_sub(first) {
        Some(place) => events.get_mut(usize::try_from(place).ok()?),
        None => aside.get_mut(&number),
    }
}
