//! A number that is counted up in one place and reported in another.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count. Ordering: relaxed, each stands for itself and is only reported.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Takes some back, of a count that tells how many there are now.
    pub fn sub(&self, fewer: u64) {
        self.0.fetch_sub(fewer, Ordering::Relaxed);
    }

    /// How many there are.
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
