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
use std::time::Instant;

use atomic_waker::AtomicWaker;
use crossbeam_queue::SegQueue;
use sync::doorbell::Doorbell;
use sync::relayed::{RelayState, Relayed};
use sync::replies::Replies;
use sync::ticket::{self, Ticket, Waiter};
use sys::waker::Waker;

use crate::Event;

/// Who waits for the receipt.
#[derive(Debug)]
pub(crate) enum Sender {
    /// A task, whose waker goes to the replies.
    Task { waker: AtomicWaker, replies: Arc<Replies> },
    /// A worker's lane, which looks by itself.
    Lane(Arc<Bell>),
    /// A worker's lane for which that of the worker that delivers is to answer.
    Relay(Relaying),
}

/// An answer that another lane gives.
#[derive(Debug)]
pub(crate) struct Relaying {
    relay: Relay,
    event: Arc<Event>,
    state: RelayState,
}

/// Where an answer may be given in a lane's place.
#[derive(Clone, Debug)]
pub struct Relay {
    /// The lane that is to answer.
    pub(crate) to: Arc<Bell>,
    /// The lane that has asked.
    pub(crate) home: Arc<Bell>,
    /// What both call the connection.
    pub token: u64,
    /// When the request was accepted.
    pub accepted: Instant,
}

/// By worker: where its lane may answer.
pub type Relays<'r> = &'r (dyn Fn(usize) -> Option<Relay> + Sync);

/// The sender's half: resolves to the number of connections reached.
#[derive(Debug)]
pub struct Receipt(Ticket<Sender>);

/// The workers' half, one per mail and one with the sender while it posts.
pub(crate) type Stub = ticket::Stub<Sender>;

impl Waiter for Sender {
    fn complete(&self, ticket: &Ticket<Sender>) {
        match self {
            Sender::Task { waker, replies } => {
                if let Some(sender) = waker.take() {
                    replies.post(sender);
                }
            }
            Sender::Lane(bell) => bell.answer(),
            Sender::Relay(relaying) => relaying.relay.to.relay(Receipt(ticket.clone())),
        }
    }
}

impl Future for Receipt {
    type Output = u32;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u32> {
        if let Sender::Task { waker, .. } = self.0.waiter() {
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

    /// Both for a lane in whose place another is to answer. Its stub is for the one mail that
    /// there is: dropped by the worker that delivers it.
    pub(crate) fn for_relay(relay: Relay, event: Arc<Event>) -> (Stub, Receipt) {
        Receipt::of(Sender::Relay(Relaying { relay, event, state: RelayState::default() }))
    }

    fn of(sender: Sender) -> (Stub, Receipt) {
        let (stub, ticket) = Ticket::new(sender);
        (stub, Receipt(ticket))
    }

    /// The count, when all workers have answered.
    pub fn ready(&self) -> Option<u32> {
        self.0.ready()
    }
}

/// Of an answer that another lane gives.
impl Receipt {
    /// Whether it is such a one.
    pub fn is_relayed(&self) -> bool {
        matches!(self.0.waiter(), Sender::Relay(_))
    }

    /// What is to be answered, for the lane that does it.
    pub fn relayed(&self) -> Option<(&Relay, &Arc<Event>, u32)> {
        let Sender::Relay(relaying) = self.0.waiter() else { return None };
        Some((&relaying.relay, &relaying.event, self.ready()?))
    }

    /// The lane of the receipt has answered, or found no room behind the answer's first bytes: an
    /// error with their number.
    pub fn settle(&self, written: Result<(), usize>) {
        if let Sender::Relay(Relaying { relay, state, .. }) = self.0.waiter()
            && state.settle(written)
        {
            relay.home.answer();
        }
    }

    /// How far it is, for the lane that has asked; when that is `wanted`, it is rung at the end.
    pub fn how_far(&self, wanted: bool) -> Relayed {
        match self.0.waiter() {
            Sender::Relay(relaying) => relaying.state.how_far(wanted),
            _ => Relayed::Waits,
        }
    }
}

/// What a lane is told by another.
#[derive(Debug)]
pub enum LaneNote {
    /// This send is delivered, and its answer is to be given here.
    Relayed(Receipt),
    /// The connection of this token is closed, or is nobody's here.
    Forget(u64),
}

/// What wakes a lane's worker.
#[derive(Clone, Debug)]
pub struct LaneBell(pub(crate) Arc<Bell>);

impl LaneBell {
    /// Has the lane take a turn.
    pub fn ring(&self) {
        self.0.answer();
    }

    /// Tells the lane that a connection is not there any more.
    pub fn forget(&self, token: u64) {
        self.0.notes.push(LaneNote::Forget(token));
        self.0.answer();
    }

    /// How this lane's answer to what came by the connection `token` is given by `to` in its place.
    pub fn relay(&self, to: &LaneBell, token: u64, accepted: Instant) -> Relay {
        Relay { to: Arc::clone(&to.0), home: Arc::clone(&self.0), token, accepted }
    }
}

/// What wakes a worker.
#[derive(Debug)]
pub(crate) struct Bell {
    doorbell: Doorbell,
    waker: Waker,
    /// The worker's lane has been answered since it looked.
    answered: AtomicBool,
    /// What it was told: as much as other lanes have connections and sends under way.
    notes: SegQueue<LaneNote>,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        let (doorbell, waker) = (Doorbell::default(), Waker::new()?);
        Ok(Bell { doorbell, waker, answered: AtomicBool::new(false), notes: SegQueue::new() })
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

    /// A send is delivered whose answer the lane is to give.
    pub(crate) fn relay(&self, receipt: Receipt) {
        self.notes.push(LaneNote::Relayed(receipt));
        self.answer();
    }

    /// Whether the lane was answered since this was asked before.
    ///
    /// Ordering: acquires what was counted before.
    pub(crate) fn take_answered(&self) -> bool {
        self.answered.swap(false, Ordering::Acquire)
    }

    /// The next of what the lane was told.
    pub(crate) fn take_note(&self) -> Option<LaneNote> {
        self.notes.pop()
    }

    /// The worker, before it looks whether anything was posted.
    pub(crate) fn mark_asleep(&self) {
        self.doorbell.mark_asleep();
    }

    /// The worker, when it is up again.
    pub(crate) fn mark_awake(&self) {
        self.doorbell.mark_awake();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any time will do")]
    fn answer_that_has_begun_elsewhere_says_how_far_it_is() {
        let bell = Arc::new(Bell::new().unwrap());
        let relay = Relay { to: bell.clone(), home: bell, token: 7, accepted: Instant::now() };
        let event = Arc::new(Event::new(1, "a", "1"));
        for written in [Ok(()), Err(0), Err(100), Err(70_000)] {
            let (_stub, receipt) = Receipt::for_relay(relay.clone(), event.clone());
            assert_eq!(receipt.how_far(true), Relayed::Waits);
            receipt.settle(written);
            let expected = match written {
                Ok(()) => Relayed::Written,
                Err(sent) => Relayed::Failed { sent },
            };
            assert_eq!((receipt.how_far(false), receipt.how_far(true)), (expected, expected));
        }
    }
}
