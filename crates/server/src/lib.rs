//! The running server: the order in which its parts start and end.
//!
//! Start: keys, certificates, descriptor limit, store, all ports taken, epoch, Erlang node, API,
//! and last the workers, which begin to listen. Each part that fails ends the start with a sentence
//! that says what to do, before a client could have connected, and who connects finds all the rest
//! at work.
//!
//! End, in [`ending`]: readiness off; a node of a cluster sends its clients to the others; the API
//! port is closed and requests in progress are finished; the workers deliver what is posted, end
//! their streams and stop; the store is closed. All within the grace time, and whatever is not done
//! then is cut off.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod api;
mod certs;
mod checked_file;
mod client_log;
pub mod cluster;
mod demo_page;
mod ending;
mod epoch;
mod erlang;
mod file_stamp;
mod file_watch;
mod http;
pub mod keys;
mod log_interval;
mod memory;
mod outgoing;
mod panics;
mod ports;
mod posting;
mod refused_origins;
mod reload;
mod replies;
mod resumes;
mod shortage;
mod token_door;
pub mod tokens;
mod traces;
mod wake_fd;
mod web;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use engine::{Engine, EngineConfig, TlsConfig};
use graph::Graph;
use graph::GraphOptions;
use proto::request::Hosts;
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::api::{Api, ApiParts};
pub use crate::api::{PublicUrl, graph_stats_json};
use crate::certs::Certificates;
pub use crate::certs::acme::AcmeConfig;
use crate::certs::acme::{Acme, Proof};
pub use crate::certs::{PairFiles, TrustError, client_config, roots};
use crate::cluster::{Cluster, ClusterConfig, Joining, Keeper};
pub use crate::demo_page::{DemoFacts, PageToken};
use crate::erlang::Erlang;
pub use crate::erlang::ErlangConfig;
use crate::http::host::ApiHosts;
use crate::http::listener::Door;
use crate::http::permits::Permits;
use crate::http::tls::{Handshakes, PROTOCOLS, Tls};
use crate::memory::Kept;
pub use crate::panics::end_process_on_panic;
pub use crate::ports::is_loopback;
use crate::ports::{bind, door, keys_for, needs_certificate};
use crate::posting::Sender;
pub use crate::token_door::StreamAccess;
use crate::token_door::open_doors;
use crate::tokens::Verifier;
pub use crate::traces::{CollectorUrl, Sampling, TraceHeaders, TracesConfig};
use crate::traces::{Traces, TracesEnd};

/// Threads of the control plane. It shares the cores with the workers, and with one thread no task
/// is ever handed from one to another, which would wake one thread more for it.
const CONTROL_THREADS: usize = 1;

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
    /// Where traces of sends go, if anywhere.
    pub traces: Option<TracesConfig>,
    /// The demo whose page the public port shows, if it is one.
    pub demo: Option<DemoFacts>,
}

