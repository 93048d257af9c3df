//! What an event may have beside one subject and its data: a name, a text, several subjects.

use serde_json::{Value, json};

use crate::harness::{Program, Server, Stream, check_problem, encke, get};
use crate::keys;
use crate::upgrade::served::Upgraded;

/// A stream under `path` that goes on behind the event `place`.
fn resume(server: &Server, path: &str, place: &str) -> Stream {
    let ndjson = "Accept: application/x-ndjson";
    let mut wire = server.ask(get(path, &[ndjson, &format!("Last-Event-ID: {place}")]));
    let head = wire.head();
    assert_eq!(head.status, 200, "{}", head.text);
    Stream { wire, head, cursor: None }
}

/// Sends `event`; what it was answered.
fn send(server: &Server, event: &Value) -> Value {
    server.api.post("/send", event).ok()
}

#[test]
fn event_about_several_is_heard_once_by_whoever_hears_several_of_them() {
    let server = Server::start(&[]);
    server.api.subscribe("eve", "room:7");
    server.api.subscribe("eve", "9");
    let mut both = server.listener("room:7?id=9");
    let mut streams = [server.listener("9"), server.listener("eve"), server.listener("room:7")];
    let event =
        json!({"about": ["room:7", 9, "room:7"], "event": "typing", "text": "a\n\"b\"\u{1}"});
    let answer = send(&server, &event);
    assert_eq!(answer["delivered"], 4);
    let expected = json!({
        "id": answer["id"], "about": "room:7", "also": ["9"], "event": "typing",
        "data": "a\n\"b\"\u{1}",
    });
    assert_eq!(both.event(), expected);
    for stream in &mut streams {
        assert_eq!(stream.event(), expected);
    }
    // Each hears it once: the next one is the next.
    assert_eq!(send(&server, &json!({"about": ["9", "room:7"], "data": null}))["delivered"], 4);
    for stream in [&mut both].into_iter().chain(&mut streams) {
        assert_eq!(stream.event()["data"], Value::Null);
    }
    let one = json!({"about": ["9"], "data": 1});
    assert_eq!(send(&server, &one)["delivered"], 3);
    let event = both.event();
    assert_eq!((&event["about"], event.get("also"), event.get("event")), (&json!("9"), None, None));
}

#[test]
fn every_transport_has_the_name() {
    let server = Server::start(&[]);
    let mut sse = server.stream("/stream/7", "text/event-stream");
    let mut classic = server.stream("/test/7", "text/html");
    assert!(classic.chunk().starts_with("Welcome"));
    send(&server, &json!({"about": [7, "x"], "event": "n\"", "text": "<1>"}));
    let block = sse.chunk();
    assert!(!block.contains("event:"), "a page hears it by onmessage: {block}");
    let (_, line) = block.split_once("data: ").expect(&block);
    let event: Value = serde_json::from_str(line).unwrap();
    let parts = (&event["also"], &event["event"], &event["data"]);
    assert_eq!(parts, (&json!(["x"]), &json!("n\""), &json!("<1>")));
    assert_eq!(classic.chunk(), "Recvd msg #1: '&lt;1&gt;'<br/>\n");
}

#[test]
fn event_about_several_is_in_the_history_of_each_and_goes_on_with_an_upgrade() {
    let server = Upgraded::serve(&[]);
    let first = send(&server, &json!({"about": "7", "data": 0}));
    let place = first["id"].as_str().unwrap();
    for n in 1..4 {
        let event = json!({"about": ["room", "7", "9"], "event": "e", "data": n});
        assert_eq!(send(&server, &event)["delivered"], 0);
    }
    let check = || {
        for path in ["/stream/room", "/stream/7", "/stream/9", "/stream/9?id=7&id=room"] {
            let mut stream = resume(&server, path, place);
            for n in 1..4 {
                let event = stream.event();
                let heard = (&event["data"], &event["event"], &event["also"]);
                assert_eq!(heard, (&json!(n), &json!("e"), &json!(["7", "9"])), "{path}");
            }
            assert!(send(&server, &json!({"about": path[8..].split('?').next(), "data": 9}))
                ["delivered"]
                .as_u64()
                .is_some_and(|delivered| delivered >= 1));
            assert_eq!(stream.event()["data"], 9, "{path}: nothing twice");
        }
    };
    check();
    server.upgrade(&[]);
    let mut stream = resume(&server, "/stream/9", place);
    let heard: Vec<Value> = (0..3).map(|_| stream.event()["data"].clone()).collect();
    assert_eq!(heard, [json!(1), json!(2), json!(3)]);
}

