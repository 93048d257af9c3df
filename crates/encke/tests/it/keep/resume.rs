//! Clients that come back after the server has ended: what was kept they hear on every transport,
//! merged with what is not kept, of which the restart is a gap.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Server, Socket, get, read_answer, wait_for};

/// Of ids that begin with `room:` events are kept; each is on disk when its send is answered.
const KEEP: [&str; 2] = ["--keep=room:*=1h", "--log-sync=always"];

fn start(data: &Path, options: &[&str]) -> Server {
    Server::start_in(data, &[&KEEP[..], options].concat())
}

/// The server is killed, and started again.
fn restart(server: Server, data: &Path, options: &[&str]) -> Server {
    server.into_program().kill();
    start(data, options)
}

/// Sends events about the ids in turn, one each number; their ids.
fn send_all(server: &Server, about: &[&str], numbers: std::ops::Range<usize>) -> Vec<String> {
    let line = |n: usize| format!("{{\"about\":\"{}\",\"data\":{n}}}\n", about[n % about.len()]);
    let lines: String = numbers.map(line).collect();
    let answer = server.api.post_lines("/send", &lines);
    assert_eq!(answer.status(), 200);
    let id = |line: &str| {
        let sent: Value = serde_json::from_str(line).unwrap();
        sent["id"].as_str().unwrap_or_else(|| panic!("not sent: {sent}")).to_owned()
    };
    answer.body.lines().map(id).collect()
}

/// A place behind which all that is kept is there.
fn beginning(server: &Server) -> String {
    send_all(server, &["room:first"], 0..1).remove(0)
}

fn numbers(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["data"].as_u64().unwrap()).collect()
}

/// The page of events about `id`, and whether it tells a gap.
fn page(server: &Server, id: &str, query: &str) -> (Vec<u64>, bool, Value) {
    let page = server.api.get(&format!("/events/{id}?{query}")).ok();
    let gap = page.get("gap").is_some();
    (numbers(page["events"].as_array().unwrap()), gap, page["next"].clone())
}

#[test]
fn client_of_each_transport_hears_after_a_kill_what_was_kept() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    // Most is forgotten by the memory before.
    let server = start(data, &["--history-events=3"]);
    let place = beginning(&server);
    send_all(&server, &["room:1"], 0..20);
    let server = restart(server, data, &["--history-events=3"]);
    let query = format!("/stream/room:1?last_event_id={place}");
    let mut ndjson = server.stream(&query, "application/x-ndjson");
    let mut sse = server.ask(get(
        "/stream/room:1",
        &["Accept: text/event-stream", &format!("Last-Event-ID: {place}")],
    ));
    sse.head();
    let mut socket = Socket::open(server.listen(), &query);
    let mut poll = server.ask(get(&format!("/poll/room:1?after={place}"), &[]));
    let polled = read_answer(&mut poll, "GET").unwrap();
    assert_eq!(polled.head.field("encke-gap"), None);
    assert_eq!(numbers(polled.ok().as_array().unwrap()), Vec::from_iter(0..20));
    assert_eq!(Vec::from_iter((0..20).map(|_| ndjson.data())), Vec::from_iter(0..20));
    assert_eq!(Vec::from_iter((0..20).map(|_| socket.data())), Vec::from_iter(0..20));
    server.wait_online("room:1", 3);
    send_all(&server, &["room:1"], 20..21);
    let mut heard = String::new();
    while !heard.contains("\"data\":20}") {
        heard += &String::from_utf8(sse.chunk().unwrap()).unwrap();
    }
    let events = heard.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = events.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(numbers(&events), Vec::from_iter(0..21));
    assert_eq!((ndjson.data(), socket.data()), (json!(20), json!(20)));
    let stats = server.api.stats();
    // Each poll has a place; those without a gap are not counted.
    assert_eq!((&stats["resumes"], &stats["resume_gaps"]), (&json!(3), &json!(0)));
}

