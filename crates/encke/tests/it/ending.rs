//! How the server ends: in order at the first signal, at once at the second.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;

use serde_json::{Value, json};

use crate::harness::{
    Server, Stream, Wire, check_problem, encke, own_ports, read_answer, wait_for,
};

#[test]
fn sigterm_delivers_what_was_posted_ends_streams_well_and_exits_0() {
    const EVENTS: u64 = 2000;
    let server = Server::start(&["--max-backlog=64MiB"]);
    let mut streams: Vec<_> =
        ["text/event-stream", "*/*"].map(|accept| server.stream("/stream/1", accept)).into();
    streams.extend((0..20).map(|_| server.stream("/test/1", "*/*")));
    streams.iter_mut().skip(2).for_each(|page| assert_eq!(page.chunk(), "Welcome, id 1<br/>\n"));
    let lines: String = (0..EVENTS).map(|n| format!("{{\"about\":1,\"data\":{n}}}\n")).collect();
    let answers = server.api.post_lines("/send", &lines).body;
    assert!(answers.lines().all(|answer| answer.starts_with("{\"delivered\":22,")));
    // They read meanwhile: who does not is cut when the kernel has no room for all of it.
    thread::scope(|scope| {
        for mut stream in streams {
            scope.spawn(move || {
                for n in 0..EVENTS {
                    let chunk = stream.chunk();
                    assert!(chunk.contains(&n.to_string()), "{chunk:?} should be event {n}");
                }
                stream.expect_last_chunk();
            });
        }
        let finished = server.stop("TERM");
        assert_eq!(finished.code(), Some(0), "{finished:?}");
    });
}

#[test]
fn sigint_ends_like_sigterm() {
    let server = Server::start(&[]);
    let mut stream = server.listener("1");
    assert_eq!(server.api.send("1", "before"), 1);
    assert_eq!(server.stop("INT").code(), Some(0));
    assert_eq!(stream.data(), "before");
    stream.expect_last_chunk();
}

#[test]
fn clients_at_every_stage_do_not_hold_up_the_end() {
    let server = Server::start(&["--grace=20"]);
    let _silent = server.connect();
    let _half = server.ask("GET /stream/1 HTTP/1.1\r\n");
    let _unread = server.ask("GET /stream/1 HTTP/1.1\r\nHost: x\r\n\r\n");
    let _refused = server.ask("GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n");
    let _api_silent = Wire::connect(server.api.address());
    let mut api_half = Wire::connect(server.api.address());
    api_half.send("GET /stats HTT");
    server.wait_online("1", 1);
    let finished = server.stop("TERM");
    assert_eq!(finished.code(), Some(0), "{finished:?}");
}

/// Begins a request to the API whose body does not end, and sends `lines` of it.
fn begin_lines(server: &Server, path: &str, lines: &str) -> Wire {
    let mut wire = Wire::connect(server.api.address());
    wire.send(format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{lines}\r\n",
        lines.len()
    ));
    wire
}

#[test]
fn stream_of_events_is_answered_up_to_where_it_was_stopped() {
    let server = Server::start(&[]);
    let mut listener = server.listener("1");
    let mut sender = begin_lines(&server, "/send", "{\"about\":1,\"data\":1}\n");
    assert_eq!(sender.head().status, 200);
    let mut answers = sender.chunk().unwrap();
    assert_eq!(listener.data(), 1);
    assert_eq!(server.stop("TERM").code(), Some(0));
    loop {
        let more = sender.chunk().unwrap();
        if more.is_empty() {
            break;
        }
        answers.extend(more);
    }
    let answers = String::from_utf8(answers).unwrap();
    let answers: Vec<Value> =
        answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((answers.len(), &answers[0]["delivered"]), (2, &json!(1)));
    check_problem(&answers[1], 503);
    assert_eq!(answers[1]["line"], 2);
    assert!(answers[1]["detail"].as_str().unwrap().contains("Nothing was sent"), "{answers:?}");
    listener.expect_last_chunk();
}

/// A request whose head the server has read, and whose body never ends.
fn half_a_send(server: &Server) -> Wire {
    let mut wire = Wire::connect(server.api.address());
    wire.send(
        "POST /send HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(wire.head().status, 100, "it waits for the rest");
    wire.send("{\"about\":1,");
    wire
}

#[test]
fn request_that_never_ends_is_cut_off_within_the_grace_time() {
    let server = Server::start(&["--grace=2"]);
    let mut listener = server.listener("1");
    let _wire = half_a_send(&server);
    assert_eq!(server.api.send("1", "x"), 1);
    assert_eq!(server.stop("TERM").code(), Some(0));
    assert_eq!(listener.data(), "x");
    listener.expect_last_chunk();
}

#[test]
fn second_signal_ends_at_once() {
    for signals in [["TERM", "TERM"], ["INT", "INT"], ["TERM", "INT"]] {
        let server = Server::start(&["--grace=100000"]);
        let _wire = half_a_send(&server);
        server.signal(signals[0]);
        wait_for("the API takes no more connections", || {
            Wire::try_connect(server.api.address()).is_err()
        });
        let finished = server.stop(signals[1]);
        assert_ne!(finished.code(), Some(0), "not everything ended well: {finished:?}");
        assert!(!finished.stderr.contains("panicked"), "{finished:?}");
    }
}

#[test]
fn server_that_starts_again_has_its_graph_and_its_ports() {
    let (data, ports) = (tempfile::tempdir().unwrap(), own_ports());
    let start = || Server::start_in(data.path(), &ports.each_ref().map(String::as_str));
    let server = start();
    server.api.subscribe("bob", "rj");
    server.api.subscribe("7", "8");
    let stream = server.listener("bob");
    assert_eq!(server.stop("TERM").code(), Some(0));
    drop(stream);

    let server = start();
    assert_eq!(server.api.stats()["subscriptions"], 2);
    let mut bob = server.listener("bob");
    assert_eq!((server.api.send("rj", "again"), server.api.send("8", 1)), (1, 0));
    assert_eq!(bob.data(), "again");
}

#[test]
fn server_that_is_stopped_and_continued_loses_nothing() {
    let server = Server::start(&[]);
    let mut stream = server.listener("1");
    for n in 0..20 {
        server.signal("STOP");
        let mut wire = Wire::connect(server.api.address());
        let event = format!("{{\"about\":1,\"data\":{n}}}");
        let length = event.len();
        wire.send(format!("POST /send HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"));
        wire.send(event);
        server.signal("CONT");
        assert_eq!(read_answer(&mut wire, "POST").unwrap().ok()["delivered"], 1);
        assert_eq!(stream.data(), n);
    }
    assert_eq!(server.stop("TERM").code(), Some(0));
    stream.expect_last_chunk();
}

#[test]
fn server_whose_log_nobody_reads_ends_well() {
    let data = tempfile::tempdir().unwrap();
    let mut command = encke(["serve", "--json", "--listen=127.0.0.1:0", "--api=127.0.0.1:0"]);
    command.arg("--data").arg(data.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stderr.take());
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let addresses: Value = serde_json::from_str(&line).unwrap();
    let listen = addresses["listen"].as_str().unwrap().parse().unwrap();
    let mut stream = Stream::open(listen, "/stream/1", "*/*");
    testing::signal(child.id(), "TERM");
    stream.expect_last_chunk();
    wait_for("the server ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
