//! Silent streams and slow readers: keep-alives, and the bound on unsent bytes.

use serde_json::json;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::harness::{Server, Stream, Wire};

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
