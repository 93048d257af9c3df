//! `encke demo --nodes`: it shows a cluster that loses a node and no event.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Finished, Program, encke, wait_for};

/// A demo of two nodes or more, whose files would stand in a folder of its own.
struct Demo {
    program: Program,
    temporary: TempDir,
}

impl Demo {
    /// `None`, and the test is skipped, where there is no NATS.
    fn start(options: &[&str]) -> Option<Demo> {
        Demo::start_with(options, "")
    }

    /// The same, which looks for PostgreSQL in this folder only, unless it is empty.
    fn start_with(options: &[&str], postgres: &str) -> Option<Demo> {
        let nats = testing::nats_current()?;
        let temporary = tempfile::tempdir().unwrap();
        // PostgreSQL may run as another user.
        fs::set_permissions(&temporary, Permissions::from_mode(0o711)).unwrap();
        let ports = ["--listen=127.0.0.1:0", "--api=127.0.0.1:0"];
        let mut command = encke(["demo", "--json"].iter().chain(&ports).chain(options));
        command.env(testing::NATS_SERVER, nats).env("TMPDIR", temporary.path());
        if !postgres.is_empty() {
            command.env("ENCKE_POSTGRES_BIN", postgres);
        }
        Some(Demo { program: Program::spawn(&mut command), temporary })
    }

    fn wait_said(&self, words: &str) {
        wait_for(&format!("the demo says {words:?}"), || self.program.stderr().contains(words));
    }

    /// The folder in which it keeps everything while it runs.
    fn folder(&self) -> String {
        let entry = fs::read_dir(&self.temporary).unwrap().next().unwrap().unwrap();
        entry.path().display().to_string()
    }

    /// Waits for its end; nothing that it started is left.
    #[track_caller]
    fn finish(self) -> Finished {
        let finished = self.program.finish();
        let left: Vec<_> = fs::read_dir(&self.temporary).unwrap().collect();
        assert!(left.is_empty(), "{left:?} is left: {finished:?}");
        wait_gone(self.temporary.path());
        finished
    }
}

/// No process has a file below `folder` among its arguments: neither nodes nor NATS.
fn wait_gone(folder: &Path) {
    let folder = folder.display().to_string();
    wait_for("all processes have ended", || processes_with(&folder) == 0);
}

fn processes_with(text: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.map(|entry| fs::read(entry.path().join("cmdline")).unwrap_or_default());
    lines.filter(|line| String::from_utf8_lossy(line).contains(text)).count()
}

fn number(report: &Value, member: &str) -> u64 {
    report[member].as_u64().unwrap_or_else(|| panic!("{member} of {report}"))
}

#[test]
fn node_that_is_killed_costs_nobody_an_event() {
    // A busy machine has all of them heard in time, too: what comes late is taken for lost.
    let options = ["--nodes=3", "--users=90", "--rate=100", "--seconds=6"];
    let Some(demo) = Demo::start(&options) else { return };
    demo.wait_said("sending");
    // Three nodes; NATS and PostgreSQL, each with its shell.
    let with_postgres = testing::postgres::is_installed();
    let (folder, processes) = (demo.folder(), if with_postgres { 7 } else { 5 });
    // A process that PostgreSQL has just begun for a connection looks as its parent does.
    wait_for("all processes are told apart", || processes_with(&folder) == processes);
    let finished = demo.finish();
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    let told: Value = serde_json::from_str(&finished.stdout).unwrap();
    for none in ["lost", "doubled", "out_of_order", "gaps", "miscounted", "refused", "offline"] {
        assert_eq!(told[none], 0, "{none}: {told}");
    }
    assert_eq!((&told["killed"]["node"], number(&told["killed"], "listeners")), (&"c".into(), 30));
    assert_eq!(number(&told, "resumed"), 30, "{told}");
    assert!(number(&told["away"], "count") == 30 && told["away"]["max_ms"].as_f64() > Some(0.0));
    let (sent, acknowledged) = (number(&told, "sent"), number(&told, "acknowledged"));
    assert_eq!(sent, 600, "{told}");
    assert_eq!(sent, acknowledged + number(&told, "unanswered"), "{told}");
    // 15 follow each but the first few.
    assert!(number(&told, "heard") > 12 * acknowledged, "{told}");
    assert!(number(&told, "delivered") <= number(&told, "heard"), "{told}");
    if !with_postgres {
        return testing::skip("PostgreSQL is not here: apt-get install postgresql");
    }
    // Added and taken away by turns, and obeyed at another node each time. How many they are in
    // these seconds is the machine's.
    let changes = &told["changes"];
    assert!(number(changes, "changed") >= 2, "{told}");
    assert_eq!(number(changes, "disobeyed") + number(changes, "failed"), 0, "{told}");
    assert!(number(changes, "unchecked") < number(changes, "changed"), "{told}");
}

