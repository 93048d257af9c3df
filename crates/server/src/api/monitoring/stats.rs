//! `GET /stats`: the figures of one moment as JSON.

use std::sync::Arc;

use axum::extract::State;
use engine::{TurnSnapshot, WorkerSnapshot};
use gateway::{Erlang, Report};
use httpd::json::Json;
use httpd::problem::ApiProblem;
use hub::{Bound, DisconnectReason};
use proto::Transport;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::cluster::ClusterStats;
use super::log::LogStats;
use super::mercure::MercureStats;
use super::tls::TlsStats;
use super::tokens::TokenStats;
use crate::api::readings::duration::DurationStats;
use crate::api::state::Api;

/// The figures of the whole server at one moment.
#[derive(Debug, Serialize)]
pub(crate) struct Stats {
    version: &'static str,
    uptime_seconds: f64,
    /// Processor time of the process since its start, user and kernel.
    cpu_seconds: f64,
    resident_bytes: u64,
    /// Heap and stacks.
    resident_anonymous_bytes: u64,
    /// Mapped files, such as the graph's pages in the page cache.
    resident_file_bytes: u64,
    /// How often the process has waited for a disk, for a page that was not in memory.
    major_faults: u64,
    /// Since the machine's start: how long its cores were given to others while they had work here,
    /// and how long somebody waited for memory; null when the kernel does not tell.
    stolen_seconds: Option<f64>,
    memory_stalled_seconds: Option<f64>,
    /// What the kernel keeps for the sockets of the whole machine; null when it may not be read.
    kernel_socket_bytes: Option<u64>,
    /// The part of it that waits to be sent or read.
    kernel_tcp_buffer_bytes: Option<u64>,
    /// Events accepted since the start, from the API and from Erlang nodes.
    events: u64,
    send_duration: DurationStats,
    /// Events that are remembered, and what they are counted for.
    history_events: usize,
    history_bytes: usize,
    /// The log of the events that stay; null where none do.
    log: Option<LogStats>,
    /// Clients that came back with the id of an event, and those of them that were told of a gap.
    resumes: u64,
    resume_gaps: u64,
    /// Idempotency keys that are known, and the memory that they take.
    idempotency_keys: usize,
    idempotency_bytes: usize,
    /// Sends that were answered again instead of being posted again.
    idempotency_repeats: u64,
    /// Sends that were refused because there was no place for another key.
    idempotency_refused: u64,
    ids_online: usize,
    /// What the ids of all connections are counted for, against `--max-ids-memory`.
    ids_bytes: usize,
    /// What is kept for all connections, against `--max-buffered`.
    buffered_bytes: u64,
    subscriptions: u64,
    /// Size of the graph's file; null when it cannot be told.
    store_bytes: Option<u64>,
    /// The tokens of streams; null where these are open to all.
    tokens: Option<TokenStats>,
    /// Handshakes of TLS; null where it is spoken nowhere.
    tls: Option<TlsStats>,
    /// The hub of the Mercure protocol; null where that is not served.
    mercure: Option<MercureStats>,
    /// The cluster that this server is a node of; null when it is alone.
    cluster: Option<ClusterStats>,
    /// The Erlang side; null when there is none.
    erlang: Option<Report>,
    #[serde(flatten)]
    whole: WorkerStats,
    workers: Vec<WorkerStats>,
}

/// The figures of one worker, or their sum.
#[derive(Debug, Serialize)]
pub(crate) struct WorkerStats {
    connections_open: u64,
    connections_opened: u64,
    connections_closed: ByReason,
    streams_open: ByTransport,
    deliveries: u64,
    dropped: u64,
    keepalives: u64,
    /// Clients that were told of a gap in mid-stream.
    gaps: u64,
    writes: u64,
    sent_bytes: u64,
    turns: u64,
    turns_by_microseconds: ByDuration,
    /// Time spent in turns.
    turn_seconds: f64,
    turn_seconds_longest: f64,
    full: u64,
    shortages: u64,
    /// How often a client met a bound on what one address or one id may have.
    bounds_met: ByBound,
    mails_waiting: u64,
}

