//! WebSockets: events, commands, handshakes, and messages that come in pieces.

use serde_json::json;
use tungstenite::{Bytes, Message};

use crate::harness::{Server, Socket, Wire, check_problem, frame, get, read_answer};

#[test]
fn event_is_a_text_message_of_its_json() {
    let server = Server::start(&[]);
    server.api.subscribe("bob", "rj");
    let mut socket = Socket::open(server.listen(), "/stream/bob?id=two");
    let mut stream = server.listener("bob");
    let data = json!({"photo": "ü\n", "more": "x".repeat(65_000)});
    for (about, data) in [("rj", json!(1)), ("bob", data), ("two", json!(null))] {
        let heard = server.api.send(about, data.clone());
        let event = socket.json();
        assert_eq!((&event["about"], &event["data"]), (&json!(about), &data));
        if about != "two" {
            assert_eq!((heard, event), (2, stream.event()));
        }
    }
    let stats = server.api.stats();
    assert_eq!(stats["streams_open"]["websocket"], 1, "{stats}");
}

#[test]
fn ids_come_and_go_on_an_open_connection() {
    let server = Server::start(&[]);
    let mut socket = Socket::open(server.listen(), "/stream/a");
    assert_eq!(
        socket.ask(json!({"login": ["b", 7, "a", "b"]})),
        json!({"ok": {"login": ["b", "7", "a", "b"]}})
    );
    for id in ["a", "b", "7"] {
        assert_eq!(server.api.connections(id), 1, "{id}");
        assert_eq!(server.api.send(id, id), 1);
        assert_eq!(socket.data(), id);
    }
    assert_eq!(
        socket.ask(json!({"logout": ["a", "unknown"]})),
        json!({"ok": {"logout": ["a", "unknown"]}})
    );
    assert_eq!((server.api.connections("a"), server.api.send("a", 1)), (0, 0));
    // Out of all of them: it stays open, hears nothing and comes back.
    socket.ask(json!({"logout": ["b", "7"]}));
    assert_eq!(server.api.stats()["ids_online"], 0);
    assert_eq!(socket.ask(json!({"ping": 1}))["ok"]["ping"], 1);
    socket.ask(json!({"login": ["c"]}));
    assert_eq!(server.api.send("c", "again"), 1);
    assert_eq!(socket.data(), "again");
    drop(socket);
    server.wait_open(0);
    assert_eq!(server.api.stats()["ids_online"], 0);
}

