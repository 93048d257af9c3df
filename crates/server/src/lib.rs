//! The running server: the order in which its parts start and end.
//!
//! Start: keys, descriptor limit, store, both ports taken, epoch, Erlang node, API, and last the
//! workers, which begin to listen. Each part that fails ends the start with a sentence that says
//! what to do, before a client could have connected, and who connects finds all the rest at work.
//!
//! End: readiness off and the API port closed; API requests in progress are finished; the workers
//! deliver what is posted, end their streams and stop; the store is closed. All within the grace
//! time, and whatever is not done then is cut off.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod api;
mod checked_file;
mod demo_page;
mod epoch;
mod erlang;
mod http;
pub mod keys;
mod log_interval;
mod memory;
mod panics;
mod posting;
mod replies;
mod resumes;
mod shortage;
mod token_door;
pub mod tokens;
mod wake_fd;
mod web;

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use engine::{Engine, EngineConfig};
use graph::Graph;
use graph::GraphOptions;
use proto::request::Hosts;
use tokio::net::TcpSocket;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use crate::api::PublicUrl;
use crate::api::{Api, ApiParts};
pub use crate::demo_page::{DemoFacts, PageToken};
use crate::erlang::Erlang;
pub use crate::erlang::ErlangConfig;
use crate::http::permits::Permits;
use crate::keys::ring::{KeyRing, Known};
use crate::memory::Kept;
pub use crate::panics::end_process_on_panic;
pub use crate::token_door::StreamAccess;
use crate::token_door::open_doors;

/// Threads of the control plane. It shares the cores with the workers, and with one thread no task
/// is ever handed from one to another, which would wake one thread more for it.
const CONTROL_THREADS: usize = 1;

/// Connections to the API that may wait to be accepted; the kernel cuts it to
/// `net.core.somaxconn`.
const API_BACKLOG: u32 = 4096;

/// The part of the grace time that API requests in progress may use.
const API_GRACE_SHARE: f64 = 0.3;

/// What the server must be told at start.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// The data plane, with the public address.
    pub engine: EngineConfig,
    /// The private address.
    pub api: SocketAddr,
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
    /// Our node among Erlang nodes, if it is to be one.
    pub erlang: Option<ErlangConfig>,
    /// The demo whose page the public port shows, if it is one.
    pub demo: Option<DemoFacts>,
}

