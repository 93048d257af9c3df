//! A store that is let go of and taken back, within one process. What two do is tried in
//! `tests/it/handover.rs`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc;
use std::time::Instant;

use super::*;
use crate::catch_up::{newest, read_state};
use crate::lock::DirectoryLock;

#[test]
fn store_that_was_let_go_of_takes_no_change_until_it_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    assert_eq!(graph.add_blocking(vec![pair("alice", "bob")]), Ok(1));
    let HandedOver { transaction, subscriptions, digest } = graph.let_go().unwrap();
    assert_eq!(subscriptions, 1);
    let state = std::fs::read_to_string(dir.path().join("data.state")).unwrap();
    assert!(state.contains(&format!("transaction {transaction}\n")), "{state}");
    assert!(state.contains(&format!("digest {digest:016x}\n")), "{state}");
    assert_eq!(graph.add_blocking(vec![pair("carol", "bob")]), Err(WriteError::HandedOver));
    assert_eq!(graph.remove_blocking(vec![pair("alice", "bob")]), Err(WriteError::HandedOver));
    let loaded = graph.load("x", &mut &b"5 6\n"[..], 0, LoadOptions::default(), &mut |_| {});
    assert!(matches!(loaded, Err(LoadError::Write(WriteError::HandedOver))), "{loaded:?}");
    assert!(graph.names().lookup(IdText::parse("carol").unwrap()).is_none());
    let bob = graph.names().lookup(IdText::parse("bob").unwrap()).unwrap();
    assert_eq!(sliced(&graph, bob).len(), 1);
    assert_eq!(graph.while_ours(|| ()), None);
    graph.take_back().unwrap();
    graph.take_back().unwrap();
    assert_eq!(graph.while_ours(|| ()), Some(()));
    assert_eq!(graph.add_blocking(vec![pair("carol", "bob")]), Ok(1));
    drop(graph);
    assert_eq!(open(dir.path()).subscriptions(), 2);
}

#[test]
fn store_that_somebody_else_has_is_not_taken_back_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    assert_eq!(graph.add_blocking(vec![pair("alice", "bob")]), Ok(1));
    graph.let_go().unwrap();
    let other = DirectoryLock::take(dir.path()).unwrap();
    let refused = graph.take_back().unwrap_err();
    assert!(matches!(refused.reason, OpenReason::InUse { pid: Some(_) }), "{refused}");
    assert_eq!(graph.add_blocking(vec![pair("carol", "bob")]), Err(WriteError::HandedOver));
    let files = || {
        let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
        (read("lock"), read("data.state"), read("data.mdb"))
    };
    std::fs::write(dir.path().join("data.state"), "of the other one").unwrap();
    let before = files();
    drop(graph);
    assert!(files() == before, "who has let go writes nothing more");
    drop(other);
}

/// The file beside the store may be another lineage's.
#[test]
fn store_that_is_older_than_what_was_recorded_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    assert_eq!(graph.add_blocking(vec![pair("alice", "bob")]), Ok(1));
    let HandedOver { transaction, subscriptions, digest } = graph.let_go().unwrap();
    let marker = marker::Marker { transaction: transaction + 1, subscriptions, digest };
    marker.write(dir.path()).unwrap();
    let refused = graph.take_back().unwrap_err();
    assert!(matches!(refused.reason, OpenReason::Older { .. }), "{refused}");
    assert_eq!(graph.add_blocking(vec![pair("carol", "bob")]), Err(WriteError::HandedOver));
    drop(DirectoryLock::take(dir.path()).unwrap());
    marker::Marker { transaction, ..marker }.write(dir.path()).unwrap();
    graph.take_back().unwrap();
    assert_eq!(graph.add_blocking(vec![pair("carol", "bob")]), Ok(1));
}

#[test]
fn load_that_takes_long_keeps_the_store_from_being_let_go_of() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let (writing, has_begun) = mpsc::sync_channel(1);
    let (let_go, go_on) = mpsc::sync_channel(1);
    let loading = graph.clone();
    let load = thread::spawn(move || {
        let mut progress = |progress: Progress| {
            if progress.phase == Phase::Syncing {
                writing.send(()).unwrap();
                go_on.recv().unwrap();
            }
        };
        loading.load("x", &mut &b"5 6\n"[..], 0, LoadOptions::default(), &mut progress).unwrap()
    });
    has_begun.recv().unwrap();
    let adding = graph.clone();
    let add = thread::spawn(move || adding.add_blocking(vec![pair("alice", "bob")]));
    // The load stands still until this is answered.
    assert_eq!(graph.let_go(), Err(LetGoError::Busy));
    let_go.send(()).unwrap();
    assert_eq!(load.join().unwrap().added, 1);
    assert_eq!(add.join().unwrap(), Ok(1), "it goes on as before");
    assert_eq!(graph.let_go().unwrap().subscriptions, 2);
}

/// Whoever writes beside the store is waited for.
#[test]
fn file_beside_the_store_is_written_before_it_is_let_go_of() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    let (writing, has_begun) = mpsc::sync_channel(1);
    let (finish, go_on) = mpsc::sync_channel(1);
    let beside = graph.clone();
    let write = thread::spawn(move || {
        beside.while_ours(|| {
            writing.send(()).unwrap();
            go_on.recv().unwrap();
            Instant::now()
        })
    });
    has_begun.recv().unwrap();
    let giving = graph.clone();
    let let_go = thread::spawn(move || giving.let_go().map(|_| Instant::now()));
    finish.send(()).unwrap();
    let (written, gone) = (write.join().unwrap().unwrap(), let_go.join().unwrap().unwrap());
    assert!(written < gone);
}

/// LMDB's number of the newest commit, where readers look for it: behind `lock.mdb`'s two marks.
const NUMBER_AT: u64 = 8;

/// What a reader gets that stands still inside LMDB's look for the newest commit.
#[test]
fn head_of_a_commit_under_way_is_not_taken_for_damage() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    for name in ["alice", "carol", "dave"] {
        assert_eq!(graph.add_blocking(vec![pair(name, "bob")]), Ok(1));
    }
    let lock = File::options().read(true).write(true).open(dir.path().join("lock.mdb")).unwrap();
    let mut number = [0; 8];
    lock.read_exact_at(&mut number, NUMBER_AT).unwrap();
    let told = |number: u64| lock.write_all_at(&number.to_ne_bytes(), NUMBER_AT).unwrap();
    let number = u64::from_ne_bytes(number);
    let store = graph.store();
    let (env, tables) = (&store.env, store.tables);

    told(number - 2);
    let ahead = env.read_txn().unwrap();
    assert_eq!(ahead.id() as u64, number - 2);
    assert!(matches!(read_state(&ahead, tables), Err(OpenReason::Damaged(_))));
    drop(ahead);
    let mut looks = 0;
    let (snapshot, state) = newest(
        || {
            told(number - 2 * u64::from(looks == 0));
            looks += 1;
            env.read_txn()
        },
        tables,
    )
    .unwrap();
    assert_eq!((snapshot.id() as u64, state.transaction, looks), (number, number, 2));
}
