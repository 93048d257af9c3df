//! Clients that come back: what they missed, once and in its order, or the word that it is gone.

use serde_json::{Value, json};

use crate::harness::{Program, Server, Stream, encke, get, wait_for};

const SSE: &str = "Accept: text/event-stream";
/// The fields of a browser's `EventSource`.
const EVENT_SOURCE: [&str; 3] = [SSE, "Cache-Control: no-cache", "Sec-Fetch-Mode: cors"];

/// A stream that goes on where `cursor` says; nothing of its body is read.
fn resume(server: &Server, path: &str, accept: &str, cursor: &str) -> Stream {
    let mut wire = server.ask(get(path, &[accept, &format!("Last-Event-ID: {cursor}")]));
    let head = wire.head();
    assert_eq!(head.status, 200, "{}", head.text);
    Stream { wire, head, cursor: None }
}

/// The id line and the payload of the next event of an SSE stream.
fn event(stream: &mut Stream) -> (String, Value) {
    let block = stream.chunk();
    let (id, data) = block.split_once("\ndata: ").expect(&block);
    let event: Value = serde_json::from_str(data).unwrap();
    assert_eq!(id, format!("id: {}", event["id"].as_str().unwrap()));
    (id["id: ".len()..].to_owned(), event["data"].clone())
}

#[test]
fn killed_client_resumes_where_it_was() {
    let server = Server::start(&[]);
    let mut stream = server.stream("/stream/bob", "text/event-stream");
    for n in 0..3 {
        server.api.send("bob", n);
    }
    let heard: Vec<(String, Value)> = (0..3).map(|_| event(&mut stream)).collect();
    stream.wire.reset();
    server.wait_online("bob", 0);
    for n in 3..6 {
        assert_eq!(server.api.send("bob", n), 0, "nobody is there");
    }
    // As if the last event it read was the second.
    let mut stream = resume(&server, "/stream/bob", SSE, &heard[1].0);
    assert_eq!(event(&mut stream), heard[2]);
    for n in 3..6 {
        assert_eq!(event(&mut stream).1, n);
    }
    assert_eq!(server.api.send("bob", "live"), 1);
    assert_eq!(event(&mut stream).1, "live");
    let stats = server.api.stats();
    assert_eq!((&stats["resumes"], &stats["resume_gaps"]), (&json!(1), &json!(0)));
}

#[test]
fn client_that_heard_nothing_resumes_where_its_stream_began() {
    let server = Server::start(&[]);
    let stream = server.stream("/stream/7", "text/event-stream");
    let cursor = stream.cursor.clone().unwrap();
    stream.wire.reset();
    server.wait_online("7", 0);
    server.api.send("7", "missed");
    let mut stream = resume(&server, "/stream/7", SSE, &cursor);
    assert_eq!(event(&mut stream).1, "missed");
    // Nothing was missed: the stream says where it stands, and no more.
    let path = format!("/stream/7?last_event_id={cursor}");
    let mut other = server.ask(get(&path, &[SSE]));
    other.head();
    let block = String::from_utf8(other.chunk().unwrap()).unwrap();
    assert!(block.contains("missed"), "{block}");
    // Nobody but an `EventSource` is told of it by a block without an event.
    let mut third = resume(&server, "/stream/8", SSE, &cursor);
    assert_eq!(third.head.field("encke-next"), Some(&*cursor));
    let mut source = server.ask(get("/stream/8", &EVENT_SOURCE));
    source.head();
    let path = format!("/stream/8?last_event_id={cursor}");
    let mut again = server.ask(get(&path, &EVENT_SOURCE));
    again.head();
    for (wire, end) in [(&mut source, "\n\n"), (&mut again, "\n\n")] {
        let block = String::from_utf8(wire.chunk().unwrap()).unwrap();
        assert!(block.starts_with("id: ") && block.ends_with(end), "{block:?}");
        assert_eq!(block.find(end), Some(block.len() - 2), "{block:?}");
    }
    assert_eq!(server.api.send("8", "live"), 3);
    assert_eq!(event(&mut third).1, "live");
}

/// What a client is told that comes back to `server` after `missed` events of 1 KiB.
fn told(server: &Server, missed: usize) -> String {
    let stream = server.stream("/stream/bob", "text/event-stream");
    let cursor = stream.cursor.clone().unwrap();
    stream.wire.reset();
    server.wait_online("bob", 0);
    for _ in 0..missed {
        server.api.send("bob", "x".repeat(1024));
    }
    resume(server, "/stream/bob", SSE, &cursor).chunk()
}

const GAP: &str = "event: gap\ndata: {}\n\n";

/// Whether the stream tells of a gap, and where it stands behind it.
fn is_gap_with_place(block: &str) -> bool {
    let id = block.strip_prefix("event: gap\nid: ");
    id.and_then(|rest| rest.strip_suffix("\ndata: {}\n\n")).is_some_and(|id| id.len() == 16)
}

