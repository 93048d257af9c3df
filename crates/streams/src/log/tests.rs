//! Appends that share a log: what a disk and a machine that fail leave of them.

mod crashes;

use std::cell::Cell;
use std::fs;
use std::sync::Barrier;
use std::thread;

use tempfile::TempDir;

use super::*;
use crate::disk::DiskCall::{Cut, Sync, Write};
use crate::disk::faults::{calls, fail};
use crate::file::file_of;
use crate::{Append, Create, Fork, Lifetime, Limits, Producer, Refusal, Start, Store};

/// Of a half, so that some tens of appends fill it.
const HALF_BYTES: u64 = 8 << 10;

const LIMITS: Limits = Limits { bytes_max: 1 << 30, log_bytes: HALF_BYTES };

fn open(dir: &Path) -> Store {
    Store::open(dir, LIMITS, sys::clock::unix_ms).unwrap()
}

fn text() -> Create<'static> {
    Create { content_type: "text/plain", lifetime: Lifetime::Unbounded, closed: false, data: b"" }
}

fn nth(sequence: u64, data: &[u8]) -> Append<'_> {
    let producer = Some(Producer { id: "p", epoch: 0, sequence });
    Append { closes: false, producer, sequence: None, data, content_type: Some("text/plain") }
}

fn all(store: &Store, path: &str) -> String {
    let piece = store.read(path, Start::Beginning, usize::MAX).unwrap();
    String::from_utf8(piece.data).unwrap()
}

/// What a loss of power leaves of a file whose stream was appended to without a sync.
fn lose(dir: &Path, path: &str, len: usize) {
    let file = file_of(dir, path);
    let whole = fs::read(&file).unwrap();
    fs::write(file, &whole[..len]).unwrap();
}

#[test]
fn append_is_two_writes_and_one_sync_and_those_of_many_streams_share_it() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let paths: Vec<String> = (0..9).map(|number| format!("s{number}")).collect();
    paths.iter().for_each(|path| drop(store.create(path, &text(), None).unwrap()));
    calls();
    store.append("s0", &nth(0, b"one "), None).unwrap();
    assert_eq!(calls(), [Write, Write, Sync]);
    let appends: Vec<_> = paths.iter().map(|path| (&**path, nth(1, b"two"))).collect();
    let taken = Cell::new(0);
    // All but the first one lack an append before.
    store.append_group(&appends, &mut |number, appended| match (number, appended) {
        (0, Ok(appended)) => drop((assert!(!appended.repeated), taken.set(taken.get() + 1))),
        (_, Err(Refusal::Gap { .. })) => taken.set(taken.get() + 1),
        other => panic!("{other:?}"),
    });
    assert_eq!((taken.take(), calls()), (9, vec![Write, Write, Sync]));
    let appends: Vec<_> = paths[1..].iter().map(|path| (&**path, nth(0, b"one two"))).collect();
    store.append_group(&appends, &mut |_, appended| assert!(appended.is_ok()));
    assert_eq!(calls(), [vec![Write; 9], vec![Sync]].concat());
    for store in [store, open(dir.path())] {
        assert!(paths.iter().all(|path| all(&store, path) == "one two"));
    }
}

#[test]
fn streams_that_many_append_to_at_once_have_each_append_once() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let (threads, barrier) = (8, Barrier::new(8));
    thread::scope(|scope| {
        for thread in 0..threads {
            let (store, barrier) = (&store, &barrier);
            scope.spawn(move || {
                let path = format!("s{thread}");
                store.create(&path, &text(), None).unwrap();
                barrier.wait();
                for sequence in 0..200 {
                    store.append(&path, &nth(sequence, b"0123456789"), None).unwrap();
                }
            });
        }
    });
    for store in [store, open(dir.path())] {
        assert!((0..threads).all(|thread| all(&store, &format!("s{thread}")).len() == 2_000));
    }
}

