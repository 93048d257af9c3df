//! The instruments against a scripted server, over real sockets.

#![allow(clippy::unwrap_used, reason = "a failed test should panic")]

mod clocks;
mod connections;
mod faults;
mod polls;
mod server;
mod trouble;

use std::time::{Duration, Instant};

use load::findings::Findings;
use load::flood::Storm;
use load::report::{FloodReport, RunReport, SpamReport};
use load::spam::Payload;
use load::stamp::{RunName, Stamp, boot};
use load::{Flood, FloodConfig, Spam, SpamConfig, SpamMode};
use server::{Fate, Server};
use testing::DEADLINE as TIMEOUT;

/// By how much an event is late: by more than a busy machine makes one.
const LATE: Duration = Duration::from_secs(TIMEOUT.as_secs() + 1);

fn flood(server: &Server, users: u32) -> Flood {
    // On a busy machine an event is late that was lost nowhere.
    let (url, late_after) = (server.stream_url(), TIMEOUT);
    flood_of(FloodConfig { url, users, late_after, ..FloodConfig::default() })
}

/// Starts a crowd and waits until all have tried to come online.
fn flood_of(config: FloodConfig) -> Flood {
    let users = u64::from(config.users);
    let flood = Flood::start(config).unwrap();
    assert!(flood.wait_until(TIMEOUT, |totals| totals.opened + totals.failed_total() >= users));
    flood
}

/// 200 events at once, about 10 users.
fn spam_config(server: &Server) -> SpamConfig {
    SpamConfig {
        api: server.url(),
        users: 10,
        rate: 100_000.0,
        duration: Some(Duration::from_millis(2)),
        late_after: TIMEOUT,
        ..SpamConfig::default()
    }
}

fn finished(spam: Spam) -> SpamReport {
    while !spam.is_finished() {
        std::thread::yield_now();
    }
    SpamReport::from(&spam.finish())
}

/// Runs 200 events through a server that treats them by `script`; `expected` is how many arrive.
fn run(
    config: impl Fn(SpamConfig) -> SpamConfig,
    expected: u64,
    script: fn(u64) -> Fate,
) -> RunReport {
    let server = Server::start(script);
    let flood = flood(&server, 10);
    let spam = finished(Spam::start(&config(spam_config(&server))).unwrap());
    assert_eq!(spam.failure, None);
    assert!(flood.wait_until(TIMEOUT, |totals| totals.events >= expected));
    RunReport::new(FloodReport::from(&flood.finish().unwrap()), spam)
}

#[track_caller]
fn expect_faults(findings: &Findings, words: &[&str]) {
    assert_eq!(findings.faults.len(), words.len(), "{findings:?}");
    for (fault, words) in findings.faults.iter().zip(words) {
        assert!(fault.contains(words), "{findings:?}");
    }
}

#[test]
fn faultless_server_gets_a_clean_report() {
    for mode in [SpamMode::Stream, SpamMode::Post] {
        let report = run(|config| SpamConfig { mode, ..config }, 200, |_| Fate::Deliver);
        assert_eq!(report.findings(), Findings::default(), "{report}");
        assert_eq!(
            (report.spam.sent, report.spam.answered, report.spam.delivered),
            (200, 200, 200)
        );
        assert_eq!((report.flood.open, report.flood.stamped), (10, 200));
        assert_eq!((report.flood.latency.count, report.spam.answer.count), (200, 200));
    }
}

#[test]
fn lost_events_are_counted_to_the_last() {
    // The last event of all is lost too, which only the server's own count can show.
    let report = run(
        |config| config,
        197,
        |number| match number {
            50 | 51 | 200 => Fate::Lose,
            _ => Fate::Deliver,
        },
    );
    assert_eq!(report.lost, 3, "{report}");
    assert_eq!(report.flood.missing, 2, "{report}");
    expect_faults(&report.findings(), &["2 events are missing", "3 events were lost"]);
}

