//! The running server: the order in which its parts start and end.
//!
//! Start: keys, certificates, descriptor limit, store, all ports taken, epoch, Erlang node, API,
//! and last the workers, which begin to listen. Each part that fails ends the start with a sentence
//! that says what to do, before a client could have connected, and who connects finds all the rest
//! at work.
//!
//! The end is in [`ending`]. Readiness goes off, a node of a cluster sends its clients to the
//! others, the API port is closed and requests in progress are finished. Then the workers deliver
//! what is posted, end their streams and stop, and the store is closed. All within the grace time,
//! and whatever is not done then is cut off.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod api;
mod certs;
mod client_log;
mod client_sends;
mod demo_page;
mod ending;
mod epoch;
mod handed_out;
mod history_reads;
mod keep;
mod lane;
mod listener;
mod memory;
mod mercure_hub;
mod panics;
mod passing;
mod ports;
mod pusher_apps;
mod refused_origins;
mod reload;
mod replies;
mod resumes;
mod shortage;
mod start;
mod subscription_changes;
mod subscription_list;
mod takeover;
mod token_rates;
mod updates;
mod upgrade;
mod watchlists;
mod web;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use anyhow::{Context, Result};
use auth::tokens::Verifier;
use dispatch::barrier::Barrier;
use dispatch::cluster::{Cluster, ClusterConfig};
use dispatch::pusher_hooks::PusherHooks;
use dispatch::traces::TracesEnd;
use engine::{Engine, EngineConfig};
use gateway::ErlangTask;
use graph::Graph;
use httpd::host::ApiHosts;
use proto::request::Hosts;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use crate::api::{PublicUrl, StreamsConfig, graph_stats_json};
use crate::certs::Certificates;
pub use crate::certs::acme::AcmeConfig;
pub use crate::certs::{PairFiles, TrustError, client_config, roots};
pub use crate::demo_page::{DemoFacts, PageToken};
pub use crate::keep::KeepConfig;
use crate::keep::Keeping;
use crate::mercure_hub::Hub;
pub use crate::mercure_hub::HubConfig;
pub use crate::panics::end_process_on_panic;
use crate::pusher_apps::AppsFile;
pub use crate::pusher_apps::AppsFileError;
pub use crate::start::open_graph;
use crate::upgrade::Upgrades;
pub use crate::upgrade::{Done, Program, SUCCESSOR, Step, Upgrade, UpgradeError, UpgradeProgress};
pub use auth::token_service::StreamAccess;
pub use dispatch::cluster;
pub use dispatch::presence::{PresenceConfig, Webhook, WebhookSecret};
pub use dispatch::traces::{CollectorUrl, Sampling, TraceHeaders, TracesConfig};
pub use dispatch::webhook::{WebhookUrl, WebhookUrlFault};
pub use gateway::ErlangConfig;

/// Threads of the control plane. It shares the cores with the workers, and with one thread no task
/// is ever handed from one to another, which would wake one thread more for it.
const CONTROL_THREADS: usize = 1;

/// How long a server that has ended waits for its threads at a disk. What must be written is
/// written by then; what is left reads files, perhaps from a disk that does not answer.
const DISK_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections to the API that may wait to be accepted; the kernel cuts it to
/// `net.core.somaxconn`.
const API_BACKLOG: u32 = 4096;

