//! Encke as a node among Erlang nodes: a connection pool, a router and a subscriptions manager that
//! Erlang processes talk to as they talk to a process.
//!
//! `erlang` speaks the protocol; here its messages become sends, log-ins and subscriptions
//! ([`session`]). Processes that log in are members of audiences as connections are: they are the
//! connections of the engine's guest ([`engine::Guest`]), whose mail is taken here ([`mail`]).
//! It belongs to the control plane: whatever a node does, connected users keep their streams.

mod answer;
mod connected_node;
mod control;
mod counts;
mod gateway;
mod handler;
mod ids;
mod inbox;
mod mail;
mod names;
mod payload;
mod processes;
mod reader;
mod refusal;
mod report;
mod request;
mod session;
mod tasks;

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use backon::BackoffBuilder;
use engine::Guest;
use erlang::{Node, NodeConfig, RETRIES, Session};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use self::gateway::{Gateway, Limits};
pub(crate) use self::report::Report;
use crate::posting::Sender;

/// How often nodes are asked for our global names.
const NAMES_EVERY: Duration = Duration::from_secs(5);

/// What the Erlang side must be told at start.
#[derive(Clone, Debug)]
pub struct ErlangConfig {
    /// What our node is called and where it listens.
    pub node: NodeConfig,
    /// Nodes to connect to, and to connect to again.
    pub connect: Vec<String>,
}

/// Encke as a node.
pub(crate) struct Erlang {
    gateway: Arc<Gateway>,
}

impl Erlang {
    /// Starts the node. The task that is returned ends when `stop` is cancelled and all nodes have
    /// been told what they were to be told.
    pub(crate) async fn start(
        config: ErlangConfig,
        sender: Sender,
        guest: Guest,
        backlog_bytes_max: usize,
        stop: CancellationToken,
    ) -> Result<(Erlang, JoinHandle<()>)> {
        let queue_bytes_max = config.node.queue_bytes_max;
        let limits = Limits { queue_bytes_max, backlog_bytes_max };
        let port = config.node.port;
        let started = Node::start(config.node).await;
        let (node, sessions) = started.map_err(|error| listen_error(port, &error))?;
        let gateway = Gateway::new(node, sender, guest, limits, stop.clone());
        let gateway = Arc::new(gateway);
        tokio::spawn(mail::run(Arc::clone(&gateway)));
        tokio::spawn(keep_names(Arc::clone(&gateway)));
        for name in config.connect {
            tokio::spawn(keep_connected(Arc::clone(&gateway), name));
        }
        let task = tokio::spawn(serve_all(Arc::clone(&gateway), sessions, stop));
        Ok((Erlang { gateway }, task))
    }

    /// The figures as they stand.
    pub(crate) fn report(&self) -> Report {
        Report::of(&self.gateway)
    }
}

fn listen_error(port: u16, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::AddrInUse => anyhow!(
            "port {port} of the Erlang node is in use: choose another one with --erlang-port"
        ),
        _ => anyhow!(
            "cannot listen for Erlang nodes: {error}; the host of --erlang-node must be one of \
             this machine's"
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
    let mut pauses = RETRIES.build();
    loop {
        match gateway.node.connect(&name).await {
            Ok(peer) => {
                pauses = RETRIES.build();
                peer.ended().await;
            }
            Err(error) => tracing::warn!("cannot connect to the Erlang node {name}: {error}"),
        }
        sleep(pauses.next().expect("there is always another try")).await;
    }
}