#[test]
fn very_first_event_of_a_stream_is_missed() {
    let report = run(
        |config| SpamConfig { users: 1, ..config },
        199,
        |number| match number {
            1 => Fate::Lose,
            _ => Fate::Deliver,
        },
    );
    assert_eq!((report.lost, report.flood.missing), (1, 1), "{report}");
}

#[test]
fn doubled_event_is_counted() {
    let report = run(
        |config| config,
        201,
        |number| match number {
            77 => Fate::Double,
            _ => Fate::Deliver,
        },
    );
    assert_eq!((report.lost, report.flood.doubled, report.flood.missing), (-1, 1, 0), "{report}");
    expect_faults(&report.findings(), &["1 events came twice", "1 events more were received"]);
}

#[test]
fn overtaken_event_is_not_taken_for_a_lost_one() {
    let report = run(
        |config| config,
        200,
        |number| match number {
            33 => Fate::Overtake,
            _ => Fate::Deliver,
        },
    );
    assert_eq!((report.lost, report.flood.overtaken, report.flood.missing), (0, 1, 0), "{report}");
    expect_faults(&report.findings(), &["1 events came behind a newer one"]);
}

#[test]
fn refused_event_is_a_problem_of_its_name() {
    let report = run(
        |config| config,
        199,
        |number| match number {
            9 => Fate::Refuse,
            _ => Fate::Deliver,
        },
    );
    assert_eq!(report.spam.problems["Refused"], 1, "{report}");
    assert_eq!((report.lost, report.spam.answered), (0, 200));
    // Its number was given away, so the listener misses it too.
    expect_faults(&report.findings(), &["1 events are missing", "refused: 1 (Refused 1)"]);
}

/// A payload that was to be sent `ago` before now, of a run that was under way long ago.
fn payload(number: u32, ago: Duration) -> String {
    let intended_ns = sys::clock::monotonic_ns() - ago.as_nanos() as u64;
    let run = RunName { boot: boot(), start_ms: 1, random: 0 };
    let stamp = Stamp { run, sender: 0, subject: 0, number, intended_ns };
    let mut text = Vec::new();
    stamp.push(&mut text);
    format!("\"{}\"", String::from_utf8(text).unwrap())
}

/// The same as an event.
fn event(number: u32, ago: Duration) -> String {
    format!("data: {}\n\n", payload(number, ago))
}

#[test]
fn stamps_are_found_on_every_transport() {
    use proto::{Carrier, Transport, classic, ndjson, sse, websocket};
    let streams = [Transport::Sse, Transport::Ndjson, Transport::Classic, Transport::WebSocket];
    for transport in streams {
        let server = Server::start(|_| Fate::Deliver);
        let url = server.stream_url();
        let flood = flood_of(FloodConfig { url, users: 1, transport, ..FloodConfig::default() });
        for number in 1..=3 {
            let json = payload(number, Duration::ZERO);
            let frame = match transport {
                Transport::Sse => sse::event("1", &json),
                Transport::Ndjson => ndjson::event(&json),
                Transport::Classic => {
                    let tail = classic::message(&json);
                    let prefix = classic::Prefix::new(number.into(), &tail, Carrier::Chunked);
                    server.send_raw("0", prefix.as_bytes());
                    tail
                }
                Transport::WebSocket => websocket::event(&json),
                _ => unreachable!("it is not in the list"),
            };
            server.send_raw("0", frame.for_carrier(Carrier::Chunked));
            server.send_raw("0", transport.format().keep_alive(Carrier::Chunked));
        }
        assert!(flood.wait_until(TIMEOUT, |totals| totals.events == 3));
        let report = FloodReport::from(&flood.finish().unwrap());
        assert_eq!((report.stamped, report.missing, report.closed), (3, 0, 0), "{transport:?}");
    }
}

