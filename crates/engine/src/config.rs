//! What the data plane must be told at start.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use hub::{HistoryLimits, HistoryRules, ListLimits, Members, Names};
use proto::{Networks, Page};
use sync::replies::Replies;
use tls::rustls::ServerConfig;
use topics::{Topics, TopicsLimits};

use crate::FrameStore;
use crate::mercure_config::MercureConfig;
use crate::pusher_apps::PusherApps;
use crate::refused_origins::RefusedOrigins;
use crate::settings::Settings;
use crate::tokens::TokenConfig;
use crate::watch::Rooms;

/// What an engine goes by. A new option is a field here, with its default in [`EngineConfig::new`],
/// or of [`Settings`], if it may change while the engine runs; it is read where it counts.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// What may change while the engine runs.
    pub settings: Settings,
    /// Where clients connect. Port 0 lets the kernel choose.
    pub listen: Option<SocketAddr>,
    /// Where clients connect by TLS.
    pub tls: Option<TlsConfig>,
    /// Worker threads, from 1 to [`hub::ConnRef::WORKERS_MAX`].
    pub workers: usize,
    /// Connections of all workers together, past which new ones are answered 503. A worker whose
    /// own descriptors are all taken answers so before.
    pub connections_max: usize,
    /// What one client's address may have and do.
    pub per_address: AddressLimits,
    /// Peers that are believed for whom they ask.
    pub trusted: Networks,
    /// Unsent bytes of one connection past which it is closed.
    pub backlog_bytes_max: usize,
    /// Bytes that are kept for all connections together: of what clients have sent and is not dealt
    /// with, and of what they do not take.
    pub buffered_bytes_max: usize,
    /// Whether the server is a node of a cluster: numbers of events are given by its log, and who
    /// comes with a place that this node has not come to yet is held until it has.
    pub cluster: bool,
    /// What is remembered for clients that come back.
    pub history: HistoryLimits,
    /// What is remembered of some ids, where it is not as of all others. Without a meaning while
    /// nothing is remembered of those.
    pub remember: HistoryRules,
    /// Who keeps events on disk, if some are.
    pub event_store: Option<EventStore>,
    /// Bytes that the ids of all connections together may be [counted](hub::Names::bytes) for, past
    /// which a connection gets no further ids beside its first.
    pub ids_bytes_max: usize,
    /// Whether messages of WebSockets are compressed where the client offers it.
    pub websocket_deflate: bool,
    /// The tokens that streams need; `None` lets anybody listen as anybody.
    pub tokens: Option<TokenConfig>,
    /// The apps whose clients speak the Pusher protocol; `None` serves none.
    pub pusher: Option<Arc<PusherApps>>,
    /// The Mercure protocol; `None` serves it not.
    pub mercure: Option<MercureConfig>,
    /// How many members of an id are listed, past which they are only counted; 0 keeps none. Where
    /// streams need no tokens there are none.
    pub members_max: usize,
    /// Those whose pages were refused, to be told.
    pub refused_origins: Arc<RefusedOrigins>,
    /// Whether there is a [guest](crate::Guest) beside the workers.
    pub guest: bool,
    /// What stands at `/`; nothing unless there is something to see.
    pub page: Option<Arc<Page>>,
    /// How long after a write to a stream what comes for it is gathered, in milliseconds; 0 is not
    /// at all.
    pub gather_ms: u64,
    /// Whether connections that ask for durable streams are handed out
    /// ([`Engine::hand_outs`](crate::Engine::hand_outs)). Those that publish by the Mercure
    /// protocol are where that is served.
    pub hands_out: bool,
}

/// What one client's address may have and do; 0 is no bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressLimits {
    /// Connections at one time.
    pub connections: u32,
    /// Connections that begin within a second.
    pub connects_per_second: u32,
    /// Bytes of requests and messages within a second, on average.
    pub request_bytes_per_second: u32,
}

