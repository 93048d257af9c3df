//! The node loop: the task that tells the node what happens, and does what it asks for.

mod actions;
mod epochs;
mod reading;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use cluster::{Config, GraphPlace, Known, LogMark, Node, NotTaken, Once, Ticket};
use engine::Router;
use graph::replica::LogPlace;
use hub::Tag;
use nats::NatsClient;
use sys::clock;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::admitting::Admitting;
use super::agreement::Agreed;
use super::following::Following;
use super::graph_changes::Obeyed;
use super::kept_log::KeptLog;
use super::log_applier::{self, Counted, Posting, Work};
use super::loop_ends::LoopEnds;
use super::messages::Messages;
use super::replica_sync::{Kept, ReplicaSync, Task};
use super::status::{Membership, NodeStatus};
use super::tasks::Happened;
use super::traced::Traced;
use super::{Command, Joining, Reply, RoomsOut, log_event};
use crate::idempotency::IdempotencyKeys;
use crate::log_interval::LogInterval;
use crate::outcome::LogTrouble;
use crate::send_options::SendOptions;

/// Commands and counts that are taken before the node's actions are.
const BATCH: usize = 256;

/// The least time between two looks at the clock for its own sake.
const TICK_MIN: Duration = Duration::from_millis(1);

/// How long to wait before an epoch is proposed again in the place of one that was put back.
const PROPOSE_AGAIN: Duration = Duration::from_secs(1);

/// Who waits for what it sent.
pub(super) struct WaitingSender {
    reply: Reply,
    /// It is answered when it is on disk here.
    durable: bool,
    /// By what the event is known where it is posted once.
    once: Option<Once>,
}

/// What is between the node loop and the task that keeps the replica of the graph up to date.
pub(super) struct ReplicaLink {
    place: GraphPlace,
    /// Up to where the process before this one had read the log.
    was_at: LogMark,
    tasks: mpsc::Sender<Task>,
    told: mpsc::Receiver<Kept>,
    /// Up to where the replica has what the log says, to be kept with it.
    marks: watch::Sender<Option<LogMark>>,
    /// What all later sends obey.
    obey: watch::Sender<Obeyed>,
}

impl ReplicaLink {
    /// Spawns the task that keeps the replica up to date.
    pub(super) fn start(
        replica_sync: ReplicaSync,
        LogPlace { epoch, sequence, record: hash }: LogPlace,
        obey: watch::Sender<Obeyed>,
    ) -> ReplicaLink {
        let place = replica_sync.place();
        let was_at = LogMark { epoch, sequence, hash };
        let (tasks, asked) = mpsc::channel(BATCH);
        let (tell, told) = mpsc::channel(BATCH);
        let (marks, kept) = watch::channel(None);
        tokio::spawn(replica_sync.run(asked, tell, kept));
        ReplicaLink { place, was_at, tasks, told, marks, obey }
    }
}

/// The node and all that it needs.
pub(super) struct NodeLoop {
    node: Node,
    nats: NatsClient,
    agreed: Agreed,
    /// By which places of the epoch before are known: what it took is still answered.
    tag_before: Tag,
    /// NATS has an earlier epoch than we, or another one of our number: it lost what was agreed on.
    put_back: bool,
    router: Arc<Router>,
    /// Which events the log has brought first.
    keys: Arc<IdempotencyKeys>,
    commands: mpsc::Receiver<Command>,
    /// What the node asked to be posted, and the log applier had no room for.
    work: VecDeque<Work>,
    log_applier: mpsc::Sender<Work>,
    counted: mpsc::Receiver<Counted>,
    messages: Messages,
    tasks: JoinSet<Happened>,
    /// Where the node wants to read: the epoch, and from where on.
    wanted: Option<(u64, Option<u64>)>,
    /// The epoch whose log a task is opening.
    opening: Option<u64>,
    following: Option<Following>,
    /// When records were taken by the log, of those that are not posted: only until the node is a
    /// member.
    times: VecDeque<(u64, u64)>,
    replies: HashMap<Ticket, WaitingSender>,
    traced: Traced,
    replica: Option<ReplicaLink>,
    /// Where the log must be read from for the graph's sake, at a start.
    graph_at: u64,
    /// What this node keeps on disk, where it does.
    kept_log: Option<Arc<dyn KeptLog>>,
    admitting: Admitting,
    rooms: RoomsOut,
    /// See [`ClusterConfig::reads_back`](super::ClusterConfig).
    reads_back: Duration,
    status: NodeStatus,
    tell: watch::Sender<NodeStatus>,
    stop: CancellationToken,
    leaving: bool,
    /// When to tell of records that cannot be read.
    unreadable: LogInterval,
    newer: LogInterval,
    ended: bool,
}

