//! Mailboxes: the only way into a worker.
//!
//! A bounded lock-free queue per worker. Senders [reserve](Mailbox::reserve) room, then post, and
//! the worker takes: a post into reserved room cannot fail, so what needs several mailboxes goes to
//! all of them or to none. Where there is no room, the sender waits or says so. Beside the mail
//! stand [orders], which need no room. A sleeping worker is woken once, however many of
//! both follow.

mod orders;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;
use hub::{ConnRef, DisconnectReason};

pub(crate) use self::orders::Order;
use self::orders::Orders;
use crate::Event;
use crate::catch_up::CatchUp;
use crate::limits::{EXPRESS_TARGETS_MAX, MAIL_TARGETS_MAX, MAILS_MAX};
use crate::receipt::{Bell, Stub};
pub(crate) use crate::said::Targets;
use crate::said::{RoomText, Say};
use crate::tokens::{Outcome, Revoked};

/// What a worker is told.
#[derive(Debug)]
pub(crate) enum Mail {
    /// Hand the event to these connections. Of one for many there are several, and one is the last.
    Deliver { event: Arc<Event>, targets: Targets, is_last: bool, stub: Stub },
    /// What a held connection has missed. In a box, since it is rare.
    CatchUp(Box<CatchUp>),
    /// What a token is found to be.
    TokenResult(TokenResult),
    /// Something for one connection, which is no event.
    Say(Say),
    /// What connections are told of a room that they watch. In a box, since it is rare.
    Room(Box<RoomText>),
    /// Something for these connections, which is no event.
    Text { text: Arc<str>, targets: Targets, stub: Stub },
    /// End those whose tokens these are.
    Revoke(Revoked),
    /// Tell all connections that events may be missing up to this number; what is posted behind it
    /// has greater ones.
    Gap { up_to: u64 },
    /// End these connections.
    Close { reason: DisconnectReason, targets: Targets, stub: Stub },
    /// Accept no more, end all streams once the mail before this is delivered, and stop: when the
    /// last connection is gone, or at this time (monotonic milliseconds) at the latest.
    Drain { deadline_ms: u64 },
}

/// What the token of a connection is found to be.
#[derive(Debug)]
pub(crate) struct TokenResult {
    pub(crate) target: ConnRef,
    pub(crate) outcome: Outcome,
}

impl Mail {
    /// What it counts for: connections that handling it touches, or events that it brings one.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Mail::Deliver { targets, .. }
            | Mail::Text { targets, .. }
            | Mail::Close { targets, .. } => targets.len(),
            Mail::CatchUp(catch_up) => 1 + catch_up.events.len(),
            Mail::Room(text) => text.targets.len(),
            Mail::TokenResult(_) | Mail::Revoke(_) | Mail::Say(_) => 1,
            Mail::Gap { .. } | Mail::Drain { .. } => 0,
        }
    }

    /// Whether it is handed to a large audience.
    pub(crate) fn is_for_many(&self) -> bool {
        match self {
            Mail::Deliver { targets, .. } | Mail::Text { targets, .. } => {
                targets.len() > EXPRESS_TARGETS_MAX
            }
            _ => false,
        }
    }
}

/// One worker's mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox {
    queue: ArrayQueue<Mail>,
    orders: Orders,
    /// Mails in the queue, and those that room is reserved for.
    mails: AtomicUsize,
    /// What those mails weigh. A bound on memory, good to within what senders reserve at once.
    weight: AtomicUsize,
    bell: Arc<Bell>,
}

/// Room in a mailbox. What is not used is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation<'m> {
    mailbox: &'m Mailbox,
    mails: usize,
    weight: usize,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Mailbox> {
        Ok(Mailbox {
            // The end of all mail needs no room.
            queue: ArrayQueue::new(MAILS_MAX + 1),
            orders: Orders::new(),
            mails: AtomicUsize::new(0),
            weight: AtomicUsize::new(0),
            bell: Arc::new(Bell::new()?),
        })
    }

    /// Room for so many `mails` of so much `weight` in all; `None` when there is none.
    ///
    /// Ordering: acquires what [`Mailbox::take`] releases, so a place that is counted free is free.
    pub(crate) fn reserve(&self, mails: usize, weight: usize) -> Option<Reservation<'_>> {
        let mails_before = self.mails.fetch_add(mails, Ordering::Acquire);
        let weight_before = self.weight.fetch_add(weight, Ordering::Relaxed);
        // Dropped, it gives back what was just taken.
        let room = Reservation { mailbox: self, mails, weight };
        let fits = mails_before + mails <= MAILS_MAX && weight_before <= MAIL_TARGETS_MAX;
        fits.then_some(room)
    }

    /// Posts the end of all mail; gives it back when somebody has posted it before.
    pub(crate) fn post_drain(&self, deadline_ms: u64) -> Result<(), Mail> {
        self.mails.fetch_add(1, Ordering::Relaxed);
        let posted = self.push(Mail::Drain { deadline_ms });
        if posted.is_err() {
            self.mails.fetch_sub(1, Ordering::Relaxed);
        }
        posted
    }

    /// Posts an order. The one of its kind that the worker has not taken yet counts no more.
    pub(crate) fn post_order(&self, order: Order) {
        self.orders.post(order);
        self.ring();
    }

    /// Takes all orders, for the worker.
    pub(crate) fn take_orders(&self) -> impl Iterator<Item = Order> + use<> {
        self.orders.take()
    }

    fn push(&self, mail: Mail) -> Result<(), Mail> {
        self.queue.push(mail)?;
        self.ring();
        Ok(())
    }

    fn ring(&self) {
        self.bell.ring();
    }

    /// What wakes the worker.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// The worker's next mail.
    pub(crate) fn take(&self) -> Option<Mail> {
        let mail = self.queue.pop()?;
        self.weight.fetch_sub(mail.weight(), Ordering::Relaxed);
        self.mails.fetch_sub(1, Ordering::Release);
        Some(mail)
    }

    /// How many mails are waiting.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// The worker, before it waits: `true` when it may sleep, since every mail from now on rings.
    /// Mail that it does not take before somebody rings keeps it from no sleep.
    pub(crate) fn may_sleep(&self, takes_mail: bool) -> bool {
        self.bell.mark_asleep();
        let has_mail = takes_mail && !self.queue.is_empty();
        if !has_mail && self.orders.is_empty() && self.bell.is_silent() {
            return true;
        }
        self.bell.mark_awake();
        false
    }

    /// The worker, after it has waited.
    pub(crate) fn awake(&self) {
        self.bell.mark_awake();
    }
}

