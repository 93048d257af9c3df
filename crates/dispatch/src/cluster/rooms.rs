//! Who is in a room, over all nodes: what is between the node loop, the task that tells it
//! (`dispatch::members`), and the API.
//!
//! Records of rooms have a format that earlier versions do not read. So none is written before all
//! nodes have said that they read it. It is asked once somebody wants to know who is in a room, and
//! until then each node tells of its own users.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use cluster::{FORMAT_ROOMS, RoomNote, RoomStep, Rooms};
use sys::clock;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use super::{Cluster, Command};

/// Steps on their way to the task, and as many again before the node loop reads no further.
const STEPS_WAITING_MAX: usize = 256;

/// Calls of the API that wait for the task.
const ASKS_WAITING_MAX: usize = 64;

/// How long a call waits for a list: as long as a send waits for the log.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// How often nodes are asked what they read, and how often in a row some may not answer before
/// this node tells of its own users meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(500);
const ASKS_UNANSWERED: u32 = 6;

/// Whether all nodes read records of rooms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RoomFormat {
    /// Nobody has asked, or not all have answered.
    Unknown,
    /// One is of an earlier version, or stays silent.
    Missing,
    /// All do.
    Read,
}

/// A call of the API that wants the list of a room.
#[derive(Debug)]
pub(crate) struct RoomAsk {
    pub(crate) room: String,
    pub(crate) reply: oneshot::Sender<Arc<str>>,
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
#[error("the cluster's log has not said in time who is in the room: try again")]
pub struct NoList;

/// The task's end.
pub struct RoomsLink {
    pub(crate) steps: mpsc::Receiver<RoomStep>,
    pub(crate) asks: mpsc::Receiver<RoomAsk>,
    pub(crate) format: watch::Receiver<RoomFormat>,
    pub(crate) say: RoomsSay,
}

/// The task's way back to the node loop.
pub(crate) struct RoomsSay {
    /// The node loop ends with the cluster's handle, whoever has a room to speak of.
    commands: mpsc::WeakSender<Command>,
    is_needed: Arc<Notify>,
}

impl RoomsSay {
    /// It must be known what all nodes read.
    pub(crate) fn need_format(&self) {
        self.is_needed.notify_one();
    }

    /// To no node loop.
    #[cfg(test)]
    pub(crate) fn to_nobody() -> RoomsSay {
        let commands = mpsc::channel(1).0.downgrade();
        RoomsSay { commands, is_needed: Arc::default() }
    }

    /// This node says this of rooms, as long as it is `me`.
    pub(crate) async fn say(&self, me: u64, notes: Vec<RoomNote>) {
        say(&self.commands, me, notes).await;
    }
}

async fn say(commands: &mpsc::WeakSender<Command>, me: u64, notes: Vec<RoomNote>) {
    if let Some(commands) = commands.upgrade() {
        // Where the node has ended nobody hears it.
        let _ = commands.send(Command::Rooms(me, notes)).await;
    }
}

/// The cluster's end.
#[derive(Debug)]
pub(super) struct RoomsEnd {
    asks: mpsc::Sender<RoomAsk>,
    /// Until the task has taken it.
    link: Mutex<Option<LinkParts>>,
}

#[derive(Debug)]
struct LinkParts {
    steps: mpsc::Receiver<RoomStep>,
    asks: mpsc::Receiver<RoomAsk>,
}

/// The node loop's end: what the log says, in its order.
#[derive(Debug, Default)]
pub(super) struct RoomsOut {
    to: Option<mpsc::Sender<RoomStep>>,
    waiting: VecDeque<RoomStep>,
}

/// Both ends; `is_told` whether the node tells who is in a room. One that does not answers the
/// others by `commands` nevertheless.
pub(super) fn ends(
    is_told: bool,
    commands: &mpsc::Sender<Command>,
) -> (Option<RoomsEnd>, RoomsOut) {
    let (to, steps) = mpsc::channel(STEPS_WAITING_MAX);
    let out = RoomsOut { to: Some(to), waiting: VecDeque::new() };
    if !is_told {
        tokio::spawn(have_nobody(steps, commands.downgrade()));
        return (None, out);
    }
    let (asks, asked) = mpsc::channel(ASKS_WAITING_MAX);
    let link = Mutex::new(Some(LinkParts { steps, asks: asked }));
    (Some(RoomsEnd { asks, link }), out)
}

/// Answers for a node that has no users in rooms: others wait for what each node says.
async fn have_nobody(mut steps: mpsc::Receiver<RoomStep>, commands: mpsc::WeakSender<Command>) {
    let mut rooms = Rooms::new(0, |_, _| 0);
    while let Some(step) = steps.recv().await {
        rooms.step(clock::monotonic_ms(), step);
        while rooms.next_action().is_some() {}
        if let Some((me, notes)) = rooms.next_record(|_| Vec::new()) {
            say(&commands, me, notes).await;
        }
    }
}

impl RoomsOut {
    pub(super) fn push(&mut self, step: RoomStep) {
        if self.to.is_some() {
            self.waiting.push_back(step);
        }
    }

