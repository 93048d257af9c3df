//! A disk that fails, and what a process leaves that was killed: nothing counts before it is on
//! disk.

use super::*;
use crate::disk::DiskCall::{Cut, Sync, SyncDirectory, Write};
use crate::disk::faults::{calls, fail};

fn nth(sequence: u64, data: &[u8]) -> Append<'_> {
    Append { producer: Some(Producer { id: "p", epoch: 0, sequence }), ..bytes(data) }
}

fn is_disk<T>(result: Result<T, Refusal>) -> bool {
    matches!(result, Err(Refusal::Disk(_)))
}

fn is_unsure<T>(result: Result<T, Refusal>) -> bool {
    matches!(result, Err(Refusal::Unsure(_)))
}

#[test]
fn append_costs_one_sync_and_a_repeat_a_refusal_and_a_read_none() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    store.create("s", &text(), None).unwrap();
    calls();
    store.append("s", &nth(0, b"once"), None).unwrap();
    assert_eq!(calls(), [Write, Sync]);
    assert!(store.append("s", &nth(0, b"once"), None).unwrap().repeated);
    assert!(matches!(store.append("s", &nth(2, b"x"), None), Err(Refusal::Gap { .. })));
    assert_eq!(all(&store, "s"), "once");
    assert_eq!(calls(), []);
}

/// Its process was killed: the kernel may hold the end of the file, or have failed with it.
#[test]
fn end_of_a_file_that_a_process_has_left_is_stored_again_before_it_counts() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    store.create("s", &text(), None).unwrap();
    store.append("s", &nth(0, b"once"), None).unwrap();
    drop(store);
    let store = open(&dir);
    for failing in [Write, Sync, SyncDirectory] {
        fail(&[failing]);
        assert!(is_disk(store.append("s", &nth(0, b"once"), None)), "{failing:?}");
        assert!(is_disk(store.read("s", Start::Beginning, 9)) && is_disk(store.head("s")));
    }
    fail(&[]);
    calls();
    assert!(store.append("s", &nth(0, b"once"), None).unwrap().repeated);
    assert_eq!(calls(), [Write, Sync, SyncDirectory]);
    assert_eq!(all(&store, "s"), "once");
    assert_eq!(calls(), [], "once is enough");
}

#[test]
fn append_that_fails_is_cut_off_and_the_next_one_is_taken() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    store.create("s", &text(), None).unwrap();
    let tail = store.append("s", &nth(0, b"one "), None).unwrap().next;
    for (failing, expected) in [(Write, &[Write, Cut][..]), (Sync, &[Write, Sync, Cut, Sync])] {
        fail(&[failing]);
        calls();
        let refused = store.append("s", &nth(1, b"two "), None);
        // A part is never there; that it is cut off is not on disk where no sync succeeds.
        assert!(if failing == Write { is_disk(refused) } else { is_unsure(refused) });
        assert_eq!(calls(), expected);
        fail(&[]);
        assert_eq!(store.head("s").unwrap().next, tail);
    }
    assert!(!store.append("s", &nth(1, b"two"), None).unwrap().repeated);
    assert_eq!(all(&store, "s"), "one two");
    assert_eq!(all(&open(&dir), "s"), "one two");
}

/// Linux holds what a sync has failed to write, as if it were on disk.
#[test]
fn append_that_fails_and_cannot_be_cut_off_counts_once_it_is_on_disk() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    store.create("other", &text(), None).unwrap();
    let other = store.bytes();
    store.create("s", &text(), None).unwrap();
    store.append("s", &nth(0, b"one "), None).unwrap();
    fail(&[Sync, Cut]);
    assert!(is_unsure(store.append("s", &nth(1, b"two"), None)));
    for _ in 0..2 {
        assert!(is_disk(store.append("s", &nth(1, b"two"), None)), "it is not on disk");
        assert!(is_disk(store.read("s", Start::Beginning, 9)) && is_disk(store.head("s")));
    }
    fail(&[]);
    calls();
    assert!(store.append("s", &nth(1, b"two"), None).unwrap().repeated);
    assert_eq!(calls(), [Write, Sync, SyncDirectory]);
    assert_eq!(all(&store, "s"), "one two");
    assert_eq!(store.bytes(), open(&dir).bytes(), "it is counted");
    store.delete("s", None).unwrap();
    assert_eq!(store.bytes(), other);
}

/// The time of change of its file is the last use of such a stream.
#[test]
fn use_of_a_stream_takes_no_doubt_from_its_file() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    store.create("s", &Create { lifetime: Lifetime::Ttl(600), ..text() }, None).unwrap();
    let stream = store.stream("s");
    let view = store.look(&stream).unwrap();
    fail(&[Sync, Cut]);
    assert!(is_unsure(store.append("s", &nth(0, b"one"), None)));
    NOW_MS.set(sys::clock::unix_ms() + 1_000);
    store.touch(&stream, &view.meta);
    assert!(is_disk(store.head("s")), "it is not on disk");
    fail(&[]);
}

#[test]
fn file_that_is_dated_ahead_is_in_doubt_too() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    store.create("s", &text(), None).unwrap();
    store.append("s", &nth(0, b"one"), None).unwrap();
    file::touch(&file::file_of(dir.path(), "s"), sys::clock::unix_ms() + 3_600_000).unwrap();
    let store = open(&dir);
    calls();
    assert_eq!(all(&store, "s"), "one");
    assert_eq!(calls(), [Write, Sync, SyncDirectory]);
}

#[test]
fn deletion_whose_directory_is_not_synced_counts_once_it_is() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    store.create("s", &text(), None).unwrap();
    fail(&[SyncDirectory]);
    assert!(is_unsure(store.delete("s", None)));
    assert!(is_disk(store.delete("s", None)) && is_disk(store.head("s")));
    fail(&[]);
    calls();
    assert!(matches!(store.delete("s", None), Err(Refusal::Unknown)));
    assert_eq!(calls(), [SyncDirectory]);
    assert!(matches!(store.head("s"), Err(Refusal::Unknown)));
    assert_eq!((calls(), store.bytes()), (vec![], 0));
}

#[test]
fn creation_whose_name_is_not_synced_may_be_there_and_its_repeat_finds_it_or_makes_it() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    fail(&[SyncDirectory]);
    assert!(is_unsure(store.create("s", &Create { data: b"one", ..text() }, None)));
    fail(&[]);
    store.create("s", &Create { data: b"one", ..text() }, None).unwrap();
    assert_eq!(all(&store, "s"), "one");
    assert_eq!(store.bytes(), open(&dir).bytes());
}

#[test]
fn what_cannot_be_opened_is_named() {
    for what in [notes::FILE, "00/0123.new", "7f"] {
        let dir = TempDir::new().unwrap();
        drop(open(&dir));
        let place = dir.path().join(what);
        let _ = fs::remove_dir(&place);
        match what {
            "7f" => fs::write(&place, "").unwrap(),
            _ => fs::create_dir(&place).unwrap(),
        }
        let opened = Store::open(dir.path(), LIMITS, now).and_then(|store| store.telling(true));
        let error = opened.expect_err("it is of another kind").to_string();
        assert!(error.contains(&place.display().to_string()), "{error}");
    }
}
