//! `GET /metrics`: the figures of `/stats` in Prometheus' text format 0.0.4.
//!
//! Nothing is registered or counted here: each scrape reads the workers' own counters. Names are
//! `encke_<thing>_<unit>`, `_total` for what only grows; labels come from closed lists.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use dispatch::traces::Traces;
use engine::Snapshot;
use gateway::{Erlang, Report};
use httpd::problem::ApiProblem;
use prometheus::proto::{MetricFamily, MetricType};
use prometheus::{Encoder, TextEncoder};
use tokio::task::spawn_blocking;

use super::families::{counter, counter_of, family, gauge, gauge_of, histogram_of, metric};
use super::log::LogStats;
use super::tokens::{self, TokenStats};
use super::{client_sends, cluster, mercure, presence, tls, workers};
use crate::api::Figures;
use crate::api::readings::process::Descriptors;
use crate::api::readings::sockets::SocketBytes;
use crate::api::state::Api;

pub(crate) async fn metrics(State(api): State<Arc<Api>>) -> Result<Response, ApiProblem> {
    let erlang = api.erlang().map(Erlang::report);
    // Fails only while the runtime ends.
    let descriptors = spawn_blocking(Descriptors::now).await.ok().and_then(Result::ok);
    let snapshot = api.snapshot()?;
    let families = [
        process(&api),
        machine(),
        descriptors.map(|descriptors| self::descriptors(&descriptors)).unwrap_or_default(),
        control(&api, api.sockets.read().await),
        kept(&api, &snapshot),
        keys(&api),
        TokenStats::of(&api, &snapshot).map(|stats| tokens::families(&stats)).unwrap_or_default(),
        client_sends::families(&api.client_sends),
        tls::families(&api.certificates, &api.handshakes),
        presence::families(&api.presence.report()),
        presence::pusher_hooks(api.pusher_hooks.as_deref()),
        presence::members(api.watches().map(|watches| &**watches.members())),
        mercure::families(&api, &snapshot),
        cluster::families(api.sender.cluster.as_deref()),
        tls::of_streams(&api.certificates, &snapshot.whole().tls),
        workers::families(&snapshot.workers),
        erlang.map(|report| self::erlang(&report)).unwrap_or_default(),
        api.traces.as_ref().map(traces).into_iter().collect(),
        api.upgraded().map(upgrade).unwrap_or_default(),
    ]
    .concat();
    let mut text = Vec::new();
    let encoder = TextEncoder::new();
    encoder.encode(&families, &mut text).expect("every family has a name and a metric");
    Ok(([(header::CONTENT_TYPE, encoder.format_type().to_owned())], text).into_response())
}

/// What Prometheus expects of every process, under the names it expects.
fn process(api: &Api) -> Vec<MetricFamily> {
    let resident = sys::process::resident().unwrap_or_default();
    vec![
        gauge("process_resident_memory_bytes", "Memory in use.", resident.total as f64),
        gauge("process_start_time_seconds", "Start, in seconds since 1970.", api.started_at),
        counter(
            "process_cpu_seconds_total",
            "Processor time, user and kernel.",
            sys::clock::process_cpu().as_secs_f64(),
        ),
    ]
}

/// What the whole machine waited for, as far as the kernel tells it.
fn machine() -> Vec<MetricFamily> {
    let waits = sys::machine::waits();
    let stolen = waits.stolen.map(|stolen| {
        counter(
            "encke_machine_stolen_seconds_total",
            "How long the machine's cores were given to others while they had work here.",
            stolen.as_secs_f64(),
        )
    });
    let memory = waits.memory.map(|memory| {
        counter(
            "encke_machine_memory_stalled_seconds_total",
            "How long somebody on the machine waited for memory.",
            memory.as_secs_f64(),
        )
    });
    stolen.into_iter().chain(memory).collect()
}

