//! A row as a line for people.

use super::Row;
use crate::numbers::{bytes, grouped};

/// A turn of a worker that is worth a word.
const LONG_TURN_MS: f64 = 20.0;

/// The line of a row of `watch`: what is known of that moment.
pub fn row_line(row: &Row) -> String {
    let mut line = format!("{:6.0} s", row.seconds);
    if row.is_unknown() {
        line += "  no answer";
        return line;
    }
    let count = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), grouped);
    let rate = |rate: Option<f64>| count(rate.map(|rate| rate.round() as u64));
    let size = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), bytes);
    line += &format!(
        "  open {}  heap {}  files {}  kernel {}  events {}/s  deliveries {}/s",
        count(row.connections_open),
        size(row.resident_anonymous_bytes),
        size(row.resident_file_bytes),
        size(row.kernel_socket_bytes),
        rate(row.events_per_second),
        rate(row.deliveries_per_second),
    );
    if let (Some(nodes), Some(processes)) = (row.erlang_nodes, row.erlang_processes) {
        let (nodes, processes) = (grouped(nodes), grouped(processes));
        line += &format!(
            "  erlang {nodes} nodes {processes} processes {}/s",
            rate(row.erlang_events_per_second)
        );
    }
    if let Some(share) = row.cpu_percent_of_core {
        line += &format!("  processor {share:.0} %");
    }
    if let (Some(p50), Some(p99)) = (row.send_p50_ms, row.send_p99_ms) {
        line += &format!("  send p50 {p50:.2} p99 {p99:.2} ms");
    }
    if let (Some(p50), Some(p99)) = (row.receive_p50_ms, row.receive_p99_ms) {
        line += &format!("  receive p50 {p50:.2} p99 {p99:.2} ms");
    }
    // Whose fault a long wait was, where there was one.
    if let Some(turn) = row.turn_max_ms.filter(|&turn| turn > LONG_TURN_MS) {
        line += &format!("  turn {turn:.0} ms");
    }
    if let Some(faults) = row.major_faults.filter(|&faults| faults > 0) {
        line += &format!("  disk {}", grouped(faults));
    }
    let waits = [("stolen", row.stolen_percent_of_core), ("memory", row.memory_stalled_percent)];
    for (name, percent) in waits {
        if let Some(percent) = percent.filter(|&percent| percent >= 1.0) {
            line += &format!("  {name} {percent:.0} %");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_a_row_says_what_is_known() {
        let mut row = Row { seconds: 61.0, ..Row::default() };
        assert_eq!(row_line(&row), "    61 s  no answer");
        row.resident_anonymous_bytes = Some(42_000_000);
        row.resident_file_bytes = Some(7_000_000);
        row.connections_open = Some(10_000);
        assert!(row_line(&row).ends_with("kernel ?  events ?/s  deliveries ?/s"));
        row.events_per_second = Some(999.6);
        assert!(!row_line(&row).contains("erlang"));
        (row.erlang_nodes, row.erlang_processes) = (Some(2), Some(1_500));
        row.erlang_events_per_second = Some(70.2);
        row.cpu_percent_of_core = Some(12.4);
        (row.send_p50_ms, row.send_p99_ms) = (Some(0.251), Some(1.5));
        let waits = "turn 131 ms  disk 2  stolen 12 %";
        assert!(!row_line(&row).contains("turn"));
        (row.turn_max_ms, row.major_faults) = (Some(131.072), Some(2));
        (row.stolen_percent_of_core, row.memory_stalled_percent) = (Some(12.4), Some(0.9));
        let line = row_line(&row);
        assert!(line.ends_with(waits), "{line}");
        let memory = "open 10,000  heap 42.0 MB  files 7.0 MB";
        let erlang = "erlang 2 nodes 1,500 processes 70/s";
        for part in [memory, erlang, "events 1,000/s", "processor 12 %  send p50 0.25 p99"] {
            assert!(line.contains(part), "{line}");
        }
    }
}
