//! What is told of streams, over whatever end of the process.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::notes::{NOTES_MAX, PLACE_BYTES};
use crate::offset::Offset;
use crate::{Append, Create, Lifetime, Limits, Producer};

const CREATE: Create<'static> =
    Create { content_type: "text/plain", lifetime: Lifetime::Unbounded, closed: false, data: b"" };

/// Who remembers what it was told, and copies what is on disk at that moment.
#[derive(Default)]
struct Recorder<'d> {
    is_busy: Cell<bool>,
    /// Whether what is told may be forgotten.
    is_unsure: Cell<bool>,
    told: RefCell<Vec<String>>,
    /// Where each was told to end.
    ends: RefCell<Vec<Offset>>,
    copies: Option<(&'d Path, &'d Path)>,
}

impl Recorder<'_> {
    fn told(&self) -> Vec<String> {
        self.told.take()
    }
}

impl Teller for Recorder<'_> {
    fn outlives(&self, _path: &str) -> bool {
        true
    }

    fn is_safe(&self, number: u64) -> bool {
        assert_eq!(number, 7);
        !self.is_unsure.get()
    }

    fn tell(&self, told: &AppendNotice<'_>) -> Outcome {
        if let Some((from, to)) = self.copies {
            copy(from, to);
        }
        if self.is_busy.get() {
            return Outcome::Not;
        }
        let text = std::str::from_utf8(told.data).unwrap();
        let end = if told.closes { "." } else { "" };
        self.told.borrow_mut().push(format!("{} {text}{end}", told.path));
        self.ends.borrow_mut().push(told.next);
        if self.is_unsure.get() { Outcome::Unsure(7) } else { Outcome::Told }
    }

    fn was_told(&self, told: &AppendNotice<'_>) -> io::Result<bool> {
        Ok(self.ends.borrow().contains(&told.next))
    }
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if path.is_file() {
            fs::copy(path, copy).unwrap();
            continue;
        }
        fs::create_dir(&copy).unwrap();
        for file in fs::read_dir(path).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
    }
}

fn open(dir: &Path) -> Store {
    let limits = Limits { bytes_max: 1 << 20, log_bytes: 64 << 10 };
    Store::open(dir, limits, sys::clock::unix_ms).unwrap().telling(true).unwrap()
}

thread_local! {
    /// How far the clock of [`open_later`] is ahead.
    static LATER_MS: Cell<u64> = const { Cell::new(0) };
}

fn open_later(dir: &Path) -> Store {
    let clock = || sys::clock::unix_ms() + LATER_MS.get();
    Store::open(dir, Limits { bytes_max: 1 << 20, log_bytes: 64 << 10 }, clock)
        .unwrap()
        .telling(true)
        .unwrap()
}

fn bytes(data: &[u8]) -> Append<'_> {
    Append { closes: false, producer: None, sequence: None, data, content_type: Some("text/plain") }
}

fn nth(sequence: u64, data: &[u8]) -> Append<'_> {
    Append { producer: Some(Producer { id: "p", epoch: 0, sequence }), ..bytes(data) }
}

/// Tells all that is due; whether nothing is left.
fn tell_all(store: &Store, teller: &dyn Teller) -> bool {
    store.due().iter().all(|path| store.tell_due(path, teller).is_ok()) && store.due().is_empty()
}

/// Whether a process that starts below `dir`, and knows of nothing that was told, tells nothing.
fn is_all_told(dir: &Path) -> bool {
    let (store, next) = (open(dir), Recorder::default());
    tell_all(&store, &next) && next.told().is_empty()
}

