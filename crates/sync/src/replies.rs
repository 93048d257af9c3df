//! The way back: how a worker wakes the senders that wait for their receipts.
//!
//! A worker must not wake an async task itself. It has a private descriptor table, and a runtime
//! may wake its threads by writing to a descriptor. Under that number the worker has another file,
//! at worst a client's socket. So the wakers of complete receipts go into a queue, and one bell
//! that all workers keep in their tables tells the control plane to look. It is rung once when the
//! control plane sleeps, not once a receipt.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::Waker;

use crossbeam_queue::SegQueue;

use crate::doorbell::Doorbell;

/// The complete receipts that somebody waits for.
#[derive(Debug)]
pub struct Replies {
    /// As long as there are senders that wait, which whoever lets them in bounds.
    wakers: SegQueue<Waker>,
    doorbell: Doorbell,
    bell: sys::waker::Waker,
}

impl Replies {
    /// Of nobody yet.
    pub fn new() -> io::Result<Replies> {
        let bell = sys::waker::Waker::new()?;
        Ok(Replies { wakers: SegQueue::new(), doorbell: Doorbell::default(), bell })
    }

    /// Whoever waits is to be woken.
    pub fn post(&self, sender: Waker) {
        self.wakers.push(sender);
        if self.doorbell.must_ring() {
            self.bell.ring();
        }
    }

    /// Wakes all senders whose receipts are complete. `true` when the caller may then sleep until
    /// the descriptor is reported readable, once for each ring (edge-triggered; it is never read);
    /// otherwise there are more already.
    pub fn wake_senders(&self) -> bool {
        self.doorbell.mark_awake();
        while let Some(sender) = self.wakers.pop() {
            sender.wake();
        }
        self.doorbell.mark_asleep();
        self.wakers.is_empty()
    }
}

impl AsFd for Replies {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