impl Default for AddressLimits {
    /// What an office behind one address does not meet.
    fn default() -> AddressLimits {
        AddressLimits {
            connections: 1000,
            connects_per_second: 200,
            request_bytes_per_second: 1024 * 1024,
        }
    }
}

impl AddressLimits {
    /// Whether nothing is bounded.
    pub fn are_off(&self) -> bool {
        let AddressLimits { connections, connects_per_second, request_bytes_per_second } = *self;
        (connections, connects_per_second, request_bytes_per_second) == (0, 0, 0)
    }
}

impl EngineConfig {
    /// The contract's defaults on `listen`.
    pub fn new(listen: SocketAddr) -> EngineConfig {
        EngineConfig {
            settings: Settings::default(),
            listen: Some(listen),
            tls: None,
            workers: 1,
            connections_max: usize::MAX,
            per_address: AddressLimits::default(),
            trusted: Networks::default(),
            backlog_bytes_max: 64 * 1024,
            buffered_bytes_max: 256 << 20,
            cluster: false,
            history: HistoryLimits::default(),
            remember: HistoryRules::default(),
            event_store: None,
            ids_bytes_max: 128 << 20,
            websocket_deflate: false,
            tokens: None,
            pusher: None,
            mercure: None,
            members_max: 1_000,
            refused_origins: Arc::default(),
            guest: false,
            page: None,
            gather_ms: 0,
            hands_out: false,
        }
    }

    /// Whether it is kept who is a member of an id.
    pub(crate) fn has_members_of_ids(&self) -> bool {
        self.tokens.is_some() && self.members_max > 0
    }

    /// Whether connections are handed out at all.
    pub(crate) fn hands_any_out(&self) -> bool {
        self.hands_out || self.mercure.is_some()
    }

    /// Who listens to what by the Mercure protocol, where that is served. What was sent up to
    /// `last` is not known by topic.
    pub(crate) fn topics(&self, names: &Arc<Names>, last: u64) -> Option<Arc<Topics>> {
        self.mercure.as_ref()?;
        let of_rules = self.remember.iter().map(|rule| rule.age_ms_max);
        let age_ms = of_rules.fold(self.history.age_ms_max, u64::max);
        let topics = Topics::new(Arc::clone(names), TopicsLimits::new(age_ms));
        topics.begun_at(last);
        Some(Arc::new(topics))
    }

    /// Who is in a room, where that is kept. Nodes that are a hub of the Mercure protocol tell each
    /// other who is subscribed as they tell who is in rooms.
    pub(crate) fn rooms(&self, names: &Arc<Names>, replies: &Arc<Replies>) -> Option<Arc<Rooms>> {
        let tells_nodes = self.cluster && self.mercure.is_some();
        let is_kept = self.has_members_of_ids() || self.pusher.is_some() || tells_nodes;
        is_kept.then(|| {
            let limits = ListLimits {
                members: self.members_max,
                // It waits for its client with what comes behind it.
                bytes: self.backlog_bytes_max / 8 * 7,
            };
            let members = Members::new(Arc::clone(names), limits);
            Arc::new(Rooms::new(members, Arc::clone(replies)))
        })
    }

    /// Where workers listen, and whether TLS is spoken there.
    pub(crate) fn listens(&self) -> Vec<(SocketAddr, bool)> {
        let plain = self.listen.map(|listen| (listen, false));
        plain.into_iter().chain(self.tls.as_ref().map(|tls| (tls.listen, true))).collect()
    }
}

/// Who keeps events on disk.
#[derive(Clone)]
pub struct EventStore(pub Arc<FrameStore>);

impl fmt::Debug for EventStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventStore")
    }
}

/// A port at which TLS is spoken.
#[derive(Clone)]
pub struct TlsConfig {
    /// Where clients connect. Port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// How they are met: made by [`tls::server_config`], or TLS cannot be cut down to its keys.
    pub config: Arc<ServerConfig>,
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsConfig({})", self.listen)
    }
}