#[test]
fn ids_of_a_connection_have_a_bound() {
    let server = Server::start(&["--max-message=64KiB"]);
    let mut socket = Socket::open(server.listen(), "/stream/0");
    let ids = |from: usize, to: usize| json!({"login": (from..to).collect::<Vec<_>>()});
    let problem = socket.problem(ids(1, 2049).to_string());
    assert!(problem["detail"].as_str().unwrap().contains("2048"), "{problem}");
    assert_eq!(server.api.stats()["ids_online"], 1, "nothing of it was done");
    assert_eq!(socket.ask(ids(0, 2048))["ok"]["login"].as_array().unwrap().len(), 2048);
    assert_eq!(server.api.stats()["ids_online"], 2048);
    socket.problem(r#"{"login":["name"]}"#);
    assert_eq!(server.api.send("2047", 1), 1);
    assert_eq!(socket.data(), 1);
}

#[test]
fn what_is_no_command_is_answered_with_a_problem() {
    let server = Server::start(&[]);
    let mut socket = Socket::open(server.listen(), "/stream/a");
    for text in
        ["", "x", "{}", "[]", r#"{"login":["a b"]}"#, r#"{"sends":1}"#, r#"{"logout":[""]}"#]
    {
        socket.problem(text);
    }
    socket.problem(Message::Binary(Bytes::from_static(b"\x00\xff")));
    // The connection has taken no harm.
    assert_eq!(server.api.send("a", 1), 1);
    assert_eq!(socket.data(), 1);
}

#[test]
fn ping_is_answered_with_its_payload() {
    let server = Server::start(&[]);
    let mut socket = Socket::open(server.listen(), "/stream/a");
    for payload in [Bytes::new(), Bytes::from_static(&[7; 125])] {
        socket.send(Message::Ping(payload.clone()));
        assert_eq!(socket.message(), Message::Pong(payload));
    }
}

#[test]
fn answers_keep_their_place_among_events() {
    let server = Server::start(&["--max-backlog=64MiB"]);
    let mut socket = Socket::open(server.listen(), "/stream/a");
    // More than the kernel takes at one time, so that answers meet events that are half sent.
    for round in 0..40 {
        server.api.send("a", json!([round, "x".repeat(200_000)]));
        socket.send(json!({"ping": round}).to_string());
        socket.send(Message::Ping(Bytes::from(vec![round as u8])));
    }
    let (mut events, mut answers, mut pongs) = (0, 0, 0);
    while (events, answers, pongs) != (40, 40, 40) {
        match socket.message() {
            Message::Pong(payload) => {
                assert_eq!(*payload, [pongs]);
                pongs += 1;
            }
            message => {
                let value: serde_json::Value =
                    serde_json::from_str(message.to_text().unwrap()).unwrap();
                if value["ok"].is_object() {
                    assert_eq!(value["ok"]["ping"], answers);
                    assert!(events > answers, "its event was there before");
                    answers += 1;
                } else {
                    assert_eq!(value["data"][0], events);
                    events += 1;
                }
            }
        }
    }
}

#[test]
fn handshake_is_the_one_of_the_rfc() {
    let server = Server::start(&[]);
    let fields = [&Socket::FIELDS[..], &["Sec-WebSocket-Protocol: chat, encke"]].concat();
    let mut wire = server.connect();
    for byte in get("/stream/a", &fields).bytes() {
        wire.send([byte]);
    }
    let head = wire.head();
    assert_eq!(head.status, 101);
    assert_eq!(head.field("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(head.field("sec-websocket-protocol"), Some("encke"));
    assert_eq!(head.field("upgrade"), Some("websocket"));
    assert_eq!(head.field("connection"), Some("Upgrade"));
    assert_eq!(server.api.connections("a"), 1, "who has read the head is online");
}

#[test]
fn bad_handshakes_are_refused() {
    let server = Server::start(&["--allow-origin=https://example.org"]);
    let with = |from: &str, to: &str| -> String {
        let request = get("/stream/a", &Socket::FIELDS);
        assert!(request.contains(from));
        request.replace(from, to)
    };
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let origin = |origin: &str| with("Host:", &format!("Origin: {origin}\r\nHost:"));
    for (request, status) in [
        (with(key, ""), 400),
        (with(key, "Sec-WebSocket-Key: short\r\n"), 400),
        (with(key, &key.repeat(2)), 400),
        (with("keep-alive, Upgrade", "keep-alive"), 400),
        (with("Version: 13", "Version: 8"), 426),
        (with("Sec-WebSocket-Version: 13\r\n", ""), 426),
        (with("/stream/a", "/stream/a%20b"), 400),
        (with("/stream/a", "/nowhere"), 404),
        (origin("https://evil.test"), 403),
        (origin("null"), 403),
    ] {
        let mut wire = server.ask(&request);
        let answer = read_answer(&mut wire, "GET").unwrap();
        assert_eq!(answer.status(), status, "{request}");
        check_problem(&answer.json(), status);
        if status == 426 {
            assert_eq!(answer.head.field("sec-websocket-version"), Some("13"));
            assert_eq!(answer.head.field("upgrade"), Some("websocket"));
        }
        wire.end();
    }
    for good in ["https://example.org", "http://localhost"] {
        assert_eq!(server.ask(origin(good)).head().status, 101, "{good}");
    }
    // RFC 9110, section 7.8: an Upgrade in HTTP/1.0 is ignored.
    let head = server.ask(with("HTTP/1.1", "HTTP/1.0")).head();
    assert_eq!((head.status, head.field("content-type")), (200, Some("application/x-ndjson")));
}

/// The answer to a ping that came in whatever pieces.
#[track_caller]
fn expect_pong(wire: &mut Wire) {
    let head = b"\x81\x2b{\"ok\":{\"ping\":1,\"next\":\"";
    assert_eq!(wire.take(head.len()).unwrap(), head);
    assert_eq!(wire.take(19).unwrap()[16..], *b"\"}}");
}

#[test]
fn message_in_pieces_is_one_message() {
    let server = Server::start(&[]);
    let mut wire = Socket::raw(server.listen(), "/stream/a");
    for byte in frame(0x81, br#"{"ping":1}"#) {
        wire.send([byte]);
    }
    expect_pong(&mut wire);
    // Three fragments with a ping between them, and two messages in one packet behind them.
    wire.send(frame(0x01, br#"{"pi"#));
    wire.send(frame(0x89, b"!"));
    wire.send(frame(0x00, br#"ng""#));
    assert_eq!(wire.take(3).unwrap(), b"\x8a\x01!", "between the fragments");
    let last = frame(0x80, b":1}");
    wire.send([last, frame(0x81, br#"{"ping":1}"#), frame(0x8a, b"unasked")].concat());
    expect_pong(&mut wire);
    expect_pong(&mut wire);
    assert!(wire.is_open());
}

#[test]
fn message_that_comes_with_the_request_is_heard() {
    let server = Server::start(&[]);
    let request = get("/stream/a", &Socket::FIELDS).into_bytes();
    let mut wire = server.ask([request, frame(0x81, br#"{"ping":1}"#)].concat());
    assert_eq!(wire.head().status, 101);
    expect_pong(&mut wire);
}

#[test]
fn silent_websocket_is_pinged() {
    let server = Server::start(&["--keepalive=0.05"]);
    let mut wire = Socket::raw(server.listen(), "/stream/a");
    assert_eq!(wire.take(4).unwrap(), [0x89, 0, 0x89, 0]);
    wire.send(frame(0x8a, b""));
    assert_eq!(wire.take(2).unwrap(), [0x89, 0]);
}

/// A client that has heard no event yet can say where it stands, and what it heard last counts
/// until the next answer.
#[test]
fn answer_to_a_ping_says_where_to_resume() {
    let server = Server::start(&[]);
    assert_eq!(server.api.send("a", "before"), 0);
    let mut socket = Socket::open(server.listen(), "/stream/a");
    let next = |socket: &mut Socket| socket.ask(json!({"ping": 1}))["ok"]["next"].clone();
    for round in 0..3 {
        let (heard, at) = (server.api.send("a", round), socket.data());
        assert_eq!((heard, at), (1, json!(round)));
        let cursor = next(&mut socket);
        drop(socket);
        server.wait_open(0);
        assert_eq!(server.api.send("a", "missed"), 0);
        let path = format!("/stream/a?last_event_id={}", cursor.as_str().unwrap());
        socket = Socket::open(server.listen(), &path);
        assert_eq!(socket.data(), "missed");
        assert!(next(&mut socket).as_str() > cursor.as_str());
    }
    drop(socket);
    // Who has heard nothing at all goes on from its log-in: "missed" is not told again.
    socket = Socket::open(server.listen(), "/stream/a");
    let cursor = next(&mut socket);
    drop(socket);
    server.wait_open(0);
    let path = format!("/stream/a?last_event_id={}", cursor.as_str().unwrap());
    let mut socket = Socket::open(server.listen(), &path);
    assert_eq!(server.api.send("a", "new"), 1);
    assert_eq!(socket.data(), "new");
}

#[test]
fn client_of_another_server_is_told_of_a_gap() {
    let server = Server::start(&[]);
    let mut socket = Socket::open(server.listen(), "/stream/a?last_event_id=0000000000000001");
    assert_eq!(socket.json(), json!({"gap": true}));
    let server = Server::start(&["--history-bytes=0"]);
    let mut socket = Socket::open(server.listen(), "/stream/a");
    assert_eq!(socket.ask(json!({"ping": 1})), json!({"ok": {"ping": 1}}));
}
