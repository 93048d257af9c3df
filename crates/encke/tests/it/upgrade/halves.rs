//! What is half there when an upgrade meets it: half a head, half a frame, half a message, half a
//! request to the API.

use std::io::Write;

use flate2::{Compress, Compression, FlushCompress};
use serde_json::{Value, json};

use super::served::Upgraded;
use super::subscriber::{Kind, Subscriber, connect};
use crate::harness::{Wire, frame, get, read_answer};

#[test]
fn half_a_head_goes_on() {
    let server = Upgraded::serve(&["--websocket-deflate", "--head-timeout=300"]);
    let kinds =
        [Kind::Sse, Kind::Ndjson, Kind::Classic, Kind::WebSocket, Kind::Deflated, Kind::OldSse];
    let mut halves = Vec::new();
    for kind in kinds {
        let request = kind.request(&kind.path(&["late", "all"], None));
        // A byte, a part of the path, all but the last line's end.
        for at in [1, 14, request.len() - 1] {
            let mut subscriber =
                Subscriber::asked(connect(server.listen()), kind, &["late", "all"]);
            subscriber.socket.write_all(&request.as_bytes()[..at]).unwrap();
            halves.push((subscriber, request.as_bytes()[at..].to_vec()));
        }
    }
    server.wait_open(halves.len() as u64);
    // One that has said nothing at all waits in the kernel until it does.
    let request = get("/stream/late?id=all", &[]).into_bytes();
    halves.push((Subscriber::asked(connect(server.listen()), Kind::Ndjson, &["late"]), request));
    server.upgrade(&[]);
    for (subscriber, rest) in &mut halves {
        subscriber.socket.write_all(rest).unwrap();
        subscriber.open_head();
    }
    assert_eq!(server.api.send("all", "at last"), halves.len() as u64);
    halves.iter_mut().for_each(|(subscriber, _)| {
        assert_eq!(subscriber.data(), "at last", "{:?}", subscriber.kind)
    });
}

/// The time for a head is counted from its begin, not from the upgrade on.
#[test]
fn head_that_does_not_come_ends_in_its_time() {
    let server = Upgraded::serve(&["--head-timeout=2"]);
    let mut half = server.ask("GET /str");
    server.wait_open(1);
    server.upgrade(&[]);
    assert_eq!(half.head().status, 408);
    server.wait_closed("head_timeout", 1);
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 100);
    let mut encoder = Compress::new(Compression::best(), false);
    encoder.compress_vec(bytes, &mut out, FlushCompress::Sync).unwrap();
    out.truncate(out.len() - 4);
    out
}

