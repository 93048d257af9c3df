//! The figures of the Mercure protocol: topics, patterns, who listens, what is published.

use std::sync::Arc;

use engine::Snapshot;
use mercure::limits::PATTERNS_MAX;
use prometheus::proto::{MetricFamily, MetricType};
use proto::Transport;
use serde::{Serialize, Serializer};
use topics::Topics;

use super::families::{counter_of, family, gauge, gauge_of, metric};
use crate::api::state::Api;
use crate::mercure_hub::{PUBLISH_OUTCOMES, PublishOutcome};
use crate::subscription_changes::ChangeCounts;

/// The hub at one moment.
#[derive(Debug, Serialize)]
pub(super) struct MercureStats {
    /// Streams of the hub.
    subscribers: u64,
    /// Topics that are known, and what they count for.
    topics: usize,
    topic_bytes: usize,
    topic_bytes_max: usize,
    /// Different patterns that are listened to.
    patterns: usize,
    patterns_max: usize,
    /// Patterns, and selectors of private subscriptions, each once for each kind of grants.
    selectors: usize,
    selectors_max: usize,
    /// Those of them that were made for clients without a token.
    open_selectors: usize,
    open_selectors_max: usize,
    /// Those of them whose private updates are granted by other selectors of the token.
    private_selectors: usize,
    /// Different lists of grants that these have.
    grant_lists: usize,
    /// Subscriptions to all of them.
    selector_listeners: usize,
    /// Ids of publishers that are known, and what they count for.
    publisher_ids: usize,
    publisher_id_bytes: usize,
    publisher_id_bytes_max: usize,
    /// Streams that may hear who is subscribed: as long as there is one, changes are told.
    subscription_listeners: usize,
    /// Changes of who is subscribed since the start.
    subscription_changes: ChangeCounts,
    /// Updates that were published, or were to be, since the start.
    publishes: ByOutcome,
}

/// Counts with the outcomes as names.
#[derive(Debug)]
struct ByOutcome([u64; PUBLISH_OUTCOMES]);

impl Serialize for ByOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = PublishOutcome::ALL.iter().zip(&self.0);
        serializer.collect_map(counts.map(|(outcome, count)| (outcome.as_str(), count)))
    }
}

/// These figures for Prometheus; none where the protocol is not served.
pub(super) fn families(api: &Api, snapshot: &Snapshot) -> Vec<MetricFamily> {
    MercureStats::of(api, snapshot).map(|stats| stats.families()).unwrap_or_default()
}

impl MercureStats {
    /// `None` where the protocol is not served.
    pub(super) fn of(api: &Api, snapshot: &Snapshot) -> Option<MercureStats> {
        let topics: &Arc<Topics> = api.router.topics()?;
        let hub = api.hub.as_ref()?;
        let (figures, limits) = (topics.figures(), topics.limits());
        Some(MercureStats {
            subscribers: snapshot.whole().streams_open[Transport::Mercure.index()],
            topics: figures.topics,
            topic_bytes: figures.topic_bytes,
            topic_bytes_max: limits.topic_bytes_max,
            patterns: figures.patterns,
            patterns_max: PATTERNS_MAX,
            selectors: figures.keys,
            selectors_max: limits.keys_max,
            open_selectors: figures.anonymous_keys,
            open_selectors_max: limits.anonymous_keys_max,
            private_selectors: figures.list_keys,
            grant_lists: figures.lists,
            selector_listeners: figures.listeners,
            publisher_ids: figures.ids,
            publisher_id_bytes: figures.id_bytes,
            publisher_id_bytes_max: limits.id_bytes_max,
            subscription_listeners: topics.subscriptions().listeners(),
            subscription_changes: api.subscription_list.as_ref()?.changes(),
            publishes: ByOutcome(hub.publishes()),
        })
    }

    fn families(&self) -> Vec<MetricFamily> {
        let gauges: [(&str, &str, usize); 11] = [
            ("encke_mercure_topics", "Topics that are known.", self.topics),
            ("encke_mercure_topic_bytes", "What they count for.", self.topic_bytes),
            ("encke_mercure_patterns", "Patterns that are listened to.", self.patterns),
            (
                "encke_mercure_selectors",
                "Patterns and selectors of private subscriptions, once for each kind of grants.",
                self.selectors,
            ),
            (
                "encke_mercure_open_selectors",
                "Those of them that were made for clients without a token.",
                self.open_selectors,
            ),
            (
                "encke_mercure_private_selectors",
                "Those of them whose private updates other selectors of the token grant.",
                self.private_selectors,
            ),
            ("encke_mercure_grant_lists", "Lists of grants that these have.", self.grant_lists),
            (
                "encke_mercure_selector_listeners",
                "Subscriptions to all of these selectors.",
                self.selector_listeners,
            ),
            (
                "encke_mercure_publisher_ids",
                "Ids of publishers that are known.",
                self.publisher_ids,
            ),
            ("encke_mercure_publisher_id_bytes", "What they count for.", self.publisher_id_bytes),
            (
                "encke_mercure_subscription_listeners",
                "Streams that may hear who is subscribed.",
                self.subscription_listeners,
            ),
        ];
        let bounds = [
            ("topic_bytes", self.topic_bytes_max),
            ("patterns", self.patterns_max),
            ("selectors", self.selectors_max),
            ("open_selectors", self.open_selectors_max),
            ("publisher_id_bytes", self.publisher_id_bytes_max),
        ];
        let bounds = bounds.map(|(of, most)| metric(&[("of", of)], gauge_of(most as f64)));
        let outcomes = PublishOutcome::ALL.iter().zip(self.publishes.0);
        let outcomes = outcomes.map(|(outcome, count)| {
            metric(&[("outcome", outcome.as_str())], counter_of(count as f64))
        });
        let mut families: Vec<MetricFamily> =
            gauges.iter().map(|(name, help, value)| gauge(name, help, *value as f64)).collect();
        families.push(family(
            "encke_mercure_bound",
            "The most that these figures may be.",
            MetricType::GAUGE,
            bounds.to_vec(),
        ));
        families.push(family(
            "encke_mercure_publishes_total",
            "Updates that were published, or were to be, by what became of them.",
            MetricType::COUNTER,
            outcomes.collect(),
        ));
        families.push(self.subscription_changes.family());
        families
    }
}

impl ChangeCounts {
    fn family(self) -> MetricFamily {
        let counts = [("told", self.told), ("lost", self.lost)];
        let counts = counts
            .map(|(outcome, count)| metric(&[("outcome", outcome)], counter_of(count as f64)));
        family(
            "encke_mercure_subscription_changes_total",
            "Begins and ends of subscriptions while somebody might hear, by what became of them.",
            MetricType::COUNTER,
            counts.to_vec(),
        )
    }
}
