//! Much trouble at once: a crowd of which a part vanishes, a part comes back and a part stops
//! reading, while events flow. The others must not notice.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use testing::tried_again;

use crate::harness::{Api, End, Program, Server, Stream, Wire, encke, wait_for};

/// Listeners of the storm: a quarter vanishes, a quarter comes back, half of them stay.
const CROWD: usize = 4000;
const VANISHING: std::ops::Range<usize> = 0..CROWD / 4;
const RETURNING: std::ops::Range<usize> = CROWD / 4..CROWD / 2;
const NEWCOMERS: usize = 200;
/// Rounds of events at most: what they amount to fits into the kernel's buffers, where it waits
/// until the test reads it.
const ROUNDS_MAX: usize = 200;

/// Numbers and names, since they are kept in different tables.
fn id(n: usize) -> String {
    if n.is_multiple_of(2) { n.to_string() } else { format!("user:{n}") }
}

/// One event about everybody of the crowd.
fn round(api: &Api, data: usize) -> Vec<u64> {
    let line = |n| json!({ "about": id(n), "data": data }).to_string() + "\n";
    let answers = api.post_lines("/send", &(0..CROWD).map(line).collect::<String>()).body;
    let delivered = |line: &str| serde_json::from_str::<Value>(line).unwrap()["delivered"].as_u64();
    answers.lines().map(|line| delivered(line).unwrap()).collect()
}

