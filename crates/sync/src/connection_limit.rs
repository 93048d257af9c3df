//! The bound on the connections of all workers together.
//!
//! The kernel spreads connections over the workers by a hash, so their numbers differ by some
//! square roots. A bound cut into even shares would turn clients away while other workers have
//! room. Hence one count for all. It is touched twice in a connection's life.

#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many more connections all workers together may have.
#[derive(Debug)]
pub struct ConnectionLimit {
    /// Ordering: relaxed throughout. Only the number counts, nothing is published by it.
    free: AtomicUsize,
}

impl ConnectionLimit {
    /// None is taken of `max`.
    pub fn new(max: usize) -> ConnectionLimit {
        ConnectionLimit { free: AtomicUsize::new(max) }
    }

    /// Counts one more connection; `false` when there are as many as may be. Whoever has counted
    /// one must give it back.
    pub fn take(&self) -> bool {
        let one_less = |free: usize| free.checked_sub(1);
        self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// Counts one connection less.
    pub fn give_back(&self) {
        self.free.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// However two workers take turns: the last connection is never counted twice, and given back
    /// it is there.
    #[test]
    fn last_connection_is_never_counted_twice() {
        loom::model(|| {
            let limit = Arc::new(ConnectionLimit::new(1));
            let taken = Arc::new(AtomicUsize::new(0));
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let (limit, taken) = (limit.clone(), taken.clone());
                    loom::thread::spawn(move || {
                        if limit.take() {
                            assert_eq!(taken.fetch_add(1, Ordering::Relaxed), 0);
                            taken.fetch_sub(1, Ordering::Relaxed);
                            limit.give_back();
                        }
                    })
                })
                .collect();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            assert!(limit.take() && !limit.take());
        });
    }
}
