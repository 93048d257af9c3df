//! What happens when there are no more places: those of all workers are taken first, then clients
//! are told to come again, and the server rests.

use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::Message;

use crate::harness::{Authority, Server, Socket, Stream, get, wait_for};
use crate::refusals::refused;
use crate::upgrade::Upgraded;
use crate::upgrade::tls::{VERSIONS, client};

/// Descriptors of a worker that are no places.
const RESERVED: u32 = 16;

fn workers(stats: &Value) -> &[Value] {
    stats["workers"].as_array().unwrap()
}

fn connections_open(worker: &Value) -> u64 {
    worker["connections_open"].as_u64().unwrap()
}

/// Changes the soft limit on descriptors of a server at work.
fn set_descriptors(server: &Server, descriptors: u32) {
    let (pid, limit) = (format!("--pid={}", server.pid()), format!("--nofile={descriptors}:"));
    assert!(Command::new("prlimit").args([pid, limit]).status().unwrap().success());
}

fn opened(server: &Server, streams: usize) -> Vec<Stream> {
    (0..streams).map(|_| server.listener("1")).collect()
}

/// The next client is refused, and told when to come again.
fn expect_full(server: &Server) {
    let (head, _) = refused(server, get("/stream/1", &[]), 503);
    assert!(head.field("retry-after").unwrap().parse::<u32>().unwrap() > 0);
}

/// Waits until the kernel knows which workers have room.
fn wait_told(server: &Server, open: usize, places: u64) {
    server.wait_open(open as u64);
    wait_for("workers are full when they have no place left, and only then", || {
        let full =
            |worker: &Value| worker["full"] == u64::from(worker["connections_open"] == places);
        workers(&server.api.stats()).iter().all(full)
    });
}

#[test]
fn full_worker_leaves_new_clients_to_the_others_until_all_are_full() {
    const PLACES: usize = 80;
    const ALL: usize = 4 * PLACES;
    let server = Server::start_with_descriptors(PLACES as u32 + RESERVED, &["--workers=4"]);
    let mut streams = opened(&server, ALL);
    for round in 0..4 {
        assert_eq!(server.api.stats()["full"], 4);
        (0..10).for_each(|_| expect_full(&server));
        assert_eq!(server.api.send("1", "all in"), ALL as u64);
        streams.iter_mut().for_each(|stream| assert_eq!(stream.data(), "all in"));
        // One, a few of some workers, many of all.
        let leaving = [1, 7, 60, ALL][round];
        streams.drain(..leaving);
        wait_told(&server, streams.len(), PLACES as u64);
        streams.extend(opened(&server, leaving));
    }
    expect_full(&server);
    let stats = server.api.stats();
    assert!(workers(&stats).iter().all(|worker| worker["connections_open"] == PLACES));
}

/// Turns that idle workers may have taken since then: some, and a few a second. One that spins
/// takes thousands.
fn idle_turns_max(since: Instant) -> u64 {
    50 + 50 * since.elapsed().as_secs()
}

#[test]
fn full_server_rests_whether_clients_connect_or_not() {
    let server = Server::start_with_descriptors(64, &["--workers=2"]);
    let _streams = opened(&server, 2 * (64 - RESERVED as usize));
    let turns = || server.api.stats()["turns"].as_u64().unwrap();
    let (before, begun) = (turns(), Instant::now());
    (0..200).for_each(|_| expect_full(&server));
    let busy = turns();
    // A client's end after its answer is no report: its socket is closed already.
    let most = 2 * 200 + idle_turns_max(begun);
    assert!(busy - before < most, "{} turns for 200 clients", busy - before);
    let idle = (0..100).map(|_| turns()).max().unwrap() - busy;
    assert!(idle < idle_turns_max(begun), "an idle worker sleeps, and took {idle} turns");
}