/// A server at work.
pub struct Server {
    engine: Arc<RwLock<Engine>>,
    graph: Graph,
    listen: SocketAddr,
    api: SocketAddr,
    /// Dropped, it tells everything that would otherwise go on that the server is stopping.
    running: DropGuard,
    api_task: JoinHandle<()>,
    erlang_task: Option<JoinHandle<()>>,
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
        let keys = Arc::new(keys_for(config.api, &config.data)?);
        let stop = CancellationToken::new();
        let running = stop.clone().drop_guard();
        let live_id = api::live_id().context("the system's random source fails")?;
        let doors = open_doors(config.access, config.engine.listen, &config.data, &live_id).await?;
        config.engine.tokens = doors.as_ref().map(|doors| doors.config(config.token_cookie));
        let graph = open_graph(&config.data)?;
        let api_socket = bind(config.api)?;
        let api_address = api_socket.local_addr()?;
        let page = config.demo.as_ref().map(|demo| demo_page::page(demo, api_address.port()));
        config.engine.page = page.map(Arc::new);
        let backlog_bytes_max = config.engine.backlog_bytes_max;
        let trusted = config.engine.trusted.clone();
        config.engine.origins.allow_api(api_address);
        config.engine.guest = config.erlang.is_some();
        let lot = getrandom::u64().map_err(|error| anyhow!("no random numbers: {error}"))?;
        let (epoch, epoch_file) = epoch::begin(&config.data, lot, sys::clock::unix_ms());
        let mut engine = Engine::prepare(config.engine, epoch, Arc::clone(graph.names()))?;
        if !engine.full_workers_leave() {
            tracing::warn!(
                "this kernel does not let a full worker leave new clients to the others \
                 (SO_ATTACH_REUSEPORT_CBPF): some may be answered 503 before all workers are full"
            );
        }
        let listen = engine.address();
        let tokens = doors.map(|doors| doors.staff(engine.token_desk(), &stop)).transpose()?;
        tokio::spawn(replies::listen(Arc::clone(engine.replies())));
        let (router, asked) = (Arc::clone(engine.router()), Arc::clone(engine.resumes()));
        for size in [resumes::Size::Small, resumes::Size::Large] {
            let (router, asked) = (Arc::clone(&router), Arc::clone(&asked));
            tokio::spawn(resumes::answer(router, asked, size, graph.clone()));
        }
        tokio::spawn(resumes::forget(Arc::clone(&router)));
        tokio::spawn(epoch::keep(epoch_file, Arc::clone(router.event_ids()), graph.clone()));
        let (mut erlang, mut erlang_task) = (None, None);
        if let (Some(config), Some(guest)) = (config.erlang, engine.take_guest()) {
            let (graph, stop) = (graph.clone(), stop.clone());
            let node = Erlang::start(config, router, graph, guest, backlog_bytes_max, stop).await?;
            (erlang, erlang_task) = (Some(node.0), Some(node.1));
        }
        let account = Arc::clone(engine.account());
        let engine = Arc::new(RwLock::new(engine));
        tokio::spawn(shortage::warn(Arc::clone(&engine)));
        let permits = Permits::new();
        tokio::spawn(keys::ring::watch(Arc::clone(&keys), stop.clone()));
        let api = Arc::new(Api::new(ApiParts {
            engine: Arc::clone(&engine),
            graph: graph.clone(),
            keys,
            live_id,
            tokens,
            backlog_bytes_max,
            trusted,
            public_url: config.public_url,
            erlang,
            idle_limit: permits.idle_limit(),
            stop: stop.clone(),
        })?);
        tokio::spawn(api::live::run(Arc::clone(&api)));
        tokio::spawn(api::forget_keys(Arc::clone(api.idempotency())));
        tokio::spawn(memory::give_back(Kept {
            names: Arc::clone(graph.names()),
            account,
            idempotency: Arc::clone(api.idempotency()),
        }));
        let listener = api_socket.listen(API_BACKLOG);
        let listener = listener.map_err(|error| listen_error(api_address, &error))?;
        let routes =
            api::routes(api, config.api_hosts, config.demo.as_ref().map(|_| listen.port()));
        let api_task = tokio::spawn(http::listener::run(listener, routes, permits, stop));
        // Signals are for the threads of the control plane.
        sys::signals::blocked(|| engine.write().unwrap_or_else(PoisonError::into_inner).open())??;
        Ok(Server { engine, graph, listen, api: api_address, running, api_task, erlang_task })
    }

    /// Where clients connect.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Where the API is.
    pub fn api(&self) -> SocketAddr {
        self.api
    }

    /// Ends everything within `grace`.
    pub async fn stop(self, grace: Duration) -> Result<()> {
        let Server { engine, graph, running, mut api_task, erlang_task, .. } = self;
        let deadline = Instant::now() + grace;
        drop(running);
        let api_grace = grace.mul_f64(API_GRACE_SHARE);
        if tokio::time::timeout(api_grace, &mut api_task).await.is_err() {
            tracing::warn!("API requests in progress did not end in time and are cut off");
            api_task.abort();
        }
        if let Some(mut task) = erlang_task
            && tokio::time::timeout(api_grace, &mut task).await.is_err()
        {
            tracing::warn!("Erlang nodes did not take what they were sent in time");
            task.abort();
        }
        let blocking = spawn_blocking(move || {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut engine = engine.write().unwrap_or_else(PoisonError::into_inner);
            engine.drain(left.as_millis() as u64);
            drop(engine);
            // The last owner closes the file, unless a request that was cut off still has it; then
            // the process' end does, and what was acknowledged is on disk already.
            drop(graph);
        });
        blocking.await.context("the server did not stop in order")
    }
}

/// Opens the store in `dir`.
pub fn open_graph(dir: &Path) -> Result<Graph> {
    Ok(Graph::open(dir, &GraphOptions::default())?)
}

/// Whether only this machine can reach `address`.
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// The keys of `dir`, without which nobody but this machine may reach the API.
fn keys_for(api: SocketAddr, dir: &Path) -> Result<KeyRing> {
    let keys = KeyRing::open(dir)?;
    if matches!(keys.known(), Known::None) && !is_loopback(api) {
        return Err(anyhow!(
            "no key was made, and others could reach the API at {api}: make one with `encke key \
             new --scope admin --data {}`, or leave --api on 127.0.0.1",
            dir.display()
        ));
    }
    Ok(keys)
}

/// Takes the address; nobody can connect before it listens.
fn bind(address: SocketAddr) -> Result<TcpSocket> {
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // As every server: the port of one that has just ended may be taken at once.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    bind().map_err(|error| listen_error(address, &error))
}

fn listen_error(address: SocketAddr, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::AddrInUse => anyhow!(
            "{address} is in use: stop the program that listens there, or choose another address \
             with --api"
        ),
        _ => anyhow!(
            "cannot listen on {address}: {error}; choose an address of this machine and a port \
             from 1024 on with --api"
        ),
    }
}

#[cfg(test)]
mod tests;
