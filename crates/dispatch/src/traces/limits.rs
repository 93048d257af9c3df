//! Every bound of this room, with its arithmetic.

use std::time::Duration;

/// Spans that wait for the collector; what comes beyond is dropped and counted. The SDKs of
/// OpenTelemetry have the same. A span has some 700 bytes, with the longest `tracestate` 2 KB: 4 MB
/// at most. A send has three, so a collector that takes a batch in 50 ms takes 3,400 sends a
/// second.
pub(super) const QUEUE_SPANS_MAX: usize = 2048;

/// Spans of one request to the collector: some 250 bytes each when they are written, so 130 KB.
pub(super) const BATCH_SPANS_MAX: usize = 512;

/// How long a span waits for others, so that a quiet server sends a request for many.
pub(super) const BATCH_DELAY: Duration = Duration::from_secs(1);

/// How long a request to the collector may take, with its repeats. So does the standard have it.
pub(super) const EXPORT_TIME_MAX: Duration = Duration::from_secs(10);

/// How long the server's end may wait for the collector, if its grace time leaves as much.
pub const FLUSH_TIME_MAX: Duration = Duration::from_secs(2);

/// The longest `tracestate` that is kept: so much has everybody to pass on (W3C Trace Context,
/// section 3.3.1.5). A longer one is left out, and its `traceparent` counts all the same.
pub(super) const STATE_BYTES_MAX: usize = 512;

/// What a line of the log has of an error that others have worded.
pub(super) const REASON_CHARS_MAX: usize = 200;
