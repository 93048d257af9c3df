//! What dashboards themselves add to the figures: their streams, and the figures that they hear.

use std::sync::atomic::{AtomicU64, Ordering};

use hub::IdText;

use super::past::Past;
use crate::api::state::Api;

/// What is known of the dashboards of this server.
#[derive(Debug, Default)]
pub(crate) struct Dashboards {
    /// Figures that were handed to pages. Relaxed: it is only reported.
    deliveries: AtomicU64,
    pub(super) past: Past,
}

impl Dashboards {
    /// Streams of pages that are open.
    pub(super) fn open(&self, api: &Api) -> u64 {
        IdText::parse(&api.live_id).map_or(0, |id| api.router.connections(id) as u64)
    }

    pub(super) fn count_deliveries(&self, more: u64) {
        self.deliveries.fetch_add(more, Ordering::Relaxed);
    }

    /// Deliveries that were figures.
    pub(super) fn deliveries(&self) -> u64 {
        self.deliveries.load(Ordering::Relaxed)
    }
}
