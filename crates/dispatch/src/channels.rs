//! How many hear channels of the Pusher protocol, and who is in presence channels: of this server,
//! and put together of all nodes of a cluster.
//!
//! A connection hears a channel while it is logged in under its [key](hub::Key). A user is in a
//! presence channel from its first connection on until others were told that it has left.
//!
//! Cost: a look-up or two for each channel. Where channels are found by their names, a walk over
//! all names of keys, one at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::Router;
use hub::{Id, IdText, Key, Members, Space};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Users of one channel in one [`ChannelPiece`]: some 100 KB of the longest ids.
const PIECE_USERS_MAX: usize = 200;

/// Which channels are asked about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhichChannels {
    /// Those with these keys.
    Keys(Vec<String>),
    /// Those of an app whose names begin so and which somebody hears.
    Named {
        /// The app's id.
        app: String,
        /// What their names begin with.
        prefix: String,
    },
    /// None: how many connections the app with this id has, as if it were a channel.
    App(String),
}

/// What is asked about channels.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChannelsAsked {
    /// Which.
    pub which: WhichChannels,
    /// Whether it is to be said who is in them, too.
    pub users: bool,
}

/// A part of what one server says of one channel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ChannelPiece {
    key: String,
    connections: u64,
    users: Vec<String>,
}

impl ChannelPiece {
    /// What it takes up, as it is written.
    pub(crate) fn bytes(&self) -> usize {
        // Names of members, quotes and commas, and a number.
        64 + self.key.len() + self.users.iter().map(|user| user.len() + 3).sum::<usize>()
    }
}

/// Who hears a channel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChannelUse {
    /// How many connections.
    pub connections: u64,
    /// The ids of the users in it, if that was asked.
    pub users: BTreeSet<String>,
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChannelsFound {
    /// Of each channel with its key. One that is not here is heard by nobody.
    pub channels: BTreeMap<String, ChannelUse>,
    /// There may be more: a node of the cluster has not answered.
    pub at_least: bool,
}

impl ChannelsFound {
    /// Puts in what one server says of one channel.
    pub(crate) fn add(&mut self, piece: ChannelPiece) {
        let ChannelPiece { key, connections, users } = piece;
        let found = self.channels.entry(key).or_default();
        found.connections = found.connections.saturating_add(connections);
        found.users.extend(users);
    }

    /// How many connections hear the channel with this key.
    pub fn connections(&self, key: &str) -> u64 {
        self.channels.get(key).map_or(0, |found| found.connections)
    }

    /// Who is in it.
    pub fn users(&self, key: &str) -> impl Iterator<Item = &str> {
        self.channels.get(key).into_iter().flat_map(|found| &found.users).map(String::as_str)
    }
}

/// Reads who hears the channels of this server.
#[derive(Clone)]
pub struct ChannelReader {
    router: Arc<Router>,
    members: Option<Arc<Members>>,
    /// One walk over all names at a time, whoever asks.
    walks: Arc<Semaphore>,
}

impl ChannelReader {
    /// `members` are those of presence channels, where there are some.
    pub fn new(router: Arc<Router>, members: Option<Arc<Members>>) -> ChannelReader {
        ChannelReader { router, members, walks: Arc::new(Semaphore::new(1)) }
    }

    /// What this server alone has.
    pub(crate) async fn found(&self, asked: ChannelsAsked) -> ChannelsFound {
        let mut found = ChannelsFound::default();
        self.pieces(asked).await.into_iter().for_each(|piece| found.add(piece));
        found
    }

    /// What this server alone has, in pieces that are not too long for a message.
    pub(crate) async fn pieces(&self, asked: ChannelsAsked) -> Vec<ChannelPiece> {
        let ChannelsAsked { which, users } = asked;
        match which {
            WhichChannels::Keys(keys) => {
                let found = keys.into_iter().filter_map(|key| {
                    let id = self.router.names().lookup(IdText::of_key(&key).ok()?)?;
                    id.is_key().then_some((id, key))
                });
                self.of_channels(found, users)
            }
            WhichChannels::App(app) => {
                let connections = self.router.app_connections(&app);
                vec![ChannelPiece { key: app, connections, users: Vec::new() }]
            }
            WhichChannels::Named { app, prefix } => {
                let Ok(permit) = Arc::clone(&self.walks).acquire_owned().await else {
                    return Vec::new();
                };
                let reader = self.clone();
                let walk = move || {
                    // Until the walk is over, though nobody may wait for it any more.
                    let _permit = permit;
                    let mut pieces = reader.of_channels(reader.named(&app, &prefix), users);
                    pieces.retain(|piece| piece.connections > 0 || !piece.users.is_empty());
                    pieces
                };
                // It fails only while the runtime ends.
                spawn_blocking(walk).await.unwrap_or_default()
            }
        }
    }

    fn of_channels(
        &self,
        channels: impl IntoIterator<Item = (Id, String)>,
        with_users: bool,
    ) -> Vec<ChannelPiece> {
        let mut pieces = Vec::new();
        for (id, key) in channels {
            let connections = self.router.connections_of(id);
            let users = if with_users { self.users(id) } else { Vec::new() };
            let mut rest = users.chunks(PIECE_USERS_MAX);
            let users = rest.next().unwrap_or_default().to_vec();
            let more = rest.map(|users| (0, users.to_vec()));
            for (connections, users) in std::iter::once((connections, users)).chain(more) {
                pieces.push(ChannelPiece { key: key.clone(), connections, users });
            }
        }
        pieces
    }

    /// Who is in the presence channel `room`.
    fn users(&self, room: Id) -> Vec<String> {
        let users = self.members.as_ref().map(|members| members.ids_in(room));
        let user = |sub: &str| Key::parse(sub).map(|key| key.name.to_owned());
        users.iter().flatten().filter_map(|sub| user(sub)).collect()
    }

    /// The app's channels whose names begin with `prefix` and which somebody hears, with their
    /// keys.
    fn named(&self, app: &str, prefix: &str) -> Vec<(Id, String)> {
        let mut found = Vec::new();
        self.router.names().visit_keys(|id, text| {
            let Some(key) = Key::parse(text).filter(|key| key.app == app) else { return };
            let is_channel = matches!(key.space, Space::Channel | Space::CacheChannel);
            if is_channel && key.name.starts_with(prefix) {
                found.push((id, text.to_owned()));
            }
        });
        // Not under the lock of names.
        found.retain(|(id, _)| self.router.is_online(*id));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(key: &str, connections: u64, users: &[&str]) -> ChannelPiece {
        let users = users.iter().map(|&user| user.to_owned()).collect();
        ChannelPiece { key: key.to_owned(), connections, users }
    }

    #[test]
    fn connections_are_added_up_and_a_user_of_two_nodes_is_one() {
        let mut found = ChannelsFound::default();
        for piece in [
            piece("#c1:presence-a", 2, &["bob", "rj"]),
            piece("#c1:b", 1, &[]),
            piece("#c1:presence-a", 3, &["zoe", "bob"]),
            piece("#c1:presence-a", 0, &["eve"]),
        ] {
            found.add(piece);
        }
        assert_eq!((found.connections("#c1:presence-a"), found.connections("#c1:b")), (5, 1));
        assert_eq!(found.connections("#c1:c"), 0);
        let users: Vec<&str> = found.users("#c1:presence-a").collect();
        assert_eq!(users, ["bob", "eve", "rj", "zoe"]);
        assert_eq!(found.users("#c1:b").next(), None);
    }
}