#[test]
fn descriptor_limit_that_is_lowered_makes_workers_full_before_their_time() {
    let server = Server::start_with_descriptors(256, &["--workers=2"]);
    set_descriptors(&server, 64);
    let mut streams = Vec::new();
    let full = |streams: &mut Vec<Stream>| loop {
        let mut wire = server.ask(get("/stream/1", &["Accept: application/x-ndjson"]));
        match wire.head() {
            head if head.status == 200 => streams.push(Stream { wire, head, cursor: None }),
            head => break assert_eq!(head.status, 503),
        }
        assert!(streams.len() < 2 * 64);
    };
    // Each worker is found out by one client that is refused.
    wait_for("both workers are full", || {
        full(&mut streams);
        server.api.stats()["full"] == 2
    });
    let most = streams.len();
    assert!(most > 2 * (64 - RESERVED as usize), "{most} streams");
    expect_full(&server);
    streams.drain(..10);
    server.wait_open(most as u64 - 10);
    wait_for("a worker has room", || server.api.stats()["full"] != 2);
    streams.extend(opened(&server, 1));
    set_descriptors(&server, 256);
    streams.extend(opened(&server, 2 * 64));
    assert_eq!(server.api.send("1", 1), most as u64 - 10 + 1 + 2 * 64);
}

/// A shortage of one worker while another has room: no client comes that could show its end.
#[test]
fn worker_that_was_short_of_descriptors_for_a_moment_gets_clients_again() {
    let server = Server::start_with_descriptors(256, &["--workers=2"]);
    let open = || workers(&server.api.stats()).iter().map(connections_open).collect::<Vec<_>>();
    let mut of_worker: [Vec<Stream>; 2] = Default::default();
    while of_worker.iter().any(|streams| streams.len() < 40) {
        let before = open();
        let stream = server.listener("1");
        of_worker[usize::from(open()[1] > before[1])].push(stream);
    }
    let [first, second] = of_worker;
    drop(second);
    server.wait_open(first.len() as u64);
    set_descriptors(&server, 48);
    // The first has no descriptor left below the limit, the second has some.
    let mut more = Vec::new();
    wait_for("the first worker was short", || {
        let mut wire = server.ask(get("/stream/1", &["Accept: application/x-ndjson"]));
        more.push((wire.head().status, wire));
        more.len() < 40 && workers(&server.api.stats())[0]["shortages"].as_u64() > Some(0)
    });
    set_descriptors(&server, 256);
    let came = || workers(&server.api.stats())[0]["connections_opened"].as_u64().unwrap();
    let before = came();
    wait_for("the first worker gets clients again", || {
        drop(server.listener("1"));
        came() > before
    });
}

/// Warnings are for people: one a minute, whoever connects.
#[test]
fn shortage_of_descriptors_is_told_once_and_counted_each_time() {
    let server = Server::start_with_descriptors(128, &["--workers=1"]);
    set_descriptors(&server, 48);
    let (mut streams, begun) = (Vec::new(), Instant::now());
    for _ in 0..100 {
        let mut wire = server.ask(get("/stream/1", &["Accept: application/x-ndjson"]));
        wire.head();
        streams.push(wire);
    }
    let warning = "the kernel gave no descriptor or memory";
    wait_for("it is told", || server.stderr().contains(warning));
    (0..50).for_each(|_| expect_full(&server));
    let shortages = server.api.stats()["shortages"].as_u64().unwrap();
    assert!(shortages >= 50, "{shortages} shortages");
    let stopped = server.stop("TERM");
    let told = stopped.stderr.matches(warning).count() as u64;
    let minutes = 1 + begun.elapsed().as_secs() / 60;
    assert!((1..=minutes).contains(&told), "{}", stopped.stderr);
}

#[test]
fn no_slot_left_is_503_with_retry_after_until_one_is_free() {
    let server = Server::start(&["--workers=1", "--max-connections=3"]);
    let mut streams: Vec<_> = (0..3).map(|_| server.listener("1")).collect();
    for _ in 0..5 {
        let (head, _) = refused(&server, get("/stream/1", &[]), 503);
        assert!(head.field("retry-after").unwrap().parse::<u32>().unwrap() > 0);
    }
    assert_eq!(server.api.send("1", "still here"), 3);
    streams.iter_mut().for_each(|stream| assert_eq!(stream.data(), "still here"));
    drop(streams.pop());
    let stats = server.wait_open(2);
    assert_eq!(stats["connections_closed"]["full"], 5);
    streams.push(server.listener("1"));
    assert_eq!(server.api.send("1", "again"), 3);
}

