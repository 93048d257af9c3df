//! Traces of sends, for an OpenTelemetry collector, where one is named.
//!
//! Each `POST /send` that is let in makes a span of its own, as part of its caller's trace (W3C
//! Trace Context) or as a trace's beginning. Below it are spans for what takes time: see
//! [`SendTrace`]. They go to the collector by OTLP over HTTP, in protobuf, in batches.
//!
//! What they say is of the server: no id of anybody, no payload, no key, no address of a client.
//! Callers choose what is in `tracestate`, which is passed on as the standard asks.
//!
//! A caller may ask for a trace of each of its sends (`sampled`). That costs the processor time
//! of three spans each, and memory no more than the queue's bound. Without a collector there is
//! nothing of all this but an empty [`Option`].

mod client;
mod config;
pub mod limits;
mod queue;
mod send;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hyper::HeaderMap;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

use self::client::Client;
pub use self::config::{CollectorUrl, Sampling, TraceHeaders, TracesConfig};
use self::limits::{EXPORT_TIME_MAX, STATE_BYTES_MAX};
use self::queue::{Export, Exporting, SpanCounts};
pub use self::send::{Arrival, Marks, SendTrace};

/// What the standard calls a service that nobody has named.
const UNNAMED: &str = "unknown_service";

/// Makes the traces of sends.
#[derive(Debug)]
pub struct Traces {
    tracer: SdkTracer,
    counts: Arc<SpanCounts>,
    /// Whether sends go through the log of a cluster.
    in_cluster: bool,
}

/// What is still to be sent when all else has ended.
#[derive(Debug)]
pub struct TracesEnd(Exporting);

impl Traces {
    /// Traces as `config` says, of the server that is called `node` in its cluster, if it is in
    /// one. The collector is not asked for anything now.
    pub fn start(config: TracesConfig, node: Option<&str>) -> Result<(Traces, TracesEnd)> {
        let counts = Arc::<SpanCounts>::default();
        let (client, last_error) = Client::new(config.collector.uri())?;
        let resource = resource(config.service, node);
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(config.collector.uri().to_string())
            .with_headers(config.headers.0)
            .with_timeout(EXPORT_TIME_MAX)
            .build();
        let mut exporter = exporter.context("--otlp: traces cannot be sent")?;
        opentelemetry_sdk::trace::SpanExporter::set_resource(&mut exporter, &resource);
        let host = config.collector.host().to_owned();
        let export = Export { exporter, last_error, host, counts: Arc::clone(&counts) };
        let (queue, exporting) = queue::start(export)?;
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_sampler(config.sampling.sampler())
            .with_span_processor(queue)
            .build();
        let scope = InstrumentationScope::builder("encke").with_version(env!("CARGO_PKG_VERSION"));
        let tracer = provider.tracer_with_scope(scope.build());
        let traces = Traces { tracer, counts, in_cluster: node.is_some() };
        Ok((traces, TracesEnd(exporting)))
    }

    /// The trace of a request with these `headers`; `None` where it is to have none.
    pub fn begin(&self, headers: &HeaderMap) -> Option<SendTrace> {
        let parent = parent(headers);
        SendTrace::begin(&self.tracer, &parent, self.in_cluster, Arrival::Request)
    }

    /// The trace of what a client sends; `None` where it is to have none. It is the beginning of
    /// one: what a client says of that nobody believes.
    pub fn begin_of_client(&self, arrival: Arrival) -> Option<SendTrace> {
        SendTrace::begin(&self.tracer, &Context::new(), self.in_cluster, arrival)
    }

