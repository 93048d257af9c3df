//! Appends to durable streams that a worker's turn hands on, and that are made in groups: they are
//! answered as all others are, and none is lost or taken twice.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::harness::{Answer, Api, Server, Stream, Wire, read_answer, wait_for};
use crate::keys::{new_key, revoke, server as server_with_keys};
use crate::lanes::{answer, comparable};
use crate::upgrade::Upgraded;

const TEXT: &str = "Content-Type: text/plain\r\n";

fn create(api: &Api, path: &str, content_type: &str) {
    let path = format!("/v1/stream/{path}");
    let created = api.request("PUT", &path, Some(content_type), b"").unwrap();
    assert_eq!(created.status(), 201, "{created:?}");
}

fn append(path: &str, fields: &str, body: &str) -> String {
    let len = body.len();
    format!(
        "POST /v1/stream/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len}\r\n\
         {fields}\r\n{body}"
    )
}

fn producer(sequence: u64) -> String {
    format!("{TEXT}Producer-Id: w\r\nProducer-Epoch: 1\r\nProducer-Seq: {sequence}\r\n")
}

fn text(api: &Api, path: &str) -> String {
    let answer = api.get(&format!("/v1/stream/{path}"));
    assert_eq!(answer.status(), 200, "{answer:?}");
    answer.body
}

/// How many appends a worker's turn has handed on.
fn in_lanes(api: &Api) -> u64 {
    let metrics = api.get("/metrics").body;
    let line = metrics.lines().find(|line| line.starts_with("encke_appends_at_once_total "));
    line.and_then(|line| line.split(' ').nth(1)).unwrap().parse().unwrap()
}

/// An answer without what differs from one stream to the next.
fn without_ids(answer: &Answer) -> (Vec<String>, serde_json::Value) {
    let (head, body) = comparable(answer);
    let place = |line: String| match line.strip_prefix("stream-next-offset: ") {
        Some(offset) => format!("next: {}", &offset[11..]),
        None => line,
    };
    (head.into_iter().map(place).collect(), body)
}

/// What is asked, one after the other; whether it is for lanes; and the status of its answer.
fn asked() -> Vec<(String, bool, u16)> {
    let of = |epoch: u64, sequence: u64| {
        format!("{TEXT}Producer-Id: p\r\nproducer-epoch: {epoch}\r\nProducer-Seq: {sequence}\r\n")
    };
    let closed = "Stream-Closed: TRUE\r\n";
    let json = "Content-Type: application/json\r\n";
    let close = format!("{}{closed}", of(1, 2));
    let all: [(&str, &str, &str, bool, u16); 37] = [
        ("t/1", &of(1, 0), "a", true, 200),
        ("t/1", &of(1, 0), "a", true, 204),
        ("t/1", &of(1, 5), "a", true, 409),
        ("t/1", &of(0, 1), "a", true, 403),
        ("t/1", &of(2, 1), "a", true, 400),
        ("t/1", &of(1, 1), "b", true, 200),
        ("t/1", TEXT, "c", true, 204),
        ("%74/1", "content-type:text/plain; charset=utf-8\r\n", "c", true, 204),
        ("t/1", &format!("{TEXT}Stream-Seq: b\r\n"), "d", true, 204),
        ("t/1", &format!("{TEXT}Stream-Seq: b\r\n"), "d", true, 409),
        ("t/1", "Content-Type: text/html\r\n", "d", true, 409),
        ("t/1", json, "[1]", true, 409),
        ("t/1", json, "{", false, 409),
        ("t/1", "", "x", false, 400),
        ("t/1", TEXT, "", false, 400),
        ("t/1", &format!("{TEXT}Producer-Id: p\r\n"), "x", false, 400),
        ("t/1", &of(1, 1).replace("Seq: 1", "Seq: +1"), "x", false, 400),
        ("t/1", &format!("{TEXT}Stream-Seq: {}\r\n", "x".repeat(1_025)), "x", false, 400),
        ("t/1", &format!("{TEXT}Stream-Seq: c\r\nStream-Seq: d\r\n"), "x", false, 400),
        ("t/1", &format!("{TEXT}Stream-Forked-From: nothing\r\n"), "x", false, 400),
        ("t/1?x=1", TEXT, "q", false, 204),
        ("t/1", &format!("{TEXT}Cookie: a=b\r\n"), "q", false, 204),
        ("t/1", TEXT, &"l".repeat(32 << 10), true, 204),
        ("t/1", TEXT, &"l".repeat((32 << 10) + 1), false, 204),
        ("t/1", &close, "e", true, 200),
        ("t/1", &close, "e", true, 204),
        ("t/1", TEXT, "f", true, 409),
        ("t/1", json, "{", false, 409),
        ("t/1", closed, "", true, 204),
        ("t/2", TEXT, "f", false, 404),
        ("", TEXT, "f", false, 404),
        ("t/j", json, "[{\"a\": 1},2]", true, 204),
        ("t/j", json, " 3 ", true, 204),
        ("t/j", json, "[]", false, 400),
        ("t/j", json, "{\"a\"", false, 400),
        ("t/j", TEXT, "x", true, 409),
        ("t/j", &format!("{json}{closed}"), "[4]", true, 204),
    ];
    let one = |(path, fields, body, is_for_lanes, status): &(&str, &str, &str, bool, u16)| {
        (append(path, fields, body), *is_for_lanes, *status)
    };
    all.iter().map(one).collect()
}

