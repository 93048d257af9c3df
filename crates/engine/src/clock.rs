//! Where the data plane's control side takes the time from: the system, or what a test says.

#[cfg(test)]
use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};

use sys::clock;

/// A source of the time.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// The system's clocks.
    System,
    /// Whatever a test has made of it.
    #[cfg(test)]
    Made(Arc<MadeClock>),
}

impl Clock {
    /// Milliseconds since 1970; they may step back.
    pub(crate) fn unix_ms(&self) -> u64 {
        match self {
            Clock::System => clock::unix_ms(),
            #[cfg(test)]
            Clock::Made(made) => made.unix_ms(),
        }
    }

    /// Milliseconds that only grow.
    pub(crate) fn monotonic_ms(&self) -> u64 {
        match self {
            Clock::System => clock::monotonic_ms(),
            #[cfg(test)]
            Clock::Made(made) => made.now_ms(),
        }
    }
}

/// A clock that stands still until it is told otherwise.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct MadeClock {
    now_ms: AtomicU64,
    unix_ms: AtomicU64,
}

#[cfg(test)]
impl MadeClock {
    pub(crate) fn new(unix_ms: u64) -> MadeClock {
        MadeClock { now_ms: AtomicU64::new(0), unix_ms: AtomicU64::new(unix_ms) }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn unix_ms(&self) -> u64 {
        self.unix_ms.load(Ordering::Relaxed)
    }

    /// Time passes, on both clocks.
    pub(crate) fn pass(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
        self.unix_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Somebody sets the date.
    pub(crate) fn set_unix(&self, ms: u64) {
        self.unix_ms.store(ms, Ordering::Relaxed);
    }
}