#[test]
fn file_gets_back_what_the_power_has_taken() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    store.create("s", &text(), None).unwrap();
    let len = fs::metadata(file_of(dir.path(), "s")).unwrap().len() as usize;
    store.append("s", &nth(0, b"one "), None).unwrap();
    store.append("s", &nth(1, b"two"), None).unwrap();
    let bytes = store.bytes();
    drop(store);
    let whole = fs::metadata(file_of(dir.path(), "s")).unwrap().len() as usize;
    // Each start empties the log.
    let log = FILES.map(|name| fs::read(dir.path().join(name)).unwrap());
    for cut in (len..whole).rev() {
        lose(dir.path(), "s", cut);
        for (name, bytes) in FILES.iter().zip(&log) {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        let store = open(dir.path());
        assert_eq!((all(&store, "s").as_str(), store.bytes()), ("one two", bytes), "cut at {cut}");
        assert!(store.append("s", &nth(1, b"two"), None).unwrap().repeated);
    }
    // What was brought there is not brought there twice.
    lose(dir.path(), "s", len);
    assert_eq!(all(&open(dir.path()), "s"), "");
}

#[test]
fn stream_that_was_deleted_gets_nothing_back_and_neither_does_its_successor() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    for path in ["a", "b"] {
        store.create(path, &text(), None).unwrap();
        store.append(path, &nth(0, b"of the first one"), None).unwrap();
        store.delete(path, None).unwrap();
    }
    store.create("b", &text(), None).unwrap();
    drop(store);
    let store = open(dir.path());
    assert!(matches!(store.head("a"), Err(Refusal::Unknown)));
    assert_eq!(all(&store, "b"), "");
}

#[test]
fn fork_of_a_stream_that_was_deleted_gets_back_what_it_reads() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    store.create("s", &text(), None).unwrap();
    let len = fs::metadata(file_of(dir.path(), "s")).unwrap().len();
    store.append("s", &nth(0, b"of the source"), None).unwrap();
    let fork = Fork {
        source: "s",
        at: None,
        sub_offset: 0,
        content_type: "text/plain",
        lifetime: None,
        closed: false,
        data: b"",
    };
    store.fork("f", &fork, None).unwrap();
    store.delete("s", None).unwrap();
    drop(store);
    let gone = crate::links::gone(&file_of(dir.path(), "s"));
    File::options().write(true).open(gone).unwrap().set_len(len).unwrap();
    assert_eq!(all(&open(dir.path()), "f"), "of the source");
}

#[test]
fn log_that_fails_acknowledges_nothing_and_takes_appends_once_all_is_on_disk() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    store.create("s", &text(), None).unwrap();
    let tail = store.append("s", &nth(0, b"one "), None).unwrap().next;
    fail(&[Sync]);
    assert!(matches!(store.append("s", &nth(1, b"two"), None), Err(Refusal::Unsure(_))));
    for _ in 0..2 {
        assert!(matches!(store.append("s", &nth(1, b"two"), None), Err(Refusal::Disk(_))));
    }
    fail(&[]);
    assert_eq!(store.head("s").unwrap().next, tail);
    assert!(!store.append("s", &nth(1, b"two"), None).unwrap().repeated);
    assert_eq!(all(&store, "s"), "one two");
    assert_eq!(all(&open(dir.path()), "s"), "one two");
}

/// Linux takes for written what a sync has failed to write: the log has it, and gives it back.
#[test]
fn files_that_cannot_be_synced_are_written_once_more_before_the_log_is_empty() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    store.create("s", &text(), None).unwrap();
    store.append("s", &nth(0, b"one"), None).unwrap();
    let log = store.log.as_ref().unwrap();
    log.rest();
    fail(&[Sync]);
    calls();
    log.rest();
    assert_eq!(calls(), [Sync], "its file's, and the log is as it was");
    fail(&[]);
    log.rest();
    // Its file, then both halves.
    assert_eq!(calls(), [Write, Sync, Write, Sync, Write, Sync]);
    log.rest();
    assert_eq!(calls(), [], "there is nothing more to do");
}

