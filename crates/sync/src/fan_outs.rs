//! How many workers send to large audiences at one time.
//!
//! Descriptor limits may ask for fifty workers on two cores. An event for a large audience then
//! gives all of them work for seconds. The kernel lets them run in turn, so each that has a small
//! event waits for fifty slices of others before its own. So only as many workers at a time as
//! there are cores hand events to large audiences and write to these. The others serve their
//! clients and deliver small mail meanwhile, and sleep where there is none.
//!
//! A worker stands in a queue for its permit, and a worker that gives one back passes it to the
//! first in there. All go the same way: a worker enters the queue, or frees a permit, and then
//! [pairs](FanOutPermits::pair) those who wait with what is free. Both write first and look second,
//! with a full fence between, so that one of two at the same time sees the other. A worker that
//! wants it no more leaves its entry behind, which is passed over.
//!
//! Cost: some ten atomic operations when a worker begins or ends with a large audience.

use crossbeam_queue::ArrayQueue;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU8, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering, fence};

/// It has no entry in the queue, and was passed nothing.
const OUT: u8 = 0;
/// It has one.
const WAITS: u8 = 1;
/// It has one, and wants no permit any more.
const LEFT: u8 = 2;
/// It was passed a permit, and has not seen it yet.
const GRANTED: u8 = 3;

/// The permits of all workers.
#[derive(Debug)]
pub struct FanOutPermits {
    free: AtomicUsize,
    /// One entry for a worker at most.
    queue: ArrayQueue<usize>,
    /// Ordering: sequentially consistent, as `free`; what a permit is for is each worker's own.
    states: Box<[AtomicU8]>,
}

impl FanOutPermits {
    /// As many as there are `cores`; `None` where `workers` are no more than that.
    pub fn new(workers: usize, cores: usize) -> Option<FanOutPermits> {
        let free = AtomicUsize::new(cores.max(1));
        let states = (0..workers).map(|_| AtomicU8::new(OUT)).collect();
        (workers > cores).then(|| FanOutPermits { free, queue: ArrayQueue::new(workers), states })
    }

    /// Takes one for `worker`, or has it wait; whether it was had. Calls `wake` for each worker
    /// that is passed one, perhaps for this one.
    pub fn take(&self, worker: usize, wake: impl Fn(usize)) -> bool {
        // Its old entry is still there, and is its place.
        if !self.change(worker, LEFT, WAITS) {
            self.states[worker].store(WAITS, Ordering::SeqCst);
            self.queue.push(worker).expect("each worker has one entry");
        }
        self.pair(wake);
        self.take_granted(worker)
    }

    /// Whether `worker`, which waits, was passed one. It looks between saying that it sleeps and
    /// its sleep, as it does for mail.
    pub fn is_granted(&self, worker: usize) -> bool {
        self.states[worker].load(Ordering::SeqCst) == GRANTED
    }

    /// Takes what `worker` was passed, if it was.
    pub fn take_granted(&self, worker: usize) -> bool {
        self.change(worker, GRANTED, OUT)
    }

    /// Gives one back. Calls `wake` for the worker that is passed it.
    pub fn give_back(&self, wake: impl Fn(usize)) {
        self.free.fetch_add(1, Ordering::SeqCst);
        self.pair(wake);
    }

    /// `worker`, which waits, wants none any more.
    pub fn leave(&self, worker: usize, wake: impl Fn(usize)) {
        if !self.change(worker, WAITS, LEFT) && self.take_granted(worker) {
            self.give_back(wake);
        }
    }

    /// Passes what is free to those who wait.
    fn pair(&self, wake: impl Fn(usize)) {
        // Orders what was just written before the looks, as does the one below.
        fence(Ordering::SeqCst);
        let one_less = |free: usize| free.checked_sub(1);
        while self.free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            if let Some(worker) = self.next() {
                wake(worker);
                continue;
            }
            self.free.fetch_add(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if self.queue.is_empty() {
                return;
            }
        }
    }

    /// The first in the queue that still wants one, to whom it is passed.
    fn next(&self) -> Option<usize> {
        loop {
            let worker = self.queue.pop()?;
            loop {
                if self.change(worker, WAITS, GRANTED) {
                    return Some(worker);
                }
                // It may want one again in between.
                if self.change(worker, LEFT, OUT) {
                    break;
                }
            }
        }
    }

