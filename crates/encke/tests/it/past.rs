//! The past of an id: read in pages, and heard at the beginning of a stream.

use serde_json::{Value, json};

use crate::harness::{
    Program, Server, Socket, Stream, TOKEN_SECRET, encke, get, read_answer, token_for, wait_for,
};
use crate::upgrade::served::Upgraded;

/// The payloads of events.
fn data(events: &[Value]) -> Vec<Value> {
    events.iter().map(|event| event["data"].clone()).collect()
}

/// Sends so many events about `about`; their ids.
fn send_all(server: &Server, about: &str, numbers: impl Iterator<Item = u64>) -> Vec<String> {
    let send = |n| server.api.post("/send", &json!({ "about": about, "data": n })).ok();
    numbers.map(|n| send(n)["id"].as_str().unwrap().to_owned()).collect()
}

/// The next events of an SSE stream, up to one whose payload is "end", and its other blocks.
fn until_end(stream: &mut Stream) -> (Vec<Value>, Vec<String>) {
    let (mut events, mut others) = (Vec::new(), Vec::new());
    loop {
        for block in stream.chunk().split_terminator("\n\n") {
            match block.split_once("data: ").filter(|_| block.starts_with("id: ")) {
                Some((_, line)) => {
                    let event: Value = serde_json::from_str(line).unwrap();
                    if event["data"] == "end" {
                        return (events, others);
                    }
                    events.push(event["data"].clone());
                }
                None if block == ":\n" || block == ":" => {}
                None => others.push(block.to_owned()),
            }
        }
    }
}

#[test]
fn pages_of_an_id_are_read_from_either_end() {
    let server = Server::start(&[]);
    let ids = send_all(&server, "rj", 0..25);
    send_all(&server, "other", 0..3);
    server.api.post("/send", &json!({ "about": ["other", "rj"], "data": 25 })).ok();
    let page = |query: &str| server.api.get(&format!("/events/rj{query}")).ok();
    let all = page("");
    assert_eq!(
        data(all["events"].as_array().unwrap()),
        (0..26).map(Value::from).collect::<Vec<_>>()
    );
    assert_eq!((&all["next"], all.get("gap")), (&Value::Null, None));
    assert_eq!(all["events"][25]["also"], json!(["rj"]));
    let (mut heard, mut query) = (Vec::new(), "?order=desc&limit=10".to_owned());
    loop {
        let page = page(&query);
        heard.extend(data(page["events"].as_array().unwrap()));
        let Some(next) = page["next"].as_str() else { break };
        query = format!("?order=desc&limit=10&before={next}");
    }
    assert_eq!(heard, (0..26).rev().map(Value::from).collect::<Vec<_>>());
    let some = page(&format!("?after={}&before={}", ids[3], ids[6]));
    assert_eq!(data(some["events"].as_array().unwrap()), [json!(4), json!(5)]);
    assert_eq!(page(&format!("?after={}", ids[0])).get("gap"), None);
    let strange = page("?after=00000000001Ab9Cz");
    assert_eq!(
        (strange["gap"].as_bool(), strange["events"].as_array().map(Vec::len)),
        (Some(true), Some(26))
    );
    assert_eq!(server.api.get("/events/nobody").ok(), json!({ "events": [], "next": null }));
    for bad in ["after=x", "before=earliest", "limit=0", "limit=1001", "order=up"] {
        server.api.get(&format!("/events/rj?{bad}")).problem(400);
    }
}

#[test]
fn forgotten_events_are_a_gap_in_pages_too() {
    let server = Server::start(&["--history-events=3"]);
    let ids = send_all(&server, "7", 0..6);
    let page = |query: &str| server.api.get(&format!("/events/7{query}")).ok();
    assert_eq!(page("").get("gap"), None, "nobody has said what there was");
    assert_eq!(page(&format!("?after={}", ids[1]))["gap"], true);
    assert_eq!(page(&format!("?after={}", ids[2])).get("gap"), None);
    let last = page(&format!("?after={}&order=desc&limit=2", ids[1]));
    assert_eq!(last.get("gap"), None, "there is another page");
    let next = last["next"].as_str().unwrap();
    assert_eq!(page(&format!("?after={}&order=desc&before={next}", ids[1]))["gap"], true);
}

