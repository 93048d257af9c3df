//! The rest of a lane: for a while it sends nothing, since a send of it has waited for a disk.

use std::sync::atomic::{AtomicU64, Ordering};

/// How long that lasts. Meanwhile the control plane waits for the pages of the store.
const REST_MS: u64 = 1_000;

/// Until when a lane rests, by the monotonic clock. Relaxed: nothing else hangs on it. A connection
/// that is leased all the same is given back untouched.
#[derive(Debug, Default)]
pub(super) struct LaneRest(AtomicU64);

impl LaneRest {
    pub(super) fn begin(&self, now_ms: u64) {
        self.0.store(now_ms + REST_MS, Ordering::Relaxed);
    }

    /// Whether it is not over.
    pub(super) fn lasts(&self, now_ms: u64) -> bool {
        now_ms < self.0.load(Ordering::Relaxed)
    }
}
