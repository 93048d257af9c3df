//! What one thread of the crowd counts, and how others get to see it.
//!
//! A thread counts in plain fields and publishes them at the end of a turn, under a lock that
//! nobody else takes more often than once a report: a snapshot is consistent, and a turn pays about
//! 20 ns for it.

use std::collections::BTreeMap;

use client::Event;
use figures::latency::Latencies;

use crate::flood::coarse_time::CoarseTime;
use crate::flood::role::Role;
use crate::flood::trouble::{Bounds, Span};
use crate::flood::{Closure, Failure};
use crate::order::{Observation, Streams, stream_key};
use crate::shared::Shared;
use crate::stamp::{self, RunName, StampFinder};

/// What stands before the id in a WebSocket's answer to a ping, which is no event.
pub(super) const POSITION: &[u8] = b"{\"ok\":{\"ping\":1,\"next\":\"";

/// What every such answer begins with, one that names no place too.
const ANSWER: &[u8] = b"{\"ok\":";

/// Counts since the start, of all listeners or of those with one role.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Connections begun.
    pub begun: u64,
    /// Streams that the server opened.
    pub opened: u64,
    /// Listeners whose stream was ever open.
    pub reached: u64,
    /// From the start to the last of these, nanoseconds.
    pub opened_after_ns: u64,
    /// Streams that did not open, by [`Failure`].
    pub failed: [u64; Failure::COUNT],
    /// Streams that ended, by [`Closure`]; not those that flood itself closed.
    pub closed: [u64; Closure::COUNT],
    /// Streams that flood itself reset, in its storm.
    pub reset: u64,
    /// Streams, of those opened, with which a listener came back from the storm.
    pub returned: u64,
    /// Streams that were told that events are missing.
    pub told_gaps: u64,
    /// Events received.
    pub events: u64,
    /// Those of them that carried a stamp of `spam`.
    pub stamped: u64,
    /// Those that came from the `spam` of another boot or machine, whose clock is another one.
    pub foreign: u64,
    /// Those that came before they were to be sent: the clocks differ all the same.
    pub early: u64,
    /// Those that were to be sent before the listener had come back: their latency is its own.
    pub caught_up: u64,
    /// Streams of a run that was under way when they were opened.
    pub joined: u64,
    /// Bytes received, heads and framing included.
    pub bytes: u64,
    /// Those behind heads: events, signs of life, and whatever is in a form that is not known.
    pub body_bytes: u64,
    /// Numbers that were skipped.
    pub gaps: u64,
    /// Skipped numbers that came after all, behind a newer one.
    pub overtaken: u64,
    /// Events that came a second time.
    pub doubled: u64,
    /// Events so old that they may have been either.
    pub stale: u64,
    /// Events whose stream did not fit into the table.
    pub untracked: u64,
    /// Events whose latency was over the limit.
    pub late: u64,
    /// Processor time of the threads, nanoseconds; 0 for a role.
    pub cpu_ns: u64,
}

impl Totals {
    /// Streams that did not open.
    pub fn failed_total(&self) -> u64 {
        self.failed.iter().sum()
    }

    /// Streams that ended.
    pub fn closed_total(&self) -> u64 {
        self.closed.iter().sum()
    }

    /// Streams that did not open, by the name of the reason.
    pub fn failed_by(&self) -> BTreeMap<&'static str, u64> {
        let failed = Failure::ALL.map(|reason| (reason.as_str(), self.failed[reason as usize]));
        failed.into_iter().filter(|&(_, count)| count > 0).collect()
    }

    /// Streams that ended, by the name of the reason.
    pub fn closed_by(&self) -> BTreeMap<&'static str, u64> {
        let closed = Closure::ALL.map(|reason| (reason.as_str(), self.closed[reason as usize]));
        closed.into_iter().filter(|&(_, count)| count > 0).collect()
    }

    /// Streams that are open.
    pub fn open(&self) -> u64 {
        self.opened - self.closed_total() - self.reset
    }

    /// Events that should have come before others that came, and did not.
    pub fn missing(&self) -> u64 {
        debug_assert!(self.overtaken <= self.gaps, "what was overtaken was missing before");
        self.gaps - self.overtaken
    }

    /// Adds what was counted elsewhere.
    pub(super) fn add(&mut self, other: &Totals) {
        let add_all = |into: &mut [u64], from: &[u64]| {
            into.iter_mut().zip(from).for_each(|(into, from)| *into += from);
        };
        add_all(&mut self.failed, &other.failed);
        add_all(&mut self.closed, &other.closed);
        self.reset += other.reset;
        self.returned += other.returned;
        self.begun += other.begun;
        self.reached += other.reached;
        self.foreign += other.foreign;
        self.early += other.early;
        self.caught_up += other.caught_up;
        self.joined += other.joined;
        self.opened += other.opened;
        self.opened_after_ns = self.opened_after_ns.max(other.opened_after_ns);
        self.told_gaps += other.told_gaps;
        self.events += other.events;
        self.stamped += other.stamped;
        self.bytes += other.bytes;
        self.body_bytes += other.body_bytes;
        self.gaps += other.gaps;
        self.overtaken += other.overtaken;
        self.doubled += other.doubled;
        self.stale += other.stale;
        self.untracked += other.untracked;
        self.late += other.late;
        self.cpu_ns += other.cpu_ns;
    }
}

