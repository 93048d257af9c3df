//! What one event of the dashboard holds: the figures of `/stats` that it draws.
//!
//! Counts are since the start, as everywhere: the page subtracts, so one that is missed costs
//! resolution and no truth. The event is bounded: however many workers there are, it tells of at
//! most [`ROWS_MAX`] groups of them.
//!
//! The dashboards' own streams, their id and what they hear are left out of what is counted for the
//! whole: a server with nobody but its operator online says that nobody is.

use dispatch::cluster::{Cluster, NodeStatus};
use engine::{ClientSendOutcome, Snapshot, WorkerSnapshot};
use figures::latency::Quantiles;
use gateway::{Erlang, Report};
use httpd::problem::ApiProblem;
use hub::IdText;
use serde::Serialize;

use crate::api::dashboards::past::Second;
use crate::api::monitoring::cluster::name as membership_name;
use crate::api::monitoring::stats::{ByReason, ByTransport};
use crate::api::readings::sockets::SocketBytes;
use crate::api::state::Api;

/// Workers that are told apart. More are told in groups of neighbours.
const ROWS_MAX: usize = 64;

/// What the frames of all transports put around it, its id among them.
const FRAME_BYTES: usize = 512;

/// The figures of one moment.
#[derive(Debug, Serialize)]
pub(super) struct Sample {
    /// The server's clock, since 1970.
    unix_seconds: f64,
    uptime_seconds: f64,
    cpu_seconds: f64,
    resident_bytes: u64,
    resident_anonymous_bytes: u64,
    resident_file_bytes: u64,
    kernel_socket_bytes: Option<u64>,
    kernel_tcp_buffer_bytes: Option<u64>,
    /// Streams of dashboards, which the counts below leave out, but for those by transport and by
    /// worker.
    dashboards: u64,
    ids_online: u64,
    subscriptions: u64,
    /// Size of the graph's file; null when it cannot be told.
    store_bytes: Option<u64>,
    events: u64,
    /// Of the sends of the last second; null when there was none.
    send_p50_seconds: Option<f64>,
    send_p99_seconds: Option<f64>,
    connections_open: u64,
    connections_opened: u64,
    connections_closed: ByReason,
    streams_open: ByTransport,
    deliveries: u64,
    /// Events that clients sent, and those of theirs that were refused.
    client_sends: u64,
    client_sends_refused: u64,
    dropped: u64,
    sent_bytes: u64,
    mails_waiting: u64,
    history: HistoryFigures,
    /// The Erlang side; null when there is none.
    erlang: Option<ErlangFigures>,
    /// How this node stands to the log of its cluster; null when it is alone.
    cluster: Option<ClusterFigures>,
    workers: Workers,
}

/// What is remembered for clients that come back, and how they fared.
#[derive(Debug, Serialize)]
struct HistoryFigures {
    events: usize,
    bytes: usize,
    /// Clients that came back with the id of an event, and those of them that were told of a gap.
    resumes: u64,
    gaps: u64,
}

/// The Erlang side.
#[derive(Debug, Serialize)]
struct ErlangFigures {
    node: String,
    /// Whether epmd knows it.
    registered: bool,
    nodes: usize,
    processes: usize,
    waiting_bytes: usize,
    events: u64,
    deliveries: u64,
    dropped: u64,
}

impl From<Report> for ErlangFigures {
    fn from(report: Report) -> ErlangFigures {
        ErlangFigures {
            node: report.node,
            registered: report.registered,
            nodes: report.nodes,
            processes: report.processes,
            waiting_bytes: report.waiting_bytes,
            events: report.events,
            deliveries: report.deliveries,
            dropped: report.dropped,
        }
    }
}

/// A node and the log of its cluster.
#[derive(Debug, Serialize)]
struct ClusterFigures {
    membership: &'static str,
    lag_records: u64,
    /// Sends that wait to be put into the log, and those that wait for the counts of others.
    queued: usize,
    counting: usize,
    /// How often all streams were told of a gap.
    gaps: u64,
    nats_connected: bool,
    nats_server: String,
}

