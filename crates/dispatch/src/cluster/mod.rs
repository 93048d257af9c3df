//! This server as a node of a cluster: what it sends goes through one log that all nodes follow.
//!
//! [`cluster::Node`] decides, and does no IO. One task ([`node_loop`]) tells it what happens and
//! does what it asks for. It reads and writes the log, passes on messages between nodes, and
//! answers those who send. A second one ([`log_applier`]) gathers the audiences of what the log
//! brings and hands it to the workers in the log's order. Both run on the control plane; the
//! workers know nothing of it.
//!
//! Cost of an event at a node that it does not concern: reading it, one look into the graph and 16
//! into the directory, and its place in the history.

mod admitting;
mod agreement;
mod api_keys;
mod build;
mod changed_channels;
mod channels;
mod chores;
mod compare;
mod config;
mod following;
mod graph_changes;
mod hook_messages;
mod joining;
mod kept_log;
mod keys;
mod log_applier;
mod log_event;
mod log_update;
mod loop_ends;
mod messages;
mod node_loop;
mod outside;
mod pending;
mod questions;
mod replica_sync;
mod revocations;
mod rooms;
mod starting;
mod status;
mod tasks;
mod traced;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, anyhow};
use auth::token_service::TokenService;
use auth::tokens::Revocation;
use cluster::{FORMAT, FORMAT_ONCE, Order, RoomNote};
use engine::Outgoing;
use nats::{Counts, State};
pub use nats::{Credentials, NatsConfig, Url};
pub use postgres::PostgresConfig;
use sys::clock;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

pub(crate) use self::changed_channels::{ChangedChannels, MembersSeen};
pub use self::chores::count_streams;
pub use self::config::ClusterConfig;
use self::graph_changes::GraphChanges;
pub use self::graph_changes::GraphTrouble;
pub(crate) use self::hook_messages::{
    HookMessages, HooksAsked, HooksEnded, HooksKept, HooksTaken, KeptChange,
};
pub use self::joining::Joining;
pub use self::kept_log::KeptLog;
use self::keys::Reading;
pub use self::pending::Pending;
pub use self::questions::NodeReport;
pub use self::replica_sync::{Checks, ReplicaSync};
pub use self::revocations::RevokeTrouble;
pub use self::rooms::{NoList, RoomsLink};
pub(crate) use self::rooms::{RoomAsk, RoomFormat, RoomsSay};
use self::rooms::{RoomsEnd, RoomsOut};
use self::status::Standing;
pub use self::status::{Membership, NodeStatus};
use crate::channels::{ChannelsAsked, ChannelsFound, WhichChannels};
use crate::outcome::{Delivered, LogTrouble, MAILBOX_TIMEOUT};
use crate::send_options::SendOptions;

/// What senders have handed over and the node loop has not taken yet. More of them wait with their
/// requests.
const COMMANDS_WAITING_MAX: usize = 1024;

/// How long a node may take until it has read the log and is a member: an election of NATS takes up
/// to nine seconds, reading ten minutes of a busy log some more.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// What the node loop is asked for.
#[derive(Debug)]
enum Command {
    Send(Outgoing, SendOptions, Reply),
    Order(Order, Reply),
    Rooms(u64, Vec<RoomNote>),
    Leave,
}

type Reply = oneshot::Sender<Result<Delivered, LogTrouble>>;

/// The way to the other nodes.
#[derive(Debug)]
pub struct Cluster {
    commands: mpsc::Sender<Command>,
    status: watch::Receiver<NodeStatus>,
    standing: Standing,
    /// One question at a time whose answers may be long.
    long_questions: Semaphore,
    /// The way to change the graph, if it does not stand still.
    graph: Option<Arc<GraphChanges>>,
    /// See [`ClusterConfig::drain`].
    drain: Option<Duration>,
    reading: Reading,
    /// The way to lists of rooms, where this node tells them.
    rooms: Option<RoomsEnd>,
}

