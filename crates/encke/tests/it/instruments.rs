//! `encke flood` and `encke spam`: their accounts agree with the server's.

use std::net::TcpListener;

use serde_json::Value;

use crate::harness::{Finished, Program, Server, encke, wait_for};

#[expect(dead_code, reason = "the instruments' own tests do more with it")]
#[path = "../../../load/tests/it/server.rs"]
mod scripted;

use scripted::Fate;

/// On a busy machine events come late without being lost.
const LATE: &str = "--late-after=60";

/// The summary that an instrument with `--json` prints.
#[track_caller]
pub(super) fn report(finished: &Finished) -> Value {
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    serde_json::from_str(&finished.stdout).unwrap()
}

fn number(report: &Value, member: &str) -> u64 {
    report[member].as_u64().unwrap_or_else(|| panic!("{member} of {report}"))
}

/// It has failed and says why, for people and in its report.
#[track_caller]
fn expect_failure(finished: &Finished, words: &str) {
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.lines().last().unwrap().contains(words), "{words}: {finished:?}");
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert!(report["faults"].to_string().contains(words), "{words}: {report}");
}

/// The server's listeners, users 0 to 199, all online.
fn flood(server: &Server, transport: &str) -> Program {
    flood_at(server, &server.url(), transport, &[])
}

/// The same, who go to `base`.
pub(super) fn flood_at(server: &Server, base: &str, transport: &str, options: &[&str]) -> Program {
    let path = match transport {
        "classic" => "test",
        "poll" => "poll",
        _ => "stream",
    };
    let url = format!("{base}/{path}/{{id}}");
    let args = ["flood", "--users=200", "--json", "--transport", transport, "--url", &url];
    let flood = Program::spawn(encke(args).arg(LATE).args(options));
    server.wait_streams(200);
    flood
}

fn spam(server: &Server, options: &[&str]) -> Value {
    spam_at(&server.api_url(), options)
}

pub(super) fn spam_at(api: &str, options: &[&str]) -> Value {
    let fixed = ["spam", "--users=200", "--seconds=1", "--rate=500", "--json", "--api"];
    report(&Program::run(encke(fixed).arg(api).arg(LATE).args(options)))
}

/// Ends the crowd once it has told of so many events.
pub(super) fn end(flood: Program, events: u64) -> Value {
    let grouped = match events {
        0..1000 => events.to_string(),
        _ => format!("{},{:03}", events / 1000, events % 1000),
    };
    let told = format!("  events {grouped} (");
    wait_for(&format!("the crowd tells of {events} events"), || flood.stderr().contains(&told));
    flood.signal("INT");
    report(&flood.finish())
}

/// What must hold of a crowd and its senders when nothing went wrong.
pub(super) fn expect_no_loss(server: &Server, spam: &Value, flood: &Value) {
    let sent = number(spam, "sent");
    // Fewer where the machine had other things to do, never more.
    assert!((1..=500).contains(&sent), "1 s at 500 a second: {spam}");
    assert_eq!((number(spam, "answered"), &spam["problems"]), (sent, &serde_json::json!({})));
    let delivered = number(spam, "delivered");
    assert_eq!((number(flood, "events"), number(flood, "stamped")), (delivered, delivered));
    for member in ["missing", "doubled", "overtaken", "stale", "untracked", "failed", "closed"] {
        assert_eq!(number(flood, member), 0, "{member} of {flood}");
    }
    assert_eq!((number(flood, "opened"), number(flood, "open")), (200, 200));
    assert_eq!(number(&flood["latency"], "count"), delivered);
    let stats = server.wait_open(0);
    assert_eq!((&stats["events"], &stats["deliveries"]), (&sent.into(), &delivered.into()));
    assert_eq!(stats["dropped"], 0);
}

#[test]
fn accounts_of_senders_listeners_and_server_agree() {
    for (transport, options) in [
        ("sse", &[][..]),
        ("ndjson", &["--zipf", "--payload=2000", "--connections=4"]),
        ("classic", &["--post", "--senders=3"]),
        ("websocket", &["--payload=300", "--connections=2"]),
    ] {
        let server = Server::start(&[]);
        let listeners = flood(&server, transport);
        let spam = spam(&server, options);
        assert_eq!(number(&spam, "delivered"), number(&spam, "sent"), "each about one user online");
        let flood = end(listeners, number(&spam, "delivered"));
        expect_no_loss(&server, &spam, &flood);
    }
}

/// What falls between two polls is delivered to nobody and heard all the same.
#[test]
fn listener_that_polls_hears_all_that_is_sent() {
    let server = Server::start(&[]);
    let listeners = flood(&server, "poll");
    wait_for("all of them poll", || server.api.stats()["streams_open"]["poll"] == 200);
    let spam = spam(&server, &["--connections=2"]);
    let sent = number(&spam, "sent");
    assert!(number(&spam, "delivered") <= sent, "{spam}");
    let flood = end(listeners, sent);
    assert_eq!((number(&flood, "events"), number(&flood, "stamped")), (sent, sent));
    for member in ["missing", "doubled", "overtaken", "untracked", "failed", "closed"] {
        assert_eq!(number(&flood, member), 0, "{member} of {flood}");
    }
    assert_eq!((number(&flood, "opened"), number(&flood, "open")), (200, 200));
    assert_eq!(server.wait_open(0)["connections_opened"], 200, "on connections that stay");
}

