//! How many workers serve clients at one time.
//!
//! Descriptor limits may ask for fifty workers on two cores. As long as clients are silent that is
//! as good as two. But in a storm, when thousands of clients reset their connections and come back,
//! all of them have work at once. Then each has a fiftieth of the processor, and so has every other
//! thread. An event waits for its sender's turn, for the control plane's, for the worker's. So what
//! clients do is dealt with by as many workers at a time as there are cores. The others keep what
//! is reported to them, and deliver mail meanwhile. As long as no mail comes there is nothing that
//! would wait, and everybody serves clients as they come.
//!
//! Whoever has waited longest is next. A permit that is given back while somebody waits goes to
//! that one by the same system call that wakes it. Nobody waits for longer than it says, so a
//! worker looks after its mail in between, and nothing is lost with one that goes on without.
//!
//! Cost: two additions to a number that all workers share, in a turn that serves clients while mail
//! comes. None where there are no more workers than cores.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
use sys::futex;

#[cfg(loom)]
use self::loom_tests::futex;

/// How long after the last mail of any worker, in milliseconds, those that serve clients give way
/// to it. More than what keeps a sender from its turn in a storm: with 100 ms workers took a sender
/// that waited for the processor for one that had nothing to say, and all of them kept it waiting.
pub const QUIET_MS: u64 = 5_000;

/// The permits of all workers.
#[derive(Debug)]
pub struct ServingPermits {
    /// Permits that nobody has, and the word at which workers wait while there is none.
    ///
    /// Ordering: sequentially consistent with `waiting`. Whoever waits says so first and then looks
    /// for a permit; whoever gives one back looks first who waits. So they miss each other only
    /// where the one who waits falls asleep in between, which ends with its time.
    free: AtomicU32,
    /// Workers that wait, or are about to.
    waiting: AtomicU32,
    /// When a worker had mail last, in milliseconds on the monotonic clock. Ordering: relaxed,
    /// since who sees it late only serves a client more or less by itself.
    mail_ms: AtomicU64,
}

impl ServingPermits {
    /// As many as there are `cores`; `None` where `workers` are no more than that.
    pub fn new(workers: usize, cores: usize) -> Option<ServingPermits> {
        let free = AtomicU32::new(u32::try_from(cores.max(1)).unwrap_or(u32::MAX));
        let are_scarce = workers > cores;
        are_scarce.then(|| ServingPermits {
            free,
            waiting: AtomicU32::new(0),
            mail_ms: AtomicU64::new(0),
        })
    }