/// The same bytes, on a connection that is served in a worker's turn and on one that is not.
#[test]
fn appends_are_answered_as_the_library_answers_them() {
    let ask = |first: &str| {
        let server = Server::start(&["--streams"]);
        create(&server.api, "t/1", "text/plain");
        create(&server.api, "t/j", "application/json");
        create(&server.api, "warm", "text/plain");
        let mut answers = Vec::new();
        for (text, is_for_lanes, status) in asked() {
            let mut wire = Wire::connect(server.api.address());
            wire.send(first);
            answer(&mut wire);
            let before = in_lanes(&server.api);
            wire.send(&text);
            let answer = answer(&mut wire);
            let begin = &text[..text.len().min(300)];
            assert_eq!(answer.status(), status, "{begin}: {answer:?}");
            let is_in_lane = in_lanes(&server.api) > before;
            assert_eq!(is_in_lane, is_for_lanes && first.starts_with("POST"), "{begin}");
            answers.push((begin.to_owned(), without_ids(&answer)));
        }
        let texts = [text(&server.api, "t/1"), text(&server.api, "t/j")];
        (answers, texts)
    };
    let here = ask(&append("warm", TEXT, "x"));
    let there = ask("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for (here, there) in here.0.iter().zip(&there.0) {
        assert_eq!(here, there);
    }
    assert_eq!(here.1, there.1);
    assert_eq!(here.1[1], "[{\"a\": 1},2,3,4]");
}

#[test]
fn requests_that_come_together_are_answered_in_their_order() {
    let server = Server::start(&["--streams"]);
    for n in 0..7 {
        create(&server.api, &format!("run/{n}"), "text/plain");
    }
    let mut reader = Stream::open(
        server.api.address(),
        "/v1/stream/run/0?offset=now&live=sse",
        "text/event-stream",
    );
    reader.chunk();
    let mut wire = Wire::connect(server.api.address());
    let batch: String = (0..280)
        .map(|n| append(&format!("run/{}", n % 7), &producer(n / 7), &format!("{n},")))
        .collect();
    // A question in between is answered in its place, too.
    let question = "GET /v1/stream/run/6 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    wire.send([&batch, question].concat());
    for n in 0..280_u64 {
        let answer = answer(&mut wire);
        assert_eq!(answer.status(), 200, "{n}: {answer:?}");
        assert_eq!(answer.head.field("producer-seq"), Some(&*(n / 7).to_string()));
    }
    let expected = |of: u64| (0..40).map(|n| format!("{},", 7 * n + of)).collect::<String>();
    assert_eq!(read_answer(&mut wire, "GET").unwrap().body, expected(6));
    for n in 0..6 {
        assert_eq!(text(&server.api, &format!("run/{n}")), expected(n));
    }
    assert_eq!(in_lanes(&server.api), 280);
    let mut heard = String::new();
    while heard.matches("data:{").count() < 1 || !heard.contains("data:273,") {
        heard += &reader.chunk();
    }
}

