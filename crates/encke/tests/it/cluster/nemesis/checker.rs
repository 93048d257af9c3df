//! What must hold of every run, whatever went wrong in it: the first two by the
//! [oracle](rig::oracle), the others beside it.
//!
//! - An event that was acknowledged is heard by all who are to hear it, once, under the id of its
//!   answer. One that was not sent is heard by nobody. Of any other the whole audience hears it, or
//!   nobody.
//! - What a listener hears grows in id, over all its streams, unless it was told of a gap.
//! - An id stands for one event, to all who were told of no gap behind it.
//! - A gap is told where the log has lost something, or after five seconds at a node that is
//!   behind the listener; nowhere else.
//! - A sender's events have ids in the order in which they were sent.
//! - A subscription that was acknowledged is obeyed by what is sent from then on, at any node.
//! - A count that is no lower bound has all streams that stood at members all the time.

use std::collections::BTreeMap;
use std::time::Duration;

use rig::oracle::{
    Audience, EventId, Expected, Fault, Listener, Missed, Oracle, Order, event_id_text,
};

use super::plan::{Plan, Step};
use super::record::{Entry, Event, Open, Outcome, Sample, Subject};

/// After so long a node that is behind a client tells it a gap (`engine`'s FUTURE_MS_MAX), less
/// what its timers may be early.
const AHEAD_MIN: Duration = Duration::from_millis(4_500);

/// What a stream or a node must have stood before an event for its count to be sure, and behind it.
const SURE: Duration = Duration::from_millis(600);

/// How far apart looks at a node may be for what was between them: others take it for gone when
/// they have not heard it for two seconds (`cluster`'s SILENT_BEATS). Where they are further apart,
/// as on a busy machine, nothing is known of the node.
const UNSEEN_MAX: Duration = Duration::from_secs(1);

/// How long a stream may be counted that its client has left: its node may stand still for as long.
const LEFT_MAX: Duration = Duration::from_secs(10);

/// And so many times as long as the machine let our own pauses last.
const LATE_TIMES: u32 = 10;

/// So much of what a listener has met is told with a fault.
const STORY: usize = 40;

/// What a run came to.
#[derive(Clone, Default, Debug)]
pub(super) struct Sums {
    pub(super) acked: usize,
    pub(super) at_least: usize,
    pub(super) not_sent: usize,
    pub(super) unknown: usize,
    pub(super) heard: usize,
    pub(super) gaps: usize,
    pub(super) streams: usize,
    pub(super) pairs: usize,
    /// Counts that were compared with the streams that stood.
    pub(super) counts: usize,
}

/// Checks a run; what is wrong is in the list.
pub(super) fn check(open: &Open, plan: &Plan) -> (Sums, Vec<String>) {
    let oracle = Oracle::new(Followers(open));
    let mut checker = Checker { open, plan, oracle, wrong: open.faults.clone() };
    let mut sums = checker.senders();
    let heard: Vec<Listener> =
        (0..open.listeners.len()).map(|listener| checker.listener(listener, &mut sums)).collect();
    checker.complete(&heard);
    checker.ids();
    checker.counts(&mut sums);
    (sums, checker.wrong)
}

/// Who is to hear what, by all that became of the subscriptions.
struct Followers<'r>(&'r Open);

impl<'r> Audience for Followers<'r> {
    type Event = &'r Event;

    fn expected(&self, event: &&Event, listener: usize) -> Expected {
        let when = |follows| if follows { Expected::Must } else { Expected::MustNot };
        match event.subject {
            Subject::All => Expected::Must,
            Subject::Listener(own) => when(own == listener),
            Subject::Half(half) => when(listener % 2 == half),
            Subject::Pair(pair) => {
                let pair = &self.0.pairs[pair];
                match event.expected {
                    _ if pair.listener != listener => Expected::MustNot,
                    Expected::Must if pair.ended => Expected::May,
                    expected => expected,
                }
            }
        }
    }

    fn count(&self, event: &&Event) -> u32 {
        let must = |listener: &usize| self.expected(event, *listener) == Expected::Must;
        (0..self.0.listeners.len()).filter(must).count() as u32
    }
}

struct Checker<'r> {
    open: &'r Open,
    plan: &'r Plan,
    oracle: Oracle<Followers<'r>>,
    wrong: Vec<String>,
}

impl<'r> Checker<'r> {
    /// Tells the oracle what was sent and answered, and looks at the order of each sender's.
    fn senders(&mut self) -> Sums {
        let mut sums = Sums { pairs: self.open.pairs.len(), ..Sums::default() };
        let mut senders: BTreeMap<usize, (usize, Listener)> = BTreeMap::new();
        for (number, event) in self.open.events.iter().enumerate() {
            self.oracle.send(event);
            let Some((_, outcome)) = &event.answer else {
                self.wrong.push(format!("event {number} was never answered"));
                continue;
            };
            self.oracle.answer(number as u64, outcome.answer());
            match outcome {
                &Outcome::Acked { id, at_least, .. } => {
                    sums.acked += 1;
                    sums.at_least += usize::from(at_least);
                    let (earlier, own) = senders.entry(event.sender).or_default();
                    if own.advance(id) != Order::Next {
                        self.wrong.push(format!("event {number} is behind {earlier} in the log"));
                    }
                    *earlier = number;
                }
                Outcome::NotSent => sums.not_sent += 1,
                Outcome::Unknown(_) => sums.unknown += 1,
                Outcome::Wrong(what) => {
                    self.wrong.push(format!("event {number} was answered {what}"));
                }
            }
        }
        sums
    }

