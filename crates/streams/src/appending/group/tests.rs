//! Groups of appends, with streams that would hold them up and disks that fail.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::disk::DiskCall::{self, Cut, Sync, Write};
use crate::disk::faults::{calls, fail};
use crate::{Create, Lifetime, Limits, Producer, Start};

fn open(dir: &Path) -> Store {
    let limits = Limits { bytes_max: 1 << 20, log_bytes: 64 << 10 };
    Store::open(dir, limits, sys::clock::unix_ms).unwrap()
}

fn create(store: &Store, path: &str) {
    let (content_type, lifetime) = ("text/plain", Lifetime::Unbounded);
    let create = Create { content_type, lifetime, closed: false, data: b"" };
    store.create(path, &create, None).unwrap();
}

fn nth(sequence: u64, data: &[u8]) -> Append<'_> {
    let producer = Some(Producer { id: "p", epoch: 0, sequence });
    Append { closes: false, producer, sequence: None, data, content_type: Some("text/plain") }
}

fn all(store: &Store, path: &str) -> String {
    let piece = store.read(path, Start::Beginning, usize::MAX).unwrap();
    String::from_utf8(piece.data).unwrap()
}

/// What became of appends, by number.
type Outcomes = Vec<(usize, Result<Appended, Refusal>)>;

/// What became of each, in the order in which that was told, and the calls of the disk.
fn append(store: &Store, appends: &[(&str, Append<'_>)]) -> (Outcomes, Vec<DiskCall>) {
    calls();
    let mut done = Vec::new();
    store.append_group(appends, &mut |number, appended| done.push((number, appended)));
    (done, calls())
}

/// Whether each was stored, by number.
fn stored(done: &[(usize, Result<Appended, Refusal>)]) -> Vec<(usize, bool)> {
    done.iter().map(|(number, appended)| (*number, appended.is_ok())).collect()
}

#[test]
fn group_has_one_sync_whatever_repeats_or_is_refused_in_it() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    ["a", "b", "c", "d"].iter().for_each(|path| create(&store, path));
    store.append("b", &nth(0, b"one"), None).unwrap();
    let appends = [
        ("a", nth(0, b"one")),
        ("b", nth(0, b"one")),
        ("c", nth(1, b"two")),
        ("d", nth(0, b"one")),
    ];
    let (done, calls) = append(&store, &appends);
    assert_eq!(calls, [Write, Write, Write, Sync], "two files, and the log");
    assert!(matches!(done[0], (1, Ok(Appended { repeated: true, .. }))), "{done:?}");
    assert!(matches!(done[1], (2, Err(Refusal::Gap { .. }))), "{done:?}");
    assert_eq!(stored(&done[2..]), [(0, true), (3, true)]);
    for store in [store, open(dir.path())] {
        assert_eq!(["a", "b", "c", "d"].map(|path| all(&store, path)), ["one", "one", "", "one"]);
    }
}

#[test]
fn streams_that_would_hold_up_a_group_come_behind_it() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    ["busy", "long", "quick", "old"].iter().for_each(|path| create(&store, path));
    drop(store);
    let store = open(dir.path());
    ["busy", "long", "quick"].iter().for_each(|path| drop(store.head(path).unwrap()));
    let (busy, long) = (store.stream("busy"), vec![b'x'; 20 << 10]);
    let held = std::cell::RefCell::new(Some(busy.writer.lock()));
    let appends = [
        ("busy", nth(0, b"one")),
        ("old", nth(0, b"one")),
        ("nowhere", nth(0, b"one")),
        ("long", nth(0, &long)),
        ("quick", nth(0, b"one")),
        ("quick", nth(1, b"two")),
    ];
    let mut done = Vec::new();
    store.append_group(&appends, &mut |number, appended| {
        // The other thread lets go of the busy one once the quick one is shown.
        held.take();
        done.push((number, appended.is_ok()));
    });
    let expected = [(4, true), (0, true), (1, true), (2, false), (3, true), (5, true)];
    assert_eq!(done, expected);
    for store in [store, open(dir.path())] {
        assert_eq!(
            ["busy", "old", "quick"].map(|path| all(&store, path)),
            ["one", "one", "onetwo"]
        );
        assert_eq!(all(&store, "long").len(), long.len());
    }
}

#[test]
fn more_than_a_batch_takes_goes_in_some_groups() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let paths: Vec<String> = (0..9).map(|number| format!("s{number}")).collect();
    paths.iter().for_each(|path| create(&store, path));
    let data = vec![b'x'; 10 << 10];
    let appends: Vec<_> = paths.iter().map(|path| (&**path, nth(0, &data))).collect();
    let (done, calls) = append(&store, &appends);
    assert_eq!(stored(&done), Vec::from_iter((0..9).map(|number| (number, true))));
    // Three of them are half of a half.
    assert!((3..9).contains(&calls.iter().filter(|call| **call == Sync).count()), "{calls:?}");
    for store in [store, open(dir.path())] {
        assert!(paths.iter().all(|path| all(&store, path).len() == data.len()));
    }
}

