//! Places that the disk cannot read, as bad sectors are: around them the log is served, and they
//! are told as damage.

use std::path::Path;
use std::sync::Arc;

use crate::disk::faults::fail_reads;
use crate::format::index_path;
use crate::tests::{MOST, append, open, open_small, segments, wait};
use crate::*;

/// A closed log of these many records, each in a segment of its own.
fn small(dir: &Path, records: u64) {
    let journal = open_small(dir).journal;
    (1..=records).for_each(|number| append(&journal, number * 10, &[b"k"]));
    journal.close().expect("it closes");
}

fn config(dir: &Path) -> Config {
    let dir = dir.to_owned();
    Config { dir, bytes_max: 1 << 22, segment_bytes: 1 << 20, sync: Sync::Group }
}

/// From where on nothing is missing, and what is there.
fn read(journal: &Journal) -> (u64, Vec<u64>) {
    let mut out = Vec::new();
    let slice = journal.after(b"k", 0, MOST, &mut out).expect("it reads");
    (slice.from, out.iter().map(|record| record.number).collect())
}

#[test]
fn header_or_body_that_cannot_be_read_is_damage_and_the_log_starts() {
    let dir = tempfile::tempdir().expect("a directory");
    small(dir.path(), 4);
    let path = segments(dir.path()).remove(1);
    let index = std::fs::read(index_path(&path)).expect("it has an index");
    for (place, has_index) in [(0..512, true), (0..64, false), (64..512, false)] {
        if !has_index {
            std::fs::remove_file(index_path(&path)).expect("it is removed");
        }
        fail_reads(&[(&path, place.clone())]);
        let Opened { journal, found } = open_small(dir.path());
        let damage = Damage { file: path.clone(), after: 10, before: 21 };
        assert_eq!(found.damaged, std::slice::from_ref(&damage), "{place:?}");
        assert_eq!(read(&journal), (20, vec![10, 30, 40]), "{place:?}");
        assert!(journal.take_damage_met().is_empty(), "it is told already");
        let report = check(dir.path()).expect("it reads the others");
        assert_eq!((report.damaged, report.records), (vec![damage], 3), "{place:?}");
        drop(journal);
        // The disk can read it again, and nothing that is written says that it cannot.
        fail_reads(&[]);
        let Opened { journal, found } = open_small(dir.path());
        assert!(found.damaged.is_empty(), "{place:?}");
        assert_eq!(read(&journal), (0, vec![10, 20, 30, 40]), "{place:?}");
        drop(journal);
        assert_eq!(std::fs::read(index_path(&path)).expect("it has one"), index);
    }
}

#[test]
fn record_or_index_that_cannot_be_read_later_takes_no_others_with_it() {
    let dir = tempfile::tempdir().expect("a directory");
    small(dir.path(), 4);
    let journal = open_small(dir.path()).journal;
    let path = segments(dir.path()).remove(1);
    fail_reads(&[(&index_path(&path), 0..4096)]);
    assert_eq!(read(&journal), (0, vec![10, 20, 30, 40]), "its index is made again");
    assert!(journal.take_damage_met().is_empty());
    fail_reads(&[(&path, 64..512)]);
    assert_eq!(read(&journal), (20, vec![10, 30, 40]));
    assert_eq!(read(&journal), (20, vec![10, 30, 40]));
    let damage = Damage { file: path, after: 19, before: 21 };
    assert_eq!(journal.take_damage_met(), [damage], "once");
    assert!(journal.take_damage_met().is_empty());
}

/// What comes behind the last mark may be cut off, and numbers go on behind its end: that is not
/// done where the disk may only fail now.
#[test]
fn end_of_the_last_segment_that_cannot_be_read_ends_the_start_and_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = open(dir.path(), Arc::new(RealDisk), 1 << 20).journal;
    let body = [7; 4096];
    for number in 1..=3 {
        let record =
            Record { number, at_ms: 1, expires_ms: 99, keys: &[b"k"], kind: 0, body: &body };
        journal.append(journal.reserve(record.bytes()).expect("there is room"), record);
        assert_eq!(wait(&journal, number), Ok(()));
    }
    journal.close().expect("it closes");
    let path = segments(dir.path()).remove(0);
    let bytes = std::fs::read(&path).expect("it reads");
    for place in [0..64, bytes.len() as u64 - 8..bytes.len() as u64] {
        fail_reads(&[(&path, place.clone())]);
        let opened = Journal::open(config(dir.path()), Arc::new(RealDisk));
        let error = opened.err().expect("it does not start");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        assert_eq!(std::fs::read(&path).expect("it reads"), bytes, "nothing is cut: {place:?}");
    }
    // Nor is one removed that has nothing else.
    std::fs::write(&path, &bytes[..64]).expect("it is cut");
    fail_reads(&[(&path, 0..64)]);
    let error = Journal::open(config(dir.path()), Arc::new(RealDisk)).err();
    assert!(error.is_some() && path.exists());
    std::fs::write(&path, &bytes).expect("it is whole again");
    // Of the second record, which is before a mark.
    fail_reads(&[(&path, 5000..5100)]);
    let Opened { journal, found } = open(dir.path(), Arc::new(RealDisk), 1 << 20);
    assert_eq!(found.damaged.len(), 1);
    assert_eq!(found.damaged[0].file, path);
    assert_eq!(read(&journal).1, [3]);
}

/// The disk may be back by the next time: what nobody could read has not expired for that.
#[test]
fn segment_that_cannot_be_read_for_a_while_is_not_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    small(dir.path(), 4);
    let path = segments(dir.path()).remove(0);
    let body = (&*path, 64..512);
    let journal = open_small(dir.path()).journal;
    fail_reads(&[(&index_path(&path), 0..4096), body.clone()]);
    assert_eq!(read(&journal), (10, vec![20, 30, 40]));
    fail_reads(&[]);
    journal.drop_expired(1).expect("nothing has expired");
    assert_eq!(segments(dir.path()).len(), 4);
    drop(journal);
    std::fs::remove_file(index_path(&path)).expect("it is removed");
    fail_reads(&[body]);
    let journal = open_small(dir.path()).journal;
    fail_reads(&[]);
    journal.drop_expired(1).expect("nothing is known to have expired");
    assert_eq!(segments(dir.path()).len(), 4);
}

/// It says of no record when that expires.
#[test]
fn segment_without_a_header_goes_with_the_next_one_that_expires() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = open_small(dir.path()).journal;
    for number in 1..=4 {
        let expires_ms = if number < 3 { 100 } else { 200 };
        let record = Record { number, at_ms: 1, expires_ms, keys: &[b"k"], kind: 0, body: b"body" };
        journal.append(journal.reserve(record.bytes()).expect("there is room"), record);
    }
    journal.close().expect("it closes");
    let path = segments(dir.path()).remove(0);
    fail_reads(&[(&path, 0..64)]);
    let journal = open_small(dir.path()).journal;
    let left = |now_ms: u64| {
        journal.drop_expired(now_ms).expect("it is removed");
        segments(dir.path()).len()
    };
    assert_eq!((left(99), left(100), left(199), left(200)), (4, 2, 2, 1));
}