/// Who finds a stream's turn taken is served elsewhere, and comes to its own turn.
#[test]
fn many_who_append_to_one_stream_are_all_taken_once() {
    const EACH: u64 = 50;
    let server = Server::start(&["--streams"]);
    create(&server.api, "one", "text/plain");
    let address = server.api.address();
    thread::scope(|scope| {
        for writer in 0..8 {
            scope.spawn(move || {
                let mut wire = Wire::connect(address);
                for n in 0..EACH {
                    wire.send(append("one", TEXT, &format!("{writer}:{n},")));
                    assert_eq!(answer(&mut wire).status(), 204);
                }
            });
        }
    });
    let text = text(&server.api, "one");
    for writer in 0..8 {
        let of = format!("{writer}:");
        let its: Vec<_> = text.split(',').filter_map(|part| part.strip_prefix(&of)).collect();
        assert_eq!(its, Vec::from_iter((0..EACH).map(|n| n.to_string())));
    }
    assert!(in_lanes(&server.api) > 0);
}

#[test]
fn keys_let_append_what_they_may() {
    let (server, data) = server_with_keys(&["--streams"]);
    let make = |options: &[&str]| new_key(data.path(), options);
    let all = make(&["--scope=send"]);
    create(&server.api.with_key(&all), "run/1", "text/plain");
    create(&server.api.with_key(&all), "a", "text/plain");
    let read = make(&["--scope=read"]);
    let some = make(&["--scope=send", "--about=run*"]);
    let asked = |wire: &mut Wire, key: &str, path: &str| {
        wire.send(append(path, &format!("{TEXT}Authorization: Bearer {key}\r\n"), "x"));
        answer(wire).status()
    };
    for (key, path, status) in [
        (read.as_str(), "a", 403),
        ("nonsense", "a", 401),
        ("", "a", 401),
        (&some, "run/1", 204),
        (&some, "a", 403),
    ] {
        let mut wire = Wire::connect(server.api.address());
        assert_eq!(asked(&mut wire, &all, "a"), 204);
        assert_eq!(asked(&mut wire, key, path), status, "{key:?} {path}");
    }
    let mut wire = Wire::connect(server.api.address());
    assert_eq!([asked(&mut wire, &all, "a"), asked(&mut wire, &all, "a")], [204, 204]);
    revoke(data.path(), &all);
    assert_eq!(asked(&mut wire, &all, "a"), 401);
    let reader = server.api.with_key(&read);
    assert_eq!([text(&reader, "a"), text(&reader, "run/1")], ["xxxxxxx", "x"]);
    assert_eq!(in_lanes(&reader), 8);
}

#[test]
fn append_that_is_an_event_is_none_for_lanes() {
    let server = Server::start(&["--streams", "--streams-events=run:*"]);
    create(&server.api, "run:1", "text/plain");
    create(&server.api, "other", "text/plain");
    let mut listener = server.listener("run:1");
    let mut wire = Wire::connect(server.api.address());
    wire.send([append("other", TEXT, "x"), append("run:1", TEXT, "hi")].concat());
    assert_eq!(answer(&mut wire).status(), 204);
    assert_eq!(answer(&mut wire).head.field("encke-id"), Some("run:1"));
    assert_eq!(listener.event()["data"]["text"], "hi");
    assert_eq!(in_lanes(&server.api), 1);
}

