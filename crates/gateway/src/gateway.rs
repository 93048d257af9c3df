//! Between Erlang nodes and the engine: which nodes are connected and which of their processes are
//! logged in, how one logs in and out, and how an event is sent.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dispatch::barrier::WritePermit;
use dispatch::posting::{Delivery, FRAME_BYTES, Sender};
use dispatch::presence::Presence;
use dispatch::send_options::SendOptions;
use engine::{Guest, Outgoing};
use erlang::{Node, OwnPid, Peer};
use hub::{Draft, EventError, EventParts, IdText, Payload};
use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::connected_node::{ConnectedNode, Words};
use super::counts::Counts;
use super::event_options::EventOptions;
use super::payload;
use super::processes::{Process, ProcessRef, Processes};
use super::refusal::Refusal;
use super::rooms::Rooms;
use super::service::Service;
use super::subscribers::Subscribers;

/// Requests that take their time (the store, a connection to be made) at one time, of all nodes.
const TASKS_MAX: usize = 1024;

/// Bytes of a payload's term for each that its JSON may have.
const PAYLOAD_PER_BACKLOG: usize = 4;

/// What stands around a payload in a message, and more than that.
const MESSAGE_HEAD_BYTES: usize = 16 * 1024;

/// How long a connected node may take to be talked to.
const CONNECTED_TIMEOUT: Duration = Duration::from_secs(1);

/// What the sessions with all nodes share.
pub(super) struct Gateway {
    pub(super) node: Arc<Node>,
    pub(super) sender: Sender,
    /// Who tells of ids that come and go, and the processes that hear it.
    pub(super) presence: Arc<Presence>,
    /// Who is in a room.
    pub(super) rooms: Rooms,
    pub(super) subscribers: Subscribers,
    pub(super) guest: Guest,
    /// Whose turn it is to hand out the guest's mail.
    pub(super) mail_turn: tokio::sync::Mutex<()>,
    pub(super) counts: Counts,
    pub(super) tasks: Arc<Semaphore>,
    /// For a change of subscriptions that is longer than a node's queue.
    pub(super) large_changes: Arc<Semaphore>,
    pub(super) queue_bytes_max: usize,
    pub(super) stop: CancellationToken,
    backlog_bytes_max: usize,
    registry: Mutex<Registry>,
    connections: Notify,
}

/// Which nodes are connected, and which processes are logged in.
#[derive(Default)]
pub(super) struct Registry {
    pub(super) processes: Processes,
    /// Connected nodes by the number of their connection.
    pub(super) nodes: HashMap<u32, Arc<ConnectedNode>>,
}

/// An event as its sender names it, and what it is made of. The buffers are used again and again.
#[derive(Default)]
pub(super) struct Buffers {
    pub(super) about: String,
    pub(super) data: String,
}

impl Gateway {
    pub(super) fn new(
        node: Arc<Node>,
        (sender, presence, rooms): (Sender, Arc<Presence>, Rooms),
        guest: Guest,
        limits: Limits,
        stop: CancellationToken,
    ) -> Gateway {
        Gateway {
            node,
            sender,
            presence,
            rooms,
            subscribers: Subscribers::default(),
            guest,
            mail_turn: tokio::sync::Mutex::default(),
            counts: Counts::default(),
            tasks: Arc::new(Semaphore::new(TASKS_MAX)),
            large_changes: Arc::new(Semaphore::new(1)),
            queue_bytes_max: limits.queue_bytes_max,
            backlog_bytes_max: limits.backlog_bytes_max,
            stop,
            registry: Mutex::default(),
            connections: Notify::new(),
        }
    }

    /// The longest term that is read as a payload. Text as a list of characters has at most five
    /// bytes for a character that is one byte of JSON or more; what is longer by far holds nothing
    /// that is worth to be kept beside its JSON.
    pub(super) fn payload_bytes_max(&self) -> usize {
        PAYLOAD_PER_BACKLOG * self.backlog_bytes_max
    }

    /// The longest message that is handled at once; longer ones, which can only change
    /// subscriptions, are read on a thread of their own.
    pub(super) fn message_bytes_max(&self) -> usize {
        self.payload_bytes_max() + MESSAGE_HEAD_BYTES
    }

