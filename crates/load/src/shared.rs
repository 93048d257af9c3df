//! What one thread publishes and others look at.

use std::sync::{Mutex, PoisonError};

/// A value under a lock that is held for a few additions: its owner takes it once for what it did
/// in one go, others once a report.
#[derive(Debug, Default)]
pub(crate) struct Shared<T>(Mutex<T>);

impl<T> Shared<T> {
    /// Runs `look` on what is published.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        // A thread that panicked left whole numbers behind: the lock is never held across a step
        // that can fail half-way.
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
