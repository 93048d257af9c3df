//! Durable Streams: the protocol's own conformance tests and client, and what they do not try:
//! kills, upgrades, keys.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::harness::{Answer, Api, Head, Program, Server, Stream, wait_for};
use crate::keys::{new_key, server as server_with_keys};
use crate::upgrade::Upgraded;

/// How long the conformance tests may take, of which they wait out polls and lives for 90 s: beside
/// all others on two cores they take 200 s.
const CONFORMANCE: Duration = Duration::from_secs(1500);

/// Tests of the package that are run: 250 of its core and 82 of forks. Six of subscriptions it
/// leaves out unless asked.
const TESTS: u64 = 332;

fn put(api: &Api, path: &str) -> Answer {
    api.request("PUT", &format!("/v1/stream/{path}"), Some("text/plain"), b"").unwrap()
}

fn append(api: &Api, path: &str, fields: &str, body: &str) -> Answer {
    let fields = format!("Content-Type: text/plain\r\n{fields}");
    api.post_with(&format!("/v1/stream/{path}"), &fields, body)
}

fn text(api: &Api, path: &str) -> String {
    let answer = api.get(&format!("/v1/stream/{path}"));
    assert_eq!(answer.status(), 200, "{answer:?}");
    answer.body
}

fn next(head: &Head) -> String {
    head.field("stream-next-offset").unwrap().to_owned()
}

/// Where the programs are, as `compat/streams` has them now.
fn programs() -> Option<PathBuf> {
    let folder = testing::tool("compat/streams/complete")?.parent()?.to_owned();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compat/streams");
    for file in ["package-lock.json", "conformance.test.js", "client.js"] {
        let same = fs::read(sources.join(file)).unwrap() == fs::read(folder.join(file)).unwrap();
        assert!(same, "{file} is another one: cargo xtask programs");
    }
    Some(folder)
}

#[test]
fn conformance_tests_of_the_protocol_pass() {
    let Some(folder) = programs() else { return };
    let server = Server::start(&["--streams"]);
    let report = tempfile::NamedTempFile::new().unwrap();
    let mut vitest = Command::new(folder.join("node"));
    vitest.arg(folder.join("node_modules/vitest/vitest.mjs"));
    vitest.args(["run", "--root"]).arg(&folder);
    vitest.args(["--testTimeout=60000", "--reporter=json"]);
    vitest.arg(format!("--outputFile={}", report.path().display()));
    vitest.env("STREAMS_URL", server.api_url());
    let finished = Program::spawn(&mut vitest).finish_within(CONFORMANCE);
    let report = fs::read_to_string(report.path()).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report)
        .unwrap_or_else(|error| panic!("{error}: {}{}", finished.stdout, finished.stderr));
    let tests = report["testResults"][0]["assertionResults"].as_array().unwrap();
    let failed = tests.iter().filter(|test| test["status"] == "failed");
    let failed: Vec<_> = failed.map(|test| test["fullName"].as_str().unwrap()).collect();
    assert_eq!(failed, [""; 0], "{}", finished.stderr);
    assert_eq!(report["numPassedTests"], TESTS);
}

