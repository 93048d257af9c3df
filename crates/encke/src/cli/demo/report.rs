//! What came of a demo: a table for people, JSON for programs, and whether all went well.

use std::fmt::{self, Display};

use figures::numbers::{bytes, grouped};
use load::findings::Findings;
use load::report::RunReport;
use serde::Serialize;

use super::measure::{Course, Opening};

/// Connections of a crowd beside which other programs do not count: the table tells figures of the
/// whole machine from here on.
const CROWD_ALONE: u64 = 100_000;

/// The report of a demo.
#[derive(Debug, Serialize)]
pub(super) struct DemoReport {
    /// What the senders and the crowd saw.
    #[serde(flatten)]
    pub(super) run: RunReport,
    pub(super) graph: GraphReport,
    pub(super) connecting: ConnectingReport,
    pub(super) server: ServerReport,
    /// Memory of the whole machine, both ends of every connection.
    pub(super) machine: MachineReport,
    /// Streams that others opened, to look at the demo. What they heard is counted apart.
    pub(super) visitors: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct GraphReport {
    pub(super) users: u32,
    pub(super) subscriptions: u64,
    /// How many hear an event on average: its subject and who follows it.
    pub(super) mean_audience: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct ConnectingReport {
    /// Connections a second, over all.
    per_second: f64,
    /// Connections a second over the first tenth of the crowd.
    per_second_first: f64,
    /// Connections a second over the last tenth.
    per_second_last: f64,
    /// Processor time of the server per connection, microseconds.
    server_cpu_us: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct ServerReport {
    /// Before anybody was online.
    resident_bytes_empty: u64,
    /// With everybody online, before the first event.
    resident_bytes_idle: u64,
    /// Heap and stacks of that.
    anonymous_bytes_idle: u64,
    /// The rest: pages of the graph and of the program, which the kernel may take back.
    file_bytes_idle: u64,
    /// Heap and stacks that the crowd added, for each connection.
    bytes_per_connection: f64,
    /// While events were sent, at most.
    resident_bytes_traffic: u64,
    /// Heap and stacks while events were sent, at most.
    anonymous_bytes_traffic: u64,
    /// Pages of files while events were sent, at most.
    file_bytes_traffic: u64,
    /// Processor time per delivery, microseconds.
    cpu_us_per_delivery: f64,
    /// Processor time while events were sent, as a share of one core.
    cpu_share: f64,
    deliveries: u64,
    deliveries_per_second: f64,
    /// Deliveries that met nobody any more.
    dropped: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct MachineReport {
    /// In use before the demo began.
    bytes_before: u64,
    /// In use with everybody online.
    bytes_idle: u64,
    /// While events were sent, at most.
    bytes_traffic: u64,
    /// What the kernel keeps for the sockets of all programs, at the end of the traffic; null where
    /// it may not be read.
    socket_bytes: Option<u64>,
}

impl DemoReport {
    pub(super) fn new(
        run: RunReport,
        graph: GraphReport,
        course: &Course,
        machine_bytes_before: u64,
    ) -> DemoReport {
        let Course { empty, idle, end, .. } = course;
        let opened = run.flood.opened;
        let deliveries = end.server.deliveries - idle.server.deliveries;
        let heap = |bytes: u64| bytes.saturating_sub(empty.server.resident_anonymous_bytes);
        let cpu_seconds = end.cpu_seconds_since(idle);
        DemoReport {
            visitors: run.others,
            connecting: ConnectingReport::new(
                &course.opening,
                per(idle.cpu_seconds_since(empty) * 1e6, opened),
            ),
            server: ServerReport {
                resident_bytes_empty: empty.server.resident_bytes,
                resident_bytes_idle: idle.server.resident_bytes,
                anonymous_bytes_idle: idle.server.resident_anonymous_bytes,
                file_bytes_idle: idle.server.resident_file_bytes,
                bytes_per_connection: per(
                    heap(idle.server.resident_anonymous_bytes) as f64,
                    opened,
                ),
                resident_bytes_traffic: course.most.resident_bytes,
                anonymous_bytes_traffic: course.most.anonymous_bytes,
                file_bytes_traffic: course.most.file_bytes,
                cpu_us_per_delivery: per(cpu_seconds * 1e6, deliveries),
                cpu_share: cpu_seconds / end.seconds_since(idle).max(1e-3),
                deliveries,
                deliveries_per_second: deliveries as f64 / run.spam.seconds.max(1e-3),
                dropped: end.server.dropped,
            },
            machine: MachineReport {
                bytes_before: machine_bytes_before,
                bytes_idle: idle.machine_bytes,
                bytes_traffic: course.most.machine_bytes,
                socket_bytes: end.server.kernel_socket_bytes,
            },
            graph,
            run,
        }
    }

    /// What went wrong, and what was not checked.
    pub(super) fn findings(&self) -> Findings {
        let mut findings = self.run.findings();
        // What is on its way to a visitor who leaves is dropped, too.
        let dropped = if self.visitors == 0 { self.server.dropped } else { 0 };
        findings.fault(dropped, |count| format!("the server dropped {count} deliveries"));
        findings
    }
}

fn per(amount: f64, count: u64) -> f64 {
    amount / count.max(1) as f64
}

impl ConnectingReport {
    fn new(opening: &Opening, server_cpu_us: f64) -> ConnectingReport {
        let [per_second, per_second_first, per_second_last] = opening.rates();
        ConnectingReport { per_second, per_second_first, per_second_last, server_cpu_us }
    }
}

impl Display for DemoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DemoReport { run, connecting, server, machine, .. } = self;
        let (flood, spam) = (&run.flood, &run.spam);
        let mut row = |name: &str, value: String| writeln!(f, "{name:<18} {value}");
        let [all, first, last] =
            [connecting.per_second, connecting.per_second_first, connecting.per_second_last]
                .map(|rate| grouped(rate.round() as u64));
        let (opened, failed) = (grouped(flood.opened), grouped(flood.failed));
        let ended = grouped(flood.closed);
        row("connections", format!("{opened} opened, {failed} failed, {ended} ended early"))?;
        row("connect rate", format!("{all}/s (first tenth {first}/s, last tenth {last}/s)"))?;
        let (sent, seconds) = (grouped(spam.sent), spam.seconds);
        row("events", format!("{sent} sent in {seconds:.1} s, {:.1}/s", per_second(spam)))?;
        let rate = grouped(server.deliveries_per_second.round() as u64);
        let dropped = grouped(server.dropped);
        let deliveries = grouped(server.deliveries);
        row("deliveries", format!("{deliveries}, {rate}/s, dropped {dropped}"))?;
        row("latency", flood.latency.to_string())?;
        let memory = |heap: u64, files: u64| {
            format!("{} heap and stacks, {} pages of files", bytes(heap), bytes(files))
        };
        row("server, idle", memory(server.anonymous_bytes_idle, server.file_bytes_idle))?;
        row("  per connection", format!("{:.0} B", server.bytes_per_connection))?;
        row("server, traffic", memory(server.anonymous_bytes_traffic, server.file_bytes_traffic))?;
        if flood.opened >= CROWD_ALONE {
            if let Some(sockets) = machine.socket_bytes {
                let each = per(sockets as f64, flood.opened);
                row("sockets, kernel", format!("{}, {each:.0} B a connection", bytes(sockets)))?;
            }
            let added = bytes(machine.bytes_traffic.saturating_sub(machine.bytes_before));
            row("whole machine", format!("{added} more than before, both ends"))?;
        }
        let (connect, delivery) = (connecting.server_cpu_us, server.cpu_us_per_delivery);
        let share = 100.0 * server.cpu_share;
        let costs = format!("{connect:.1} µs a connect, {delivery:.1} µs a delivery");
        row("server, processor", format!("{costs}, {share:.1} % of a core in traffic"))?;
        let listeners = 100.0 * spam.cpu_seconds / seconds.max(1e-3);
        row("senders", format!("{listeners:.1} % of a core"))?;
        let (delivered, received) = (grouped(spam.delivered), grouped(flood.runs.of(spam.run)));
        let streams = grouped(self.visitors);
        match (self.visitors, run.to_others) {
            (0, _) => {
                writeln!(f, "lost {} ({delivered} delivered − {received} received)", run.lost)
            }
            (_, Some(heard)) => {
                let heard = grouped(heard);
                row("visitors", format!("{streams} streams, to which {heard} deliveries went"))?;
                let others = format!("{heard} to visitors");
                let sum = format!("({delivered} delivered − {others} − {received} received)");
                writeln!(f, "lost {} {sum}", run.lost)
            }
            (_, None) => {
                row("visitors", format!("{streams} streams"))?;
                let sum = format!("{delivered} delivered, {received} received");
                writeln!(f, "lost unknown: visitors heard some, and the graph changed ({sum})")
            }
        }
    }
}

fn per_second(spam: &load::report::SpamReport) -> f64 {
    spam.sent as f64 / spam.seconds.max(1e-3)
}
