//! What the endpoints share: the way into the engine, the graph, and the counts that are only the
//! API's own.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use anyhow::Context;
use archive::DiskArchive;
use auth::keys::ring::KeyRing;
use auth::token_service::TokenService;
use dispatch::barrier::Barrier;
use dispatch::idempotency::IdempotencyKeys;
use dispatch::posting::Sender;
use dispatch::presence::Presence;
use dispatch::pusher_hooks::PusherHooks;
use dispatch::subject_rooms::SubjectRooms;
use dispatch::traces::Traces;
use engine::{ClientSends, Engine, History, PusherApps, Resumes, Router, Snapshot, Watches};
use gateway::{Erlang, Rooms};
use graph::Graph;
use httpd::permits::IdleLimit;
use httpd::problem::ApiProblem;
use httpd::tls::Handshakes;
use hub::HistoryStats;
use proto::Networks;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::access::{Access, Need};
use super::dashboards::Dashboards;
use super::public_url::PublicUrl;
use super::readings::duration::SendDurations;
use super::readings::process;
use super::readings::sockets::SocketMemoryReader;
use super::streams::Streams;
use super::upgraded::Figures;
use crate::certs::Certificates;
use crate::mercure_hub::Hub;
use crate::subscription_list::SubscriptionList;

/// What the endpoints share.
pub(crate) struct Api {
    pub(super) router: Arc<Router>,
    pub(super) sender: Sender,
    pub(super) resumes: Arc<Resumes>,
    /// What clients of streams send.
    pub(super) client_sends: Arc<ClientSends>,
    /// Who tells of ids that come and go.
    pub(super) presence: Arc<Presence>,
    /// Who is in a room, where streams need tokens.
    watches: Option<Watches>,
    pub(super) graph: Graph,
    /// Of those who walk through all of it there is one at a time.
    pub(super) graph_walks: Arc<Semaphore>,
    /// Who may call.
    pub(super) access: Arc<Access>,
    pub(super) certificates: Arc<Certificates>,
    /// Of TLS on the API's own port.
    pub(super) handshakes: Arc<Handshakes>,
    /// The public port.
    pub(super) listen: SocketAddr,
    /// Where clients connect by TLS, if it is spoken.
    pub(super) tls_listen: Option<SocketAddr>,
    /// Where browsers reach it, when that is another place.
    pub(super) public_url: Option<PublicUrl>,
    /// The id that the dashboard's figures are sent about.
    pub(super) live_id: String,
    /// What the pages that hear them add to the figures.
    pub(super) dashboards: Dashboards,
    /// The tokens of streams, where they are needed.
    pub(super) tokens: Option<TokenService>,
    /// Locked for writing only while it is opened and while it drains.
    pub(super) engine: Arc<RwLock<Engine>>,
    /// An event must fit into a connection's backlog, or nobody could ever hear it.
    pub(super) backlog_bytes_max: usize,
    pub(super) started: Instant,
    /// When the process started, in seconds since 1970.
    pub(super) started_at: f64,
    /// Events that were accepted. Relaxed: it is only reported.
    pub(super) events: AtomicU64,
    /// Those of them whose request was served in a worker's turn. Likewise.
    pub(super) events_at_once: AtomicU64,
    /// What was sent with an idempotency key of late.
    pub(super) idempotency: Arc<IdempotencyKeys>,
    pub(super) durations: SendDurations,
    pub(super) sockets: SocketMemoryReader,
    /// Who makes traces of sends, if a collector is named.
    pub(super) traces: Option<Traces>,
    /// The apps of the Pusher protocol, if there are some.
    pub(super) pusher: Option<Arc<PusherApps>>,
    /// What tells the apps' backends of their channels.
    pub(super) pusher_hooks: Option<Arc<PusherHooks>>,
    /// Who may publish by the Mercure protocol, where that is served.
    pub(super) hub: Option<Arc<Hub>>,
    /// Who is subscribed there.
    pub(super) subscription_list: Option<Arc<SubscriptionList>>,
    /// Streams that are kept on disk, if there may be some.
    streams: Option<Arc<Streams>>,
    /// The log of the events that stay, if some do.
    pub(super) log: Option<Arc<DiskArchive>>,
    /// The Erlang side, if there is one.
    erlang: OnceLock<Erlang>,
    /// The upgrade by which it began, if it did so.
    upgraded: OnceLock<Figures>,
    /// Whether others wait for the places of those who say nothing.
    pub(super) idle_limit: IdleLimit,
    pub(super) stop: CancellationToken,
}

/// What an API is made of.
pub(crate) struct ApiParts {
    pub(crate) engine: Arc<RwLock<Engine>>,
    pub(crate) sender: Sender,
    pub(crate) presence: Arc<Presence>,
    pub(crate) keys: Arc<KeyRing>,
    pub(crate) live_id: String,
    pub(crate) tokens: Option<TokenService>,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) handshakes: Arc<Handshakes>,
    pub(crate) backlog_bytes_max: usize,
    pub(crate) trusted: Networks,
    pub(crate) public_url: Option<PublicUrl>,
    pub(crate) idempotency: Arc<IdempotencyKeys>,
    pub(crate) traces: Option<Traces>,
    pub(crate) pusher: Option<Arc<PusherApps>>,
    pub(crate) pusher_hooks: Option<Arc<PusherHooks>>,
    pub(crate) hub: Option<Arc<Hub>>,
    pub(crate) streams: Option<Arc<Streams>>,
    pub(crate) log: Option<Arc<DiskArchive>>,
    pub(crate) idle_limit: IdleLimit,
    pub(crate) stop: CancellationToken,
}

