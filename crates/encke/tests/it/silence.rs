//! Silent streams and slow readers: keep-alives, and the bound on unsent bytes.

use serde_json::{Value, json};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::harness::{Server, Stream, Wire, wait_for};

#[test]
fn silent_stream_sends_the_keep_alive_of_its_transport() {
    let server = Server::start(&["--keepalive=0.1"]);
    for (path, accept, keep_alive) in [
        ("/stream/1", "text/event-stream", ":\n"),
        ("/stream/1", "application/x-ndjson", "\n"),
        ("/test/1", "*/*", "<!-- -->\n"),
    ] {
        let mut stream = server.stream(path, accept);
        if path == "/test/1" {
            stream.chunk();
        }
        for _ in 0..3 {
            assert_eq!(stream.chunk(), keep_alive, "{path} {accept}");
        }
        assert_eq!(server.api.logout("1"), 1);
    }
    let mut old = server.ask("GET /stream/old HTTP/1.0\r\nAccept: text/event-stream\r\n\r\n");
    old.head();
    assert_eq!(old.take(4).unwrap(), b":\n:\n");
    assert!(server.api.stats()["keepalives"].as_u64().unwrap() >= 11);
}

#[test]
fn events_come_between_keep_alives_whole_and_in_order() {
    let server = Server::start(&["--keepalive=0.02"]);
    let mut stream = server.listener("1");
    let mut keep_alives = 0;
    let mut sent = 0;
    while keep_alives < 20 {
        assert_eq!(server.api.send("1", sent), 1);
        loop {
            let chunk = stream.chunk();
            if chunk != "\n" {
                let event: Value = serde_json::from_str(&chunk).unwrap();
                assert_eq!(event["data"], sent);
                break;
            }
            keep_alives += 1;
        }
        // Every tenth event comes after a silence.
        if sent % 10 == 0 {
            assert_eq!(stream.chunk(), "\n");
            keep_alives += 1;
        }
        sent += 1;
    }
}

/// A stream whose client has next to no room for what it does not read.
fn narrow_stream(server: &Server, path: &str, accept: &str) -> Stream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&SockAddr::from(server.listen())).unwrap();
    Stream::on(Wire::from(std::net::TcpStream::from(socket)), path, accept)
}

/// Sends events of a kilobyte about `about` until `done` says so of the answer; returns how many.
fn send_until(server: &Server, about: &str, mut done: impl FnMut(u64) -> bool) -> u64 {
    let padding = "x".repeat(1000);
    for n in 0..100_000 {
        if done(server.api.send(about, json!([n, padding]))) {
            return n + 1;
        }
    }
    panic!("100 MB are no backlog");
}

#[test]
fn slow_reader_is_closed_and_counted_and_costs_others_nothing() {
    let server = Server::start(&["--max-backlog=16KiB"]);
    let slow = narrow_stream(&server, "/stream/rj", "*/*");
    // Readers that keep up hear each event while the slow one's backlog grows.
    let mut readers = [server.listener("rj"), server.listener("rj")];
    let mut heard = 0;
    let sent = send_until(&server, "rj", |delivered| {
        for reader in &mut readers {
            assert_eq!(reader.data()[0], heard);
        }
        heard += 1;
        delivered == 2
    });
    assert!(sent > 16, "what fits the backlog is no reason to close");
    server.wait_closed("slow_reader", 1);
    assert_eq!(server.api.connections("rj"), 2);
    let stats = server.api.stats();
    assert_eq!((&stats["dropped"], &stats["connections_open"]), (&json!(1), &json!(2)));
    assert_eq!(stats["deliveries"], 3 * sent - 1);
    drop(slow);
}

#[test]
fn slow_reader_within_its_backlog_hears_everything_once_it_reads() {
    let server = Server::start(&["--max-backlog=4MiB"]);
    let mut slow = narrow_stream(&server, "/stream/1", "*/*");
    let padding = "x".repeat(1000);
    for n in 0..2000 {
        assert_eq!(server.api.send("1", json!([n, padding])), 1);
    }
    for n in 0..2000 {
        assert_eq!(slow.data()[0], n);
    }
    assert_eq!(server.api.logout("1"), 1);
    slow.expect_last_chunk();
}

#[test]
fn slow_reader_hears_all_that_was_posted_before_the_end() {
    let server = Server::start(&["--max-backlog=4MiB"]);
    let mut slow = narrow_stream(&server, "/stream/1", "text/event-stream");
    let padding = "x".repeat(1000);
    for n in 0..400 {
        assert_eq!(server.api.send("1", json!([n, padding])), 1);
    }
    server.signal("TERM");
    for n in 0..400 {
        let chunk = slow.chunk();
        assert!(chunk.contains(&format!("\"data\":[{n},")), "{chunk:.80} should be event {n}");
    }
    slow.expect_last_chunk();
    assert_eq!(server.into_program().finish().code(), Some(0));
}

#[test]
fn slow_readers_of_every_transport_are_held_to_the_bound() {
    let server = Server::start(&["--max-backlog=4KiB", "--keepalive=0.05"]);
    let before = server.anonymous_bytes();
    let transports =
        [("/stream/all", "text/event-stream"), ("/stream/all", "*/*"), ("/test/x?id=all", "*/*")];
    let clients: Vec<_> = transports
        .iter()
        .cycle()
        .take(30)
        .map(|(path, accept)| narrow_stream(&server, path, accept))
        .collect();
    send_until(&server, "all", |delivered| delivered == 0);
    server.wait_closed("slow_reader", 30);
    wait_for("the backlogs are given back", || {
        server.anonymous_bytes() < before + 16 * 1024 * 1024
    });
    assert_eq!(server.api.stats()["ids_online"], 0);
    drop(clients);
}
