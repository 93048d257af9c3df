//! The server's own figures at one moment, out of the JSON of `GET /stats`, and what two of them
//! say of the time in between.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Durations, Row, round};

/// What a run takes from `GET /stats`; the rest of it is passed over.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
pub struct Reading {
    /// Seconds since the server's start.
    pub uptime_seconds: f64,
    /// Processor time since the server's start, user and kernel.
    pub cpu_seconds: f64,
    /// Memory of the process.
    pub resident_bytes: u64,
    /// Its heap and stacks.
    pub resident_anonymous_bytes: u64,
    /// Pages of mapped files.
    pub resident_file_bytes: u64,
    /// What the kernel keeps for the sockets of the whole machine, where it may be read.
    pub kernel_socket_bytes: Option<u64>,
    kernel_tcp_buffer_bytes: Option<u64>,
    connections_open: u64,
    /// Connections accepted since the server's start.
    pub connections_opened: u64,
    /// By reason.
    connections_closed: BTreeMap<String, u64>,
    ids_online: u64,
    /// Stored subscriptions.
    pub subscriptions: u64,
    events: u64,
    /// Events handed to connections since the server's start.
    pub deliveries: u64,
    /// Those that met their connection too late or too slow.
    pub dropped: u64,
    send_duration: Durations,
    /// Turns of the workers, by the longest that they may have been; `more` is without a bound.
    turns_by_microseconds: BTreeMap<String, u64>,
    turn_seconds_longest: f64,
    major_faults: u64,
    stolen_seconds: Option<f64>,
    memory_stalled_seconds: Option<f64>,
    /// The Erlang side, where there is one.
    erlang: Option<ErlangReading>,
}

/// What a run takes of the Erlang side.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize)]
struct ErlangReading {
    nodes: u64,
    processes: u64,
    /// Since the server's start.
    events: u64,
    deliveries: u64,
}

impl Reading {
    /// The row of this reading, `seconds` after the start of the run and `unix_ms` by the calendar.
    /// What is a rate needs the reading `before`, of the same server: after a restart there is
    /// none.
    pub fn row(&self, seconds: f64, unix_ms: u64, before: Option<&Reading>) -> Row {
        let closed = &self.connections_closed;
        let mut row = Row {
            resident_bytes: Some(self.resident_bytes),
            resident_anonymous_bytes: Some(self.resident_anonymous_bytes),
            resident_file_bytes: Some(self.resident_file_bytes),
            kernel_socket_bytes: self.kernel_socket_bytes,
            kernel_tcp_buffer_bytes: self.kernel_tcp_buffer_bytes,
            connections_open: Some(self.connections_open),
            connections_opened: Some(self.connections_opened),
            connections_closed: Some(closed.values().sum()),
            slow_readers_closed: Some(closed.get("slow_reader").copied().unwrap_or(0)),
            ids_online: Some(self.ids_online),
            subscriptions: Some(self.subscriptions),
            events: Some(self.events),
            deliveries: Some(self.deliveries),
            dropped: Some(self.dropped),
            erlang_nodes: self.erlang.map(|erlang| erlang.nodes),
            erlang_processes: self.erlang.map(|erlang| erlang.processes),
            ..Row::unknown(seconds, unix_ms)
        };
        // The server's own clock, so that the way of the answer makes no difference.
        let same = |before: &&Reading| before.uptime_seconds < self.uptime_seconds;
        if let Some(before) = before.filter(same) {
            let interval = self.uptime_seconds - before.uptime_seconds;
            let rate =
                |now: u64, then: u64| Some(round(now.saturating_sub(then) as f64 / interval, 10.0));
            row.events_per_second = rate(self.events, before.events);
            row.deliveries_per_second = rate(self.deliveries, before.deliveries);
            if let (Some(now), Some(then)) = (self.erlang, before.erlang) {
                row.erlang_events_per_second = rate(now.events, then.events);
                row.erlang_deliveries_per_second = rate(now.deliveries, then.deliveries);
            }
            let share = (self.cpu_seconds - before.cpu_seconds).max(0.0) / interval;
            row.cpu_percent_of_core = Some(round(100.0 * share, 10.0));
            row.set_sent(&self.send_duration.since(&before.send_duration));
            row.turn_max_ms = self.longest_turn_ms(before);
            row.major_faults = Some(self.major_faults.saturating_sub(before.major_faults));
            let percent = |now: Option<f64>, then: Option<f64>| {
                Some(round(100.0 * (now? - then?).max(0.0) / interval, 10.0))
            };
            row.stolen_percent_of_core = percent(self.stolen_seconds, before.stolen_seconds);
            row.memory_stalled_percent =
                percent(self.memory_stalled_seconds, before.memory_stalled_seconds);
        }
        row
    }

