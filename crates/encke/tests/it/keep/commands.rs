//! `encke log`, beside a server and without one.

use std::fs;
use std::path::Path;

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

/// Makes a log in `data`, in the middle of which a bit is wrong.
pub(crate) fn damaged_log(data: &Path) {
    let server = Server::start_in(data, &["--keep=*=7d"]);
    (0..20).for_each(|n| drop(send_durable(&server.api, "x", n)));
    server.stop("TERM");
    let files = fs::read_dir(data.join("log")).unwrap().map(|file| file.unwrap().path());
    let segment =
        files.filter(|path| path.extension().is_some_and(|of| of == "log")).max().unwrap();
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
    let nowhere = tempfile::tempdir().unwrap();
    let none = log("check", nowhere.path(), &[]);
    assert_eq!(none.code(), Some(1));
    assert!(none.stderr.contains("there is no log"), "{}", none.stderr);
}
