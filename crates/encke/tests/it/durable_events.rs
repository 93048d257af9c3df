//! Durable streams whose appends are events: who follows their id hears them on whatever transport,
//! with one resume for all, also after `kill -9` and through an upgrade.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::harness::{
    Answer, Api, Server, Socket, Stream, TOKEN_SECRET, encke, get, in_seconds, read_answer, signed,
    token_for, wait_for,
};
use crate::upgrade::Upgraded;

const EVENTS: &str = "--streams-events=run:*";

fn put(api: &Api, path: &str, content_type: &str, body: &str) -> Answer {
    let path = format!("/v1/stream/{path}");
    api.request("PUT", &path, Some(content_type), body.as_bytes()).unwrap()
}

fn append(api: &Api, path: &str, fields: &str, body: &str) -> Answer {
    let fields = format!("Content-Type: text/plain\r\n{fields}");
    api.post_with(&format!("/v1/stream/{path}"), &fields, body)
}

fn create(api: &Api, path: &str) {
    assert_eq!(put(api, path, "text/plain", "").status(), 201);
}

fn say(api: &Api, path: &str, text: &str) {
    assert_eq!(append(api, path, "", text).status(), 204);
}

fn next(answer: &Answer) -> String {
    answer.head.field("stream-next-offset").unwrap().to_owned()
}

/// `NAME ABOUT TEXT` of an event about a stream of text.
fn line(event: &Value) -> String {
    let text = event["data"]["text"].as_str().unwrap_or_default();
    let part = |name: &str| event[name].as_str().unwrap_or("?").to_owned();
    format!("{} {} {text}", part("event"), part("about"))
}

#[test]
fn follower_of_a_stream_hears_its_appends_and_its_end_on_each_transport() {
    let server = Server::start(&["--streams", EVENTS]);
    let api = &server.api;
    api.subscribe("bob", "run:7");
    let created = put(api, "run:7", "text/plain", "");
    assert_eq!(created.head.field("encke-id"), Some("run:7"));
    let mut own = server.listener("run:7");
    let mut ndjson = server.listener("bob");
    let mut socket = Socket::open(server.listen(), "/stream/bob");
    let mut sse = server.stream("/stream/bob", "text/event-stream");
    let mut classic = server.stream("/test/bob", "text/html");
    let mut poll = server.ask(get("/poll/bob", &[]));
    server.wait_online("bob", 5);
    let first = append(api, "run:7", "", "Hello ");
    assert_eq!((first.status(), first.head.field("encke-id")), (204, Some("run:7")));
    let last = append(api, "run:7", "Stream-Closed: true\r\n", "world");
    let data = |text: &str, from: &Answer, to: &Answer| {
        let [from, to] = [from, to].map(next);
        json!({ "next": to, "from": from, "text": text })
    };
    let expected = [data("Hello ", &created, &first), data("world", &first, &last)];
    for heard in [[own.event(), own.event()], [ndjson.event(), ndjson.event()]] {
        assert_eq!(
            [line(&heard[0]), line(&heard[1])],
            ["append run:7 Hello ", "close run:7 world"]
        );
        assert_eq!([&heard[0]["data"], &heard[1]["data"]], [&expected[0], &expected[1]]);
    }
    assert_eq!([socket.data(), socket.data()], expected);
    let polled = read_answer(&mut poll, "GET").unwrap().ok();
    assert_eq!(polled[0]["data"], expected[0]);
    for stream in [&mut sse, &mut classic] {
        let mut heard = String::new();
        while !heard.contains("world") {
            heard += &stream.chunk();
        }
        assert!(heard.contains("Hello "), "{heard}");
    }
    // What is read from there on is what was not heard.
    let rest = api.get(&format!("/v1/stream/run:7?offset={}", next(&first)));
    assert_eq!((&*rest.body, rest.head.field("encke-id")), ("world", Some("run:7")));
    assert_eq!(api.stats()["events"], 2);
}