/// A server at work.
pub struct Server {
    engine: Arc<RwLock<Engine>>,
    graph: Graph,
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
    /// Dropped, it tells everything that would otherwise go on that the server is stopping.
    running: DropGuard,
    stop: CancellationToken,
    api_task: JoinHandle<()>,
    erlang_task: Option<JoinHandle<()>>,
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

impl Server {
    /// Opens the store and starts. When this returns, clients can connect.
    pub async fn start(mut config: ServeConfig) -> Result<Server> {
        let api_ports = [(config.api, "--api"), (config.tls_api, "--tls-api")];
        let keys = Arc::new(keys_for(api_ports, &config.data)?);
        let stop = CancellationToken::new();
        let (running, ended) = (stop.clone().drop_guard(), stop.clone());
        let live_id = api::live_id().context("the system's random source fails")?;
        let ports: Vec<SocketAddr> =
            config.engine.listen.into_iter().chain(config.tls_listen).collect();
        let in_cluster = config.cluster.is_some();
        let doors = open_doors(config.access, &ports, &config.data, &live_id, in_cluster).await?;
        config.engine.tokens = doors.as_ref().map(|doors| doors.config(config.token_cookie));
        let acme = config.acme.map(|acme| {
            let (tls, plain) = (config.tls_listen.or(config.tls_api), config.engine.listen);
            let proofs = [(tls, Proof::TlsAlpn), (plain.or(config.api), Proof::Http)];
            let proofs = proofs.into_iter().filter_map(|(port, proof)| port.map(|_| proof));
            Acme::new(acme, config.data.join("acme"), proofs.collect())
        });
        let certificates = Certificates::load(config.certificates, acme)?;
        if let Some(option) = needs_certificate(&config.tls_listen, &config.tls_api)
            && certificates.are_none()
        {
            return Err(anyhow!(
                "{option} needs a certificate: give --tls-cert and --tls-key, each a PEM file, or \
                 --acme-domain"
            ));
        }
        config.engine.tls = config
            .tls_listen
            .map(|listen| TlsConfig { listen, config: certificates.stream_config() });
        let node = config.cluster.as_ref().map(|cluster| cluster.node.as_str());
        let traces = config.traces.map(|config| Traces::start(config, node)).transpose()?;
        let (traces, traces_end) = traces.unzip();
        let age_ms = config.engine.history.age_ms_max;
        if let Some(cluster) = &mut config.cluster {
            cluster.history = Duration::from_millis(age_ms);
        }
        let ledger = config.cluster.as_mut().and_then(|cluster| cluster.ledger.take());
        let keeper = match ledger {
            Some(ledger) => Some(Keeper::open(config.data.clone(), ledger).await?),
            None => None,
        };
        let graph = match &keeper {
            Some(keeper) => keeper.graph(),
            None => open_graph(&config.data)?,
        };
        let api_socket = config.api.map(|api| bind(api, "--api")).transpose()?;
        let tls_socket = config.tls_api.map(|api| bind(api, "--tls-api")).transpose()?;
        let address = |socket: &Option<TcpSocket>| socket.as_ref().map(TcpSocket::local_addr);
        let (api, tls_api) = (address(&api_socket).transpose()?, address(&tls_socket).transpose()?);
        let page =
            config.demo.as_ref().zip(api).map(|(demo, api)| demo_page::page(demo, api.port()));
        config.engine.page = page.map(Arc::new);
        let backlog_bytes_max = config.engine.backlog_bytes_max;
        let trusted = config.engine.trusted.clone();
        api.iter().chain(&tls_api).for_each(|api| config.engine.origins.allow_api(*api));
        let names = certificates.host_names();
        config.engine.origins.add_hosts(&names);
        config.api_hosts.add(&names);
        config.engine.guest = config.erlang.is_some();
        let lot = getrandom::u64().map_err(|error| anyhow!("no random numbers: {error}"))?;
        let (mut epoch, epoch_file) = epoch::begin(&config.data, lot, sys::clock::unix_ms());
        let joining = match config.cluster {
            Some(cluster) => Some(Joining::begin(cluster, epoch.base).await?),
            None => None,
        };
        if let Some(joining) = &joining {
            epoch = joining.epoch();
            config.engine.cluster = true;
        }
        let refused_origins = Arc::clone(&config.engine.refused_origins);
        let mut engine = Engine::prepare(config.engine, epoch, Arc::clone(graph.names()))?;
        if !engine.full_workers_leave() {
            tracing::warn!(
                "this kernel does not let a full worker leave new clients to the others \
                 (SO_ATTACH_REUSEPORT_CBPF): some may be answered 503 before all workers are full"
            );
        }
        let (listen, tls_listen) = (engine.address(), engine.tls_address());
        let tokens = doors.map(|doors| doors.staff(engine.token_desk(), &stop)).transpose()?;
        let verifier = tokens.as_ref().map(|tokens| Arc::clone(tokens.verifier()));
        tokio::spawn(replies::listen(Arc::clone(engine.replies())));
        let (router, asked) = (Arc::clone(engine.router()), Arc::clone(engine.resumes()));
        for size in [resumes::Size::Small, resumes::Size::Large] {
            let (router, asked) = (Arc::clone(&router), Arc::clone(&asked));
            tokio::spawn(resumes::answer(router, asked, size, graph.clone()));
        }
        tokio::spawn(resumes::wait_for_places(Arc::clone(&router), asked));
        tokio::spawn(resumes::forget(Arc::clone(&router)));
        if joining.is_none() {
            // In a cluster the log gives the numbers.
            tokio::spawn(epoch::keep(epoch_file, Arc::clone(router.event_ids()), graph.clone()));
        }
        let cluster = joining.map(|joining| {
            let (router, graph) = (Arc::clone(&router), graph.clone());
            joining.at(listen).start(router, graph, keeper, tokens.clone(), stop.clone())
        });
        let (sending, followers) = (Arc::clone(&router), graph.clone());
        let sender = Sender { router: sending, graph: followers, cluster: cluster.clone() };
        let (mut erlang, mut erlang_task) = (None, None);
        if let (Some(config), Some(guest)) = (config.erlang, engine.take_guest()) {
            let (sender, stop) = (sender.clone(), stop.clone());
            let node = Erlang::start(config, sender, guest, backlog_bytes_max, stop).await?;
            (erlang, erlang_task) = (Some(node.0), Some(node.1));
        }
        tokio::spawn(client_log::tell(Arc::clone(engine.notices())));
        let (account, well_known) = (Arc::clone(engine.account()), engine.well_known());
        let engine = Arc::new(RwLock::new(engine));
        tokio::spawn(shortage::warn(Arc::clone(&engine)));
        tokio::spawn(refused_origins::tell(refused_origins));
        if let Some(cluster) = &cluster {
            tokio::spawn(cluster::count_streams(Arc::clone(&engine), Arc::clone(cluster)));
        }
        let permits = Permits::new();
        tokio::spawn(keys::ring::watch(Arc::clone(&keys), stop.clone()));
        tokio::spawn(certs::watch::run(Arc::clone(&certificates), stop.clone()));
        let acme_routes = certificates.acme().map(|_| {
            certificates.challenges().show_at(well_known);
            tokio::spawn(certs::acme::run(Arc::clone(&certificates), stop.clone()));
            certs::acme::challenges::routes(Arc::clone(certificates.challenges()))
        });
        let handshakes = Arc::<Handshakes>::default();
        let tls = Tls::new(certificates.server_config(&PROTOCOLS), Arc::clone(&handshakes));
        let ports = [(api_socket, None), (tls_socket, Some(tls))].into_iter();
        let ports = ports.filter_map(|(socket, tls)| Some(door(socket?, tls)));
        let ports = ports.collect::<Result<Vec<Door>>>()?;
        let state = Arc::new(Api::new(ApiParts {
            engine: Arc::clone(&engine),
            sender,
            keys,
            live_id,
            tokens,
            certificates: Arc::clone(&certificates),
            handshakes,
            backlog_bytes_max,
            trusted,
            public_url: config.public_url,
            erlang,
            traces,
            idle_limit: permits.idle_limit(),
            stop: stop.clone(),
        })?);
        tokio::spawn(api::live::run(Arc::clone(&state)));
        tokio::spawn(api::forget_keys(Arc::clone(state.idempotency())));
        tokio::spawn(memory::give_back(Kept {
            names: Arc::clone(graph.names()),
            account,
            idempotency: Arc::clone(state.idempotency()),
        }));
        let demo = config.demo.as_ref().map(|_| listen.port());
        let api_hosts = Arc::new(RwLock::new(config.api_hosts));
        let routes = api::routes(state, Arc::clone(&api_hosts), demo);
        let routes = routes.merge(acme_routes.unwrap_or_default());
        let api_task = tokio::spawn(http::listener::run(ports, routes, permits, stop));
        if let Some(cluster) = &cluster {
            cluster.joined().await?;
        }
        // Signals are for the threads of the control plane.
        sys::signals::blocked(|| engine.write().unwrap_or_else(PoisonError::into_inner).open())??;
        Ok(Server {
            engine,
            graph,
            cluster,
            listen,
            tls_listen,
            api,
            tls_api,
            api_hosts,
            certificates,
            verifier,
            running,
            stop: ended,
            api_task,
            erlang_task,
            traces: traces_end,
        })
    }

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

/// Opens the store in `dir`.
pub fn open_graph(dir: &Path) -> Result<Graph> {
    Ok(Graph::open(dir, &GraphOptions::default())?)
}

#[cfg(test)]
mod tests;