#[test]
fn each_append_is_told_once_and_in_order_and_a_close_too() {
    let (dir, teller) = (TempDir::new().unwrap(), Recorder::default());
    let store = open(dir.path());
    store.create("a", &CREATE, Some(&teller)).unwrap();
    store.create("b", &Create { data: b"first", ..CREATE }, Some(&teller)).unwrap();
    store.create("c", &Create { closed: true, ..CREATE }, Some(&teller)).unwrap();
    assert_eq!(teller.told(), ["b first", "c ."], "an empty stream is nothing to tell of");
    store.append("a", &nth(0, b"x"), Some(&teller)).unwrap();
    assert!(store.append("a", &nth(0, b"x"), Some(&teller)).unwrap().repeated);
    assert!(store.append("a", &nth(2, b"z"), Some(&teller)).is_err());
    assert!(store.append("none", &bytes(b"z"), Some(&teller)).is_err());
    store.append("a", &Append { closes: true, ..nth(1, b"y") }, Some(&teller)).unwrap();
    store.append("b", &Append { closes: true, ..bytes(b"") }, Some(&teller)).unwrap();
    store.append("b", &Append { closes: true, ..bytes(b"") }, Some(&teller)).unwrap();
    assert!(store.append("b", &bytes(b"x"), Some(&teller)).is_err());
    assert_eq!(teller.told(), ["a x", "a y.", "b ."]);
    store.create("silent", &CREATE, None).unwrap();
    store.append("silent", &bytes(b"x"), None).unwrap();
    assert!(teller.told().is_empty() && tell_all(&store, &teller));
}

#[test]
fn what_cannot_be_told_is_told_later_and_nothing_is_appended_before() {
    let (dir, teller) = (TempDir::new().unwrap(), Recorder::default());
    let store = open(dir.path());
    store.create("a", &CREATE, Some(&teller)).unwrap();
    teller.is_busy.set(true);
    let next = store.append("a", &bytes(b"x"), Some(&teller)).unwrap().next;
    for _ in 0..2 {
        let refused = store.append("a", &bytes(b"y"), Some(&teller));
        assert!(matches!(refused, Err(Refusal::Pending)));
        assert!(matches!(store.delete("a", Some(&teller)), Err(Refusal::Pending)));
        assert_eq!(store.head("a").unwrap().next, next, "nothing was changed");
        assert!(!tell_all(&store, &teller));
    }
    teller.is_busy.set(false);
    assert!(tell_all(&store, &teller));
    store.append("a", &bytes(b"y"), Some(&teller)).unwrap();
    teller.is_busy.set(true);
    store.append("a", &bytes(b"z"), Some(&teller)).unwrap();
    teller.is_busy.set(false);
    store.append("a", &bytes(b"!"), Some(&teller)).unwrap();
    assert_eq!(teller.told(), ["a x", "a y", "a z", "a !"]);
}

#[test]
fn stream_whose_lifetime_is_over_is_gone_for_readers_and_removed_once_its_last_append_is_told() {
    let (dir, teller) = (TempDir::new().unwrap(), Recorder::default());
    for is_opened_again in [false, true] {
        LATER_MS.set(0);
        let mut store = open_later(dir.path());
        let create = Create { lifetime: Lifetime::Ttl(600), ..CREATE };
        store.create("a", &create, Some(&teller)).unwrap();
        teller.is_busy.set(true);
        store.append("a", &bytes(b"x"), Some(&teller)).unwrap();
        // A live reader may have held it a minute longer than its file says.
        LATER_MS.set(661_000);
        if is_opened_again {
            store = open_later(dir.path());
        }
        for _ in 0..2 {
            let swept: usize = (0..256).map(|number| store.sweep(number).unwrap()).sum();
            assert_eq!(swept, 0, "{is_opened_again}");
            assert!(matches!(store.head("a"), Err(Refusal::Unknown)));
            for teller in [Some(&teller as &dyn Teller), None] {
                assert!(matches!(store.create("a", &create, teller), Err(Refusal::Pending)));
            }
            assert!(!tell_all(&store, &teller));
        }
        teller.is_busy.set(false);
        assert!(tell_all(&store, &teller));
        assert_eq!(teller.told(), ["a x"], "{is_opened_again}");
        assert_eq!(store.bytes(), 0, "its file is gone");
        assert!(matches!(store.delete("a", Some(&teller)), Err(Refusal::Unknown)));
    }
}

