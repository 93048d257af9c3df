//! What a process must know before it takes another's connections over, beside them.

use std::net::SocketAddr;

use hub::{Bound, DisconnectReason, TokenRefusal};

use crate::count::SingleWriterCount;
use crate::counters::{Counters, Total, WorkerSnapshot};

/// The process whose connections are taken over: what the engine that takes them must know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Predecessor {
    /// Where clients connect, with the port that was chosen.
    pub listen: Option<SocketAddr>,
    /// Where they connect by TLS.
    pub tls_listen: Option<SocketAddr>,
    /// Its workers.
    pub workers: usize,
    /// Under what it knows addresses.
    pub address_keys: [u64; 2],
}

/// What a process tells of itself before another one takes its connections over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HandoverFacts {
    /// What stays as it is.
    pub predecessor: Predecessor,
    /// The most connections that one of its workers has.
    pub connections_of_a_worker: u64,
    /// All of them.
    pub connections: u64,
}

/// All that is counted since the start and goes on, as it stands in `whole`.
pub(crate) fn totals(whole: &WorkerSnapshot) -> Vec<Total> {
    let single = [
        ("opened", whole.opened),
        ("deliveries", whole.deliveries),
        ("dropped", whole.dropped),
        ("keepalives", whole.keepalives),
        ("gaps", whole.gaps),
        ("writes", whole.writes),
        ("bytes_sent", whole.bytes_sent),
        ("shortages", whole.shortages),
        ("tokens_missing", whole.tokens_missing),
        ("ids_not_granted", whole.ids_not_granted),
    ];
    let single = single.map(|(name, value)| (name.to_owned(), value)).into_iter();
    let closed = DisconnectReason::ALL.iter().map(|reason| format!("closed.{}", reason.as_str()));
    let refused = TokenRefusal::ALL.iter().map(|refusal| format!("refused.{}", refusal.as_str()));
    let bounds = Bound::ALL.iter().map(|bound| format!("bound.{}", bound.as_str()));
    single
        .chain(closed.zip(whole.closed))
        .chain(refused.zip(whole.token_refusals))
        .chain(bounds.zip(whole.bounds))
        .map(|(name, value)| Total { name, value })
        .collect()
}

/// Takes those out of what was opened that were not closed: whoever takes them over counts them,
/// and nobody has those that could not be given away.
pub(crate) fn leave_open_out(totals: &mut [Total]) {
    let closed = totals.iter().filter(|total| total.name.starts_with("closed."));
    let closed = closed.map(|total| total.value).sum();
    if let Some(opened) = totals.iter_mut().find(|total| total.name == "opened") {
        opened.value = closed;
    }
}

impl Counters {
    /// Counts on from `totals`; what is not known here is left out. Before anybody else counts.
    pub(crate) fn go_on_from(&self, totals: &[Total]) {
        for Total { name, value } in totals {
            if let Some(count) = self.by_name(name) {
                count.add(*value);
            }
        }
    }

    fn by_name(&self, name: &str) -> Option<&SingleWriterCount> {
        if let Some(reason) = name.strip_prefix("closed.") {
            let at = DisconnectReason::ALL.iter().position(|one| one.as_str() == reason)?;
            return Some(&self.closed[at]);
        }
        if let Some(refusal) = name.strip_prefix("refused.") {
            let at = TokenRefusal::ALL.iter().position(|one| one.as_str() == refusal)?;
            return Some(&self.token_refusals[at]);
        }
        if let Some(bound) = name.strip_prefix("bound.") {
            let at = Bound::ALL.iter().position(|one| one.as_str() == bound)?;
            return Some(&self.bounds[at]);
        }
        Some(match name {
            "opened" => &self.opened,
            "deliveries" => &self.deliveries,
            "dropped" => &self.dropped,
            "keepalives" => &self.keepalives,
            "gaps" => &self.gaps,
            "writes" => &self.writes,
            "bytes_sent" => &self.bytes_sent,
            "shortages" => &self.shortages,
            "tokens_missing" => &self.tokens_missing,
            "ids_not_granted" => &self.ids_not_granted,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What version 1 counts.
    const VERSION_1: &str = include_str!("totals-1.txt");

    #[test]
    fn what_version_1_counts_is_counted_on() {
        let counters = Counters::default();
        assert!(VERSION_1.lines().count() > 40);
        for name in VERSION_1.lines() {
            assert!(counters.by_name(name).is_some(), "{name}");
        }
    }

    #[test]
    fn what_was_counted_is_counted_on() {
        let before = Counters::default();
        before.opened.add(7);
        before.closed[DisconnectReason::SlowReader as usize].add(3);
        before.bounds[1].add(2);
        before.token_refusals[TokenRefusal::Expired as usize].add(5);
        let mut totals = totals(&before.snapshot());
        totals.push(Total { name: "of.a.later.version".into(), value: 9 });
        let after = Counters::default();
        after.opened.add(1);
        after.go_on_from(&totals);
        let after = after.snapshot();
        assert_eq!((after.opened, after.connections_open), (8, 5));
        assert_eq!((after.bounds[1], after.token_refusals[TokenRefusal::Expired as usize]), (2, 5));
    }
}
