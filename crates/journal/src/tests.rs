//! The log on a real directory, and on a disk whose syncs fail when a test says so.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};

use crate::*;

pub(crate) const MOST: Most = Most { records: 1000, bytes: 1 << 20, now_ms: 10 };

pub(crate) fn open(dir: &Path, disk: Arc<dyn Disk>, segment_bytes: u64) -> Opened {
    let dir = dir.to_owned();
    let bytes_max = segment_bytes.saturating_mul(4);
    let config = Config { dir, bytes_max, segment_bytes, sync: Sync::Group };
    Journal::open(config, disk).expect("the log opens")
}

/// A log each of whose records fills a segment.
pub(crate) fn open_small(dir: &Path) -> Opened {
    let dir = dir.to_owned();
    let config = Config { dir, bytes_max: 1 << 20, segment_bytes: 65, sync: Sync::Group };
    Journal::open(config, Arc::new(RealDisk)).expect("the log opens")
}

pub(crate) fn append(journal: &Journal, number: u64, keys: &[&[u8]]) {
    let body = format!("body {number}");
    let expires_ms = if number == 3 { 10 } else { u64::MAX };
    let body = body.as_bytes();
    let record = Record { number, at_ms: 1, expires_ms, keys, kind: 7, body };
    journal.append(journal.reserve(record.bytes()).expect("there is room"), record);
}

pub(crate) fn wait(journal: &Journal, number: u64) -> Result<(), Failed> {
    let (sender, receiver) = mpsc::sync_channel(1);
    journal.wait_durable(number, move |result| sender.send(result).expect("the test waits"));
    receiver.recv().expect("the writer answers")
}

pub(crate) fn numbers(journal: &Journal, key: &[u8], above: u64) -> Vec<u64> {
    let mut out = Vec::new();
    let slice = journal.after(key, above, MOST, &mut out).expect("it reads");
    assert!(!slice.more);
    out.iter().map(|record| record.number).collect()
}

pub(crate) fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut paths = RealDisk.list(dir).expect("the directory lists");
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "log"));
    paths.sort();
    paths
}

#[test]
fn reopened_log_answers_both_ways_without_the_expired() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = open(dir.path(), Arc::new(RealDisk), 1 << 20).journal;
    (1..=6).for_each(|number| append(&journal, number, &[b"all", &[number as u8 % 2]]));
    assert_eq!(wait(&journal, 6), Ok(()));
    assert_eq!(journal.durable(), 6);
    journal.close().expect("it closes");
    let Opened { journal, found } = open(dir.path(), Arc::new(RealDisk), 1 << 20);
    assert_eq!((found.first, found.last), (Some(1), Some(6)));
    assert!(found.cut.is_none() && found.damaged.is_empty());
    assert_eq!(numbers(&journal, b"all", 1), [2, 4, 5, 6]);
    assert_eq!(journal.last_of(&[0]), Some(6));
    let mut out = Vec::new();
    let two = Most { records: 2, ..MOST };
    let slice = journal.before(b"all", 6, two, &mut out).expect("it reads");
    assert!(slice.more);
    assert_eq!(out.iter().map(|record| record.number).collect::<Vec<_>>(), [5, 4]);
    assert_eq!((out[0].body.as_slice(), out[0].kind), (b"body 5".as_slice(), 7));
}

#[test]
fn last_record_torn_at_any_byte_is_cut_and_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = open(dir.path(), Arc::new(RealDisk), 1 << 20).journal;
    (1..=2).for_each(|number| append(&journal, number, &[b"k"]));
    journal.close().expect("it closes");
    let path = segments(dir.path()).remove(0);
    let bytes = std::fs::read(&path).expect("the segment reads");
    // Its prefix, three numbers, the kind and the count of keys, the key, the body.
    let record = 8 + 3 + 2 + 2 + 6;
    for torn in 1..record {
        segments(dir.path()).iter().for_each(|path| std::fs::remove_file(path).expect("removed"));
        std::fs::write(&path, &bytes[..bytes.len() - torn]).expect("it writes");
        let Opened { journal, found } = open(dir.path(), Arc::new(RealDisk), 1 << 20);
        let cut = found.cut.expect("a cut is told");
        assert_eq!((cut.bytes, cut.after), ((record - torn) as u64, 1));
        append(&journal, 9, &[b"k"]);
        assert_eq!(wait(&journal, 9), Ok(()));
        drop(journal);
        let Opened { journal, found } = open(dir.path(), Arc::new(RealDisk), 1 << 20);
        assert!(found.cut.is_none() && found.damaged.is_empty());
        assert_eq!(numbers(&journal, b"k", 0), [1, 9]);
    }
}

#[test]
fn damage_in_an_older_segment_is_told_and_not_served() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = open_small(dir.path()).journal;
    (1..=3).for_each(|number| append(&journal, number * 10, &[b"k"]));
    journal.close().expect("it closes");
    let path = segments(dir.path()).remove(1);
    let mut bytes = std::fs::read(&path).expect("the segment reads");
    bytes[64 + 12] ^= 1;
    std::fs::write(&path, bytes).expect("it writes");
    let read = |journal: &Journal| {
        let mut out = Vec::new();
        let slice = journal.after(b"k", 0, MOST, &mut out).expect("it reads");
        assert_eq!(slice.from, 20);
        assert_eq!(out.iter().map(|record| record.number).collect::<Vec<_>>(), [10, 30]);
    };
    // Its index is whole: the damage is met when the record is read.
    let Opened { journal, found } = open_small(dir.path());
    assert!(found.damaged.is_empty());
    read(&journal);
    drop(journal);
    std::fs::remove_file(path.with_extension("idx")).expect("it had an index");
    let Opened { journal, found } = open_small(dir.path());
    assert_eq!(found.damaged, [Damage { file: path.clone(), after: 10, before: 21 }]);
    read(&journal);
    drop(journal);
    // The index that was made again knows of it.
    let Opened { journal, found } = open_small(dir.path());
    assert_eq!(found.damaged, [Damage { file: path, after: 10, before: 21 }]);
    read(&journal);
}