impl Cluster {
    /// Waits until the node is a member for the first time: from then on it may have clients.
    pub async fn joined(&self) -> Result<()> {
        let mut status = self.status.clone();
        loop {
            let joined = status.wait_for(|status| {
                status.membership != Membership::Joining && status.knows_revoked
            });
            match tokio::time::timeout(JOIN_TIMEOUT, joined).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(_)) => return Err(anyhow!("the cluster's node has ended")),
                Err(_) => {}
            }
            let obstacle = self.standing.obstacle(&self.status.borrow());
            if !self.standing.waits_for_graph(&self.status.borrow()) {
                return Err(anyhow!(
                    "this node has not become a member of the cluster within {} s: {obstacle}",
                    JOIN_TIMEOUT.as_secs(),
                ));
            }
            // PostgreSQL may be away for as long as it likes.
            tracing::warn!("this node has not become a member of the cluster: {obstacle}");
        }
    }

    /// What came of the checks of the graph, if it has a store of record.
    pub fn checks(&self) -> Option<Checks> {
        self.standing.graph.as_ref().map(|graph| graph.checks.borrow().clone())
    }

    /// What is known of the node now.
    pub fn status(&self) -> NodeStatus {
        self.status.borrow().clone()
    }

    /// The connection to the log, and what was counted of it.
    pub fn nats(&self) -> (State, Counts) {
        (self.standing.nats.state(), self.standing.nats.counts())
    }

    /// What the cluster is called.
    pub fn name(&self) -> &str {
        &self.standing.cluster
    }

    /// What this node is called.
    pub fn node(&self) -> &str {
        &self.standing.node
    }

    /// What keeps the node from its work, if anything does.
    pub fn obstacle(&self) -> Option<String> {
        let status = self.status.borrow();
        (status.membership != Membership::Member || !self.standing.is_connected())
            .then(|| self.standing.obstacle(&status))
    }

    /// Sends an event to all nodes. Waits while too much waits for the log.
    pub async fn send(
        &self,
        outgoing: Outgoing,
        mut options: SendOptions,
    ) -> Result<Pending, LogTrouble> {
        let Standing { nats, .. } = &self.standing;
        let needed = match (log_event::format_of(&outgoing), options.needs_once) {
            (format, true) => format.max(FORMAT_ONCE),
            (format, false) => format,
        };
        if options.once.is_some() || needed > FORMAT {
            let format = self.reading.format(nats, &self.status).await;
            if needed > FORMAT && format.is_none_or(|format| format < needed) {
                return Err(if format.is_some() { LogTrouble::Older } else { LogTrouble::NotSaid });
            }
            if format.is_none_or(|format| format < FORMAT_ONCE) {
                options.once = None;
            }
        }
        let bytes = outgoing.draft.json().len();
        self.ask(bytes, |reply| Command::Send(outgoing, options, reply)).await
    }

    /// Ends the connections of `id` on all nodes.
    pub async fn logout(&self, id: String) -> Result<Pending, LogTrouble> {
        self.ask(id.len(), |reply| Command::Order(Order::Logout(id.clone()), reply)).await
    }

    /// Refuses tokens on all nodes, and ends their streams there. Answered when all obey, or can
    /// let nobody in until they do.
    pub async fn revoke(
        &self,
        tokens: &TokenService,
        wish: &Revocation,
    ) -> Result<(), RevokeTrouble> {
        let line = tokens.revocations().line(wish, clock::unix_ms() / 1000)?;
        revocations::remember(&self.standing.nats, tokens, &line).await?;
        let order = Order::Revoke(revocations::to_log(&line));
        let pending = self.ask(0, |reply| Command::Order(order, reply)).await?;
        let Delivered { at_least, .. } = pending.answer().await?;
        // Who has left lately may not know it yet.
        let left_ms = self.status.borrow().node.left_ms;
        let since_ms = if at_least { clock::monotonic_ms() } else { left_ms };
        revocations::outlive_leases(since_ms).await;
        Ok(())
    }

    /// Adds or removes pairs of the graph; answers how many were new, or were there, once every
    /// later send on any node obeys.
    pub async fn change(&self, add: bool, pairs: Vec<graph::Pair>) -> Result<u64, GraphTrouble> {
        let Some(graph) = &self.graph else { return Err(GraphTrouble::StandsStill) };
        graph.wait_for_log(|| self.standing.is_connected()).await?;
        graph.change(add, pairs).await
    }

    /// How many connections are logged in under `id` on all nodes, and whether a node has not said.
    pub async fn connections(&self, id: &str) -> (u64, bool) {
        let members = self.members_to_hear();
        match questions::connections(&self.standing.nats, id, members).await {
            Some((connections, answers)) if answers > 0 => (connections, answers < members),
            _ => (self.standing.connections_here(id), true),
        }
    }

    /// Who hears channels on all nodes.
    pub async fn channels(&self, asked: ChannelsAsked) -> ChannelsFound {
        let _turn = match asked.which {
            WhichChannels::Named { .. } => self.long_questions.acquire().await.ok(),
            WhichChannels::Keys(_) | WhichChannels::App(_) => None,
        };
        let members = self.members_to_hear();
        if let Some(found) = channels::ask(&self.standing.nats, &asked, members).await {
            return found;
        }
        let here = self.standing.channels.found(asked).await;
        ChannelsFound { at_least: true, ..here }
    }

    /// What the nodes say of themselves, as many as answer, how many members there are as far as
    /// this one knows, and whether a node has not said.
    pub async fn nodes(&self) -> (Vec<NodeReport>, usize, bool) {
        let (members, enough) = (self.status.borrow().node.members, self.members_to_hear());
        let nodes = questions::nodes(&self.standing.nats, enough).await.unwrap_or_default();
        let at_least = nodes.len() < enough;
        (nodes, members, at_least)
    }

    /// Whether others serve clients, too, or may do so.
    pub(crate) fn has_others(&self) -> bool {
        self.members_to_hear() > 1
    }

    /// How many have to answer: more than there can be where that is not certain, so that a count
    /// is a lower bound there.
    fn members_to_hear(&self) -> usize {
        self.certain_members().unwrap_or(usize::MAX)
    }

    fn certain_members(&self) -> Option<usize> {
        self.status.borrow().certain_members(clock::monotonic_ms())
    }

    /// So many connections are open at this node's workers.
    pub fn set_streams(&self, open: u64) {
        self.standing.load.streams.store(open, Ordering::Relaxed);
    }

    /// From now on the node is not ready: it is going to end. Answers how many others go on: those
    /// do not who have said that they end, too.
    pub async fn begin_to_end(&self) -> usize {
        self.standing.load.ending.store(true, Ordering::Relaxed);
        let membership = self.status.borrow().membership;
        let is_none = matches!(membership, Membership::Joining | Membership::Gone);
        if is_none || !self.has_others() {
            return 0;
        }
        let nats = &self.standing.nats;
        questions::others_that_go_on(nats, self.node(), self.certain_members()).await
    }

    /// Whether it is going to end.
    pub fn is_ending(&self) -> bool {
        self.standing.load.ending.load(Ordering::Relaxed)
    }

    /// Over how long clients are to be sent away, if that was said.
    pub fn drain(&self) -> Option<Duration> {
        self.drain
    }

    /// Leaves the cluster, so that the others go on without this node at once. What it has taken is
    /// sent first; resolves when it is no member any more.
    pub async fn leave(&self) {
        if self.commands.send(Command::Leave).await.is_ok() {
            let mut status = self.status.clone();
            // The node loop's end is as good.
            let _ = status.wait_for(|status| status.membership == Membership::Gone).await;
        }
    }

    async fn ask(
        &self,
        bytes: usize,
        command: impl FnOnce(Reply) -> Command,
    ) -> Result<Pending, LogTrouble> {
        let (reply, answer) = oneshot::channel();
        let waiting = self.commands.reserve();
        let place = tokio::time::timeout(MAILBOX_TIMEOUT, waiting).await;
        let place = place.map_err(|_| LogTrouble::Full)?.map_err(|_| LogTrouble::Away)?;
        place.send(command(reply));
        Ok(Pending::new(answer, bytes))
    }
}
