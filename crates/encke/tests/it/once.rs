//! Sends with an idempotency key: posted once, answered the same, whoever asks again and when.

use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};

use crate::harness::{Answer, Api, Server, Wire, check_problem};
use crate::keys;

const EVENT: &str = r#"{"about":"rj","data":{"photo":789}}"#;

/// Sends `body` with `field` as its `Idempotency-Key`.
fn send(api: &Api, field: &str, body: &str) -> Answer {
    api.post_with("/send", &format!("Idempotency-Key: {field}\r\n"), body)
}

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status(), 200);
    answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn repeat_is_answered_the_same_and_not_heard_again() {
    let server = Server::start(&[]);
    let mut listener = server.listener("rj");
    let first = send(&server.api, "\"a b\"", EVENT);
    assert_eq!(first.ok()["delivered"], 1);
    let event = listener.event();
    assert_eq!(event["id"], first.json()["id"]);
    let again = [
        send(&server.api, "\"a b\"", EVENT),
        // The same text in the body, beside other spaces and members in another order.
        server.api.post_with("/send", "", r#"{"key":"a b", "data": {"photo":789},"about":"rj"}"#),
        send(&server.api, "\"a b\"", r#"{"about":"rj","data":{"photo":789},"key":"a b"}"#),
        send(&server.api.another(), "\"a b\"", EVENT),
    ];
    for again in again {
        assert_eq!((again.status(), &again.body), (200, &first.body));
    }
    // It is answered what was true of the first, though more listen now.
    let _other = server.listener("rj");
    assert_eq!(send(&server.api, "\"a b\"", EVENT).body, first.body);
    // Another key, and none at all, are other events.
    assert_eq!(send(&server.api, "b", EVENT).ok()["delivered"], 2);
    assert_eq!(send(&server.api, "\"b\"", EVENT).ok()["delivered"], 2);
    assert_eq!(server.api.post_with("/send", "", EVENT).ok()["delivered"], 2);
    assert_eq!(server.api.send("rj", "last"), 2);
    let heard: Vec<_> = (0..3).map(|_| listener.data()).collect();
    assert_eq!(heard, [json!({"photo":789}), json!({"photo":789}), json!("last")]);
    let stats = server.api.stats();
    let figures = ["events", "idempotency_keys", "idempotency_repeats", "idempotency_refused"];
    assert_eq!(figures.map(|name| stats[name].as_u64().unwrap()), [4, 2, 6, 0]);
    assert!(stats["idempotency_bytes"].as_u64().unwrap() > 2 * 64, "{stats}");
    let metrics = server.api.get("/metrics").body;
    for line in ["encke_idempotency_keys 2\n", "encke_idempotency_repeats_total 6\n"] {
        assert!(metrics.contains(line), "{line}");
    }
}

#[test]
fn many_who_send_the_same_at_the_same_moment_are_heard_once() {
    const SENDERS: usize = 32;
    const ROUNDS: usize = 50;
    let server = Server::start(&["--workers=2"]);
    let mut listener = server.listener("rj");
    let crowd: Vec<_> = (0..200).map(|_| server.listener("rj")).collect();
    let barrier = Barrier::new(SENDERS);
    let answers: Vec<Vec<String>> = thread::scope(|scope| {
        let senders = (0..SENDERS).map(|sender| {
            let (api, barrier) = (server.api.another(), &barrier);
            scope.spawn(move || {
                let round = |round: usize| {
                    let body = format!("{{\"about\":\"rj\",\"data\":{round}}}");
                    barrier.wait();
                    if sender % 4 > 0 {
                        let answer = send(&api, &format!("round-{round}"), &body).body;
                        return answer.trim_end().to_owned();
                    }
                    let line = body.replace('}', &format!(",\"key\":\"round-{round}\"}}\n"));
                    api.post_lines("/send", &line).body.trim_end().to_owned()
                };
                (0..ROUNDS).map(round).collect()
            })
        });
        let senders: Vec<_> = senders.collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    server.api.send("rj", "last");
    for round in 0..ROUNDS {
        let event = listener.event();
        let answer: Value = serde_json::from_str(&answers[0][round]).unwrap();
        assert_eq!(answer, json!({ "delivered": 201, "id": event["id"] }));
        assert_eq!(event["data"], round);
        for heard in &answers {
            assert_eq!(heard[round], answers[0][round]);
        }
    }
    assert_eq!(listener.data(), "last");
    assert_eq!(server.api.stats()["events"], ROUNDS + 1);
    drop(crowd);
}

#[test]
fn lines_of_a_stream_have_keys_of_their_own() {
    let server = Server::start(&[]);
    let mut listener = server.listener("1");
    let earlier = send(&server.api, "c", r#"{"about":1,"data":"c"}"#).ok();
    let body = [
        r#"{"about":1,"data":"a","key":"a"}"#,
        r#"{"about":1,"data":"b"}"#,
        r#"{"about":1,"data":"a","key":"a"}"#,
        r#"{"about":1,"data":"other","key":"a"}"#,
        r#"{"about":1,"data":"c","key":"c"}"#,
        r#"{"about":1,"data":"no key","key":null}"#,
        r#"{"about":1,"data":"no key","key":""}"#,
        r#"{"about":1,"data":"d","key":"d"}"#,
    ];
    let answers = lines(&server.api.post_lines("/send", &body.join("\n")));
    assert_eq!(answers.len(), body.len());
    assert_eq!(answers[0], answers[2]);
    assert_eq!(answers[4], earlier);
    for (line, status) in [(4, 422), (6, 400), (7, 400)] {
        check_problem(&answers[line - 1], status);
        assert_eq!(answers[line - 1]["line"], line);
    }
    assert_eq!(listener.event()["id"], earlier["id"]);
    for (line, data) in [(0, "a"), (1, "b"), (7, "d")] {
        let event = listener.event();
        assert_eq!((&event["data"], &event["id"]), (&json!(data), &answers[line]["id"]));
    }
    // The whole stream again: but for what has no key, nothing is heard.
    let again = lines(&server.api.post_lines("/send", &body.join("\n")));
    for (line, (first, again)) in answers.iter().zip(&again).enumerate() {
        assert_eq!(first == again, line != 1, "line {line}");
    }
    assert_eq!(server.api.send("1", "last"), 1);
    assert_eq!((listener.data(), listener.data()), (json!("b"), json!("last")));
}

#[test]
fn long_stream_with_keys_is_answered_in_order_and_again() {
    const EVENTS: usize = 20_000;
    let server = Server::start(&["--max-backlog=64MiB"]);
    let mut listener = server.listener("1");
    let body: String =
        (0..EVENTS).map(|n| format!("{{\"about\":1,\"data\":{n},\"key\":\"k{n}\"}}\n")).collect();
    let first = server.api.post_lines("/send", &body).body;
    assert_eq!(server.api.post_lines("/send", &body).body, first);
    for (n, line) in first.lines().enumerate() {
        let event = listener.event();
        let answer: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&event["data"], &event["id"]), (&json!(n), &answer["id"]));
    }
    assert_eq!(server.api.stats()["events"], EVENTS);
}

#[test]
fn key_with_another_event_is_refused_and_changes_nothing() {
    let server = Server::start(&[]);
    let first = send(&server.api, "a", EVENT);
    for other in [
        r#"{"about":"rj","data":{"photo":790}}"#,
        r#"{"about":"bob","data":{"photo":789}}"#,
        r#"{"about":"rj","data":{"photo": 789}}"#,
        // It would be told that it is on disk.
        r#"{"about":"rj","data":{"photo":789},"durable":true}"#,
    ] {
        let problem = send(&server.api, "a", other).problem(422);
        assert!(problem["detail"].as_str().unwrap().contains("key"), "{problem}");
    }
    assert_eq!(send(&server.api, "a", EVENT).body, first.body);
    assert_eq!(server.api.stats()["events"], 1);
}

#[test]
fn senders_with_keys_of_the_api_do_not_meet_in_their_idempotency_keys() {
    let (server, data) = keys::server(&[]);
    let [one, other, reader] = ["send", "send", "read"]
        .map(|scope| server.api.with_key(&keys::new_key(data.path(), &["--scope", scope])));
    let mut listener = server.listener("rj");
    let body = |sender: &str| json!({ "about": "rj", "data": sender }).to_string();
    let first = send(&one, "a", &body("one")).ok();
    let others = send(&other, "a", &body("other")).ok();
    assert_eq!((listener.data(), listener.data()), (json!("one"), json!("other")));
    // Each is answered its own, in whichever form it says the key.
    assert_eq!(send(&one.another(), "a", &body("one")).ok(), first);
    let line = r#"{"about":"rj","data":"other","key":"a"}"#;
    assert_eq!(lines(&other.post_lines("/send", line)), [others]);
    send(&other, "a", &body("one")).problem(422);
    // The same of both is two events, too.
    let [of_one, of_other] = [&one, &other].map(|api| send(api, "b", EVENT).ok());
    assert_ne!(of_one["id"], of_other["id"]);
    assert_eq!(send(&one, "b", EVENT).ok(), of_one);
    let stats = reader.stats();
    let figures = ["events", "idempotency_keys", "idempotency_repeats"];
    assert_eq!(figures.map(|name| stats[name].as_u64().unwrap()), [4, 4, 3]);
}

#[test]
fn refused_send_is_not_remembered() {
    let server = Server::start(&[]);
    let long = json!({ "about": 1, "data": "x".repeat(100_000) }).to_string();
    for (key, bad, status) in [
        ("id", r#"{"about":"a b","data":1}"#, 400),
        ("json", r#"{"about":1,"data":1"#, 400),
        ("size", &long, 413),
    ] {
        send(&server.api, key, bad).problem(status);
        send(&server.api, key, bad).problem(status);
        assert_eq!(send(&server.api, key, EVENT).ok()["delivered"], 0);
    }
    assert_eq!(server.api.stats()["idempotency_keys"], 3);
}

#[test]
fn keys_of_another_form_are_refused() {
    let server = Server::start(&[]);
    let long = "x".repeat(256);
    for field in ["", "\"\"", "\"a", "a, b", "a;b=1", "\"a\";b=1", "a\r\nIdempotency-Key: a", &long]
    {
        send(&server.api, field, EVENT).problem(400);
    }
    for member in [json!(1), json!(null), json!(""), json!(["a"]), json!(long)] {
        let body = json!({ "about": "rj", "data": 1, "key": member });
        server.api.post("/send", &body).problem(400);
    }
    let two = send(&server.api, "a", r#"{"about":"rj","data":1,"key":"b"}"#).problem(400);
    assert!(two["detail"].as_str().unwrap().contains("differ"), "{two}");
    let fields = "Content-Type: application/x-ndjson\r\nIdempotency-Key: a\r\n";
    let stream = server.api.post_with("/send", fields, EVENT).problem(400);
    assert!(stream["detail"].as_str().unwrap().contains("line"), "{stream}");
    assert_eq!(server.api.stats()["events"], 0);
    let longest = "é".repeat(127) + "x";
    let body = json!({ "about": "rj", "data": 1, "key": longest });
    assert_eq!(server.api.post("/send", &body).ok(), server.api.post("/send", &body).ok());
    assert_eq!(server.api.stats()["events"], 1);
}

#[test]
fn client_that_hangs_up_and_repeats_hears_the_first_answer() {
    let server = Server::start(&["--max-backlog=1MiB"]);
    let mut listener = server.listener("rj");
    let crowd: Vec<_> = (0..100).map(|_| server.listener("rj")).collect();
    let whole = |key: &str, body: &str| {
        format!(
            "POST /send HTTP/1.1\r\nHost: x\r\nIdempotency-Key: {key}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    for n in 0..200 {
        let (key, body) = (format!("k{n}"), format!("{{\"about\":\"rj\",\"data\":{n}}}"));
        let mut wire = Wire::connect(server.api.address());
        wire.send(whole(&key, &body));
        match n % 3 {
            0 => wire.reset(),
            1 => drop(wire),
            // It stays, and reads nothing.
            _ => std::mem::forget(wire),
        }
        let answer = send(&server.api, &key, &body).ok();
        let event = listener.event();
        assert_eq!((&event["data"], &event["id"]), (&json!(n), &answer["id"]));
        assert_eq!(answer["delivered"], 101);
    }
    // One that hangs up before it has said all has sent nothing.
    let request = whole("half", EVENT);
    let mut wire = Wire::connect(server.api.address());
    wire.send(&request[..request.len() - 1]);
    wire.reset();
    assert_eq!(send(&server.api, "half", r#"{"about":"rj","data":"all"}"#).ok()["delivered"], 101);
    assert_eq!(listener.data(), "all");
    drop(crowd);
}

/// Of a stream whose client reads no answers, and does not go away either.
#[test]
fn repeat_is_answered_though_the_first_client_reads_nothing() {
    let server = Server::start(&[]);
    let mut listener = server.listener("1");
    let mut wire = Wire::connect(server.api.address());
    wire.send(
        "POST /send HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
    );
    let line = "{\"about\":1,\"data\":1,\"key\":\"a\"}\n";
    wire.send(format!("{:x}\r\n{line}\r\n", line.len()));
    let event = listener.event();
    let repeat = send(&server.api, "a", r#"{"about":1,"data":1}"#).ok();
    assert_eq!(repeat, json!({ "delivered": 1, "id": event["id"] }));
    drop(wire);
}

#[test]
fn nothing_is_remembered_after_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_in(data.path(), &[]);
    let first = send(&server.api, "a", EVENT).ok();
    assert_eq!(server.stop("TERM").code(), Some(0));
    let server = Server::start_in(data.path(), &[]);
    assert_eq!(server.api.stats()["idempotency_keys"], 0);
    assert_ne!(send(&server.api, "a", EVENT).ok(), first);
}