#[test]
fn disk_that_fails_with_a_group_leaves_none_of_it_shown_and_all_of_it_is_taken_later() {
    for (failing, is_unsure) in [(&[Write][..], false), (&[Sync], true), (&[Sync, Cut], true)] {
        let dir = TempDir::new().unwrap();
        let store = open(dir.path());
        ["a", "b"].iter().for_each(|path| create(&store, path));
        let (one, two) = (nth(0, b"one"), nth(1, b"two"));
        append(&store, &[("a", one), ("b", one)]);
        fail(failing);
        let (done, _) = append(&store, &[("a", two), ("b", two)]);
        fail(&[]);
        assert_eq!(stored(&done), [(0, false), (1, false)]);
        let are_unsure = |(_, refusal): &(usize, Result<Appended, Refusal>)| {
            matches!(refusal, Err(Refusal::Unsure(_)))
        };
        assert!(done.iter().all(|done| are_unsure(done) == is_unsure), "{failing:?}: {done:?}");
        // One that could not be cut off is there: then its producer repeats it.
        for _ in 0..2 {
            let (done, _) = append(&store, &[("a", two), ("b", two)]);
            assert_eq!(stored(&done), [(0, true), (1, true)], "{failing:?}");
        }
        for store in [store, open(dir.path())] {
            assert_eq!(["a", "b"].map(|path| all(&store, path)), ["onetwo", "onetwo"]);
        }
    }
}

#[test]
fn teller_that_panics_stops_no_other_append() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    ["a", "b", "c"].iter().for_each(|path| create(&store, path));
    let appends = ["a", "b", "nowhere", "c"].map(|path| (path, nth(0, b"one")));
    let mut told = Vec::new();
    let grief = catch_unwind(AssertUnwindSafe(|| {
        store.append_group(&appends, &mut |number, _| {
            told.push(number);
            assert_eq!(number, 1, "of the test");
        });
    }));
    assert!(grief.is_err());
    assert_eq!(told, [0, 1, 3, 2]);
    let (done, _) = append(&store, &[("a", nth(1, b"two")), ("c", nth(0, b"one"))]);
    assert!(done.iter().any(|(number, done)| *number == 1 && done.as_ref().unwrap().repeated));
    for store in [store, open(dir.path())] {
        assert_eq!(["a", "b", "c"].map(|path| all(&store, path)), ["onetwo", "one", "one"]);
    }
}

#[test]
fn half_that_is_full_is_settled_by_who_is_asked_and_not_by_a_group() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    ["a", "b"].iter().for_each(|path| create(&store, path));
    let data = vec![b'x'; 8 << 10];
    let mut sequence = 0;
    while !store.log_is_full() {
        let (done, calls) =
            append(&store, &[("a", nth(sequence, &data)), ("b", nth(sequence, b"x"))]);
        assert_eq!((stored(&done).len(), calls), (2, vec![Write, Write, Write, Sync]));
        sequence += 1;
    }
    calls();
    store.settle_log();
    assert_eq!((calls(), store.log_is_full()), (vec![Sync, Sync], false));
    store.settle_log();
    assert_eq!(calls(), [], "there is nothing more to do");
}

#[test]
fn file_that_is_open_is_none_of_the_next_stream_s_and_is_closed_with_its_own() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let one = [("a", nth(0, b"one"))];
    create(&store, "a");
    append(&store, &one);
    assert_eq!(store.files.count(), 1);
    store.delete("a", None).unwrap();
    assert_eq!(store.files.count(), 0);
    create(&store, "a");
    append(&store, &one);
    assert_eq!(all(&store, "a"), "one");
    fail(&[Write]);
    append(&store, &[("a", nth(1, b"two"))]);
    fail(&[]);
    assert_eq!(store.files.count(), 0, "what there is of it is looked at again");
    append(&store, &[("a", nth(1, b"two"))]);
    assert_eq!((store.files.count(), &*all(&store, "a")), (1, "onetwo"));
    store.rest();
    store.rest();
    assert_eq!(store.files.count(), 0);
    append(&store, &[("a", nth(2, b"three"))]);
    let file = crate::file::file_of(dir.path(), "a");
    assert!(fs::read(file).unwrap().ends_with(b"three"));
}

#[test]
fn log_that_is_emptied_leaves_its_successor_nothing_and_one_that_cannot_be_is_as_it_was() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    create(&store, "a");
    append(&store, &[("a", nth(0, b"one"))]);
    fail(&[Sync]);
    store.empty_log();
    fail(&[]);
    calls();
    store.empty_log();
    // After the failure the file is written once more. Then both halves are.
    assert_eq!(calls(), [Write, Sync, Write, Sync, Write, Sync]);
    append(&store, &[("a", nth(1, b"two"))]);
    store.empty_log();
    store.empty_log();
    // Its file twice: while all goes on, and what came meanwhile.
    assert_eq!(calls(), [Sync, Sync, Write, Sync, Write, Sync]);
    drop(store);
    let store = open(dir.path());
    // No file is written: both halves are, when they are settled and when they begin.
    assert_eq!(calls(), [[Write, Sync]; 4].concat());
    assert_eq!(all(&store, "a"), "onetwo");
}

#[test]
fn half_that_nobody_settled_has_its_files_on_disk_before_a_group_begins_it_anew() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    create(&store, "a");
    let data = vec![b'x'; 8 << 10];
    let mut waited = 0;
    for sequence in 0..40 {
        let (_, calls) = append(&store, &[("a", nth(sequence, &data))]);
        if calls != [Write, Write, Sync] {
            assert_eq!(calls, [Write, Sync, Write, Sync], "its file is synced before the log");
            waited += 1;
        }
    }
    // A half has seven of them, and both are empty at first.
    assert!((3..=5).contains(&waited), "{waited}");
}
