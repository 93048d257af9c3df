//! How a crowd is doing, at a moment or at its end.

use std::sync::Arc;

use figures::latency::Quantiles;

use crate::flood::{FloodConfig, Role, Runs, Span, Totals};

/// How a crowd is doing.
#[derive(Clone, Debug)]
pub struct FloodSnapshot {
    /// Seconds since the start.
    pub seconds: f64,
    /// Listeners asked for.
    pub users: u32,
    /// Counts since the start.
    pub totals: Totals,
    /// Events by the run of `spam` that made them.
    pub runs: Runs,
    /// What the crowd was to do.
    pub config: Arc<FloodConfig>,
    /// Latencies since the snapshot before.
    pub latency: Quantiles,
    /// What the first stream that did not open ran into.
    pub first_failure: Option<String>,
    /// What became of the trouble; only at the end, and when there was to be any.
    pub trouble: Option<Box<TroubleSnapshot>>,
}

/// What became of a storm and of slow listeners. Times are seconds.
#[derive(Clone, Debug)]
pub struct TroubleSnapshot {
    /// Counts by [`Role`].
    pub roles: [Totals; Role::COUNT],
    /// How many listeners have each role.
    pub counts: [u32; Role::COUNT],
    /// From the start to the first of it; `None` when it did not come to that.
    pub began: Option<f64>,
    /// From the storm to its last reset; `None` when there were more to come, or none.
    pub reset_after: Option<f64>,
    /// From the storm to the last return.
    pub returned_after: Option<f64>,
    /// Latencies of steady listeners, by [`Span`].
    pub steady: [Quantiles; Span::COUNT],
    /// From when a listener may come back to the first thing that its resumed stream told, to 5 ms.
    pub caught_up: Quantiles,
    /// How long the streams of slow listeners lasted from when they were not read any more.
    pub slow_lasted: Quantiles,
}

impl FloodSnapshot {
    /// Whether every listener has been online or has failed at least once.
    pub fn all_tried(&self) -> bool {
        self.totals.opened + self.totals.failed_total() >= u64::from(self.users)
    }
}
