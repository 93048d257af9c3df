//! Numbers of subscribers over all nodes of a cluster, of which each tells its own subscribers.
//!
//! A node whose number of a channel changes tells the others its key. Each node that has
//! subscribers of the channel then asks all nodes, and tells the sum to its own. So after the last
//! change all hear the same number, without a node that leads. A sum in which a node is missing is
//! told to nobody: it is asked for again, until the node answers or is declared gone.
//!
//! Messages may be lost, so everything is asked for anew when nodes come or go, when the connection
//! to NATS is another one, and from time to time.
//!
//! Cost: of a change one message, and from each node with subscribers one question, for all
//! channels that have changed within a look. Nothing where no app wants counts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use engine::Router;
use futures_util::FutureExt;
use hub::Id;

use super::counted::ReportedCounts;
use crate::channels::{ChannelsAsked, WhichChannels};
use crate::cluster::{ChangedChannels, Cluster, MembersSeen};

/// Channels of one question: some 50 KB of long names.
const ASKED_MAX: usize = 256;

/// Keys that wait until they can be told. What is not told is asked for [from time to
/// time](AGAIN_MS).
const PENDING_MAX: usize = 16_384;

/// Messages that are taken in one look.
const HEARD_MAX: usize = 64;

/// Before nodes are asked again of which one has not answered.
const PAUSE_MS: u64 = 500;

/// How often all is asked for anew.
const AGAIN_MS: u64 = 30_000;

/// What a node tells and hears of numbers.
pub(super) struct OverNodes {
    cluster: Arc<Cluster>,
    /// What the others tell, from when an app wants counts.
    changed: Option<ChangedChannels>,
    heard_of: MembersSeen,
    /// Keys of channels that the others are to be told of.
    pending: HashSet<String>,
    /// Nobody is asked before.
    ask_ms: u64,
    /// When all is asked for anew.
    again_ms: u64,
}

/// What has come of a look at the others.
pub(super) struct ChangedCounts {
    /// Keys of channels of which their numbers have changed.
    pub(super) keys: Vec<String>,
    /// Some may not have been heard.
    pub(super) has_lost: bool,
}

impl OverNodes {
    /// One that has told and heard nothing.
    pub(super) fn new(cluster: Arc<Cluster>) -> OverNodes {
        OverNodes {
            heard_of: cluster.heard_of(),
            cluster,
            changed: None,
            pending: HashSet::new(),
            ask_ms: 0,
            again_ms: AGAIN_MS,
        }
    }

    /// No app wants counts any more: what the others tell is not heard.
    pub(super) fn rest(&mut self) {
        self.changed = None;
    }

    /// The number of the channel with this key has changed here.
    pub(super) fn note(&mut self, key: &str) {
        if self.pending.len() < PENDING_MAX {
            self.pending.insert(key.to_owned());
        }
    }

    /// Tells the others what has changed here, and takes what they have told.
    pub(super) async fn exchange(&mut self, now_ms: u64) -> ChangedCounts {
        let mut heard = ChangedCounts { keys: Vec::new(), has_lost: false };
        if !self.cluster.is_connected() {
            // All is asked for anew on the next connection.
            return heard;
        }
        if self.changed.is_none() {
            self.changed = self.cluster.changed_channels().await;
            heard.has_lost = true;
        }
        let mut pending: Vec<String> = self.pending.drain().collect();
        self.cluster.tell_changed(&mut pending).await;
        self.pending.extend(pending);
        // After they were told: what is asked now has what was noted before.
        let heard_of = self.cluster.heard_of();
        if heard_of != self.heard_of || now_ms >= self.again_ms {
            (self.heard_of, self.again_ms) = (heard_of, now_ms + AGAIN_MS);
            heard.has_lost = true;
        }
        if let Some(changed) = &mut self.changed {
            for _ in 0..HEARD_MAX {
                let next = changed.next(self.cluster.node()).now_or_never();
                let Some(Some(keys)) = next else { break };
                heard.keys.extend(keys);
            }
        }
        heard
    }

    /// The numbers of channels of which they are to be told now, as far as all nodes have answered.
    pub(super) async fn counts(
        &mut self,
        counted: &ReportedCounts,
        router: &Router,
        is_told: impl Fn(Id, &str) -> bool,
        now_ms: u64,
    ) -> HashMap<Id, u64> {
        if now_ms < self.ask_ms || !self.cluster.is_connected() {
            return HashMap::new();
        }
        let mut counts = HashMap::new();
        let mut asked = Vec::new();
        for channel in counted.ready(now_ms, ASKED_MAX) {
            match router.names().text(channel).filter(|key| is_told(channel, key)) {
                Some(key) => asked.push((channel, key.to_string())),
                // Nobody here is to be told.
                None => drop(counts.insert(channel, 0)),
            }
        }
        if asked.is_empty() {
            return counts;
        }
        let keys = asked.iter().map(|(_, key)| key.clone()).collect();
        let which = WhichChannels::Keys(keys);
        let found = self.cluster.channels(ChannelsAsked { which, users: false }).await;
        if found.at_least {
            self.ask_ms = now_ms + PAUSE_MS;
            return counts;
        }
        counts.extend(asked.into_iter().map(|(channel, key)| (channel, found.connections(&key))));
        counts
    }
}
