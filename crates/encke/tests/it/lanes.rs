//! These are single sends that are served in a worker's turn. Whatever comes on such a connection
//! is answered as on any other, in its order, and nobody who does not read holds anything up.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testing::tried_again;

use crate::harness::{Answer, DEADLINE, End, Server, Wire, read_answer, wait_for};
use crate::keys::{new_key, revoke};

/// A plain request to send `body`, with further `fields`.
pub(crate) fn request(fields: &str, body: &str) -> String {
    let len = body.len();
    format!("POST /send HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len}\r\n{fields}\r\n{body}")
}

pub(crate) fn event(about: &str, data: &str) -> String {
    request("", &json!({ "about": about, "data": data }).to_string())
}

pub(crate) fn answer(wire: &mut Wire) -> Answer {
    read_answer(wire, "POST").unwrap()
}

/// How many events were accepted in a worker's turn.
pub(crate) fn at_once(server: &Server) -> u64 {
    let metrics = server.api.get("/metrics").body;
    let line = metrics.lines().find(|line| line.starts_with("encke_events_at_once_total "));
    line.and_then(|line| line.split(' ').nth(1)).unwrap().parse().unwrap()
}

/// Makes an attempt at most three times, until `all` sends were accepted in a worker's turn. A
/// worker that has waited for a disk serves none in its turns for a second, as it may have to where
/// memory is scarce: then it is tried again, and that is told.
pub(crate) fn all_at_once(all: u64, attempt: impl Fn() -> u64) {
    for _ in 0..3 {
        let at_once = attempt();
        if at_once == all {
            return;
        }
        assert!(at_once < all, "of {all} sends {at_once} were accepted in a worker's turn");
        tried_again(&format!("of {all} sends {at_once} were accepted in a worker's turn"));
    }
    panic!("never are all of them accepted in a worker's turn");
}

#[test]
fn requests_that_come_together_are_answered_in_their_order() {
    all_at_once(300, answer_in_order);
}

/// Sends 300 together; returns how many of them were accepted in a worker's turn.
fn answer_in_order() -> u64 {
    let server = Server::start(&["--workers=2"]);
    let mut subscribers: Vec<_> = (0..8).map(|n| server.listener(&format!("own:{n}"))).collect();
    let mut wire = Wire::connect(server.api.address());
    let batch: String = (0..300).map(|n| event(&format!("own:{}", n % 10), "x")).collect();
    wire.send(batch);
    let mut ids = Vec::new();
    for n in 0..300 {
        let answer = answer(&mut wire).ok();
        assert_eq!(answer["delivered"], u64::from(n % 10 < 8), "{n}: {answer}");
        ids.push(answer["id"].as_str().unwrap().to_owned());
    }
    assert!(ids.is_sorted() && ids.windows(2).all(|two| two[0] != two[1]));
    for (n, subscriber) in subscribers.iter_mut().enumerate() {
        for heard in ids.iter().skip(n).step_by(10) {
            assert_eq!(subscriber.event()["id"], *heard);
        }
    }
    at_once(&server)
}

#[test]
fn request_may_come_in_pieces_and_its_client_may_close_its_side() {
    let server = Server::start(&[]);
    let text = event("rj", "in pieces");
    let mut subscriber = server.listener("rj");
    for cut in [1, 20, 21, 22, 40, text.len() - 30, text.len() - 1] {
        let mut wire = Wire::connect(server.api.address());
        wire.send(event("nobody", "first"));
        answer(&mut wire).ok();
        wire.send(&text[..cut]);
        // A request of another connection has its turn in between.
        server.api.send("nobody", "between");
        wire.send(&text[cut..]);
        wire.half_close();
        assert_eq!(answer(&mut wire).ok()["delivered"], 1, "cut at {cut}");
        assert_eq!(subscriber.data(), "in pieces");
        assert_eq!(wire.end(), End::Fin);
    }
    // One that will never be whole is told so.
    let mut wire = Wire::connect(server.api.address());
    wire.send([event("nobody", "first"), text[..text.len() - 1].to_owned()].concat());
    wire.half_close();
    answer(&mut wire).ok();
    assert_eq!(answer(&mut wire).status(), 400);
}

