//! Reports: a line a second while a run goes on, a table or JSON at its end.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use figures::latency::Quantiles;
use figures::numbers::{bytes, grouped};
use serde::Serialize;

use crate::flood::{FloodSnapshot, Runs, TroubleReport};
use crate::rows::{by, row};
use crate::spam::SpamSnapshot;
use crate::stamp::RunName;

mod live;

pub use live::{LiveText, flood_line, spam_line};

/// What `flood` saw, for people and for JSON.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FloodReport {
    /// Seconds since the start.
    pub seconds: f64,
    /// Seconds that it was to last; `None` is until stopped.
    pub seconds_asked: Option<f64>,
    /// How listeners hear events.
    pub transport: &'static str,
    /// Listeners asked for.
    pub users: u32,
    /// Those that were ever online.
    pub reached: u64,
    /// Whether those that come back must hear what they have missed.
    pub resumes: bool,
    /// Streams that are open, or were at the end.
    pub open: u64,
    /// Streams that ever opened.
    pub opened: u64,
    /// Seconds from the start to the last stream that opened.
    pub opened_after: f64,
    /// Streams that did not open.
    pub failed: u64,
    /// Streams that did not open, by reason.
    pub failed_by: BTreeMap<&'static str, u64>,
    /// Streams that ended, other than by `flood` itself.
    pub closed: u64,
    /// Streams that ended, by reason.
    pub closed_by: BTreeMap<&'static str, u64>,
    /// Events received.
    pub events: u64,
    /// Those of them that `spam` made.
    pub stamped: u64,
    /// Those of these that came from a `spam` whose clock is not this machine's.
    pub foreign: u64,
    /// Those that came before they were to be sent.
    pub early: u64,
    /// Those that were to be sent before their listener had come back.
    pub caught_up: u64,
    /// Streams, of one subject on one connection, that were heard from their midst on.
    pub joined: u64,
    /// Streams that were told that events are missing.
    pub told_gaps: u64,
    /// Events of runs beyond those that are told apart.
    pub runs_untold: u64,
    /// Events by the run that made them.
    #[serde(skip)]
    pub runs: Runs,
    /// Bytes received.
    pub bytes: u64,
    /// Those behind heads: events, signs of life, and whatever is in a form that is not known.
    pub body_bytes: u64,
    /// Events that should have come before others that came, and did not.
    pub missing: u64,
    /// Events that came a second time.
    pub doubled: u64,
    /// Events that came behind a newer one about the same subject.
    pub overtaken: u64,
    /// Events so far behind that they may have been doubled or overtaken.
    pub stale: u64,
    /// Events whose latency was over the limit.
    pub late: u64,
    /// The limit on latency, in seconds.
    pub late_after: f64,
    /// Events that were counted but not checked, since there were too many streams.
    pub untracked: u64,
    /// From the time at which events were to be sent to their arrival.
    pub latency: Quantiles,
    /// Processor time of the crowd, seconds.
    pub cpu_seconds: f64,
    /// What the first stream that did not open ran into.
    pub first_failure: Option<String>,
    /// A storm and slow listeners, and what the others heard meanwhile.
    pub trouble: Option<TroubleReport>,
}

impl From<&FloodSnapshot> for FloodReport {
    fn from(snapshot: &FloodSnapshot) -> FloodReport {
        let FloodSnapshot { totals, config, runs, .. } = snapshot;
        FloodReport {
            seconds: snapshot.seconds,
            seconds_asked: config.duration.map(|duration| duration.as_secs_f64()),
            transport: config.transport.as_str(),
            users: snapshot.users,
            reached: totals.reached,
            resumes: config.resume,
            open: totals.open(),
            opened: totals.opened,
            opened_after: totals.opened_after_ns as f64 / 1e9,
            failed: totals.failed_total(),
            failed_by: totals.failed_by(),
            closed: totals.closed_total(),
            closed_by: totals.closed_by(),
            events: totals.events,
            stamped: totals.stamped,
            foreign: totals.foreign,
            early: totals.early,
            caught_up: totals.caught_up,
            joined: totals.joined,
            told_gaps: totals.told_gaps,
            runs_untold: runs.others,
            runs: *runs,
            bytes: totals.bytes,
            body_bytes: totals.body_bytes,
            missing: totals.missing(),
            doubled: totals.doubled,
            overtaken: totals.overtaken,
            stale: totals.stale,
            late: totals.late,
            late_after: config.late_after.as_secs_f64(),
            untracked: totals.untracked,
            latency: snapshot.latency,
            cpu_seconds: totals.cpu_ns as f64 / 1e9,
            first_failure: snapshot.first_failure.clone(),
            trouble: snapshot.trouble.as_deref().map(TroubleReport::from),
        }
    }
}

/// What `spam` did, for people and for JSON.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SpamReport {
    /// Seconds since the start.
    pub seconds: f64,
    /// Those in which events were sent: without the wait for the last answers.
    pub sending_seconds: f64,
    /// Events sent.
    pub sent: u64,
    /// Its name in the stamps of its events.
    #[serde(skip)]
    pub run: RunName,
    /// Events that there were to be, if that is known.
    pub planned: Option<u64>,
    /// Whether it was told to stop before all was sent.
    pub stopped: bool,
    /// Events that were sent later than so many seconds after their time.
    pub late: u64,
    /// The limit on latency, in seconds.
    pub late_after: f64,
    /// Events answered.
    pub answered: u64,
    /// Answers that told a lower bound.
    pub at_least: u64,
    /// Sum of the deliveries that the answers told.
    pub delivered: u64,
    /// Events refused, by the title of the problem.
    pub problems: BTreeMap<String, u64>,
    /// Bytes sent.
    pub bytes: u64,
    /// From the time at which events were to be sent to their answer.
    pub answer: Quantiles,
    /// From the time at which events were to be sent to when they were.
    pub behind: Quantiles,
    /// Processor time of the senders, seconds.
    pub cpu_seconds: f64,
    /// Why a connection ended before its time.
    pub failure: Option<String>,
}

