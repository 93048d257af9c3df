//! `encke demo`: it shows the whole system, and whatever ends it leaves nothing behind.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Api, Finished, Program, Stream, encke, wait_for};

/// The number of that signal (signal(7)).
const SIGHUP: i32 = 1;

/// A demo's own rate is more than a busy machine sends in time, which the demo takes for a fault.
const RATE: &str = "--rate=200";

/// A demo on free ports, whose temporary directory would stand in a folder of its own.
struct Demo {
    program: Program,
    temporary: TempDir,
}

impl Demo {
    fn start(options: &[&str]) -> Demo {
        let temporary = tempfile::tempdir().unwrap();
        let program = Program::spawn(demo(options).env("TMPDIR", temporary.path()));
        Demo { program, temporary }
    }

    /// Waits until it has said `words`.
    fn wait_said(&self, words: &str) {
        wait_for(&format!("the demo says {words:?}"), || self.program.stderr().contains(words));
    }

    /// What follows `words` in the line that it says, up to the next space.
    fn told(&self, words: &str) -> String {
        let line = || {
            let said = self.program.stderr();
            let (line, _) = said.split_once(words)?.1.split_once('\n')?;
            Some(line.split(' ').next()?.to_owned())
        };
        wait_for(&format!("the demo says {words:?}"), || line().is_some());
        line().unwrap()
    }

    fn server(&self) -> Process {
        Process(self.told("server   process "))
    }

    /// Waits for its end, and that of the server, which keeps standard error open as long as it is
    /// there.
    #[track_caller]
    fn finish(self) -> Finished {
        let finished = self.program.finish();
        let left: Vec<_> = fs::read_dir(&self.temporary).unwrap().collect();
        assert!(left.is_empty(), "{left:?} is left: {finished:?}");
        finished
    }
}

/// Another process than the child itself.
struct Process(String);

impl Process {
    fn signal(&self, name: &str) {
        testing::signal(self.0.parse().unwrap(), name);
    }

    fn wait_gone(&self) {
        let status = Path::new("/proc").join(&self.0).join("status");
        // Whoever inherits it may take its time to bury it.
        wait_for("the server has ended", || {
            fs::read_to_string(&status).map_or(true, |status| status.contains("\nState:\tZ"))
        });
    }
}

fn demo(options: &[&str]) -> Command {
    let mut command = encke(["demo", "--listen=127.0.0.1:0", "--api=127.0.0.1:0", "--json"]);
    command.args(options);
    command
}

#[track_caller]
fn report(finished: &Finished) -> Value {
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    serde_json::from_str(&finished.stdout).unwrap()
}

fn number(report: &Value, member: &str) -> u64 {
    report[member].as_u64().unwrap_or_else(|| panic!("{member} of {report}"))
}

#[test]
fn demo_shows_the_whole_system_and_loses_nothing() {
    let finished = Program::run(&mut demo(&["--users=200", "--seconds=3", RATE]));
    let told = report(&finished);
    assert_eq!(told["lost"], 0, "{told}");
    let sent = number(&told["spam"], "sent");
    let delivered = number(&told["spam"], "delivered");
    // Each of 200 users but the first 16, who all know each other, brings 15 edges.
    assert_eq!(number(&told["graph"], "subscriptions"), 2_880);
    assert!(delivered > 10 * sent && sent > 0, "{told}");
    assert_eq!(number(&told["flood"], "stamped"), delivered);
    assert_eq!(number(&told["server"], "deliveries"), delivered);
    for when in ["idle", "traffic"] {
        let bytes = |of: &str| number(&told["server"], &format!("{of}_bytes_{when}"));
        assert!(bytes("anonymous") > 0 && bytes("file") > 0, "{told}");
        assert!(bytes("anonymous").max(bytes("file")) < bytes("resident"), "{told}");
    }
    assert!(told["connecting"]["per_second"].as_f64().unwrap() > 0.0, "{told}");
    assert!(finished.stderr.contains("http://127.0.0.1:"), "tells where to look: {finished:?}");
    assert!(finished.stderr.contains("200 events/s x 15.4 listeners"), "{finished:?}");
}

#[test]
fn demo_prints_a_table_for_people_whatever_the_transport() {
    for transport in ["ndjson", "classic", "websocket"] {
        let args = ["demo", "--listen=127.0.0.1:0", "--api=127.0.0.1:0", "--users=100", "--both"];
        let options = ["--seconds=1", "--rate=200", "--transport", transport];
        let plain = Program::run(encke(args).args(options));
        assert_eq!(plain.code(), Some(0), "{plain:?}");
        for words in ["connections", "100 opened, 0 failed", "latency", "lost 0 ("] {
            assert!(plain.stdout.contains(words), "{words}: {plain:?}");
        }
        assert!(!plain.stdout.contains('\r') && !plain.stdout.contains('\u{1b}'), "no terminal");
    }
}

