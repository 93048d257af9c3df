//! The API: the private port, through which applications send events and keep the graph.
//!
//! JSON over HTTP/1.1 and HTTP/2, described by `openapi.json` beside this file. It holds no state
//! of its own but counts: everything is asked of the [router](engine::Router) and of the
//! [graph](graph::Graph). It has no authentication: it belongs on an address that only the
//! application's own hosts can reach.
//!
//! Whatever happens here, connected users keep their streams: these handlers run on the control
//! plane's threads, never on a worker's.

mod assets;
mod body;
mod dashboard;
mod duration;
mod id;
mod lines;
mod lookup;
mod metrics;
mod object;
mod openapi;
mod origin;
mod post;
mod problem;
mod router;
mod send;
mod send_stream;
mod sockets;
mod stats;
mod subscriptions;
mod tune;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use anyhow::Context;
pub use dashboard::PublicUrl;
pub(crate) use dashboard::live;
use engine::{Engine, History, Resumes, Router, Snapshot};
use graph::Graph;
use hub::HistoryStats;
pub(crate) use problem::Problem;
pub(crate) use router::routes;

use self::duration::SendDurations;
use self::sockets::SocketMemoryReader;
use crate::erlang::Erlang;
use crate::stop::Stop;

/// What the handlers share.
pub(crate) struct Api {
    router: Arc<Router>,
    resumes: Arc<Resumes>,
    graph: Graph,
    /// The public port.
    listen: SocketAddr,
    /// Where browsers reach it, when that is another place.
    public_url: Option<PublicUrl>,
    /// The id that the dashboard's figures are sent about.
    live_id: String,
    /// Locked for writing only while it drains.
    engine: Arc<RwLock<Engine>>,
    /// An event must fit into a connection's backlog, or nobody could ever hear it.
    backlog_bytes_max: usize,
    started: Instant,
    /// Events that were accepted. Relaxed: it is only reported.
    events: AtomicU64,
    durations: SendDurations,
    sockets: SocketMemoryReader,
    /// The Erlang side, if there is one.
    erlang: Option<Erlang>,
    stop: Stop,
}

impl Api {
    /// The API of `engine` and `graph`. It refuses new work once `stop` is said.
    pub(crate) fn new(
        engine: Arc<RwLock<Engine>>,
        graph: Graph,
        backlog_bytes_max: usize,
        public_url: Option<PublicUrl>,
        erlang: Option<Erlang>,
        stop: Stop,
    ) -> anyhow::Result<Api> {
        let (router, resumes, listen) = {
            let engine = engine.read().unwrap_or_else(PoisonError::into_inner);
            (Arc::clone(engine.router()), Arc::clone(engine.resumes()), engine.address())
        };
        let live_id = live::id().context("the system's random source fails")?;
        Ok(Api {
            router,
            resumes,
            graph,
            listen,
            public_url,
            live_id,
            engine,
            backlog_bytes_max,
            started: Instant::now(),
            events: AtomicU64::new(0),
            durations: SendDurations::default(),
            sockets: SocketMemoryReader::default(),
            erlang,
            stop,
        })
    }

    /// The workers' counters; a problem while the engine drains.
    fn snapshot(&self) -> Result<Snapshot, Problem> {
        match self.engine.try_read() {
            Ok(engine) => Ok(engine.snapshot()),
            Err(_) => Err(Problem::stopping()),
        }
    }

    /// How much is remembered for clients that come back.
    fn history(&self) -> HistoryStats {
        self.router.history().map_or_else(HistoryStats::default, History::stats)
    }

    fn count_event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }
}
