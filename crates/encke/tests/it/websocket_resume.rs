//! WebSockets that come back: what they missed, once and in its order, or the word that it is gone.

use std::collections::BTreeSet;
use std::thread;

use serde_json::{Value, json};

use crate::harness::{Server, Socket, check_problem, frame, get, read_answer, seed};

/// A client that goes on after `cursor`.
fn resume(server: &Server, id: &str, cursor: &str) -> Socket {
    Socket::open(server.listen(), &format!("/stream/{id}?last_event_id={cursor}"))
}

/// Where a client stands that has heard all before the answer.
fn next(socket: &mut Socket) -> String {
    let answer = socket.ask(json!({"ping": 1}));
    answer["ok"]["next"].as_str().unwrap_or_else(|| panic!("no place in {answer}")).to_owned()
}

/// Events about five subjects flow all the time, while their follower loses its connection again
/// and again: it goes on after the last event, or after the last place that it was told.
#[test]
fn client_that_comes_and_goes_hears_each_event_once() {
    const EVENTS: u64 = 2_000;
    let server = Server::start(&["--history-events=10000"]);
    for subject in 1..5 {
        server.api.subscribe("bob", &format!("subject:{subject}"));
    }
    let mut random = fastrand::Rng::with_seed(seed());
    let mut socket = Socket::open(server.listen(), "/stream/bob?id=subject:0");
    let mut cursor = next(&mut socket);
    let api = server.api.another();
    let sender = thread::spawn(move || {
        for hundred in 0..EVENTS / 100 {
            let lines: String = (hundred * 100..hundred * 100 + 100)
                .map(|n| format!("{{\"about\":\"subject:{}\",\"data\":{n}}}\n", n % 5))
                .collect();
            assert_eq!(api.post_lines("/send", &lines).status(), 200);
        }
    });
    let (mut heard, mut returns) = (Vec::new(), 0);
    while heard.len() < EVENTS as usize {
        if random.u8(..20) == 0 {
            drop(socket);
            // One id or the other first: the subjects are the same.
            let path = match random.bool() {
                true => "/stream/bob?id=subject:0&last_event_id=",
                false => "/stream/subject:0?id=bob&last_event_id=",
            };
            socket = Socket::open(server.listen(), &format!("{path}{cursor}"));
            returns += 1;
        }
        if random.u8(..40) == 0 {
            socket.send(json!({"ping": 1}).to_string());
        }
        let message = socket.json();
        if message["ok"].is_object() {
            // Left out as long as it is not known what was missed.
            if let Some(place) = message["ok"]["next"].as_str() {
                assert!(place >= cursor.as_str(), "{place} is before {cursor}");
                cursor = place.to_owned();
            }
            continue;
        }
        assert!(message["about"].is_string(), "{message}");
        let id = message["id"].as_str().unwrap();
        assert!(id > cursor.as_str(), "{id} is told again");
        cursor = id.to_owned();
        heard.push(message["data"].as_u64().unwrap());
    }
    sender.join().unwrap();
    assert!(returns > 30, "{returns}");
    let all: BTreeSet<u64> = heard.iter().copied().collect();
    assert_eq!(all.len(), heard.len(), "none twice");
    assert!(all.into_iter().eq(0..EVENTS), "all of them");
    for subject in 0..5 {
        let of_it = heard.iter().filter(|&&n| n % 5 == subject);
        assert!(of_it.is_sorted(), "in the order sent");
    }
    assert_eq!(server.api.stats()["resume_gaps"], 0);
}

#[test]
fn forgotten_events_are_a_gap_that_is_told_first() {
    let server = Server::start(&["--history-events=3"]);
    let cursor = next(&mut Socket::open(server.listen(), "/stream/a"));
    for number in 0..3 {
        server.api.send("a", number);
    }
    let mut socket = resume(&server, "a", &cursor);
    for number in 0..3 {
        assert_eq!(socket.data(), number);
    }
    drop(socket);
    server.wait_online("a", 0);
    server.api.send("a", 3);
    let mut socket = resume(&server, "a", &cursor);
    assert_eq!(socket.json(), json!({"gap": true}));
    for number in 1..4 {
        assert_eq!(socket.data(), number, "what is remembered comes all the same");
    }
    assert_eq!(server.api.send("a", "live"), 1);
    assert_eq!(socket.data(), "live");
    let stats = server.api.stats();
    assert_eq!((&stats["resumes"], &stats["resume_gaps"]), (&json!(2), &json!(1)));
}

#[test]
fn malformed_cursor_in_the_query_is_refused_before_the_upgrade() {
    let server = Server::start(&[]);
    for cursor in ["17", "0000000000000000000", "000000000000000_", "%20"] {
        let path = format!("/stream/a?last_event_id={cursor}");
        let mut wire = server.ask(get(&path, &Socket::FIELDS));
        let answer = read_answer(&mut wire, "GET").unwrap();
        assert_eq!((answer.status(), answer.head.field("upgrade")), (400, None), "{cursor}");
        check_problem(&answer.json(), 400);
        wire.end();
    }
    assert_eq!(server.wait_open(0)["ids_online"], 0);
}

/// A client need not wait until it has heard what it missed: it is answered, before that or behind
/// it, and what it missed comes all the same.
#[test]
fn commands_that_come_with_a_cursor_are_carried_out() {
    let server = Server::start(&[]);
    let cursor = next(&mut Socket::open(server.listen(), "/stream/a"));
    for number in 0..20 {
        server.api.send("a", number);
    }
    let path = format!("/stream/a?last_event_id={cursor}");
    let commands = [frame(0x81, br#"{"login":["b"]}"#), frame(0x89, b"!")].concat();
    let mut wire = server.ask([get(&path, &Socket::FIELDS).into_bytes(), commands].concat());
    assert_eq!(wire.head().status, 101);
    let (mut missed, mut answers) = (0, Vec::new());
    while missed + answers.len() < 22 {
        let head = wire.take(2).unwrap();
        let payload = wire.take(usize::from(head[1])).unwrap();
        let value = serde_json::from_slice::<Value>(&payload).unwrap_or_default();
        if value["about"].is_string() {
            assert_eq!(value["data"], missed);
            missed += 1;
        } else {
            answers.push((head[0], value));
        }
    }
    assert_eq!(answers, [(0x81, json!({"ok": {"login": ["b"]}})), (0x8a, Value::Null)]);
    assert_eq!(server.api.send("b", 1), 1);
}