#[test]
fn stream_of_each_transport_begins_with_the_last_events_of_each_id() {
    let server = Server::start(&[]);
    send_all(&server, "a", 0..10);
    send_all(&server, "b", 10..13);
    server.api.subscribe("a", "followed");
    send_all(&server, "followed", 90..95);
    server.api.post("/send", &json!({ "about": ["a", "b"], "data": 13 })).ok();
    let expected = [8, 9, 11, 12, 13].map(Value::from);
    let mut ndjson = server.stream("/stream/a?id=b&last=3", "application/x-ndjson");
    assert_eq!(ndjson.cursor, None, "its first event brings it");
    let mut sse = server.stream("/stream/a?id=b&last=3", "text/event-stream");
    let mut classic = server.stream("/test/a?id=b&last=3", "text/html");
    let mut socket = Socket::open(server.listen(), "/stream/a?id=b&last=3");
    let mut poll = server.ask(get("/poll/a?id=b&last=3", &[]));
    let polled = read_answer(&mut poll, "GET").unwrap();
    assert_eq!(data(polled.ok().as_array().unwrap()), expected);
    assert!(polled.head.field("encke-next").is_some() && polled.head.field("encke-gap").is_none());
    // What is sent now comes behind it, of whom the ids follow as well.
    server.api.send("followed", "live");
    server.api.send("a", "end");
    let heard: Vec<Value> = (0..5).map(|_| ndjson.data()).collect();
    assert_eq!(heard, expected);
    assert_eq!((ndjson.data(), ndjson.data()), (json!("live"), json!("end")));
    let (heard, others) = until_end(&mut sse);
    assert_eq!((heard, others), ([&expected[..], &[json!("live")]].concat(), vec![]));
    let heard: Vec<Value> = (0..7).map(|_| socket.data()).collect();
    assert_eq!(heard, [&expected[..], &[json!("live"), json!("end")]].concat());
    let mut page = String::new();
    while !page.contains("'end'") {
        page += &classic.chunk();
    }
    for (n, number) in [8, 9, 11, 12, 13].iter().enumerate() {
        assert!(page.contains(&format!("Recvd msg #{}: '{number}'", n + 1)), "{page}");
    }
    // None is none, and a place goes before it.
    let mut none = server.listener("a?last=0");
    assert!(none.cursor.is_some());
    let mut back = server.ask(get(
        "/stream/a?last=3",
        &[&format!("Last-Event-ID: {}", polled.head.field("encke-next").unwrap())],
    ));
    back.head();
    server.api.send("a", "later");
    assert_eq!(none.data(), "later");
    let line = String::from_utf8(back.chunk().unwrap()).unwrap();
    assert!(line.contains("live"), "{line}");
    assert_eq!(server.ask(get("/stream/a?last=x", &[])).head().status, 400);
    assert_eq!(server.api.stats()["resume_gaps"], 0);
}

#[test]
fn stream_from_the_earliest_hears_all_that_is_remembered_and_of_no_gap() {
    let server = Server::start(&["--history-events=600"]);
    server.api.subscribe("bob", "rj");
    send_all(&server, "rj", 0..700);
    let ids = send_all(&server, "bob", 700..710);
    let paths = ["bob?after=earliest", "bob?last_event_id=earliest&last=1"];
    let mut streams = paths.map(|path| server.listener(path));
    // What is sent now takes the place of the oldest, which is to have been read.
    for (stream, path) in streams.iter_mut().zip(paths) {
        assert_eq!(stream.cursor, None, "{path}");
        assert_eq!(stream.data(), 100, "{path}");
    }
    assert_eq!(server.api.send("rj", "live"), 2);
    for (stream, path) in streams.iter_mut().zip(paths) {
        for n in 101..710 {
            assert_eq!(stream.data(), n, "{path}");
        }
        assert_eq!(stream.data(), "live", "{path}");
    }
    // In a stream's address both names of the parameter are one.
    let mut back = server.listener(&format!("bob?after={}&last=9", ids[8]));
    assert_eq!((back.data(), back.data()), (json!(709), json!("live")));
    assert_eq!(server.api.stats()["resume_gaps"], 0);
}

/// A client that asks where its stream stands is told behind the past, and not before.
#[test]
fn place_is_told_behind_the_past_in_a_message() {
    let server = Server::start(&[]);
    let ids = send_all(&server, "a", 0..3);
    server.api.subscribe("a", "followed");
    let mut ndjson = server.listener("a?last=2&next=1");
    assert_eq!(ndjson.cursor, None);
    assert_eq!((ndjson.data(), ndjson.data()), (json!(1), json!(2)));
    let begins = ndjson.event();
    assert_eq!(begins["next"], ids[2]);
    assert_eq!(begins["connection"].as_str().unwrap().len(), 16);
    let mut socket = Socket::open(server.listen(), "/stream/nobody?last=2&next=1");
    assert_eq!(socket.json()["next"], ids[2]);
    let fields = ["Accept: text/event-stream", "Cache-Control: no-cache", "Sec-Fetch-Mode: cors"];
    let mut source = server.ask(get("/stream/nobody?last=2", &fields));
    assert!(source.head().field("encke-next").is_none());
    let block = String::from_utf8(source.chunk().unwrap()).unwrap();
    assert!(block.starts_with(&format!("id: {}\nretry: ", ids[2])), "{block}");
}