/// For the simulator, which sees that all room is given back.
#[cfg(test)]
impl Mailbox {
    /// How many mails there is room taken for, and for how much weight.
    pub(crate) fn taken(&self) -> (usize, usize) {
        (self.mails.load(Ordering::Relaxed), self.weight.load(Ordering::Relaxed))
    }
}

impl Reservation<'_> {
    /// Whether there is room for one more mail alone.
    pub(crate) fn is_for_one(&self) -> bool {
        self.mails == 1
    }

    /// Posts one of the mails that the room is for.
    pub(crate) fn post(&mut self, mail: Mail) {
        let weight = mail.weight();
        debug_assert!(self.mails > 0 && weight <= self.weight, "more than was reserved");
        self.mails -= 1;
        self.weight -= weight;
        // The worker gives the room back when it takes the mail.
        self.mailbox.push(mail).expect("a place in the queue is reserved");
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.mailbox.weight.fetch_sub(self.weight, Ordering::Relaxed);
        self.mailbox.mails.fetch_sub(self.mails, Ordering::Release);
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use sync::replies::Replies;

    use super::*;
    use crate::receipt::Receipt;

    fn deliver(targets: usize, stub: &Stub) -> Mail {
        Mail::Deliver {
            event: Arc::new(Event::new(1, "a", "1").unwrap()),
            targets: (0..targets).map(|slot| ConnRef::new(0, slot, 0)).collect(),
            is_last: true,
            stub: stub.another(),
        }
    }

    #[test]
    fn full_mailbox_has_no_room_and_a_receipt_completes_when_its_mail_is_dropped() {
        let mailbox = Mailbox::new().unwrap();
        let replies = Arc::new(Replies::new().unwrap());
        let (stub, receipt) = Receipt::for_task(&replies);
        mailbox
            .reserve(1, MAIL_TARGETS_MAX + 1)
            .unwrap()
            .post(deliver(MAIL_TARGETS_MAX + 1, &stub));
        assert!(mailbox.reserve(1, 1).is_none());
        assert_eq!(mailbox.take().unwrap().weight(), MAIL_TARGETS_MAX + 1);
        for _ in 0..MAILS_MAX {
            mailbox.reserve(1, 0).unwrap().post(deliver(0, &stub));
        }
        assert!(mailbox.reserve(1, 0).is_none());
        mailbox.post_drain(0).unwrap();
        assert!(mailbox.post_drain(0).is_err(), "there is one end");
        drop(stub);
        assert_eq!(receipt.ready(), None);
        drop(mailbox);
        assert_eq!(receipt.ready(), Some(0));
    }

    #[test]
    fn worker_for_whom_anything_is_posted_does_not_sleep() {
        let settings = Arc::<crate::Settings>::default();
        let posts: [&dyn Fn(&Mailbox); 5] = [
            &|mailbox| mailbox.post_order(Order::Texts(Arc::default())),
            &|mailbox| mailbox.post_order(Order::Settings(settings.clone())),
            &|mailbox| mailbox.post_order(Order::Move(1)),
            &|mailbox| mailbox.post_drain(0).unwrap(),
            &|mailbox| mailbox.bell().answer(),
        ];
        for (number, post) in posts.iter().enumerate() {
            let mailbox = Mailbox::new().unwrap();
            mailbox.awake();
            post(&mailbox);
            assert!(!mailbox.may_sleep(true), "post {number}");
        }
        assert!(Mailbox::new().unwrap().may_sleep(true));
    }

    #[test]
    fn room_that_is_not_used_is_given_back() {
        let mailbox = Mailbox::new().unwrap();
        let replies = Arc::new(Replies::new().unwrap());
        let (stub, _receipt) = Receipt::for_task(&replies);
        let mut room = mailbox.reserve(MAILS_MAX, 10).unwrap();
        assert!(mailbox.reserve(1, 0).is_none());
        room.post(deliver(7, &stub));
        drop(room);
        assert_eq!(mailbox.len(), 1);
        assert!(mailbox.reserve(MAILS_MAX, 0).is_none());
        drop(mailbox.reserve(MAILS_MAX - 1, MAIL_TARGETS_MAX).unwrap());
        mailbox.take().unwrap();
        let all = mailbox.reserve(MAILS_MAX, MAIL_TARGETS_MAX + 1).unwrap();
        assert!(mailbox.reserve(1, 0).is_none());
        drop(all);
        assert!(mailbox.reserve(1, MAIL_TARGETS_MAX).is_some());
    }
}
