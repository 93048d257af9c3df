//! The figures of the log of the events that stay.

use prometheus::proto::MetricFamily;
use serde::Serialize;

use super::families::{counter, gauge};
use crate::api::state::Api;

/// The log at one moment.
#[derive(Debug, Serialize)]
pub(super) struct LogStats {
    /// Bytes of all segments, against `--log-bytes`.
    bytes: u64,
    segments: usize,
    /// Events in them, and the ids of the first one and of the last one.
    events: u64,
    first: Option<String>,
    last: Option<String>,
    /// Since the start.
    syncs: u64,
    failures: u64,
    /// Whether the last write or sync has failed.
    failing: bool,
}

impl LogStats {
    /// `None` while another process has it.
    pub(super) fn of(api: &Api) -> Option<LogStats> {
        let stats = api.log.as_ref()?.stats()?;
        let id = |number: u64| api.router.event_ids().id(number).to_string();
        Some(LogStats {
            bytes: stats.bytes,
            segments: stats.segments,
            events: stats.records,
            first: stats.first.map(id),
            last: stats.last.map(id),
            syncs: stats.syncs,
            failures: stats.failures,
            failing: stats.failing,
        })
    }

    /// These figures for Prometheus.
    pub(super) fn families(&self) -> [MetricFamily; 6] {
        let failing = f64::from(u8::from(self.failing));
        [
            gauge("encke_log_bytes", "Disk space of the kept events.", self.bytes as f64),
            gauge("encke_log_segments", "Files of the kept events.", self.segments as f64),
            gauge("encke_log_events", "Kept events on disk.", self.events as f64),
            counter("encke_log_syncs_total", "Syncs of kept events.", self.syncs as f64),
            counter(
                "encke_log_failures_total",
                "Writes and syncs of kept events that failed.",
                self.failures as f64,
            ),
            gauge(
                "encke_log_failing",
                "Whether the last write of kept events has failed.",
                failing,
            ),
        ]
    }
}