/// The disk of what is told has failed behind it.
#[test]
fn what_may_be_forgotten_is_told_once_by_a_process_and_again_by_the_next_if_it_is() {
    let (dir, teller) = (TempDir::new().unwrap(), Recorder::default());
    let store = open(dir.path());
    store.create("a", &CREATE, Some(&teller)).unwrap();
    teller.is_unsure.set(true);
    store.append("a", &bytes(b"x"), Some(&teller)).unwrap();
    for _ in 0..2 {
        assert!(matches!(store.append("a", &bytes(b"y"), Some(&teller)), Err(Refusal::Pending)));
        assert!(!tell_all(&store, &teller));
    }
    let next = Recorder::default();
    assert!(tell_all(&open(dir.path()), &next));
    assert_eq!((teller.told().len(), next.told().len()), (1, 1));
    teller.is_unsure.set(false);
    store.append("a", &bytes(b"y"), Some(&teller)).unwrap();
    assert_eq!(teller.told(), ["a y"]);
    assert!(store.due().is_empty());
}

#[test]
fn pending_appends_are_so_many_at_most() {
    let (dir, teller) = (TempDir::new().unwrap(), Recorder::default());
    let store = open(dir.path());
    for number in 0..NOTES_MAX as u64 {
        store.notes.as_ref().unwrap().make(&number.to_string(), (number, 8), false).unwrap();
    }
    let first = Create { data: b"x", ..CREATE };
    assert!(matches!(store.create("more", &first, Some(&teller)), Err(Refusal::Pending)));
    assert!(matches!(store.head("more"), Err(Refusal::Unknown)), "nothing was changed");
    store.tell_due("1", &teller).unwrap();
    store.create("more", &first, Some(&teller)).unwrap();
    assert_eq!(teller.told(), ["more x"]);
}