#[test]
fn files_of_a_half_that_is_full_are_written_once_more_by_it() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    store.create("s", &text(), None).unwrap();
    store.append("s", &nth(0, b"one"), None).unwrap();
    let log = store.log.as_ref().unwrap();
    let mut state = log.state.lock();
    log.change_halves(&mut state).unwrap();
    fail(&[Sync]);
    assert!(log.settle_full(&mut state, Haste::AtOnce).is_err());
    fail(&[]);
    calls();
    log.settle_full(&mut state, Haste::AtOnce).unwrap();
    assert_eq!((calls(), state.touched[1].len()), (vec![Write, Sync], 0));
}

#[test]
fn append_that_fails_on_its_own_puts_all_files_in_doubt() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    store.create("s", &text(), None).unwrap();
    store.append("s", &nth(0, b"one"), None).unwrap();
    // It is too long for the log.
    let long = vec![b'x'; HALF_BYTES as usize];
    fail(&[Sync, Cut]);
    assert!(matches!(store.append("s", &nth(1, &long), None), Err(Refusal::Unsure(_))));
    fail(&[]);
    let log = store.log.as_ref().unwrap();
    log.rest();
    calls();
    log.rest();
    assert_eq!(calls()[..2], [Write, Sync], "what the log has of it is written once more");
}

#[test]
fn half_that_is_full_is_used_again_once_its_files_are_on_disk() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    store.create("s", &text(), None).unwrap();
    let mut syncs = 0;
    for sequence in 0..200 {
        calls();
        store.append("s", &nth(sequence, &[b'x'; 400]), None).unwrap();
        syncs += calls().iter().filter(|call| **call == Sync).count();
    }
    // Each append takes two sectors or three, and each half has sixteen.
    assert!((200 + 200 * 2 / 16..=200 + 200 * 3 / 14).contains(&syncs), "{syncs}");
    for name in FILES {
        assert_eq!(fs::metadata(dir.path().join(name)).unwrap().len(), HALF_BYTES);
    }
    assert_eq!(all(&open(dir.path()), "s").len(), 80_000);
}

#[test]
fn disk_without_room_for_a_log_syncs_each_append() {
    let dir = TempDir::new().unwrap();
    let limits = Limits { log_bytes: 1 << 62, ..LIMITS };
    let store = Store::open(dir.path(), limits, sys::clock::unix_ms).unwrap();
    store.create("s", &text(), None).unwrap();
    calls();
    store.append("s", &nth(0, b"one"), None).unwrap();
    assert_eq!((calls(), store.log.is_some()), (vec![Write, Sync], false));
}

/// As a version does that knows no log: it has cut off what was torn, and appended something else.
#[test]
fn log_that_is_older_than_its_files_changes_nothing() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    store.create("s", &text(), None).unwrap();
    let len = fs::metadata(file_of(dir.path(), "s")).unwrap().len() as usize;
    store.append("s", &nth(0, b"torn"), None).unwrap();
    drop(store);
    let log = FILES.map(|name| fs::read(dir.path().join(name)).unwrap());
    FILES.iter().for_each(|name| fs::remove_file(dir.path().join(name)).unwrap());
    lose(dir.path(), "s", len);
    let before = Store::open(dir.path(), Limits { log_bytes: 0, ..LIMITS }, sys::clock::unix_ms);
    before.unwrap().append("s", &nth(0, b"other"), None).unwrap();
    for (name, bytes) in FILES.iter().zip(&log) {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    assert_eq!(all(&open(dir.path()), "s"), "other");
}

