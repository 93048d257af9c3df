//! What came of a demo with nodes.

use std::fmt::{self, Display};

use figures::latency::Quantiles;
use figures::numbers::grouped;
use load::findings::Findings;
use rig::oracle::Totals;
use serde::Serialize;

use super::changes::Changes;
use super::record::Times;

/// The report of a demo with nodes.
#[derive(Debug, Serialize)]
pub(in super::super) struct NodesReport {
    /// How many nodes there were.
    pub(super) nodes: usize,
    /// The one that was killed.
    pub(super) killed: Option<Killed>,
    /// Subscriptions that changed meanwhile; null where the graph stood still.
    pub(super) changes: Option<Changes>,
    pub(super) users: u32,
    pub(super) subscriptions: u64,
    /// How many hear an event: its subject and who follows it.
    pub(super) mean_audience: f64,
    /// From the first event to the last answer.
    pub(super) seconds: f64,
    #[serde(flatten)]
    pub(super) totals: Totals,
    /// From when an event was to be sent until it was heard.
    pub(super) latency: Quantiles,
    /// And until it was answered.
    pub(super) answers: Quantiles,
    /// How long listeners were without a stream.
    pub(super) away: Quantiles,
    /// Listeners without a stream at the end.
    pub(super) offline: u32,
}

/// A node that was killed.
#[derive(Debug, Serialize)]
pub(super) struct Killed {
    pub(super) node: &'static str,
    /// Seconds after the first event.
    pub(super) after: f64,
    /// Its listeners.
    pub(super) listeners: u64,
}

impl NodesReport {
    /// With what the record says.
    pub(super) fn with(self, (totals, times): (Totals, Times)) -> NodesReport {
        let Times { latency, answers, away } = times;
        NodesReport { totals, latency, answers, away, ..self }
    }

    /// What went wrong, and what was not checked.
    pub(in super::super) fn findings(&self) -> Findings {
        let (mut findings, totals) = (Findings::default(), &self.totals);
        let offline = (self.offline.into(), "listeners were not online at the end");
        for (count, words) in totals.faults().into_iter().chain([offline]) {
            findings.fault(count, |count| format!("{count} {words}"));
        }
        match &self.changes {
            Some(Changes { disobeyed, failed, unchecked, .. }) => {
                findings.fault(*disobeyed, |count| {
                    format!("{count} changes of subscriptions were not obeyed by the next send")
                });
                findings.fault(*failed, |count| format!("{count} changes failed, or their sends"));
                findings.unchecked(*unchecked, |count| {
                    format!("{count} changes, whose next send has a lower bound")
                });
            }
            None => findings.unchecked.push("changes of subscriptions: no PostgreSQL".to_owned()),
        }
        let killed = self.killed.as_ref().map_or(0, |killed| killed.listeners);
        findings.fault(totals.losses_of_stream.saturating_sub(killed), |count| {
            format!("{count} streams were lost at nodes that were not killed")
        });
        if self.killed.is_none() {
            let words = "what a crash does: it was stopped before a node was killed";
            findings.unchecked.push(words.to_owned());
        } else if totals.unanswered == 0 {
            let words = "events without an answer: the node that was killed had answered all";
            findings.unchecked.push(words.to_owned());
        }
        findings
    }
}

impl Display for NodesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, value: String| writeln!(f, "{name:<18} {value}");
        let Totals { lost, doubled, out_of_order, .. } = self.totals;
        let totals = &self.totals;
        let users = grouped(self.users.into());
        row("nodes", format!("{}, with {users} listeners", self.nodes))?;
        if let Some(Killed { node, after, listeners }) = &self.killed {
            let listeners = grouped(*listeners);
            row("killed", format!("{node} after {after:.1} s, which had {listeners} listeners"))?;
        }
        let away = &self.away;
        row(
            "  away",
            format!(
                "{} went on elsewhere, after {:.2} s (half of them), {:.2} s at most",
                grouped(totals.resumed),
                away.p50_ms / 1e3,
                away.max_ms / 1e3
            ),
        )?;
        let rate = totals.sent as f64 / self.seconds.max(1e-3);
        let sent = grouped(totals.sent);
        row("events", format!("{sent} sent in {:.1} s, {rate:.1}/s", self.seconds))?;
        let [acknowledged, unanswered, refused, without] =
            [totals.acknowledged, totals.unanswered, totals.refused, totals.heard_without_answer]
                .map(grouped);
        row("  acknowledged", acknowledged)?;
        row("  no answer", format!("{unanswered}, {refused} refused; {without} of these heard"))?;
        let [delivered, at_least, heard] =
            [totals.delivered, totals.at_least, totals.heard].map(grouped);
        row("delivered", format!("{delivered} by the nodes' counts, {at_least} of them at_least"))?;
        row("heard", heard)?;
        if let Some(Changes { changed, disobeyed, latency, .. }) = &self.changes {
            let (changed, p50, p99) = (grouped(*changed), latency.p50_ms, latency.p99_ms);
            row(
                "subscriptions",
                format!(
                    "{changed} changed, p50 {p50:.2}  p99 {p99:.2} ms; {disobeyed} not obeyed by \
                     the next send"
                ),
            )?;
        }
        row("latency", self.latency.to_string())?;
        row("answers", self.answers.to_string())?;
        let [lost, doubled, out_of_order] = [lost, doubled, out_of_order].map(grouped);
        writeln!(f, "lost {lost}, doubled {doubled}, out of order {out_of_order}")
    }
}