/// A page that loads its messages from a database goes on from the last one; nothing was said since
/// the server was started.
#[test]
fn place_of_before_a_restart_is_no_gap_as_often_as_it_is_brought() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let last = send_all(&server, &["room:1"], 0..1).remove(0);
    let server = restart(server, data.path(), &[]);
    for _ in 0..3 {
        let query = format!("/stream/room:1?last_event_id={last}");
        let mut socket = Socket::open(server.listen(), &query);
        let answer = socket.ask(json!({ "ping": 1 }));
        assert!(answer["ok"].is_object(), "{answer}");
    }
    assert_eq!(server.api.stats()["resume_gaps"], 0);
    // Of what is not kept it is one.
    let mut other = Socket::open(server.listen(), &format!("/stream/other?last_event_id={last}"));
    assert_eq!(other.json(), json!({ "gap": true }));
}

#[test]
fn kept_events_are_heard_in_one_order_with_others_and_these_are_a_gap() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let server = start(data, &[]);
    let about = ["room:1", "other", "room:2"];
    about.iter().for_each(|about| server.api.subscribe("bob", about));
    let place = beginning(&server);
    send_all(&server, &about, 0..30);
    let query = format!("/stream/bob?last_event_id={place}");
    let mut before = server.stream(&query, "application/x-ndjson");
    assert_eq!(Vec::from_iter((0..30).map(|_| before.data())), Vec::from_iter(0..30));
    let server = restart(server, data, &[]);
    send_all(&server, &about, 30..60);
    let mut after = server.stream(&query, "application/x-ndjson");
    assert_eq!(after.event(), json!({ "gap": true }));
    let due: Vec<u64> = (0..60).filter(|n| *n >= 30 || n % 3 != 1).collect();
    assert_eq!(Vec::from_iter(due.iter().map(|_| after.data())), due);
    assert_eq!(server.api.stats()["resume_gaps"], 1);
}

#[test]
fn past_and_pages_reach_into_what_is_kept() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let server = start(data, &["--history-events=2"]);
    let ids = send_all(&server, &["room:1"], 0..10);
    let server = restart(server, data, &["--history-events=2"]);
    send_all(&server, &["room:1"], 10..15);
    for (query, due) in [("last=7", 8..15), ("last=100", 0..15), ("after=earliest", 0..15)] {
        let path = format!("/stream/room:1?{query}");
        let mut stream = server.stream(&path, "application/x-ndjson");
        let heard = Vec::from_iter(due.clone().map(|_| stream.data()));
        assert_eq!(heard, Vec::from_iter(due), "{query}");
    }
    let all = |query: &str| page(&server, "room:1", query);
    assert_eq!(all(""), (Vec::from_iter(0..15), false, Value::Null));
    let after = format!("after={}&limit=10", ids[1]);
    let (events, gap, next) = all(&after);
    assert_eq!((events, gap), (Vec::from_iter(2..12), false));
    let rest = all(&format!("after={}", next.as_str().unwrap()));
    assert_eq!(rest, (vec![12, 13, 14], false, Value::Null));
    let (events, _, next) = all("order=desc&limit=4");
    assert_eq!(events, [14, 13, 12, 11]);
    let older = all(&format!("order=desc&before={}", next.as_str().unwrap()));
    assert_eq!(older, (Vec::from_iter((0..11).rev()), false, Value::Null));
}

#[test]
fn place_older_than_what_is_kept_is_a_gap() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let options = ["--keep=few:*=1h,5", "--history-events=2"];
    let server = start(data, &options);
    let place = beginning(&server);
    let ids = send_all(&server, &["few:1"], 0..12);
    let resumed = |server: &Server, place: &str| {
        let query = format!("/stream/few:1?last_event_id={place}");
        server.stream(&query, "application/x-ndjson")
    };
    let check = |server: &Server| {
        let mut stream = resumed(server, &place);
        assert_eq!(stream.event(), json!({ "gap": true }));
        assert_eq!(Vec::from_iter((7..12).map(|_| stream.data())), Vec::from_iter(7..12));
        let mut stream = resumed(server, &ids[6]);
        assert_eq!(stream.data(), 7, "the five that are kept are all since then");
        assert_eq!(page(server, "few:1", ""), (Vec::from_iter(7..12), false, Value::Null));
        assert!(page(server, "few:1", &format!("after={}", ids[5])).1);
    };
    check(&server);
    check(&restart(server, data, &options));
}

