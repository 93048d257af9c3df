//! A copy of the data directory as of one moment, as a snapshot of a file system is, has graph and
//! log as they were together. A server starts on it as after a failure of the machine.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use super::kills::{Acknowledged, kept, send_until_killed};
use super::send;
use crate::harness::{Program, Server, encke, wait_for};

const KEEP: &str = "--keep=*=7d";

/// Acknowledged events before the copy is made, and further ones after it.
const EVENTS: usize = 100;

/// All regular files; sockets belong to the process.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (kind, to) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &to);
        } else if kind.is_file() {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn copy_as_of_one_moment_has_graph_and_log_together() {
    let (data, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start_in(data.path(), &[KEEP]);
    server.api.subscribe("ann", "bob");
    let acknowledged = Mutex::new(Acknowledged::new());
    let count = || acknowledged.lock().unwrap().len();
    let api = server.api.another();
    let before = thread::scope(|scope| {
        let acknowledged = &acknowledged;
        scope.spawn(move || send_until_killed(&api, "0", acknowledged));
        wait_for("events before the copy", || count() >= EVENTS);
        server.signal("STOP");
        let before = acknowledged.lock().unwrap().clone();
        copy(data.path(), copied.path());
        server.signal("CONT");
        wait_for("events after the copy", || count() >= before.len() + EVENTS);
        server.api.subscribe("ann", "eve");
        server.stop("KILL");
        before
    });
    for part in ["graph", "log"] {
        let check = Program::run(encke([part, "check", "--data"]).arg(copied.path()));
        assert_eq!(check.code(), Some(0), "{}", check.stderr);
    }
    let server = Server::start_in(copied.path(), &[KEEP]);
    assert_eq!(server.api.ids("/subscriptions/ann", 10), ["bob"]);
    let there: Acknowledged = kept(&server.api).into_iter().collect();
    for (id, data) in &before {
        assert_eq!(there.get(id), Some(data), "{id}");
    }
    // At most the one that was on its way.
    assert!(there.len() <= before.len() + 1, "{} of {}", there.len(), before.len());
    let new = send(&server.api, "x", "new");
    let given = acknowledged.into_inner().unwrap();
    assert!(given.last_key_value().unwrap().0 < &new, "no number is given twice");
}
