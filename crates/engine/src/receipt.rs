//! Receipts: how the sender learns to how many connections its event was handed.
//!
//! Each mail carries a [`Stub`] of a ticket ([`sync::ticket`]). Whoever handles the mail counts on
//! it and drops it; the last stub to go completes the receipt. A mail that is thrown away unread is
//! dropped too, so a sender never waits for ever.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use atomic_waker::AtomicWaker;
use sync::doorbell::Doorbell;
use sync::replies::Replies;
use sync::ticket::{self, Ticket, Waiter};
use sys::waker::Waker;

/// Who waits for the receipt, and whether its event may not be on disk although it should.
#[derive(Debug)]
pub(crate) struct Awaited {
    sender: Sender,
    /// Relaxed: whoever finds the ticket complete has acquired what was stored before.
    unsure: AtomicBool,
}

/// Who waits for the receipt.
#[derive(Debug)]
enum Sender {
    /// A task, whose waker goes to the replies.
    Task { waker: AtomicWaker, replies: Arc<Replies> },
    /// A worker's lane, which looks by itself.
    Lane(Arc<Bell>),
}

/// The sender's half: resolves to the number of connections reached.
#[derive(Debug)]
pub struct Receipt(Ticket<Awaited>);

/// The workers' half, one per mail and one with the sender while it posts.
pub(crate) type Stub = ticket::Stub<Awaited>;

impl Awaited {
    /// The event was posted, and is not known to be on disk.
    pub(crate) fn set_unsure(&self) {
        self.unsure.store(true, Ordering::Relaxed);
    }
}

impl Waiter for Awaited {
    fn complete(&self) {
        match &self.sender {
            Sender::Task { waker, replies } => {
                if let Some(sender) = waker.take() {
                    replies.post(sender);
                }
            }
            Sender::Lane(bell) => bell.answer(),
        }
    }
}

impl Future for Receipt {
    type Output = u32;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u32> {
        if let Sender::Task { waker, .. } = &self.0.waiter().sender {
            waker.register(context.waker());
        }
        self.ready().map_or(Poll::Pending, Poll::Ready)
    }
}

impl Receipt {
    /// A receipt's first stub, and the receipt, which completes when all its stubs are gone.
    pub(crate) fn for_task(replies: &Arc<Replies>) -> (Stub, Receipt) {
        Receipt::of(Sender::Task { waker: AtomicWaker::new(), replies: replies.clone() })
    }

    /// A stub and a receipt for a lane, which is rung when the receipt is complete.
    pub(crate) fn for_lane(bell: &Arc<Bell>) -> (Stub, Receipt) {
        Receipt::of(Sender::Lane(bell.clone()))
    }

    fn of(sender: Sender) -> (Stub, Receipt) {
        let unsure = AtomicBool::new(false);
        let (stub, ticket) = Ticket::new(Awaited { sender, unsure });
        (stub, Receipt(ticket))
    }

    /// The count, when all workers have answered, and the disk where that is waited for.
    pub fn ready(&self) -> Option<u32> {
        self.0.ready()
    }

    /// Of a receipt that is ready: whether the event should be on disk, and is not known to be.
    pub fn is_unsure(&self) -> bool {
        self.0.waiter().unsure.load(Ordering::Relaxed)
    }
}

/// What wakes a lane's worker.
#[derive(Clone, Debug)]
pub struct LaneBell(pub(crate) Arc<Bell>);

impl LaneBell {
    /// Has the lane take a turn.
    pub fn ring(&self) {
        self.0.answer();
    }

    /// Whether both wake one worker: it is enough to ring one of them.
    pub fn is_same(&self, other: &LaneBell) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What wakes a worker.
#[derive(Debug)]
pub(crate) struct Bell {
    doorbell: Doorbell,
    waker: Waker,
    /// The worker's lane has been answered since it looked.
    answered: AtomicBool,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        let (doorbell, waker) = (Doorbell::default(), Waker::new()?);
        Ok(Bell { doorbell, waker, answered: AtomicBool::new(false) })
    }

    /// After something was posted: wakes the worker if it sleeps.
    pub(crate) fn ring(&self) {
        if self.doorbell.must_ring() {
            self.waker.ring();
        }
    }

    /// Something that the lane waits for has come to pass.
    ///
    /// Ordering: releases what was counted before, for the lane that looks for it.
    pub(crate) fn answer(&self) {
        self.answered.store(true, Ordering::Release);
        self.ring();
    }

    /// Whether the lane was answered since this was asked before.
    ///
    /// Ordering: acquires what was counted before.
    pub(crate) fn take_answered(&self) -> bool {
        self.answered.swap(false, Ordering::Acquire)
    }

    /// The worker, before it looks whether anything was posted.
    pub(crate) fn mark_asleep(&self) {
        self.doorbell.mark_asleep();
    }

    /// The worker, when it is up again.
    pub(crate) fn mark_awake(&self) {
        self.doorbell.mark_awake();
    }

    /// Whether a ring now wakes the worker.
    #[cfg(test)]
    pub(crate) fn is_asleep(&self) -> bool {
        self.doorbell.must_ring()
    }

    /// Whether the lane has nothing to look for. Read between [`Bell::mark_asleep`] and the sleep,
    /// as the mailbox is.
    pub(crate) fn is_silent(&self) -> bool {
        !self.answered.load(Ordering::Relaxed)
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}
