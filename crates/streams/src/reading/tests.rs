//! Readers beside writers: what is deleted under a read, and what needs no disk.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::long_reads::{LONG_BYTES, LONG_READS_MAX};
use crate::record::Record;
use crate::{Append, Create, Fork, Lifetime, Limits, file};

fn open(dir: &Path) -> Store {
    Store::open(dir, Limits { bytes_max: 1 << 30, log_bytes: 64 << 10 }, sys::clock::unix_ms)
        .unwrap()
}

fn create(store: &Store, path: &str, data: &[u8]) -> Offset {
    let (content_type, lifetime) = ("text/plain", Lifetime::Unbounded);
    let create = Create { content_type, lifetime, closed: false, data };
    store.create(path, &create, None).unwrap().head.next
}

fn fork(store: &Store, path: &str, source: &str) {
    let fork = Fork {
        source,
        at: None,
        sub_offset: 0,
        content_type: "text/plain",
        lifetime: None,
        closed: false,
        data: b"",
    };
    store.fork(path, &fork, None).unwrap();
}

fn append(store: &Store, path: &str, data: &[u8], closes: bool) -> Offset {
    let content_type = Some("text/plain");
    let append = Append { closes, producer: None, sequence: None, data, content_type };
    store.append(path, &append, None).unwrap().next
}

/// Of the fork's ancestors nothing is read that belongs to another fork of its name.
#[test]
fn fork_that_is_deleted_and_made_anew_under_a_read_is_gone_for_the_reader() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    for (path, text) in [("a", b"one "), ("c", b"else")] {
        create(&store, path, text);
    }
    for source in ["c", "a"] {
        fork(&store, "b", "a");
        append(&store, "b", b"own", false);
        let stream = store.stream("b");
        let view = store.look(&stream).unwrap();
        let read = || store.read_of((&stream, &view), Start::Beginning, 99, None);
        assert_eq!(read().unwrap().data, b"one own");
        store.delete("b", None).unwrap();
        assert!(matches!(read(), Err(Refusal::Unknown)), "nothing is there");
        fork(&store, "b", source);
        assert!(matches!(read(), Err(Refusal::Unknown)), "another one is there, of {source}");
        store.delete("b", None).unwrap();
    }
}

/// Sums of records have no secret, so a client can append the bytes of one.
#[test]
fn offset_within_an_append_is_none_whatever_is_there() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let first = create(&store, "a", b"");
    let (content_type, mut forged) = (None, Vec::new());
    let append_of_one =
        Append { closes: false, producer: None, sequence: None, data: b"x", content_type };
    Record::Append(append_of_one).write(&mut forged);
    let second = append(&store, "a", &[&*forged, b"zzzzzzzzz"].concat(), false);
    // Behind its length, its sum, its kind and its flags.
    let made_up = Start::At(Offset { position: first.position + 10, ..first });
    let read = |start| store.read("a", start, 1 << 20);
    assert!(matches!(read(made_up), Err(Refusal::BadOffset)), "{:?}", read(made_up));
    let fork = Fork {
        source: "a",
        at: Some(made_up),
        sub_offset: 0,
        content_type: "text/plain",
        lifetime: None,
        closed: false,
        data: b"",
    };
    assert!(matches!(store.fork("b", &fork, None), Err(Refusal::BadOffset)));
    append(&store, "a", b"more", false);
    let at = Some(Start::At(second));
    assert!(store.fork("b", &Fork { at, ..fork }, None).unwrap().is_new);
    // What is damaged behind a place of the stream's own is told as that.
    let file = file::file_of(dir.path(), "a");
    let mut damaged = fs::read(&file).unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(&file, damaged).unwrap();
    let read_on = read(Start::At(first));
    assert!(matches!(read_on, Err(Refusal::Damaged(at)) if at == second.position), "{read_on:?}");
    assert!(matches!(read(made_up), Err(Refusal::BadOffset)), "and it is no place still");
}

#[test]
fn source_that_is_deleted_under_a_read_and_stays_for_its_forks_is_gone() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    create(&store, "a", b"one ");
    fork(&store, "b", "a");
    let stream = store.stream("a");
    let view = store.look(&stream).unwrap();
    store.delete("a", None).unwrap();
    let read = store.read_of((&stream, &view), Start::Beginning, 99, None);
    assert!(matches!(read, Err(Refusal::Gone)), "{read:?}");
}

#[test]
fn short_appends_are_read_while_all_permits_for_long_ones_are_taken() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let first = create(&store, "a", b"short");
    let long = vec![b'x'; LONG_BYTES];
    append(&store, "a", &long, false);
    let taken: Vec<_> = (0..LONG_READS_MAX).map(|_| store.long_reads.begin()).collect();
    assert_eq!(store.read("a", Start::Beginning, 1).unwrap().data, b"short");
    let is_long =
        |start, bytes_max| matches!(store.read_short("a", start, bytes_max), Err(Refusal::Long));
    assert!(is_long(Start::At(first), 1), "it is the first");
    assert!(is_long(Start::Beginning, 6), "it is the second");
    assert_eq!(store.read_short("a", Start::Beginning, 5).unwrap().data, b"short");
    assert!(store.read_short("a", Start::Now, 1).unwrap().data.is_empty());
    drop(taken);
    assert_eq!(store.read("a", Start::At(first), 1).unwrap().data.len(), LONG_BYTES);
    assert_eq!(store.long_reads.free(), LONG_READS_MAX);
}

