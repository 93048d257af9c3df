//! The books of a demo with nodes: each event with its answer and how many have heard it.
//!
//! An event that was acknowledged must have been heard by each of its audience, once. That is two
//! sums and a comparison: a listener's event ids grow from one event to the next, whichever node
//! it listens to, and each event has one id on all nodes, so nobody can hear one twice unseen; then
//! as many as were to hear it have heard it or there is a loss. An event without an answer, of a
//! node that was killed, is in the log or not: all have heard it, or nobody.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use figures::latency::{Latencies, Quantiles};
use serde::Serialize;

use super::audiences::Audiences;

/// How long an event may be open before it is put aside, so that those behind it can be closed:
/// longer than any listener is away.
const OPEN_NS: u64 = 30_000_000_000;

/// What an event was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// It is in the log; so many connections heard it, or at least so many.
    Acknowledged { id: u128, delivered: u64, at_least: bool },
    /// A problem: it was not sent, or may still be.
    Refused,
    /// None: the node ended before.
    Missing,
}

#[derive(Debug)]
struct Event {
    subject: u32,
    heard: u32,
    /// Its id, from whoever knew it first; 0 is unknown.
    id: u128,
    /// When it was to be sent.
    intended_ns: u64,
    /// Which comings and goings were before it; `None` if somebody was away.
    quiet: Option<u64>,
    answer: Option<Answer>,
}

/// The sums.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Totals {
    /// Events sent.
    pub(super) sent: u64,
    /// Events answered with their count.
    pub(super) acknowledged: u64,
    /// Events answered with a problem.
    pub(super) refused: u64,
    /// Events without an answer, since their node was killed.
    pub(super) unanswered: u64,
    /// Those of the last two kinds that were heard, by all.
    pub(super) heard_without_answer: u64,
    /// Connections that heard them, by the nodes' counts.
    pub(super) delivered: u64,
    /// How many of those counts were lower bounds.
    pub(super) at_least: u64,
    /// Events that listeners heard, over all listeners.
    pub(super) heard: u64,
    /// Events that a listener should have heard and did not.
    pub(super) lost: u64,
    /// Events that a listener heard again.
    pub(super) doubled: u64,
    /// Events that a listener heard behind a later one.
    pub(super) out_of_order: u64,
    /// Events heard by somebody who does not follow their subject.
    pub(super) strays: u64,
    /// Times that a listener was told of a gap.
    pub(super) gaps: u64,
    /// Counts that were too low and not said to be, while nobody was away.
    pub(super) miscounted: u64,
    /// Times that a listener lost its stream.
    pub(super) losses_of_stream: u64,
    /// Times that one went on at a node.
    pub(super) resumed: u64,
}

/// The books as they stand, while nobody else writes.
pub(super) struct Open {
    audiences: Audiences,
    events: VecDeque<Event>,
    /// The number of the first of them.
    first: u64,
    /// Those that are open for too long.
    aside: BTreeMap<u64, Event>,
    online: u32,
    /// Comings and goings of listeners.
    changes: u64,
    pub(super) totals: Totals,
    latency: Latencies,
    earlier: Latencies,
    answers: Latencies,
    away: Latencies,
    /// Why the last stream did not open.
    failure: Option<String>,
}

/// The latencies of a run.
pub(super) struct Times {
    /// From when an event was to be sent until it was heard.
    pub(super) latency: Quantiles,
    /// And until it was answered.
    pub(super) answers: Quantiles,
    /// How long listeners were without a stream.
    pub(super) away: Quantiles,
}

/// The books, for all who write into them.
pub(super) struct Books(Mutex<Open>);

impl Books {
    pub(super) fn new(audiences: Audiences) -> Books {
        Books(Mutex::new(Open {
            audiences,
            events: VecDeque::new(),
            first: 0,
            aside: BTreeMap::new(),
            online: 0,
            changes: 0,
            totals: Totals::default(),
            latency: Latencies::default(),
            earlier: Latencies::default(),
            answers: Latencies::default(),
            away: Latencies::default(),
            failure: None,
        }))
    }

    pub(super) fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Enters the next event, which is to be sent at `intended_ns`. Returns its number and subject.
    pub(super) fn send(&mut self, intended_ns: u64) -> (u64, u32) {
        let number = self.first + self.events.len() as u64;
        let users = self.audiences.users();
        let subject = (mix(number) % u64::from(users)) as u32;
        let quiet = (self.online == users).then_some(self.changes);
        let event = Event { subject, heard: 0, id: 0, intended_ns, quiet, answer: None };
        self.events.push_back(event);
        self.totals.sent += 1;
        (number, subject)
    }