#[test]
fn client_of_the_protocol_reads_all_to_the_end() {
    let Some(folder) = programs() else { return };
    let server = Server::start(&["--streams"]);
    for live in ["long-poll", "sse"] {
        let mut client = Command::new(folder.join("node"));
        client.arg(folder.join("client.js"));
        client.arg(format!("{}/v1/stream/client/{live}", server.api_url())).arg(live);
        let finished = Program::run(&mut client);
        let heard: serde_json::Value = serde_json::from_str(&finished.stdout)
            .unwrap_or_else(|error| panic!("{live}: {error}: {}", finished.stderr));
        assert_eq!(heard, json!([{ "word": "Hello" }, { "word": "world" }]), "{live}");
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill_and_a_repeat_is_not_taken_twice() {
    const KILLS: u64 = 5;
    const APPENDS: u64 = 20;
    let data = tempfile::tempdir().unwrap();
    let mut number = 0;
    for life in 0..KILLS {
        let server = Server::start_in(data.path(), &["--streams"]);
        if life == 0 {
            assert_eq!(put(&server.api, "run/1").status(), 201);
        } else {
            // What was acknowledged last before the kill.
            let fields = producer(number - 1);
            let repeat = append(&server.api, "run/1", &fields, &format!("{},", number - 1));
            assert_eq!(repeat.status(), 204, "{repeat:?}");
            let highest = repeat.head.field("producer-seq").unwrap().parse();
            assert_eq!(highest, Ok(number - 1));
        }
        for _ in 0..APPENDS {
            let appended = append(&server.api, "run/1", &producer(number), &format!("{number},"));
            assert_eq!(appended.status(), 200, "{appended:?}");
            number += 1;
        }
        if life == KILLS - 1 {
            let close = append(&server.api, "run/1", "Stream-Closed: true\r\n", "");
            assert_eq!(close.status(), 204);
        }
        server.into_program().kill();
    }
    let server = Server::start_in(data.path(), &["--streams"]);
    let expected: String = (0..number).map(|number| format!("{number},")).collect();
    assert_eq!(text(&server.api, "run/1"), expected);
    let refused = append(&server.api, "run/1", "", "more");
    refused.problem(409);
    assert_eq!(refused.head.field("stream-closed"), Some("true"));
    let stale = "Producer-Id: w\r\nProducer-Epoch: 0\r\nProducer-Seq: 0\r\n";
    append(&server.api, "run/1", stale, "x").problem(403);
}

fn producer(number: u64) -> String {
    format!("Producer-Id: w\r\nProducer-Epoch: 1\r\nProducer-Seq: {number}\r\n")
}

fn live(server: &Server, query: &str) -> Stream {
    let path = format!("/v1/stream/run/1?live=sse{query}");
    Stream::open(server.api.address(), &path, "text/event-stream")
}

#[test]
fn reader_of_events_resumes_by_their_ids_and_is_told_the_end() {
    let server = Server::start(&["--streams"]);
    let created = put(&server.api, "run/1");
    let start = next(&created.head);
    let mut reader = live(&server, "&offset=-1");
    assert!(reader.chunk().starts_with("event: control\ndata:{"));
    let first = next(&append(&server.api, "run/1", "", "a\nevent: x").head);
    let event = reader.chunk();
    let expected = format!("event: data\ndata:a\ndata:event: x\nid: {first}\n\nevent: control\n");
    assert!(event.starts_with(&expected), "{event}");
    let last = next(&append(&server.api, "run/1", "Stream-Closed: TRUE\r\n", "b").head);
    let end = format!(
        "event: data\ndata:b\nid: {last}\n\n\
         event: control\ndata:{{\"streamNextOffset\":\"{last}\",\"streamClosed\":true}}\n\n"
    );
    assert_eq!(reader.chunk(), end);
    assert_eq!(reader.chunk(), "", "it ends");
    // An `EventSource` that comes back repeats its address, and says where it is.
    let path = format!("/v1/stream/run/1?live=sse&offset={start}");
    let resumed = server.api.with(&[&format!("Last-Event-ID: {first}")]).get(&path);
    assert_eq!(resumed.body, end);
    let gone = server.api.request("DELETE", "/v1/stream/run/1", None, b"").unwrap();
    assert_eq!(gone.status(), 204);
    put(&server.api, "run/1");
    server.api.get(&format!("/v1/stream/run/1?offset={first}")).problem(410);
}

#[test]
fn streams_go_on_through_an_upgrade() {
    let server = Upgraded::serve(&["--streams"]);
    put(&server.api, "run/1");
    append(&server.api, "run/1", &producer(0), "before ");
    let mut reader = live(&server, "&offset=now");
    reader.chunk();
    server.upgrade(&[]);
    assert_eq!(reader.chunk(), "", "its client comes back with its offset");
    let api = server.api.another();
    assert_eq!(append(&api, "run/1", &producer(0), "before ").status(), 204);
    assert_eq!(append(&api, "run/1", &producer(1), "after").status(), 200);
    assert_eq!(text(&api, "run/1"), "before after");
}

/// Moves the last use of the only stream below `data` back, as far as its file says it.
fn set_back(data: &Path, by: Duration) {
    let folders = fs::read_dir(data.join("streams")).unwrap().map(|entry| entry.unwrap().path());
    let files = folders.filter(|path| path.is_dir()).flat_map(|folder| {
        let files = fs::read_dir(folder).unwrap();
        files.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    });
    let all: Vec<PathBuf> = files.collect();
    let [file] = &all[..] else { panic!("{all:?}") };
    let file = fs::File::options().write(true).open(file).unwrap();
    let used = file.metadata().unwrap().modified().unwrap();
    file.set_modified(used - by).unwrap();
}

/// Of a live read the file says only when it began.
#[test]
fn stream_that_a_live_reader_holds_outlives_a_kill_and_an_upgrade() {
    const HELD: Duration = Duration::from_secs(30);
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_in(data.path(), &["--streams"]);
    assert_eq!(put(&server.api.with(&["Stream-TTL: 20"]), "run/1").status(), 201);
    append(&server.api, "run/1", "", "held");
    let mut reader = live(&server, "&offset=now");
    reader.chunk();
    set_back(data.path(), HELD);
    server.into_program().kill();
    let server = Server::start_in(data.path(), &["--streams"]);
    assert_eq!(text(&server.api, "run/1"), "held");
    let mut reader = live(&server, "&offset=now");
    reader.chunk();
    set_back(data.path(), HELD);
    let server = Upgraded::of(server, data.path());
    server.upgrade(&[]);
    assert_eq!(reader.chunk(), "", "its client comes back");
    assert_eq!(text(&server.api.another(), "run/1"), "held");
}

#[test]
fn keys_read_or_write_and_without_the_option_there_is_nothing() {
    let (server, data) = server_with_keys(&["--streams"]);
    let reads = new_key(data.path(), &["--scope=read"]);
    let sends = new_key(data.path(), &["--scope=send"]);
    let (reader, sender) = (server.api.with_key(&reads), server.api.with_key(&sends));
    put(&server.api, "a/b").problem(401);
    put(&reader, "a/b").problem(403);
    assert_eq!(put(&sender, "a/b").status(), 201);
    append(&reader, "a/b", "", "x").problem(403);
    assert_eq!(append(&sender, "a/b", "", "x").status(), 204);
    sender.get("/v1/stream/a/b").problem(403);
    let read = reader.get("/v1/stream/a/b");
    assert!(read.head.field("cache-control").unwrap().starts_with("private"), "{read:?}");
    // A key that may send about some subjects writes streams of these names alone.
    let some = server.api.with_key(&new_key(data.path(), &["--scope=send", "--about=run*"]));
    assert_eq!(put(&some, "run/1").status(), 201);
    put(&some, "a/c").problem(403);
    append(&some, "a/b", "", "x").problem(403);
    some.request("DELETE", "/v1/stream/a/b", None, b"").unwrap().problem(403);
    assert_eq!(text(&reader, "a/b"), "x");
    let without = Server::start(&[]);
    put(&without.api, "a/b").problem(404);
}

fn fork(api: &Api, path: &str, fields: &[&str]) -> Answer {
    put(&api.with(fields), path)
}

const FORKED: &str = "Stream-Forked-From: /v1/stream/run/1";

#[test]
fn forks_go_on_over_a_kill_and_an_upgrade_without_their_source() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_in(data.path(), &["--streams"]);
    put(&server.api, "run/1");
    let place = next(&append(&server.api, "run/1", "", "Once ").head);
    append(&server.api, "run/1", "", "upon a time");
    let there = format!("Stream-Fork-Offset: {place}");
    assert_eq!(fork(&server.api, "run/2", &[FORKED, &there]).status(), 201);
    assert_eq!(append(&server.api, "run/2", &producer(0), "more").status(), 200);
    server.into_program().kill();
    let server = Server::start_in(data.path(), &["--streams"]);
    assert_eq!(text(&server.api, "run/2"), "Once more");
    let gone = server.api.request("DELETE", "/v1/stream/run/1", None, b"").unwrap();
    assert_eq!(gone.status(), 204);
    let server = Upgraded::of(server, data.path());
    server.upgrade(&[]);
    let api = server.api.another();
    api.get("/v1/stream/run/1").problem(410);
    put(&api, "run/1").problem(409);
    fork(&api, "run/3", &[FORKED]).problem(409);
    assert_eq!(append(&api, "run/2", &producer(0), "more").status(), 204, "it is a repeat");
    assert_eq!(append(&api, "run/2", &producer(1), ".").status(), 200);
    assert_eq!(text(&api, "run/2"), "Once more.");
    let read_on = api.get(&format!("/v1/stream/run/2?offset={place}"));
    assert_eq!(read_on.body, "more.");
    api.request("DELETE", "/v1/stream/run/2", None, b"").unwrap();
    api.get("/v1/stream/run/1").problem(404);
    assert_eq!(put(&api, "run/1").status(), 201);
}

/// Or a key that may write some names could show by them what others have.
#[test]
fn fork_needs_a_key_for_its_source_too() {
    let (server, data) = server_with_keys(&["--streams"]);
    let all = server.api.with_key(&new_key(data.path(), &["--scope=send"]));
    for path in ["run/1", "a/b"] {
        put(&all, path);
    }
    let sends = format!("Authorization: Bearer {}", new_key(data.path(), &["--scope=send"]));
    fork(&server.api, "run/2", &[&sends, FORKED]).problem(403);
    let key = new_key(data.path(), &["--scope=send,read", "--about=run*"]);
    let key = format!("Authorization: Bearer {key}");
    assert_eq!(fork(&server.api, "run/2", &[&key, FORKED]).status(), 201);
    let other = "Stream-Forked-From: /v1/stream/a%2Fb";
    fork(&server.api, "run/3", &[&key, other]).problem(403);
}

/// Or a key that sends could have whoever looks at the dashboard do what only they may.
#[test]
fn page_in_a_stream_is_no_page_of_the_api() {
    let server = Server::start(&["--streams"]);
    let page = b"<script>fetch('/stats')</script>";
    server.api.request("PUT", "/v1/stream/page", Some("text/html"), page).unwrap();
    for path in ["/v1/stream/page", "/v1/stream/page?offset=now", "/v1/stream/none"] {
        let answer = server.api.get(path);
        assert_eq!(answer.head.field("content-security-policy"), Some("sandbox"), "{answer:?}");
        assert_eq!(answer.head.field("x-content-type-options"), Some("nosniff"));
    }
}

#[test]
fn stream_whose_life_is_over_is_gone_with_its_file() {
    let (server, data) = server_with_keys(&["--streams"]);
    let past = server.api.with(&["Stream-Expires-At: 2020-01-01T00:00:00Z"]);
    assert_eq!(put(&past, "a").status(), 201);
    server.api.get("/v1/stream/a").problem(404);
    let ttl = server.api.with(&["Stream-TTL: 1"]);
    assert_eq!(put(&ttl, "b").status(), 201);
    // To ask what it is does not begin its life anew.
    let head = || server.api.request("HEAD", "/v1/stream/b", None, b"").unwrap().status();
    wait_for("its end", || head() == 404);
    let entries = fs::read_dir(data.path().join("streams")).unwrap();
    let folders = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let files = folders.map(|folder| fs::read_dir(folder).unwrap().count());
    assert_eq!(files.sum::<usize>(), 0);
}
