//! Receipts: how the sender learns to how many connections its event was handed.
//!
//! Each mail carries a [`Stub`]. Whoever handles the mail counts on it and drops it; the last stub
//! to go completes the receipt. A mail that is thrown away unread is dropped too, so a sender never
//! waits for ever.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::task::{Context, Poll};
use std::time::Instant;

use atomic_waker::AtomicWaker;

use crate::Event;
use crate::lane::Bell;
use crate::replies::Replies;
#[cfg(loom)]
use loom::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};
#[cfg(not(loom))]
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

#[derive(Debug)]
struct Ticket {
    /// Stubs that are still out.
    open: AtomicU32,
    count: AtomicU32,
    sender: Sender,
}

/// Who waits for the receipt.
#[derive(Debug)]
enum Sender {
    /// A task, whose waker goes to the replies.
    Task { waker: AtomicWaker, replies: StdArc<Replies> },
    /// A worker's lane, which looks by itself.
    Lane(StdArc<Bell>),
    /// The same, but that the lane of the worker that delivers is to answer in its place.
    Relay(Relaying),
}

/// An answer that another lane gives.
#[derive(Debug)]
struct Relaying {
    relay: Relay,
    event: StdArc<Event>,
    /// [`WRITTEN`] or [`FAILED`], and [`WANTED`], and how many bytes were sent before it failed.
    ///
    /// Ordering: acquire and release at each change, so who finds the other's bit sees what was
    /// done before it, and of two that set theirs at least one finds the other's.
    state: AtomicU32,
}

/// Where an answer may be given in a lane's place.
#[derive(Clone, Debug)]
pub struct Relay {
    /// The lane that is to answer.
    pub(crate) to: StdArc<Bell>,
    /// The lane that has asked.
    pub(crate) home: StdArc<Bell>,
    /// What both call the connection.
    pub token: u64,
    /// When the request was accepted.
    pub accepted: Instant,
}

/// By worker: where its lane may answer.
pub type Relays<'r> = &'r (dyn Fn(usize) -> Option<Relay> + Sync);

/// The answer is on its way to the client.
const WRITTEN: u32 = 1;
/// It is not all: who has asked must go on.
const FAILED: u32 = 2;
/// Who has asked waits to be told.
const WANTED: u32 = 4;
/// Where the number of bytes stands.
const SENT_SHIFT: u32 = 3;

/// How far an answer is that another lane gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relayed {
    /// It will be given, or refused. Who has asked is rung then.
    Waits,
    /// It is given.
    Written,
    /// It is not, behind its first bytes, and will not be.
    Failed {
        /// So many of them are.
        sent: usize,
    },
}

/// The sender's half: resolves to the number of connections reached.
#[derive(Debug)]
pub struct Receipt(Arc<Ticket>);

/// The workers' half, one per mail and one with the sender while it posts.
#[derive(Debug)]
pub(crate) struct Stub {
    ticket: Arc<Ticket>,
    count: u32,
}

impl Stub {
    /// A ticket's first stub, and the receipt that completes when all its stubs are gone.
    pub(crate) fn first(replies: &StdArc<Replies>) -> (Stub, Receipt) {
        Stub::of(Sender::Task { waker: AtomicWaker::new(), replies: replies.clone() })
    }

    /// The same for a lane, which is rung when the receipt is complete.
    pub(crate) fn first_of_lane(bell: &StdArc<Bell>) -> (Stub, Receipt) {
        Stub::of(Sender::Lane(bell.clone()))
    }

    /// The same for a lane in whose place another is to answer. Its stub is for the one mail that
    /// there is: dropped by the worker that delivers it.
    pub(crate) fn first_of_relay(relay: Relay, event: StdArc<Event>) -> (Stub, Receipt) {
        Stub::of(Sender::Relay(Relaying { relay, event, state: AtomicU32::new(0) }))
    }

    fn of(sender: Sender) -> (Stub, Receipt) {
        let (open, count) = (AtomicU32::new(1), AtomicU32::new(0));
        let ticket = Arc::new(Ticket { open, count, sender });
        (Stub { ticket: ticket.clone(), count: 0 }, Receipt(ticket))
    }

    /// One more stub of the same ticket.
    pub(crate) fn another(&self) -> Stub {
        // Ordering: relaxed, as for a reference count: `self` keeps the ticket open meanwhile.
        self.ticket.open.fetch_add(1, Ordering::Relaxed);
        Stub { ticket: self.ticket.clone(), count: 0 }
    }