/// A command of a WebSocket, cut at each byte of its frames.
#[test]
fn half_a_websocket_message_goes_on() {
    let server = Upgraded::serve(&["--websocket-deflate"]);
    let login = |n: usize| json!({ "login": [format!("id:{n}"), "all"] }).to_string();
    let fragments = |text: &str| {
        let (start, rest) = text.split_at(text.len() / 2);
        let ping = frame(0x89, b"!");
        [frame(0x01, start.as_bytes()), ping, frame(0x80, rest.as_bytes())].concat()
    };
    let packed = |text: &str| {
        let bytes = compressed(text.as_bytes());
        let (start, rest) = bytes.split_at(bytes.len() / 2);
        [frame(0x41, start), frame(0x80, rest)].concat()
    };
    type Form<'f> = &'f dyn Fn(&str) -> Vec<u8>;
    let whole = |text: &str| frame(0x81, text.as_bytes());
    let long = |text: &str| frame(0x81, format!("{text}{}", " ".repeat(300)).as_bytes());
    let forms: [(Kind, Form<'_>); 4] = [
        (Kind::WebSocket, &whole),
        (Kind::WebSocket, &long),
        (Kind::WebSocket, &fragments),
        (Kind::Deflated, &packed),
    ];
    let mut halves = Vec::new();
    for (kind, form) in forms {
        let len = form(&login(0)).len();
        for cut in (1..len).step_by(if len > 100 { 23 } else { 1 }) {
            let n = halves.len();
            let bytes = form(&login(n));
            let cut = cut.min(bytes.len() - 1);
            let mut subscriber = Subscriber::open(server.listen(), kind, &[&format!("own:{n}")]);
            subscriber.socket.write_all(&bytes[..cut]).unwrap();
            halves.push((subscriber, bytes[cut..].to_vec(), n));
        }
    }
    server.upgrade(&[]);
    for (subscriber, rest, n) in &mut halves {
        subscriber.socket.write_all(rest).unwrap();
        let mut answer = subscriber.answer();
        if answer["pong"].is_array() {
            answer = subscriber.answer();
        }
        assert_eq!(
            answer["ok"]["login"],
            json!([format!("id:{n}"), "all"]),
            "{:?}",
            subscriber.kind
        );
    }
    assert_eq!(server.api.send("all", "whole"), halves.len() as u64);
    for (subscriber, _, n) in &mut halves {
        assert_eq!(server.api.send(&format!("id:{n}"), "own"), 1);
        assert_eq!((subscriber.data(), subscriber.data()), (json!("whole"), json!("own")));
    }
}

/// Requests that were sent ahead behind a poll that waits.
#[test]
fn requests_sent_ahead_are_served_behind_an_upgrade() {
    let server = Upgraded::serve(&[]);
    let mut wire = server.ask(get("/poll/1", &[]) + &get("/poll/2?wait=0", &[]) + "GET /str");
    server.wait_online("1", 1);
    server.upgrade(&[]);
    wire.send("eam/4 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(server.api.send("1", "first"), 1);
    let first = read_answer(&mut wire, "GET").unwrap().ok();
    assert_eq!(first[0]["data"], "first");
    assert_eq!(read_answer(&mut wire, "GET").unwrap().ok(), json!([]));
    assert_eq!(wire.head().status, 200);
    assert_eq!(server.api.send("4", "stream"), 1);
    let line = String::from_utf8(wire.chunk().unwrap()).unwrap();
    assert!(line.contains("\"data\":\"stream\""), "{line}");
}

/// A request to the API whose body is half there is answered, whoever answers it; and one that has
/// not begun goes on over the connection that is kept.
#[test]
fn half_a_request_to_the_api_is_answered() {
    let server = Upgraded::serve(&[]);
    let mut subscriber = Subscriber::open(server.listen(), Kind::Ndjson, &["rj"]);
    let body = json!({ "about": "rj", "data": "half" }).to_string();
    let request = format!(
        "POST /send HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut wires: Vec<(Wire, usize)> = [0, 9, 60, request.len() - 1]
        .into_iter()
        .map(|at| {
            let mut wire = Wire::connect(server.api.address());
            wire.send(&request[..at]);
            (wire, at)
        })
        .collect();
    server.api.stats();
    server.upgrade(&[]);
    for (wire, at) in &mut wires {
        wire.send(&request[*at..]);
        let answer = read_answer(wire, "POST").unwrap().ok();
        assert_eq!(answer["delivered"], 1, "cut at {at}");
        assert_eq!(subscriber.data(), "half");
    }
}

/// Lines of a stream of sends go on, the half line too, over two upgrades.
#[test]
fn stream_of_sends_goes_on() {
    let server = Upgraded::serve(&[]);
    let mut subscriber = Subscriber::open(server.listen(), Kind::Ndjson, &["rj"]);
    let mut wire = Wire::connect(server.api.address());
    wire.send(
        "POST /send HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
    );
    let say = |wire: &mut Wire, text: &str| {
        wire.send(format!("{:x}\r\n{text}\r\n", text.len()));
    };
    let answer = |wire: &mut Wire| -> Value {
        let chunk = wire.chunk().unwrap();
        serde_json::from_slice(&chunk).unwrap_or_else(|error| panic!("{error}: {chunk:?}"))
    };
    say(&mut wire, "{\"about\":\"rj\",\"data\":0}\n{\"about\":\"rj\",");
    assert_eq!(wire.head().status, 200);
    assert_eq!(answer(&mut wire)["delivered"], 1);
    assert_eq!(subscriber.data(), 0);
    for round in 1..=2 {
        server.upgrade(&[]);
        say(&mut wire, &format!("\"data\":{round}}}\n{{\"about\":\"rj\","));
        assert_eq!(answer(&mut wire)["delivered"], 1);
        assert_eq!(subscriber.data(), round);
    }
    say(&mut wire, "\"data\":3}\n");
    say(&mut wire, "");
    assert_eq!(answer(&mut wire)["delivered"], 1);
    assert_eq!(wire.chunk().unwrap(), b"");
    assert_eq!(subscriber.data(), 3);
}