#[test]
fn oldest_segments_are_dropped_over_the_bound() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = open(dir.path(), Arc::new(RealDisk), 100).journal;
    for number in 1..=50 {
        append(&journal, number, &[b"k"]);
        assert_eq!(wait(&journal, number), Ok(()));
    }
    assert!(journal.stats().bytes <= 400);
    let mut out = Vec::new();
    let slice = journal.after(b"k", 0, MOST, &mut out).expect("it reads");
    assert_eq!(out.first().map(|record| record.number), Some(slice.from + 1));
    assert_eq!(out.last().map(|record| record.number), Some(50));
    assert_eq!(segments(dir.path()).len(), journal.stats().segments);
}

#[test]
fn log_that_is_opened_with_a_smaller_bound_is_cut_to_it_before_a_record_comes() {
    let dir = tempfile::tempdir().expect("a directory");
    let large = Config {
        dir: dir.path().to_owned(),
        bytes_max: 1 << 20,
        segment_bytes: 100,
        sync: Sync::Group,
    };
    let journal = Journal::open(large, Arc::new(RealDisk)).expect("the log opens").journal;
    (1..=50).for_each(|number| append(&journal, number, &[b"k"]));
    assert_eq!(wait(&journal, 50), Ok(()));
    journal.drop_expired(0).expect("nothing is to be removed");
    assert_eq!(journal.stats().first, Some(1), "there is room for all");
    journal.close().expect("it closes");
    let journal = open(dir.path(), Arc::new(RealDisk), 100).journal;
    assert!(journal.stats().bytes > 400);
    journal.drop_expired(0).expect("segments are removed");
    let stats = journal.stats();
    assert!(stats.bytes <= 400 && stats.last == Some(50), "{stats:?}");
    assert_eq!(segments(dir.path()).len(), stats.segments);
    append(&journal, 51, &[b"k"]);
    assert_eq!(wait(&journal, 51), Ok(()));
    assert_eq!(journal.last_of(b"k"), Some(51));
}

struct Failing(Arc<AtomicBool>);
struct FailingFile(Arc<AtomicBool>, Arc<dyn DiskFile>);

impl DiskFile for FailingFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.1.write_at(bytes, offset)
    }
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.1.read_at(into, offset)
    }
    fn sync(&self) -> io::Result<()> {
        match self.0.load(SeqCst) {
            true => Err(io::Error::other("no sync")),
            false => self.1.sync(),
        }
    }
    fn len(&self) -> io::Result<u64> {
        self.1.len()
    }
    fn cut(&self, bytes: u64) -> io::Result<()> {
        self.1.cut(bytes)
    }
}

impl Disk for Failing {
    fn lock(&self, dir: &Path) -> io::Result<File> {
        RealDisk.lock(dir)
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(FailingFile(Arc::clone(&self.0), RealDisk.open(path)?)))
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(FailingFile(Arc::clone(&self.0), RealDisk.create(path)?)))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        RealDisk.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }
}

#[test]
fn failed_sync_fails_its_waiters_and_is_written_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let fails = Arc::new(AtomicBool::new(false));
    let journal = open(dir.path(), Arc::new(Failing(Arc::clone(&fails))), 1 << 20).journal;
    append(&journal, 1, &[b"k"]);
    assert_eq!(wait(&journal, 1), Ok(()));
    fails.store(true, SeqCst);
    append(&journal, 2, &[b"k"]);
    assert_eq!(wait(&journal, 2), Err(Failed));
    assert_eq!(journal.durable(), 1);
    assert_eq!(journal.reserve(1).err(), Some(NoRoom::Disk));
    fails.store(false, SeqCst);
    assert_eq!(wait(&journal, 2), Ok(()));
    journal.close().expect("it closes");
    let Opened { journal, found } = open(dir.path(), Arc::new(RealDisk), 1 << 20);
    assert!(found.cut.is_none() && found.damaged.is_empty());
    assert_eq!(numbers(&journal, b"k", 0), [1, 2]);
}

#[test]
fn second_process_and_newer_format_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = open(dir.path(), Arc::new(RealDisk), 1 << 20).journal;
    append(&journal, 1, &[b"k"]);
    let config = Config {
        dir: dir.path().to_owned(),
        bytes_max: 1 << 20,
        segment_bytes: 1 << 18,
        sync: Sync::Always,
    };
    let again = Journal::open(config.clone(), Arc::new(RealDisk));
    assert!(matches!(again.err(), Some(OpenError::Io(_))));
    journal.close().expect("it closes");
    let path = segments(dir.path()).remove(0);
    let mut bytes = std::fs::read(&path).expect("the segment reads");
    bytes[8] += 1;
    let sum = crc32fast::hash(&bytes[..28]).to_le_bytes();
    bytes[28..32].copy_from_slice(&sum);
    std::fs::write(&path, bytes).expect("it writes");
    let newer = Journal::open(config, Arc::new(RealDisk));
    assert!(matches!(newer.err(), Some(OpenError::Format { .. })));
}