    /// Goes through what a listener heard, which is returned.
    fn listener(&mut self, number: usize, sums: &mut Sums) -> Listener {
        let mut listener = Listener::remembering();
        let mut opened = None;
        for entry in &self.open.listeners[number] {
            match *entry {
                Entry::Opened { asked, resumed, .. } => {
                    sums.streams += 1;
                    // Its node counts from some time later on.
                    opened = resumed.then_some(asked);
                }
                Entry::Tried { .. } => {}
                Entry::Place(id) => {
                    if listener.place(id) == Order::Behind {
                        let id = event_id_text(id);
                        self.wrong.push(format!("listener {number} is put back, to {id}"));
                    }
                }
                Entry::Event { at, id, number: event } => {
                    sums.heard += 1;
                    for fault in self.oracle.hear(&mut listener, number, id, event as u64) {
                        let before = self.before(number, at);
                        self.wrong.push(self.told(fault, number, event, (id, at)) + &before);
                    }
                }
                Entry::Gap { at } => {
                    sums.gaps += 1;
                    listener.gap();
                    let late = opened.is_some_and(|opened| at - opened >= AHEAD_MIN);
                    if !late && !self.log_was_lost(at) {
                        self.wrong.push(format!("listener {number} is told a gap at {at:.2?}"));
                    }
                }
                Entry::Lost { .. } => opened = None,
            }
        }
        listener
    }

    /// What a listener has met up to then, the last of it, for who looks for the reason.
    fn before(&self, listener: usize, until: Duration) -> String {
        let entries = &self.open.listeners[listener];
        let met = |entry: &&Entry| !matches!(**entry, Entry::Event { at, .. } if at > until);
        let met: Vec<&Entry> = entries.iter().take_while(met).collect();
        let last = met.len().saturating_sub(STORY);
        let told = |entry: &&Entry| match **entry {
            Entry::Opened { asked, at, node, resumed } => {
                format!("opened at {at:.2?}, asked node {node} at {asked:.2?}, resumed: {resumed}")
            }
            Entry::Tried { asked, at } => format!("tried from {asked:.2?} to {at:.2?}"),
            Entry::Place(id) => format!("place {}", event_id_text(id)),
            Entry::Event { at, id, number } => {
                format!("event {number} as {} at {at:.2?}", event_id_text(id))
            }
            Entry::Gap { at } => format!("a gap at {at:.2?}"),
            Entry::Lost { at } => format!("lost at {at:.2?}"),
        };
        let lines: Vec<String> = met[last..].iter().map(told).collect();
        format!("\n    before: {}", lines.join("\n      "))
    }

    fn log_was_lost(&self, at: Duration) -> bool {
        self.plan.steps.iter().any(|step| step.fault.loses_log() && step.from <= at)
    }

    /// What is wrong with an event that a listener heard, in words.
    fn told(
        &self,
        fault: Fault,
        listener: usize,
        number: usize,
        (id, at): (EventId, Duration),
    ) -> String {
        let who = format!("listener {listener} hears event {number} at {at:.2?}");
        let Some(Event { subject, node, asked, answer, .. }) = self.open.events.get(number) else {
            return format!("{who}: {fault:?}");
        };
        let sent = format!("about {subject:?}, sent to node {node} at {asked:.2?}: {answer:?}");
        match fault {
            Fault::OutOfOrder => format!("{who} behind another"),
            Fault::Doubled => format!("{who} again"),
            Fault::OtherId(known) => {
                let (id, known) = (event_id_text(id), event_id_text(known));
                format!("{who} as {id}, others as {known}; it is {sent}")
            }
            Fault::NotSent | Fault::Stray | Fault::NeverSent => {
                format!("{who}, {fault:?}; it is {sent}")
            }
        }
    }

    /// Every event of the log is heard by all who are to hear it.
    fn complete(&mut self, heard: &[Listener]) {
        for Missed { listener, number } in self.oracle.missed(heard) {
            let Some(Event { subject, node, asked, answer, .. }) = self.oracle.event(number) else {
                continue;
            };
            let answered = answer.as_ref().map(|(at, _)| *at);
            self.wrong.push(format!(
                "listener {listener} misses event {number} about {subject:?}, sent to node \
                 {node} at {asked:.2?}, answered at {answered:.2?}"
            ));
        }
    }