#[test]
fn signal_while_sending_ends_the_demo_and_its_server_in_order() {
    for signal in ["INT", "TERM"] {
        let demo = Demo::start(&["--users=50", RATE]);
        let server = demo.server();
        demo.wait_said("sending");
        demo.program.signal(signal);
        let finished = demo.finish();
        assert_eq!(report(&finished)["lost"], 0);
        server.wait_gone();
    }
}

#[test]
fn signal_while_the_graph_is_made_leaves_nothing() {
    let demo = Demo::start(&["--users=500000"]);
    wait_for("the graph is begun", || {
        let mut directories = fs::read_dir(&demo.temporary).unwrap();
        directories.any(|dir| dir.unwrap().path().join("demo.json").exists())
    });
    demo.program.signal("INT");
    let finished = demo.finish();
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(0), ""), "{finished:?}");
}

#[test]
fn signals_at_any_moment_of_the_start_leave_nothing() {
    // A directory, in which come the store, the mark of the demo, and what its server has there.
    for moment in ["", "/lock", "/data.mdb", "/data.state", "/demo.json", "/epoch"] {
        for signals in ["INT", "TERM", "HUP", "INT INT", "TERM HUP INT"] {
            if signals.contains("HUP") && sys::signals::is_ignored(SIGHUP).unwrap() {
                continue;
            }
            let demo = Demo::start(&["--users=2000"]);
            demo.program.signal_at(&demo.temporary.path().join(format!(".tmp*{moment}")), signals);
            let finished = demo.finish();
            let codes: &[i32] = if signals.contains(' ') { &[0, 129, 130, 143] } else { &[0] };
            let ended = finished.code().is_some_and(|code| codes.contains(&code));
            assert!(ended, "{signals} at {moment}: {finished:?}");
        }
    }
}

#[test]
fn demo_outlives_its_terminal_when_it_was_started_so() {
    let temporary = tempfile::tempdir().unwrap();
    let own = demo(&["--users=50", RATE]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(own.get_program());
    command.args(own.get_args()).env("TMPDIR", temporary.path());
    let demo = Demo { program: Program::spawn(&mut command), temporary };
    demo.wait_said("sending");
    demo.program.signal("HUP");
    let told = || demo.program.stderr().matches("online 50 ").count();
    let before = told();
    wait_for("it goes on", || told() > before + 1);
    assert!(!demo.program.stderr().contains("stopping"));
    demo.program.signal("INT");
    assert_eq!(demo.finish().code(), Some(0));
}

#[test]
fn signal_while_the_crowd_connects_ends_the_server_too() {
    let demo = Demo::start(&["--users=15000"]);
    let server = demo.server();
    // So nobody comes online any more.
    server.signal("STOP");
    demo.program.signal("TERM");
    demo.wait_said("stopping");
    server.signal("CONT");
    let finished = demo.finish();
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    server.wait_gone();
}

#[test]
fn second_signal_ends_the_demo_at_once_and_leaves_no_directory() {
    let demo = Demo::start(&["--users=50"]);
    let server = demo.server();
    demo.wait_said("sending");
    // So the end in order cannot come.
    server.signal("STOP");
    demo.program.signal("INT");
    let mut demo = demo;
    let mut sent = 1;
    wait_for("the demo ends", || {
        // The second one may come before the first was seen, and be one with it.
        if !demo.program.has_ended() {
            demo.program.signal("INT");
            sent += 1;
        }
        demo.program.has_ended()
    });
    let finished = demo.finish();
    assert_eq!(finished.code(), Some(130), "{sent} signals: {finished:?}");
    server.wait_gone();
}

#[test]
fn server_does_not_outlive_a_demo_that_is_killed() {
    for stage in ["API ", "sending"] {
        let demo = Demo::start(&["--users=2000"]);
        let server = demo.server();
        demo.wait_said(stage);
        demo.program.kill();
        server.wait_gone();
    }
}

#[test]
fn demo_whose_server_ends_says_so_and_fails() {
    let demo = Demo::start(&["--users=50"]);
    let server = demo.server();
    demo.wait_said("sending");
    server.signal("KILL");
    let finished = demo.finish();
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains("the server ended too early"), "{finished:?}");
}

#[test]
fn server_that_cannot_start_is_told_in_its_words() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let api = format!("--api={}", taken.local_addr().unwrap());
    let args = ["demo", "--listen=127.0.0.1:0", "--users=50", "--json", &api];
    let finished = Program::run(&mut encke(args));
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    for words in ["is in use", "the server did not start"] {
        assert!(finished.stderr.contains(words), "{words}: {finished:?}");
    }
}

#[test]
fn graph_is_made_once_and_used_again() {
    let data = tempfile::tempdir().unwrap();
    let data_option = format!("--data={}", data.path().display());
    let run = |options: &[&str]| {
        let fixed = ["--users=100", "--seconds=1", "--rate=100", &data_option];
        Program::run(demo(&fixed).args(options))
    };
    let first = run(&[]);
    assert_eq!(report(&first)["lost"], 0);
    assert!(first.stderr.contains("made and stored"), "{first:?}");
    let again = run(&[]);
    assert_eq!(report(&again)["graph"], report(&first)["graph"]);
    assert!(again.stderr.contains("found in"), "{again:?}");
    let other = run(&["--both"]);
    assert_eq!(other.code(), Some(1), "{other:?}");
    assert!(other.stderr.contains("the graph of another demo"), "{other:?}");
}