/// Under the names that Prometheus expects stands the control plane's table, and beside them those
/// of the workers.
fn descriptors(descriptors: &Descriptors) -> Vec<MetricFamily> {
    let Descriptors { control, workers, most } = descriptors;
    let workers = workers
        .iter()
        .map(|(worker, open)| metric(&[("worker", &worker.to_string())], gauge_of(*open as f64)));
    let mut families = vec![
        gauge(
            "process_open_fds",
            "Open descriptors of the control plane; those of workers are in tables of their own.",
            *control as f64,
        ),
        family(
            "encke_worker_open_fds",
            "Open descriptors in the worker's table.",
            MetricType::GAUGE,
            workers.collect(),
        ),
    ];
    families.extend(most.map(|most| {
        gauge("process_max_fds", "Descriptors that each table may have.", most as f64)
    }));
    families
}

fn control(api: &Api, sockets: SocketBytes) -> Vec<MetricFamily> {
    let resident = sys::process::resident().unwrap_or_default();
    let history = api.history();
    let build = vec![metric(&[("version", env!("CARGO_PKG_VERSION"))], gauge_of(1.0))];
    let mut families = vec![
        family("encke_build_info", "Which build this is.", MetricType::GAUGE, build),
        gauge("encke_uptime_seconds", "Time since start.", api.started.elapsed().as_secs_f64()),
        gauge(
            "encke_resident_anonymous_bytes",
            "Memory in heap and stacks, without mapped files.",
            resident.anonymous as f64,
        ),
        gauge(
            "encke_resident_file_bytes",
            "Memory in pages of mapped files, which the kernel may take back.",
            resident.file as f64,
        ),
        counter(
            "process_major_page_faults_total",
            "How often this process waited for a disk, for a page that was not in memory.",
            sys::process::major_faults() as f64,
        ),
        counter(
            "encke_events_total",
            "Events accepted, from the API and from Erlang nodes.",
            api.events() as f64,
        ),
        counter(
            "encke_events_at_once_total",
            "Events accepted in the turn of a worker, which are counted in the total too.",
            api.events_at_once.load(Ordering::Relaxed) as f64,
        ),
        counter(
            "encke_appends_at_once_total",
            "Appends to durable streams that the turn of a worker handed on.",
            api.streams().map_or(0, |streams| streams.appends_at_once()) as f64,
        ),
        send_durations(api),
        refusals(api),
        gauge("encke_history_events", "Events remembered.", history.events as f64),
        gauge("encke_history_bytes", "Bytes of events remembered.", history.bytes as f64),
        counter("encke_resumes_total", "Clients back with an id.", api.resumes.resumed() as f64),
        counter(
            "encke_resume_gaps_total",
            "Clients back that were told of a gap.",
            api.resumes.gaps() as f64,
        ),
        gauge("encke_ids_online", "Ids with a stream.", api.router.ids_online() as f64),
        gauge("encke_subscriptions", "Stored subscriptions.", api.graph.subscriptions() as f64),
    ];
    let log = LogStats::of(api);
    families.extend(log.iter().flat_map(LogStats::families));
    if let Ok(bytes) = api.graph.disk_bytes() {
        families.push(gauge("encke_store_bytes", "Size of the graph's file.", bytes as f64));
    }
    if let Some(bytes) = sockets.total {
        families.push(gauge(
            "encke_kernel_socket_bytes",
            "Kernel memory of the machine's TCP sockets.",
            bytes as f64,
        ));
    }
    if let Some(bytes) = sockets.buffers {
        families.push(gauge(
            "encke_kernel_tcp_buffer_bytes",
            "Bytes that wait in the machine's TCP sockets to be sent or read.",
            bytes as f64,
        ));
    }
    families
}

/// What clients take of the memory that all of them have together.
fn kept(api: &Api, snapshot: &Snapshot) -> Vec<MetricFamily> {
    vec![
        gauge(
            "encke_ids_bytes",
            "What the ids of all connections are counted for.",
            api.router.names().bytes() as f64,
        ),
        gauge(
            "encke_buffered_bytes",
            "Bytes kept for all connections: input not dealt with, output not taken.",
            snapshot.buffered_bytes as f64,
        ),
    ]
}

/// Sends that are not to be doubled.
fn keys(api: &Api) -> Vec<MetricFamily> {
    let keys = &api.idempotency;
    vec![
        gauge("encke_idempotency_keys", "Idempotency keys known.", keys.count() as f64),
        gauge("encke_idempotency_bytes", "Memory that they take.", keys.bytes() as f64),
        counter(
            "encke_idempotency_repeats_total",
            "Sends answered again instead of being posted again.",
            keys.repeats() as f64,
        ),
        counter(
            "encke_idempotency_refused_total",
            "Sends refused because there was no place for another key.",
            keys.refused() as f64,
        ),
    ]
}

