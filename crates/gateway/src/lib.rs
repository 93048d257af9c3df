//! Encke as a node among Erlang nodes: a connection pool, a router and a subscriptions manager that
//! Erlang processes talk to as they talk to a process.
//!
//! `erlang` speaks the protocol; here its messages become sends, log-ins and subscriptions
//! ([`session`]). Processes that log in are members of audiences as connections are. They are the
//! connections of the engine's guest ([`engine::Guest`]), whose mail is taken here ([`mail`]). It
//! belongs to the control plane: whatever a node does, connected users keep their streams.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod answer;
mod connected_node;
mod control;
mod counts;
mod event_options;
mod gateway;
mod handler;
mod ids;
mod inbox;
mod known;
mod mail;
mod members;
mod names;
mod past;
mod payload;
mod presence;
mod processes;
mod reader;
mod refusal;
mod report;
mod request;
mod rooms;
mod service;
mod session;
mod subscribers;
mod tasks;

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use backon::BackoffBuilder;
use dispatch::posting::Sender;
use dispatch::presence::Presence;
use engine::Guest;
use erlang::{ConnectError, Node, NodeConfig, Peer, RETRIES, Session};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::gateway::{Gateway, Limits};
pub use self::report::Report;
pub use self::rooms::Rooms;

/// How often nodes are asked for our global names.
const NAMES_EVERY: Duration = Duration::from_secs(5);

/// How long nodes may take what they are still sent when an upgrade ends ours.
const END_TIME: Duration = Duration::from_secs(1);

/// How long to wait before a port that is taken is tried again.
const PORT_PAUSE: Duration = Duration::from_millis(50);

/// What the Erlang side must be told at start.
#[derive(Clone, Debug)]
pub struct ErlangConfig {
    /// What our node is called and where it listens.
    pub node: NodeConfig,
    /// Nodes to connect to, and to connect to again.
    pub connect: Vec<String>,
}

/// Encke as a node.
pub struct Erlang {
    gateway: Arc<Gateway>,
}

/// The task of the node, which ends with it.
pub struct ErlangTask {
    /// What serves the node.
    pub task: JoinHandle<()>,
    gateway: Arc<Gateway>,
}

impl Erlang {
    /// Starts the node, and connects to the nodes that the one before it had with the same `data`.
    /// The task that is returned ends when `stop` is cancelled and all nodes have
    /// been told what they were to be told. A port that is taken may become free within `patience`:
    /// that of the process whose work we go on with.
    pub async fn start(
        config: ErlangConfig,
        data: &Path,
        (sender, presence, rooms): (Sender, Arc<Presence>, Rooms),
        guest: Guest,
        backlog_bytes_max: usize,
        patience: Duration,
        stop: &CancellationToken,
    ) -> Result<(Erlang, ErlangTask)> {
        let queue_bytes_max = config.node.queue_bytes_max;
        let limits = Limits { queue_bytes_max, backlog_bytes_max };
        let port = config.node.port;
        let started = begin(&config.node, patience).await;
        let (node, sessions) = started.map_err(|error| listen_error(port, &error))?;
        tracing::info!("Erlang nodes reach {} at {}", node.name(), node.listens());
        // So that it can end before the server does.
        let stop = stop.child_token();
        let gateway = Gateway::new(node, (sender, presence, rooms), guest, limits, stop.clone());
        let gateway = Arc::new(gateway);
        tokio::spawn(mail::run(Arc::clone(&gateway)));
        tokio::spawn(keep_names(Arc::clone(&gateway)));
        for name in &config.connect {
            let connected = keep_connected(Arc::clone(&gateway), name.clone());
            tokio::spawn(stop.clone().run_until_cancelled_owned(connected));
        }
        tokio::spawn(known::keep(Arc::clone(&gateway), data.to_owned(), config.connect));
        let task = tokio::spawn(serve_all(Arc::clone(&gateway), sessions, stop));
        Ok((Erlang { gateway: Arc::clone(&gateway) }, ErlangTask { task, gateway }))
    }

