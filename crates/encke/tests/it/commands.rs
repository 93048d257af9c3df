//! The commands that talk to a server, as people and scripts use them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::harness::{Finished, Program, Server, encke, wait_for};

/// Runs a command against the API of `server`.
fn run(server: &Server, args: &[&str]) -> Finished {
    Program::run(encke(args).args(["--api", &server.api_url()]))
}

/// What a command that does its work prints.
#[track_caller]
fn said(server: &Server, args: &[&str]) -> String {
    let finished = run(server, args);
    assert_eq!(finished.code(), Some(0), "{args:?}: {finished:?}");
    finished.stdout.trim_end().to_owned()
}

/// `encke listen`, online.
fn listen(server: &Server, ids: &[&str], options: &[&str]) -> Program {
    let mut command = encke(["listen", "--url", &server.url()]);
    let program = Program::spawn(command.args(ids).args(options));
    server.wait_online(ids[0], 1);
    program
}

#[test]
fn subscribe_send_and_listen_work_together() {
    let server = Server::start(&[]);
    assert_eq!(said(&server, &["subscribe", "bob", "rj"]), "bob now follows rj");
    assert!(said(&server, &["subscribe", "bob", "rj"]).starts_with("bob follow"));
    let bob = listen(&server, &["bob", "7"], &[]);
    assert_eq!(said(&server, &["send", "rj", "{\"photo\": 789}"]), "delivered to 1 connection");
    assert!(bob.line().ends_with("{\"photo\": 789}"));
    assert_eq!(said(&server, &["send", "7", "no JSON at all"]), "delivered to 1 connection");
    let line = bob.line();
    assert!(line.starts_with('7') && line.ends_with("\"no JSON at all\""), "{line}");
    assert_eq!(said(&server, &["send", "nobody", "true"]), "delivered to 0 connections");
    assert_eq!(said(&server, &["send", "7", "-5"]), "delivered to 1 connection");
    assert_eq!(said(&server, &["unsubscribe", "bob", "rj"]), "bob no longer follows rj");
    assert_eq!(said(&server, &["unsubscribe", "bob", "rj"]), "bob did not follow rj");
    assert_eq!(said(&server, &["send", "rj", "1"]), "delivered to 0 connections");
    bob.signal("INT");
    assert_eq!(bob.finish().code(), Some(0));
}

/// Numbers that no program's type holds, what is there twice, and spaces: all arrive as typed.
#[test]
fn payload_is_sent_as_written_and_what_is_no_json_as_a_text() {
    let server = Server::start(&[]);
    let mut stream = server.listener("7");
    for json in [
        "1.0",
        "-0",
        "1e400",
        "12345678901234567890.10",
        r#"{"z":1,"a":2,"z":3}"#,
        r#"{ "a" :  [1 ,2] }"#,
        r#""two  spaces, \u00e9, \/ and é""#,
        r#""true""#,
        "null",
    ] {
        for text in [json.to_owned(), format!(" {json} ")] {
            assert_eq!(said(&server, &["send", "7", &text]), "delivered to 1 connection");
            let line = stream.chunk();
            assert!(line.ends_with(&format!(",\"data\":{json}}}\n")), "{text}: {line}");
        }
    }
    for text in ["hello", "", "007", "NaN", "{\"a\":1", "1 2", "it's \"so\"", "'1'"] {
        assert_eq!(said(&server, &["send", "7", text]), "delivered to 1 connection");
        assert_eq!(stream.data(), text);
    }
}

