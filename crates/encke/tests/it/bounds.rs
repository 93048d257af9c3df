//! Here is what is kept for a client, and for how long. What it has read is forgotten, what it does
//! not read is bounded, and what waits for it at the end waits as long as it reads.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;
use socket2::{Domain, Socket as RawSocket, Type};

use crate::harness::{DEADLINE, Server, Socket, Stream, Wire, frame, get, read_answer, wait_for};

/// A client whose kernel takes little for it.
fn small_client(server: &Server) -> Wire {
    let socket = RawSocket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect_timeout(&server.listen().into(), DEADLINE).unwrap();
    TcpStream::from(socket).into()
}

/// Sends `events` about x with `data`, and returns the place before them.
fn send_many(server: &Server, events: usize, data: &str) -> String {
    let first = server.api.post("/send", &json!({ "about": "x", "data": "first" })).ok();
    let line = format!("{{\"about\":\"x\",\"data\":\"{data}\"}}\n");
    let answers = server.api.post_lines("/send", &line.repeat(events)).body;
    assert_eq!(answers.matches("\"delivered\"").count(), events);
    first["id"].as_str().unwrap().to_owned()
}

#[test]
fn clients_that_have_read_all_keep_no_buffer_however_many_ids_they_have() {
    const CLIENTS: u64 = 100;
    for path in ["/stream/x", "/stream/x?id=second"] {
        let server = Server::start(&["--workers=1", "--history-events=20000"]);
        let place = send_many(&server, 4000, "missed");
        server.api.post("/send", &json!({ "about": "x", "data": "last" })).ok();
        let before = server.anonymous_bytes();
        let clients: Vec<Wire> = (0..CLIENTS)
            .map(|_| {
                let resume = format!("Last-Event-ID: {place}");
                let mut wire = server.ask(get(path, &["Accept: */*", &resume]));
                wire.take_through(b"\"data\":\"last\"}\n").unwrap();
                wire
            })
            .collect();
        // A buffer that stays has 64 KiB, and an event's place in it 8 bytes.
        let each = || server.anonymous_bytes().saturating_sub(before) / CLIENTS;
        wait_for(&format!("{path} keeps less than 24 KiB a client"), || each() < 24 * 1024);
        assert_eq!(server.api.connections("x"), CLIENTS);
        drop(clients);
    }
}

#[test]
fn clients_that_resume_log_out_and_do_not_read_are_kept_a_window_each() {
    // Each round's events push those of the last one out of the history.
    let history = ["--history-events=20000", "--history-bytes=16MiB", "--workers=1"];
    let server = Server::start(&history);
    let payload = "y".repeat(1500);
    let mut clients = Vec::new();
    let mut round = || {
        let place = send_many(&server, 8000, &payload);
        let path = format!("/stream/x?last_event_id={place}");
        let mut wire = small_client(&server);
        wire.send(get(&path, &Socket::FIELDS));
        wire.send(frame(0x81, b"{\"logout\":[\"x\"]}"));
        assert_eq!(wire.head().status, 101);
        // What it missed is on its way, and now it is gone for senders.
        wire.take(1).unwrap();
        server.wait_online("x", 0);
        clients.push(wire);
        server.anonymous_bytes()
    };
    let full = (0..2).map(|_| round()).last().unwrap();
    let then = (0..4).map(|_| round()).last().unwrap();
    // All that the four of them have missed is 48 MB.
    let more = then.saturating_sub(full) >> 20;
    assert!(more < 20, "{more} MiB more for four clients");
}

/// Lets more time go by than a last answer once had in all.
fn pause(server: &Server) {
    let begun = Instant::now();
    wait_for("three seconds", || {
        server.api.stats();
        begun.elapsed() > Duration::from_secs(3)
    });
}

#[test]
fn client_that_pauses_hears_all_that_waited_when_it_was_logged_out() {
    const EVENTS: usize = 500;
    let server = Server::start(&["--max-backlog=16MiB"]);
    let mut stream = Stream::on(small_client(&server), "/stream/x", "*/*");
    send_many(&server, EVENTS, &"z".repeat(8000));
    assert_eq!(server.api.logout("x"), 1);
    pause(&server);
    assert_eq!(stream.data(), "first");
    (0..EVENTS / 2).for_each(|_| assert_eq!(stream.data().as_str().unwrap().len(), 8000));
    pause(&server);
    (EVENTS / 2..EVENTS).for_each(|_| assert_eq!(stream.data().as_str().unwrap().len(), 8000));
    stream.expect_last_chunk();
    server.wait_closed("logged_out", 1);
}

#[test]
fn client_that_pauses_hears_all_of_a_poll_that_is_its_last() {
    const EVENTS: usize = 500;
    let server = Server::start(&["--max-backlog=16MiB", "--history-events=20000"]);
    let place = send_many(&server, EVENTS, &"z".repeat(8000));
    let mut wire = small_client(&server);
    wire.send(get(&format!("/poll/x?after={place}"), &["Connection: close"]));
    pause(&server);
    let answer = read_answer(&mut wire, "GET").unwrap();
    assert_eq!(answer.head.field("connection"), Some("close"));
    let heard = answer.ok();
    let heard = heard.as_array().unwrap();
    assert_eq!(heard.len(), EVENTS);
    assert!(heard.iter().all(|event| event["data"].as_str().unwrap().len() == 8000));
    assert!(wire.rest().is_empty());
}

#[test]
fn client_for_which_the_buffers_of_all_have_no_room_is_closed_for_that() {
    let server = Server::start(&["--max-backlog=16MiB", "--max-buffered=1MiB"]);
    let _client = Stream::on(small_client(&server), "/stream/x", "*/*");
    send_many(&server, 1000, &"z".repeat(8000));
    server.wait_closed("buffers_full", 1);
    assert_eq!(server.api.stats()["connections_closed"]["slow_reader"], 0);
}

#[test]
fn what_all_clients_have_together_is_shown_and_falls_to_nothing() {
    let options = ["--max-backlog=16MiB", "--max-buffered=32MiB", "--history-events=0"];
    let server = Server::start(&options);
    let shown = |name: &str| server.api.stats()[name].as_u64().unwrap();
    let client = Stream::on(small_client(&server), "/stream/x?id=a-name&id=7", "*/*");
    // Three log-ins of 56 bytes, and two names of 40. A text counts with its length, a byte here,
    // and the half of both that may be free.
    let text = |text: &str| (text.len() as u64 + 1) * 3 / 2;
    assert_eq!(shown("ids_bytes"), 3 * 56 + 2 * 40 + text("x") + text("a-name"));
    send_many(&server, 1000, &"z".repeat(8000));
    wait_for("what waits is shown", || shown("buffered_bytes") > 4 << 20);
    let metrics = server.api.get("/metrics").body;
    for name in ["encke_ids_bytes", "encke_buffered_bytes"] {
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        assert!(line.unwrap().parse::<f64>().unwrap() > 0.0, "{name}");
    }
    client.wire.reset();
    server.wait_open(0);
    wait_for("all is given back", || shown("buffered_bytes") + shown("ids_bytes") == 0);
}
