//! The record of a demo with nodes: what its senders and listeners say, as the
//! [oracle](rig::oracle) is told it, and how long it took.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use figures::latency::{Latencies, Quantiles};
use rig::oracle::{Answer, Audience as _, EventId, Fault, Listener, Oracle, Totals};

use super::audiences::{Audiences, SentEvent};

/// How long an event may be open before it is put aside, so that those behind it can be forgotten:
/// longer than any listener is away.
const OPEN_NS: u64 = 30_000_000_000;

/// The record as it stands, while nobody else writes.
pub(super) struct Open {
    oracle: Oracle<Audiences>,
    online: u32,
    /// Comings and goings of listeners.
    changes: u64,
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

/// The record, for all who write into it.
pub(super) struct Record(Mutex<Open>);

impl Record {
    pub(super) fn new(audiences: Audiences) -> Record {
        Record(Mutex::new(Open {
            oracle: Oracle::new(audiences),
            online: 0,
            changes: 0,
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
        let users = self.oracle.audience().users();
        let subject = (mix(self.oracle.next_number()) % u64::from(users)) as u32;
        let quiet = (self.online == users).then_some(self.changes);
        (self.oracle.send(SentEvent { subject, intended_ns, quiet }), subject)
    }

    /// An event was answered, or will not be.
    pub(super) fn answer(&mut self, number: u64, answer: Answer, now_ns: u64) {
        let Some(event) = self.oracle.event(number) else { return };
        if let Answer::Acknowledged { delivered, at_least, .. } = answer {
            self.answers.record(now_ns.saturating_sub(event.intended_ns));
            let low = delivered < u64::from(self.oracle.audience().count(event));
            let quiet = event.quiet == Some(self.changes);
            self.oracle.totals.miscounted += u64::from(low && quiet && !at_least);
        }
        self.oracle.answer(number, answer);
        self.forget(now_ns);
    }

    /// A listener, that of the user `id`, hears an event.
    pub(super) fn hear(
        &mut self,
        listener: &mut Listener,
        id: u32,
        event: (EventId, u64),
        now_ns: u64,
    ) {
        let (event_id, number) = event;
        let intended_ns = self.oracle.event(number).map(|event| event.intended_ns);
        let faults = self.oracle.hear(listener, id as usize, event_id, number);
        // What comes late is timed as all else.
        if faults.iter().all(|fault| *fault == Fault::OutOfOrder)
            && let Some(intended_ns) = intended_ns
        {
            self.latency.record(now_ns.saturating_sub(intended_ns));
        }
        self.forget(now_ns);
    }

    /// A listener is told of a gap.
    pub(super) fn gap(&mut self, listener: &mut Listener) {
        listener.gap();
        self.oracle.totals.gaps += 1;
    }

    /// A stream is open; the listener was without one for so long, if it had one before.
    pub(super) fn come(&mut self, away: Option<Duration>) {
        self.online += 1;
        self.changes += 1;
        if let Some(away) = away {
            self.oracle.totals.resumed += 1;
            self.away.record(away.as_nanos() as u64);
        }
    }

    /// A stream was lost.
    pub(super) fn go(&mut self) {
        self.online -= 1;
        self.changes += 1;
        self.oracle.totals.losses_of_stream += 1;
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

    /// The sums so far.
    pub(super) fn totals(&self) -> &Totals {
        &self.oracle.totals
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
        self.online == self.oracle.audience().users() && self.oracle.is_settled()
    }

    /// Checks what is open: nothing more is heard.
    pub(super) fn settle(&mut self) -> (Totals, Times) {
        let totals = self.oracle.settle().clone();
        self.take_latency();
        let times = Times {
            latency: self.earlier.quantiles(),
            answers: self.answers.quantiles(),
            away: self.away.quantiles(),
        };
        (totals, times)
    }

    fn forget(&mut self, now_ns: u64) {
        self.oracle.forget(|event| now_ns.saturating_sub(event.intended_ns) >= OPEN_NS);
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
