//! A connected node, and the mail for its processes that waits until it takes what was sent before.
//!
//! A node that reads slowly has a queue of its own here, so it holds up those alone who send to its
//! processes. They are answered when the mail is handed to the node, or when it is known that it
//! will not be. The queue has a bound in bytes, and mail in it one in time. Past either of them the
//! node takes too little and its connection ends, which its processes and their monitors notice.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::Delivery;
use erlang::{End, Peer};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

/// How long a node may take nothing while mail waits for it.
const STALL_MAX: Duration = Duration::from_secs(2);

/// How long mail may wait for a node that takes something now and then.
const MAIL_AGE_MAX: Duration = Duration::from_secs(30);

/// Bytes that a mail counts for beside its message and its targets: it and its place in the queue.
const MAIL_BYTES: usize = 128;

/// Requests of one node that take their time, of those of all nodes: so that one that asks for
/// what never comes leaves others room.
const TASKS_MAX: usize = 256;

/// A process on a node, as messages name it there.
pub(super) type Words = [u32; 3];

/// Mail that waits.
pub(super) enum Waiting {
    /// An event, for those of its targets who are still logged in when it is handed over.
    Event(Delivery),
    /// What processes are told that are logged out already.
    LoggedOut(Delivery, Arc<[u8]>, Vec<Words>),
    /// Events may be missing.
    Gap(Arc<[u8]>, Vec<Words>),
}

/// A connected node.
pub(super) struct ConnectedNode {
    pub(super) peer: Arc<Peer>,
    /// For requests of its that take their time.
    pub(super) tasks: Arc<Semaphore>,
    /// Bytes that changes of subscriptions may take which are not stored yet.
    pub(super) change_bytes: Arc<Semaphore>,
    bytes_max: usize,
    queue: Mutex<Queue>,
    changed: Notify,
}

#[derive(Default)]
struct Queue {
    mails: VecDeque<(Waiting, Instant, usize)>,
    /// Of all that waits, and of what is being handed over.
    bytes: usize,
    is_closed: bool,
}

impl ConnectedNode {
    pub(super) fn new(peer: Arc<Peer>, bytes_max: usize) -> ConnectedNode {
        ConnectedNode {
            peer,
            tasks: Arc::new(Semaphore::new(TASKS_MAX)),
            change_bytes: Arc::new(Semaphore::new(bytes_max)),
            bytes_max,
            queue: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Whether mail must wait: behind other mail, or for the node.
    pub(super) fn must_wait(&self) -> bool {
        self.queue().bytes > 0 || !self.peer.has_room_for_mail()
    }

    /// Bytes that wait here and at the peer.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.queue().bytes + self.peer.waiting_bytes()
    }

    /// Puts mail behind what waits already. Gives it back when there will be nobody to take it, and
    /// when it is too much: the connection ends then.
    pub(super) fn wait(&self, mail: Waiting, message_bytes: usize) -> Result<(), Waiting> {
        let bytes = MAIL_BYTES + message_bytes + mail.target_bytes();
        let mut queue = self.queue();
        if queue.is_closed {
            return Err(mail);
        }
        if queue.bytes > 0 && queue.bytes + bytes > self.bytes_max {
            self.peer.close(End::Slow);
            return Err(mail);
        }
        queue.bytes += bytes;
        queue.mails.push_back((mail, Instant::now(), bytes));
        drop(queue);
        self.changed.notify_one();
        Ok(())
    }

    /// The next mail, when it came, and what it counts for until [`ConnectedNode::done`]. `None`
    /// when there will be none.
    pub(super) async fn next(&self) -> Option<(Waiting, Instant, usize)> {
        loop {
            {
                let mut queue = self.queue();
                if let Some(next) = queue.mails.pop_front() {
                    return Some(next);
                }
                if queue.is_closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    /// A mail that counted for so many bytes is handed over, or given up.
    pub(super) fn done(&self, bytes: usize) {
        let mut queue = self.queue();
        queue.bytes -= bytes;
        debug_assert!(queue.bytes > 0 || queue.mails.is_empty(), "mail would be passed by other");
    }

    /// Waits until the node has room for mail that came at `since`. One that takes too little is
    /// ended, which makes room too.
    pub(super) async fn room(&self, since: Instant) {
        if self.peer.has_room_for_mail() {
            return;
        }
        let wait_max = STALL_MAX.min(MAIL_AGE_MAX.saturating_sub(since.elapsed()));
        if timeout(wait_max, self.peer.room_for_mail()).await.is_err() {
            self.peer.close(End::Slow);
        }
    }

    /// No more mail will be taken; what waits still is.
    pub(super) fn close(&self) {
        self.queue().is_closed = true;
        self.changed.notify_one();
    }

    /// Each change is one step.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// How many processes it is for.
    pub(super) fn targets(&self) -> usize {
        match self {
            Waiting::Event(delivery) => delivery.targets().len(),
            Waiting::LoggedOut(_, _, processes) | Waiting::Gap(_, processes) => processes.len(),
        }
    }

    fn target_bytes(&self) -> usize {
        self.targets() * size_of::<Words>()
    }
}
