//! When a worker sleeps for a fixed time instead of until it is woken.
//!
//! Waking a sleeping thread costs its sender a system call and the machine two context switches and
//! often an interrupt, which together are more than a small delivery itself. With two workers that
//! hardly shows: at a rate that hurts they never sleep. But where descriptor limits ask for fifty
//! workers, each gets a fiftieth of the mail and sleeps after each.
//!
//! So a worker whose mail comes in short intervals sleeps for a short time. It waits for sockets
//! and timers as ever. But it tells no sender that it sleeps, and looks into its mailbox when the
//! short sleep is over. Mail of several senders and events is then taken in one turn, for one
//! wake-up. This is what network cards do with their interrupts (interrupt moderation) and the
//! kernel with theirs (NAPI).
//!
//! The short sleep is as long as keeps each core at [`WAKES_PER_CORE_MAX`], and never over
//! [`SHORT_SLEEP_NS_MAX`]. With few workers to a core it is zero and all is as if there were none.
//! A worker that sleeps because nothing has come for longer than a short sleep is woken at
//! once, as ever.

use crate::limits::{SHORT_SLEEP_NS_MAX, WAKES_PER_CORE_MAX};

/// The short sleeps of one worker.
#[derive(Debug)]
pub(crate) struct ShortSleep {
    period_ns: u64,
    last_mail_ns: Option<u64>,
    due: bool,
}

impl ShortSleep {
    /// For one of `workers` on `cores`.
    pub(crate) fn new(workers: usize, cores: usize) -> ShortSleep {
        let period_ms = (workers * 1_000 / (cores.max(1) * WAKES_PER_CORE_MAX)) as u64;
        let period_ns = (period_ms * 1_000_000).min(SHORT_SLEEP_NS_MAX);
        ShortSleep { period_ns, last_mail_ns: None, due: false }
    }

    /// After a turn that began at `now_ns`: mail that follows mail within a short sleep's time is
    /// worth a short sleep; a turn without mail ends the series.
    pub(crate) fn turned(&mut self, took_mail: bool, now_ns: u64) {
        let last_ns = if took_mail { self.last_mail_ns.replace(now_ns) } else { None };
        self.due = self.period_ns > 0
            && last_ns.is_some_and(|last_ns| now_ns.saturating_sub(last_ns) <= self.period_ns);
    }

    /// How long to sleep for a short time at `now_ns`; `None` is not at all. All short sleeps end
    /// at the same times, whole multiples of their length: one interrupt ends many, and what all
    /// workers send then comes in one burst, of which a client's machine takes its part in one go
    /// too.
    pub(crate) fn due_ns(&self, now_ns: u64) -> Option<u64> {
        self.due.then(|| self.period_ns - now_ns % self.period_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn worker_sleeps_shortly_while_mail_comes_in_short_intervals() {
        let mut sleep = ShortSleep::new(20, 2);
        sleep.turned(true, 100 * MS);
        assert_eq!(sleep.due_ns(100 * MS), None, "one mail makes no series");
        sleep.turned(true, 101 * MS);
        assert_eq!(sleep.due_ns(101 * MS), Some(MS));
        assert_eq!(sleep.due_ns(102 * MS - 1), Some(1), "it ends with those of the others");
        sleep.turned(true, 102 * MS);
        assert_eq!(sleep.due_ns(102 * MS), Some(2 * MS));
        sleep.turned(false, 104 * MS);
        assert_eq!(sleep.due_ns(104 * MS), None, "nothing had come");
        sleep.turned(true, 200 * MS);
        assert_eq!(sleep.due_ns(200 * MS), None, "the series had ended long ago");
    }

    #[test]
    fn few_workers_to_a_core_never_sleep_like_that() {
        let mut sleep = ShortSleep::new(2, 2);
        sleep.turned(true, 100 * MS);
        sleep.turned(true, 100 * MS);
        assert_eq!(sleep.due_ns(100 * MS), None);
    }

    #[test]
    fn short_sleep_has_a_bound() {
        let mut sleep = ShortSleep::new(4_000, 1);
        sleep.turned(true, 99 * MS);
        sleep.turned(true, 99 * MS + 1);
        assert_eq!(sleep.due_ns(99 * MS), Some(SHORT_SLEEP_NS_MAX));
    }
}
