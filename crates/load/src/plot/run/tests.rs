//! Pictures of runs: what is in the file, whatever the run was like.

use super::*;
use crate::plot::{png, svg};

/// Rows of a run with something of everything, `every` seconds apart.
fn rows(count: u32, every: f64) -> Vec<Row> {
    let row = |number: u32| Row {
        seconds: f64::from(number) * every,
        resident_bytes: Some(10_000_000 + u64::from(number % 13)),
        resident_anonymous_bytes: Some(3_000_000),
        kernel_socket_bytes: Some(64_000_000),
        connections_open: Some(10_000),
        events_per_second: Some(f64::from(1_000 + number % 17)),
        deliveries_per_second: Some(f64::from(3_000 + number % 301)),
        cpu_percent_of_core: Some(f64::from(number % 40)),
        send_p50_ms: Some(0.2 + f64::from(number % 29) / 100.0),
        send_p99_ms: Some(5.0 + f64::from(number % 31)),
        send_max_ms: Some(60.0),
        ..Row::default()
    };
    (0..count).map(row).collect()
}

fn plot(rows: &[Row], theme: Theme) -> RunPlot<'_> {
    let (title, subtitle) = ("Ten thousand users", "2 cores; encke serve");
    RunPlot { rows, title, subtitle, panels: &Panel::ALL, theme }
}

#[test]
fn svg_names_its_panels_units_and_lines() {
    let svg = svg(&plot(&rows(100, 1.0), Theme::Light)).unwrap();
    for text in [
        "Ten thousand users",
        "2 cores; encke serve",
        "Memory of the server (MB)",
        "heap and stacks",
        "Events in, deliveries out (per second)",
        "10,000",
        "p99",
        "time since the start (seconds)",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    for nothing in ["arrival", "Erlang"] {
        assert!(!svg.contains(nothing), "a panel without a value is left out");
    }
    assert!(svg.starts_with("<svg width=\"1000\" height="), "{}", &svg[..120]);
    assert!(svg.contains("viewBox=\"0 0 2000 "), "twice as fine");
}

#[test]
fn erlang_side_is_drawn_where_there_is_one() {
    let mut rows = rows(20, 1.0);
    for row in &mut rows {
        (row.erlang_nodes, row.erlang_processes) = (Some(2), Some(100));
        row.erlang_events_per_second = Some(70.0);
    }
    let svg = svg(&plot(&rows, Theme::Light)).unwrap();
    for text in ["Events from Erlang", "Erlang nodes connected, processes logged in"] {
        assert!(svg.contains(text), "{text}");
    }
}

#[test]
fn svg_of_a_long_run_is_small() {
    let mut rows = rows(200_000, 5.0);
    for row in &mut rows {
        row.receive_p50_ms = row.send_p50_ms;
        row.receive_p90_ms = row.send_p99_ms;
        row.receive_p99_ms = row.send_p99_ms;
        row.receive_max_ms = row.send_max_ms;
    }
    let svg = svg(&plot(&rows, Theme::Dark)).unwrap();
    assert!(svg.contains("(days)"), "eleven days");
    assert!(svg.len() < 100_000, "{}", svg.len());
}

#[test]
fn themes_differ_and_png_is_one() {
    let rows = rows(10, 1.0);
    let light = png(&plot(&rows, Theme::Light)).unwrap();
    assert!(light.starts_with(b"\x89PNG\r\n\x1a\n"));
    assert_ne!(light, png(&plot(&rows, Theme::Dark)).unwrap());
}

#[test]
fn runs_of_no_row_one_row_and_no_value_are_handled() {
    let nothing = svg(&plot(&[], Theme::Light)).unwrap_err();
    assert_eq!(nothing.to_string(), "there is nothing to plot: the run has no row");
    assert!(svg(&plot(&rows(1, 1.0), Theme::Light)).unwrap().contains("<circle"), "a dot");
    let unknown = [Row::default(), Row::default()];
    let nothing = svg(&plot(&unknown, Theme::Light)).unwrap_err();
    assert!(nothing.to_string().contains("no column of these panels"), "{nothing}");
    let mut idle = rows(3, 1.0);
    for row in &mut idle {
        (row.events_per_second, row.deliveries_per_second) = (Some(0.0), Some(0.0));
        (row.send_p50_ms, row.send_p99_ms, row.send_max_ms) = (Some(0.0), None, None);
    }
    svg(&plot(&idle, Theme::Light)).unwrap();
}

#[test]
fn gap_splits_a_line() {
    let mut rows = rows(30, 1.0);
    let only = [Panel::Connections];
    let lines = |rows: &[Row]| {
        let plot = RunPlot { panels: &only, ..plot(rows, Theme::Light) };
        svg(&plot).unwrap().matches("<polyline").count()
    };
    let whole = lines(&rows);
    rows[15].connections_open = None;
    assert_eq!(lines(&rows), whole + 1);
}
