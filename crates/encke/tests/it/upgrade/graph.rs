//! The friends graph changes hands: one writer at a time, and what was acknowledged is there, also
//! where the successor is killed right behind it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::served::Upgraded;
use crate::harness::{Api, Server, wait_for};

const WRITERS: u64 = 3;

/// Adds pairs one after the other, and removes every fourth again; what is there for sure. With it,
/// what was asked for last and not answered.
fn write(api: &Api, writer: u64, stop: &AtomicBool, acknowledged: &AtomicU64) -> Writer {
    let mut known = Writer::default();
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let subscriber = format!("user:{writer}:{n}");
        let pair = json!([{ "subscriber": subscriber, "subscribee": "star" }]);
        match change(api, "/subscriptions/add", &pair) {
            Asked::Done => {}
            Asked::NotDone => {
                known.was_refused = true;
                break;
            }
            Asked::Unknown => {
                known.pending = Some(subscriber);
                break;
            }
        }
        known.there.insert(subscriber.clone());
        acknowledged.fetch_add(1, Ordering::Relaxed);
        if n % 4 == 0 {
            match change(api, "/subscriptions/remove", &pair) {
                Asked::Done => _ = known.there.remove(&subscriber),
                Asked::NotDone => {
                    known.was_refused = true;
                    break;
                }
                Asked::Unknown => {
                    known.there.remove(&subscriber);
                    known.pending = Some(subscriber);
                    break;
                }
            }
        }
    }
    known
}

/// What became of a change.
enum Asked {
    Done,
    /// The answer says so.
    NotDone,
    Unknown,
}

fn change(api: &Api, path: &str, pair: &Value) -> Asked {
    match api.try_post(path, pair) {
        Ok(answer) if answer.status() == 503 => {
            let problem = answer.problem(503);
            match problem["detail"].as_str() {
                Some(detail) if detail.contains("Nothing was done") => Asked::NotDone,
                _ => Asked::Unknown,
            }
        }
        Ok(answer) => {
            let done = answer.ok();
            assert!(done["added"] == 1 || done["removed"] == 1, "{done}");
            Asked::Done
        }
        Err(_) => Asked::Unknown,
    }
}

#[derive(Default)]
struct Writer {
    there: BTreeSet<String>,
    pending: Option<String>,
    was_refused: bool,
}

#[track_caller]
fn check(server: &Server, writers: &[Writer]) {
    let mut stored: BTreeSet<String> =
        server.api.ids("/subscribers/star", 1000).into_iter().collect();
    assert_eq!(server.api.stats()["subscriptions"], stored.len());
    for Writer { there, pending, .. } in writers {
        for name in there {
            assert!(stored.remove(name), "{name} was acknowledged");
        }
        pending.iter().for_each(|name| _ = stored.remove(name));
    }
    assert_eq!(stored, BTreeSet::new(), "nobody asked for these");
}

/// What writers with numbers from `first` on have written while `work` was done, which sees how
/// many of their changes were acknowledged.
fn while_written(server: &Upgraded, first: u64, work: impl FnOnce(&AtomicU64)) -> Vec<Writer> {
    let (stop, acknowledged) = (&AtomicBool::new(false), &AtomicU64::new(0));
    thread::scope(|scope| {
        let write = |writer| {
            let api = server.api.another();
            scope.spawn(move || write(&api, writer, stop, acknowledged))
        };
        let writers: Vec<_> = (first..first + WRITERS).map(write).collect();
        work(acknowledged);
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    })
}

#[test]
fn changes_of_an_upgrade_are_all_answered_and_all_there() {
    let server = Upgraded::serve(&[]);
    let writers = while_written(&server, 0, |acknowledged| {
        for _ in 0..5 {
            let before = acknowledged.load(Ordering::Relaxed);
            server.upgrade(&[]);
            wait_for("changes go on", || acknowledged.load(Ordering::Relaxed) > before + 30);
        }
    });
    assert!(writers.iter().all(|writer| writer.pending.is_none()), "every change was answered");
    assert!(!writers.iter().any(|writer| writer.was_refused), "and none was refused");
    check(&server, &writers);
    server.kill_owner();
    check(&Server::start_in(server.data(), &[]), &writers);
}

/// The kill comes at once behind the upgrade, at its end or a little later.
#[test]
fn what_was_acknowledged_survives_kill_9_of_the_successor() {
    let dir = tempfile::tempdir().unwrap();
    let mut all: Vec<Writer> = Vec::new();
    for round in 0..6 {
        let server = Upgraded::of(Server::start_in(dir.path(), &[]), dir.path());
        check(&server, &all);
        all.extend(while_written(&server, round * WRITERS, |acknowledged| {
            server.upgrade(&[]);
            let wanted = acknowledged.load(Ordering::Relaxed) + 7 * round;
            wait_for("changes go on", || acknowledged.load(Ordering::Relaxed) >= wanted);
            server.kill_owner();
        }));
    }
    check(&Server::start_in(dir.path(), &[]), &all);
}