impl From<&SpamSnapshot> for SpamReport {
    fn from(snapshot: &SpamSnapshot) -> SpamReport {
        let totals = &snapshot.totals;
        SpamReport {
            seconds: snapshot.seconds,
            sending_seconds: snapshot.sending_seconds,
            sent: totals.sent,
            run: snapshot.run,
            planned: snapshot.planned,
            stopped: snapshot.stopped,
            late: totals.late,
            late_after: snapshot.late_after.as_secs_f64(),
            at_least: totals.at_least,
            answered: totals.answered,
            delivered: totals.delivered,
            problems: totals.problems.clone(),
            bytes: totals.bytes,
            answer: snapshot.answer,
            behind: snapshot.behind,
            cpu_seconds: totals.cpu_ns as f64 / 1e9,
            failure: snapshot.failure.clone(),
        }
    }
}

/// What both saw of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RunReport {
    /// Deliveries that the server told and nobody received: `delivered` less what was heard of this
    /// run. Below 0 when listeners received more than that, as they do of a server that doubles.
    pub lost: i64,
    /// Streams of others, which heard it too.
    #[serde(skip)]
    pub others: u64,
    /// Deliveries to them, which are among the delivered and no loss; `None` where nobody knows.
    pub to_others: Option<u64>,
    /// The sending side.
    pub spam: SpamReport,
    /// The receiving side.
    pub flood: FloodReport,
}

impl RunReport {
    /// Joins the two sides of one run: all listeners were `flood`'s and all senders `spam`'s.
    pub fn new(flood: FloodReport, spam: SpamReport) -> RunReport {
        let lost = spam.delivered as i64 - flood.runs.of(spam.run) as i64;
        RunReport { lost, others: 0, to_others: None, spam, flood }
    }

    /// Joins them where `others` had streams too, and `to_others` of the deliveries were to them.
    pub fn with_others(self, others: u64, to_others: Option<u64>) -> RunReport {
        let lost = self.lost - to_others.unwrap_or(0) as i64;
        RunReport { lost, others, to_others, ..self }
    }
}

impl Display for FloodReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (users, open, opened) = (self.users.into(), grouped(self.open), grouped(self.opened));
        let listeners = format!("{} asked for, {open} open at the end", grouped(users));
        row(f, "listeners", &listeners)?;
        row(f, "opened", &format!("{opened}, the last after {:.2} s", self.opened_after))?;
        row(f, "failed", &by(self.failed, &self.failed_by))?;
        row(f, "closed", &by(self.closed, &self.closed_by))?;
        let (events, size) = (grouped(self.events), bytes(self.bytes));
        row(f, "events", &format!("{events} in {:.1} s, {size}", self.seconds))?;
        if self.stamped > 0 {
            row(f, "missing", &grouped(self.missing))?;
            row(f, "doubled", &grouped(self.doubled))?;
            row(f, "overtaken", &grouped(self.overtaken))?;
            row(f, "late", &grouped(self.late))?;
            row(f, "latency", &self.latency.to_string())?;
        }
        for (name, count) in [("stale", self.stale), ("untracked", self.untracked)] {
            if count > 0 {
                row(f, name, &grouped(count))?;
            }
        }
        row(f, "processor", &processor(self.cpu_seconds, self.seconds))?;
        self.first_failure.iter().try_for_each(|words| row(f, "first failure", words))?;
        self.trouble.iter().try_for_each(|trouble| trouble.fmt(f))
    }
}

impl Display for SpamReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.sending_seconds;
        let rate = self.sent as f64 / seconds.max(1e-3);
        row(f, "sent", &format!("{} in {seconds:.1} s, {rate:.1}/s", grouped(self.sent)))?;
        row(f, "answered", &grouped(self.answered))?;
        row(f, "delivered", &grouped(self.delivered))?;
        row(f, "problems", &by(self.problems.values().sum(), &self.problems))?;
        row(f, "answer", &self.answer.to_string())?;
        row(f, "behind", &self.behind.to_string())?;
        row(f, "processor", &processor(self.cpu_seconds, self.seconds))?;
        self.failure.iter().try_for_each(|words| row(f, "failure", words))
    }
}

impl Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "spam")?;
        self.spam.fmt(f)?;
        writeln!(f, "flood")?;
        self.flood.fmt(f)?;
        let (delivered, received) = (self.spam.delivered, self.flood.runs.of(self.spam.run));
        let sum = format!("{} delivered − {} received", grouped(delivered), grouped(received));
        writeln!(f, "lost {} ({sum})", self.lost)
    }
}

fn processor(cpu_seconds: f64, seconds: f64) -> String {
    format!("{cpu_seconds:.2} s, {:.1} % of a core", 100.0 * cpu_seconds / seconds.max(1e-3))
}

#[cfg(test)]
mod tests;
