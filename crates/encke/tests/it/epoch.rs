//! Places of other runs: of another server, of this one before it was killed, of a copy of it. Each
//! is told as a gap, on every transport; a place of this run is not.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Api, Server, Socket, get, read_answer};

const SSE: &str = "Accept: text/event-stream";
const NDJSON: &str = "Accept: application/x-ndjson";

/// Sends an event; its id.
fn send(api: &Api, about: &str, data: &str) -> String {
    let answer = api.post("/send", &json!({ "about": about, "data": data })).ok();
    answer["id"].as_str().unwrap().to_owned()
}

/// What a client of each transport is told first that goes on as `x` from `place`.
pub(crate) fn told(server: &Server, place: &str) -> Vec<(&'static str, String)> {
    let chunk = |path: &str, fields: &[&str]| {
        let mut wire = server.ask(get(path, fields));
        assert_eq!(wire.head().status, 200);
        String::from_utf8(wire.chunk().unwrap()).unwrap()
    };
    let field = format!("Last-Event-ID: {place}");
    let query = format!("/stream/x?last_event_id={place}");
    let mut socket = Socket::open(server.listen(), &query);
    let mut poll = server.ask(get(&format!("/poll/x?wait=0&after={place}"), &[]));
    let poll = read_answer(&mut poll, "GET").unwrap();
    assert_eq!(poll.status(), 200, "{poll:?}");
    let gap = poll.head.field("encke-gap").map(|gap| format!("Encke-Gap: {gap}\n"));
    vec![
        ("SSE, header", chunk("/stream/x", &[SSE, &field])),
        ("SSE, query", chunk(&query, &[SSE])),
        ("NDJSON, header", chunk("/stream/x", &[NDJSON, &field])),
        ("NDJSON, query", chunk(&query, &[NDJSON])),
        ("WebSocket", socket.json().to_string()),
        ("poll", gap.unwrap_or_default() + &poll.body),
    ]
}

#[track_caller]
pub(crate) fn expect_gaps(server: &Server, place: &str) {
    for (transport, told) in told(server, place) {
        let gap = match transport {
            "poll" => told == "Encke-Gap: true\n[]\n",
            "SSE, header" | "SSE, query" => told.starts_with("event: gap\nid: "),
            _ => told.trim_end() == "{\"gap\":true}",
        };
        assert!(gap, "{transport}, from {place}: {told:?}");
    }
}

/// Every kind of place that `server` tells.
fn places(server: &Server) -> Vec<String> {
    let stream = server.stream("/stream/x", "text/event-stream");
    let mut socket = Socket::open(server.listen(), "/stream/x");
    let next = socket.ask(json!({"ping": 1}))["ok"]["next"].take();
    let mut poll = server.ask(get("/poll/x?wait=0", &[]));
    let poll = read_answer(&mut poll, "GET").unwrap();
    let sent = send(&server.api, "x", "heard");
    vec![
        stream.cursor.unwrap(),
        next.as_str().unwrap().to_owned(),
        poll.head.field("encke-next").unwrap().to_owned(),
        sent,
    ]
}

#[test]
fn place_of_another_server_is_told_as_a_gap_on_every_transport() {
    let (ours, other) = (Server::start(&[]), Server::start(&[]));
    let places = places(&other);
    for place in &places {
        let is_word = place.len() == 16 && place.bytes().all(|byte| byte.is_ascii_alphanumeric());
        assert!(is_word, "{place}");
    }
    send(&other.api, "x", "missed");
    // Both have sent since: by their numbers the places could be ours.
    send(&ours.api, "else", "later");
    for place in &places {
        expect_gaps(&ours, place);
    }
    let stats = ours.api.stats();
    assert_eq!(stats["resumes"], stats["resume_gaps"]);
    for (transport, told) in told(&other, &places[3]) {
        assert!(told.contains("missed") && !told.to_lowercase().contains("gap"), "{transport}");
    }
}

#[test]
fn ids_grow_and_places_are_gaps_when_the_server_was_killed() {
    let data = tempfile::tempdir().unwrap();
    let mut before = Vec::new();
    for _ in 0..3 {
        let server = Server::start_in(data.path(), &[]);
        let places = places(&server);
        assert!(before.iter().max() < places.iter().min(), "{before:?}, then {places:?}");
        before.iter().for_each(|place: &String| expect_gaps(&server, place));
        before.extend(places);
        server.stop("KILL");
    }
}

