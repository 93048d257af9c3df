//! The trace of one `POST /send`: the request, and below it what took time.
//!
//! | span | kind | from, to |
//! | --- | --- | --- |
//! | `POST /send` | server | the request's head is read; it is answered, or its stream has ended |
//! | `send` | server | the same of a message of a WebSocket |
//! | `post` | internal | the event is read; all mailboxes have it: the audience, a full mailbox |
//! | `publish` | producer | the event is read; the log of the cluster has it, and so this node |
//! | `deliver` | internal | from there on; all have said how many connections took it |
//!
//! A stream of events is one span with their number, whose length is the connection's: spans for
//! each would be as many as events. What a request posted before with the same key has no spans
//! below its own.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use opentelemetry::trace::{Span as _, SpanKind, SpanRef, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracer;

use crate::outcome::Delivered;

/// What a request is called: its method, and the path that it was routed by.
const NAME: &str = "POST /send";

/// What a message of a client is called that sends.
const MESSAGE_NAME: &str = "send";

/// How an event came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// By a request.
    Request,
    /// By a message of a WebSocket.
    Message,
}

/// The type of an error that is none of an answer's: there was nobody left to answer.
const ABORTED: &str = "aborted";

/// How far a send has come, said by whoever takes it there.
#[derive(Debug, Default)]
pub struct Marks {
    accepted: OnceLock<Instant>,
    posted: OnceLock<Instant>,
}

impl Marks {
    /// The event is read, and is going to be posted.
    pub fn accepted(&self, at: Instant) {
        // Where it is said twice, the first time is meant.
        let _ = self.accepted.set(at);
    }

    /// The mailboxes have it; in a cluster, this node has read it from the log.
    pub fn posted(&self, at: Instant) {
        let _ = self.posted.set(at);
    }

    /// When that was, if it was said.
    pub fn posted_at(&self) -> Option<Instant> {
        self.posted.get().copied()
    }
}

/// The trace of one request that is sampled. Dropped without an answer it is one that was given up.
#[derive(Debug)]
pub struct SendTrace {
    tracer: SdkTracer,
    /// With the span of the request.
    context: Context,
    /// When it began, by both clocks, so that one that is set meanwhile bends no span.
    begun: (SystemTime, Instant),
    marks: Arc<Marks>,
    in_cluster: bool,
    tally: Option<Tally>,
    is_ended: bool,
}

/// What a stream of events has come to.
#[derive(Debug, Default)]
struct Tally {
    events: i64,
    refused: i64,
    delivered: i64,
}

impl SendTrace {
    /// The trace of a request that is a part of `parent`; `None` unless it is sampled.
    pub(super) fn begin(
        tracer: &SdkTracer,
        parent: &Context,
        in_cluster: bool,
        arrival: Arrival,
    ) -> Option<SendTrace> {
        let begun = (UNIX_EPOCH + Duration::from_nanos(sys::clock::unix_ns()), Instant::now());
        let name = if arrival == Arrival::Message { MESSAGE_NAME } else { NAME };
        let builder = tracer.span_builder(name).with_kind(SpanKind::Server);
        let span = builder.with_start_time(begun.0).start_with_context(tracer, parent);
        if !span.is_recording() {
            return None;
        }
        let (tracer, context) = (tracer.clone(), Context::new().with_span(span));
        let marks = Arc::default();
        let trace =
            SendTrace { tracer, context, begun, marks, in_cluster, tally: None, is_ended: false };
        let attributes = [
            KeyValue::new("http.request.method", "POST"),
            KeyValue::new("http.route", "/send"),
            KeyValue::new("url.path", "/send"),
        ];
        if arrival == Arrival::Request {
            trace.span().set_attributes(attributes);
        }
        Some(trace)
    }

    /// What tells how far its event has come.
    pub fn marks(&self) -> &Arc<Marks> {
        &self.marks
    }

    /// One event was answered.
    pub fn end_one(mut self, answer: Result<&Delivered, StatusCode>) {
        let now = Instant::now();
        let status = answer.err().unwrap_or(StatusCode::OK);
        self.steps(now, answer.err().as_ref().map(StatusCode::as_str));
        if let Ok(delivered) = answer {
            let span = self.span();
            span.set_attribute(KeyValue::new("encke.delivered", i64::from(delivered.count)));
            // Letters and digits.
            let id = String::from_utf8_lossy(&delivered.id).into_owned();
            span.set_attribute(KeyValue::new("encke.event", id));
            if delivered.at_least {
                span.set_attribute(KeyValue::new("encke.at_least", true));
            }
            if self.marks.accepted.get().is_none() {
                span.set_attribute(KeyValue::new("encke.repeat", true));
            }
        }
        self.end(now, Some(status));
    }

