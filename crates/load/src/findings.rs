//! What a report must not keep quiet: the faults that make a run a failure, and what nobody has
//! checked.
//!
//! A run without a fault says that of what was looked at nothing was wrong. So what was not looked
//! at stands beside it, and how it can be.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use figures::numbers::{bytes, grouped};
use proto::Transport;
use serde::Serialize;

use crate::report::{FloodReport, RunReport, SpamReport};
use crate::rows::{by, row};

/// What a report tells beside its figures.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Findings {
    /// What went wrong, a clause each. With any of them the run has failed.
    pub faults: Vec<String>,
    /// What was not checked, a clause each.
    pub unchecked: Vec<String>,
}

/// A report for programs: its figures and what was found.
#[derive(Debug, Serialize)]
pub struct ReportWithFindings<'r, R> {
    /// The figures of the run.
    #[serde(flatten)]
    pub report: &'r R,
    /// What makes the run a failure, and what nobody has checked.
    #[serde(flatten)]
    pub findings: &'r Findings,
}

impl Findings {
    /// All faults in one sentence; `None` when there are none.
    pub fn failure(&self) -> Option<String> {
        (!self.faults.is_empty()).then(|| self.faults.join("; "))
    }

    /// Notes a fault, if `count` is not 0.
    pub fn fault(&mut self, count: u64, words: impl FnOnce(&str) -> String) {
        note(&mut self.faults, count, words);
    }

    /// Notes what was not checked, if `count` is not 0.
    pub fn unchecked(&mut self, count: u64, words: impl FnOnce(&str) -> String) {
        note(&mut self.unchecked, count, words);
    }

    fn add(&mut self, other: Findings) {
        self.faults.extend(other.faults);
        self.unchecked.extend(other.unchecked);
    }
}

/// The words are given the number as people read it.
fn note(notes: &mut Vec<String>, count: u64, words: impl FnOnce(&str) -> String) {
    if count > 0 {
        notes.push(words(&grouped(count)));
    }
}

impl Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.unchecked.iter().try_for_each(|words| row(f, "not checked", words))?;
        self.faults.iter().try_for_each(|words| row(f, "fault", words))
    }
}

impl FloodReport {
    /// What is wrong with what the crowd saw, and what it could not see by itself.
    pub fn findings(&self) -> Findings {
        let mut findings = self.checked();
        let (stamped, caught_up) = (grouped(self.stamped), grouped(self.caught_up));
        let should = match self.caught_up {
            0 => format!("the `delivered` of spam must be {stamped}"),
            // No send counts those; one that went to a connection just dead counts for both.
            caught => {
                let delivered = grouped(self.stamped.saturating_sub(caught));
                format!(
                    "the `delivered` of spam must be about {delivered}: it has none of the \
                     {caught_up} that were caught up with"
                )
            }
        };
        findings.unchecked(self.stamped, |_| {
            format!(
                "what came last about a subject, and whether each listener should have heard it: \
                 {should}"
            )
        });
        findings
    }

    /// The findings without what only the senders know.
    fn checked(&self) -> Findings {
        let mut findings = Findings::default();
        self.check_streams(&mut findings);
        self.check_trouble(&mut findings);
        self.check_events(&mut findings);
        self.tell_unchecked(&mut findings);
        findings
    }

    fn check_streams(&self, findings: &mut Findings) {
        let first = |words: String| match &self.first_failure {
            Some(failure) => format!("{words}, the first for: {failure}"),
            None => words,
        };
        let users = u64::from(self.users);
        findings.fault(users.saturating_sub(self.reached), |count| {
            first(format!("{count} of {} listeners were never online", grouped(users)))
        });
        findings.fault(self.failed, |_| {
            let failed = by(self.failed, &self.failed_by);
            first(format!("connections that did not open: {failed}"))
        });
        let slow = self.trouble.as_ref().and_then(|trouble| trouble.slow.as_ref());
        let (mut closed_by, mut closed) = (self.closed_by.clone(), self.closed);
        if let Some(slow) = slow {
            // That slow listeners are closed is what they are there for.
            closed -= slow.closed;
            take(&mut closed_by, &slow.closed_by);
        }
        findings.fault(closed, |_| {
            format!("streams that ended before their time: {}", by(closed, &closed_by))
        });
        findings.fault(self.told_gaps, |count| format!("{count} times a gap was told"));
    }

    fn check_trouble(&self, findings: &mut Findings) {
        let Some(trouble) = &self.trouble else { return };
        if trouble.began.is_none_or(|began| began > self.seconds) {
            findings.faults.push("the trouble that was asked for did not begin".to_owned());
            return;
        }
        if let Some(storm) = &trouble.storm {
            if storm.reset_after.is_none() {
                findings.faults.push("the storm was not over at the end".to_owned());
            }
            findings.fault(storm.left.saturating_sub(storm.returned), |count| {
                let left = grouped(storm.left);
                format!("{count} of {left} listeners did not come back from the storm")
            });
        }
        let slow = trouble.slow.as_ref().map_or(0, |slow| slow.listeners);
        findings.unchecked(slow.into(), |count| {
            format!("what {count} slow listeners would have heard after they stopped reading")
        });
    }

