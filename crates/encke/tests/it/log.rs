//! The log: its lines as JSON, and what it says of clients, of which there may be many.

use serde_json::Value;

use crate::harness::{Program, Server, encke, get, wait_for};

/// The lines that are whole, as JSON.
fn lines(stderr: &str) -> Vec<Value> {
    let whole = stderr.rfind('\n').map_or("", |end| &stderr[..end]);
    let line = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    whole.lines().map(line).collect()
}

#[test]
fn clients_that_are_refused_or_too_slow_have_lines_in_the_log() {
    let server = Server::start(&["--log-format=json"]);
    let mut refused = server.ask(get("/nowhere", &[]));
    let from = refused.socket().local_addr().unwrap().to_string();
    assert_eq!(refused.head().status, 404);
    wait_for("the log tells of it", || {
        let lines = lines(&server.stderr());
        lines.iter().any(|line| line["status"] == 404 && line["peer"] == *from)
    });
    let slow = server.listener("bob");
    let payload = "z".repeat(60_000);
    wait_for("bob is closed", || {
        server.api.send("bob", payload.clone());
        server.api.stats()["connections_closed"]["slow_reader"] == 1
    });
    wait_for("the log tells of bob", || {
        lines(&server.stderr()).iter().any(|line| {
            line["id"] == "bob"
                && line["backlog_bytes"].as_u64().is_some_and(|bytes| bytes > 65_536)
        })
    });
    drop(slow);
    for line in lines(&server.stderr()) {
        for member in ["timestamp", "level", "message"] {
            assert!(line[member].is_string(), "{member} in {line}");
        }
    }
}

#[test]
fn crowd_that_is_refused_does_not_fill_the_log() {
    let server = Server::start(&[]);
    for _ in 0..60 {
        let mut wire = server.ask(get("/stream/x", &["Origin: https://evil.test"]));
        assert_eq!(wire.head().status, 403);
        assert_eq!(server.ask(get("/nowhere", &[])).head().status, 404);
    }
    wait_for("some are told", || server.stderr().contains("a client was refused"));
    wait_for("the origin is told", || server.stderr().contains("https://evil.test"));
    // Ten a minute.
    let told = server.stderr().matches("a client was refused").count();
    assert!(told <= 50, "{told} lines");
    let of_origin = |line: &&str| line.contains("https://evil.test");
    assert_eq!(server.stderr().lines().filter(of_origin).count(), 1, "{}", server.stderr());
    assert_eq!(server.stop("TERM").code(), Some(0));
}

#[test]
fn failure_of_a_command_is_json_where_the_log_is() {
    let args = ["graph", "stats", "--data=not-there", "--log-format=json"];
    let failed = Program::run(&mut encke(args));
    assert_eq!(failed.code(), Some(1));
    let lines = lines(&failed.stderr);
    assert_eq!((lines.len(), &lines[0]["level"]), (1, &Value::from("ERROR")));
    assert!(lines[0]["message"].as_str().unwrap().contains("no friends graph"), "{failed:?}");
    assert_eq!(Program::run(&mut encke(["tune", "--log-format=xml"])).code(), Some(2));
}