#[test]
fn page_that_is_let_in_may_read_that_the_server_is_full_whatever_its_head() {
    let (page, other) = ("https://pages.example", "https://other.example");
    let option = format!("--allow-origin={page}");
    let server = Server::start(&["--workers=1", "--max-connections=1", &option]);
    let _stream = server.listener("1");
    // Most of what a head may have, all of which must be read lest the answer be reset away.
    let long = format!("/stream/1?{}", "id=1&".repeat(1500));
    for path in ["/stream/1", "/stream/a%20b", &long] {
        let asked =
            |origin: &str| refused(&server, get(path, &[&format!("Origin: {origin}")]), 503).0;
        let head = asked(page);
        assert_eq!(head.field("access-control-allow-origin"), Some(page));
        assert_eq!(head.field("access-control-expose-headers"), Some("Retry-After"));
        assert_eq!(asked(other).field("access-control-allow-origin"), None);
    }
}

/// Its library reads nothing else: of an answer by HTTP it learns that it has no connection alone.
#[test]
fn client_of_an_app_is_told_on_its_websocket_that_the_server_is_full() {
    let files = tempfile::tempdir().unwrap();
    let (server, _stream) = full_with_apps(&files, &[]);
    let mut client = Socket::open(server.listen(), "/app/app-1?protocol=7");
    let error = client.json();
    assert_eq!(error["event"], "pusher:error", "{error}");
    assert!(error["data"].as_str().unwrap().contains("4100"), "{error}");
    let Message::Close(Some(close)) = client.message() else { panic!("it is not closed") };
    assert_eq!(u16::from(close.code), 4100);
    // Who asks for no WebSocket, or for one of ours, reads an answer.
    let others: [(&str, &[&str]); 2] = [("/app/app-1", &[]), ("/stream/1", &Socket::FIELDS)];
    for (path, fields) in others {
        refused(&server, get(path, fields), 503);
    }
    server.wait_closed("full", 3);
}

/// The option that names a file of one app.
fn one_app(files: &TempDir) -> String {
    let file = files.path().join("apps.json");
    let apps = json!([{ "id": "1", "key": "app-1", "secret": "a-secret-of-some-length" }]);
    std::fs::write(&file, apps.to_string()).unwrap();
    format!("--pusher-apps={}", file.display())
}

/// With a place for one stream, which has it, and one app.
fn full_with_apps(files: &TempDir, options: &[&str]) -> (Server, Stream) {
    let option = one_app(files);
    let own = ["--workers=1", "--max-connections=1", &option];
    let server = Server::start(&[&own, options].concat());
    let stream = server.listener("1");
    (server, stream)
}

/// A client's request may be there when it is accepted, or come in pieces.
#[test]
fn full_server_waits_a_moment_for_the_request_of_a_client_of_an_app() {
    /// Clients that it waits for.
    const MOST: u64 = 64;
    let files = tempfile::tempdir().unwrap();
    let (server, mut stream) = full_with_apps(&files, &[]);
    let request = get("/app/app-1?protocol=7", &Socket::FIELDS);
    let mut wire = server.ask(&request[..20]);
    server.wait_closed("full", 1);
    wire.send(&request[20..]);
    assert_eq!(wire.head().status, 101);
    let frames = wire.rest();
    // The last frame is the close.
    let close = frames.windows(2).position(|two| two == 4100_u16.to_be_bytes());
    assert!(close.is_some_and(|at| frames[at - 2] == 0x88), "{frames:?}");
    drop(wire);
    // Those who say nothing are answered, more than are waited for at one time.
    let mut silent: Vec<_> = (0..2 * MOST).map(|_| server.ask("GET /app")).collect();
    for wire in &mut silent {
        assert_eq!(wire.head().status, 503);
    }
    server.wait_closed("full", 1 + 2 * MOST);
    server.wait_open(1);
    assert_eq!(server.api.send("1", "still here"), 1);
    assert_eq!(stream.data(), "still here");
}

