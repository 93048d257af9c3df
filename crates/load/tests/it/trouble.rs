//! Storms and slow listeners against a scripted server.

use std::time::Duration;

use load::FloodConfig;
use load::flood::{Storm, TroubleReport};
use load::report::FloodReport;

use crate::server::{Fate, Server};
use crate::{LATE, TIMEOUT, event, flood_of};

fn trouble(report: &FloodReport) -> &TroubleReport {
    report.trouble.as_ref().unwrap()
}

/// A crowd of eight in which 0 and 1 vanish and 2 and 3 come back.
fn stormy(server: &Server) -> FloodConfig {
    let storm = Storm { after: Duration::ZERO, ..Storm::default() };
    let (url, late_after) = (server.stream_url(), TIMEOUT);
    FloodConfig { url, users: 8, storm: Some(storm), late_after, ..FloodConfig::default() }
}

#[test]
fn storm_resets_its_shares_and_half_of_them_come_back() {
    let server = Server::start(|_| Fate::Deliver);
    let flood = flood_of(stormy(&server));
    assert!(flood.wait_until(TIMEOUT, |totals| (totals.reset, totals.returned) == (4, 2)));
    // Who came back has missed the first; who stayed must hear all.
    server.send("2", &event(2, Duration::ZERO));
    server.send("4", &event(1, Duration::ZERO));
    server.send("4", &event(3, Duration::ZERO));
    server.send("7", &event(1, LATE));
    assert!(flood.wait_until(TIMEOUT, |totals| totals.events == 4));
    let report = FloodReport::from(&flood.finish().unwrap());
    assert_eq!((report.opened, report.open, report.closed, report.failed), (10, 6, 0, 0));
    let TroubleReport { steady, storm, slow, began } = trouble(&report);
    assert!(began.is_some() && slow.is_none(), "{report}");
    let storm = storm.as_ref().unwrap();
    assert_eq!((storm.vanished, storm.left, storm.returned), (2, 2, 2));
    assert!(storm.reset_after <= storm.returned_after, "{report}");
    assert_eq!((steady.listeners, steady.open, steady.closed), (4, 4, 0));
    assert_eq!((steady.events, steady.missing, steady.late), (3, 1, 1), "{report}");
    let counts = ["before", "during", "after"].map(|span| steady.latency[span].count);
    // What was to be sent before the storm and came behind it counts as during.
    assert_eq!(counts, [0, 1, 2], "{report}");
    for row in
        ["vanished      2, the last after", "came back     2 of 2", "steady        4, open 4"]
    {
        assert!(report.to_string().contains(row), "{report}");
    }
}

#[test]
fn storm_waits_for_its_time() {
    let server = Server::start(|_| Fate::Deliver);
    let after = Duration::from_secs(1_000);
    let storm = Some(Storm { after, ..Storm::default() });
    let flood = flood_of(FloodConfig { storm, ..stormy(&server) });
    server.send("7", &event(1, Duration::ZERO));
    assert!(flood.wait_until(TIMEOUT, |totals| totals.events == 1));
    let report = FloodReport::from(&flood.finish().unwrap());
    assert_eq!(trouble(&report).steady.latency["before"].count, 1);
    assert!(trouble(&report).began.unwrap() >= 1_000.0);
    assert_eq!(trouble(&report).storm.as_ref().unwrap().reset_after, None);
}

#[test]
fn slow_listeners_open_their_stream_and_do_not_read_it() {
    let server = Server::start(|_| Fate::Deliver);
    let url = server.stream_url();
    let flood = flood_of(FloodConfig { url, users: 4, slow: 0.5, ..FloodConfig::default() });
    for id in 0..4 {
        server.send(&id.to_string(), &event(1, Duration::ZERO));
    }
    assert!(flood.wait_until(TIMEOUT, |totals| totals.events == 2));
    server.close("1");
    assert!(flood.wait_until(TIMEOUT, |totals| totals.closed_total() == 1));
    let report = FloodReport::from(&flood.finish().unwrap());
    assert_eq!((report.open, report.events), (3, 2));
    let slow = trouble(&report).slow.as_ref().unwrap();
    assert_eq!((slow.listeners, slow.open, slow.closed, slow.lasted.count), (2, 1, 1, 1));
    assert_eq!((trouble(&report).steady.open, trouble(&report).steady.events), (2, 2));
}

#[test]
fn slow_listeners_read_until_their_time_has_come() {
    let server = Server::start(|_| Fate::Deliver);
    let config = |slow_after| FloodConfig {
        url: server.stream_url(),
        users: 4,
        slow: 0.5,
        slow_after: Some(slow_after),
        ..FloodConfig::default()
    };
    let flood = flood_of(config(Duration::from_secs(1_000)));
    server.send("0", &event(1, Duration::ZERO));
    assert!(flood.wait_until(TIMEOUT, |totals| totals.events == 1));
    drop(flood);
    let flood = flood_of(config(Duration::ZERO));
    server.send("0", &event(1, Duration::ZERO));
    server.send("3", &event(1, Duration::ZERO));
    assert!(flood.wait_until(TIMEOUT, |totals| totals.events >= 1));
    server.close("0");
    assert!(flood.wait_until(TIMEOUT, |totals| totals.closed_total() == 1));
    let report = FloodReport::from(&flood.finish().unwrap());
    assert_eq!((report.events, trouble(&report).steady.events), (1, 1), "{report}");
}