#[test]
fn append_that_is_refused_or_repeated_is_no_event_and_other_streams_are_none() {
    let server = Server::start(&["--streams", EVENTS]);
    let api = &server.api;
    let mut heard = server.listener("run:7");
    for path in ["run/7", "other", &format!("run:{}", "x".repeat(255))] {
        let created = put(api, path, "text/plain", "silent");
        assert_eq!((created.status(), created.head.field("encke-id")), (201, None), "{path}");
        say(api, path, "silent");
    }
    // What it has at first is an event, too; that it is there is none.
    assert_eq!(put(api, "run:7", "text/plain", "first").status(), 201);
    assert_eq!(put(api, "run:7", "text/plain", "again").status(), 200);
    let producer = "Producer-Id: w\r\nProducer-Epoch: 0\r\nProducer-Seq: 0\r\n";
    assert_eq!(append(api, "run:7", producer, "once").status(), 200);
    assert_eq!(append(api, "run:7", producer, "once").status(), 204);
    let gap = producer.replace("Seq: 0", "Seq: 2");
    assert_eq!(append(api, "run:7", &gap, "gap").status(), 409);
    for status in [204, 204, 409] {
        let text = if status == 409 { "more" } else { "" };
        let fields = if status == 409 { "" } else { "Stream-Closed: true\r\n" };
        assert_eq!(append(api, "run:7", fields, text).status(), status);
    }
    api.send("run:7", "last");
    let lines = ["append run:7 first", "append run:7 once", "close run:7 "];
    lines.iter().for_each(|expected| assert_eq!(line(&heard.event()), *expected));
    assert_eq!(heard.data(), "last");
    // An id that a field cannot hold as it is.
    let created = put(api, "run:%C3%A4%25", "text/plain", "");
    assert_eq!(created.head.field("encke-id"), Some("run:%C3%A4%25"));
    assert_eq!(put(api, "run:7", "text/plain", "").status(), 409);
    let missing = api.get("/v1/stream/run:8");
    assert_eq!((missing.status(), missing.head.field("encke-id")), (404, None));
}

#[test]
fn bytes_and_messages_are_told_as_readers_of_events_are_and_long_ones_by_their_length() {
    let server = Server::start(&["--streams", EVENTS, "--max-backlog=4096"]);
    let mut heard = server.listener("run:7");
    for (content_type, body, expected) in [
        ("application/json", "[{\"a\":1},\n[2]]", json!({ "messages": [{ "a": 1 }, [2]] })),
        ("application/octet-stream", "\u{1}\u{2}", json!({ "base64": "AQI=" })),
        ("text/plain", &"x".repeat(4_000), json!({ "bytes": 4_000 })),
    ] {
        assert_eq!(put(&server.api, "run:7", content_type, body).status(), 201);
        let mut data = heard.data();
        let offsets = data.as_object_mut().unwrap();
        assert!(offsets.remove("from").is_some() && offsets.remove("next").is_some());
        assert_eq!(data, expected);
        server.api.request("DELETE", "/v1/stream/run:7", None, b"").unwrap();
    }
}

#[test]
fn one_place_resumes_all_runs() {
    let server = Server::start(&["--streams", EVENTS]);
    let api = &server.api;
    let runs = ["run:1", "run:2", "run:3"];
    for run in runs {
        api.subscribe("bob", run);
        create(api, run);
    }
    let mut before = server.listener("bob");
    say(api, "run:1", "0");
    let place = before.event()["id"].as_str().unwrap().to_owned();
    drop(before);
    (1..30).for_each(|n| say(api, runs[n % 3], &n.to_string()));
    let mut after = server.listener(&format!("bob?after={place}"));
    for n in 1..30 {
        assert_eq!(line(&after.event()), format!("append {} {n}", runs[n % 3]));
    }
    assert_eq!(api.stats()["resume_gaps"], 0);
}