    /// The bound of the longest turn since the reading `before`.
    fn longest_turn_ms(&self, before: &Reading) -> Option<f64> {
        let is_new = |(bound, count): &(&String, &u64)| {
            **count > before.turns_by_microseconds.get(*bound).copied().unwrap_or(0)
        };
        let grown = self.turns_by_microseconds.iter().filter(is_new);
        let ms = |(bound, _): (&String, _)| match bound.parse::<f64>() {
            Ok(microseconds) => microseconds / 1e3,
            Err(_) => self.turn_seconds_longest * 1e3,
        };
        grown.map(ms).reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(uptime_seconds: f64) -> Reading {
        let connections_closed = [("slow_reader".into(), 2), ("client_reset".into(), 3)].into();
        Reading { uptime_seconds, connections_closed, ..Reading::default() }
    }

    #[test]
    fn rates_are_by_the_server_s_clock() {
        let before = Reading { cpu_seconds: 1.0, events: 5, ..reading(10.0) };
        let turns_by_microseconds = [("64".into(), 7), ("2048".into(), 1), ("more".into(), 0)];
        let now = Reading {
            cpu_seconds: 1.5,
            events: 25,
            deliveries: 1_000,
            turns_by_microseconds: turns_by_microseconds.into(),
            major_faults: 3,
            stolen_seconds: Some(0.5),
            erlang: Some(ErlangReading { nodes: 2, processes: 7, events: 30, deliveries: 3 }),
            ..reading(12.0)
        };
        let before = Reading { stolen_seconds: Some(0.25), ..before };
        let row = now.row(7.0, 0, Some(&before));
        assert_eq!((row.erlang_nodes, row.erlang_processes), (Some(2), Some(7)));
        assert_eq!(row.erlang_events_per_second, None, "there was no Erlang side before");
        let before = Reading { erlang: Some(ErlangReading::default()), ..before };
        let row = now.row(7.0, 0, Some(&before));
        assert_eq!(row.erlang_events_per_second, Some(15.0));
        assert_eq!(row.erlang_deliveries_per_second, Some(1.5));
        assert_eq!((row.seconds, row.events), (7.0, Some(25)));
        assert_eq!(row.events_per_second, Some(10.0));
        assert_eq!(row.deliveries_per_second, Some(500.0));
        assert_eq!(row.cpu_percent_of_core, Some(25.0));
        assert_eq!((row.connections_closed, row.slow_readers_closed), (Some(5), Some(2)));
        assert_eq!(row.send_p50_ms, None, "no event, no latency");
        assert_eq!((row.turn_max_ms, row.major_faults), (Some(2.048), Some(3)));
        assert_eq!(row.stolen_percent_of_core, Some(12.5));
        assert_eq!(row.memory_stalled_percent, None, "the kernel does not tell");
    }

    #[test]
    fn first_reading_and_one_after_a_restart_have_no_rates() {
        let now = Reading { events: 25, ..reading(1.0) };
        for before in [None, Some(&reading(10.0))] {
            let row = now.row(0.0, 0, before);
            assert!(!row.is_unknown());
            assert_eq!((row.events, row.events_per_second), (Some(25), None));
            assert_eq!(row.cpu_percent_of_core, None);
            assert_eq!(row.erlang_nodes, None, "there is no Erlang side");
        }
    }
}