    fn check_events(&self, findings: &mut Findings) {
        for (count, words) in [
            (self.missing, "events are missing before others that came"),
            (self.doubled, "events came twice"),
            (self.overtaken, "events came behind a newer one about their subject"),
            (self.stale, "events came so far behind that they may have come twice"),
            (self.early, "events came before they were to be sent: no latency is true"),
            (self.untracked, "events were not checked: there are more streams than are followed"),
        ] {
            findings.fault(count, |count| format!("{count} {words}"));
        }
        findings.fault(self.late, |count| {
            format!("{count} events came later than {} s", self.late_after)
        });
    }

    fn tell_unchecked(&self, findings: &mut Findings) {
        if self.events == 0 && self.body_bytes > 0 {
            let (heard, transport) = (bytes(self.body_bytes), self.transport);
            findings.unchecked.push(format!(
                "events: {heard} came on open streams, and none of it is an event as Encke sends \
                 it over {transport}. Only that streams stay open"
            ));
        } else if self.events == 0 {
            findings.unchecked.push("events, since none came: only that streams stay open".into());
        }
        for (count, words) in [
            (self.events - self.stamped, "events without a stamp of spam: order, loss, latency"),
            (self.foreign, "events of a spam elsewhere: their latency, and the first of a subject"),
            (self.joined, "streams of a run under way: what came before their first event"),
            (self.caught_up, "events that were caught up with: their latency"),
        ] {
            findings.unchecked(count, |count| format!("of {count} {words}"));
        }
        let returns = if self.resumes { 0 } else { self.opened.saturating_sub(self.reached) };
        findings.unchecked(returns, |count| {
            format!("what was missed before {count} returns: --resume checks it")
        });
        if let Some(asked) = self.seconds_asked.filter(|&asked| self.seconds < asked) {
            let words =
                format!("the rest of {asked} s: it was stopped after {:.1} s", self.seconds);
            findings.unchecked.push(words);
        }
    }
}

/// Takes the counts of `others` from those of all.
fn take(counts: &mut BTreeMap<&'static str, u64>, others: &BTreeMap<&'static str, u64>) {
    for (name, others) in others {
        counts.entry(name).and_modify(|count| *count -= others);
    }
    counts.retain(|_, count| *count > 0);
}

impl SpamReport {
    /// What is wrong with what the senders did and were told, and what they cannot know.
    pub fn findings(&self) -> Findings {
        let mut findings = self.checked();
        let delivered = grouped(self.delivered);
        findings.unchecked(self.delivered, |_| {
            format!("whether it came: what flood heard of this run must be {delivered}")
        });
        findings
    }

    /// The findings without what only the listeners know.
    fn checked(&self) -> Findings {
        let mut findings = Findings::default();
        if let Some(failure) = &self.failure {
            let words = format!("a connection to the API ended before its time: {failure}");
            findings.faults.push(words);
        }
        if self.sent == 0 && self.stopped {
            findings.unchecked.push("sends: it was stopped before the first one".to_owned());
        } else if self.sent == 0 {
            findings.faults.push("nothing was sent".to_owned());
        }
        let planned = self.planned.unwrap_or(self.sent);
        let unsent = planned.saturating_sub(self.sent);
        let unsent_words = format!("{} of {} events", grouped(unsent), grouped(planned));
        if self.stopped {
            findings.unchecked(unsent, |_| format!("{unsent_words}: it was stopped before"));
        } else {
            findings.fault(unsent, |_| format!("{unsent_words} were not sent"));
        }
        findings.fault(self.problems.values().sum(), |_| {
            let refused = by(self.problems.values().sum(), &self.problems);
            format!("events that were refused: {refused}")
        });
        findings.fault(self.sent.saturating_sub(self.answered), |count| {
            format!("{count} events were not answered")
        });
        findings.fault(self.answered.saturating_sub(self.sent), |count| {
            format!("{count} answers were to no event")
        });
        findings.fault(self.late, |count| {
            let limit = self.late_after;
            format!("{count} events were sent more than {limit} s late: the rate was not kept")
        });
        if self.delivered == 0 {
            findings.unchecked.push("whether anything is heard: nobody was online".to_owned());
        }
        findings
    }
}

impl RunReport {
    /// What is wrong with a run, and what neither side could see.
    pub fn findings(&self) -> Findings {
        let mut findings = self.flood.checked();
        findings.add(self.spam.checked());
        self.compare(&mut findings);
        findings
    }

    /// The senders' count beside the listeners'.
    fn compare(&self, findings: &mut Findings) {
        let lost = self.lost.max(0).unsigned_abs();
        let surplus = self.lost.min(0).unsigned_abs();
        let (others, at_least) = (self.others, self.spam.at_least);
        let is_poll = self.flood.transport == Transport::Poll.as_str();
        if others > 0 && self.to_others.is_none() {
            findings.unchecked.push(format!(
                "losses that left no gap: {} others connected too, and {} deliveries that the \
                 listeners did not receive may be theirs",
                grouped(others),
                grouped(lost)
            ));
        } else {
            findings.fault(lost, |count| {
                format!("{count} events were lost: they were delivered and not received")
            });
        }
        if is_poll || at_least > 0 {
            let why = match is_poll {
                true => "polls also hear what was delivered to nobody",
                false => "the API told some counts as lower bounds",
            };
            findings.unchecked.push(format!("whether more was received than delivered: {why}"));
        } else {
            findings.fault(surplus, |count| {
                format!("{count} events more were received than delivered")
            });
        }
        findings.unchecked(self.flood.runs_untold, |count| {
            format!("of {count} events, which run they are of: there were too many")
        });
    }
}

#[cfg(test)]
mod tests;