#[test]
fn nothing_that_is_remembered_comes_after_a_place_of_an_earlier_start() {
    let data = tempfile::tempdir().unwrap();
    let earlier = Server::start_in(data.path(), &[]);
    let place = send(&earlier.api, "x", "heard");
    earlier.stop("KILL");
    let server = Server::start_in(data.path(), &[]);
    let own = send(&server.api, "else", "heard");
    send(&server.api, "x", "remembered");
    for (transport, told) in told(&server, &own) {
        assert!(told.contains("remembered"), "{transport}: {told:?}");
    }
    expect_gaps(&server, &place);
    let query = format!("/stream/x?last_event_id={place}");
    for accept in [SSE, NDJSON] {
        let mut wire = server.ask(get(&query, &[accept]));
        assert_eq!(wire.head().status, 200);
        send(&server.api, "x", accept);
        let mut told = String::new();
        while !told.contains("\"data\"") {
            told += &String::from_utf8(wire.chunk().unwrap()).unwrap();
        }
        assert!(told.contains("gap") && told.contains(accept), "{told:?}");
    }
    let mut socket = Socket::open(server.listen(), &query);
    send(&server.api, "x", "live");
    assert_eq!(socket.json(), json!({"gap": true}));
    assert_eq!(socket.json()["data"], "live");
}

/// Copies what a server has in `data`, without the lock.
fn copy(data: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["data.mdb", "epoch"] {
        fs::copy(data.join(name), copy.path().join(name)).unwrap();
    }
    copy
}

#[test]
fn place_of_a_copy_of_the_server_is_a_gap() {
    let data = tempfile::tempdir().unwrap();
    Server::start_in(data.path(), &[]).stop("TERM");
    let copy = copy(data.path());
    let (ours, other) = (Server::start_in(data.path(), &[]), Server::start_in(copy.path(), &[]));
    let place = send(&other.api, "x", "heard");
    send(&ours.api, "else", "1");
    send(&ours.api, "else", "2");
    expect_gaps(&ours, &place);
}

/// Without the mark ids begin at the clock, which a restart leaves behind the ids of before: as if
/// it had been set back.
#[test]
fn lost_mark_is_made_anew_and_old_places_are_gaps_all_the_same() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("epoch");
    Server::start_in(data.path(), &[]).stop("KILL");
    let ahead = Server::start_in(data.path(), &[]);
    let places = places(&ahead);
    ahead.stop("KILL");
    let good = fs::read_to_string(&file).unwrap();
    for damaged in [None, Some(""), Some("encke epoch 1\n"), Some(&good[1..])] {
        match damaged {
            None => fs::remove_file(&file).unwrap(),
            Some(text) => fs::write(&file, text).unwrap(),
        }
        let server = Server::start_in(data.path(), &[]);
        assert!(send(&server.api, "x", "1") < places[0], "{damaged:?}");
        places.iter().for_each(|place| expect_gaps(&server, place));
        let errors = server.stop("KILL").stderr;
        assert_eq!(errors.contains("epoch"), damaged.is_some(), "{damaged:?}: {errors}");
    }
    let server = Server::start_in(data.path(), &[]);
    let stderr = server.stop("TERM").stderr;
    assert!(!stderr.contains("epoch"), "it is whole again: {stderr}");
}

#[test]
fn place_that_is_none_is_refused_in_a_query_and_a_gap_in_a_header() {
    let server = Server::start(&[]);
    for bad in ["17", "2F3y6mQsYKmaB3x", "2F3y6mQsYKmaB3xZ0", "2F3y6mQsYKmaB3x_", "%2F"] {
        for path in ["/stream/x?last_event_id=", "/poll/x?after="] {
            let mut wire = server.ask(get(&format!("{path}{bad}"), &[]));
            let problem: Value = read_answer(&mut wire, "GET").unwrap().problem(400);
            assert!(problem["detail"].as_str().unwrap().contains("16 letters and digits"));
        }
        let mut wire = server.ask(get("/stream/x", &[NDJSON, &format!("Last-Event-ID: {bad}")]));
        wire.head();
        assert_eq!(wire.chunk().unwrap(), b"{\"gap\":true}\n", "{bad}");
    }
    // An id in the form of earlier versions, and one whose number is too great for any.
    expect_gaps(&server, "19aa57c8f4a00001");
    expect_gaps(&server, "zzzzzzzzzzzzzzzz");
}