#[test]
fn websocket_listener_answers_pings_and_the_close_frame() {
    use proto::{Transport, websocket};
    let server = Server::start(|_| Fate::Deliver);
    let (url, transport) = (server.stream_url(), Transport::WebSocket);
    let flood = flood_of(FloodConfig { url, users: 1, transport, ..FloodConfig::default() });
    let mut wire = Vec::new();
    websocket::push_ping(&mut wire, b"still there?");
    server.send_raw("0", &wire);
    let unmasked = |frame: Vec<u8>| -> Vec<u8> {
        let (key, payload) = (&frame[2..6], &frame[6..]);
        payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect()
    };
    let pong = server.receive("0", 6 + 12);
    assert_eq!(pong[..2], [0x8a, 0x80 | 12]);
    assert_eq!(unmasked(pong), b"still there?");

    wire.clear();
    websocket::push_close(&mut wire, websocket::Close::SHUTDOWN);
    server.send_raw("0", &wire);
    let close = server.receive("0", 6 + 10);
    assert_eq!(close[..2], [0x88, 0x80 | 10]);
    assert_eq!(unmasked(close), b"\x03\xe9shutdown");
    assert!(flood.wait_until(TIMEOUT, |totals| totals.closed_total() == 1));
    flood.finish().unwrap();
}

#[test]
fn late_event_is_counted_and_timed() {
    let server = Server::start(|_| Fate::Deliver);
    let flood = flood(&server, 1);
    server.send("0", &event(1, Duration::ZERO));
    server.send("0", &event(2, LATE));
    server.send("0", &event(3, Duration::ZERO));
    assert!(flood.wait_until(TIMEOUT, |totals| totals.events == 3));
    let report = FloodReport::from(&flood.finish().unwrap());
    assert_eq!((report.late, report.missing, report.doubled), (1, 0, 0), "{report}");
    assert!(report.latency.max_ms >= LATE.as_secs_f64() * 1_000.0);
}

#[test]
fn events_of_others_are_counted_and_not_checked() {
    let server = Server::start(|_| Fate::Deliver);
    let flood = flood(&server, 1);
    server.send("0", ": hello\n\ndata: plain\n\nevent: x\ndata: a\ndata: b\n\n");
    assert!(flood.wait_until(TIMEOUT, |totals| totals.events == 2));
    let report = FloodReport::from(&flood.finish().unwrap());
    assert_eq!((report.stamped, report.missing, report.latency.count), (0, 0, 0));
}

#[test]
fn stopped_spam_still_hears_its_answers() {
    let server = Server::start(|_| Fate::Lose);
    let mut spam =
        Spam::start(&SpamConfig { duration: None, rate: 1_000.0, ..spam_config(&server) }).unwrap();
    while spam.snapshot().totals.answered == 0 {
        std::thread::yield_now();
    }
    let report = SpamReport::from(&spam.finish());
    assert_eq!(report.sent, report.answered);
    assert_eq!(report.failure, None);
}

#[test]
fn figures_that_cannot_be_are_refused() {
    let default = FloodConfig::default;
    for config in [
        FloodConfig { users: 0, ..default() },
        FloodConfig { first_id: u64::MAX, ..default() },
        FloodConfig { opening_max: 0, ..default() },
        FloodConfig { connect_rate: -1.0, ..default() },
        FloodConfig { slow: f64::NAN, ..default() },
        FloodConfig { slow: 0.6, storm: Some(Storm::default()), ..default() },
        FloodConfig { storm: Some(Storm { vanish: -1.0, ..Storm::default() }), ..default() },
    ] {
        assert!(matches!(Flood::start(config), Err(load::FloodError::Config(_))));
    }
    let default = SpamConfig::default;
    for config in [
        SpamConfig { users: 0, ..default() },
        SpamConfig { senders: 0, ..default() },
        SpamConfig { connections: 0, ..default() },
        SpamConfig { in_flight_max: 0, ..default() },
        SpamConfig { rate: 0.0, ..default() },
        SpamConfig { zipf: Some(-1.0), ..default() },
    ] {
        assert!(matches!(Spam::start(&config), Err(load::SpamError::Config(_))));
    }
    let short = SpamConfig { payload: Payload::Padded(20), ..default() };
    let error = Spam::start(&short).unwrap_err();
    assert!(error.to_string().contains("81 bytes"), "{error}");
}