/// Or two readers of forks could wait for each other for ever, and the one of a long file would
/// hold up all others.
#[test]
fn reader_has_one_permit_at_a_time_and_none_behind_a_long_append() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let long = vec![b'x'; LONG_BYTES];
    create(&store, "a", b"");
    append(&store, "a", &long, false);
    append(&store, "a", b"short", false);
    fork(&store, "b", "a");
    append(&store, "b", &long, false);
    fork(&store, "c", "b");
    append(&store, "c", &long, false);
    let all_but_one = |store: &Store| assert_eq!(store.long_reads.free(), 1);
    let _taken: Vec<_> = (1..LONG_READS_MAX).map(|_| store.long_reads.begin()).collect();
    let stream = store.stream("c");
    let content = Content::of(store.file(&stream), &store.look(&stream).unwrap());
    let mut seen = Vec::new();
    let taken = |data: &[u8]| {
        if !data.is_empty() {
            seen.push((data.len(), store.long_reads.free()));
        }
        false
    };
    let start = content.place(Start::Beginning).unwrap();
    assert_eq!(content.read(start, Some(&store.long_reads), taken).unwrap(), content.tail());
    assert_eq!(seen, [(LONG_BYTES, 0), (5, 1), (LONG_BYTES, 0), (LONG_BYTES, 0)]);
    all_but_one(&store);
    // Nor does it take more to find out what a file has.
    let store = open(dir.path());
    let _taken: Vec<_> = (1..LONG_READS_MAX).map(|_| store.long_reads.begin()).collect();
    assert!(store.head("c").is_ok() && store.head("a").is_ok());
    all_but_one(&store);
}

#[test]
fn live_readers_have_the_last_append_without_the_disk() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let first = create(&store, "a", b"");
    let second = append(&store, "a", b"unheard", false);
    let (reader, other) = (store.live("a"), store.live("a"));
    assert!(reader.newest_piece(first).is_none(), "nobody has waited for it");
    let third = append(&store, "a", b"token", false);
    let names = file::file_of(dir.path(), "a");
    let away = names.with_extension("away");
    fs::rename(&names, &away).unwrap();
    for reader in [&reader, &other] {
        let piece = reader.newest_piece(second).unwrap();
        assert_eq!((piece.data.as_slice(), piece.from), (b"token".as_slice(), second));
        assert_eq!((piece.head.next, piece.up_to_date, piece.ends()), (third, true, false));
        assert!(reader.newest_piece(first).is_none() && reader.newest_piece(third).is_none());
    }
    fs::rename(&away, &names).unwrap();
    let fourth = append(&store, "a", &[b'x'; 4097], false);
    assert!(reader.newest_piece(third).is_none(), "it is long");
    append(&store, "a", b"", true);
    let end = other.newest_piece(fourth).unwrap();
    assert!(end.data.is_empty() && end.ends());
    drop(reader);
    assert!(other.newest_piece(fourth).is_some());
    drop(other);
    let reader = store.live("a");
    assert!(reader.newest_piece(fourth).is_none(), "nothing is kept for nobody");
    store.delete("a", None).unwrap();
    let first = create(&store, "a", b"");
    append(&store, "a", b"anew", false);
    assert!(reader.newest_piece(fourth).is_none() && reader.newest_piece(first).is_some());
}

fn json(data: &[u8]) -> Append<'_> {
    let content_type = Some("application/json");
    Append { closes: false, producer: None, sequence: None, data, content_type }
}

#[test]
fn live_reader_that_is_behind_has_what_was_appended_since_without_the_disk() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let (content_type, lifetime) = ("application/json", Lifetime::Unbounded);
    let create = Create { content_type, lifetime, closed: false, data: b"" };
    let begin = store.create("j", &create, None).unwrap().head.next;
    let reader = store.live("j");
    let number = |number: usize| number.to_string();
    let mut ends = vec![begin];
    for nth in 0..40 {
        ends.push(store.append("j", &json(number(nth).as_bytes()), None).unwrap().next);
    }
    let names = file::file_of(dir.path(), "j");
    let away = names.with_extension("away");
    fs::rename(&names, &away).unwrap();
    for first in 0..40 {
        let all: Vec<_> = (first..40).map(number).collect();
        let piece = reader.newest_piece(ends[first]).map(|piece| (piece.data, piece.head.next));
        let expected = (first >= 8).then(|| (all.join(",").into_bytes(), ends[40]));
        assert_eq!(piece, expected, "from {first}");
    }
    fs::rename(&away, &names).unwrap();
    // All together have a bound, too.
    let long = format!("\"{}\"", "x".repeat(4_060));
    store.append("j", &json(long.as_bytes()), None).unwrap();
    assert!(reader.newest_piece(ends[20]).is_none() && reader.newest_piece(ends[39]).is_some());
}