/// The memory has room for more, and for longer.
#[test]
fn memory_answers_no_more_of_what_is_kept_than_the_count_of_its_rule() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &["--keep=few:*=1h,5"]);
    let place = beginning(&server);
    let ids = send_all(&server, &["few:1"], 0..12);
    let all = |query: &str| page(&server, "few:1", query);
    assert_eq!(all(""), (Vec::from_iter(7..12), false, Value::Null));
    assert_eq!(all("order=desc").0, Vec::from_iter((7..12).rev()));
    assert_eq!(all(&format!("after={}", ids[5])), (Vec::from_iter(7..12), true, Value::Null));
    assert_eq!(all(&format!("after={}", ids[6])), (Vec::from_iter(7..12), false, Value::Null));
    for query in ["last=100", "after=earliest"] {
        let mut stream = server.stream(&format!("/stream/few:1?{query}"), "application/x-ndjson");
        let heard = Vec::from_iter((7..12).map(|_| stream.data()));
        assert_eq!(heard, Vec::from_iter(7..12), "{query}");
    }
    let resumed = |place: &str| {
        let query = format!("/stream/few:1?last_event_id={place}");
        server.stream(&query, "application/x-ndjson")
    };
    assert_eq!(resumed(&ids[6]).data(), 7, "the five that are kept are all since then");
    assert_eq!(resumed(&place).event(), json!({ "gap": true }));
    // What the rule does not fit is remembered as before.
    send_all(&server, &["other"], 0..12);
    assert_eq!(page(&server, "other", "").0, Vec::from_iter(0..12));
}

/// The memory has room for all of them. A server that is started again reads them from the log.
#[test]
fn bytes_of_a_rule_bound_what_is_answered_from_memory_and_from_the_log_alike() {
    let data = tempfile::tempdir().unwrap();
    let line = json!({ "id": "2F7fMc3OFfcybth4", "about": "big:1", "data": 10 }).to_string().len();
    let rule = format!("--keep=big:*=1h,1000,{}", 5 * line + line / 2);
    let options = [rule.as_str()];
    let server = start(data.path(), &options);
    let place = send_all(&server, &["big:first"], 0..1).remove(0);
    let ids = send_all(&server, &["big:1"], 10..22);
    let check = |server: &Server| {
        let all = |query: &str| page(server, "big:1", query);
        assert_eq!(all(""), (Vec::from_iter(17..22), false, Value::Null));
        assert_eq!(all("order=desc").0, Vec::from_iter((17..22).rev()));
        assert_eq!(all(&format!("after={}", ids[5])), (Vec::from_iter(17..22), true, Value::Null));
        assert_eq!(all(&format!("after={}", ids[6])), (Vec::from_iter(17..22), false, Value::Null));
        for query in ["last=100", "after=earliest"] {
            let stream = format!("/stream/big:1?{query}");
            let mut stream = server.stream(&stream, "application/x-ndjson");
            let heard = Vec::from_iter((17..22).map(|_| stream.data()));
            assert_eq!(heard, Vec::from_iter(17..22), "{query}");
        }
        let mut resumed = server.listener(&format!("big:1?last_event_id={}", ids[6]));
        assert_eq!(resumed.data(), 17, "the five that are kept are all since then");
        let stream = format!("/stream/big:1?last_event_id={place}");
        let mut resumed = server.stream(&stream, "application/x-ndjson");
        assert_eq!(resumed.event(), json!({ "gap": true }));
    };
    check(&server);
    check(&restart(server, data.path(), &options));
}

