//! A bound on what others can make us write to the log.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The shortest time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Lets one line a second through. What it keeps back is for counters to tell.
#[derive(Debug, Default)]
pub struct LogLimit(Mutex<Option<Instant>>);

impl LogLimit {
    /// Whether a line may be written now.
    pub fn permits(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() >= LINE_EVERY);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}