impl From<&Cluster> for ClusterFigures {
    fn from(cluster: &Cluster) -> ClusterFigures {
        let NodeStatus { membership, node, gaps, .. } = cluster.status();
        let (state, counts) = cluster.nats();
        ClusterFigures {
            membership: membership_name(membership),
            lag_records: counts.pending,
            queued: node.queued,
            counting: node.counting,
            gaps,
            nats_connected: state.connected,
            nats_server: state.server,
        }
    }
}

/// The figures of the workers, in columns: one number for each group.
#[derive(Debug, Serialize)]
struct Workers {
    count: usize,
    /// Neighbours that one number stands for.
    workers_per_row: usize,
    connections_open: Vec<u64>,
    deliveries: Vec<u64>,
    turns: Vec<u64>,
    turn_seconds: Vec<f64>,
    mails_waiting: Vec<u64>,
    /// How many of the group take no more connections.
    full: Vec<u64>,
}

impl Workers {
    fn of(workers: &[WorkerSnapshot], rows_max: usize) -> Workers {
        let workers_per_row = workers.len().div_ceil(rows_max).max(1);
        let groups = workers.chunks(workers_per_row);
        let rows: Vec<WorkerSnapshot> = groups
            .map(|group| Snapshot { workers: group.to_vec(), ..Snapshot::default() }.whole())
            .collect();
        let column = |read: fn(&WorkerSnapshot) -> u64| rows.iter().map(read).collect();
        Workers {
            count: workers.len(),
            workers_per_row,
            connections_open: column(|row| row.connections_open),
            deliveries: column(|row| row.deliveries),
            turns: column(|row| row.turns.count()),
            turn_seconds: rows.iter().map(|row| seconds(row.turns.total_ns)).collect(),
            mails_waiting: column(|row| row.mails_waiting),
            full: column(|row| row.full),
        }
    }

    /// The rows joined in pairs: half as many.
    fn halved(&self) -> Workers {
        fn pairs<T: Copy + std::iter::Sum<T>>(column: &[T]) -> Vec<T> {
            column.chunks(2).map(|pair| pair.iter().copied().sum()).collect()
        }
        Workers {
            count: self.count,
            workers_per_row: self.workers_per_row * 2,
            connections_open: pairs(&self.connections_open),
            deliveries: pairs(&self.deliveries),
            turns: pairs(&self.turns),
            turn_seconds: pairs(&self.turn_seconds),
            mails_waiting: pairs(&self.mails_waiting),
            full: pairs(&self.full),
        }
    }
}

/// To the microsecond: more digits would only make the event longer.
fn seconds(ns: u64) -> f64 {
    (ns / 1_000) as f64 / 1e6
}