    /// What posting the event took, and waiting for its count. An error is the last one's.
    fn steps(&self, end: Instant, error: Option<&str>) {
        let Some(&accepted) = self.marks.accepted.get() else { return };
        let posted = self.marks.posted_at();
        let (name, kind) = match self.in_cluster {
            true => ("publish", SpanKind::Producer),
            false => ("post", SpanKind::Internal),
        };
        let of_posting = error.filter(|_| posted.is_none());
        self.step(name, kind, (accepted, posted.unwrap_or(end)), of_posting);
        if let Some(posted) = posted {
            self.step("deliver", SpanKind::Internal, (posted, end), error);
        }
    }

    fn step(
        &self,
        name: &'static str,
        kind: SpanKind,
        (from, to): (Instant, Instant),
        error: Option<&str>,
    ) {
        let builder = self.tracer.span_builder(name).with_kind(kind);
        let builder = builder.with_start_time(self.time(from));
        let mut span = builder.start_with_context(&self.tracer, &self.context);
        if let Some(error) = error {
            span.set_attribute(KeyValue::new("error.type", error.to_owned()));
            span.set_status(Status::error(""));
        }
        span.end_with_timestamp(self.time(to));
    }

    /// It is a stream of events, which ends with it.
    pub fn stream(mut self) -> SendTrace {
        self.tally = Some(Tally::default());
        self
    }

    /// One event of a stream was answered; `None` where it was refused.
    pub fn count(&mut self, delivered: Option<&Delivered>) {
        let tally = self.tally.get_or_insert_default();
        match delivered {
            Some(delivered) => {
                tally.events += 1;
                tally.delivered += i64::from(delivered.count);
            }
            None => tally.refused += 1,
        }
    }

    /// All of a stream is answered.
    pub fn end_stream(mut self) {
        self.end(Instant::now(), Some(StatusCode::OK));
    }

    fn end(&mut self, now: Instant, status: Option<StatusCode>) {
        self.is_ended = true;
        let span = self.span();
        if let Some(Tally { events, refused, delivered }) = self.tally {
            span.set_attribute(KeyValue::new("encke.events", events));
            span.set_attribute(KeyValue::new("encke.refused", refused));
            span.set_attribute(KeyValue::new("encke.delivered", delivered));
        }
        let error = match status {
            Some(status) => {
                let code = i64::from(status.as_u16());
                span.set_attribute(KeyValue::new("http.response.status_code", code));
                // What a caller did wrong is no error of this server (semantic conventions, HTTP
                // spans).
                status.is_server_error().then(|| status.as_str().to_owned())
            }
            None => Some(ABORTED.to_owned()),
        };
        if let Some(error) = error {
            span.set_attribute(KeyValue::new("error.type", error));
            span.set_status(Status::error(""));
        }
        span.end_with_timestamp(self.time(now));
    }

    fn span(&self) -> SpanRef<'_> {
        self.context.span()
    }

    fn time(&self, at: Instant) -> SystemTime {
        self.begun.0 + at.saturating_duration_since(self.begun.1)
    }
}

impl Drop for SendTrace {
    fn drop(&mut self) {
        if !self.is_ended {
            let now = Instant::now();
            self.steps(now, Some(ABORTED));
            self.end(now, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{SdkTracerProvider, Span, SpanData, SpanProcessor};

    use super::*;

    /// Keeps all spans.
    #[derive(Clone, Debug, Default)]
    struct Kept(Arc<Mutex<Vec<SpanData>>>);

    impl SpanProcessor for Kept {
        fn on_start(&self, _: &mut Span, _: &Context) {}

        fn on_end(&self, span: SpanData) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(span);
        }

        fn force_flush(&self) -> OTelSdkResult {
            Ok(())
        }

        fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
            Ok(())
        }
    }

    #[test]
    fn request_that_is_given_up_ends_with_the_step_that_it_was_in() {
        let kept = Kept::default();
        let provider = SdkTracerProvider::builder().with_span_processor(kept.clone()).build();
        let tracer = provider.tracer("test");
        let trace = SendTrace::begin(&tracer, &Context::new(), true, Arrival::Request).unwrap();
        trace.marks().accepted(Instant::now());
        trace.marks().posted(Instant::now());
        drop(trace);
        let spans = kept.0.lock().unwrap();
        let error = |span: &SpanData| {
            let mut attributes = span.attributes.iter();
            attributes.find(|it| it.key.as_str() == "error.type").map(|it| it.value.to_string())
        };
        let told: Vec<_> = spans.iter().map(|span| (&*span.name, error(span))).collect();
        let aborted = || Some(ABORTED.to_owned());
        assert_eq!(told, [("publish", None), ("deliver", aborted()), (NAME, aborted())]);
    }
}
