//! What a shard keeps of those who speak the Pusher protocol ([`crate::shard::channels`]).

use super::apps::SeenApps;
use super::fresh::Fresh;
use super::graph_users::GraphUsers;
use super::signed_in::SignedIn;
use super::wishes::Wishes;

/// What a shard keeps of those who speak the protocol.
#[derive(Default)]
pub(in crate::shard) struct Channels {
    pub(in crate::shard) apps: SeenApps,
    /// Who is signed in.
    pub(in crate::shard) signed_in: SignedIn,
    /// Who has just been told the last event of a channel.
    pub(in crate::shard) fresh: Fresh,
    /// Who is to be told what it has missed.
    pub(in crate::shard) missed: Wishes,
    /// Who hears what it follows.
    pub(in crate::shard) graph: GraphUsers,
}

impl Channels {
    /// Whether all who are here are told all events as others are.
    pub(in crate::shard) fn are_plain(&self) -> bool {
        self.fresh.is_empty() && self.missed.is_empty() && self.graph.is_empty()
    }
}