#[test]
fn last_events_are_those_of_ids_that_a_token_grants() {
    let server = Server::start(&[&format!("--token-key={TOKEN_SECRET}")]);
    send_all(&server, "bob", 0..3);
    let bearer = format!("Authorization: Bearer {}", token_for("bob"));
    let head = |path: &str| server.ask(get(path, &[&bearer])).head().status;
    assert_eq!((head("/stream/rj?last=5"), head("/stream/bob?id=rj&after=earliest")), (403, 403));
    let mut wire = server.ask(get("/stream/bob?last=2", &[&bearer]));
    assert_eq!(wire.head().status, 200);
    let line = String::from_utf8(wire.chunk().unwrap()).unwrap();
    assert!(line.contains("\"data\":1"), "{line}");
}

#[test]
fn past_goes_on_with_an_upgrade() {
    let server = Upgraded::serve(&[]);
    let ids = send_all(&server, "a", 0..30);
    let mut stream = server.listener("a?last=5");
    let heard: Vec<Value> = (0..5).map(|_| stream.data()).collect();
    assert_eq!(heard, (25..30).map(Value::from).collect::<Vec<_>>());
    server.upgrade(&[]);
    assert_eq!(server.api.send("a", "live"), 1);
    assert_eq!(stream.data(), "live", "nothing twice");
    let page = server.api.get(&format!("/events/a?after={}&limit=2", ids[3])).ok();
    assert_eq!(data(page["events"].as_array().unwrap()), [json!(4), json!(5)]);
    let mut again = server.listener("a?last=2");
    assert_eq!((again.data(), again.data()), (json!(29), json!("live")));
}

#[test]
fn commands_print_the_past_and_listen_from_the_last_events_on() {
    let server = Server::start(&[]);
    let ids = send_all(&server, "bob", 0..1_200);
    let events = |options: &[&str]| {
        let finished =
            Program::run(encke(["events", "bob", "--api", &server.api_url()]).args(options));
        assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
        let lines = finished.stdout.lines();
        let events: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        data(&events)
    };
    assert_eq!(events(&[]), (1_000..1_200).map(Value::from).collect::<Vec<_>>());
    assert_eq!(events(&["--order=desc", "--limit=2"]), [json!(1_199), json!(1_198)]);
    let between = ["--after", &ids[1_100], "--before", &ids[1_103]];
    assert_eq!(events(&between), [json!(1_101), json!(1_102)]);
    for transport in ["sse", "websocket", "poll"] {
        let listener = Program::spawn(
            encke(["listen", "bob", "--json", "--last=2", "--count=3", "--url", &server.url()])
                .args(["--transport", transport]),
        );
        let next = || serde_json::from_str::<Value>(&listener.line()).unwrap()["data"].clone();
        assert_eq!((next(), next()), (json!(1_198), json!(1_199)), "{transport}");
        wait_for("it is online", || server.api.connections("bob") == 1);
        server.api.send("bob", "live");
        assert_eq!(next(), "live", "{transport}");
        let page = server.api.get("/events/bob?limit=1&order=desc").ok();
        assert_eq!(page["events"][0]["data"], "live");
        send_all(&server, "bob", 1_198..1_200);
    }
}

#[test]
fn some_ids_are_remembered_by_rules_of_their_own() {
    let serve = ["--history-events=3", "--remember=answer:*=500,1h", "--remember=x=1,1h"];
    let server = Upgraded::serve(&serve);
    let ids = send_all(&server, "answer:7", 0..100);
    send_all(&server, "bob", 0..10);
    send_all(&server, "x", 0..10);
    let events = |id: &str| {
        let page = server.api.get(&format!("/events/{id}?limit=1000")).ok();
        data(page["events"].as_array().unwrap())
    };
    let check = |answers: u64| {
        assert_eq!(events("answer:7"), (100 - answers..100).map(Value::from).collect::<Vec<_>>());
        assert_eq!(events("bob"), [7, 8, 9].map(Value::from));
        assert_eq!(events("x"), [json!(9)]);
    };
    check(100);
    let mut back = server.listener(&format!("answer:7?after={}", ids[0]));
    assert_eq!(back.data(), 1);
    server.upgrade(&[]);
    check(100);
    // What the pattern does not say is told before anything is served.
    for wrong in ["answer:*", "a b=5,1h", "a=0,1h", "a=5,never"] {
        let program = Program::run(&mut encke(["serve", "--remember", wrong]));
        assert_eq!(program.code(), Some(2), "{wrong}: {}", program.stderr);
    }
    let off = ["serve", "--remember=a=5,1h", "--history-bytes=0", "--listen=127.0.0.1:0"];
    let dir = tempfile::tempdir().unwrap();
    let program = Program::run(encke(off).arg("--api=127.0.0.1:0").arg("--data").arg(dir.path()));
    assert_eq!(program.code(), Some(2), "{}", program.stderr);
}
