//! The figures of what clients send.

use engine::ClientSends;
use prometheus::proto::{MetricFamily, MetricType};

use super::families::{counter_of, family, metric};

/// How often clients sent, by what became of it.
pub(super) fn families(sends: &ClientSends) -> Vec<MetricFamily> {
    let outcomes = sends
        .outcomes()
        .map(|(outcome, count)| metric(&[("outcome", outcome.as_str())], counter_of(count as f64)));
    vec![family(
        "encke_client_sends_total",
        "Events that clients of streams sent, or wanted to, by what became of them.",
        MetricType::COUNTER,
        outcomes.into(),
    )]
}