#[test]
fn what_an_event_may_not_have_is_refused_and_told() {
    let server = Server::start(&[]);
    let many: Vec<usize> = (0..101).collect();
    for (event, word) in [
        (json!({"about": "7"}), "neither"),
        (json!({"about": "7", "data": 1, "text": "x"}), "both"),
        (json!({"about": [], "data": 1}), "empty"),
        (json!({"about": ["7", "a b"], "data": 1}), "white space"),
        (json!({"about": many, "data": 1}), "100 subjects"),
        (json!({"about": "7", "data": 1, "event": "n".repeat(201)}), "200 bytes"),
        (json!({"about": "7", "data": 1, "event": null}), "null"),
        (json!({"about": "7", "text": 5}), "5"),
    ] {
        let problem = server.api.post("/send", &event).problem(400);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(word), "{event}: {detail}");
        // A line is told alike, and the next one goes on.
        let answer = server.api.post_lines("/send", &format!("{event}\n{event}\n"));
        let lines: Vec<Value> =
            answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{event}");
        check_problem(&lines[1], 400);
        assert_eq!(lines[1]["line"], 2);
    }
    // What control characters grow to counts.
    let text = "\u{1}".repeat(20_000);
    server.api.post("/send", &json!({"about": "7", "text": text})).problem(413);
    assert_eq!(server.api.stats()["events"], 0);
}

#[test]
fn key_must_let_send_about_each_subject_and_a_repeat_must_have_all_parts() {
    let (server, dir) = keys::server(&[]);
    let key = keys::new_key(dir.path(), &["--scope", "send", "--about", "room:*"]);
    let api = server.api.with_key(&key);
    let event = |about: Value| json!({"about": about, "data": 1});
    assert_eq!(api.post("/send", &event(json!(["room:1", "room:2"]))).ok()["delivered"], 0);
    api.post("/send", &event(json!(["room:1", "bob"]))).problem(403);
    let once = |event: &str| api.post_with("/send", "Idempotency-Key: k\r\n", event);
    let first = once(r#"{"about":["room:1","room:2"],"event":"e","text":"1"}"#);
    let again = once(r#"{"event":"e","about":["room:1","room:2"],"text":"1"}"#);
    assert_eq!((again.status(), again.body), (200, first.ok().to_string() + "\n"));
    for other in [
        r#"{"about":["room:1","room:3"],"event":"e","text":"1"}"#,
        r#"{"about":["room:1","room:2"],"event":"f","text":"1"}"#,
        r#"{"about":["room:1","room:2"],"event":"e","data":"1"}"#,
        r#"{"about":"room:1","event":"e","text":"1"}"#,
    ] {
        once(other).problem(422);
    }
}

#[test]
fn command_sends_names_texts_and_several_subjects() {
    let server = Server::start(&[]);
    let mut stream = server.listener("room:7");
    let sent = |args: &[&str]| {
        let mut all = vec!["send", "room:7"];
        all.extend(args);
        all.extend(["--api", server.api_url().leak()]);
        let finished = Program::run(&mut encke(all));
        assert_eq!(finished.code(), Some(0), "{finished:?}");
    };
    sent(&["{\"x\":1}", "--event", "typing", "--also", "9", "--also", "bob"]);
    let event = stream.event();
    let parts = (&event["also"], &event["event"], &event["data"]);
    assert_eq!(parts, (&json!(["9", "bob"]), &json!("typing"), &json!({"x": 1})));
    sent(&["--text", "{\"x\":1}"]);
    assert_eq!(stream.event()["data"], "{\"x\":1}");
}