    /// Whether the log may bring more.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < STEPS_WAITING_MAX
    }

    /// Whether there is something to hand on.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Hands on the next step when there is room. Dropped before, it has done nothing.
    pub(super) async fn hand_on(&mut self) {
        let Some(to) = &self.to else { return std::future::pending().await };
        if let Ok(permit) = to.reserve().await {
            if let Some(step) = self.waiting.pop_front() {
                permit.send(step);
            }
            return;
        }
        *self = RoomsOut::default();
    }
}

impl Cluster {
    /// What the task is driven by that tells who is in a room: once, of a node that tells it.
    pub fn rooms_link(self: &Arc<Self>) -> Option<RoomsLink> {
        let parts = self.rooms.as_ref()?.link.lock().unwrap_or_else(PoisonError::into_inner).take();
        let LinkParts { steps, asks } = parts?;
        let (tell, format) = watch::channel(RoomFormat::Unknown);
        let is_needed = Arc::<Notify>::default();
        tokio::spawn(find_format(Arc::downgrade(self), Arc::clone(&is_needed), tell));
        let say = RoomsSay { commands: self.commands.downgrade(), is_needed };
        Some(RoomsLink { steps, asks, format, say })
    }

    /// The list of a room over all nodes, as clients are told it.
    ///
    /// # Errors
    ///
    /// The log is not to be reached, or a node is silent that the others have not declared gone.
    pub async fn room_list(&self, room: String) -> Result<Arc<str>, NoList> {
        let rooms = self.rooms.as_ref().ok_or(NoList)?;
        let (reply, answer) = oneshot::channel();
        let asked = async {
            rooms.asks.send(RoomAsk { room, reply }).await.ok()?;
            answer.await.ok()
        };
        timeout(LIST_TIMEOUT, asked).await.ok().flatten().ok_or(NoList)
    }
}

/// Asks what all nodes read, from when it is needed until they read records of rooms.
async fn find_format(
    cluster: Weak<Cluster>,
    is_needed: Arc<Notify>,
    tell: watch::Sender<RoomFormat>,
) {
    is_needed.notified().await;
    let mut unanswered = 0;
    loop {
        let Some(cluster) = cluster.upgrade() else { return };
        let format = cluster.reading.format(&cluster.standing.nats, &cluster.status).await;
        let is_member = cluster.status().node.incarnation.is_some();
        drop(cluster);
        // Who is no member does not know who should answer.
        unanswered = if format.is_none() && is_member { unanswered + 1 } else { 0 };
        let found = match format {
            Some(format) if format >= FORMAT_ROOMS => RoomFormat::Read,
            Some(_) => RoomFormat::Missing,
            None if unanswered >= ASKS_UNANSWERED => RoomFormat::Missing,
            None => RoomFormat::Unknown,
        };
        // What was missing is not unknown again.
        let is_new = |before: &mut RoomFormat| {
            let is_new = found != RoomFormat::Unknown && found != *before;
            if is_new {
                *before = found;
            }
            is_new
        };
        tell.send_if_modified(is_new);
        if found == RoomFormat::Read {
            return;
        }
        sleep(ASK_EVERY).await;
    }
}
