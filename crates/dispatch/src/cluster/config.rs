//! What makes a server a node of a cluster.

use std::time::Duration;

use nats::NatsConfig;
use postgres::PostgresConfig;

use crate::idempotency;

/// What makes a server a node of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// What this node is called: there is one of each name.
    pub node: String,
    /// The log.
    pub nats: NatsConfig,
    /// How long events are remembered for clients that come back.
    pub history: Duration,
    /// The graph's store of record; without one the graph of each node stands still.
    pub store: Option<PostgresConfig>,
    /// How often all pairs are compared with those of the store of record; zero is never.
    pub check_every: Duration,
    /// Over how long clients are sent to the others when this node ends; what these can take,
    /// unless given.
    pub drain: Option<Duration>,
}

impl ClusterConfig {
    /// How much of the log is read at a start: what is remembered for clients that come back, and
    /// all idempotency keys that are good still.
    pub(super) fn reads_back(&self) -> Duration {
        self.history.max(idempotency::REMEMBERED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_that_starts_reads_back_to_the_oldest_key_whatever_it_remembers_for_clients() {
        let of = |seconds| {
            let config = ClusterConfig {
                node: "n1".into(),
                nats: NatsConfig::new("c", ["nats://127.0.0.1:1"]),
                history: Duration::from_secs(seconds),
                store: None,
                check_every: Duration::ZERO,
                drain: None,
            };
            config.reads_back()
        };
        assert_eq!(of(0), idempotency::REMEMBERED);
        assert_eq!(of(180), idempotency::REMEMBERED);
        assert_eq!(of(3_600), Duration::from_secs(3_600));
    }
}