/// Runs of `spam` that are told apart; events of those beyond are counted together.
const RUNS_MAX: usize = 16;

/// How many events came of each run of `spam`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Runs {
    /// Those that have events stand first.
    runs: [RunCount; RUNS_MAX],
    /// Events of further runs.
    pub others: u64,
}

/// How many events came of one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct RunCount {
    name: RunName,
    events: u64,
}

impl Runs {
    /// Events of the run `name`.
    pub fn of(&self, name: RunName) -> u64 {
        let found = self.runs.iter().find(|run| run.name == name && run.events > 0);
        found.map_or(0, |run| run.events)
    }

    /// So many more came of the run `name`.
    pub(crate) fn count(&mut self, name: RunName, events: u64) {
        let mut runs = self.runs.iter_mut();
        match runs.find(|run| run.events == 0 || run.name == name) {
            Some(run) => *run = RunCount { name, events: run.events + events },
            None => self.others += events,
        }
    }

    /// Adds what was counted elsewhere.
    pub(crate) fn add(&mut self, other: &Runs) {
        let runs = other.runs.iter().filter(|run| run.events > 0);
        runs.for_each(|run| self.count(run.name, run.events));
        self.others += other.others;
    }
}

/// What a thread has published.
#[derive(Debug, Default)]
pub(super) struct Published {
    pub(super) totals: Totals,
    pub(super) runs: Runs,
    /// The totals by [`Role`].
    pub(super) roles: [Totals; Role::COUNT],
    /// Latencies since somebody took them last.
    pub(super) latencies: Latencies,
    /// What a crowd with trouble ahead times beside that.
    pub(super) troubled: Option<Box<Troubled>>,
    /// What the first stream that did not open ran into, in words.
    pub(super) first_failure: Option<String>,
}

/// What is timed around a storm and slow listeners.
#[derive(Debug, Default)]
pub(super) struct Troubled {
    /// From when a listener may come back to the first thing that its stream told.
    pub(super) caught_up: Latencies,
    /// Latencies of steady listeners, by [`Span`].
    pub(super) steady: [Latencies; Span::COUNT],
    /// How long the streams of slow listeners lasted from when they were not read any more.
    pub(super) slow_lasted: Latencies,
}

impl Troubled {
    /// Adds what another thread timed.
    pub(super) fn add(&mut self, other: &Troubled) {
        self.steady.iter_mut().zip(&other.steady).for_each(|(into, from)| into.add(from));
        self.caught_up.add(&other.caught_up);
        self.slow_lasted.add(&other.slow_lasted);
    }
}

/// The counts of one thread, while it counts.
#[derive(Debug)]
pub(super) struct Tally {
    roles: [Totals; Role::COUNT],
    runs: Runs,
    pub(super) cpu_ns: u64,
    first_failure: Option<String>,
    /// Of this turn.
    latencies_ns: Vec<u64>,
    /// Of this turn and steady listeners, when there is trouble to tell them apart by.
    steady_ns: Vec<(Span, u64)>,
    /// Of this turn.
    slow_lasted_ns: Vec<u64>,
    /// Of this turn.
    caught_up_ns: Vec<u64>,
    pub(super) bounds: Option<Bounds>,
    streams: Streams,
    stamps: StampFinder,
    boot: u32,
    late_after_ns: u64,
}

/// The connection that an event came on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    /// The role of its listener.
    pub(super) role: Role,
    /// Its name among all connections that its thread ever had.
    pub(super) connection: u64,
    /// When it opened: milliseconds on the monotonic clock, cut to 32 bits as in stamps.
    pub(super) opened_ms: u32,
    /// When its listener came back, likewise, if it hears what it has missed till then.
    pub(super) came_back_ms: Option<u32>,
}