#[test]
fn json_is_the_api_s_answer() {
    let server = Server::start(&[]);
    let answer = |args: &[&str]| -> Value {
        serde_json::from_str(&said(&server, &[args, &["--json"]].concat())).unwrap()
    };
    assert_eq!(answer(&["subscribe", "bob", "rj"]), json!({ "added": 1 }));
    let bob = listen(&server, &["bob"], &["--json", "--count=2"]);
    let first = answer(&["send", "rj", "[1,2]"]);
    let second = answer(&["send", "bob", "x"]);
    assert_eq!((&first["delivered"], &second["delivered"]), (&json!(1), &json!(1)));
    for (answer, about, data) in [(first, "rj", json!([1, 2])), (second, "bob", json!("x"))] {
        let event: Value = serde_json::from_str(&bob.line()).unwrap();
        assert_eq!(event, json!({ "id": answer["id"], "about": about, "data": data }));
    }
    assert_eq!(bob.finish().code(), Some(0), "ends after --count events");
    let once = ["send", "rj", "1", "--idempotency-key=a"];
    assert_eq!(answer(&once), answer(&once));
    assert_eq!(answer(&["unsubscribe", "bob", "rj"]), json!({ "removed": 1 }));
    assert_eq!(answer(&["subscribers", "rj"]), json!({ "ids": [], "next": null }));
}

#[test]
fn subscribers_lists_all_pages_one_id_a_line() {
    let server = Server::start(&[]);
    let lines: String = (0..23_000)
        .map(|n| format!("{{\"subscriber\":\"fan:{n}\",\"subscribee\":\"star\"}}\n"))
        .collect();
    server.api.post_lines("/subscriptions/add", &lines).ok();
    let mut fans: Vec<_> =
        said(&server, &["subscribers", "star"]).lines().map(String::from).collect();
    fans.sort_unstable();
    fans.dedup();
    assert_eq!(fans.len(), 23_000);
    assert_eq!(said(&server, &["subscribers", "fan:5"]), "");
    assert_eq!(said(&server, &["subscribers", "--following", "fan:5"]), "star");
    assert_eq!(said(&server, &["subscriptions", "fan:5"]), "star");
    let pages = said(&server, &["subscribers", "star", "--json"]);
    let pages: Vec<Value> = pages.lines().map(|page| serde_json::from_str(page).unwrap()).collect();
    assert!(pages.len() > 1 && pages.last().unwrap()["next"].is_null());
}

#[test]
fn problem_of_the_api_is_told_in_its_words() {
    let server = Server::start(&[]);
    let finished = run(&server, &["send", "a", "1", "--idempotency-key", &"x".repeat(2000)]);
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.starts_with("encke: "), "{finished:?}");
    assert!(finished.stderr.to_lowercase().contains("key"), "{finished:?}");
}

#[test]
fn no_server_is_a_sentence_and_exit_1() {
    // Bound and not listening: nobody else gets the port, and nobody answers there.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let free: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&free.into()).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap().as_socket().unwrap());
    for args in [
        &["send", "a", "1", "--api", &url][..],
        &["subscribe", "a", "b", "--api", &url],
        &["unsubscribe", "a", "b", "--api", &url],
        &["subscribers", "a", "--api", &url],
        &["connections", "a", "--api", &url],
        &["members", "a", "--api", &url],
        &["logout", "a", "--api", &url],
        &["listen", "a", "--url", &url],
        &["spam", "--seconds=1", "--api", &url],
        &["flood", "--seconds=1", "--users=5", "--url", &format!("{url}/stream/{{id}}")],
        &["graph", "load", "/dev/null", "--api", &url],
    ] {
        let finished = Program::run(&mut encke(args));
        assert_eq!(finished.code(), Some(1), "{args:?}: {finished:?}");
        let told = finished.stderr.lines().any(|line| {
            line.starts_with("encke: ") && line.contains(&url) && line.contains("encke serve")
        });
        assert!(told, "{args:?}: {finished:?}");
    }
}

#[test]
fn listener_on_a_websocket_hears_the_same_and_answers_pings() {
    let server = Server::start(&["--keepalive=0.2"]);
    let options = ["--transport=websocket", "--json", "--count=3"];
    let bob = listen(&server, &["bob", "7"], &options);
    assert_eq!(server.wait_streams(1)["streams_open"]["websocket"], 1);
    let sent = |about: &str, data: &str| said(&server, &["send", about, data]);
    sent("bob", "\"hello\"");
    wait_for("a ping", || server.api.stats()["keepalives"].as_u64() > Some(0));
    sent("7", "[1]");
    sent("bob", &format!("\"{}\"", "x".repeat(40_000)));
    let finished = bob.finish();
    let events: Vec<Value> =
        finished.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let data: Vec<&Value> = events.iter().map(|event| &event["data"]).collect();
    assert_eq!(data[..2], [&Value::from("hello"), &json!([1])]);
    assert_eq!(data[2].as_str().map(str::len), Some(40_000));
}