    /// The pid of `service`.
    pub(super) fn pid(&self, service: Service) -> OwnPid<'_> {
        self.node.pid(service.number())
    }

    /// Nodes and processes. Held for one change or one slice.
    pub(super) fn registry(&self) -> MutexGuard<'_, Registry> {
        // A change is whole, or what is left of it is a slot that is never used again.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the event that `about` and `data` make to the audience of its subject, or to the
    /// connections of the id `alone`.
    pub(super) async fn send(
        &self,
        buffers: &Buffers,
        payload: erlang::Term<'_>,
        options: EventOptions,
        alone: bool,
    ) -> Result<Delivery, Refusal> {
        let Buffers { about, data } = buffers;
        if about.len() + data.len() + options.len() + FRAME_BYTES > self.backlog_bytes_max {
            return Err(Refusal::TooLarge);
        }
        let also: Vec<&str> = options.also.iter().map(String::as_str).collect();
        let draft = Draft::of(EventParts {
            about,
            also: &also,
            name: options.name.as_deref(),
            from: None,
            payload: Payload::Json(data),
        })
        .map_err(|error| match error {
            EventError::Id(_) => Refusal::BadId,
            EventError::Subjects(_) | EventError::Name(_) | EventError::SubjectBytes => {
                Refusal::BadRequest
            }
        })?;
        let term = Some(payload::message(payload));
        let permit = self.enter().await?;
        let outgoing = Outgoing { term, except: options.except, ..draft.into() };
        let outgoing = if alone { outgoing.for_subjects_alone() } else { outgoing };
        let delivery = self.sender.send(&permit, outgoing, SendOptions::default()).await?;
        drop(permit);
        self.counts.events.add(1);
        Ok(delivery)
    }

    /// Waits until something may be changed; not once the node ends, since its processes come
    /// again to whoever has the node's name then.
    pub(super) async fn enter(&self) -> Result<WritePermit<'_>, Refusal> {
        tokio::select! {
            biased;
            permit = self.sender.barrier.enter() => permit.map_err(|_| Refusal::Overloaded),
            () = self.stop.cancelled() => Err(Refusal::Overloaded),
        }
    }

    /// Logs a process of the connected node `peer` in under `id`, and links it with the router if
    /// it `links`. A second time is no error.
    pub(super) fn login(
        &self,
        peer: &Peer,
        id: IdText<'_>,
        words: Words,
        links: bool,
    ) -> Result<(), Refusal> {
        let [number, serial, creation] = words;
        if creation != peer.creation() {
            return Err(Refusal::NoProcess);
        }
        let process = Process { peer: peer.number(), id: number, serial };
        let mut registry = self.registry();
        if !registry.nodes.contains_key(&peer.number()) {
            return Err(Refusal::NoConnection);
        }
        let processes = &mut registry.processes;
        let (process_ref, is_new) = match processes.find(process) {
            Some(process_ref) => (process_ref, false),
            None => (processes.insert(process).ok_or(Refusal::Overloaded)?, true),
        };
        let ProcessRef { slot, generation } = process_ref;
        let known = processes.ids(process_ref);
        let Ok(new) = self.guest.login(slot as usize, generation, id, known) else {
            // There are as many names as there may be. A place without an id would never be freed.
            if is_new {
                processes.remove(process_ref);
            }
            return Err(Refusal::Overloaded);
        };
        if let Some(id) = new
            && !processes.add(process_ref, id)
        {
            self.guest.logout(slot as usize, generation, id);
            return Err(Refusal::TooManyIds);
        }
        if is_new {
            self.counts.logins.add(1);
            // Answered at once if the process is gone. If the connection is, it is swept.
            peer.monitor(self.pid(Service::Router), words, reference(process_ref));
        }
        if links && registry.processes.link(process_ref) {
            peer.link(self.pid(Service::Router), words);
        }
        Ok(())
    }

    /// Logs a process of the connected node `peer` out of all its ids.
    pub(super) fn logout(&self, peer: &Peer, id: u32, serial: u32) {
        let process = Process { peer: peer.number(), id, serial };
        let found = self.registry().processes.find(process);
        if let Some(process_ref) = found {
            self.logged_out(process_ref, peer, [id, serial, peer.creation()]);
        }
    }

    /// `peer` says that its process at `process_ref` is gone.
    pub(super) fn down(&self, peer: &Peer, process_ref: ProcessRef) {
        let mut registry = self.registry();
        if registry.processes.get(process_ref).is_some_and(|process| process.peer == peer.number())
        {
            self.leave(&mut registry.processes, process_ref);
        }
    }

    /// The node that the process at `process_ref` runs on, and how it is named there.
    pub(super) fn reach(&self, process_ref: ProcessRef) -> Option<(Arc<ConnectedNode>, Words)> {
        let registry = self.registry();
        let process = registry.processes.get(process_ref)?;
        let node = registry.nodes.get(&process.peer)?;
        Some((Arc::clone(node), node.peer.pid(process.id, process.serial)))
    }

    /// Logs a process of `peer` out because somebody wants it so.
    pub(super) fn logged_out(&self, process_ref: ProcessRef, peer: &Peer, words: Words) {
        let mut registry = self.registry();
        if registry.processes.get(process_ref).is_none() {
            return;
        }
        let router = self.pid(Service::Router);
        // Any number will do that is none of a link taken back shortly before.
        let number = NonZeroU64::MIN.saturating_add(process_ref.generation.into());
        if registry.processes.is_linked(process_ref) {
            peer.unlink(number, router, words);
        }
        self.leave(&mut registry.processes, process_ref);
        peer.demonitor(router, words, reference(process_ref));
    }

    /// Logs the process at `process_ref` out of all its ids, if there still is one.
    pub(super) fn leave(&self, processes: &mut Processes, process_ref: ProcessRef) {
        if processes.get(process_ref).is_none() {
            return;
        }
        for id in processes.ids(process_ref) {
            self.guest.logout(process_ref.slot as usize, process_ref.generation, id);
        }
        processes.remove(process_ref);
    }

    /// A node is connected.
    pub(super) fn connected(&self, peer: &Arc<Peer>) -> Arc<ConnectedNode> {
        self.counts.connected.add(1);
        let node = Arc::new(ConnectedNode::new(Arc::clone(peer), self.queue_bytes_max));
        let before = self.registry().nodes.insert(peer.number(), Arc::clone(&node));
        debug_assert!(before.is_none(), "each connection has its own number");
        self.connections.notify_waiters();
        node
    }

    /// Waits until the session with a connected node has begun, or would have.
    pub(super) async fn wait_connected(&self, peer: &Peer) {
        loop {
            let connection = self.connections.notified();
            if self.registry().nodes.contains_key(&peer.number()) {
                return;
            }
            if timeout(CONNECTED_TIMEOUT, connection).await.is_err() {
                return;
            }
        }
    }

    /// It is gone: all its processes are logged out, chunk by chunk.
    pub(super) async fn disconnected(&self, peer: &Peer) -> usize {
        self.registry().nodes.remove(&peer.number());
        self.subscribers.gone(peer);
        let (mut from, mut left) = (0, 0);
        loop {
            {
                let mut registry = self.registry();
                if from >= registry.processes.slots() {
                    return left;
                }
                let processes = &mut registry.processes;
                let gone: Vec<ProcessRef> = processes
                    .of_peer(peer.number(), from)
                    .map(|(process_ref, _)| process_ref)
                    .collect();
                left += gone.len();
                gone.into_iter().for_each(|process_ref| self.leave(processes, process_ref));
                from += Processes::CHUNK;
            }
            yield_now().await;
        }
    }
}

/// Readable when there is mail for its processes.
impl AsFd for Gateway {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.guest.as_fd()
    }
}

/// The bounds that sessions keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes of one node that may wait to be handled.
    pub(super) queue_bytes_max: usize,
    /// An event must fit into a connection's backlog.
    pub(super) backlog_bytes_max: usize,
}

/// The reference of the monitor of the process at `process_ref`.
fn reference(process_ref: ProcessRef) -> [u32; 3] {
    [0, process_ref.generation, process_ref.slot]
}

/// The place that a reference of ours speaks of.
pub(super) fn process_ref_of([_, generation, slot]: [u32; 3]) -> ProcessRef {
    ProcessRef { slot, generation }
}