/// As above, and what was appended is as long as all that was torn.
#[test]
fn log_that_is_older_than_its_files_writes_nothing_into_a_later_append() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    store.create("s", &text(), None).unwrap();
    let len = fs::metadata(file_of(dir.path(), "s")).unwrap().len() as usize;
    store.append("s", &nth(0, b"one"), None).unwrap();
    store.append("s", &nth(1, b"two"), None).unwrap();
    drop(store);
    let log = FILES.map(|name| fs::read(dir.path().join(name)).unwrap());
    lose(dir.path(), "s", len);
    FILES.iter().for_each(|name| fs::remove_file(dir.path().join(name)).unwrap());
    let before = Store::open(dir.path(), Limits { log_bytes: 0, ..LIMITS }, sys::clock::unix_ms);
    before.unwrap().append("s", &nth(0, &[b'x'; 300]), None).unwrap();
    for (name, bytes) in FILES.iter().zip(&log) {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    assert_eq!(all(&open(dir.path()), "s"), "x".repeat(300));
}

/// Its process has failed to sync them, or this one has, at a start before: the kernel takes for
/// written what is not.
#[test]
fn files_are_written_once_more_at_a_start_before_the_log_is_empty() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    store.create("s", &text(), None).unwrap();
    store.append("s", &nth(0, b"one"), None).unwrap();
    drop(store);
    fail(&[Sync]);
    let file = file_of(dir.path(), "s").display().to_string();
    let failed = Store::open(dir.path(), LIMITS, sys::clock::unix_ms).unwrap_err().to_string();
    assert!(failed.starts_with(&file), "{failed} is of {file}");
    fail(&[]);
    calls();
    settle(dir.path()).unwrap();
    assert_eq!(calls(), [Write, Sync, Write, Sync, Write, Sync], "its file's, and of both halves");
}

/// Or a start would bring back what was cut off, into the long one if that was torn.
#[test]
fn log_that_has_failed_is_empty_before_an_append_that_is_too_long_for_it() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    store.create("s", &text(), None).unwrap();
    fail(&[Sync]);
    assert!(matches!(store.append("s", &nth(0, b"one"), None), Err(Refusal::Unsure(_))));
    let logged = |half: usize| {
        let bytes = fs::read(dir.path().join(FILES[half])).unwrap();
        segment::read(&bytes, 0).groups.iter().map(|group| group.len()).sum::<usize>()
    };
    assert_ne!(logged(0) + logged(1), 0, "it was written");
    fail(&[]);
    store.append("s", &nth(0, &[b'x'; HALF_BYTES as usize]), None).unwrap();
    assert_eq!(logged(0) + logged(1), 0);
}

#[test]
fn append_whose_file_has_no_room_is_refused_and_not_logged() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    store.create("s", &text(), None).unwrap();
    fail(&[Write]);
    calls();
    assert!(matches!(store.append("s", &nth(0, b"one"), None), Err(Refusal::Disk(_))));
    assert_eq!(calls(), [Write, Cut]);
    fail(&[]);
    assert!(!store.append("s", &nth(0, b"two"), None).unwrap().repeated);
    for store in [store, open(dir.path())] {
        assert_eq!(all(&store, "s"), "two");
    }
}

#[test]
fn damage_of_the_log_takes_what_is_damaged_and_nothing_is_put_behind_a_gap() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let len = |path| fs::metadata(file_of(dir.path(), path)).unwrap().len() as usize;
    let lens = ["a", "b", "c"].map(|path| {
        store.create(path, &text(), None).unwrap();
        (path, len(path))
    });
    // A sector each, behind the one of the empty half.
    for (path, sequence) in [("a", 0), ("b", 0), ("b", 1), ("c", 0)] {
        store.append(path, &nth(sequence, b"appended"), None).unwrap();
    }
    drop(store);
    lens.iter().for_each(|(path, len)| lose(dir.path(), path, *len));
    let log = dir.path().join(FILES[1]);
    let mut bytes = fs::read(&log).unwrap();
    bytes[2 * SECTOR + 100] ^= 1;
    fs::write(log, bytes).unwrap();
    let store = open(dir.path());
    assert_eq!(["a", "b", "c"].map(|path| all(&store, path)), ["appended", "", "appended"]);
    assert!(!store.append("b", &nth(0, b"anew"), None).unwrap().repeated);
    assert_eq!(all(&open(dir.path()), "b"), "anew");
}
