//! A number that one thread counts and anybody may read.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count with one writer, which is cheaper than one that many threads add to.
///
/// Ordering: relaxed throughout. Each value stands for itself, and readers only report it; a load
/// and a store instead of a locked addition are enough because there is one writer.
#[derive(Debug, Default)]
pub(crate) struct SingleWriterCount(AtomicU64);

impl SingleWriterCount {
    pub(crate) fn add(&self, more: u64) {
        self.set(self.read().wrapping_add(more));
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