#[test]
fn storm_leaves_no_trace_in_those_who_stay() {
    let server = Server::start(&[]);
    let mut streams: Vec<Stream> = (0..CROWD).map(|n| server.listener(&id(n))).collect();
    assert_eq!(server.api.stats()["ids_online"], CROWD);
    let (storm_is_over, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut staying = streams.split_off(RETURNING.end);
    let returning = streams.split_off(RETURNING.start);
    let (api, listen) = (server.api.another(), server.listen());
    let reopened = |n| Stream::open(listen, &format!("/stream/{}", id(n)), "*/*");
    let (mut returned, mut newcomers) = thread::scope(|scope| {
        scope.spawn(|| {
            // A client of the API belongs to one thread.
            let api = api;
            while rounds.load(Ordering::Relaxed) < ROUNDS_MAX
                && !storm_is_over.load(Ordering::Relaxed)
            {
                round(&api, rounds.load(Ordering::Relaxed));
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        wait_for("events flow", || rounds.load(Ordering::Relaxed) > 0);
        scope.spawn(|| streams.into_iter().for_each(|stream| stream.wire.reset()));
        let returns = scope.spawn(|| {
            returning.into_iter().for_each(|stream| stream.wire.reset());
            RETURNING.map(reopened).collect::<Vec<Stream>>()
        });
        let open = |n| server.stream(&format!("/stream/new:{n}"), "application/x-ndjson");
        let newcomers: Vec<Stream> = (0..NEWCOMERS).map(open).collect();
        let returned = returns.join().unwrap();
        storm_is_over.store(true, Ordering::Relaxed);
        (returned, newcomers)
    });
    server.wait_closed("client_reset", (VANISHING.len() + RETURNING.len()) as u64);
    let stats = server.wait_open((CROWD - VANISHING.len() + NEWCOMERS) as u64);
    assert_eq!(stats["ids_online"], CROWD - VANISHING.len() + NEWCOMERS);
    assert_eq!(stats["connections_opened"], CROWD + RETURNING.len() + NEWCOMERS);

    let rounds = rounds.into_inner();
    let delivered = round(&server.api, rounds);
    for (n, delivered) in delivered.into_iter().enumerate() {
        assert_eq!(delivered, u64::from(!VANISHING.contains(&n)), "{n}");
    }
    for stream in &mut staying {
        (0..=rounds).for_each(|round| assert_eq!(stream.data(), round));
    }
    for stream in &mut returned {
        let first = stream.data().as_u64().unwrap() as usize;
        (first + 1..=rounds).for_each(|round| assert_eq!(stream.data(), round));
    }
    for (n, stream) in newcomers.iter_mut().enumerate() {
        assert_eq!(server.api.send(&format!("new:{n}"), n), 1);
        assert_eq!(stream.data(), n);
    }
}

#[test]
fn crowd_of_the_tool_and_server_agree_on_the_storm() {
    let server = Server::start(&[]);
    let url = format!("{}/stream/{{id}}", server.url());
    let args = ["flood", "--users=8000", "--storm-after=1", "--json", "--url", &url];
    let flood = Program::spawn(&mut encke(args));
    // About those who stay alone: every event that the server says it delivered must have come.
    let api = server.api_url();
    let args = ["spam", "--first-id=4000", "--users=4000", "--rate=2000", "--seconds=3", "--json"];
    server.wait_crowd(8000);
    let spam = Program::run(encke(args).args(["--api", &api]));
    let spam: Value = serde_json::from_str(&spam.stdout).unwrap();
    server.wait_closed("client_reset", 4000);
    let stats = server.wait_streams(6000);
    assert_eq!(
        (&stats["ids_online"], &stats["connections_opened"]),
        (&json!(6000), &json!(10_000))
    );
    let delivered = spam["delivered"].as_u64().unwrap();
    assert_eq!(spam["sent"], delivered, "everybody who stays is online");
    let told = format!("  events {},{:03} (", delivered / 1000, delivered % 1000);
    wait_for("the crowd tells of all events", || flood.stderr().contains(&told));
    flood.signal("INT");
    let flood: Value = serde_json::from_str(&flood.finish().stdout).unwrap();
    let (storm, steady) = (&flood["trouble"]["storm"], &flood["trouble"]["steady"]);
    for (part, member, expected) in [
        (storm, "vanished", 2000),
        (storm, "left", 2000),
        (storm, "returned", 2000),
        (steady, "open", 4000),
        (steady, "events", delivered),
        (steady, "closed", 0),
        (steady, "missing", 0),
        (steady, "doubled", 0),
        (steady, "overtaken", 0),
        (&flood, "failed", 0),
    ] {
        assert_eq!(part[member], expected, "{member} of {flood}");
    }
}

/// A stream of `path` whose client's kernel takes little that is not read.
fn with_small_buffer(server: &Server, path: &str) -> Stream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&server.listen().into()).unwrap();
    Stream::on(Wire::from(std::net::TcpStream::from(socket)), path, "application/x-ndjson")
}

#[test]
fn one_in_ten_that_stops_reading_is_disconnected_and_nobody_else_notices() {
    const CROWD: usize = 600;
    const SLOW: usize = CROWD / 10;
    const BACKLOG_MAX: u64 = 512 * 1024;
    /// The allocator's own, and what a busy worker needs for a moment.
    const SLACK: u64 = 16 * 1024 * 1024;
    let server = Server::start(&["--max-backlog=512KiB"]);
    let path = |n| format!("/stream/{n}?id=all");
    let mut slow: Vec<Stream> = (0..SLOW).map(|n| with_small_buffer(&server, &path(n))).collect();
    let open = |n| server.stream(&path(n), "application/x-ndjson");
    let mut others: Vec<Stream> = (SLOW..CROWD).map(open).collect();
    let data = |n: usize| json!([n, "x".repeat(8000)]);
    let closed = |stats: &Value| {
        let count = |why| stats["connections_closed"][why].as_u64().unwrap();
        ["slow_reader", "client_vanished"].map(count)
    };

    // All hear the first event; from then on one in ten reads no more.
    assert_eq!(server.api.send("all", data(0)), CROWD as u64);
    for stream in slow.iter_mut().chain(&mut others) {
        assert_eq!(stream.data()[0], 0);
    }
    let before = server.anonymous_bytes();
    let (mut events, mut peak) = (1, before);
    // Far more than their bound.
    let all_are_gone = (0..4_000).any(|_| {
        let delivered = server.api.send("all", data(events));
        assert!((others.len() as u64..=CROWD as u64).contains(&delivered));
        for stream in &mut others {
            assert_eq!(stream.data()[0], events);
        }
        events += 1;
        peak = peak.max(server.anonymous_bytes());
        closed(&server.api.stats()).iter().sum::<u64>() == SLOW as u64
    });
    assert!(all_are_gone, "slow readers are left after {events} events");
    assert_eq!(server.api.send("all", data(events)), others.len() as u64);
    for stream in &mut others {
        assert_eq!(stream.data()[0], events);
        assert!(stream.wire.is_open(), "neither more nor the end");
    }
    assert!(slow.iter_mut().all(|stream| stream.end() == End::Reset));
    let stats = server.wait_open(others.len() as u64);
    assert_eq!(stats["ids_online"], others.len() + 1);
    let [slow, vanished] = closed(&stats);
    assert_eq!(slow + vanished, SLOW as u64);
    if vanished > 0 {
        tried_again("readers took nothing for a minute before so much waited for them");
    }

    // Each of them was owed more than its bound, but all are owed the same bytes, which exist once.
    let owed = BACKLOG_MAX * SLOW as u64;
    assert!(peak - before < (BACKLOG_MAX + SLACK).min(owed / 2), "{before} to {peak}");
}
