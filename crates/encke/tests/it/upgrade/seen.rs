//! What is seen of an upgrade: on the terminal, in the log, in the figures, on the dashboard.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::served::Upgraded;
use super::subscriber::{Kind, STREAMS, Subscriber};
use crate::harness::{Program, encke, get, wait_for};
use crate::watch::{rows, watch};

/// The value of the metric `name`, as a float.
fn metric(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
}

#[test]
fn counters_go_on_where_they_were() {
    let server = Upgraded::serve(&["--websocket-deflate", "--workers=2"]);
    server.api.subscribe("all", "rj");
    let open = |&kind: &Kind| Subscriber::open(server.listen(), kind, &["all"]);
    let mut subscribers: Vec<Subscriber> = STREAMS.iter().map(open).collect();
    for n in 0..25 {
        assert_eq!(server.api.send("rj", n.to_string()), STREAMS.len() as u64);
    }
    // One of each end, and a refusal.
    drop(subscribers.pop());
    server.wait_open(STREAMS.len() as u64 - 1);
    assert_eq!(server.ask(get("/nowhere", &[])).head().status, 404);
    server.wait_closed("bad_request", 1);
    let figures = |stats: &Value| {
        let members = [
            "events",
            "deliveries",
            "dropped",
            "connections_open",
            "connections_opened",
            "connections_closed",
            "streams_open",
            "ids_online",
            "subscriptions",
            "history_events",
            "resumes",
            "keepalives",
        ];
        members.map(|member| (member, stats[member].clone()))
    };
    let (before, metrics_before) = (figures(&server.api.stats()), server.api.get("/metrics").body);
    server.upgrade(&[]);
    assert_eq!(figures(&server.api.stats()), before);
    assert_eq!(server.api.send("rj", "one more"), STREAMS.len() as u64 - 1);
    let after = server.api.stats();
    assert_eq!(after["events"], 26);
    assert_eq!(after["deliveries"], 26 * STREAMS.len() - 1);
    // No counter of a scraper goes back.
    let metrics = server.api.get("/metrics").body;
    for line in metrics_before.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        if name.contains("_total") || name.contains("_count") || name.contains("_bucket") {
            let was: f64 = value.parse().unwrap();
            // A worker of the old process may have another number now, a process is another one,
            // and how long something took is of each process.
            let is_of_process =
                ["worker=", "process_", "_seconds"].iter().any(|of| name.contains(of));
            if !is_of_process {
                assert!(metric(&metrics, name) >= was, "{name} was {was}");
            }
        }
    }
}

#[test]
fn upgrade_is_seen_on_the_terminal_in_the_log_and_in_the_figures() {
    let server = Upgraded::serve(&["--websocket-deflate"]);
    let open = |&kind: &Kind| Subscriber::open(server.listen(), kind, &["all"]);
    let subscribers: Vec<Subscriber> = STREAMS.iter().cycle().take(24).map(open).collect();
    let old = server.owner();
    let said = server.upgrade(&[]);
    let told = format!("{}{}", said.stdout, said.stderr);
    for words in ["24", &server.owner().to_string()] {
        assert!(told.contains(words), "{words} in {told}");
    }
    assert!(told.lines().count() >= 2, "progress: {told}");
    // One line of each of the two; the new one's may come a little later.
    let lines = || server.stderr().matches("has taken over").count();
    wait_for("both have said so", || lines() >= 2);
    assert_eq!(lines(), 2, "{}", server.stderr());
    // Its command line is ours, so its user is not warned of it.
    assert!(!server.stderr().contains("old name"), "{}", server.stderr());
    let metrics = server.api.get("/metrics").body;
    assert_eq!(metric(&metrics, "encke_upgrade_streams"), subscribers.len() as f64);
    let names = ["encke_upgrade_seconds", "encke_upgrade_pause_seconds"];
    let [seconds, pause] = names.map(|name| metric(&metrics, name));
    assert!(pause > 0.0 && seconds >= pause, "{seconds} s, {pause} s");
    server.wait_ended(old);
}

/// Programs that keep a connection to the API go on by another one when it has its last answer.
#[test]
fn watch_and_senders_go_on() {
    let server = Upgraded::serve(&[]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.csv");
    let text = || std::fs::read_to_string(&file).unwrap_or_default();
    let watch = watch(&server.api_url(), &file);
    let spam = ["spam", "--json", "--post", "--connections=4", "--rate=500", "--users=10"];
    let options = ["--seconds=3600", "--late-after=60", "--api", &server.api_url()];
    let spam = Program::spawn(encke(spam).args(options));
    for _ in 0..3 {
        let seen = text().lines().count();
        wait_for("more rows", || text().lines().count() > seen + 3);
        let old = server.owner();
        server.upgrade(&[]);
        server.wait_ended(old);
    }
    let seen = text().lines().count();
    wait_for("rows of the last server", || text().lines().count() > seen + 3);
    for program in [&watch, &spam] {
        program.signal("INT");
    }
    let (watched, sent) = (watch.finish(), spam.finish());
    assert_eq!((watched.code(), sent.code()), (Some(0), Some(0)), "{watched:?} {sent:?}");
    for row in rows(&text()) {
        assert_eq!(row["connections_open"], "0", "a row without an answer: {row:?}");
    }
    let report: Value = serde_json::from_str(sent.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(report["answered"], report["sent"], "{report}");
    assert!(report["sent"].as_u64() > Some(100), "{report}");
}

/// Who looks at the dashboard goes on to see figures that live.
#[test]
fn dashboard_stays_live() {
    let server = Upgraded::serve(&[]);
    let facts = server.api.get("/dashboard.json").ok();
    let id = facts["id"].as_str().unwrap();
    let mut page = Subscriber::open(server.listen(), Kind::Sse, &[id]);
    page.hear();
    for _ in 0..2 {
        server.upgrade(&[]);
        // What was on its way, and then some.
        page.heard.clear();
        (0..3).for_each(|_| drop(page.hear()));
        assert_eq!(page.gaps, 0);
        assert_eq!(server.api.get("/dashboard.json").ok()["id"], facts["id"]);
    }
    assert_eq!(server.api.stats()["connections_opened"], json!(1));
}

#[test]
fn ready_is_said_all_the_time() {
    let server = Upgraded::serve(&[]);
    let (stop, api) = (AtomicBool::new(false), server.api.another());
    std::thread::scope(|scope| {
        let stop = &stop;
        let asking = scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                for path in ["/readyz", "/healthz"] {
                    let answer = api.get(path);
                    assert_eq!(answer.status(), 200, "{path}: {answer:?}");
                }
            }
        });
        (0..3).for_each(|_| drop(server.upgrade(&[])));
        stop.store(true, Ordering::Relaxed);
        asking.join().unwrap();
    });
}
