//! A number that any thread may count up, and that is reported elsewhere.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count to which many may add. Ordering: relaxed, each stands for itself and is only reported.
#[derive(Debug, Default)]
pub struct SharedCount(AtomicU64);

impl SharedCount {
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