#[test]
fn memory_answers_no_event_that_is_older_than_its_rule_keeps_it() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &["--keep=short:*=1s"]);
    let place = beginning(&server);
    send_all(&server, &["short:1", "other"], 0..2);
    let of = |query: &str| page(&server, "short:1", query);
    wait_for("the event is over", || of("").0.is_empty());
    assert_eq!(of(&format!("after={place}")), (vec![], true, Value::Null));
    assert_eq!(page(&server, "other", "").0, [1]);
}

/// A client that follows two hundred ids goes on in several windows, each of which is more than
/// one question to the log.
#[test]
fn client_that_follows_many_ids_hears_in_windows_all_that_was_kept() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let server = start(data, &["--history-events=1"]);
    let about: Vec<String> = (0..200).map(|n| format!("room:{n}")).collect();
    let about: Vec<&str> = about.iter().map(String::as_str).collect();
    about.iter().for_each(|about| server.api.subscribe("room:all", about));
    let place = beginning(&server);
    send_all(&server, &about, 0..3_000);
    let server = restart(server, data, &["--history-events=1"]);
    let query = format!("/stream/room:all?last_event_id={place}");
    let mut stream = server.stream(&query, "application/x-ndjson");
    assert_eq!(Vec::from_iter((0..1_000).map(|_| stream.data())), Vec::from_iter(0..1_000));
    send_all(&server, &about, 3_000..3_100);
    assert_eq!(Vec::from_iter((1_000..3_100).map(|_| stream.data())), Vec::from_iter(1_000..3_100));
    assert_eq!(server.api.stats()["resume_gaps"], 0);
    // Of another client's own id nothing is kept: that is one gap, in however many windows the
    // rest comes.
    let query = format!("/stream/other?id=room:all&last_event_id={place}");
    let mut other = server.stream(&query, "application/x-ndjson");
    assert_eq!(other.event(), json!({ "gap": true }));
    assert_eq!(Vec::from_iter((0..3_100).map(|_| other.data())), Vec::from_iter(0..3_100));
}

/// Its cursor says of which gap it was told, so that it is told once however many windows there
/// are, and of another gap again.
#[test]
fn poll_that_goes_on_over_a_restart_is_told_of_the_gap_once() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let server = start(data, &[]);
    let mut place = beginning(&server);
    send_all(&server, &["room:1"], 0..3_000);
    let server = restart(server, data, &[]);
    let mut heard = Vec::new();
    let (mut gaps, mut polls) = (0, 0);
    let poll = |server: &Server, heard: &mut Vec<u64>, place: &mut String| {
        let target = format!("/poll/room:1?id=other&wait=0&after={place}");
        let answer = read_answer(&mut server.ask(get(&target, &[])), "GET").unwrap();
        let is_gap = answer.head.field("encke-gap").is_some();
        *place = answer.head.field("encke-next").expect("a cursor").to_owned();
        heard.extend(numbers(answer.ok().as_array().unwrap()));
        is_gap
    };
    while heard.len() < 2_000 {
        gaps += usize::from(poll(&server, &mut heard, &mut place));
        polls += 1;
    }
    assert!(polls > 2 && gaps == 1, "{gaps} gaps in {polls} polls");
    // A stream that goes on there knows of it, too.
    let query = format!("/stream/room:1?id=other&last_event_id={place}");
    assert_eq!(server.stream(&query, "application/x-ndjson").data(), heard.len());
    let server = restart(server, data, &[]);
    assert!(poll(&server, &mut heard, &mut place), "the second restart is a gap of its own");
    while heard.len() < 3_000 {
        assert!(!poll(&server, &mut heard, &mut place), "of which it was told");
    }
    assert_eq!(heard, Vec::from_iter(0..3_000));
    assert_eq!(place.len(), 16, "it is behind the gap");
}
