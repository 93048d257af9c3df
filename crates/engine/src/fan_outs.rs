//! Which workers may send to large audiences, where [not all may](sync::fan_outs) at one time.
//!
//! A permit is kept for [`HOLD_NS`], or until nothing is left to send, so every worker's audience
//! has its turn. A worker that waits for one sleeps as it does for mail, and is rung by its bell.
//!
//! Cost: a copy of each worker's eventfd in each table. None where there are no more workers than
//! cores.

use std::sync::Arc;

use sync::fan_outs::FanOutPermits;

use crate::limits::BELLS_SHARE;
use crate::mailbox::Mailbox;

/// How long a worker keeps its permit while others wait, in nanoseconds: some hundred writes to a
/// permit that is passed on for one system call, and a round of 53 workers on two cores in 0.13 s.
pub(crate) const HOLD_NS: u64 = 5_000_000;

/// The permits, and what wakes those who wait for one.
#[derive(Debug)]
pub(crate) struct RungPermits {
    permits: FanOutPermits,
    mailboxes: Arc<[Arc<Mailbox>]>,
}

impl RungPermits {
    /// As many as there are `cores`. `None` where `workers` are no more than that, and where their
    /// bells would take more than a small part of each worker's `descriptors`.
    pub(crate) fn of(
        workers: usize,
        cores: usize,
        descriptors: u64,
        mailboxes: &Arc<[Arc<Mailbox>]>,
    ) -> Option<Arc<RungPermits>> {
        let have_bells = mailboxes.len() as u64 <= descriptors / BELLS_SHARE;
        let permits = FanOutPermits::new(workers, cores).filter(|_| have_bells)?;
        Some(Arc::new(RungPermits { permits, mailboxes: mailboxes.clone() }))
    }

    /// Takes one for `worker`, or has it stand in the queue.
    pub(crate) fn take(&self, worker: usize) -> bool {
        self.permits.take(worker, |passed| self.ring(passed))
    }

    /// Whether `worker`, which stood in the queue, was passed one.
    pub(crate) fn is_granted(&self, worker: usize) -> bool {
        self.permits.is_granted(worker)
    }

    /// Takes what `worker` was passed, if it was.
    pub(crate) fn take_granted(&self, worker: usize) -> bool {
        self.permits.take_granted(worker)
    }

    /// Gives one back: to the worker that has waited longest, which is woken.
    pub(crate) fn give_back(&self) {
        self.permits.give_back(|passed| self.ring(passed));
    }

    /// `worker`, which stood in the queue, wants none any more.
    pub(crate) fn leave(&self, worker: usize) {
        self.permits.leave(worker, |passed| self.ring(passed));
    }

    fn ring(&self, worker: usize) {
        self.mailboxes[worker].bell().ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailboxes(count: usize) -> Arc<[Arc<Mailbox>]> {
        (0..count).map(|_| Arc::new(Mailbox::new().unwrap())).collect()
    }

    #[test]
    fn there_are_none_where_bells_take_too_many_descriptors() {
        let few = mailboxes(3);
        assert!(RungPermits::of(2, 2, 20_000, &few).is_none());
        assert!(RungPermits::of(3, 2, 3 * BELLS_SHARE, &few).is_some());
        assert!(RungPermits::of(3, 2, 3 * BELLS_SHARE - 1, &few).is_none());
    }

    #[test]
    fn worker_that_sleeps_is_rung_for_when_it_is_passed_one() {
        let mailboxes = mailboxes(2);
        let permits = RungPermits::of(2, 1, 20_000, &mailboxes).unwrap();
        assert!(permits.take(0) && !permits.take(1));
        // It sleeps, as far as its bell knows.
        assert!(mailboxes[1].may_sleep(true) && !permits.is_granted(1));
        permits.give_back();
        assert!(permits.is_granted(1));
        assert!(!mailboxes[1].bell().is_asleep(), "it was rung for");
    }
}