    /// An event was answered, or will not be.
    pub(super) fn answer(&mut self, number: u64, answer: Answer, now_ns: u64) {
        let changes = self.changes;
        let Some(event) = event(&mut self.events, self.first, &mut self.aside, number) else {
            return;
        };
        event.answer = Some(answer);
        match answer {
            Answer::Acknowledged { id, delivered, at_least } => {
                self.totals.acknowledged += 1;
                self.totals.delivered += delivered;
                self.totals.at_least += u64::from(at_least);
                self.answers.record(now_ns.saturating_sub(event.intended_ns));
                // It is in the log under another id, too.
                self.totals.doubled += u64::from(event.id != 0 && event.id != id);
                event.id = id;
                let low = delivered < u64::from(self.audiences.len(event.subject));
                let quiet = event.quiet == Some(changes);
                self.totals.miscounted += u64::from(low && quiet && !at_least);
            }
            Answer::Refused => self.totals.refused += 1,
            Answer::Missing => self.totals.unanswered += 1,
        }
        self.close(now_ns);
    }

    /// A listener that has heard up to `last` hears an event.
    pub(super) fn hear(
        &mut self,
        listener: u32,
        last: &mut u128,
        id: u128,
        number: u64,
        now_ns: u64,
    ) {
        let (before, totals) = (*last, &mut self.totals);
        totals.out_of_order += u64::from(id < before);
        *last = id.max(before);
        if number >= self.first + self.events.len() as u64 {
            // Somebody else sent it.
            return;
        }
        totals.heard += 1;
        let event = event(&mut self.events, self.first, &mut self.aside, number);
        // One that is closed was heard by all.
        let Some(event) = event.filter(|event| id != before && (event.id == 0 || event.id == id))
        else {
            totals.doubled += 1;
            return;
        };
        if !self.audiences.has(event.subject, listener) {
            totals.strays += 1;
            return;
        }
        event.id = id;
        event.heard += 1;
        self.latency.record(now_ns.saturating_sub(event.intended_ns));
        self.close(now_ns);
    }

    /// A stream is open; the listener was without one for so long, if it had one before.
    pub(super) fn come(&mut self, away: Option<Duration>) {
        self.online += 1;
        self.changes += 1;
        if let Some(away) = away {
            self.totals.resumed += 1;
            self.away.record(away.as_nanos() as u64);
        }
    }

    /// A stream was lost.
    pub(super) fn go(&mut self) {
        self.online -= 1;
        self.changes += 1;
        self.totals.losses_of_stream += 1;
    }

    /// A stream did not open.
    pub(super) fn fail(&mut self, why: String) {
        self.failure = Some(why);
    }

    /// Counts of deliveries of this moment may be low: a node is about to end.
    pub(super) fn disturb(&mut self) {
        self.changes += 1;
    }

    pub(super) fn online(&self) -> u32 {
        self.online
    }

    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The latencies since the last call.
    pub(super) fn take_latency(&mut self) -> Quantiles {
        let quantiles = self.latency.quantiles();
        self.earlier.add(&self.latency);
        self.latency.clear();
        quantiles
    }

    /// Whether everybody is online and all that was acknowledged is heard.
    pub(super) fn is_settled(&self) -> bool {
        let done = |event: &Event| match event.answer {
            Some(Answer::Acknowledged { .. }) => event.heard >= self.audiences.len(event.subject),
            Some(_) => true,
            None => false,
        };
        self.online == self.audiences.users()
            && self.events.iter().chain(self.aside.values()).all(done)
    }

    /// Judges what is open: nothing more is heard.
    pub(super) fn settle(&mut self) -> (Totals, Times) {
        let open = std::mem::take(&mut self.aside).into_values();
        for event in open.chain(std::mem::take(&mut self.events)) {
            let to_hear = self.audiences.len(event.subject);
            let acknowledged = matches!(event.answer, Some(Answer::Acknowledged { .. }));
            if acknowledged || event.heard > 0 {
                self.totals.lost += u64::from(to_hear.saturating_sub(event.heard));
                self.totals.doubled += u64::from(event.heard.saturating_sub(to_hear));
            }
            self.totals.heard_without_answer += u64::from(!acknowledged && event.heard >= to_hear);
        }
        self.take_latency();
        let times = Times {
            latency: self.earlier.quantiles(),
            answers: self.answers.quantiles(),
            away: self.away.quantiles(),
        };
        (self.totals.clone(), times)
    }

    /// Forgets the oldest events that are acknowledged and heard by all.
    fn close(&mut self, now_ns: u64) {
        while let Some(event) = self.events.front() {
            let acknowledged = matches!(event.answer, Some(Answer::Acknowledged { .. }));
            let closed = acknowledged && event.heard == self.audiences.len(event.subject);
            if !closed && now_ns.saturating_sub(event.intended_ns) < OPEN_NS {
                return;
            }
            let event = self.events.pop_front().filter(|_| !closed);
            self.aside.extend(event.map(|event| (self.first, event)));
            self.first += 1;
        }
    }
}

/// The event of that number, unless it is closed or was never sent.
fn event<'e>(
    events: &'e mut VecDeque<Event>,
    first: u64,
    aside: &'e mut BTreeMap<u64, Event>,
    number: u64,
) -> Option<&'e mut Event> {
    match number.checked_sub(first) {
        Some(place) => events.get_mut(usize::try_from(place).ok()?),
        None => aside.get_mut(&number),
    }
}

/// Bits that look random, of a number (SplitMix64).
pub(super) fn mix(number: u64) -> u64 {
    let bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests;