    /// One more connection was reached.
    pub(crate) fn count_one(&mut self) {
        self.count += 1;
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        // Ordering: the release of each stub's count is acquired by the last one through the same
        // counter, so the receipt reads the full sum.
        self.ticket.count.fetch_add(self.count, Ordering::Relaxed);
        if self.ticket.open.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        match &self.ticket.sender {
            Sender::Task { waker, replies } => {
                if let Some(sender) = waker.take() {
                    replies.post(sender);
                }
            }
            Sender::Lane(bell) => bell.answer(),
            Sender::Relay(relaying) => relaying.relay.to.relay(Receipt(self.ticket.clone())),
        }
    }
}

impl Future for Receipt {
    type Output = u32;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u32> {
        if let Sender::Task { waker, .. } = &self.0.sender {
            waker.register(context.waker());
        }
        match self.0.open.load(Ordering::Acquire) {
            0 => Poll::Ready(self.0.count.load(Ordering::Relaxed)),
            _ => Poll::Pending,
        }
    }
}

impl Receipt {
    /// The count, when all workers have answered.
    pub fn ready(&self) -> Option<u32> {
        let done = self.0.open.load(Ordering::Acquire) == 0;
        done.then(|| self.0.count.load(Ordering::Relaxed))
    }
}

/// Of an answer that another lane gives.
impl Receipt {
    /// Whether it is such a one.
    pub fn is_relayed(&self) -> bool {
        matches!(self.0.sender, Sender::Relay(_))
    }

    /// What is to be answered, for the lane that does it.
    pub fn relayed(&self) -> Option<(&Relay, &StdArc<Event>, u32)> {
        let Sender::Relay(relaying) = &self.0.sender else { return None };
        Some((&relaying.relay, &relaying.event, self.ready()?))
    }

    /// That lane has answered, or found no room behind the answer's first bytes: an error with
    /// their number.
    pub fn settle(&self, written: Result<(), usize>) {
        if let Sender::Relay(Relaying { relay, state, .. }) = &self.0.sender {
            let bits = match written {
                Ok(()) => WRITTEN,
                Err(sent) => FAILED | (sent as u32) << SENT_SHIFT,
            };
            let is_wanted = state.fetch_or(bits, Ordering::AcqRel) & WANTED != 0;
            if is_wanted || written.is_err() {
                relay.home.answer();
            }
        }
    }

    /// How far it is, for the lane that has asked; when that is `wanted`, it is rung at the end.
    pub fn how_far(&self, wanted: bool) -> Relayed {
        let Sender::Relay(Relaying { state, .. }) = &self.0.sender else { return Relayed::Waits };
        let state = match wanted {
            true => state.fetch_or(WANTED, Ordering::AcqRel),
            false => state.load(Ordering::Acquire),
        };
        match state & !WANTED {
            0 => Relayed::Waits,
            WRITTEN => Relayed::Written,
            failed => Relayed::Failed { sent: (failed >> SENT_SHIFT) as usize },
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn receipt_is_ready_when_the_last_stub_is_gone() {
        let (first, receipt) = Stub::first(&StdArc::new(Replies::new().unwrap()));
        let mut mails: Vec<Stub> = (0..3).map(|_| first.another()).collect();
        drop(first);
        assert_eq!(receipt.ready(), None);
        mails[0].count_one();
        mails[0].count_one();
        mails[2].count_one();
        mails.pop();
        assert_eq!(receipt.ready(), None);
        drop(mails);
        assert_eq!(receipt.ready(), Some(3));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any time will do")]
    fn answer_that_has_begun_elsewhere_says_how_far_it_is() {
        let bell = StdArc::new(Bell::new().unwrap());
        let relay = Relay { to: bell.clone(), home: bell, token: 7, accepted: Instant::now() };
        let event = StdArc::new(Event::new(1, "a", "1"));
        for written in [Ok(()), Err(0), Err(100), Err(70_000)] {
            let (_stub, receipt) = Stub::first_of_relay(relay.clone(), event.clone());
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

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    /// Whoever drops the last stub, and whenever: a receipt that is ready has the full count.
    #[test]
    fn ready_receipt_has_every_stub_counted() {
        loom::model(|| {
            let (first, receipt) = Stub::first(&StdArc::new(Replies::new().unwrap()));
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let mut stub = first.another();
                    loom::thread::spawn(move || stub.count_one())
                })
                .collect();
            drop(first);
            assert!(receipt.ready().is_none_or(|count| count == 2));
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            assert_eq!(receipt.ready(), Some(2));
        });
    }
}