#[test]
fn forgotten_events_are_a_gap_that_is_told() {
    let by_count = Server::start(&["--history-events=3"]);
    assert!(told(&by_count, 3).contains("xxx"));
    assert_eq!(told(&by_count, 4), GAP);
    let by_bytes = Server::start(&["--history-bytes=16KiB"]);
    assert!(told(&by_bytes, 2).contains("xxx"));
    assert_eq!(told(&by_bytes, 20), GAP);
    // All of it is forgotten: nothing comes behind the notice.
    let by_age = Server::start(&["--history-seconds=0.02"]);
    let stream = by_age.stream("/stream/bob", "text/event-stream");
    by_age.api.send("bob", "x");
    wait_for("the event is forgotten", || by_age.api.stats()["history_events"] == 0);
    let cursor = stream.cursor.clone().unwrap();
    assert!(is_gap_with_place(&resume(&by_age, "/stream/bob", SSE, &cursor).chunk()));
    let off = Server::start(&["--history-bytes=0"]);
    assert!(is_gap_with_place(&told(&off, 0)));
    let stats = off.api.stats();
    assert_eq!((&stats["resumes"], &stats["resume_gaps"]), (&json!(1), &json!(1)));
}

#[test]
fn after_a_gap_what_is_remembered_comes_all_the_same() {
    let server = Server::start(&["--history-events=3"]);
    let stream = server.stream("/stream/1", "text/event-stream");
    let cursor = stream.cursor.clone().unwrap();
    for n in 0..10 {
        server.api.send("1", n);
    }
    for accept in [SSE, "Accept: application/x-ndjson"] {
        let mut stream = resume(&server, "/stream/1", accept, &cursor);
        assert_eq!(stream.chunk(), if accept == SSE { GAP } else { "{\"gap\":true}\n" });
        for n in 7..10 {
            assert!(stream.chunk().contains(&format!("\"data\":{n}}}")));
        }
    }
}

#[test]
fn who_missed_more_than_a_window_hears_all_of_it() {
    let server = Server::start(&["--history-events=20000"]);
    for (subject, missed) in [("1", 512), ("2", 513), ("3", 2_100)] {
        let path = format!("/stream/{subject}");
        let stream = server.stream(&path, "text/event-stream");
        let cursor = stream.cursor.clone().unwrap();
        stream.wire.reset();
        server.wait_online(subject, 0);
        let line = |n| format!("{{\"about\":{subject},\"data\":{n}}}\n");
        let lines: String = (0..missed).map(line).collect();
        assert_eq!(server.api.post_lines("/send", &lines).status(), 200);
        let mut stream = resume(&server, &path, SSE, &cursor);
        for n in 0..missed {
            assert_eq!(event(&mut stream).1, n);
        }
    }
}

#[test]
fn crowd_of_polls_that_loses_its_network_hears_every_event_once() {
    crowd_loses_its_network("poll", "poll");
}

fn crowd_loses_its_network(transport: &str, path: &str) {
    let server = Server::start(&[]);
    let url = format!("{}/{path}/{{id}}", server.url());
    let args =
        ["flood", "--users=400", "--storm-after=1", "--vanish=0", "--come-back=1", "--away=0.5"];
    let options = ["--resume", "--json", "--transport", transport, "--url", &url];
    let flood = Program::spawn(encke(args).args(options));
    server.wait_crowd(400);
    let args = ["spam", "--users=400", "--rate=500", "--seconds=2", "--json"];
    let spam = Program::run(encke(args).args(["--api", &server.api_url()]));
    let spam: Value = serde_json::from_str(&spam.stdout).unwrap();
    assert_eq!(spam["sent"], 1_000);
    wait_for("everybody is back", || {
        let stats = server.api.stats();
        // Every poll goes on where its client was, so that alone is not counted.
        stats["connections_opened"] == 800 && (transport == "poll" || stats["resumes"] == 400)
    });
    // Whether an event was handed to the connection that was lost or to the one that came back,
    // each is heard, and none twice.
    wait_for("the crowd tells of all events", || flood.stderr().contains("  events 1,000 ("));
    flood.signal("INT");
    let flood: Value = serde_json::from_str(&flood.finish().stdout).unwrap();
    let storm = &flood["trouble"]["storm"];
    for (part, member, expected) in [
        (storm, "returned", 400),
        (storm, "missing", 0),
        (storm, "doubled", 0),
        (storm, "told_gaps", 0),
        (&flood, "stamped", 1_000),
        (&flood, "missing", 0),
        (&flood, "doubled", 0),
    ] {
        assert_eq!(part[member], expected, "{member} of {flood}");
    }
}