impl NodeLoop {
    pub(super) fn new(
        joining: Joining,
        posting: Posting,
        (replica, known): (Option<ReplicaLink>, Known),
        LoopEnds { commands, tell, rooms }: LoopEnds,
        stop: CancellationToken,
    ) -> NodeLoop {
        let Joining { config, address, nats, agreed, kept: kept_log, .. } = joining;
        let (router, tokens) = (Arc::clone(&posting.router), posting.tokens.clone());
        let keys = Arc::clone(&posting.keys);
        let (nonce, proves, reads_back) = (clock::unix_ns(), tokens.is_some(), config.reads_back());
        let node = Config { name: config.node, address, nonce, proves };
        let place = replica.as_ref().map_or_else(GraphPlace::default, |replica| replica.place);
        let epoch = agreed.epoch();
        let graph_at = match known {
            Known::Read { epoch: of, sequence } if of == epoch.number => sequence + 1,
            // That record is compared.
            Known::Since(mark) if mark.epoch == epoch.number => mark.sequence,
            Known::Read { .. } | Known::Since(_) | Known::Nothing => u64::MAX,
        };
        // Without a store of record nothing is ever lacking.
        let known = match &replica {
            Some(_) => known,
            None => Known::Read { epoch: epoch.number, sequence: u64::MAX },
        };
        let mut node = Node::new(clock::monotonic_ms(), node, epoch, place, known);
        let was_at = replica.as_ref().map(|replica| replica.was_at).unwrap_or_default();
        node.was_at(was_at);
        // That record is compared, too.
        let compared = was_at.epoch == epoch.number && was_at.sequence > 0;
        let graph_at = if compared { graph_at.min(was_at.sequence) } else { graph_at };
        let (log_applier, work) = mpsc::channel(cluster::limits::WINDOW);
        let (counts, counted) = mpsc::channel(4 * cluster::limits::WINDOW);
        tokio::spawn(log_applier::run(posting, work, counts));
        NodeLoop {
            node,
            messages: Messages::new(&nats),
            nats,
            tag_before: agreed.tag(),
            agreed,
            put_back: false,
            router,
            keys,
            commands,
            work: VecDeque::new(),
            log_applier,
            counted,
            tasks: JoinSet::new(),
            wanted: None,
            opening: None,
            following: None,
            times: VecDeque::new(),
            replies: HashMap::new(),
            traced: Traced::default(),
            replica,
            graph_at,
            kept_log,
            admitting: Admitting::new(tokens),
            rooms,
            reads_back,
            status: NodeStatus::default(),
            tell,
            stop,
            leaving: false,
            unreadable: LogInterval::default(),
            newer: LogInterval::default(),
            ended: false,
        }
    }