/// More at once than a lane reads of one, while all lanes want to post.
#[test]
fn senders_that_wait_for_nothing_are_all_answered() {
    const EACH: usize = 20_000;
    let server = Server::start(&["--workers=2"]);
    let address = server.api.address();
    let answered: Vec<usize> = thread::scope(|scope| {
        let sender = |_| {
            scope.spawn(move || {
                let wire = TcpStream::connect(address).unwrap();
                wire.set_read_timeout(Some(DEADLINE)).unwrap();
                thread::scope(|both| {
                    both.spawn(|| {
                        (&wire).write_all(event("nobody", "x").repeat(EACH).as_bytes()).unwrap();
                        wire.shutdown(Shutdown::Write).unwrap();
                    });
                    let mut lines = BufReader::new(&wire).split(b'\n').map(Result::unwrap);
                    lines.by_ref().filter(|line| line.starts_with(b"HTTP/1.1 200 ")).count()
                })
            })
        };
        let senders: Vec<_> = (0..4).map(sender).collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    assert_eq!(answered, [EACH; 4]);
    assert_eq!(server.api.stats()["events"], 4 * EACH);
}

/// The same bytes, on a connection that is served in a worker's turn and on one that is not.
#[test]
fn answers_are_those_of_the_library() {
    let server = Server::start(&[]);
    let _subscriber = server.listener("rj");
    let good = r#"{"about":"rj","data":1}"#;
    let long = format!("X-Long: {}\r\n", "x".repeat(9_000));
    let large = json!({ "about": "rj", "data": "x".repeat(30_000) }).to_string();
    let too_large = json!({ "about": "rj", "data": "x".repeat(80_000) }).to_string();
    let mut requests: Vec<String> = [
        "Content-Type: application/json\r\n",
        "content-type: TEXT/plain; charset=utf-8\r\n",
        "Content-Type: text/html\r\n",
        "Content-Type: application/json; x=é\r\n",
        "Content-Type: application/json\u{a0}\r\n",
        "Content-Type: application/x-ndjson\r\n",
        "Idempotency-Key: \"a\"\r\n",
        "Idempotency-Key: \"a\"\r\nIdempotency-Key: \"b\"\r\n",
        "Origin: http://evil.test\r\n",
        "Origin: http://localhost\r\n",
        "Host: other\r\n",
        "Content-Length: 1\r\n",
        "Connection: close\r\n",
        "Connection: keep-alive\r\n",
        "Expect: 100-continue\r\n",
        "Authorization: Bearer nonsense\r\n",
        "Cookie: session=x\r\n",
        "X-Forwarded-For: 10.0.0.1\r\n",
        "Bad Field: x\r\n",
        &long,
    ]
    .iter()
    .map(|fields| request(fields, good))
    .collect();
    let bodies = [
        "",
        "{",
        "[]",
        "null",
        r#"["rj",1]"#,
        r#"{"about":"rj"}"#,
        r#"{"data":1}"#,
        r#"{"about":"","data":1}"#,
        r#"{"about":"rj","data":1,"x":1}"#,
        r#"{"about":"rj","data":1,"key":"k"}"#,
        r#"{"about":"rj","data":1,"key":null}"#,
        r#"{"about":"rj","about":"rj","data":1}"#,
        r#"{"about":"a\u0000b","data":1}"#,
        r#"{"about":7,"data":{"a":[1,2.50,null]}}"#,
        r#"{"about":"rj","data":1}{"#,
        &large,
        &too_large,
    ];
    requests.extend(bodies.iter().map(|body| request("", body)));
    let post =
        |line: &str| format!("{line}\r\nHost: localhost\r\nContent-Length: 23\r\n\r\n{good}");
    for line in ["POST /send?x=1 HTTP/1.1", "PUT /send HTTP/1.1", "POST  /send HTTP/1.1"] {
        requests.push(post(line));
    }
    requests.push(post("POST /send HTTP/1.1").replace("localhost", "evil.test"));
    requests.push(post("POST /send HTTP/1.1").replace("Host: localhost\r\n", ""));
    requests.push(
        "POST /send HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
         17\r\n{\"about\":\"rj\",\"data\":1}\r\n0\r\n\r\n"
            .to_owned(),
    );
    for text in &requests {
        let answered = |first: &str| {
            let mut wire = Wire::connect(server.api.address());
            wire.send(first);
            answer(&mut wire).ok();
            wire.send(text);
            // The server asks for the body that comes anyway (RFC 9110, section 10.1.1).
            if text.contains("Expect") {
                assert_eq!(wire.head().status, 100);
            }
            comparable(&answer(&mut wire))
        };
        let stats = "GET /stats HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let (here, there) = (answered(&event("nobody", "x")), answered(stats));
        assert_eq!(here, there, "{}", &text[..text.len().min(300)]);
    }
}

/// An answer without what differs from one to the next.
pub(crate) fn comparable(answer: &Answer) -> (Vec<String>, Value) {
    let is_kept = |line: &&str| !line.starts_with("date:") && !line.starts_with("content-length:");
    let mut head: Vec<String> =
        answer.head.text.lines().filter(is_kept).map(str::to_owned).collect();
    head.sort();
    let mut body: Value =
        serde_json::from_str(&answer.body).unwrap_or_else(|_| Value::String(answer.body.clone()));
    if let Some(id) = body.get_mut("id") {
        *id = Value::Null;
    }
    (head, body)
}

#[test]
fn connection_that_asks_for_something_else_is_served_on() {
    all_at_once(2, ask_between_sends);
}

/// Sends two behind each other, and another behind a question; returns how many of them were
/// accepted in a worker's turn: the last one is not.
fn ask_between_sends() -> u64 {
    let server = Server::start(&[]);
    let mut subscriber = server.listener("rj");
    let mut wire = Wire::connect(server.api.address());
    let other = "GET /connections/rj HTTP/1.1\r\nHost: localhost\r\n\r\n";
    wire.send([&event("rj", "one"), &event("rj", "two"), other, &event("rj", "three")].concat());
    for _ in 0..2 {
        assert_eq!(answer(&mut wire).ok()["delivered"], 1);
    }
    assert_eq!(answer(&mut wire).ok()["connections"], 1);
    assert_eq!(answer(&mut wire).ok()["delivered"], 1);
    for data in ["one", "two", "three"] {
        assert_eq!(subscriber.data(), data);
    }
    at_once(&server)
}

/// It is for the control plane, too: it is walked in slices.
#[test]
fn audience_that_takes_long_is_served_between_others() {
    let server = Server::start(&[]);
    let mut subscriber = server.listener("rj");
    let pairs: Vec<Value> = (0..20_000)
        .map(|n| json!({ "subscriber": format!("fan:{n}"), "subscribee": "star" }))
        .collect();
    server.api.post("/subscriptions/add", &Value::from(pairs)).ok();
    let mut fans: Vec<_> = (0..5).map(|n| server.listener(&format!("fan:{}", n * 4_000))).collect();
    let mut wire = Wire::connect(server.api.address());
    wire.send([event("rj", "four"), event("star", "hello"), event("rj", "five")].concat());
    for delivered in [1, 5, 1] {
        assert_eq!(answer(&mut wire).ok()["delivered"], delivered);
    }
    fans.iter_mut().for_each(|fan| assert_eq!(fan.data(), "hello"));
    for data in ["four", "five"] {
        assert_eq!(subscriber.data(), data);
    }
}

/// A sender that reads no answers is waited for by the control plane, and its answers have a bound:
/// that of the kernel's buffers, since nothing more is read of it.
#[test]
fn sender_that_reads_no_answers_holds_up_nobody() {
    let server = Server::start(&["--workers=1"]);
    let mut subscriber = server.listener("rj");
    let mut deaf = Wire::connect(server.api.address());
    deaf.socket().set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let batch: String = (0..1_000).map(|_| event("nobody", "x")).collect();
    while deaf.try_send(&batch).is_ok() {}
    let before = server.api.stats();
    for n in 0..100 {
        assert_eq!(server.api.send("rj", n), 1);
        assert_eq!(subscriber.data(), n);
    }
    let after = server.api.stats();
    let events = |stats: &Value| stats["events"].as_u64().unwrap();
    assert!(events(&after) >= events(&before) + 100);
    drop(deaf);
    let (status, _) = (server.api.get("/readyz").status(), server.stop("TERM"));
    assert_eq!(status, 200);
}

/// A lane has 256 places where a worker has 8,192 descriptors; who finds none is served as all
/// other requests are. Fewer have one where its worker had no turn, in whose queue some 200 wait,
/// or waited for a disk: then it is tried again, and that is told.
#[test]
fn senders_without_a_place_are_served_too() {
    sys::limits::raise_descriptors().unwrap();
    all_at_once(256, || send_by_more_than_have_places().min(256));
}

/// Sends twice by 300 senders; returns how many of these sends were accepted in a worker's turn.
fn send_by_more_than_have_places() -> u64 {
    let server = Server::start_with_descriptors(32 * 256, &["--workers=1"]);
    let mut subscriber = server.listener("rj");
    let mut wires: Vec<Wire> = (0..300).map(|_| Wire::connect(server.api.address())).collect();
    for round in 0..2 {
        wires.iter_mut().for_each(|wire| wire.send(event("rj", "x")));
        for wire in &mut wires {
            assert_eq!(answer(wire).ok()["delivered"], 1);
            assert_eq!(subscriber.data(), "x", "round {round}");
        }
    }
    let at_once = at_once(&server);
    assert!(at_once <= 2 * 256, "{at_once} of 600");
    // Who goes away leaves its place to the next one.
    drop(wires);
    wait_for("a place is free", || {
        let mut wire = Wire::connect(server.api.address());
        wire.send(event("rj", "x"));
        assert_eq!(answer(&mut wire).ok()["delivered"], 1);
        assert_eq!(subscriber.data(), "x");
        self::at_once(&server) > at_once
    });
    at_once
}

/// A key that is revoked is refused from then on, on a connection that was served in a worker's
/// turn too, and who has none is let in by none of the ways.
#[test]
fn lane_lets_in_whom_the_keys_let_in() {
    let data = tempfile::tempdir().unwrap();
    let make = |scope: &str| new_key(data.path(), &[&format!("--scope={scope}")]);
    let (good, other) = (make("send"), make("read"));
    let server = Server::start_in(data.path(), &[]);
    let body = r#"{"about":"rj","data":1}"#;
    let asked = |wire: &mut Wire, key: &str| {
        wire.send(request(&format!("Authorization: Bearer {key}\r\n"), body));
        answer(wire).status()
    };
    let mut wire = Wire::connect(server.api.address());
    assert_eq!([asked(&mut wire, &good), asked(&mut wire, &good)], [200, 200]);
    for (key, status) in [(other.as_str(), 403), ("nonsense", 401), ("", 401)] {
        let mut wire = Wire::connect(server.api.address());
        assert_eq!(asked(&mut wire, &good), 200);
        assert_eq!(asked(&mut wire, key), status, "{key:?}");
    }
    let mut nobody = Wire::connect(server.api.address());
    nobody.send(request("", body));
    assert_eq!(answer(&mut nobody).status(), 401);
    revoke(data.path(), &good);
    assert_eq!(asked(&mut wire, &good), 401);
}

#[test]
fn end_answers_what_was_asked_and_closes_who_is_silent() {
    let server = Server::start(&[]);
    let mut wires: Vec<Wire> = (0..40).map(|_| Wire::connect(server.api.address())).collect();
    for wire in &mut wires {
        wire.send(event("nobody", "x"));
        answer(wire).ok();
    }
    let half = event("nobody", "half");
    wires[0].send(&half[..half.len() / 2]);
    wait_for("all are known", || server.api.stats()["events"] == 40);
    let finished = server.stop("TERM");
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    for wire in &mut wires {
        assert!(matches!(wire.end(), End::Fin | End::Reset));
    }
}