#[test]
fn run_is_written_as_rows_report_and_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let out_option = format!("--out={}", out.display());
    let run = || Program::run(&mut demo(&["--users=100", "--seconds=2", RATE, &out_option]));
    let finished = run();
    let told = report(&finished);
    let written = fs::read_to_string(out.join("run.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), told);
    let rows = fs::read_to_string(out.join("run.csv")).unwrap();
    let mut lines = rows.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let column = |name: &str| header.iter().position(|&column| column == name).unwrap();
    let (open, received) = (column("connections_open"), column("receive_p99_ms"));
    let rows: Vec<_> = lines.collect();
    assert_eq!(rows[0][open], "0", "{rows:?}");
    assert!(rows.iter().any(|row| row[open] == "100" && !row[received].is_empty()), "{rows:?}");
    let slowest = slowest(&out);
    assert_eq!(slowest, told["flood"]["latency"]["max_ms"].as_f64(), "{rows:?}");
    for look in ["light", "dark"] {
        let svg = fs::read_to_string(out.join(format!("run-{look}.svg"))).unwrap();
        assert!(svg.contains("100 users online"), "{look}");
        assert!(fs::read(out.join(format!("run-{look}.png"))).unwrap().starts_with(b"\x89PNG"));
    }
    let again = run();
    assert_eq!(again.code(), Some(1), "{again:?}");
    assert!(again.stderr.contains("has the files of a run"), "{again:?}");
}

/// The highest latency of a run's rows.
fn slowest(out: &Path) -> Option<f64> {
    let rows = fs::read_to_string(out.join("run.csv")).unwrap();
    let mut lines = rows.lines().map(|line| line.split(','));
    let column = lines.next().unwrap().position(|column| column == "receive_max_ms").unwrap();
    lines.filter_map(|mut row| row.nth(column)?.parse().ok()).reduce(f64::max)
}

/// Its end is as near to the row before as a row may not be.
#[test]
fn short_run_has_all_its_latencies_in_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let out_option = format!("--out={}", out.display());
    let told =
        report(&Program::run(&mut demo(&["--users=100", "--seconds=0.05", RATE, &out_option])));
    assert_eq!(slowest(&out), told["flood"]["latency"]["max_ms"].as_f64(), "{told}");
}

#[test]
fn run_that_is_stopped_before_its_events_has_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let demo = Demo::start(&["--users=500000", &format!("--out={}", out.display())]);
    wait_for("the run is begun", || out.exists());
    demo.program.signal("INT");
    assert_eq!(demo.finish().code(), Some(0));
    assert!(!out.exists());
}

#[test]
fn demo_that_does_not_fit_says_what_is_too_low() {
    let finished = Program::run(&mut demo(&["--users=4000000000"]));
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    for words in ["too low", "do not fit here", "--anyway"] {
        assert!(finished.stderr.contains(words), "{words}: {finished:?}");
    }
}

#[test]
fn visitors_are_counted_apart_and_are_no_loss() {
    let demo = Demo::start(&["--users=20", RATE]);
    let listen = demo.told("streams  http://").replace("/stream/{id}", "");
    demo.wait_said("sending");
    let mut visitor = Stream::open(listen.parse().unwrap(), "/stream/1", "*/*");
    visitor.data();
    demo.program.signal("INT");
    let finished = demo.finish();
    let report = report(&finished);
    assert_eq!((&report["visitors"], &report["lost"]), (&1.into(), &0.into()));
    assert!(report["to_others"].as_u64().unwrap() > 0, "{report}");
    assert!(!report["unchecked"].to_string().contains("others"), "{report}");
    assert_eq!(report["faults"].as_array().unwrap().len(), 0, "{report}");
}

#[test]
fn visitor_who_changes_the_graph_makes_losses_unknown() {
    let demo = Demo::start(&["--users=20", RATE]);
    let listen = demo.told("streams  http://").replace("/stream/{id}", "");
    let api = Api::new(demo.told("API      http://").trim_end_matches('/').parse().unwrap());
    demo.wait_said("sending");
    let mut visitor = Stream::open(listen.parse().unwrap(), "/stream/1", "*/*");
    api.subscribe("guest", "1");
    visitor.data();
    demo.program.signal("INT");
    let report = report(&demo.finish());
    let unchecked = report["unchecked"].to_string();
    assert!(unchecked.contains("1 others connected too"), "{report}");
}

#[test]
fn hints_show_something() {
    let demo = Demo::start(&["--users=20"]);
    let address = demo.told("API      http://");
    let id = demo.told("/subscribers/");
    let api = Api::new(address.trim_end_matches('/').parse().unwrap());
    let followers = api.get(&format!("/subscribers/{id}")).ok();
    assert!(!followers["ids"].as_array().unwrap().is_empty(), "{id}: {followers}");
    demo.program.signal("INT");
    demo.finish();
}