impl Tally {
    pub(super) fn new(streams_max: usize, late_after_ns: u64) -> Tally {
        Tally {
            roles: [Totals::default(); Role::COUNT],
            runs: Runs::default(),
            cpu_ns: 0,
            first_failure: None,
            latencies_ns: Vec::new(),
            steady_ns: Vec::new(),
            slow_lasted_ns: Vec::new(),
            caught_up_ns: Vec::new(),
            bounds: None,
            streams: Streams::new(streams_max),
            stamps: StampFinder::default(),
            boot: stamp::boot(),
            late_after_ns,
        }
    }

    /// The counts of the listeners with `role`.
    pub(super) fn of(&mut self, role: Role) -> &mut Totals {
        &mut self.roles[role as usize]
    }

    /// Counts one event that was there at `now_ns`.
    pub(super) fn event(&mut self, source: Source, event: Event<'_>, now_ns: u64) {
        let totals = &mut self.roles[source.role as usize];
        if event.is_position() || event.data.starts_with(ANSWER) {
            return;
        }
        if event.name == b"gap" || event.data == b"{\"gap\":true}" {
            totals.told_gaps += 1;
            return;
        }
        totals.events += 1;
        let Some(stamp) = self.stamps.find(event.data) else {
            return;
        };
        totals.stamped += 1;
        self.runs.count(stamp.run, 1);
        let same_clock = stamp.run.boot == self.boot;
        totals.foreign += u64::from(!same_clock);
        if same_clock {
            let latency_ns = now_ns.saturating_sub(stamp.intended_ns);
            self.latencies_ns.push(latency_ns);
            totals.early += u64::from(now_ns < stamp.intended_ns);
            let intended_ms = (stamp.intended_ns / 1_000_000) as u32;
            match source.came_back_ms {
                Some(ms) if is_before(intended_ms, ms) => totals.caught_up += 1,
                _ => totals.late += u64::from(latency_ns > self.late_after_ns),
            }
            if let Some(bounds) = self.bounds.filter(|_| source.role == Role::Steady) {
                self.steady_ns.push((bounds.span(stamp.intended_ns, now_ns), latency_ns));
            }
        }
        // A stream that was open before the run began hears it from its first event on.
        let from_start = same_clock && is_before(source.opened_ms, stamp.run.start_ms);
        let key = stream_key(source.connection, stamp.run, stamp.subject);
        match self.streams.observe(key, stamp.number, from_start) {
            Observation::Next { gap } => totals.gaps += u64::from(gap),
            Observation::Joined => totals.joined += 1,
            Observation::Overtaken => totals.overtaken += 1,
            Observation::Doubled => totals.doubled += 1,
            Observation::Stale => totals.stale += 1,
            Observation::Untracked => totals.untracked += 1,
        }
    }

    pub(super) fn failure(&mut self, role: Role, reason: Failure, words: impl FnOnce() -> String) {
        self.of(role).failed[reason as usize] += 1;
        self.first_failure.get_or_insert_with(words);
    }

    pub(super) fn closure(&mut self, role: Role, reason: Closure) {
        self.of(role).closed[reason as usize] += 1;
    }

    /// The stream of a slow listener ended so long after it was read last.
    pub(super) fn slow_lasted(&mut self, ns: u64) {
        self.slow_lasted_ns.push(ns);
    }

    /// The stream of a listener told something at `now_ns`: the first thing, if it is still known
    /// when the listener was `due` to come back.
    pub(super) fn told(&mut self, due: &mut Option<CoarseTime>, now_ns: u64) {
        self.caught_up_ns.extend(due.take().map(|due| due.until_ns(now_ns)));
    }

    /// Shows on `board` what was counted so far.
    pub(super) fn publish(&mut self, shared: &Shared<Published>) {
        shared.with(|published| {
            (published.roles, published.runs) = (self.roles, self.runs);
            published.totals = Totals { cpu_ns: self.cpu_ns, ..Totals::default() };
            self.roles.iter().for_each(|totals| published.totals.add(totals));
            self.latencies_ns.drain(..).for_each(|ns| published.latencies.record(ns));
            if self.bounds.is_some() {
                let troubled = published.troubled.get_or_insert_default();
                let steady = self.steady_ns.drain(..);
                steady.for_each(|(span, ns)| troubled.steady[span as usize].record(ns));
                self.slow_lasted_ns.drain(..).for_each(|ns| troubled.slow_lasted.record(ns));
                self.caught_up_ns.drain(..).for_each(|ns| troubled.caught_up.record(ns));
            }
            if published.first_failure.is_none() {
                published.first_failure.clone_from(&self.first_failure);
            }
        });
    }
}

/// Whether the first of two times is the earlier one. Both are milliseconds that were cut to 32
/// bits, so this is right up to 24 days.
fn is_before(first_ms: u32, second_ms: u32) -> bool {
    (first_ms.wrapping_sub(second_ms) as i32) < 0
}