#[test]
fn who_hears_an_append_is_decided_by_the_rules_of_ids() {
    let key = format!("--token-key={TOKEN_SECRET}");
    let server = Server::start(&["--streams", EVENTS, &key, "--client-send-rate=0"]);
    let api = &server.api;
    api.subscribe("bob", "run:1");
    create(api, "run:1");
    let open = |id: &str, token: &str| {
        server.ask(get(&format!("/stream/{id}?token={token}"), &[])).head().status
    };
    let bob = token_for("bob");
    assert_eq!((open("run:1", &bob), open("run:1", "x")), (403, 401));
    let path = format!("/stream/bob?token={bob}");
    let mut heard = server.stream(&path, "application/x-ndjson");
    // A client that may append is heard as the API is.
    let encke = json!({ "write": ["run:*"] });
    let writer = signed(&json!({ "sub": "eve", "exp": in_seconds(600), "encke": encke }));
    let request = format!(
        "POST /v1/stream/run:1?token={writer} HTTP/1.1\r\nHost: localhost\r\nContent-Type: \
         text/plain\r\nContent-Length: 2\r\n\r\nhi"
    );
    let answer = read_answer(&mut server.ask(request), "POST").unwrap();
    assert_eq!((answer.status(), answer.head.field("encke-id")), (204, Some("run:1")));
    assert_eq!(line(&heard.event()), "append run:1 hi");
}

#[test]
fn option_needs_streams_and_no_cluster_and_patterns_of_ids() {
    let refused = |options: &[&str]| {
        let serve = ["serve", "--api=127.0.0.1:0", "--listen=127.0.0.1:0"];
        let finished = crate::harness::Program::run(&mut encke([&serve, options].concat()));
        assert_eq!(finished.code(), Some(2), "{options:?}: {}", finished.stderr);
        finished.stderr
    };
    assert!(refused(&[EVENTS]).contains("--streams"));
    let slash = refused(&["--streams", "--streams-events=run/*"]);
    assert!(slash.contains("must not contain '/'"), "{slash}");
}

/// What a client has heard of its runs, over however many connections.
struct Follower {
    place: String,
    heard: Vec<Value>,
}

impl Follower {
    fn open(&self, server: &Server) -> Stream {
        server.listener(&format!("bob?after={}", self.place))
    }

    /// Hears on until the text of all runs is `expected` bytes long.
    fn hear(&mut self, server: &Server, expected: usize) {
        let mut stream = self.open(server);
        while self.heard.iter().map(|event| line_text(event).len()).sum::<usize>() < expected {
            let event = stream.event();
            assert_eq!(event["gap"], Value::Null, "{event}");
            self.place = event["id"].as_str().unwrap().to_owned();
            self.heard.push(event);
        }
    }

    /// The text of one run, of which each piece begins where the one before ended.
    fn text(&self, run: &str) -> String {
        let mut all = String::new();
        let mut end = None;
        for event in self.heard.iter().filter(|event| event["about"] == run) {
            let data = &event["data"];
            assert!(end.is_none_or(|end| end == &data["from"]), "{run}: twice, or not: {data}");
            end = Some(&data["next"]);
            all += line_text(event);
        }
        all
    }
}

fn line_text(event: &Value) -> &str {
    event["data"]["text"].as_str().unwrap_or_default()
}

fn whole(api: &Api, path: &str) -> String {
    api.get(&format!("/v1/stream/{path}")).body
}

/// All is kept, so that a restart is no gap for whoever follows.
const KEPT: [&str; 3] = ["--streams", EVENTS, "--keep=*=7d"];

/// An event of before all runs.
fn first_place(server: &Server) -> String {
    let event = json!({ "about": "mark", "data": 0, "durable": true });
    server.api.post("/send", &event).ok()["id"].as_str().unwrap().to_owned()
}

fn producer(sequence: usize) -> String {
    format!("Producer-Id: w\r\nProducer-Epoch: 0\r\nProducer-Seq: {sequence}\r\n")
}

/// Of a usual run; `ENCKE_KILLS` says how many others.
const KILLS: usize = 8;

