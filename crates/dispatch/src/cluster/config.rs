//! What makes a server a node of a cluster.

use std::time::Duration;

use nats::NatsConfig;
use postgres::PostgresConfig;

/// What makes a server a node of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// What this node is called: there is one of each name.
    pub node: String,
    /// The log.
    pub nats: NatsConfig,
    /// How long events are remembered for clients that come back: so much of the log is read at a
    /// start.
    pub history: Duration,
    /// The graph's store of record; without one the graph of each node stands still.
    pub store: Option<PostgresConfig>,
    /// How often all pairs are compared with those of the store of record; zero is never.
    pub check_every: Duration,
    /// Over how long clients are sent to the others when this node ends; what these can take,
    /// unless given.
    pub drain: Option<Duration>,
}
