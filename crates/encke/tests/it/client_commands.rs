//! The commands that are one request each: what `send` takes, who is online, bad ids, and all of
//! them by https.

use std::fs;
use std::io::Write;

use serde_json::json;

use crate::harness::{Authority, Finished, Program, Server, encke};
use crate::tls_api;

/// Runs a command against the API of `server`.
fn run(server: &Server, args: &[&str]) -> Finished {
    Program::run(encke(args).args(["--api", &server.api_url()]))
}

#[track_caller]
fn said(server: &Server, args: &[&str]) -> String {
    let finished = run(server, args);
    assert_eq!(finished.code(), Some(0), "{args:?}: {finished:?}");
    finished.stdout.trim_end().to_owned()
}

/// `encke send 7 -` with `input`.
fn send_input(server: &Server, input: &[u8]) -> Finished {
    let mut command = encke(["send", "7", "-", "--api", &server.api_url()]);
    let (program, mut stdin) = Program::spawn_with_input(&mut command);
    // A program that has enough of it does not read the rest.
    let _ = stdin.write_all(input);
    drop(stdin);
    program.finish()
}

#[test]
fn data_comes_from_standard_input_and_from_files() {
    let server = Server::start(&[]);
    let mut stream = server.listener("7");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let from_file = format!("@{}", path.display());
    for (input, data) in [
        ("{ \"photo\": 789 }\n", json!({ "photo": 789 })),
        ("two\nlines\r\n", json!("two\nlines")),
        ("", json!("")),
        ("[1,\n2]", json!([1, 2])),
    ] {
        assert_eq!(send_input(&server, input.as_bytes()).code(), Some(0));
        assert_eq!(stream.data(), data);
        fs::write(&path, input).unwrap();
        assert_eq!(said(&server, &["send", "7", &from_file]), "delivered to 1 connection");
        assert_eq!(stream.data(), data);
    }
    assert_eq!(said(&server, &["send", "7", "\"@rj\""]), "delivered to 1 connection");
    assert_eq!(stream.data(), "@rj");
    let missing = run(&server, &["send", "7", "@rj"]);
    assert_eq!(missing.code(), Some(1), "{missing:?}");
    assert!(missing.stderr.contains("write '\"@rj\"'"), "{missing:?}");
    for (input, word) in [(vec![b'x'; (1 << 20) + 1], "1048576 bytes"), (vec![0xff], "UTF-8")] {
        let refused = send_input(&server, &input);
        assert_eq!(refused.code(), Some(1), "{refused:?}");
        assert!(refused.stderr.contains(word), "{refused:?}");
    }
}

#[test]
fn broken_json_is_sent_as_a_text_and_that_is_said() {
    let server = Server::start(&[]);
    let mut stream = server.listener("7");
    for (text, is_told) in
        [("{\"a\":1", true), (" [1,]", true), ("\"x", true), ("hello", false), ("{}", false)]
    {
        let finished = run(&server, &["send", "7", text]);
        assert_eq!(finished.code(), Some(0), "{finished:?}");
        let told = finished.stderr.contains("sent as a text, since it is no JSON: ");
        assert_eq!((told, finished.stderr.is_empty()), (is_told, !is_told), "{finished:?}");
        assert_eq!(stream.data(), if text == "{}" { json!({}) } else { json!(text) });
    }
}

#[test]
fn who_is_online_is_told_and_logged_out() {
    let server = Server::start(&[]);
    assert_eq!(said(&server, &["connections", "bob:7"]), "bob:7 is offline");
    assert_eq!(said(&server, &["logout", "bob:7"]), "bob:7 was not online");
    let (_first, second) = (server.listener("bob:7"), server.listener("bob:7"));
    assert_eq!(said(&server, &["connections", "bob:7"]), "bob:7 is online with 2 connections");
    assert_eq!(said(&server, &["connections", "bob:7", "--json"]), "{\"connections\":2}");
    drop(second);
    server.wait_open(1);
    assert_eq!(said(&server, &["connections", "bob:7"]), "bob:7 is online with 1 connection");
    assert_eq!(said(&server, &["logout", "bob:7"]), "ended 1 connection of bob:7");
    server.wait_closed("logged_out", 1);
    assert_eq!(said(&server, &["logout", "bob:7", "--json"]), "{\"closed\":0}");
}

#[test]
fn subscriptions_lists_whom_an_id_follows() {
    let server = Server::start(&[]);
    assert_eq!(said(&server, &["subscriptions", "bob"]), "");
    for subscribee in ["rj", "7"] {
        said(&server, &["subscribe", "bob", subscribee]);
    }
    let listed = said(&server, &["subscriptions", "bob"]);
    let mut lines: Vec<_> = listed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["7", "rj"]);
    assert_eq!(said(&server, &["subscribers", "rj", "--following"]), "");
    assert!(said(&server, &["subscriptions", "bob", "--json"]).contains("\"next\":null"));
}

/// Nobody is asked: no server is there.
#[test]
fn bad_id_is_wrong_usage() {
    let long = "x".repeat(256);
    for args in [
        &["send", "a b", "1"][..],
        &["send", "", "1"],
        &["send", &long, "1"],
        &["subscribe", "a/b", "c"],
        &["subscribe", "a", "c?"],
        &["unsubscribe", "a#", "c"],
        &["subscribers", "a\tb"],
        &["subscriptions", "a b"],
        &["connections", "a b"],
        &["members", "a b"],
        &["logout", "a b"],
        &["listen", "a", "a b"],
    ] {
        let finished = Program::run(&mut encke(args));
        assert_eq!(finished.code(), Some(2), "{args:?}: {finished:?}");
        assert!(finished.stderr.contains("an id "), "{args:?}: {finished:?}");
    }
}

/// Each command that takes the URL of an API, by https, with the authority in the environment.
#[test]
fn every_command_speaks_https() {
    let authority = Authority::new();
    let server = tls_api::server(&authority, &[]);
    let (url, ca) = (server.tls_url(), authority.ca());
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("pairs"), "a b\n").unwrap();
    for args in [
        &["send", "a", "1"][..],
        &["subscribe", "a", "b"],
        &["subscribers", "b"],
        &["subscriptions", "a"],
        &["unsubscribe", "a", "b"],
        &["connections", "a"],
        &["members", "a"],
        &["logout", "a"],
        &["cluster", "status"],
        &["graph", "load", "pairs"],
        &["spam", "--users=10", "--rate=100", "--seconds=1", "--late-after=60"],
        &["watch", "-o", "run.csv", "--seconds=1"],
    ] {
        let mut command = encke(args);
        command.args(["--api", &url]).env("ENCKE_CA", &ca).current_dir(directory.path());
        let finished = Program::run(&mut command);
        assert_eq!(finished.code(), Some(0), "{args:?}: {finished:?}");
    }
}
