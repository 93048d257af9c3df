//! `encke log`, beside a server and without one.

use std::fs;
use std::path::{Path, PathBuf};

use flate2::Crc;
use serde_json::{Value, json};

use super::send_durable;
use crate::harness::{Finished, Program, Server, encke};

pub(super) fn log(command: &str, data: &Path, options: &[&str]) -> Finished {
    Program::run(encke(["log", command, "--data"]).arg(data).args(options))
}

#[test]
fn log_is_described_checked_and_exported() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_in(dir.path(), &["--keep=*=7d"]);
    let ids: Vec<String> = (0..20).map(|n| send_durable(&server.api, "x", n)).collect();
    let other = send_durable(&server.api, "y", "other");
    let look = |is_running: bool| {
        let stats: Value =
            serde_json::from_str(&log("stats", dir.path(), &["--json"]).stdout).unwrap();
        assert_eq!((&stats["events"], &stats["in_use"]), (&json!(21), &json!(is_running)));
        assert_eq!((&stats["first"]["id"], &stats["last"]["id"]), (&json!(ids[0]), &json!(other)));
        assert_eq!(stats["damaged"], false);
        let check = log("check", dir.path(), &[]);
        assert_eq!(check.code(), Some(0), "{}", check.stderr);
        assert!(check.stdout.starts_with("sound: 21 events"), "{}", check.stdout);
        let lines = log("export", dir.path(), &["--about=x"]).stdout;
        let events: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let all = ids.iter().zip(0..).map(|(id, n)| json!({"id": id, "about": "x", "data": n}));
        assert_eq!(events, all.collect::<Vec<_>>());
    };
    look(true);
    server.stop("TERM");
    look(false);
}

fn newest_segment(data: &Path) -> PathBuf {
    let files = fs::read_dir(data.join("log")).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|of| of == "log")).max().unwrap()
}

/// Makes a log in `data`, in the middle of which a bit is wrong.
pub(crate) fn damaged_log(data: &Path) {
    let server = Server::start_in(data, &["--keep=*=7d"]);
    (0..20).for_each(|n| drop(send_durable(&server.api, "x", n)));
    server.stop("TERM");
    let segment = newest_segment(data);
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, bytes).unwrap();
}

#[test]
fn damage_is_found_and_told() {
    let dir = tempfile::tempdir().unwrap();
    damaged_log(dir.path());
    let check = log("check", dir.path(), &[]);
    assert_eq!(check.code(), Some(1), "{check:?}");
    assert!(check.stdout.contains("are lost") && check.stderr.contains("damaged"), "{check:?}");
    let stats = log("stats", dir.path(), &[]);
    assert!(stats.stdout.contains("damaged   events are missing"), "{stats:?}");
    let export = log("export", dir.path(), &[]);
    assert_eq!(export.code(), Some(1), "{export:?}");
    assert!(export.stderr.contains("events are missing"), "{export:?}");
    assert!((15..20).contains(&export.stdout.lines().count()), "{export:?}");
    let nowhere = tempfile::tempdir().unwrap();
    let none = log("check", nowhere.path(), &[]);
    assert_eq!(none.code(), Some(1));
    assert!(none.stderr.contains("there is no log"), "{}", none.stderr);
}

#[test]
fn log_of_a_newer_version_and_ids_that_are_none_are_refused_with_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_in(dir.path(), &["--keep=*=7d"]);
    send_durable(&server.api, "x", 1);
    server.stop("TERM");
    for (about, why) in [("", "empty"), ("a b", "white space"), ("a/b", "must not contain")] {
        let refused = log("export", dir.path(), &["--about", about]);
        assert_eq!((refused.code(), &*refused.stdout), (Some(2), ""), "{about:?}");
        assert!(refused.stderr.contains(why), "{about:?}: {}", refused.stderr);
    }
    // Nothing is kept about a topic: that is no error.
    assert_eq!(log("export", dir.path(), &["--about", "#t:x"]).code(), Some(0));
    let segment = newest_segment(dir.path());
    let mut bytes = fs::read(&segment).unwrap();
    // The version of the format stands in both copies of the header, under a sum each.
    for copy in [0, 32] {
        bytes[copy + 8] = 2;
        let mut sum = Crc::new();
        sum.update(&bytes[copy..copy + 28]);
        bytes[copy + 28..copy + 32].copy_from_slice(&sum.sum().to_le_bytes());
    }
    fs::write(&segment, &bytes).unwrap();
    for command in ["stats", "check", "export"] {
        let refused = log(command, dir.path(), &[]);
        assert_eq!((refused.code(), &*refused.stdout), (Some(1), ""), "{command}");
        assert!(refused.stderr.contains("newer version"), "{command}: {}", refused.stderr);
    }
    let serve = ["serve", "--keep=*=7d", "--listen=127.0.0.1:0", "--api=127.0.0.1:0", "--data"];
    let refused = Program::run(encke(serve).arg(dir.path()));
    assert_eq!(refused.code(), Some(1));
    let said = &refused.stderr;
    assert!(said.contains("newer version") && said.contains("move the log away"), "{said}");
    assert_eq!(fs::read(&segment).unwrap(), bytes, "the log is left as it was");
}