#[test]
fn listener_that_polls_hears_what_is_sent_between_its_polls() {
    // All of it may be sent between two polls.
    let server = Server::start(&["--history-events=1000"]);
    let options = ["--transport=poll", "--json", "--count=203"];
    let bob = listen(&server, &["bob", "7"], &options);
    // Its first poll does not wait.
    wait_for("it polls", || server.api.stats()["streams_open"]["poll"] == 1);
    let lines: String = (0..200)
        .map(|n| format!("{{\"about\":\"{}\",\"data\":{n}}}\n", ["bob", "7"][n % 2]))
        .collect();
    server.api.post_lines("/send", &lines);
    for n in 200..203 {
        server.api.send("bob", n);
    }
    let finished = bob.finish();
    let data = finished.stdout.lines().map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["data"].as_u64().unwrap()
    });
    assert!(data.eq(0..203), "{}", finished.stdout);
}

#[test]
fn every_command_explains_itself_with_examples() {
    let overview = Program::run(&mut encke(["help"]));
    assert_eq!(overview.code(), Some(0), "{overview:?}");
    let commands = [
        "demo",
        "serve",
        "send",
        "listen",
        "ready",
        "subscribe",
        "unsubscribe",
        "subscribers",
        "subscriptions",
        "connections",
        "members",
        "logout",
        "flood",
        "spam",
        "tune",
        "watch",
        "plot",
        "ketama",
        "graph",
        "graph generate",
        "graph load",
        "graph stats",
        "config check",
        "config print",
        "completions",
        "man",
    ];
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let first = format!("\n  {} ", words[0]);
        assert!(overview.stdout.contains(&first), "{command} is not in the overview");
        let help = Program::run(encke(&words).arg("--help"));
        assert_eq!(help.code(), Some(0), "{help:?}");
        let examples = help.stdout.split("Examples:").nth(1).unwrap();
        assert!(examples.contains(&format!("\n  encke {command}")), "{command}: {examples}");
        let same = Program::run(encke(["help"]).args(&words));
        assert_eq!((same.code(), same.stdout), (Some(0), help.stdout), "help {command}");
    }
    let version = Program::run(&mut encke(["--version"]));
    assert_eq!(version.stdout, format!("encke {}\n", env!("CARGO_PKG_VERSION")));
}

/// Runs `encke ARGS` and reads one line of it, as `| head -1` does. `before` makes it print one,
/// `after` makes it notice that nobody reads any more.
fn expect_good_end_in_head(args: &[&str], before: impl FnOnce(), after: impl FnOnce()) {
    let mut command = encke(args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    before();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "{args:?}");
    after();
    wait_for("the command ends", || child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
    assert!(!stderr.contains("panic") && !stderr.contains("report it"), "{args:?}: {stderr}");
}

#[test]
fn reader_that_has_enough_is_a_good_end() {
    let server = Server::start(&[]);
    let lines: String = (0..50_000)
        .map(|n| format!("{{\"subscriber\":\"fan:{n}\",\"subscribee\":\"star\"}}\n"))
        .collect();
    server.api.post_lines("/subscriptions/add", &lines).ok();
    let api = server.api_url();
    for args in
        [&["subscribers", "star", "--api", &api][..], &["graph", "generate", "--users=100000"]]
    {
        expect_good_end_in_head(args, || {}, || {});
    }
    let send_first = || {
        server.wait_online("bob", 1);
        assert_eq!(server.api.send("bob", 1), 1);
    };
    // Nothing more is said to it.
    expect_good_end_in_head(&["listen", "bob", "--url", &server.url()], send_first, || {});
    server.wait_online("bob", 0);
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let server = Server::start(&[]);
    for args in [&["send", "a", "1", "--api", &server.api_url()][..], &["graph", "generate"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = encke(args).stdout(full).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains("encke: ") && !stderr.contains("report it"), "{stderr}");
    }
}