    /// A worker has mail, at `now_ms`.
    pub fn mail_has_come(&self, now_ms: u64) {
        // The look first: as long as all say the same, the line stays shared.
        if self.mail_ms.load(Ordering::Relaxed) != now_ms {
            self.mail_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Whether clients may be served without one at `now_ms`: there is no mail that would wait for
    /// it.
    pub fn are_idle(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.mail_ms.load(Ordering::Relaxed)) > QUIET_MS
    }

    /// Takes one, if there is one. Whoever has it gives it back.
    pub fn take(&self) -> bool {
        let one_less = |free: u32| free.checked_sub(1);
        self.free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
    }

    /// Whether somebody waits for one.
    pub fn are_awaited(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Waits for one until `until_ns` on the monotonic clock; whether it was had.
    pub fn wait(&self, until_ns: u64) -> bool {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let is_given = futex::wait(&self.free, 0, until_ns);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        is_given || self.take()
    }

    /// Gives one back: to the one who has waited longest, or to whoever comes.
    pub fn give_back(&self) {
        if !self.are_awaited() || !matches!(futex::wake_one(&self.free), Ok(true)) {
            self.free.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use sys::clock;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn there_are_none_where_each_worker_has_a_core() {
        assert!(ServingPermits::new(2, 2).is_none());
        let permits = ServingPermits::new(3, 2).unwrap();
        assert!(permits.take() && permits.take() && !permits.take());
        permits.give_back();
        assert!(permits.take());
    }

    #[test]
    fn they_are_for_the_time_in_which_mail_comes() {
        let permits = ServingPermits::new(2, 1).unwrap();
        assert!(permits.are_idle(100_000), "there was no mail ever");
        permits.mail_has_come(100_000);
        assert!(!permits.are_idle(100_000) && !permits.are_idle(100_000 + QUIET_MS));
        assert!(permits.are_idle(100_000 + QUIET_MS + 1));
    }

    #[test]
    fn wait_ends_with_its_time() {
        let permits = ServingPermits::new(2, 1).unwrap();
        assert!(permits.take());
        let until_ns = clock::monotonic_ns() + 1_000_000;
        assert!(!permits.wait(until_ns));
        assert!(clock::monotonic_ns() >= until_ns && !permits.are_awaited());
    }

    #[test]
    fn permit_goes_to_the_one_who_waits_and_not_to_one_who_comes() {
        let permits = Arc::new(ServingPermits::new(2, 1).unwrap());
        assert!(permits.take());
        let waits = {
            let permits = permits.clone();
            thread::spawn(move || permits.wait(clock::monotonic_ns() + 100 * SECOND_NS))
        };
        // Before it sleeps whoever asks has it, and once it does nobody else.
        loop {
            permits.give_back();
            if !permits.take() {
                break;
            }
        }
        assert!(waits.join().unwrap());
        assert!(!permits.take(), "it was given to both");
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;

    use super::*;

    /// What futex(2) does, but that a time is over at once: one who waits is woken, or was not
    /// before it looked.
    pub(super) mod futex {
        use std::io;

        use loom::sync::Mutex;
        use loom::sync::atomic::{AtomicU32, Ordering};
        use loom::thread;

        loom::lazy_static! {
            static ref SLEEPERS: Mutex<Vec<(usize, bool)>> = Mutex::new(Vec::new());
            static ref NUMBER: loom::sync::atomic::AtomicUsize =
                loom::sync::atomic::AtomicUsize::new(0);
        }

        pub(in super::super) fn wait(word: &AtomicU32, while_is: u32, _until_ns: u64) -> bool {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            {
                let mut sleepers = SLEEPERS.lock().unwrap();
                if word.load(Ordering::SeqCst) != while_is {
                    return false;
                }
                sleepers.push((number, false));
            }
            thread::yield_now();
            let mut sleepers = SLEEPERS.lock().unwrap();
            let at = sleepers.iter().position(|&(sleeper, _)| sleeper == number).unwrap();
            sleepers.remove(at).1
        }

        pub(in super::super) fn wake_one(_word: &AtomicU32) -> io::Result<bool> {
            let mut sleepers = SLEEPERS.lock().unwrap();
            let sleeper = sleepers.iter_mut().find(|(_, is_woken)| !is_woken);
            Ok(sleeper.map(|(_, is_woken)| *is_woken = true).is_some())
        }
    }

    /// However two workers take turns: one permit is never had by both, and none is lost.
    #[test]
    fn permit_is_had_by_one_and_comes_back() {
        loom::model(|| {
            let permits = Arc::new(ServingPermits::new(2, 1).unwrap());
            let held = Arc::new(AtomicU32::new(0));
            let serve = |permits: &ServingPermits, held: &AtomicU32| {
                if permits.take() || permits.wait(0) {
                    assert_eq!(held.fetch_add(1, Ordering::SeqCst), 0);
                    held.fetch_sub(1, Ordering::SeqCst);
                    permits.give_back();
                }
            };
            let other = {
                let (permits, held) = (permits.clone(), held.clone());
                loom::thread::spawn(move || serve(&permits, &held))
            };
            serve(&permits, &held);
            other.join().unwrap();
            assert!(permits.take() && !permits.take());
        });
    }
}
