//! A server that serves, as an upgrade sees it: all that goes to the successor, and how it is held
//! still meanwhile.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use auth::live_access::LiveAccess;
use dispatch::barrier::Barrier;
use dispatch::successor::Successor;
use engine::{Engine, HandoverFacts, Router};
use gateway::ErlangTask;
use graph::Graph;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::conversation::{Broken, Conversation};
use super::history;
use super::messages::{EpochFacts, Facts, HUB_VERSION, Listeners, LiveFacts, Rest, ServingMessage};
use crate::api::Api;
use crate::keep::Keeping;
use crate::lane::Lanes;
use crate::ports::{ApiAddresses, ApiListening};

/// Between two tries to take the store back.
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// How long requests wait for the log of kept events, which is opened beside the store: then sends
/// of what is kept are refused until it is open.
const LOG_BACK_MAX: Duration = Duration::from_secs(2);

/// The server's parts.
pub(crate) struct Serving {
    pub(crate) engine: Arc<RwLock<Engine>>,
    pub(crate) graph: Graph,
    pub(crate) keeping: Option<Keeping>,
    pub(crate) barrier: Arc<Barrier>,
    pub(crate) lanes: Option<Arc<Lanes>>,
    pub(crate) router: Arc<Router>,
    pub(crate) state: Arc<Api>,
    pub(crate) data: PathBuf,
    pub(crate) apis: ApiAddresses,
    pub(crate) listening: ApiListening,
    pub(crate) erlang: Arc<Mutex<Option<ErlangTask>>>,
    pub(crate) live: LiveAccess,
    pub(crate) backlog_bytes_max: usize,
    /// What writes files in the data directory by itself ends with it.
    pub(crate) chores: CancellationToken,
}

impl Serving {
    /// What the successor must know first.
    pub(super) fn facts(&self, version: u32, begun_ms: u64) -> Facts {
        let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        let HandoverFacts { predecessor, connections, connections_of_a_worker } =
            engine.handover_facts();
        Facts {
            version,
            encke: env!("CARGO_PKG_VERSION").to_owned(),
            begun_ms,
            listen: predecessor.listen,
            tls_listen: predecessor.tls_listen,
            api: self.apis.plain,
            tls_api: self.apis.tls,
            workers: predecessor.workers,
            connections,
            connections_of_a_worker,
            address_keys: predecessor.address_keys,
            has_tokens: self.state.tokens().is_some(),
            backlog_bytes_max: self.backlog_bytes_max,
            buffered_bytes: engine.snapshot().buffered_bytes,
            epoch: self.epoch(),
            live: LiveFacts { id: self.live.id.clone(), token: self.live.token.clone() },
        }
    }

    /// The numbers that go on.
    fn epoch(&self) -> EpochFacts {
        let epoch = self.router.event_ids().epoch();
        EpochFacts { tag: epoch.tag.to_bits(), base: epoch.base, until: epoch.until }
    }

    /// What is known once nothing is sent any more, where the history has been `sent` so far, in
    /// `version` of the conversation.
    pub(super) fn rest(
        &self,
        paused_ms: u64,
        connections: u64,
        sent: history::Sent,
        version: u32,
    ) -> Rest {
        let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        let ids = self.router.event_ids();
        let totals = engine.totals().into_iter().map(|total| (total.name, total.value));
        Rest {
            paused_ms,
            connections,
            epoch: self.epoch(),
            last: ids.last(),
            evicted_range: sent.evicted_range(&self.router),
            totals: totals.collect(),
            api: self.state.past(),
            revoked: self
                .state
                .tokens()
                .map_or_else(Vec::new, |tokens| tokens.revocations().lines()),
            hub: if version >= HUB_VERSION { self.state.hub_rest() } else { None },
        }
    }

    /// Passes the API's ports on.
    pub(super) async fn pass_listeners(&self, successor: &mut Conversation) -> Result<(), Broken> {
        let held = |port: &Option<Weak<TcpListener>>| port.as_ref().and_then(Weak::upgrade);
        let (plain, tls) = (held(&self.listening.plain), held(&self.listening.tls));
        let word = Listeners { api: plain.is_some(), tls_api: tls.is_some() };
        successor.say(&ServingMessage::Listeners(word)).await?;
        let held: Vec<_> = plain.iter().chain(&tls).map(|listener| listener.as_fd()).collect();
        successor.pass(&held).await
    }

    /// Ends our node among Erlang nodes: they come again, to the successor.
    pub(crate) async fn end_erlang(&self) {
        let task = self.erlang.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            task.end_for_upgrade().await;
        }
    }

    /// Has what durable streams have in their log in their files, at most for so long, while all
    /// goes on.
    pub(super) async fn settle_streams(&self, most: Duration) {
        if let Some(streams) = self.state.streams() {
            // Otherwise the successor does it.
            let _ = timeout(most, streams.empty_log()).await;
        }
    }

    /// Has everybody wait who would change something, and waits until those
    /// are done who were at it.
    pub(super) async fn hold_still(&self, most: Duration) -> Result<(), String> {
        self.barrier.close();
        // What they have goes on here, or waits at the barrier.
        let are_back = match &self.lanes {
            Some(lanes) => {
                lanes.recall();
                lanes.emptied(most).await
            }
            None => true,
        };
        match are_back && self.barrier.emptied(most).await {
            true => Ok(()),
            false => Err(format!(
                "requests in progress were not done within {} s: try again when there is less to \
                 do",
                most.as_secs()
            )),
        }
    }

    /// All goes on as before.
    pub(super) fn go_on(&self) {
        self.barrier.open();
        self.lanes.iter().for_each(|lanes| lanes.resume());
    }

    /// All goes on at the successor.
    pub(crate) fn move_on(&self) {
        self.move_on_to(Successor::new(&self.data));
    }

    /// All goes on at `successor`.
    pub(super) fn move_on_to(&self, successor: Successor) {
        self.chores.cancel();
        self.barrier.move_on(successor);
    }

    /// Takes the store and the log of kept events back, if they were let go of. For as long as
    /// another process has the store, changes of the graph are refused; it is tried until it has
    /// not.
    pub(super) async fn take_back(&self, most: Duration) {
        let log = self.keeping.clone().map(|keeping| tokio::spawn(keeping.take_back()));
        let until = Instant::now() + most;
        while let Err(error) = take_back(&self.graph).await {
            if Instant::now() >= until {
                tracing::error!(
                    "the upgrade has failed, and the store is still held by the new program, so no \
                     subscription can be changed: end that one. {error}"
                );
                tokio::spawn(keep_taking_back(self.graph.clone()));
                return;
            }
            sleep(TRY_AGAIN).await;
        }
        if let Some(log) = log {
            // Nothing waits for a disk that hangs: the log is tried for as long as it takes.
            let _ = timeout(LOG_BACK_MAX, log).await;
        }
    }
}

async fn keep_taking_back(graph: Graph) {
    while let Err(error) = take_back(&graph).await {
        tracing::debug!(%error, "the store is still held by another program");
        sleep(TRY_AGAIN).await;
    }
    tracing::info!("the store is ours again");
}

/// Blocks for two seconds at most, on a thread for that.
async fn take_back(graph: &Graph) -> Result<(), String> {
    let graph = graph.clone();
    let taken = spawn_blocking(move || graph.take_back()).await;
    taken.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}
