//! From a span's end to the collector: a bounded queue, and the thread that empties it.
//!
//! A send hands its spans over and goes on. What finds no room is dropped and counted, so a
//! collector that is away, slow or silent costs a send nothing and the server no memory. Writing
//! protobuf, TLS and waiting are the affair of one thread with a runtime of its own, so they hold
//! up no task of the control plane. The processors of the SDK are not used: they tell nobody how
//! much they drop, and the one with a thread drives no client of hyper.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use opentelemetry::Context;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter as _, SpanProcessor};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::client::LastError;
use super::limits::{BATCH_DELAY, BATCH_SPANS_MAX, QUEUE_SPANS_MAX};
use crate::log_interval::LogInterval;

/// Spans by what became of them. Relaxed: they are only reported.
#[derive(Debug, Default)]
pub(super) struct SpanCounts {
    sent: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

impl SpanCounts {
    /// How often each outcome came.
    pub(super) fn counts(&self) -> [(&'static str, u64); 3] {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("sent", read(&self.sent)),
            ("dropped", read(&self.dropped)),
            ("failed", read(&self.failed)),
        ]
    }
}

/// Where spans wait for their batch.
#[derive(Debug)]
pub(super) struct Queue {
    spans: mpsc::Sender<SpanData>,
    counts: Arc<SpanCounts>,
}

/// The thread behind the queue.
#[derive(Debug)]
pub(super) struct Exporting {
    end: CancellationToken,
    /// Closed when it has ended.
    ended: oneshot::Receiver<()>,
}

/// What is exported, where to, and what is told of it.
pub(super) struct Export {
    pub(super) exporter: SpanExporter,
    pub(super) last_error: LastError,
    /// What the log calls the collector.
    pub(super) host: String,
    pub(super) counts: Arc<SpanCounts>,
}

/// Starts the thread, and makes the queue before it.
pub(super) fn start(export: Export) -> Result<(Queue, Exporting)> {
    let (spans, waiting) = mpsc::channel(QUEUE_SPANS_MAX);
    let (end, counts) = (CancellationToken::new(), Arc::clone(&export.counts));
    let (alive, ended) = oneshot::channel();
    let ending = end.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start what sends traces")?;
    let run = move || {
        runtime.block_on(export.run(waiting, ending));
        drop(alive);
    };
    // Signals are for the threads of the control plane. Nobody joins it: the process need not wait
    // for a collector.
    let thread = || thread::Builder::new().name("traces".into()).spawn(run);
    sys::signals::blocked(thread)?.context("cannot start the thread that sends traces")?;
    Ok((Queue { spans, counts }, Exporting { end, ended }))
}

impl Exporting {
    /// Has what waits sent now, and waits for that, for so long at most.
    pub(super) async fn end(self, most: Duration) -> bool {
        self.end.cancel();
        tokio::time::timeout(most, self.ended).await.is_ok()
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl Export {
    async fn run(self, mut waiting: mpsc::Receiver<SpanData>, end: CancellationToken) {
        let (mut failures, mut drops) = (LogInterval::default(), LogInterval::default());
        let mut dropped_before = 0;
        loop {
            let batch = next_batch(&mut waiting, &end).await;
            if batch.is_empty() {
                return;
            }
            let spans = batch.len() as u64;
            match self.exporter.export(batch).await {
                Ok(()) => drop(self.counts.sent.fetch_add(spans, Ordering::Relaxed)),
                Err(error) => {
                    self.counts.failed.fetch_add(spans, Ordering::Relaxed);
                    if let Some(more) = failures.due(Instant::now()) {
                        let (reason, collector) = (self.reason(&error.to_string()), &self.host);
                        tracing::warn!(
                            collector,
                            more,
                            "the collector did not take traces (--otlp): {reason}"
                        );
                    }
                }
            }
            let dropped = self.counts.dropped.load(Ordering::Relaxed);
            if dropped > dropped_before && drops.due(Instant::now()).is_some() {
                tracing::warn!(
                    spans = dropped - dropped_before,
                    "traces were dropped: the collector takes fewer than there are (--otlp-ratio)"
                );
                dropped_before = dropped;
            }
        }
    }

    /// Why a batch was not taken: what the client noted, or the answer's status.
    fn reason(&self, error: &str) -> String {
        let noted = self.last_error.lock().unwrap_or_else(PoisonError::into_inner).take();
        noted.unwrap_or_else(|| error.trim_start_matches("Operation failed: ").to_owned())
    }
}

/// What is to be sent next: as many as go into a batch, or what has come within the delay since the
/// first; what is there, once `end` is said. Nothing, when that is all.
async fn next_batch(
    waiting: &mut mpsc::Receiver<SpanData>,
    end: &CancellationToken,
) -> Vec<SpanData> {
    let mut batch = Vec::new();
    let mut deadline = None;
    while batch.len() < BATCH_SPANS_MAX {
        let room = BATCH_SPANS_MAX - batch.len();
        let until = deadline.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
        tokio::select! {
            biased;
            more = timeout_at(until, waiting.recv_many(&mut batch, room)) => match more {
                Ok(0) => break,
                Ok(_) => drop(deadline.get_or_insert_with(|| Instant::now() + BATCH_DELAY)),
                Err(_) if batch.is_empty() => {}
                Err(_) => break,
            },
            () = end.cancelled() => break,
        }
    }
    debug_assert!(batch.len() <= BATCH_SPANS_MAX);
    batch
}

#[cfg(test)]
mod tests {
    use opentelemetry::InstrumentationScope;
    use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status};

    use super::*;

    fn span() -> SpanData {
        SpanData {
            span_context: SpanContext::empty_context(),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: "x".into(),
            start_time: std::time::UNIX_EPOCH,
            end_time: std::time::UNIX_EPOCH,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: Default::default(),
            links: Default::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::default(),
        }
    }

    #[test]
    fn span_without_room_is_dropped_and_counted() {
        let (spans, _waiting) = mpsc::channel(QUEUE_SPANS_MAX);
        let queue = Queue { spans, counts: Arc::default() };
        (0..QUEUE_SPANS_MAX + 3).for_each(|_| queue.on_end(span()));
        assert_eq!(queue.counts.counts(), [("sent", 0), ("dropped", 3), ("failed", 0)]);
    }

    #[tokio::test(start_paused = true)]
    async fn batch_is_full_or_a_second_old_or_the_last() {
        let (spans, mut waiting) = mpsc::channel(QUEUE_SPANS_MAX);
        let (end, start) = (CancellationToken::new(), Instant::now());
        for _ in 0..BATCH_SPANS_MAX + 5 {
            spans.try_send(span()).unwrap();
        }
        assert_eq!(next_batch(&mut waiting, &end).await.len(), BATCH_SPANS_MAX);
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(next_batch(&mut waiting, &end).await.len(), 5);
        assert_eq!(start.elapsed(), BATCH_DELAY);
        spans.try_send(span()).unwrap();
        end.cancel();
        assert_eq!(next_batch(&mut waiting, &end).await.len(), 1);
        assert_eq!(next_batch(&mut waiting, &end).await.len(), 0);
        assert_eq!(start.elapsed(), BATCH_DELAY);
    }
}
