//! Mailboxes: the only way into a worker.
//!
//! A bounded lock-free queue per worker. Senders post, the worker takes; a post to a full box comes
//! back to its sender, who waits or says so. A sleeping worker is woken once, however many mails
//! follow.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;
use hub::{ConnRef, DisconnectReason};
use smallvec::SmallVec;
use sys::waker::Waker;

use crate::Event;
use crate::doorbell::Doorbell;
use crate::limits::{MAIL_TARGETS_MAX, MAILS_MAX};
use crate::receipt::Stub;

/// The connections that a mail is for, all of one worker, sorted by slot.
pub(crate) type Targets = SmallVec<[ConnRef; 2]>;

/// What a worker is told.
#[derive(Debug)]
pub(crate) enum Mail {
    /// Hand the event to these connections.
    Deliver { event: Arc<Event>, targets: Targets, stub: Stub },
    /// What a held connection has missed. In a box, since it is rare.
    CatchUp(Box<CatchUp>),
    /// End these connections.
    Close { reason: DisconnectReason, targets: Targets, stub: Stub },
    /// Accept no more, end all streams once the mail before this is delivered, and stop: when the
    /// last connection is gone, or at this time (monotonic milliseconds) at the latest.
    Drain { deadline_ms: u64 },
}

/// What was sent before a client came back, and what else it is told.
#[derive(Debug)]
pub(crate) struct CatchUp {
    pub(crate) target: ConnRef,
    /// In the order of their numbers.
    pub(crate) events: Vec<Arc<Event>>,
    /// Whether there may have been others.
    pub(crate) gap: bool,
    /// The number up to which nothing is missing from here on.
    pub(crate) up_to: u64,
}

impl Mail {
    /// What it counts for: connections that handling it touches, or events that it brings one.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Mail::Deliver { targets, .. } | Mail::Close { targets, .. } => targets.len(),
            Mail::CatchUp(catch_up) => 1 + catch_up.events.len(),
            Mail::Drain { .. } => 0,
        }
    }
}

/// One worker's mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox {
    queue: ArrayQueue<Mail>,
    /// Targets in the queue. Relaxed: a bound on memory, good to within what senders post at once.
    targets: AtomicUsize,
    doorbell: Doorbell,
    waker: Waker,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Mailbox> {
        Ok(Mailbox {
            queue: ArrayQueue::new(MAILS_MAX),
            targets: AtomicUsize::new(0),
            doorbell: Doorbell::new(),
            waker: Waker::new()?,
        })
    }

    /// Posts `mail`, or gives it back when the box is full.
    pub(crate) fn post(&self, mail: Mail) -> Result<(), Mail> {
        if self.targets.load(Ordering::Relaxed) > MAIL_TARGETS_MAX {
            return Err(mail);
        }
        let weight = mail.weight();
        self.targets.fetch_add(weight, Ordering::Relaxed);
        if let Err(mail) = self.queue.push(mail) {
            self.targets.fetch_sub(weight, Ordering::Relaxed);
            return Err(mail);
        }
        if self.doorbell.must_ring() {
            self.waker.ring();
        }
        Ok(())
    }

    /// The worker's next mail.
    pub(crate) fn take(&self) -> Option<Mail> {
        let mail = self.queue.pop()?;
        self.targets.fetch_sub(mail.weight(), Ordering::Relaxed);
        Some(mail)
    }

    /// How many mails are waiting.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// The worker, before it waits: `true` when it may sleep, since every mail from now on rings.
    pub(crate) fn may_sleep(&self) -> bool {
        self.doorbell.lie_down();
        if self.queue.is_empty() {
            return true;
        }
        self.doorbell.get_up();
        false
    }

    /// The worker, after it has waited.
    pub(crate) fn awake(&self) {
        self.doorbell.get_up();
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_mailbox_gives_the_mail_back_and_its_receipt_completes_when_dropped() {
        let mailbox = Mailbox::new().unwrap();
        let event = Arc::new(Event::new(1, "a", "1"));
        let replies = Arc::new(crate::replies::Replies::new().unwrap());
        let (stub, receipt) = Stub::first(&replies);
        let deliver = |targets: usize| Mail::Deliver {
            event: event.clone(),
            targets: (0..targets).map(|slot| ConnRef::new(0, slot, 0)).collect(),
            stub: stub.another(),
        };
        mailbox.post(deliver(MAIL_TARGETS_MAX + 1)).unwrap();
        let back = mailbox.post(deliver(1)).unwrap_err();
        assert_eq!(back.weight(), 1);
        assert_eq!(mailbox.take().unwrap().weight(), MAIL_TARGETS_MAX + 1);
        for _ in 0..MAILS_MAX {
            mailbox.post(deliver(0)).unwrap();
        }
        assert!(mailbox.post(deliver(0)).is_err());
        drop((stub, back));
        assert_eq!(receipt.ready(), None);
        drop(mailbox);
        assert_eq!(receipt.ready(), Some(0));
    }
}
