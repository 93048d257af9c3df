//! What is known of a node, for readiness, `/stats` and metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use cluster::Status;
use cluster::limits::LEASE_MS;
use engine::Router;
use hub::IdText;
use nats::{NatsClient, State};
use postgres::Seen;

use super::replica_sync::GraphStatus;
use crate::channels::ChannelReader;

/// Whether a node is a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Membership {
    /// It reads the log, and was never one.
    #[default]
    Joining,
    /// It is one.
    Member,
    /// The others have declared it gone; it joins again when it is well.
    Away,
    /// It has left for good.
    Gone,
}

/// What is known of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeStatus {
    /// Whether it is a member.
    pub membership: Membership,
    /// The epoch that it is in.
    pub epoch: u64,
    /// What the pure state says of it.
    pub node: Status,
    /// It knew once all tokens that are revoked, or there are none here.
    pub knows_revoked: bool,
    /// This node's sends.
    pub outcomes: Outcomes,
    /// How often all streams were told of a gap.
    pub gaps: u64,
}

impl NodeStatus {
    /// How many nodes there are, for who goes by what all of them say. `None` where that is not
    /// certain: this node is none of them, and would be missing, or others have lost their places
    /// with it and may be on their way back. They serve their clients meanwhile.
    pub(super) fn certain_members(&self, now_ms: u64) -> Option<usize> {
        let Status { incarnation, members, returning_ms, .. } = self.node;
        let are_returning = returning_ms.is_some_and(|since_ms| now_ms < since_ms + LEASE_MS);
        (incarnation.is_some() && !are_returning).then_some(members)
    }
}

/// Sends by what came of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcomes {
    pub counted: u64,
    pub at_least: u64,
    pub not_sent: u64,
    pub unknown: u64,
}

/// What the others are told of its clients. Relaxed: it is only reported.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Connections of this node's workers.
    pub(super) streams: AtomicU64,
    /// It sends them to the others, and ends.
    pub(super) ending: AtomicBool,
}

/// What does not change of it, and its connection.
pub(super) struct Standing {
    pub(super) router: Arc<Router>,
    pub(super) channels: ChannelReader,
    pub(super) load: Arc<Load>,
    pub(super) nats: NatsClient,
    pub(super) cluster: String,
    pub(super) node: String,
    /// What is known of the graph, if it has a store of record.
    pub(super) graph: Option<GraphStatus>,
}

impl std::fmt::Debug for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.node, self.cluster)
    }
}

impl Standing {
    pub(super) fn is_connected(&self) -> bool {
        self.nats.state().connected
    }

    /// Connections of this node alone.
    pub(super) fn connections_here(&self, id: &str) -> u64 {
        IdText::of_key(id).map_or(0, |id| self.router.connections(id) as u64)
    }

    /// Whether the node is no member because its graph is not known to be the cluster's.
    pub(super) fn waits_for_graph(&self, status: &NodeStatus) -> bool {
        let begins = status.membership == Membership::Joining && status.epoch == 0;
        self.graph.is_some()
            && status.node.incarnation.is_none()
            && (status.node.waits_for_store || begins)
    }

    /// What keeps the node from its work, for people.
    pub(super) fn obstacle(&self, status: &NodeStatus) -> String {
        let State { connected, server, last_error, .. } = self.nats.state();
        if !connected {
            let why = last_error.unwrap_or_else(|| "it does not answer".to_owned());
            return format!("NATS at {server} cannot be reached ({why})");
        }
        if let Some(GraphStatus { versions, building, .. }) = &self.graph
            && self.waits_for_graph(status)
        {
            if let Some(why) = &*building.borrow() {
                return format!("it builds its graph anew out of PostgreSQL, since {why}");
            }
            let why = match versions.now() {
                Seen::Away(error) => error.to_string(),
                Seen::Starting | Seen::At(_) => "it is being read".to_owned(),
            };
            return format!(
                "it waits for PostgreSQL ({why}), since the log has not all that its graph lacks"
            );
        }
        match status.membership {
            Membership::Joining => format!(
                "it reads the log of cluster {}, and is at {} of epoch {}",
                self.cluster, status.node.read, status.epoch
            ),
            Membership::Away => {
                "it was too far behind, or not heard of, and joins again".to_owned()
            }
            Membership::Gone => "it has left the cluster".to_owned(),
            Membership::Member if !status.knows_revoked => {
                "it reads which tokens are revoked".to_owned()
            }
            Membership::Member => "nothing does".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_no_member_or_alone_in_a_new_epoch_does_not_know_how_many_there_are() {
        let node = Status { incarnation: Some(7), members: 3, ..Status::default() };
        let certain = |node: Status, now_ms: u64| {
            NodeStatus { node, ..NodeStatus::default() }.certain_members(now_ms)
        };
        assert_eq!(certain(node, 1), Some(3));
        assert_eq!(certain(Status { incarnation: None, ..node }, 1), None);
        // It has read its own join, and not yet those of others.
        let alone = Status { members: 1, returning_ms: Some(5_000), ..node };
        assert_eq!(certain(alone, 5_000), None);
        assert_eq!(certain(alone, 5_000 + LEASE_MS - 1), None);
        assert_eq!(certain(alone, 5_000 + LEASE_MS), Some(1));
    }
}
