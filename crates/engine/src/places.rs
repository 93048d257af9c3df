//! The bound on the connections of all workers together.
//!
//! The kernel spreads connections over the workers by a hash, so their numbers differ by some
//! square roots: a bound cut into even shares would turn clients away while other workers have
//! room. Hence one count for all. It is touched twice in a connection's life.

#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};

/// Places for connections that nobody has taken.
#[derive(Debug)]
pub(crate) struct Places {
    /// Ordering: relaxed throughout. Only the number counts, nothing is published by it.
    free: AtomicUsize,
}

impl Places {
    pub(crate) fn new(max: usize) -> Places {
        Places { free: AtomicUsize::new(max) }
    }

    /// Takes a place; `false` when there is none. Whoever has one must give it back.
    pub(crate) fn take(&self) -> bool {
        let one_less = |free: usize| free.checked_sub(1);
        self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// Gives one place back that was taken.
    pub(crate) fn give_back(&self) {
        self.free.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// However two workers take turns: one place is never taken twice, and given back it is there.
    #[test]
    fn place_is_never_taken_twice() {
        loom::model(|| {
            let places = Arc::new(Places::new(1));
            let taken = Arc::new(AtomicUsize::new(0));
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let (places, taken) = (places.clone(), taken.clone());
                    loom::thread::spawn(move || {
                        if places.take() {
                            assert_eq!(taken.fetch_add(1, Ordering::Relaxed), 0);
                            taken.fetch_sub(1, Ordering::Relaxed);
                            places.give_back();
                        }
                    })
                })
                .collect();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            assert!(places.take() && !places.take());
        });
    }
}