/// Those have no place in the one that takes over either.
#[test]
fn full_server_is_upgraded_while_it_waits_for_requests() {
    let files = tempfile::tempdir().unwrap();
    let options = ["--workers=1", "--max-connections=1", &one_app(&files)];
    let server = Upgraded::serve(&options);
    let mut stream = server.listener("1");
    let silent: Vec<_> = (0..60).map(|_| server.ask("GET /app")).collect();
    server.wait_closed("full", 60);
    server.upgrade(&[]);
    drop(silent);
    assert_eq!(server.api.another().send("1", "still here"), 1);
    assert_eq!(stream.data(), "still here");
    // All places are as they were.
    let mut client = Socket::open(server.listen(), "/app/app-1?protocol=7");
    assert_eq!(client.json()["event"], "pusher:error");
    assert_eq!(u16::from(client.end().0), 4100);
    drop(stream);
    server.wait_open(0);
    server.listener("1");
}

#[test]
fn client_of_an_app_is_told_over_tls_that_the_server_is_full() {
    let (authority, files) = (Authority::new(), tempfile::tempdir().unwrap());
    let [cert, key] = authority.issue("own", &["localhost"]).options();
    let (server, _stream) = full_with_apps(&files, &["--tls-listen=127.0.0.1:0", &cert, &key]);
    for version in VERSIONS {
        let tls = client(&authority, server.tls_listen(), version);
        let mut socket = Socket::on(tls, "/app/app-1?protocol=7");
        assert_eq!(socket.json()["event"], "pusher:error");
        assert_eq!(u16::from(socket.end().0), 4100);
    }
    server.wait_closed("full", 2);
}

#[test]
fn worker_without_descriptors_for_more_tells_clients_of_apps_so() {
    const DESCRIPTORS: u32 = 80;
    /// An eighth of the others is for those who are told.
    const PLACES: usize = (DESCRIPTORS - DESCRIPTORS / 8) as usize;
    let files = tempfile::tempdir().unwrap();
    let option = one_app(&files);
    let server = Server::start_with_descriptors(DESCRIPTORS + RESERVED, &["--workers=1", &option]);
    let _streams = opened(&server, PLACES);
    expect_full(&server);
    let request = get("/app/app-1?protocol=7", &Socket::FIELDS);
    let mut wire = server.ask(&request[..20]);
    server.wait_closed("full", 2);
    wire.send(&request[20..]);
    assert_eq!(wire.head().status, 101);
    server.wait_open(PLACES as u64);
    assert_eq!(server.api.stats()["shortages"], 0);
}

#[test]
fn bound_on_connections_is_reached_with_any_number_of_workers() {
    let server = Server::start(&["--workers=4", "--max-connections=60"]);
    for _ in 0..2 {
        let mut streams: Vec<_> = (0..60).map(|_| server.listener("1")).collect();
        for _ in 0..8 {
            refused(&server, get("/stream/1", &[]), 503);
        }
        assert_eq!(server.api.send("1", "all in"), 60);
        streams.truncate(20);
        server.wait_open(20);
        streams.extend((0..40).map(|_| server.listener("1")));
        refused(&server, get("/stream/1", &[]), 503);
        drop(streams);
        server.wait_open(0);
    }
}

#[test]
fn workers_are_as_many_as_the_descriptor_limit_asks_for() {
    let options = ["--workers=0", "--max-connections=1000"];
    let server = Server::start_with_descriptors(256, &options);
    let workers = server.api.stats()["workers"].as_array().unwrap().len();
    assert!((5..20).contains(&workers), "{workers} workers for 1,000 connections");
    let streams: Vec<_> = (0..1000).map(|_| server.listener("1")).collect();
    assert_eq!(server.api.send("1", "all in"), 1000);
    refused(&server, get("/stream/1", &[]), 503);
    drop(streams);
}