/// A process ends before an append, between it and its event, and behind both.
#[test]
fn append_is_told_once_wherever_the_process_ends() {
    let (dir, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (before, between) = (other.path().join("before"), other.path().join("between"));
    let store = open(dir.path());
    let teller = Recorder { copies: Some((dir.path(), between.as_path())), ..Recorder::default() };
    store.create("a", &CREATE, Some(&teller)).unwrap();
    for (number, text) in ["x", "y", "z"].into_iter().enumerate() {
        let append = Append { closes: text == "z", ..nth(number as u64, text.as_bytes()) };
        copy(dir.path(), &before);
        store.append("a", &append, Some(&teller)).unwrap();
        let [line] = &teller.told()[..] else { panic!("{text}: it is told once") };
        for ended in ["noted", "appended", "told"] {
            let crashed = other.path().join("crashed");
            copy(if ended == "noted" { &before } else { &between }, &crashed);
            fs::copy(between.join("untold"), crashed.join("untold")).unwrap();
            let next = Recorder::default();
            if ended == "told" {
                next.ends.borrow_mut().extend(teller.ends.borrow().iter());
            }
            let store = open(&crashed);
            assert_eq!(store.due(), ["a"].map(Box::from), "{text} {ended}");
            // Its writer, which has heard nothing, comes first; or nobody does.
            let is_repeated = number != 1;
            if is_repeated {
                let again = store.append("a", &append, Some(&next)).unwrap();
                assert_eq!(again.repeated, ended != "noted", "{text} {ended}");
            }
            assert!(tell_all(&store, &next));
            let expected: &[String] = match ended {
                "told" => &[],
                "noted" if !is_repeated => &[],
                _ => std::slice::from_ref(line),
            };
            assert_eq!(next.told(), expected, "{text} {ended}");
            drop(store);
            assert!(is_all_told(&crashed), "{text} {ended}");
        }
    }
}

/// The first note below `dir`, as it is on disk.
fn first_note(dir: &Path) -> Vec<u8> {
    fs::read(dir.join("untold")).unwrap()[..PLACE_BYTES].to_vec()
}

fn write_notes(dir: &Path, notes: [&[u8]; 2]) {
    let mut all = fs::read(dir.join("untold")).unwrap();
    all[..2 * PLACE_BYTES].copy_from_slice(&notes.concat());
    fs::write(dir.join("untold"), all).unwrap();
}

/// The disk took no zeros over the note of an append that was told.
#[test]
fn of_two_notes_the_later_one_counts_and_both_places_are_used_again() {
    for is_stale_first in [false, true] {
        let (dir, teller) = (TempDir::new().unwrap(), Recorder::default());
        let store = open(dir.path());
        store.create("a", &CREATE, Some(&teller)).unwrap();
        teller.is_busy.set(true);
        store.append("a", &bytes(b"x"), Some(&teller)).unwrap();
        let stale = first_note(dir.path());
        teller.is_busy.set(false);
        assert!(tell_all(&store, &teller));
        teller.is_busy.set(true);
        let tail = store.append("a", &bytes(b"y"), Some(&teller)).unwrap().next;
        let last = first_note(dir.path());
        drop(store);
        let notes = if is_stale_first { [&*stale, &*last] } else { [&*last, &*stale] };
        write_notes(dir.path(), notes);
        let (store, next) = (open(dir.path()), Recorder::default());
        assert!(tell_all(&store, &next));
        assert_eq!(next.told(), ["a y"], "{is_stale_first}");
        assert_eq!(next.ends.take(), [tail], "{is_stale_first}");
        let notes = store.notes.as_ref().unwrap();
        (0..NOTES_MAX as u64).for_each(|n| notes.make(&n.to_string(), (n, 8), false).unwrap());
    }
}

#[test]
fn note_of_an_append_behind_which_there_is_another_tells_nothing() {
    let (dir, teller) = (TempDir::new().unwrap(), Recorder::default());
    let store = open(dir.path());
    store.create("a", &CREATE, Some(&teller)).unwrap();
    teller.is_busy.set(true);
    store.append("a", &bytes(b"x"), Some(&teller)).unwrap();
    let stale = first_note(dir.path());
    teller.is_busy.set(false);
    store.append("a", &bytes(b"y"), Some(&teller)).unwrap();
    assert_eq!(teller.told(), ["a x", "a y"]);
    drop(store);
    write_notes(dir.path(), [&stale, &[0; PLACE_BYTES]]);
    let (store, next) = (open(dir.path()), Recorder::default());
    next.ends.borrow_mut().extend(teller.ends.borrow().iter());
    assert_eq!(store.due(), ["a"].map(Box::from));
    assert!(tell_all(&store, &next));
    assert!(next.told().is_empty());
    drop(store);
    assert!(is_all_told(dir.path()));
}

#[test]
fn note_of_a_stream_that_is_gone_or_is_not_to_be_told_any_more_tells_nothing() {
    let (dir, teller) = (TempDir::new().unwrap(), Recorder::default());
    let limits = Limits { bytes_max: 1 << 20, log_bytes: 64 << 10 };
    for is_created_anew in [false, true] {
        let store = open(dir.path());
        store.create("a", &CREATE, Some(&teller)).unwrap();
        teller.is_busy.set(true);
        store.append("a", &bytes(b"x"), Some(&teller)).unwrap();
        teller.is_busy.set(false);
        // By a process that tells nobody and leaves the notes as they are.
        let silent = Store::open(dir.path(), limits, sys::clock::unix_ms).unwrap();
        silent.delete("a", None).unwrap();
        if is_created_anew {
            silent.create("a", &Create { data: b"a new one", ..CREATE }, None).unwrap();
        }
        let store = open(dir.path());
        assert_eq!(store.due().len(), 1);
        assert!(tell_all(&store, &teller) && teller.told().is_empty(), "{is_created_anew}");
        let _ = store.delete("a", None);
    }
    let store = open(dir.path());
    store.create("a", &CREATE, Some(&teller)).unwrap();
    teller.is_busy.set(true);
    store.append("a", &bytes(b"x"), Some(&teller)).unwrap();
    let silent = Store::open(dir.path(), limits, sys::clock::unix_ms).unwrap();
    silent.telling(false).unwrap();
    assert!(open(dir.path()).due().is_empty());
}

mod crashes;
