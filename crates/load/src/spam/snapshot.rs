//! How a run is doing, at a moment or at its end.

use std::time::Duration;

use figures::latency::Quantiles;

use crate::spam::SpamTotals;
use crate::stamp::RunName;

/// How a run is doing.
#[derive(Clone, Debug)]
pub struct SpamSnapshot {
    /// Seconds since the start.
    pub seconds: f64,
    /// Those until an event behind the last one was to be sent: of a run that has sent all, without
    /// the wait for answers.
    pub sending_seconds: f64,
    /// Its name in the stamps of its events.
    pub run: RunName,
    /// Counts since the start.
    pub totals: SpamTotals,
    /// Events that there were to be, if that is known.
    pub planned: Option<u64>,
    /// Whether it was told to stop before all was sent.
    pub stopped: bool,
    /// From the time at which an event was to be sent, how long it could take.
    pub late_after: Duration,
    /// From the intended time to the API's answer, since the snapshot before.
    pub answer: Quantiles,
    /// From the intended time to the write, since the snapshot before.
    pub behind: Quantiles,
    /// Why a connection ended before its time.
    pub failure: Option<String>,
}