/// Writers of a stream each, which append one after the other as producers, and come back when
/// their connection ends, until `stop`; what each was acknowledged.
fn write_until(address: SocketAddr, streams: u64, stop: &AtomicBool, all: &AtomicU64) -> Vec<u64> {
    thread::scope(|scope| {
        let writer = |stream: u64| {
            let mut acknowledged = 0;
            while !stop.load(Ordering::Relaxed) {
                let Ok(mut wire) = Wire::try_connect(address) else { continue };
                while !stop.load(Ordering::Relaxed) {
                    let text = format!("{acknowledged},");
                    let asked = append(&format!("run/{stream}"), &producer(acknowledged), &text);
                    if wire.try_send(asked).is_err() {
                        break;
                    }
                    let Ok(answer) = read_answer(&mut wire, "POST") else { break };
                    match answer.status() {
                        200 | 204 => acknowledged += 1,
                        503 => break,
                        _ => panic!("{answer:?}"),
                    }
                    all.fetch_add(1, Ordering::Relaxed);
                }
            }
            acknowledged
        };
        let writers: Vec<_> = (0..streams).map(|n| scope.spawn(move || writer(n))).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    })
}

fn numbers(up_to: u64) -> String {
    (0..up_to).map(|number| format!("{number},")).collect()
}

const WRITERS: u64 = 16;

#[test]
fn what_was_acknowledged_in_groups_survives_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(data.path(), &["--streams"]);
    (0..WRITERS).for_each(|n| create(&server.api, &format!("run/{n}"), "text/plain"));
    let (stop, all) = (AtomicBool::new(false), AtomicU64::new(0));
    let address = server.api.address();
    let acknowledged = thread::scope(|scope| {
        let writing = scope.spawn(|| write_until(address, WRITERS, &stop, &all));
        wait_for("appends", || all.load(Ordering::Relaxed) > 500);
        assert!(in_lanes(&server.api) > 250);
        server.into_program().kill();
        stop.store(true, Ordering::Relaxed);
        writing.join().unwrap()
    });
    server = Server::start_in(data.path(), &["--streams"]);
    for (n, acknowledged) in acknowledged.into_iter().enumerate() {
        let text = text(&server.api, &format!("run/{n}"));
        let may_be = [numbers(acknowledged), numbers(acknowledged + 1)];
        assert!(may_be.contains(&text), "run/{n}: {acknowledged} were acknowledged of {text}");
    }
}

#[test]
fn writers_go_on_through_an_upgrade_and_nothing_is_taken_twice() {
    let server = Upgraded::serve(&["--streams"]);
    (0..WRITERS).for_each(|n| create(&server.api, &format!("run/{n}"), "text/plain"));
    let (stop, all) = (AtomicBool::new(false), AtomicU64::new(0));
    let address = server.api.address();
    let acknowledged = thread::scope(|scope| {
        let writing = scope.spawn(|| write_until(address, WRITERS, &stop, &all));
        wait_for("appends", || all.load(Ordering::Relaxed) > 500);
        assert!(in_lanes(&server.api) > 0);
        server.upgrade(&[]);
        let after = all.load(Ordering::Relaxed);
        wait_for("appends after it", || all.load(Ordering::Relaxed) > after + 500);
        stop.store(true, Ordering::Relaxed);
        writing.join().unwrap()
    });
    let api = server.api.another();
    assert!(in_lanes(&api) > 0, "the successor has lanes, too");
    for (n, acknowledged) in acknowledged.into_iter().enumerate() {
        let text = text(&api, &format!("run/{n}"));
        let may_be = [numbers(acknowledged), numbers(acknowledged + 1)];
        assert!(may_be.contains(&text), "run/{n}: {acknowledged} were acknowledged of {text}");
    }
}

#[test]
fn writer_that_reads_no_answers_holds_up_nobody() {
    let server = Server::start(&["--streams", "--workers=1"]);
    create(&server.api, "deaf", "text/plain");
    create(&server.api, "other", "text/plain");
    let mut deaf = Wire::connect(server.api.address());
    deaf.socket().set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let batch = append("deaf", TEXT, "x").repeat(1_000);
    while deaf.try_send(&batch).is_ok() {}
    let mut wire = Wire::connect(server.api.address());
    for n in 0..100 {
        wire.send(append("other", &producer(n), "y"));
        assert_eq!(answer(&mut wire).status(), 200, "{n}");
    }
    drop(deaf);
    assert_eq!(text(&server.api, "other"), "y".repeat(100));
}
