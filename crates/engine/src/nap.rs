//! When a worker sleeps for a fixed time instead of until it is woken.
//!
//! Waking a sleeping thread costs its sender a system call and the machine two context switches and
//! often an interrupt, which together are more than a small delivery itself. With two workers that
//! hardly shows: at a rate that hurts they never sleep. But where descriptor limits ask for fifty
//! workers, each gets a fiftieth of the mail and sleeps after each.
//!
//! So a worker whose mail comes in short intervals naps: it waits for sockets and timers as ever,
//! but tells no sender that it sleeps, and looks into its mailbox when the nap is over. Mail of
//! several senders and events is then taken in one turn, for one wake-up. This is what network
//! cards do with their interrupts (interrupt moderation) and the kernel with theirs (NAPI).
//!
//! The nap is as long as keeps each core at [`WAKES_PER_CORE_MAX`], and never over [`NAP_MS_MAX`].
//! With few workers to a core it is zero and all is as if there were no naps. A worker that sleeps
//! because nothing has come for longer than a nap is woken at once, as ever.

use crate::limits::{NAP_MS_MAX, WAKES_PER_CORE_MAX};

/// One worker's naps.
#[derive(Debug)]
pub(crate) struct Nap {
    period_ms: u64,
    last_mail_ms: Option<u64>,
    due: bool,
}

impl Nap {
    /// For one of `workers` on `cores`.
    pub(crate) fn new(workers: usize, cores: usize) -> Nap {
        let period_ms = (workers * 1_000 / (cores.max(1) * WAKES_PER_CORE_MAX)) as u64;
        Nap { period_ms: period_ms.min(NAP_MS_MAX), last_mail_ms: None, due: false }
    }

    /// After a turn that began at `now_ms`: mail that follows mail within a nap's time is worth a
    /// nap; a turn without mail ends the series.
    pub(crate) fn turned(&mut self, took_mail: bool, now_ms: u64) {
        let last_ms = if took_mail { self.last_mail_ms.replace(now_ms) } else { None };
        self.due = self.period_ms > 0
            && last_ms.is_some_and(|last_ms| now_ms.saturating_sub(last_ms) <= self.period_ms);
    }

    /// How long to nap at `now_ms`; `None` is not at all. All naps end at the same times, whole
    /// multiples of their length: one interrupt ends many, and what all workers send then comes in
    /// one burst, of which a client's machine takes its part in one go too.
    pub(crate) fn due_ms(&self, now_ms: u64) -> Option<u64> {
        self.due.then(|| self.period_ms - now_ms % self.period_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_naps_while_mail_comes_in_short_intervals() {
        let mut nap = Nap::new(50, 2);
        nap.turned(true, 100);
        assert_eq!(nap.due_ms(100), None, "one mail makes no series");
        nap.turned(true, 104);
        assert_eq!(nap.due_ms(104), Some(1));
        nap.turned(true, 105);
        assert_eq!(nap.due_ms(105), Some(5));
        nap.turned(false, 110);
        assert_eq!(nap.due_ms(110), None, "nothing had come");
        nap.turned(true, 200);
        assert_eq!(nap.due_ms(200), None, "the series had ended long ago");
    }

    #[test]
    fn few_workers_to_a_core_never_nap() {
        let mut nap = Nap::new(2, 2);
        nap.turned(true, 100);
        nap.turned(true, 100);
        assert_eq!(nap.due_ms(100), None);
    }

    #[test]
    fn nap_has_a_bound() {
        let mut nap = Nap::new(4_000, 1);
        nap.turned(true, 100);
        nap.turned(true, 101);
        assert_eq!(nap.due_ms(100), Some(NAP_MS_MAX));
    }
}