    fn change(&self, worker: usize, from: u8, to: u8) -> bool {
        let state = &self.states[worker];
        state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn silent(_: usize) {}

    #[test]
    fn there_are_none_where_each_worker_has_a_core() {
        assert!(FanOutPermits::new(2, 2).is_none() && FanOutPermits::new(3, 2).is_some());
    }

    #[test]
    fn permit_goes_to_the_worker_that_has_waited_longest_and_wakes_it() {
        let permits = FanOutPermits::new(4, 2).unwrap();
        let woken = RefCell::new(Vec::new());
        let wake = |worker| woken.borrow_mut().push(worker);
        assert!(permits.take(3, silent) && permits.take(0, silent));
        assert!(!permits.take(2, wake) && !permits.take(1, wake));
        assert!(!permits.is_granted(2) && !permits.take_granted(2) && woken.borrow().is_empty());
        permits.give_back(wake);
        assert_eq!(woken.take(), [2]);
        assert!(permits.is_granted(2) && !permits.is_granted(1));
        assert!(!permits.take(3, wake), "it is passed on, and not to one who comes");
        assert!(permits.take_granted(2) && !permits.take_granted(2));
        permits.give_back(wake);
        permits.give_back(wake);
        assert_eq!(woken.take(), [1, 3]);
        assert!(permits.take_granted(1) && permits.take_granted(3));
        permits.give_back(wake);
        permits.give_back(wake);
        assert!(permits.take(0, silent) && permits.take(1, silent) && !permits.take(2, silent));
    }

    #[test]
    fn who_leaves_the_queue_keeps_nobody_waiting() {
        let permits = FanOutPermits::new(4, 1).unwrap();
        assert!(permits.take(0, silent));
        assert!(!permits.take(1, silent) && !permits.take(2, silent) && !permits.take(3, silent));
        permits.leave(1, silent);
        permits.give_back(silent);
        assert!(!permits.is_granted(1));
        // It was passed on to one that has no use for it.
        permits.leave(2, silent);
        assert!(permits.take_granted(3), "the next one has it");
        permits.give_back(silent);
        assert!(permits.take(0, silent), "none is lost");
    }

    #[test]
    fn who_comes_again_has_the_place_that_it_left() {
        let permits = FanOutPermits::new(3, 1).unwrap();
        assert!(permits.take(0, silent) && !permits.take(1, silent) && !permits.take(2, silent));
        permits.leave(1, silent);
        assert!(!permits.take(1, silent));
        permits.give_back(silent);
        assert!(permits.take_granted(1) && !permits.is_granted(2));
        permits.give_back(silent);
        assert!(permits.take_granted(2));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;

    use super::*;

    /// However a worker gives back while another comes: that one has it at once, or was woken.
    #[test]
    fn worker_that_waits_is_passed_what_is_given_back() {
        loom::model(|| {
            let permits = Arc::new(FanOutPermits::new(2, 1).unwrap());
            let woken = Arc::new(AtomicUsize::new(0));
            assert!(permits.take(0, |_| {}));
            let other = {
                let (permits, woken) = (permits.clone(), woken.clone());
                let wake = move |worker| woken.store(worker, Ordering::SeqCst);
                loom::thread::spawn(move || permits.give_back(wake))
            };
            let has = permits.take(1, |worker| woken.store(worker, Ordering::SeqCst));
            other.join().unwrap();
            assert!(has || permits.is_granted(1) && woken.load(Ordering::SeqCst) == 1);
            assert!(has || permits.take_granted(1));
            permits.give_back(|_| {});
            assert!(permits.take(0, |_| {}) && !permits.take(1, |_| {}));
        });
    }

    /// However two workers come and go: one permit is never had by both, and none is lost.
    #[test]
    fn permit_is_had_by_one_and_comes_back() {
        loom::model(|| {
            let permits = Arc::new(FanOutPermits::new(2, 1).unwrap());
            let held = Arc::new(AtomicUsize::new(0));
            let send = |permits: &FanOutPermits, held: &AtomicUsize, worker| {
                if permits.take(worker, |_| {}) || permits.take_granted(worker) {
                    assert_eq!(held.fetch_add(1, Ordering::SeqCst), 0);
                    held.fetch_sub(1, Ordering::SeqCst);
                    permits.give_back(|_| {});
                } else {
                    permits.leave(worker, |_| {});
                }
            };
            let other = {
                let (permits, held) = (permits.clone(), held.clone());
                loom::thread::spawn(move || send(&permits, &held, 1))
            };
            send(&permits, &held, 0);
            other.join().unwrap();
            assert!(permits.take(0, |_| {}) && !permits.take(1, |_| {}));
        });
    }
}
