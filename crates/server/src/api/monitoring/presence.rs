//! What is told of ids that come and go, as Prometheus has it.

use dispatch::count::SharedCount;
use dispatch::presence::{Kind, Report};
use dispatch::pusher_hooks::PusherHooks;
use hub::Members;
use prometheus::proto::{MetricFamily, MetricType};

use super::families::{counter, counter_of, family, gauge, gauge_of, metric};

pub(super) fn families(report: &Report) -> Vec<MetricFamily> {
    let listeners = Kind::ALL.iter().zip(report.listeners);
    let listeners =
        listeners.map(|((_, kind), count)| metric(&[("kind", kind)], gauge_of(count as f64)));
    let by = |label: &str, counts: [(&str, u64); 2]| {
        let counts = counts.into_iter();
        counts.map(|(value, count)| metric(&[(label, value)], counter_of(count as f64))).collect()
    };
    let told = by("state", [("online", report.online), ("offline", report.offline)]);
    let tries = [("taken", report.webhook_taken), ("failed", report.webhook_failed)];
    vec![
        family(
            "encke_presence_listeners",
            "Those who hear of ids that come and go.",
            MetricType::GAUGE,
            listeners.collect(),
        ),
        family(
            "encke_presence_events_total",
            "Ids told online and offline, once for all listeners.",
            MetricType::COUNTER,
            told,
        ),
        gauge(
            "encke_presence_waiting",
            "Ids that have gone and may come back within their grace.",
            report.waiting as f64,
        ),
        counter(
            "encke_presence_lost_total",
            "Changes that nobody was told, because there was no room for them.",
            report.lost as f64,
        ),
        counter(
            "encke_presence_early_total",
            "Ids told offline before their grace was over, because too many waited.",
            report.early as f64,
        ),
        counter(
            "encke_presence_behind_total",
            "How often a listener was too slow, and was told that it has lost something.",
            report.behind as f64,
        ),
        family(
            "encke_presence_webhook_posts_total",
            "Batches that webhooks took, and tries that failed.",
            MetricType::COUNTER,
            by("result", tries),
        ),
        counter(
            "encke_presence_webhook_dropped_total",
            "Events that the backlog of a webhook had no room for.",
            report.webhook_dropped as f64,
        ),
        gauge(
            "encke_presence_webhook_backlog",
            "Events that wait for webhooks.",
            report.webhook_backlog as f64,
        ),
    ]
}

/// What backends of the Pusher protocol are told of their channels.
pub(super) fn pusher_hooks(hooks: Option<&PusherHooks>) -> Vec<MetricFamily> {
    let of = |count: fn(&PusherHooks) -> &SharedCount| {
        hooks.map_or(0.0, |hooks| count(hooks).read() as f64)
    };
    let tries =
        [("taken", of(|hooks| &hooks.counts.taken)), ("failed", of(|hooks| &hooks.counts.failed))];
    let tries = tries.into_iter();
    let tries = tries.map(|(result, count)| metric(&[("result", result)], counter_of(count)));
    vec![
        family(
            "encke_pusher_webhook_posts_total",
            "Batches that webhooks of apps took, and tries that failed.",
            MetricType::COUNTER,
            tries.collect(),
        ),
        counter(
            "encke_pusher_webhook_dropped_total",
            "Events for webhooks of apps that found no room, or were not taken in five minutes.",
            of(|hooks| &hooks.counts.dropped),
        ),
        gauge(
            "encke_pusher_webhook_backlog",
            "Events that wait for webhooks of apps.",
            of(|hooks| &hooks.counts.backlog),
        ),
        counter(
            "encke_pusher_webhook_told_later_total",
            "Channels and members of which full webhooks of apps were told once they had room.",
            of(|hooks| &hooks.told_later),
        ),
        counter(
            "encke_pusher_changes_overruns_total",
            "How often more changes of channels were made than could be noted.",
            of(|hooks| &hooks.overruns),
        ),
    ]
}

/// Who is in a room.
pub(super) fn members(members: Option<&Members>) -> Vec<MetricFamily> {
    let (count, info_bytes) =
        members.map_or((0, 0), |members| (members.len(), members.info_bytes()));
    vec![
        gauge(
            "encke_members",
            "Users that are logged in under an id, or were within the grace, once for each id.",
            count as f64,
        ),
        gauge(
            "encke_members_info_bytes",
            "Bytes of what others are told of them (encke.info).",
            info_bytes as f64,
        ),
    ]
}