    /// Runs until the node is at its end.
    pub(super) async fn run(mut self) {
        let mut epochs = match self.nats.watch_epoch().await {
            Ok(epochs) => epochs,
            Err(error) => {
                tracing::error!(%error, "the cluster's epoch cannot be watched");
                return self.stop.cancel();
            }
        };
        let (mut commands, mut counts) = (Vec::new(), Vec::new());
        let log_applier = self.log_applier.clone();
        loop {
            let now = clock::monotonic_ms();
            if self.node.next_deadline() <= now {
                self.node.tick(now);
            }
            self.act();
            self.report();
            if self.ended {
                // Nothing is due any more: nobody would wake it.
                break;
            }
            let left = Duration::from_millis(self.node.next_deadline().saturating_sub(now));
            let takes_commands = self.work.is_empty();
            // Each has its turn, whoever has the most to say.
            tokio::select! {
                taken = self.counted.recv_many(&mut counts, BATCH) => {
                    if taken == 0 {
                        break;
                    }
                    self.count(&mut counts);
                }
                permit = log_applier.reserve(), if !self.work.is_empty() => match permit {
                    Ok(permit) => permit.send(self.work.pop_front().expect("there is some")),
                    Err(_) => break,
                },
                kept = kept(&mut self.replica) => match kept {
                    Some(kept) => self.kept(kept),
                    None => break,
                },
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => match done {
                    Ok(happened) => self.happened(happened),
                    Err(error) => tracing::error!(%error, "a task of the cluster's node failed"),
                },
                () = self.rooms.hand_on(), if self.rooms.is_waiting() => {}
                () = more(&mut self.following), if self.wants_records() => self.read(),
                Some(bytes) = self.messages.incoming.recv() => {
                    self.node.core_message(clock::monotonic_ms(), &bytes);
                }
                Ok(()) = epochs.changed() => {
                    let entry = epochs.borrow_and_update().clone();
                    self.epoch(entry);
                }
                taken = self.commands.recv_many(&mut commands, BATCH), if takes_commands => {
                    if taken == 0 {
                        break;
                    }
                    commands.drain(..).for_each(|command| self.command(command));
                }
                () = sleep(left.max(TICK_MIN)) => {}
            }
        }
        self.admitting.forget();
        self.status.membership = Membership::Gone;
        self.report();
    }

    fn command(&mut self, command: Command) {
        let now = clock::monotonic_ms();
        let mut traced = None;
        let (taken, reply) = match command {
            Command::Send(outgoing, SendOptions { once, marks, .. }, reply) => {
                traced = marks;
                let durable = outgoing.durable
                    || self.router.is_always_durable() && self.router.keeps(&outgoing.draft);
                let taken = self.node.submit(now, log_event::to_log(outgoing, once));
                (taken, WaitingSender { reply, durable, once })
            }
            Command::Order(order, reply) => {
                let sender = WaitingSender { reply, durable: false, once: None };
                (self.node.submit_order(now, order), sender)
            }
            Command::Rooms(me, notes) => return self.node.submit_rooms(now, me, notes),
            Command::Leave => {
                self.leaving = true;
                return self.node.leave(now);
            }
        };
        match taken {
            Ok(ticket) => {
                self.traced.begin(ticket, traced);
                self.replies.insert(ticket, reply);
            }
            Err(why) => drop(reply.reply.send(Err(match why {
                NotTaken::Full => LogTrouble::Full,
                NotTaken::TooLarge => LogTrouble::TooLarge,
                NotTaken::Leaving => LogTrouble::Away,
            }))),
        }
    }

    pub(super) fn wants_records(&self) -> bool {
        self.node.wants_records() && self.rooms.has_room()
    }

    fn report(&mut self) {
        self.status.epoch = self.agreed.epoch().number;
        self.status.node = self.node.status();
        if let (Some(replica), Some(mark)) = (&self.replica, self.node.mark()) {
            // Whoever keeps it looks for himself, once a second.
            replica.marks.send_replace(Some(mark));
        }
        self.status.knows_revoked = self.admitting.admit(self.status.node.proved_ms);
        if *self.tell.borrow() != self.status {
            self.tell.send_replace(self.status.clone());
        }
    }
}

/// What is told of the replica next; for ever silent where there is none.
async fn kept(replica: &mut Option<ReplicaLink>) -> Option<Kept> {
    match replica {
        Some(replica) => replica.told.recv().await,
        None => std::future::pending().await,
    }
}

/// Waits for more of the log; for ever while none is read.
async fn more(following: &mut Option<Following>) {
    match following {
        Some(following) => following.more().await,
        None => std::future::pending().await,
    }
}