impl Api {
    /// The API of `parts`, whose paths have `needs`. It refuses new work once the `stop` of `parts`
    /// is cancelled.
    pub(super) fn new(parts: ApiParts, needs: HashMap<&'static str, Need>) -> anyhow::Result<Api> {
        let ApiParts { engine, sender, keys, backlog_bytes_max, public_url, .. } = parts;
        let (resumes, client_sends, watches, listen, tls_listen) = {
            let engine = engine.read().unwrap_or_else(PoisonError::into_inner);
            let resumes = Arc::clone(engine.resumes());
            let sends = Arc::clone(engine.client_sends());
            (resumes, sends, engine.watches().cloned(), engine.address(), engine.tls_address())
        };
        let subscription_list = SubscriptionList::begin(&sender, &parts.stop);
        Ok(Api {
            router: Arc::clone(&sender.router),
            graph: sender.graph.clone(),
            graph_walks: Arc::new(Semaphore::new(1)),
            sender,
            resumes,
            client_sends,
            watches,
            presence: parts.presence,
            access: Arc::new(Access::new(keys, needs, parts.trusted)),
            certificates: parts.certificates,
            handshakes: parts.handshakes,
            listen,
            tls_listen,
            public_url,
            live_id: parts.live_id,
            dashboards: Dashboards::default(),
            tokens: parts.tokens,
            engine,
            backlog_bytes_max,
            started: Instant::now(),
            started_at: process::started_at().context("cannot read /proc/self/stat")?,
            events: AtomicU64::new(0),
            events_at_once: AtomicU64::new(0),
            idempotency: parts.idempotency,
            durations: SendDurations::default(),
            sockets: SocketMemoryReader::default(),
            traces: parts.traces,
            pusher: parts.pusher,
            pusher_hooks: parts.pusher_hooks,
            hub: parts.hub,
            subscription_list,
            streams: parts.streams,
            log: parts.log,
            erlang: OnceLock::new(),
            upgraded: OnceLock::new(),
            idle_limit: parts.idle_limit,
            stop: parts.stop,
        })
    }

    /// The workers' counters; a problem while the engine is opened or drains.
    pub(super) fn snapshot(&self) -> Result<Snapshot, ApiProblem> {
        match self.engine.try_read() {
            Ok(engine) => Ok(engine.snapshot()),
            Err(_) => Err(ApiProblem::starting_or_stopping()),
        }
    }

    /// Where a node of a cluster tells the others who is subscribed at the hub.
    pub(crate) fn subscriber_rooms(&self) -> Option<Arc<SubjectRooms>> {
        self.subscription_list.as_ref()?.rooms()
    }

    /// The hub of the Mercure protocol, where that is served.
    pub(crate) fn hub(&self) -> Option<&Arc<Hub>> {
        self.hub.as_ref()
    }

    /// Streams that are kept on disk, if there may be some.
    pub(crate) fn streams(&self) -> Option<&Arc<Streams>> {
        self.streams.as_ref()
    }

    /// The Erlang side, if there is one.
    pub(super) fn erlang(&self) -> Option<&Erlang> {
        self.erlang.get()
    }

    /// There is an Erlang side from now on.
    pub(crate) fn set_erlang(&self, erlang: Erlang) {
        // There is one guest, so it is set once.
        let _ = self.erlang.set(erlang);
    }

    /// What an upgrade closes.
    pub(crate) fn barrier(&self) -> &Barrier {
        &self.sender.barrier
    }

    /// The tokens of streams, where they are needed.
    pub(crate) fn tokens(&self) -> Option<&TokenService> {
        self.tokens.as_ref()
    }

    /// Who is in a room, where streams need tokens.
    pub(crate) fn watches(&self) -> Option<&Watches> {
        self.watches.as_ref()
    }

    /// Where Erlang processes are told who is in a room.
    pub(crate) fn rooms(&self) -> Rooms {
        match (self.watches(), self.tokens()) {
            (Some(watches), _) => Rooms::Kept(watches.clone()),
            (None, Some(_)) => Rooms::Off,
            (None, None) => Rooms::WithoutUsers,
        }
    }

    /// What the upgrade came to by which this server began.
    pub(super) fn upgraded(&self) -> Option<&Figures> {
        self.upgraded.get()
    }

    /// This server began by an upgrade.
    pub(crate) fn set_upgraded(&self, figures: Figures) {
        // It begins once.
        let _ = self.upgraded.set(figures);
    }

    /// How much is remembered for clients that come back.
    pub(super) fn history(&self) -> HistoryStats {
        self.router.history().map_or_else(HistoryStats::default, History::stats)
    }

    /// The idempotency keys that are known.
    pub(crate) fn idempotency(&self) -> &Arc<IdempotencyKeys> {
        &self.idempotency
    }

    /// Counts an event that the API accepted; those of Erlang nodes are counted there.
    pub(super) fn count_event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    /// Events that were accepted, whoever sent them.
    pub(super) fn events(&self) -> u64 {
        let of_streams = self.streams().map_or(0, |streams| streams.events_sent());
        self.events.load(Ordering::Relaxed) + self.erlang().map_or(0, Erlang::events) + of_streams
    }
}
