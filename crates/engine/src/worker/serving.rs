//! Clients are served in slices: when it is this worker's turn for that, and as long as its time
//! goes.
//!
//! What the kernel reports of clients is kept until it is dealt with, and no more is asked for
//! before. So a crowd that resets its connections wakes nobody by it but once, and what it has left
//! to be done costs nothing until there is time for it. Mail is delivered in between.

use std::sync::Arc;

use sync::permits::Permits;
use sys::clock;
use sys::epoll::{Event, Events};

use super::{MAILBOX, Worker};
use crate::door::{DOORS_MAX, is_tls_door};
use crate::lane::lane_index;
use crate::limits::{EVENTS_PER_WAIT, LOOK_NS, SERVE_NS, SERVE_WITH_MAIL_NS};

/// Whether a worker may serve clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Right {
    None,
    /// It takes no permit.
    Free,
    /// It has one.
    Permit,
}

/// What there is to do for clients, and whether it may be done.
pub(super) struct Serving {
    permits: Option<Arc<Permits>>,
    right: Right,
    /// What the last wait has reported.
    pub(super) reports: Events,
    /// Those before this one are dealt with.
    next: usize,
    /// Clients wait in the queue for plain ones, and in that for those of TLS.
    at_doors: [bool; DOORS_MAX],
}

impl Serving {
    pub(super) fn new(permits: Option<Arc<Permits>>) -> Serving {
        Serving {
            permits,
            right: Right::None,
            reports: Events::with_capacity(EVENTS_PER_WAIT),
            next: 0,
            at_doors: [false; DOORS_MAX],
        }
    }

    /// This worker never waits for a permit.
    pub(super) fn take_no_permits(&mut self) {
        self.permits = None;
    }

    /// The kernel has been asked anew.
    pub(super) fn renew(&mut self) {
        self.next = 0;
    }

    /// Whether there is something to do for clients that the kernel has reported.
    pub(super) fn has_reports(&self) -> bool {
        self.next < self.reports.len() || self.at_doors.contains(&true)
    }

    /// The next report of a connection. What is said of doors is noted.
    fn next_report(&mut self) -> Option<Event> {
        loop {
            let event = self.reports.at(self.next)?;
            self.next += 1;
            match is_tls_door(event.token) {
                Some(is_tls) => self.at_doors[usize::from(is_tls)] = true,
                None if is_of_client(event) => return Some(event),
                None => {}
            }
        }
    }

    /// Passes over the reports that are of no client.
    fn skip_rings(&mut self) {
        let is_other = |event| !is_of_client(event) && is_tls_door(event.token).is_none();
        while self.reports.at(self.next).is_some_and(is_other) {
            self.next += 1;
        }
    }

    /// Whether this worker may serve clients, at `now_ms`.
    fn may_serve(&mut self, now_ms: u64) -> bool {
        self.right = match &self.permits {
            _ if self.right == Right::Permit => Right::Permit,
            Some(permits) if !permits.are_idle(now_ms) => match permits.take() {
                true => Right::Permit,
                false => Right::None,
            },
            _ => Right::Free,
        };
        self.right != Right::None
    }

    /// Waits until it may, but no longer than until it is time to look for mail.
    pub(super) fn wait_for_permit(&mut self) {
        if let (Some(permits), Right::None) = (&self.permits, self.right) {
            let now_ns = clock::monotonic_ns();
            if permits.wait(now_ns - now_ns % LOOK_NS + LOOK_NS) {
                self.right = Right::Permit;
            }
        }
    }

    /// This worker has mail, at `now_ms`.
    pub(super) fn mail_has_come(&self, now_ms: u64) {
        if let Some(permits) = &self.permits {
            permits.mail_has_come(now_ms);
        }
    }

    /// Others may serve clients.
    pub(super) fn give_way(&mut self) {
        if let (Some(permits), Right::Permit) = (&self.permits, self.right) {
            permits.give_back();
        }
        self.right = Right::None;
    }

    /// The same, where others wait for that.
    fn share(&mut self) {
        if self.permits.as_ref().is_some_and(|permits| permits.are_awaited()) {
            self.give_way();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.give_way();
    }
}

impl Worker {
    /// Whether there is something to do for clients.
    fn has_clients_to_serve(&self) -> bool {
        self.serving.has_reports() || self.shard.has_deferred()
    }

    /// Whether clients are to be served, and it is not this worker's turn for that.
    pub(super) fn waits_to_serve(&self) -> bool {
        self.has_clients_to_serve() && self.serving.right == Right::None
    }

    /// Whether clients are to be served at once.
    pub(super) fn serves_on(&self) -> bool {
        self.has_clients_to_serve() && self.serving.right != Right::None
    }

    /// Serves clients, if it may, in a turn that began at `began_ns`.
    pub(super) fn serve_clients(&mut self, began_ns: u64) {
        self.serving.skip_rings();
        if self.has_clients_to_serve() && self.serving.may_serve(began_ns / 1_000_000) {
            let has_mail = self.mailbox.len() > 0;
            let until_ns = began_ns + if has_mail { SERVE_WITH_MAIL_NS } else { SERVE_NS };
            self.shard.read_deferred();
            self.take_reports(until_ns);
        }
        if self.has_clients_to_serve() {
            self.serving.share();
        } else {
            self.serving.give_way();
        }
    }

    fn take_reports(&mut self, until_ns: u64) {
        while !self.shard.is_spent()
            && let Some(event) = self.serving.next_report()
        {
            let slot = slot_of(event.token);
            if event.writable() {
                self.shard.writable(slot);
            }
            if event.readable() {
                self.shard.readable(slot, event.hung_up());
            }
            if clock::monotonic_ns() >= until_ns {
                break;
            }
        }
        // Nobody is accepted before: a report is of who had its slot when it was made.
        if self.serving.next < self.serving.reports.len() {
            return;
        }
        let at_doors = std::mem::take(&mut self.serving.at_doors);
        for door in 0..self.doors.len() {
            match at_doors[usize::from(self.doors[door].is_tls)] {
                true => self.accept(door, until_ns),
                false => self.doors[door].accepts = 1,
            }
        }
    }
}

/// Whether a report is of a client's connection. The mailbox is edge-triggered: each ring is a
/// report of its own, nothing must be read. A lane was told of its own before.
fn is_of_client(event: Event) -> bool {
    event.token != MAILBOX
        && is_tls_door(event.token).is_none()
        && lane_index(event.token).is_none()
}

/// The slot that a report is for. It needs no generation: what is closed leaves epoll at once, and
/// a slot is given away again only when all reports of a wait are dealt with.
fn slot_of(token: u64) -> u32 {
    token as u32
}