    /// Events that nodes have sent since the start.
    pub fn events(&self) -> u64 {
        self.gateway.counts.events.read()
    }

    /// The figures as they stand.
    pub fn report(&self) -> Report {
        Report::of(&self.gateway)
    }
}

impl ErlangTask {
    /// Ends the node for good, so that another process may take its port and its name: nodes that
    /// are connected are told what they were to be told, and that is the end of the connection, by
    /// which their processes know that they are logged out; they come again.
    ///
    /// To be called once an upgrade cannot fail any more. Before that it would be in vain: what
    /// posts nothing behind the closed barrier disturbs nobody, and a node that was ended for an
    /// upgrade that fails would have thrown its processes out for nothing.
    pub async fn end_for_upgrade(self) {
        let ErlangTask { mut task, gateway } = self;
        gateway.node.give_up().await;
        gateway.stop.cancel();
        if timeout(END_TIME, &mut task).await.is_err() {
            tracing::warn!("Erlang nodes did not take what they were sent in time");
            task.abort();
        }
    }
}

/// Starts the node, and tries again for `patience` while its port is taken.
async fn begin(
    config: &NodeConfig,
    patience: Duration,
) -> io::Result<(Arc<Node>, mpsc::Receiver<Session>)> {
    let end = Instant::now() + patience;
    loop {
        match Node::start(config.clone()).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < end => {
                sleep(PORT_PAUSE).await;
            }
            started => return started,
        }
    }
}

fn listen_error(port: u16, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::AddrInUse if port == 0 => anyhow!(
            "no port is free for the Erlang node: all that the kernel gives out are taken \
             (net.ipv4.ip_local_port_range); name one below them with --erlang-port"
        ),
        ErrorKind::AddrInUse => anyhow!(
            "port {port} of the Erlang node is in use: choose another one with --erlang-port"
        ),
        ErrorKind::NotFound => anyhow!(
            "nobody knows the host of --erlang-node ({error}): write one that others know, or say \
             with --erlang-listen where to listen"
        ),
        _ => anyhow!(
            "cannot listen for Erlang nodes: {error}; the host of --erlang-node, or the address of \
             --erlang-listen, must be one of this machine's"
        ),
    }
}

async fn serve_all(
    gateway: Arc<Gateway>,
    mut sessions: mpsc::Receiver<Session>,
    stop: CancellationToken,
) {
    let mut serving = JoinSet::new();
    loop {
        tokio::select! {
            session = sessions.recv() => match session {
                Some(session) => drop(serving.spawn(session::run(Arc::clone(&gateway), session))),
                None => break,
            },
            // Those that have ended are taken out.
            Some(_) = serving.join_next() => {}
            () = stop.cancelled() => break,
        }
    }
    while serving.join_next().await.is_some() {}
}

async fn keep_names(gateway: Arc<Gateway>) {
    let mut rounds = interval(NAMES_EVERY);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        for peer in gateway.node.peers().iter().filter(|peer| peer.is_published()) {
            names::ask(&gateway, peer);
        }
    }
}

/// Connects to the node `name`, and again whenever that ends.
async fn keep_connected(gateway: Arc<Gateway>, name: String) {
    loop {
        if let Ok(peer) = connect(&gateway, &name, None).await {
            peer.ended().await;
        }
        sleep(RETRIES.build().next().expect("there is always another try")).await;
    }
}

/// Connects to the node `name`, again and again until it is there, or for so long.
async fn connect(
    gateway: &Gateway,
    name: &str,
    patience: Option<Duration>,
) -> Result<Arc<Peer>, ConnectError> {
    let (begun, mut pauses) = (Instant::now(), RETRIES.build());
    loop {
        let error = match gateway.node.connect(name).await {
            Ok(peer) => return Ok(peer),
            Err(error) if patience.is_some_and(|patience| begun.elapsed() >= patience) => {
                return Err(error);
            }
            Err(error) => error,
        };
        if patience.is_none() {
            tracing::warn!("cannot connect to the Erlang node {name}: {error}");
        }
        sleep(pauses.next().expect("there is always another try")).await;
    }
}