impl From<WorkerSnapshot> for WorkerStats {
    fn from(snapshot: WorkerSnapshot) -> WorkerStats {
        WorkerStats {
            connections_open: snapshot.connections_open,
            connections_opened: snapshot.opened,
            connections_closed: ByReason(snapshot.closed),
            streams_open: ByTransport(snapshot.streams_open),
            deliveries: snapshot.deliveries,
            dropped: snapshot.dropped,
            keepalives: snapshot.keepalives,
            gaps: snapshot.gaps,
            writes: snapshot.writes,
            sent_bytes: snapshot.bytes_sent,
            turns: snapshot.turns.count(),
            turns_by_microseconds: ByDuration(snapshot.turns.buckets),
            turn_seconds: snapshot.turns.total_ns as f64 / 1e9,
            turn_seconds_longest: snapshot.turns.longest_ns as f64 / 1e9,
            full: snapshot.full,
            shortages: snapshot.shortages,
            bounds_met: ByBound(snapshot.bounds),
            mails_waiting: snapshot.mails_waiting,
        }
    }
}

/// Counts with the reasons as names.
#[derive(Debug)]
pub(crate) struct ByReason(pub(crate) [u64; DisconnectReason::COUNT]);

impl Serialize for ByReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (reason, count) in DisconnectReason::ALL.iter().zip(&self.0) {
            map.serialize_entry(reason.as_str(), count)?;
        }
        map.end()
    }
}

/// Counts with the bounds as names.
#[derive(Debug)]
pub(crate) struct ByBound(pub(crate) [u64; Bound::COUNT]);

impl Serialize for ByBound {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = Bound::ALL.iter().zip(&self.0);
        serializer.collect_map(counts.map(|(bound, count)| (bound.as_str(), count)))
    }
}

/// Counts with the transports as names.
#[derive(Debug)]
pub(crate) struct ByTransport(pub(crate) [u64; Transport::COUNT]);

impl Serialize for ByTransport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (transport, count) in Transport::ALL.iter().zip(&self.0) {
            map.serialize_entry(transport.as_str(), count)?;
        }
        map.end()
    }
}

/// Counts with the upper bounds as names.
#[derive(Debug)]
struct ByDuration([u64; TurnSnapshot::BUCKETS]);

impl Serialize for ByDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (bound, count) in TurnSnapshot::BOUNDS_NS.iter().zip(&self.0) {
            map.serialize_entry(&(bound / 1000), count)?;
        }
        map.serialize_entry("more", &self.0[TurnSnapshot::BUCKETS - 1])?;
        map.end()
    }
}

pub(crate) async fn stats(State(api): State<Arc<Api>>) -> Result<Json<Stats>, ApiProblem> {
    let snapshot = api.snapshot()?;
    let resident = sys::process::resident().unwrap_or_default();
    let waits = sys::machine::waits();
    let sockets = api.sockets.read().await;
    let history = api.history();
    Ok(Json(Stats {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: api.started.elapsed().as_secs_f64(),
        cpu_seconds: sys::clock::process_cpu().as_secs_f64(),
        resident_bytes: resident.total,
        resident_anonymous_bytes: resident.anonymous,
        resident_file_bytes: resident.file,
        major_faults: sys::process::major_faults(),
        stolen_seconds: waits.stolen.map(|stolen| stolen.as_secs_f64()),
        memory_stalled_seconds: waits.memory.map(|memory| memory.as_secs_f64()),
        kernel_socket_bytes: sockets.total,
        kernel_tcp_buffer_bytes: sockets.buffers,
        events: api.events(),
        send_duration: api.durations.reading(),
        history_events: history.events,
        history_bytes: history.bytes,
        log: LogStats::of(&api),
        resumes: api.resumes.resumed(),
        resume_gaps: api.resumes.gaps(),
        idempotency_keys: api.idempotency.count(),
        idempotency_bytes: api.idempotency.bytes(),
        idempotency_repeats: api.idempotency.repeats(),
        idempotency_refused: api.idempotency.refused(),
        ids_online: api.router.ids_online(),
        ids_bytes: api.router.names().bytes(),
        buffered_bytes: snapshot.buffered_bytes,
        subscriptions: api.graph.subscriptions(),
        store_bytes: api.graph.disk_bytes().ok(),
        tokens: TokenStats::of(&api, &snapshot),
        tls: TlsStats::of(&api.certificates, &snapshot.whole().tls, &api.handshakes),
        mercure: MercureStats::of(&api, &snapshot),
        cluster: api.sender.cluster.as_deref().map(ClusterStats::of),
        erlang: api.erlang().map(Erlang::report),
        whole: snapshot.whole().into(),
        workers: snapshot.workers.into_iter().map(WorkerStats::from).collect(),
    }))
}
