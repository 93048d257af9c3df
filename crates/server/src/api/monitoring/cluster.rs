//! The figures of a cluster's node: families of metrics, and what `/stats` has of them.

use dispatch::cluster::{Checks, Cluster, Membership, NodeStatus};
use nats::Counts;
use prometheus::proto::{MetricFamily, MetricType};
use serde::Serialize;

use super::families::{counter, counter_of, family, gauge, metric};

/// What is known of this node and of the log that all nodes follow.
#[derive(Debug, Serialize)]
pub(crate) struct ClusterStats {
    name: String,
    node: String,
    /// Whether it is a member: `joining`, `member`, `away`, `gone`.
    membership: &'static str,
    /// Which log it is: another number is another log.
    epoch: u64,
    /// How many nodes there are, as this one sees it.
    members: usize,
    /// The last record of the log that was read, and the last one that is wholly posted.
    read: u64,
    applied: u64,
    /// Records that are in the log and were not read yet.
    lag_records: u64,
    /// Sends that wait to be put into the log, and those that wait for the counts of others.
    queued: usize,
    counting: usize,
    /// Sends by what came of them.
    sends: Sends,
    /// How often all streams were told of a gap.
    gaps: u64,
    nats: Nats,
}

/// Sends by what came of them.
#[derive(Debug, Serialize)]
struct Sends {
    counted: u64,
    at_least: u64,
    not_sent: u64,
    unknown: u64,
}

/// The connection to NATS.
#[derive(Debug, Serialize)]
struct Nats {
    connected: bool,
    server: String,
    version: String,
    connects: u64,
    records_published: u64,
    records_read: u64,
    publishes_repeated: u64,
    messages_dropped: u64,
}

/// How a node stands to its cluster, as it is written.
pub(crate) fn name(membership: Membership) -> &'static str {
    match membership {
        Membership::Joining => "joining",
        Membership::Member => "member",
        Membership::Away => "away",
        Membership::Gone => "gone",
    }
}

impl ClusterStats {
    pub(super) fn of(cluster: &Cluster) -> ClusterStats {
        let NodeStatus { membership, epoch, node, outcomes, gaps, .. } = cluster.status();
        let (state, counts) = cluster.nats();
        ClusterStats {
            name: cluster.name().to_owned(),
            node: cluster.node().to_owned(),
            membership: name(membership),
            epoch,
            members: node.members,
            read: node.read,
            applied: node.applied,
            lag_records: counts.pending,
            queued: node.queued,
            counting: node.counting,
            sends: Sends {
                counted: outcomes.counted,
                at_least: outcomes.at_least,
                not_sent: outcomes.not_sent,
                unknown: outcomes.unknown,
            },
            gaps,
            nats: Nats {
                connected: state.connected,
                server: state.server,
                version: state.server_version,
                connects: state.connects,
                records_published: counts.published,
                records_read: counts.followed,
                publishes_repeated: counts.repeats,
                messages_dropped: counts.dropped + counts.unsent,
            },
        }
    }
}

/// The cluster's figures as metrics. Nothing where there is no cluster.
pub(super) fn families(cluster: Option<&Cluster>) -> Vec<MetricFamily> {
    let Some(cluster) = cluster else { return Vec::new() };
    let NodeStatus { membership, epoch, node, outcomes, gaps, .. } = cluster.status();
    let (state, counts) = cluster.nats();
    let Counts { published, followed, repeats, dropped, unsent, pending, .. } = counts;
    let is = |what: bool| f64::from(u8::from(what));
    let sends = [
        ("counted", outcomes.counted),
        ("at_least", outcomes.at_least),
        ("not_sent", outcomes.not_sent),
        ("unknown", outcomes.unknown),
    ];
    let sends = sends.map(|(outcome, n)| metric(&[("outcome", outcome)], counter_of(n as f64)));
    let mut families = vec![
        gauge(
            "encke_cluster_member",
            "Whether this node is a member of its cluster.",
            is(membership == Membership::Member),
        ),
        gauge("encke_cluster_members", "Nodes of the cluster.", node.members as f64),
        gauge("encke_cluster_epoch", "Which log the cluster has.", epoch as f64),
        gauge("encke_cluster_read_sequence", "The last record that was read.", node.read as f64),
        gauge(
            "encke_cluster_applied_sequence",
            "The last record whose events are all posted.",
            node.applied as f64,
        ),
        gauge("encke_cluster_lag_records", "Records that were not read yet.", pending as f64),
        gauge("encke_cluster_queued_sends", "Sends that wait for the log.", node.queued as f64),
        family(
            "encke_cluster_sends_total",
            "Sends of this node, by what came of them.",
            MetricType::COUNTER,
            sends.into(),
        ),
        counter(
            "encke_cluster_gaps_total",
            "Times that all streams were told of a gap.",
            gaps as f64,
        ),
        gauge("encke_nats_connected", "Whether NATS is reached.", is(state.connected)),
        counter("encke_nats_connects_total", "Connections made to NATS.", state.connects as f64),
        counter(
            "encke_nats_records_published_total",
            "Records put into the log.",
            published as f64,
        ),
        counter("encke_nats_records_read_total", "Records read from the log.", followed as f64),
        counter(
            "encke_nats_publishes_repeated_total",
            "Attempts to publish that were repeated.",
            repeats as f64,
        ),
        counter(
            "encke_nats_messages_lost_total",
            "Messages between nodes that were not sent, or for which there was no room.",
            (dropped + unsent) as f64,
        ),
    ];
    families.extend(cluster.checks().into_iter().flat_map(of_checks));
    families
}

/// How often the graph was compared with PostgreSQL's.
fn of_checks(checks: Checks) -> [MetricFamily; 2] {
    let Checks { equal, differed, table_differed, failed, rebuilt } = checks;
    let checks = [
        ("equal", equal),
        ("differed", differed),
        ("table_differed", table_differed),
        ("failed", failed),
    ];
    let checks = checks.map(|(outcome, n)| metric(&[("outcome", outcome)], counter_of(n as f64)));
    [
        family(
            "encke_graph_checks_total",
            "Comparisons of all pairs with those of PostgreSQL, by what came of them.",
            MetricType::COUNTER,
            checks.into(),
        ),
        counter(
            "encke_graph_rebuilds_total",
            "Replicas of the graph that were built out of PostgreSQL.",
            rebuilt as f64,
        ),
    ]
}
