//! Nodes tell each other which channels of theirs are heard by more or fewer than before: keys
//! alone. Who wants to know the number over all nodes asks them all, so a message that is lost or
//! doubled makes no number wrong; it is late until the next one.

use bytes::Bytes;
use nats::Subscription;
use serde::{Deserialize, Serialize};

use super::Cluster;
use super::status::Membership;

/// What is told under.
const CHANGED: &str = "channels-changed";

/// Messages that wait for their reader; further ones are lost.
const WAITING_MAX: usize = 256;

/// Bytes of the keys of one message.
const MESSAGE_BYTES: usize = 64 << 10;

/// A message.
#[derive(Serialize, Deserialize)]
struct Changed {
    node: String,
    keys: Vec<String>,
}

/// What the other nodes tell.
pub(crate) struct ChangedChannels(Subscription);

/// What decides of whom this node hears. Another one: something may not have been heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MembersSeen {
    membership: Membership,
    members: usize,
    /// When others were members last that are none now.
    left_ms: u64,
    /// How often a connection to NATS was made.
    connects: u64,
}

impl Cluster {
    /// Begins to hear what the other nodes tell; `None` without NATS.
    pub(crate) async fn changed_channels(&self) -> Option<ChangedChannels> {
        let subscribed = self.standing.nats.subscribe_core(CHANGED, WAITING_MAX).await;
        subscribed.ok().map(ChangedChannels)
    }

    /// Tells the others of channels of which the number has changed here. Those that could not be
    /// told stay in `keys`.
    pub(crate) async fn tell_changed(&self, keys: &mut Vec<String>) {
        while !keys.is_empty() {
            let mut bytes = 0;
            let fits = keys.iter().take_while(|key| {
                bytes += key.len();
                bytes <= MESSAGE_BYTES
            });
            let rest = keys.split_off(fits.count().max(1));
            let changed = Changed { node: self.node().to_owned(), keys: std::mem::take(keys) };
            let message: Bytes = serde_json::to_vec(&changed).expect("plain values").into();
            if self.standing.nats.publish_core(CHANGED, message).await.is_err() {
                *keys = changed.keys;
                keys.extend(rest);
                return;
            }
            *keys = rest;
        }
    }

    /// Whether there is a connection on which something can be told or asked.
    pub(crate) fn is_connected(&self) -> bool {
        self.standing.is_connected()
    }

    /// Of whom this node hears now.
    pub(crate) fn heard_of(&self) -> MembersSeen {
        let status = self.status.borrow();
        let (members, left_ms) = (status.node.members, status.node.left_ms);
        let connects = self.standing.nats.state().connects;
        MembersSeen { membership: status.membership, members, left_ms, connects }
    }
}

impl ChangedChannels {
    /// The keys of the next message of another node; `None` when the connection has ended for good.
    /// Whoever is in NATS may tell, anything. May be dropped and called again.
    pub(crate) async fn next(&mut self, own: &str) -> Option<Vec<String>> {
        loop {
            let message = self.0.next().await?;
            match serde_json::from_slice::<Changed>(&message.bytes) {
                Ok(Changed { node, keys }) if node != own => return Some(keys),
                _ => {}
            }
        }
    }
}
