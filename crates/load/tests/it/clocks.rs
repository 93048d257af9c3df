//! Runs whose time is another one than the crowd's.

use std::time::Duration;

use load::report::FloodReport;
use load::stamp::{RunName, Stamp, boot};
use load::{Spam, SpamConfig};

use crate::server::{Fate, Server};
use crate::{TIMEOUT, event, expect_faults, finished, flood, spam_config};

#[test]
fn run_that_was_under_way_is_checked_from_the_first_event_on() {
    let server = Server::start(|_| Fate::Deliver);
    let flood = flood(&server, 1);
    server.send("0", &event(7, Duration::ZERO));
    server.send("0", &event(8, Duration::ZERO));
    assert!(flood.wait_until(TIMEOUT, |totals| totals.events == 2));
    let report = FloodReport::from(&flood.finish().unwrap());
    assert_eq!((report.joined, report.missing), (1, 0), "{report}");
    let findings = report.findings();
    assert_eq!(findings.failure(), None);
    assert!(findings.to_string().contains("of 1 streams of a run under way"), "{findings}");
}

#[test]
fn event_before_its_time_shows_that_the_clocks_differ() {
    let server = Server::start(|_| Fate::Deliver);
    let flood = flood(&server, 1);
    let intended_ns = sys::clock::monotonic_ns() + 3_600_000_000_000;
    let run = RunName { boot: boot(), start_ms: 1, random: 0 };
    let stamp = Stamp { run, sender: 0, subject: 0, number: 1, intended_ns };
    let mut text = Vec::new();
    stamp.push(&mut text);
    server.send("0", &format!("data: {}\n\n", String::from_utf8(text).unwrap()));
    assert!(flood.wait_until(TIMEOUT, |totals| totals.events == 1));
    let findings = FloodReport::from(&flood.finish().unwrap()).findings();
    expect_faults(&findings, &["1 events came before they were to be sent"]);
}

/// A server that stands still makes every event late that was due meanwhile, also those that a
/// sender that waits for its answers would not have sent.
#[test]
fn stall_of_the_server_shows_in_the_latency_of_all_events_due_in_it() {
    let (go_on, may_go_on) = std::sync::mpsc::sync_channel(1);
    let may_go_on = std::sync::Mutex::new(may_go_on);
    let server = Server::start(move |number| {
        if number == 1 {
            may_go_on.lock().unwrap().recv().unwrap();
        }
        Fate::Lose
    });
    let duration = Duration::from_millis(200);
    let mut spam = Spam::start(&SpamConfig {
        duration: Some(duration),
        rate: 1_000.0,
        connections: 1,
        ..spam_config(&server)
    })
    .unwrap();
    while spam.snapshot().totals.sent < 200 {
        std::thread::yield_now();
    }
    go_on.send(()).unwrap();
    let report = finished(spam);
    assert_eq!((report.sent, report.answered), (200, 200));
    // Event k was due k milliseconds after the start and was answered 199 ms after it or later.
    assert!(report.answer.p50_ms >= 99.0, "{report}");
    assert!(report.answer.max_ms >= 199.0, "{report}");
}