#[test]
fn friends_hear_what_is_about_each_other() {
    let server = Server::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("friends.txt");
    let generate = ["graph", "generate", "--users=200", "--edges-per-user=5", "-o"];
    assert_eq!(Program::run(encke(generate).arg(&file)).code(), Some(0));
    let mut load = encke(["graph", "load", "--both", "--api", &server.api_url()]);
    assert_eq!(Program::run(load.arg(&file)).code(), Some(0));
    let listeners = flood(&server, "sse");
    let spam = spam(&server, &[]);
    assert!(number(&spam, "delivered") > 5 * number(&spam, "sent"), "{spam}");
    let flood = end(listeners, number(&spam, "delivered"));
    expect_no_loss(&server, &spam, &flood);
}

#[test]
fn streams_that_the_server_ends_are_told_by_reason() {
    let server = Server::start(&["--workers=1", "--max-connections=150"]);
    let url = format!("{}/stream/{{id}}", server.url());
    let flood = Program::spawn(&mut encke(["flood", "--users=200", "--json", "--url", &url]));
    server.wait_closed("full", 50);
    server.wait_streams(150);
    assert_eq!(server.stop("TERM").code(), Some(0));
    wait_for("the crowd hears of the end", || flood.stderr().contains("closed 150"));
    flood.signal("TERM");
    let flood = flood.finish();
    for words in ["connections that did not open: 50 (status 50), the first for: status 503", "150"]
    {
        expect_failure(&flood, words);
    }
    let report: Value = serde_json::from_str(&flood.stdout).unwrap();
    assert_eq!((number(&report, "opened"), number(&report, "failed")), (150, 50), "{report}");
    assert_eq!((number(&report, "closed"), number(&report, "open")), (150, 0), "{report}");
}

/// A server that treats the 150th of 200 events badly: who can see it fails, and says what it was.
#[test]
fn fault_of_the_server_is_the_instruments_failure() {
    for (fate, heard, sender, listener) in [
        (Fate::Deliver, 200, None, None),
        (Fate::Lose, 199, None, Some("1 events are missing")),
        (Fate::Double, 201, None, Some("1 events came twice")),
        (Fate::Overtake, 200, None, Some("1 events came behind a newer one")),
        (Fate::Refuse, 199, Some("refused: 1 (Refused 1)"), Some("1 events are missing")),
        (Fate::Silent, 200, Some("1 events were not answered"), None),
    ] {
        let deliver = move |number| if number == 150 { fate } else { Fate::Deliver };
        let server = scripted::Server::start(deliver);
        let url = server.stream_url();
        let listeners = ["flood", "--users=10", "--late-after=60", "--json", "--url", &url];
        let listeners = Program::spawn(&mut encke(listeners));
        wait_for("the crowd is online", || listeners.stderr().contains("  open 10 "));
        let spam = ["spam", "--users=10", "--rate=10000", "--seconds=0.02", "--late-after=60"];
        let spam = Program::run(encke(spam).args(["--json", "--api", &server.url()]));
        let told = format!("  events {heard} (");
        wait_for("the crowd has heard it", || listeners.stderr().contains(&told));
        listeners.signal("INT");
        let listeners = listeners.finish();
        for (finished, fault) in [(&spam, sender), (&listeners, listener)] {
            match fault {
                Some(words) => expect_failure(finished, words),
                None => assert_eq!(report(finished)["faults"], serde_json::json!([]), "{fate:?}"),
            }
        }
    }
}

/// The first one waits for the answers under way, and there are none.
#[test]
fn second_signal_ends_spam_whose_api_is_mute() {
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let api = format!("http://{}", mute.local_addr().unwrap());
    let args = ["spam", "--users=10", "--rate=10", "--json", "--api", &api];
    let mut spam = Program::spawn(&mut encke(args));
    wait_for("it sends", || spam.stderr().contains("  sent "));
    // Signals that come together are one.
    wait_for("it has ended", || {
        spam.signal("INT");
        spam.has_ended()
    });
    assert_eq!(spam.exit_code(), Some(130), "{}", spam.stderr());
}

/// What is right for `encke listen | head` is none for an instrument: nobody has checked its run.
#[test]
fn instrument_whose_output_is_closed_does_not_succeed() {
    let server = Server::start(&[]);
    let script = "\"$@\" | head -n 1; exit ${PIPESTATUS[0]}";
    let spam = ["spam", "--users=10", "--rate=10", "--seconds=600", "--api", &server.api_url()];
    let spam = encke(spam);
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", script, "bash"]).arg(spam.get_program()).args(spam.get_args());
    let finished = Program::run(&mut bash);
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains("nothing was checked"), "{finished:?}");
}
