//! What dashboards themselves add to the figures: those that they hear, and the last minutes that
//! they show.

pub(super) mod past;

use std::sync::atomic::{AtomicU64, Ordering};

use self::past::Past;

/// What is known of the dashboards of this server.
#[derive(Debug, Default)]
pub(crate) struct Dashboards {
    /// Figures that were handed to pages. Relaxed: it is only reported.
    deliveries: AtomicU64,
    pub(super) past: Past,
}

impl Dashboards {
    pub(super) fn count_deliveries(&self, more: u64) {
        self.deliveries.fetch_add(more, Ordering::Relaxed);
    }

    /// Deliveries that were figures.
    pub(super) fn deliveries(&self) -> u64 {
        self.deliveries.load(Ordering::Relaxed)
    }
}