    /// Spans by what became of them.
    pub fn counts(&self) -> [(&'static str, u64); 3] {
        self.counts.counts()
    }
}

impl TracesEnd {
    /// Sends what waits, for so long at most.
    pub async fn end(self, most: Duration) {
        if !self.0.end(most).await {
            tracing::warn!("the collector did not take the last traces in time (--otlp)");
        }
    }
}

/// Who sends the traces. What the environment says of it (`OTEL_RESOURCE_ATTRIBUTES`) is there too.
fn resource(service: Option<String>, node: Option<&str>) -> Resource {
    let found = Resource::builder().build();
    let unnamed = |name: &str| found.get(&name.to_owned().into()).is_none();
    let mut builder = Resource::builder();
    let is_named =
        found.get(&"service.name".into()).is_some_and(|name| !name.as_str().starts_with(UNNAMED));
    match service {
        Some(service) => builder = builder.with_service_name(service),
        None if !is_named => builder = builder.with_service_name("encke"),
        None => {}
    }
    if unnamed("service.version") {
        builder =
            builder.with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    }
    if let Some(node) = node.filter(|_| unnamed("service.instance.id")) {
        builder = builder.with_attribute(KeyValue::new("service.instance.id", node.to_owned()));
    }
    builder.build()
}

/// What a request is a part of, by its `traceparent` and `tracestate`. Without one, or with one
/// that is malformed, it is the beginning of a trace.
fn parent(headers: &HeaderMap) -> Context {
    let Some(parent) = headers.get("traceparent") else { return Context::new() };
    if !is_well_formed(parent.as_bytes()) {
        return Context::new();
    }
    let propagator = TraceContextPropagator::new();
    let mut states = headers.get_all("tracestate").iter();
    let (first, more) = (states.next(), states.next());
    if more.is_none() && first.is_none_or(|state| state.len() <= STATE_BYTES_MAX) {
        return propagator.extract_with_context(&Context::new(), &HeaderExtractor(headers));
    }
    let mut alone = HeaderMap::new();
    alone.insert("traceparent", parent.clone());
    propagator.extract_with_context(&Context::new(), &HeaderExtractor(&alone))
}

/// Whether the four fields have their lengths (W3C Trace Context, section 3.2.2): the library reads
/// shorter ones too. A later version may have more behind them.
fn is_well_formed(parent: &[u8]) -> bool {
    let dashes = [2, 35, 52].iter().all(|place| parent.get(*place) == Some(&b'-'));
    let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let hex = [0..2, 3..35, 36..52, 53..55].into_iter();
    let mut hex = hex.map(|part| parent.get(part).is_some_and(|part| part.iter().all(is_hex)));
    dashes && hex.all(|is_hex| is_hex) && matches!(parent.get(55), None | Some(b'-'))
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TraceContextExt;

    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn parent_of(parent: &str, states: &[&str]) -> Context {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", parent.parse().unwrap());
        for state in states {
            headers.append("tracestate", state.parse().unwrap());
        }
        super::parent(&headers)
    }

    #[test]
    fn parent_is_whom_the_request_names() {
        let parent = parent_of(PARENT, &["a=b,c=d"]);
        let span = parent.span();
        assert_eq!(span.span_context().trace_id().to_string(), TRACE);
        assert!(span.span_context().is_sampled());
        assert_eq!(span.span_context().trace_state().header(), "a=b,c=d");
        assert!(!parent_of(&PARENT.replace("-01", "-00"), &[]).span().span_context().is_sampled());
        let later = parent_of(&format!("{}-more", PARENT.replace("00-", "01-")), &[]);
        assert!(later.span().span_context().is_valid());
        assert!(!super::parent(&HeaderMap::new()).span().span_context().is_valid());
    }

    #[test]
    fn malformed_parent_is_none() {
        for parent in [
            "",
            "00",
            "00-1-1-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert!(!parent_of(parent, &[]).span().span_context().is_valid(), "{parent}");
        }
    }

    #[test]
    fn long_state_is_left_out_and_its_parent_counts() {
        let long = format!("a={}", "x".repeat(STATE_BYTES_MAX));
        for states in [&[long.as_str()][..], &["a=b", "c=d"]] {
            let parent = parent_of(PARENT, states);
            assert_eq!(parent.span().span_context().trace_id().to_string(), TRACE);
            assert_eq!(parent.span().span_context().trace_state().header(), "");
        }
    }

    #[test]
    fn server_has_a_name_a_version_and_its_node() {
        let named = |service: Option<&str>, node| {
            let resource = resource(service.map(str::to_owned), node);
            let get = |key: &'static str| {
                resource.get(&key.into()).map(|value| value.as_str().into_owned())
            };
            (get("service.name"), get("service.instance.id"), get("service.version"))
        };
        let version = Some(env!("CARGO_PKG_VERSION").to_owned());
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(named(None, None), (text("encke"), None, version.clone()));
        assert_eq!(named(Some("push"), Some("n1")), (text("push"), text("n1"), version));
    }
}
