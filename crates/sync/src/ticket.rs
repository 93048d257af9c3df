//! Tickets: a count that several threads add to, and that is complete when all of them are done.
//!
//! Each of them has a [`Stub`], counts on it and drops it; the last stub to go completes the
//! ticket. One that is thrown away unused is dropped too, so nobody waits for ever.
//!
//! Who waits, and how it is told, is for the user to say ([`Waiter`]).
//!
//! Cost: one allocation a ticket, and two additions to it for each stub, whatever was counted.

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

/// Who waits for a ticket.
pub trait Waiter: Sized {
    /// All stubs of its ticket are gone, and it is ready. Called once, by whoever dropped the last
    /// of them.
    fn complete(&self);
}

#[derive(Debug)]
struct Shared<W> {
    /// Stubs that are still out.
    open: AtomicU32,
    count: AtomicU32,
    waiter: W,
}

/// The half of the one who waits for the count.
#[derive(Debug)]
pub struct Ticket<W>(Arc<Shared<W>>);

/// The half of one who counts.
#[derive(Debug)]
pub struct Stub<W: Waiter> {
    ticket: Ticket<W>,
    count: u32,
}

impl<W> Clone for Ticket<W> {
    fn clone(&self) -> Ticket<W> {
        Ticket(Arc::clone(&self.0))
    }
}

impl<W: Waiter> Ticket<W> {
    /// A ticket's first stub, and the ticket, which completes when all its stubs are gone.
    pub fn new(waiter: W) -> (Stub<W>, Ticket<W>) {
        let (open, count) = (AtomicU32::new(1), AtomicU32::new(0));
        let ticket = Ticket(Arc::new(Shared { open, count, waiter }));
        (Stub { ticket: ticket.clone(), count: 0 }, ticket)
    }

    /// The count, when all stubs are gone.
    pub fn ready(&self) -> Option<u32> {
        let done = self.0.open.load(Ordering::Acquire) == 0;
        done.then(|| self.0.count.load(Ordering::Relaxed))
    }

    /// Who waits for it.
    pub fn waiter(&self) -> &W {
        &self.0.waiter
    }
}

impl<W: Waiter> Stub<W> {
    /// One more stub of the same ticket.
    pub fn another(&self) -> Stub<W> {
        // Ordering: relaxed, as for a reference count: `self` keeps the ticket open meanwhile.
        let open = self.ticket.0.open.fetch_add(1, Ordering::Relaxed);
        debug_assert!(open > 0, "the sender was told already");
        Stub { ticket: self.ticket.clone(), count: 0 }
    }

    /// Who waits for the ticket.
    pub fn waiter(&self) -> &W {
        self.ticket.waiter()
    }

    /// Adds one to the count.
    pub fn count_one(&mut self) {
        self.count += 1;
    }
}

impl<W: Waiter> Drop for Stub<W> {
    fn drop(&mut self) {
        let shared = &self.ticket.0;
        // Ordering: the release of each stub's count is acquired by the last one through the same
        // counter, so whoever waits reads the full sum.
        shared.count.fetch_add(self.count, Ordering::Relaxed);
        let open = shared.open.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(open > 0, "there are more stubs than were made");
        if open == 1 {
            shared.waiter.complete();
        }
    }
}

/// One who counts how often it is told.
#[cfg(test)]
#[derive(Debug)]
struct Told(AtomicU32);

#[cfg(test)]
impl Waiter for Told {
    fn complete(&self) {
        // Ordering: whoever sees that it was told sees what came before that.
        self.0.fetch_add(1, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ticket_is_ready_when_the_last_stub_is_gone() {
        let (first, ticket) = Ticket::new(Told(AtomicU32::new(0)));
        let mut stubs: Vec<_> = (0..3).map(|_| first.another()).collect();
        drop(first);
        assert_eq!(ticket.ready(), None);
        stubs[0].count_one();
        stubs[0].count_one();
        stubs[2].count_one();
        stubs.pop();
        assert_eq!((ticket.ready(), ticket.waiter().0.load(Ordering::Relaxed)), (None, 0));
        drop(stubs);
        assert_eq!((ticket.ready(), ticket.waiter().0.load(Ordering::Relaxed)), (Some(3), 1));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    /// Whoever drops the last stub, and whenever: a ticket that is ready has the full count, and
    /// the one who waits is told once.
    #[test]
    fn ready_ticket_has_every_stub_counted() {
        loom::model(|| {
            let (first, ticket) = Ticket::new(Told(AtomicU32::new(0)));
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let mut stub = first.another();
                    loom::thread::spawn(move || stub.count_one())
                })
                .collect();
            drop(first);
            let is_told = ticket.waiter().0.load(Ordering::Acquire) > 0;
            assert!(!is_told || ticket.ready().is_some(), "told too early");
            assert!(ticket.ready().is_none_or(|count| count == 2));
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            assert_eq!(ticket.ready(), Some(2));
            assert_eq!(ticket.waiter().0.load(Ordering::Relaxed), 1);
        });
    }
}
