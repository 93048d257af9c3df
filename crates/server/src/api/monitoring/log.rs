//! The figures of the log of the events that stay.

use archive::DiskArchive;
use prometheus::proto::MetricFamily;
use serde::Serialize;

use super::families::gauge;

/// The log at one moment.
#[derive(Debug, Serialize)]
pub(super) struct LogStats {
    /// Bytes of all segments, against `--log-bytes`.
    bytes: u64,
    segments: usize,
    /// Whether the last write or sync has failed.
    failing: bool,
}

impl LogStats {
    /// `None` while another process has it.
    pub(super) fn of(archive: &DiskArchive) -> Option<LogStats> {
        let journal::Stats { bytes, segments, failing, .. } = archive.stats()?;
        Some(LogStats { bytes, segments, failing })
    }

    /// The same for Prometheus.
    pub(super) fn families(&self) -> [MetricFamily; 3] {
        let failing = f64::from(u8::from(self.failing));
        [
            gauge("encke_log_bytes", "Disk space of the kept events.", self.bytes as f64),
            gauge("encke_log_segments", "Files of the kept events.", self.segments as f64),
            gauge(
                "encke_log_failing",
                "Whether the last write of kept events has failed.",
                failing,
            ),
        ]
    }
}
