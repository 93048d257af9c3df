//! Clients of others at the hub: what a library of publishers publishes is heard by libraries for
//! subscribers, which know nothing of Mercure, in order and once, through a reset and `kill -9`.
//! And the cases of `cases.jsonl` as any hub is asked them, by `compat/mercure/run.py`.
//!
//! The programs stand in `compat/`; `cargo xtask programs` installs what they take.

use std::io::Write;
use std::path::Path;
use std::process::{ChildStdin, Command};

use serde_json::{Value, json};

use super::v1::{ISSUER, PUBLIC_URL};
use super::{HUB, Hub, PAGE, token};
use crate::compat::clients::CLIENTS;
use crate::compat::programs_of;
use crate::compat::switch::Switch;
use crate::harness::{Program, Server, escape};

/// Those of `compat` that are tried: all that read Server-Sent Events in JavaScript and Python,
/// but for aiohttp-sse-client, which needs `?next=1` of Encke's own streams.
const SUBSCRIBERS: [&str; 5] =
    ["eventsource", "fetch-event-source", "eventsource-client", "httpx-sse", "sseclient-py"];

const TOPICS: [&str; 2] = ["https://a.test/books/{id}", "https://a.test/users/{user}"];

/// What hurts readers of lines: line ends of Unicode that are none of SSE's.
const UNICODE: &str = "\u{2028}\u{85}\u{c} 😀 e\u{301} 日本";

/// A client at work, behind a switch of its own.
struct Subscriber {
    name: &'static str,
    switch: Switch,
    program: Program,
}

impl Subscriber {
    /// The type, the id and the data of what it hears next.
    fn hear(&self) -> [String; 3] {
        loop {
            let line = self.program.line_within(testing::DEADLINE);
            let line = line.unwrap_or_else(|why| panic!("{}: {why}", self.name));
            let heard: Value = serde_json::from_str(&line).unwrap();
            let [kind, id, data] = ["type", "id", "data"]
                .map(|member| heard[member].as_str().unwrap_or_default().to_owned());
            let kind = if kind == "message" { String::new() } else { kind };
            // Some make an event of blank lines, which a keep-alive has behind it.
            if !(kind.is_empty() && data.is_empty()) {
                return [kind, id, data];
            }
        }
    }
}

/// The library of publishers at work.
struct Publisher {
    program: Program,
    input: ChildStdin,
}

impl Publisher {
    fn start(folder: &Path, server: &Server, key: &Path) -> Publisher {
        let mut command = Command::new("python3");
        command.arg(folder.join("mercure/publish.py"));
        command.env("PYTHONPATH", folder.join("mercure/packages"));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg(format!("http://{}{HUB}", server.api.address())).arg(key);
        let (program, input) = Program::spawn_with_input(&mut command);
        Publisher { program, input }
    }

    /// The id that the hub has answered.
    fn publish(&mut self, update: &Value) -> String {
        writeln!(self.input, "{update}").unwrap();
        self.program.line()
    }
}

/// All of them, with a token for bob's private updates.
fn start_all(folder: &Path, server: &Server) -> Vec<Subscriber> {
    let granted = json!({ "mercure": { "subscribe": ["https://a.test/users/bob"] } });
    let topics = TOPICS.map(|topic| format!("topic={}", escape(topic))).join("&");
    let query = format!("{topics}&authorization={}", token(&granted));
    let of = |name: &&'static str| {
        let listed = CLIENTS.iter().find(|listed| listed.name == *name).unwrap();
        let switch = Switch::new();
        switch.open(server.listen());
        let url = format!("http://{}{HUB}?{query}", switch.address());
        Subscriber { name, switch, program: Program::spawn(&mut listed.command(folder, &url)) }
    };
    let all: Vec<Subscriber> = SUBSCRIBERS.iter().map(of).collect();
    server.wait_streams(all.len() as u64);
    all
}

fn all_hear(all: &[Subscriber], kind: &str, id: &str, data: &str) {
    for subscriber in all {
        assert_eq!(subscriber.hear(), [kind, id, data], "{}", subscriber.name);
    }
}

fn start_hub(data: &Path, key: &str) -> Server {
    // How long they take to come back is the machine's affair.
    Server::start_in(data, &[key, "--keepalive=1", "--history-seconds=600"])
}

#[test]
fn clients_of_others_hear_what_a_library_publishes_and_go_on_at_their_place() {
    let Some(folder) = programs_of(["node", "python", "mercure"]) else { return };
    let (files, data) = (Hub::key_file(), tempfile::tempdir().unwrap());
    let (key, option) = (files.path().join("key"), Hub::key_option(files.path()));
    let server = start_hub(data.path(), &option);
    let mut publisher = Publisher::start(&folder, &server, &key);
    let all = start_all(&folder, &server);
    let (book, bob) = ("https://a.test/books/1", "https://a.test/users/bob");

    let lines = json!({ "topic": book, "data": "a\nb\r\n\rc", "type": "sold", "id": "urn:1" });
    assert_eq!(publisher.publish(&lines), "urn:1");
    all_hear(&all, "sold", "urn:1", "a\nb\n\nc");
    let id = publisher.publish(&json!({ "topic": [book, "other", bob], "data": UNICODE }));
    all_hear(&all, "", &id, UNICODE);
    // Private: of eve nobody hears; as a dictionary it is JSON.
    publisher
        .publish(&json!({ "topic": "https://a.test/users/eve", "data": "x", "private": true }));
    let id = publisher.publish(&json!({ "topic": bob, "data": { "n": 1 }, "private": true }));
    all_hear(&all, "", &id, r#"{"n": 1}"#);

    all.iter().for_each(|subscriber| subscriber.switch.shut());
    server.wait_streams(0);
    let missed: Vec<(String, String)> = (0..20)
        .map(|n| (format!("missed {n}"), if n % 2 == 0 { book } else { bob }))
        .map(|(data, topic)| {
            let update = json!({ "topic": topic, "data": data, "private": topic == bob });
            (publisher.publish(&update), data)
        })
        .collect();
    all.iter().for_each(|subscriber| subscriber.switch.open(server.listen()));
    missed.iter().for_each(|(id, data)| all_hear(&all, "", id, data));

    server.into_program().kill();
    all.iter().for_each(|subscriber| subscriber.switch.shut());
    let server = start_hub(data.path(), &option);
    let mut publisher = Publisher::start(&folder, &server, &key);
    all.iter().for_each(|subscriber| subscriber.switch.open(server.listen()));
    for subscriber in &all {
        assert_eq!(subscriber.hear()[0], "gap", "{}", subscriber.name);
    }
    let id = publisher.publish(&json!({ "topic": book, "data": "last" }));
    all_hear(&all, "", &id, "last");
}

#[test]
fn cases_pass_as_any_hub_is_asked_them() {
    let allowed = format!("--allow-origin={PAGE}");
    let files = Hub::key_file();
    let key = Hub::key_option(files.path());
    let server = Server::start(&[&key, "--mercure-open", &allowed, PUBLIC_URL, ISSUER]);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compat/mercure/run.py");
    for dialect in ["old", "1.0"] {
        let mut command = Command::new("python3");
        command.arg(&sources).env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg(format!("{}{HUB}", server.url())).arg("--key").arg(files.path().join("key"));
        command.args(["--stored", "3000", "--dialect", dialect]);
        let finished = Program::run(&mut command);
        assert_eq!(finished.code(), Some(0), "{dialect}: {finished:?}");
    }
}