fn refusals(api: &Api) -> MetricFamily {
    let counts = api.access.refused();
    let counts =
        counts.map(|(reason, count)| metric(&[("reason", reason)], counter_of(count as f64)));
    family(
        "encke_api_refusals_total",
        "Calls that were not let in, by reason.",
        MetricType::COUNTER,
        counts.collect(),
    )
}

fn send_durations(api: &Api) -> MetricFamily {
    let (buckets, count) = api.durations.cumulative();
    let metric = histogram_of(buckets, count, api.durations.sum_seconds());
    family(
        "encke_send_duration_seconds",
        "Time from reading an event to knowing how many connections it was handed to.",
        MetricType::HISTOGRAM,
        vec![metric],
    )
}

fn erlang(report: &Report) -> Vec<MetricFamily> {
    let by_reason = |counts: &serde_json::Map<String, serde_json::Value>| {
        let counts = counts.iter().filter_map(|(reason, count)| Some((reason, count.as_f64()?)));
        counts.map(|(reason, count)| metric(&[("reason", reason)], counter_of(count))).collect()
    };
    let gauges: [(&str, &str, f64); 4] = [
        ("encke_erlang_registered", "1 while epmd knows us.", report.registered.into()),
        ("encke_erlang_nodes", "Erlang nodes connected.", report.nodes as f64),
        ("encke_erlang_processes", "Erlang processes logged in.", report.processes as f64),
        ("encke_erlang_waiting_bytes", "Unsent bytes for nodes.", report.waiting_bytes as f64),
    ];
    let counters: [(&str, &str, u64); 8] = [
        ("encke_erlang_logins_total", "Processes logged in.", report.logins),
        (
            "encke_erlang_events_total",
            "Events that nodes sent, which are counted in the total too.",
            report.events,
        ),
        ("encke_erlang_deliveries_total", "Messages to processes.", report.deliveries),
        (
            "encke_erlang_deliveries_dropped_total",
            "Messages that met their process too late or found its node gone.",
            report.dropped,
        ),
        ("encke_erlang_connections_total", "Connections of nodes that began.", report.connected),
        ("encke_erlang_unknown_total", "Messages that nobody understands.", report.unknown),
        ("encke_erlang_oversized_total", "Messages too long to be read.", report.oversized),
        (
            "encke_erlang_handshakes_failed_total",
            "Nodes that were not let in.",
            report.handshakes_failed,
        ),
    ];
    let mut families: Vec<MetricFamily> =
        gauges.iter().map(|(name, help, value)| gauge(name, help, *value)).collect();
    families.extend(counters.iter().map(|(name, help, value)| counter(name, help, *value as f64)));
    families.push(family(
        "encke_erlang_connections_closed_total",
        "Connections of nodes that ended, by reason.",
        MetricType::COUNTER,
        by_reason(&report.ended),
    ));
    families.push(family(
        "encke_erlang_refused_total",
        "Requests of processes that were not done, by reason.",
        MetricType::COUNTER,
        by_reason(&report.refused),
    ));
    families
}

/// The upgrade by which this process took over.
fn upgrade(figures: &Figures) -> Vec<MetricFamily> {
    let Figures { milliseconds, pause_milliseconds, connections } = *figures;
    vec![
        gauge(
            "encke_upgrade_seconds",
            "What the upgrade took by which this process took over.",
            milliseconds as f64 / 1e3,
        ),
        gauge(
            "encke_upgrade_pause_seconds",
            "How long clients waited in it.",
            pause_milliseconds as f64 / 1e3,
        ),
        gauge("encke_upgrade_streams", "Connections taken over in it.", connections as f64),
    ]
}

/// Spans of sends, where a collector is named.
fn traces(traces: &Traces) -> MetricFamily {
    let counts = traces.counts();
    let counts =
        counts.map(|(outcome, count)| metric(&[("outcome", outcome)], counter_of(count as f64)));
    family(
        "encke_trace_spans_total",
        "Spans of traces, by what became of them.",
        MetricType::COUNTER,
        counts.to_vec(),
    )
}