    /// Where the log went back, nodes may give an id to another event for the moment until they
    /// know: then everybody is told of a gap. Who is told of none has the one that all others have.
    fn ids(&mut self) {
        let mut known: BTreeMap<EventId, usize> = BTreeMap::new();
        for (listener, entries) in self.open.listeners.iter().enumerate() {
            let is_gap = |entry: &Entry| matches!(entry, Entry::Gap { .. });
            let gap = entries.iter().rposition(is_gap).map_or(0, |last| last + 1);
            for entry in &entries[gap..] {
                let Entry::Event { id, number, .. } = *entry else { continue };
                let other = *known.entry(id).or_insert(number);
                if other != number {
                    let id = event_id_text(id);
                    self.wrong.push(format!(
                        "{id} is event {number} to listener {listener} and {other} to another"
                    ));
                }
            }
        }
    }

    /// Counts that are said to be whole have every stream that stood, and none that did not.
    fn counts(&mut self, sums: &mut Sums) {
        let streams: Vec<Vec<Stream>> =
            self.open.listeners.iter().map(|own| streams(own)).collect();
        let left_max = LEFT_MAX + LATE_TIMES * self.open.late;
        for (number, event) in self.open.events.iter().enumerate() {
            let Some((answered, Outcome::Acked { delivered, at_least, .. })) = event.answer else {
                continue;
            };
            let (mut sure, mut possible) = (0, 0);
            for (listener, streams) in streams.iter().enumerate() {
                let expected = self.oracle.audience().expected(&event, listener);
                if expected == Expected::MustNot {
                    continue;
                }
                for stream in streams {
                    let left = stream.until.saturating_add(left_max);
                    possible += u64::from(stream.asked <= answered && left >= event.asked);
                    let stands = stream.from.is_some_and(|from| from + SURE <= event.asked)
                        && stream.until >= answered;
                    sure += u64::from(
                        expected == Expected::Must
                            && stands
                            && self.is_well(stream.node, event.asked, answered)
                            && self.is_seen(stream.node, event, answered),
                    );
                }
            }
            if delivered > possible {
                let what = format!("event {number} was delivered {delivered} times of {possible}");
                self.wrong.push(what);
            }
            if !at_least {
                sums.counts += usize::from(sure > 0);
                if delivered < sure {
                    let (asked, node) = (event.asked, event.node);
                    self.wrong.push(format!(
                        "event {number}, sent to node {node} at {asked:.2?}, was delivered \
                         {delivered} times and not {sure}, and that is no lower bound"
                    ));
                }
            }
        }
    }

    /// Whether a node was a member all the time around an event for the one that was asked. One
    /// that hears nothing for seconds, as after an election that its own server of NATS was late
    /// for, is gone for the others before it knows, and its streams hear later what nobody counted.
    fn is_seen(&self, node: usize, event: &Event, answered: Duration) -> bool {
        let samples = &self.open.samples[event.node];
        node == event.node || all_along(samples, event.asked, answered, |sample| sample.sees_all)
    }

    /// Whether a node was a member all the time around an event, for all that is known.
    fn is_well(&self, node: usize, asked: Duration, answered: Duration) -> bool {
        let (from, until) = (asked.saturating_sub(SURE), answered + SURE);
        let is_ill = |step: &Step| {
            step.fault.concerns(node)
                && step.from <= until
                && step.until.saturating_add(5 * SURE) >= from
        };
        all_along(&self.open.samples[node], asked, answered, |sample| sample.member)
            && !self.plan.steps.iter().any(is_ill)
    }
}

/// Whether a node `is_so` at each look from one before `asked`, and before what must have stood
/// before it, to one after `answered`, and was looked at often enough.
fn all_along(
    samples: &[Sample],
    asked: Duration,
    answered: Duration,
    is_so: impl Fn(&Sample) -> bool,
) -> bool {
    let (from, until) = (asked.saturating_sub(SURE), answered + SURE);
    let first = samples.iter().rposition(|sample| sample.at <= from);
    let last = samples.iter().position(|sample| sample.asked >= until);
    let (Some(first), Some(last)) = (first, last) else { return false };
    let near = &samples[first..=last];
    near.iter().all(is_so)
        && near.windows(2).all(|two| two[1].at.saturating_sub(two[0].asked) <= UNSEEN_MAX)
}

/// A stream of a listener, from when it was asked for to when it was lost.
struct Stream {
    node: usize,
    asked: Duration,
    /// When it was open; it may never have been.
    from: Option<Duration>,
    until: Duration,
}

fn streams(entries: &[Entry]) -> Vec<Stream> {
    let mut streams: Vec<Stream> = Vec::new();
    for entry in entries {
        match *entry {
            Entry::Opened { asked, at, node, .. } => {
                streams.push(Stream { node, asked, from: Some(at), until: Duration::MAX });
            }
            Entry::Tried { asked, at } => {
                streams.push(Stream { node: 0, asked, from: None, until: at });
            }
            Entry::Lost { at } => streams.last_mut().expect("it was open").until = at,
            _ => {}
        }
    }
    streams
}