/// Writers repeat what was not answered when the server was killed, as backends do.
#[test]
fn append_is_heard_once_and_in_order_over_kills() {
    let data = tempfile::tempdir().unwrap();
    let runs = ["run:1", "run:2", "run:3"];
    let kills = std::env::var("ENCKE_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let taken = Mutex::new([0; 3]);
    let mut bob = None;
    for life in 0..=kills {
        let server = Server::start_in(data.path(), &KEPT);
        if life == 0 {
            for run in runs {
                server.api.subscribe("bob", run);
                create(&server.api, run);
            }
            bob = Some(Follower { place: first_place(&server), heard: Vec::new() });
        }
        let before = *taken.lock().unwrap();
        let apis: Vec<Api> = runs.iter().map(|_| server.api.another()).collect();
        thread::scope(|scope| {
            for (nth, api) in apis.into_iter().enumerate() {
                let (taken, run) = (&taken, runs[nth]);
                scope.spawn(move || write(&api, run, nth, taken));
            }
            let are_some = || {
                let now = taken.lock().unwrap();
                now.iter().zip(&before).all(|(now, before)| now - before > 10 + 3 * life)
            };
            wait_for("appends", are_some);
            server.stop("KILL");
        });
        if life % 3 == 2 {
            // A reader that comes back meanwhile; what no writer repeats is sent by itself.
            let server = Server::start_in(data.path(), &KEPT);
            let expected = runs.iter().map(|run| whole(&server.api, run).len()).sum();
            bob.as_mut().unwrap().hear(&server, expected);
            server.stop("KILL");
        }
    }
    let server = Server::start_in(data.path(), &KEPT);
    let mut bob = bob.unwrap();
    let texts = runs.map(|run| whole(&server.api, run));
    bob.hear(&server, texts.iter().map(String::len).sum());
    for (nth, run) in runs.into_iter().enumerate() {
        assert_eq!(bob.text(run), texts[nth], "{run}");
        let acknowledged = taken.lock().unwrap()[nth];
        let all: String = (0..acknowledged).map(|n| format!("{n},")).collect();
        assert!(texts[nth].starts_with(&all), "{run}: {acknowledged}");
    }
    assert_eq!(server.api.stats()["resume_gaps"], 0);
    println!("{} appends heard over {kills} kills", bob.heard.len());
}

/// Appends numbers to a run, from the first that was not acknowledged on, until the server is gone.
fn write(api: &Api, run: &str, nth: usize, taken: &Mutex<[usize; 3]>) {
    loop {
        let number = taken.lock().unwrap()[nth];
        let path = format!("/v1/stream/{run}");
        let fields = format!("Content-Type: text/plain\r\n{}", producer(number));
        let api = api.with(&fields.split("\r\n").filter(|f| !f.is_empty()).collect::<Vec<_>>());
        let body = format!("{number},");
        let Ok(answer) = api.request("POST", &path, None, body.as_bytes()) else { return };
        assert!(matches!(answer.status(), 200 | 204), "{answer:?}");
        taken.lock().unwrap()[nth] += 1;
    }
}

#[test]
fn append_is_heard_once_and_in_order_through_upgrades() {
    let remembered = ["--streams", EVENTS, "--remember=run:*=1000000,1h"];
    for options in [&KEPT[..], &remembered] {
        let server = Upgraded::serve(options);
        server.api.subscribe("bob", "run:1");
        create(&server.api, "run:1");
        let event = json!({ "about": "mark", "data": 0 });
        let place = server.api.post("/send", &event).ok()["id"].as_str().unwrap().to_owned();
        let mut bob = Follower { place, heard: Vec::new() };
        let mut open = bob.open(&server);
        let is_over = AtomicBool::new(false);
        let (written, heard) = thread::scope(|scope| {
            let (api, is_over) = (server.api.another(), &is_over);
            let writer = scope.spawn(move || {
                let mut written = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let answer = append(&api, "run:1", &producer(written), &format!("{written},"));
                    assert_eq!(answer.status(), 200, "{answer:?}");
                    written += 1;
                }
                let fields = format!("{}Stream-Closed: true\r\n", producer(written));
                assert_eq!(append(&api, "run:1", &fields, "").status(), 204);
                written
            });
            let listener = scope.spawn(move || {
                let mut heard = Vec::new();
                while heard.last().is_none_or(|line: &String| !line.starts_with("close")) {
                    heard.push(line(&open.event()));
                }
                heard
            });
            server.upgrade(&[]);
            server.upgrade(&[]);
            is_over.store(true, Ordering::Relaxed);
            (writer.join().unwrap(), listener.join().unwrap())
        });
        let expected = (0..written).map(|n| format!("append run:1 {n},"));
        assert_eq!(heard, Vec::from_iter(expected.chain(["close run:1 ".to_owned()])));
        let text = whole(&server.api.another(), "run:1");
        bob.hear(&server, text.len());
        assert_eq!((bob.text("run:1"), bob.heard.len()), (text, written));
        assert_eq!(server.api.another().stats()["resume_gaps"], 0);
    }
}
