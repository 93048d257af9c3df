//! What is refused: options that keep nothing, and durable events that no rule keeps.

use serde_json::json;

use super::{send, send_durable};
use crate::harness::{Program, Server, encke};

#[test]
fn options_that_cannot_be_kept_are_refused_with_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let serve = ["serve", "--listen=127.0.0.1:0", "--api=127.0.0.1:0"];
    for (options, why) in [
        (&["--keep=a"][..], "PATTERN=AGE"),
        (&["--keep=a b=7d"], "the pattern is an id, a topic"),
        (&["--keep=a=7d,0"], "keeps events for some time"),
        (&["--keep=*=7d", "--log-bytes=1KiB"], "at least"),
        (&["--keep=*=7d", "--log-sync=never"], "never"),
        (&["--keep=*=7d", "--history-events=0"], "needs a server that remembers"),
        (&["--keep=*=7d", "--history-bytes=0"], "needs a server that remembers"),
    ] {
        let mut command = encke(serve);
        let program = Program::run(command.args(options).arg("--data").arg(dir.path()));
        assert_eq!(program.code(), Some(2), "{options:?}: {}", program.stderr);
        assert!(program.stderr.contains(why), "{options:?}: {}", program.stderr);
    }
}

#[test]
fn durable_event_that_no_rule_keeps_is_refused() {
    let server = Server::start(&["--keep=k*=7d"]);
    let event = |about: &str| json!({ "about": about, "data": 1, "durable": true });
    let problem = server.api.post("/send", &event("x")).problem(400);
    assert!(problem["detail"].as_str().unwrap().contains("--keep"), "{problem}");
    server.api.post("/send", &event("k1")).ok();
    let several = json!({ "about": ["x", "k1"], "data": 1, "durable": true });
    server.api.post("/send", &several).ok();
    let lines = format!("{}\n{}\n", event("k1"), event("x"));
    let answers = server.api.post_lines("/send", &lines).body;
    let answers: Vec<&str> = answers.lines().collect();
    assert!(answers[0].contains("\"delivered\"") && answers[1].contains("400"), "{answers:?}");
    let keyed = json!({ "about": "k1", "data": 1, "durable": true, "key": "one" });
    let first = server.api.post("/send", &keyed).ok();
    assert_eq!(server.api.post("/send", &keyed).ok(), first);
    let log = server.api.stats()["log"].take();
    assert!(log["bytes"].as_u64() > Some(0) && log["failing"] == false, "{log}");
    let without = Server::start(&[]);
    without.api.post("/send", &event("k1")).problem(400);
    assert!(without.api.stats()["log"].is_null());
}

#[test]
fn all_that_is_kept_is_answered_from_the_disk_if_it_is_to_be() {
    let data = tempfile::tempdir().unwrap();
    let options = ["--keep=k*=7d", "--log-sync=always"];
    let server = Server::start_in(data.path(), &options);
    let place = send(&server.api, "k1", 0);
    (1..50).for_each(|nth| drop(send(&server.api, "k1", nth)));
    send(&server.api, "x", 1);
    send_durable(&server.api, "k1", 50);
    server.stop("KILL");
    let server = Server::start_in(data.path(), &options);
    let mut back = server.listener(&format!("k1?after={place}"));
    (1..=50).for_each(|nth| assert_eq!(back.data(), nth));
}