/// What the server must be told at start.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// The data plane, with the public address.
    pub engine: EngineConfig,
    /// The public address at which TLS is spoken, if there is one.
    pub tls_listen: Option<SocketAddr>,
    /// The private address, if plain HTTP is spoken on one.
    pub api: Option<SocketAddr>,
    /// The private address at which TLS is spoken, if there is one.
    pub tls_api: Option<SocketAddr>,
    /// What is shown to clients of TLS; the first is for those who name no host of the others.
    pub certificates: Vec<PairFiles>,
    /// How certificates are had beside these, if they are.
    pub acme: Option<AcmeConfig>,
    /// What the API is called.
    pub api_hosts: Hosts,
    /// Who may listen.
    pub access: StreamAccess,
    /// The cookie in which a token may come.
    pub token_cookie: String,
    /// Where browsers reach the public port, when that is another place.
    pub public_url: Option<PublicUrl>,
    /// Where the graph is stored.
    pub data: PathBuf,
    /// The cluster that it is to be a node of, if any.
    pub cluster: Option<ClusterConfig>,
    /// Our node among Erlang nodes, if it is to be one.
    pub erlang: Option<ErlangConfig>,
    /// Who is told of ids that come and go.
    pub presence: PresenceConfig,
    /// Where traces of sends go, if anywhere.
    pub traces: Option<TracesConfig>,
    /// By what streams are kept on disk, if there may be some.
    pub streams: Option<StreamsConfig>,
    /// The file of apps whose clients speak the Pusher protocol, if there are some.
    pub pusher_apps: Option<PathBuf>,
    /// Who may listen and publish by the Mercure protocol, if it is served.
    pub hub: Option<HubConfig>,
    /// Which events stay on disk, if some do.
    pub keep: Option<KeepConfig>,
    /// The demo whose page the public port shows, if it is one.
    pub demo: Option<DemoFacts>,
    /// What it was started as, if it may start a new version of itself.
    pub program: Option<Program>,
}

/// A server at work.
pub struct Server {
    engine: Arc<RwLock<Engine>>,
    graph: Graph,
    /// The log of the events that stay, if some do.
    keeping: Option<Keeping>,
    /// The cluster that it is a node of, if it is one.
    cluster: Option<Arc<Cluster>>,
    listen: SocketAddr,
    tls_listen: Option<SocketAddr>,
    api: Option<SocketAddr>,
    tls_api: Option<SocketAddr>,
    api_hosts: ApiHosts,
    certificates: Arc<Certificates>,
    /// Who knows the keys of tokens, if streams need some.
    verifier: Option<Arc<Verifier>>,
    /// The hub of the Mercure protocol, if it is served.
    hub: Option<Arc<Hub>>,
    /// The apps of the Pusher protocol, if there are some.
    pusher_apps: Option<Arc<AppsFile>>,
    /// What tells their webhooks.
    pusher_hooks: Option<Arc<PusherHooks>>,
    /// Dropped, it tells everything that would otherwise go on that the server is stopping.
    running: DropGuard,
    stop: CancellationToken,
    barrier: Arc<Barrier>,
    /// The whole API.
    routes: axum::Router,
    api_task: JoinHandle<()>,
    /// Who serves what the server before us passes on, if there was one.
    passing_task: Option<JoinHandle<()>>,
    upgrades: Arc<Upgrades>,
    upgrades_task: JoinHandle<()>,
    erlang: Arc<Mutex<Option<ErlangTask>>>,
    /// What sends traces, if a collector is named.
    traces: Option<TracesEnd>,
}

/// The runtime of the control plane.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(CONTROL_THREADS)
        .thread_name("control")
        .enable_all()
        .build()
        .context("cannot start the threads of the API; check the limit on threads (ulimit -u)")
}

/// Does `work`, a server from its start to its end, on such a runtime. What still reads then from a
/// disk that does not answer does not hold up the end.
pub fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = runtime()?;
    let done = runtime.block_on(work);
    runtime.shutdown_timeout(DISK_TIMEOUT);
    done
}

impl Server {
    /// Where clients connect: by TLS, where they do not otherwise.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Where they connect by TLS, if they do.
    pub fn tls_listen(&self) -> Option<SocketAddr> {
        self.tls_listen
    }

    /// Where the API is by plain HTTP, if it is.
    pub fn api(&self) -> Option<SocketAddr> {
        self.api
    }

    /// Where it is by TLS, if it is.
    pub fn tls_api(&self) -> Option<SocketAddr> {
        self.tls_api
    }

    /// Waits until the server has come to an end by itself: its cluster goes on without it.
    pub async fn ended(&self) {
        self.stop.cancelled().await;
    }
}

#[cfg(test)]
mod tests;