impl Sample {
    /// The figures of this moment. `sends` is how long those of the last second took.
    pub(super) fn take(
        api: &Api,
        sockets: SocketBytes,
        sends: Option<Quantiles>,
    ) -> Result<Sample, ApiProblem> {
        let own = IdText::parse(&api.live_id);
        let dashboards = own.map_or(0, |id| api.router.connections(id) as u64);
        let history = api.history();
        let resident = sys::process::resident().unwrap_or_default();
        let snapshot = api.snapshot()?;
        let whole = snapshot.whole();
        let sends = sends.filter(|sends| sends.count > 0);
        let (posted, refused) = api.client_sends.outcomes().into_iter().fold(
            (0, 0),
            |(posted, refused), (outcome, count)| match outcome {
                ClientSendOutcome::Posted => (posted + count, refused),
                _ => (posted, refused + count),
            },
        );
        Ok(Sample {
            unix_seconds: sys::clock::unix_ms() as f64 / 1e3,
            uptime_seconds: seconds(api.started.elapsed().as_nanos() as u64),
            cpu_seconds: seconds(sys::clock::process_cpu().as_nanos() as u64),
            resident_bytes: resident.total,
            resident_anonymous_bytes: resident.anonymous,
            resident_file_bytes: resident.file,
            kernel_socket_bytes: sockets.total,
            kernel_tcp_buffer_bytes: sockets.buffers,
            dashboards,
            ids_online: (api.router.ids_online() as u64).saturating_sub(dashboards.min(1)),
            subscriptions: api.graph.subscriptions(),
            store_bytes: api.graph.disk_bytes().ok(),
            events: api.events(),
            send_p50_seconds: sends.map(|sends| seconds((sends.p50_ms * 1e6) as u64)),
            send_p99_seconds: sends.map(|sends| seconds((sends.p99_ms * 1e6) as u64)),
            connections_open: whole.connections_open.saturating_sub(dashboards),
            connections_opened: whole.opened,
            connections_closed: ByReason(whole.closed),
            streams_open: ByTransport(whole.streams_open),
            deliveries: whole.deliveries.saturating_sub(api.dashboards.deliveries()),
            client_sends: posted,
            client_sends_refused: refused,
            dropped: whole.dropped,
            sent_bytes: whole.bytes_sent,
            mails_waiting: whole.mails_waiting,
            history: HistoryFigures {
                events: history.events,
                bytes: history.bytes,
                resumes: api.resumes.resumed(),
                gaps: api.resumes.gaps(),
            },
            erlang: api.erlang().map(Erlang::report).map(ErlangFigures::from),
            cluster: api.sender.cluster.as_deref().map(ClusterFigures::from),
            workers: Workers::of(&snapshot.workers, ROWS_MAX),
        })
    }

    /// What charts keep of it.
    pub(super) fn second(&self) -> Second {
        Second {
            unix_seconds: self.unix_seconds,
            uptime_seconds: self.uptime_seconds,
            cpu_seconds: self.cpu_seconds,
            resident_anonymous_bytes: self.resident_anonymous_bytes,
            resident_file_bytes: self.resident_file_bytes,
            kernel_socket_bytes: self.kernel_socket_bytes,
            connections_open: self.connections_open,
            events: self.events,
            deliveries: self.deliveries,
            client_sends: self.client_sends,
            client_sends_refused: self.client_sends_refused,
            send_p50_seconds: self.send_p50_seconds,
            send_p99_seconds: self.send_p99_seconds,
        }
    }

    /// As JSON that fits into a connection's backlog of so many bytes, in as many rows as that
    /// takes.
    pub(super) fn into_json(mut self, backlog_bytes_max: usize) -> String {
        loop {
            let json = serde_json::to_string(&self).expect("all members are plain values");
            if json.len() + FRAME_BYTES <= backlog_bytes_max || self.workers.full.len() <= 1 {
                return json;
            }
            self.workers = self.workers.halved();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(count: usize) -> Vec<WorkerSnapshot> {
        let worker = |number| WorkerSnapshot {
            connections_open: number,
            deliveries: u64::MAX >> 20,
            bytes_sent: u64::MAX >> 20,
            mails_waiting: 2_048,
            full: 1,
            ..WorkerSnapshot::default()
        };
        (0..count as u64).map(worker).collect()
    }

    #[test]
    fn many_workers_are_told_in_groups_that_add_up() {
        for (count, rows, per_row) in [(1, 1, 1), (64, 64, 1), (65, 33, 2), (4_096, 64, 64)] {
            let columns = Workers::of(&workers(count), ROWS_MAX);
            let open = &columns.connections_open;
            assert_eq!((open.len(), columns.workers_per_row), (rows, per_row));
            assert_eq!(open.iter().sum::<u64>(), (0..count as u64).sum::<u64>());
            let halved = columns.halved();
            assert_eq!(halved.full.len(), rows.div_ceil(2));
            assert_eq!(halved.full.iter().sum::<u64>(), count as u64);
        }
    }
}
