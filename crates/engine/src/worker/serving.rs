//! Clients are served in slices: when it is this worker's turn for that, and as long as its time
//! goes.
//!
//! The kernel is asked in each turn that may serve clients, and what there is no time for is put
//! off ([`crate::service`]). As long as it is another worker's turn nothing is asked: a crowd that
//! resets its connections wakes nobody by it but once. Mail is delivered in between.

use std::sync::Arc;

use sync::permits::ServingPermits;
use sys::clock;
use sys::epoll::{Event, Events};

use super::{MAILBOX, Worker};
use crate::kernel::Kernel;
use crate::lane::lane_index;
use crate::limits::{EVENTS_PER_WAIT, LOOK_NS, SERVE_NS, SERVE_WITH_MAIL_NS};
use crate::listener::{LISTENERS_MAX, is_tls_listener};
use crate::reports::Report;
use crate::service::{self, Clients, Slice};
use crate::shard::Shard;
use crate::tls::Tls;

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
    permits: Option<Arc<ServingPermits>>,
    right: Right,
    /// What the last wait has reported.
    pub(super) reports: Events,
    /// Those before this one are dealt with.
    next: usize,
    /// Clients wait in the queue for plain ones, and in that for those of TLS.
    at_listeners: [bool; LISTENERS_MAX],
}

impl Serving {
    pub(super) fn new(permits: Option<Arc<ServingPermits>>) -> Serving {
        Serving {
            permits,
            right: Right::None,
            reports: Events::with_capacity(EVENTS_PER_WAIT),
            next: 0,
            at_listeners: [false; LISTENERS_MAX],
        }
    }

    /// This worker never waits for a permit.
    pub(super) fn take_no_permits(&mut self) {
        self.permits = None;
    }

    /// The kernel has been asked anew.
    pub(super) fn renew(&mut self) {
        (self.next, self.at_listeners) = (0, [false; LISTENERS_MAX]);
        for is_tls in self.reports.iter().filter_map(|event| is_tls_listener(event.token)) {
            self.at_listeners[usize::from(is_tls)] = true;
        }
        self.skip_others();
    }

    /// Whether there is something to do for clients that the kernel has reported.
    fn has_reports(&self) -> bool {
        self.next < self.reports.len() || self.at_listeners.contains(&true)
    }

    /// The next report of a connection.
    fn next_report(&mut self) -> Option<Event> {
        let event = self.reports.at(self.next)?;
        self.next += 1;
        self.skip_others();
        Some(event)
    }

    /// Passes over the reports that are of no client.
    fn skip_others(&mut self) {
        while self.reports.at(self.next).is_some_and(|event| !is_of_client(event)) {
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

    /// Gives the permit back where others wait for one.
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

    /// Serves clients, if it may, in a turn that began at `began_ns`, and does what is due.
    pub(super) fn serve_clients(&mut self, began_ns: u64) {
        let may_serve = self.has_clients_to_serve() && self.serving.may_serve(began_ns / 1_000_000);
        let has_mail = self.mailbox.len() > 0;
        let serve_ns = if has_mail { SERVE_WITH_MAIL_NS } else { SERVE_NS };
        let slice = may_serve.then_some(Slice { began_ns, serve_ns });
        service::begin(self, slice);
        service::go_on(self, slice);
        if self.has_clients_to_serve() {
            self.serving.share();
        } else {
            self.serving.give_way();
        }
    }
}

impl Clients for Worker {
    type Sockets = Tls<Kernel>;

    fn shard(&mut self) -> &mut Shard<Tls<Kernel>> {
        &mut self.shard
    }

    fn next_report(&mut self) -> Option<Report> {
        let event = self.serving.next_report()?;
        Some(Report {
            // It needs no generation, for what is closed leaves epoll at once.
            slot: event.token as u32,
            readable: event.readable(),
            writable: event.writable(),
            hung_up: event.hung_up(),
        })
    }

    fn accept(&mut self, until_ns: u64) {
        let at_listeners = std::mem::take(&mut self.serving.at_listeners);
        for listener in 0..self.listeners.len() {
            match at_listeners[usize::from(self.listeners[listener].is_tls)] {
                true => self.accept_at(listener, until_ns),
                false => self.listeners[listener].accepts = 1,
            }
        }
    }

    fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }
}

/// Whether a report is of a client's connection. The mailbox is edge-triggered: each ring is a
/// report of its own, nothing must be read. A lane was told of its own before, and listeners are
/// noted.
fn is_of_client(event: Event) -> bool {
    event.token != MAILBOX
        && is_tls_listener(event.token).is_none()
        && lane_index(event.token).is_none()
}
