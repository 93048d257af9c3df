//! Users that hear what they follow in the stored graph, where their app is told to: on their own
//! channel.
//!
//! Such a connection is logged in under the user's *id* beside the key of the channel, so it is
//! found as any other that is. What is sent about an id has no channel, and each user's channel is
//! called otherwise: so the frame is made for each.
//!
//! Cost: 80 bytes for such a connection. A delivery looks whether there are some, and makes a frame
//! for each.

use hub::IdText;
use pusher::{App, Channel};

use super::super::core::{At, Core};
use crate::channels::channel_key;
use crate::shard::tables::graph_users::GraphUser;
use crate::sockets::Sockets;

/// The id of a user that hears what it follows on `channel`.
pub(super) fn graph_id<'c>(app: &App, channel: Channel<'c>) -> Option<IdText<'c>> {
    let user = channel.user().filter(|_| app.hears_graph)?;
    // One that no id may be called follows nobody.
    IdText::parse(user).ok()
}

impl<S: Sockets> Core<S> {
    /// The connection is logged in under the id of its user: from now on it is told on `channel`.
    pub(super) fn hear_graph(&mut self, at: &At<'_, S::Socket>, app: &App, channel: Channel<'_>) {
        let id = graph_id(app, channel).and_then(|id| self.names.lookup(id));
        if let Some(id) = id.filter(|&id| self.has_id(at, id)) {
            let key = channel_key(&app.id, channel).into();
            self.channels.graph.0.insert(at.slot, GraphUser { key, id });
        }
    }

    /// The connection has left the channel with this key.
    pub(super) fn leave_graph(&mut self, at: &mut At<'_, S::Socket>, key: &str) {
        if !self.channels.graph.is_of(at.slot, key) {
            return;
        }
        let id = self.channels.graph.id(at.slot).and_then(|id| self.names.text(id));
        self.channels.graph.forget(at.slot);
        if let Some(id) = id.as_deref().and_then(|id| IdText::parse(id).ok()) {
            self.logout(at, &[id]);
        }
    }
}
