//! The figures of the workers for Prometheus, each with the number of its worker.

use engine::{TurnSnapshot, WorkerSnapshot};
use hub::{Bound, DisconnectReason};
use prometheus::proto::{Metric, MetricFamily, MetricType};
use proto::Transport;

use super::families::{counter_of, family, gauge_of, histogram_of, metric};

/// How a figure is read out of a worker's counters.
type ReadFigure = fn(&WorkerSnapshot) -> u64;

const WORKER_GAUGES: [(&str, &str, ReadFigure); 3] = [
    ("encke_connections_open", "Connections open now.", |worker| worker.connections_open),
    ("encke_worker_full", "1 while the worker takes no more connections.", |worker| worker.full),
    ("encke_mails_waiting", "Mails in the worker's mailbox.", |worker| worker.mails_waiting),
];

const WORKER_COUNTERS: [(&str, &str, ReadFigure); 8] = [
    ("encke_connections_opened_total", "Connections accepted.", |worker| worker.opened),
    ("encke_deliveries_total", "Events handed to connections.", |worker| worker.deliveries),
    (
        "encke_deliveries_dropped_total",
        "Deliveries that met their connection too late or found it too slow.",
        |worker| worker.dropped,
    ),
    ("encke_keepalives_total", "Keep-alives sent.", |worker| worker.keepalives),
    ("encke_gaps_total", "Clients told of a gap in mid-stream.", |worker| worker.gaps),
    ("encke_writes_total", "Write calls.", |worker| worker.writes),
    ("encke_sent_bytes_total", "Bytes that the kernel took.", |worker| worker.bytes_sent),
    (
        "encke_accept_shortages_total",
        "How often the kernel gave no descriptor or memory for another client.",
        |worker| worker.shortages,
    ),
];

/// Those of each worker, under its number.
pub(super) fn families(workers: &[WorkerSnapshot]) -> Vec<MetricFamily> {
    let numbers: Vec<String> = (0..workers.len()).map(|worker| worker.to_string()).collect();
    let by_worker = |read: ReadFigure, value: fn(f64) -> Metric| {
        let each = numbers.iter().zip(workers);
        each.map(|(number, worker)| metric(&[("worker", number)], value(read(worker) as f64)))
            .collect()
    };
    let mut families = Vec::new();
    for (name, help, read) in WORKER_GAUGES {
        families.push(family(name, help, MetricType::GAUGE, by_worker(read, gauge_of)));
    }
    for (name, help, read) in WORKER_COUNTERS {
        families.push(family(name, help, MetricType::COUNTER, by_worker(read, counter_of)));
    }
    let (mut closed, mut streams, mut bounds) = (Vec::new(), Vec::new(), Vec::new());
    let (mut turns, mut longest) = (Vec::new(), Vec::new());
    for (number, worker) in numbers.iter().zip(workers) {
        turns.push(metric(&[("worker", number)], turns_of(worker)));
        let seconds = worker.turns.longest_ns as f64 / 1e9;
        longest.push(metric(&[("worker", number)], gauge_of(seconds)));
        for (reason, count) in DisconnectReason::ALL.iter().zip(worker.closed) {
            let labels = [("worker", number.as_str()), ("reason", reason.as_str())];
            closed.push(metric(&labels, counter_of(count as f64)));
        }
        for (bound, count) in Bound::ALL.iter().zip(worker.bounds) {
            let labels = [("worker", number.as_str()), ("bound", bound.as_str())];
            bounds.push(metric(&labels, counter_of(count as f64)));
        }
        for (transport, count) in Transport::ALL.iter().zip(worker.streams_open) {
            let labels = [("worker", number.as_str()), ("transport", transport.as_str())];
            streams.push(metric(&labels, gauge_of(count as f64)));
        }
    }
    families.push(family(
        "encke_connections_closed_total",
        "Connections ended, by reason.",
        MetricType::COUNTER,
        closed,
    ));
    families.push(family(
        "encke_bounds_met_total",
        "How often a client met a bound on what one address or one id may have.",
        MetricType::COUNTER,
        bounds,
    ));
    families.push(family("encke_streams_open", "Streams now.", MetricType::GAUGE, streams));
    families.push(family(
        "encke_turn_duration_seconds",
        "Turns of the worker's loop, without its waits.",
        MetricType::HISTOGRAM,
        turns,
    ));
    families.push(family(
        "encke_turn_longest_seconds",
        "The longest turn of the worker's loop since the start.",
        MetricType::GAUGE,
        longest,
    ));
    families
}

fn turns_of(worker: &WorkerSnapshot) -> Metric {
    let turns = &worker.turns;
    let buckets = TurnSnapshot::BOUNDS_NS.iter().zip(&turns.buckets);
    let cumulative = buckets.scan(0, |below, (bound, count)| {
        *below += count;
        Some((*bound as f64 / 1e9, *below))
    });
    histogram_of(cumulative, turns.count(), turns.total_ns as f64 / 1e9)
}