#[test]
fn who_has_heard_nothing_before_its_node_is_killed_loses_nothing_either() {
    // Some 60 events for 800 users: a third of them hear none before.
    let options = ["--nodes=2", "--users=800", "--rate=20", "--seconds=6"];
    let Some(demo) = Demo::start(&options) else { return };
    let finished = demo.finish();
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    let told: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(
        (&told["lost"], &told["gaps"], &told["resumed"]),
        (&0.into(), &0.into(), &400.into())
    );
}

#[test]
fn without_postgresql_the_graph_stands_still_and_the_demo_says_what_to_install() {
    let options = ["--nodes=2", "--users=20", "--rate=50", "--seconds=2"];
    let Some(demo) = Demo::start_with(&options, "/nowhere") else { return };
    let finished = demo.finish();
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    assert!(finished.stderr.contains("apt-get install postgresql"), "{finished:?}");
    let told: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!((&told["changes"], number(&told, "lost")), (&Value::Null, 0), "{told}");
    assert!(told["unchecked"].to_string().contains("no PostgreSQL"), "{told}");
}

#[test]
fn what_is_lost_is_told_and_fails() {
    // Nodes that remember nothing cannot tell those who come back what they have missed.
    let options = ["--nodes=2", "--users=60", "--rate=300", "--seconds=4", "--history-bytes=0"];
    let Some(demo) = Demo::start(&options) else { return };
    let finished = demo.finish();
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    let told: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(number(&told, "gaps"), 30, "{told}");
    assert!(number(&told, "lost") > 0, "{told}");
    assert_eq!(number(&told, "doubled") + number(&told, "out_of_order"), 0, "{told}");
    assert!(finished.stderr.contains("events were lost"), "{finished:?}");
}

#[test]
fn signal_ends_the_nodes_and_nats() {
    let Some(demo) = Demo::start(&["--nodes=2", "--users=20", "--rate=50"]) else { return };
    demo.wait_said("sending");
    demo.program.signal("INT");
    let finished = demo.finish();
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    let told: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!((&told["killed"], number(&told, "lost")), (&Value::Null, 0), "{told}");
    let unchecked = told["unchecked"].to_string();
    assert!(unchecked.contains("before a node was killed"), "{told}");
}

#[test]
fn signals_at_any_moment_of_the_start_leave_nothing() {
    let nats = ["/nats", "/nats/log"];
    let postgres = ["/postgres/password", "/postgres/data/base", "/postgres/data/postmaster.pid"];
    let nodes = ["/a/lock", "/b/epoch"];
    let postgres = if testing::postgres::is_installed() { &postgres[..] } else { &[] };
    for moment in nats.iter().chain(postgres).chain(&nodes) {
        for signals in ["INT", "INT INT"] {
            let options = ["--nodes=2", "--users=20", "--rate=50"];
            let Some(demo) = Demo::start(&options) else { return };
            demo.program.signal_at(&demo.temporary.path().join(format!(".tmp*{moment}")), signals);
            let finished = demo.finish();
            let ended = [0, 130].map(Some).contains(&finished.code());
            assert!(ended, "{signals} at {moment}: {finished:?}");
        }
    }
}

#[test]
fn demo_that_is_killed_leaves_no_process() {
    let Some(demo) = Demo::start(&["--nodes=2", "--users=20", "--rate=50"]) else { return };
    demo.wait_said("sending");
    demo.program.kill();
    wait_gone(demo.temporary.path());
}

#[test]
fn without_nats_the_demo_says_what_to_install() {
    let nowhere = "/nowhere/nats-server";
    let mut command: Command = encke(["demo", "--nodes=3", "--users=20"]);
    let finished = Program::run(command.env(testing::NATS_SERVER, nowhere));
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains(nowhere), "{finished:?}");
}
