//! What goes wrong beside a crash: files that are gone, indices that are damaged, no space, panics.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::format::{name, parse_name};
use crate::sim::SimDisk;
use crate::tests::{MOST, append, numbers, open, open_small, segments, wait};
use crate::*;

fn read(journal: &Journal, above: u64, most: Most) -> (Slice, Vec<u64>) {
    let mut out = Vec::new();
    let slice = journal.after(b"k", above, most, &mut out).expect("it reads");
    (slice, out.iter().map(|record| record.number).collect())
}

/// A closed log of these many records, each in a segment of its own.
fn small(dir: &Path, records: u64) {
    let journal = open_small(dir).journal;
    (1..=records).for_each(|number| append(&journal, number * 10, &[b"k"]));
    journal.close().expect("it closes");
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).expect("it reads");
    bytes[at] ^= 1;
    std::fs::write(path, bytes).expect("it writes");
}

#[test]
fn segment_that_is_gone_is_told_as_a_hole_and_one_that_was_dropped_is_not() {
    let dir = tempfile::tempdir().expect("a directory");
    small(dir.path(), 5);
    let mut paths = segments(dir.path());
    let (oldest, gone) = (paths.remove(0), paths.remove(1));
    std::fs::remove_file(gone).expect("it is removed");
    let Opened { journal, found } = open_small(dir.path());
    let damage = Damage { file: paths[1].clone(), after: 20, before: 31 };
    assert_eq!(found.damaged, std::slice::from_ref(&damage));
    assert_eq!(read(&journal, 0, MOST).0.from, 30);
    assert_eq!(numbers(&journal, b"k", 30), [40, 50]);
    drop(journal);
    std::fs::remove_file(oldest).expect("it is removed");
    let Opened { journal, found } = open_small(dir.path());
    assert_eq!(found.damaged, [damage], "numbers before the first segment were dropped");
    assert_eq!(found.first, Some(20));
    drop(journal);
}

#[test]
fn damaged_header_takes_no_segment_away_unless_both_copies_are() {
    let dir = tempfile::tempdir().expect("a directory");
    small(dir.path(), 3);
    let path = segments(dir.path()).remove(1);
    flip(&path, 20);
    let Opened { journal, found } = open_small(dir.path());
    assert!(found.damaged.is_empty());
    assert_eq!(numbers(&journal, b"k", 0), [10, 20, 30]);
    drop(journal);
    flip(&path, 52);
    let Opened { journal, found } = open_small(dir.path());
    assert_eq!(found.damaged, [Damage { file: path, after: 10, before: 21 }]);
    assert_eq!(read(&journal, 0, MOST), (Slice { from: 20, more: false, next: 30 }, vec![10, 30]));
}

/// Nobody knows how far it went, and its name may be anything: it is said, and numbers go on.
#[test]
fn damaged_header_of_the_last_segment_is_told_as_an_end_that_is_lost() {
    for (renamed, records) in [(false, 3), (true, 3), (false, 1), (true, 1)] {
        let dir = tempfile::tempdir().expect("a directory");
        small(dir.path(), records);
        let mut path = segments(dir.path()).remove(records as usize - 1);
        let readable: Vec<u64> = (1..records).map(|number| number * 10).collect();
        let last = readable.last().copied();
        flip(&path, 20);
        flip(&path, 52);
        if renamed {
            let stray = dir.path().join(name(9, u64::MAX - 5));
            std::fs::rename(&path, &stray).expect("renamed");
            path = stray;
        }
        let after = last.unwrap_or(0);
        let damage = [Damage { file: path, after, before: u64::MAX }];
        assert_eq!(check(dir.path()).expect("it reads").damaged, damage);
        let Opened { journal, found } = open_small(dir.path());
        assert!(found.is_end_lost);
        assert_eq!(found.damaged, damage);
        assert_eq!((found.last, numbers(&journal, b"k", 0)), (last, readable.clone()));
        // A number that may have been in it.
        append(&journal, after + 1, &[b"k"]);
        assert_eq!(wait(&journal, after + 1), Ok(()));
        drop(journal);
        let Opened { journal, found } = open_small(dir.path());
        let all = [&readable[..], &[after + 1]].concat();
        assert_eq!((found.is_end_lost, numbers(&journal, b"k", 0)), (false, all));
        // What has a number behind which there is no room is none of ours.
        let far = Path::new(&name(u32::MAX - 1, 1)).to_owned();
        assert_eq!(parse_name(&far), None);
    }
}

/// The kernel takes bytes for a file that has no name any more, and syncs them.
#[test]
fn log_that_is_removed_while_it_is_open_keeps_nothing_and_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = open(dir.path(), Arc::new(RealDisk), 1 << 20).journal;
    append(&journal, 10, &[b"k"]);
    assert_eq!(wait(&journal, 10), Ok(()));
    std::fs::remove_dir_all(dir.path()).expect("it is removed");
    append(&journal, 20, &[b"k"]);
    assert_eq!(wait(&journal, 20), Err(Failed));
}

#[test]
fn what_cannot_be_opened_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join(name(1, 1))).expect("a directory in its place");
    let place = dir.path().to_owned();
    let config =
        Config { dir: place, bytes_max: 1 << 20, segment_bytes: 1 << 18, sync: Sync::Group };
    let error = Journal::open(config, Arc::new(RealDisk)).err().expect("it is no file");
    assert!(error.to_string().contains(&name(1, 1)), "{error}");
}

/// The last sync is known by its mark, which is written behind it and synced with the next one.
/// Where that mark is lost as well, a bit that flips in what was synced last is as good as a write
/// that the power cut: all from there on is lost, and told as a torn tail. With the mark it is one
/// record, and told as damage.
#[test]
fn flip_in_what_was_synced_last_is_damage_with_its_mark_and_a_torn_tail_without() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = open(dir.path(), Arc::new(RealDisk), 1 << 20).journal;
    (1..=5).for_each(|number| append(&journal, number * 10, &[b"k"]));
    assert_eq!(wait(&journal, 50), Ok(()));
    // The next record is behind the mark of that sync.
    append(&journal, 60, &[b"k"]);
    journal.close().expect("it closes");
    let path = segments(dir.path()).remove(0);
    let bytes = std::fs::read(&path).expect("it reads");
    let marked = bytes.windows(4).rposition(|four| four == [0xff; 4]).expect("there is a mark");
    // Of the third record, whose body ends before the two behind it.
    let third = bytes.windows(7).position(|body| body == b"body 30").expect("it is there");
    let restart = |end: usize| {
        let mut bytes = bytes[..end].to_vec();
        bytes[third] ^= 1;
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join(path.file_name().expect("a name")), bytes).expect("written");
        let Opened { journal, found } = open(dir.path(), Arc::new(RealDisk), 1 << 20);
        let (slice, numbers) = read(&journal, 0, MOST);
        (found.damaged.len(), found.cut.map(|cut| cut.after), slice.from, numbers)
    };
    assert_eq!(restart(bytes.len()), (1, None, 39, vec![10, 20, 40, 50, 60]));
    let start = bytes[..marked].iter().rposition(|byte| *byte != 0xff).expect("a record") + 1;
    assert_eq!(restart(start), (0, Some(20), 0, vec![10, 20]));
}

#[test]
fn damaged_index_is_made_again_at_the_start_and_while_it_is_read() {
    let dir = tempfile::tempdir().expect("a directory");
    small(dir.path(), 3);
    let index = segments(dir.path()).remove(1).with_extension("idx");
    let whole = std::fs::read(&index).expect("it has an index");
    for at in 0..whole.len() {
        flip(&index, at);
        let Opened { journal, found } = open_small(dir.path());
        assert!(found.damaged.is_empty(), "byte {at}");
        let two = Bound { records: 2, bytes: u64::MAX, bytes_each: 0 };
        assert_eq!(journal.over(b"k", two).expect("it reads"), 10, "byte {at}");
        assert_eq!(read(&journal, 0, MOST).0.from, 0, "byte {at}");
        assert_eq!(numbers(&journal, b"k", 0), [10, 20, 30], "byte {at}");
        drop(journal);
        assert_eq!(std::fs::read(&index).expect("it reads"), whole, "byte {at}");
    }
}

#[test]
fn records_that_come_all_the_time_share_their_writes() {
    let (disk, dir) = (SimDisk::default(), PathBuf::from("/log"));
    let config = Config { dir, bytes_max: 1 << 30, segment_bytes: 1 << 28, sync: Sync::Group };
    let journal = Journal::open(config, Arc::new(disk.clone())).expect("the log opens").journal;
    append(&journal, 1, &[b"k"]);
    assert_eq!(wait(&journal, 1), Ok(()));
    let (calls, start) = (disk.calls(), Instant::now());
    for number in 2..=3000 {
        let due = start + Duration::from_micros(50) * number as u32;
        while Instant::now() < due {
            std::thread::yield_now();
        }
        append(&journal, number, &[b"k"]);
    }
    assert_eq!(wait(&journal, 3000), Ok(()));
    let (calls, elapsed) = (disk.calls() - calls, start.elapsed());
    // A write each millisecond; a sync and its mark each second, and at the end.
    let most = elapsed.as_millis() + 2 * (u128::from(elapsed.as_secs()) + 2);
    assert!(u128::from(calls) <= most, "{calls} calls in {elapsed:?}");
}

#[test]
fn record_is_found_before_it_is_written_and_pages_go_on_over_the_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let Opened { journal, .. } = open(dir.path(), Arc::new(RealDisk), 1 << 20);
    for number in 1..=40 {
        append(&journal, number, &[b"k", b"k"]);
        assert_eq!(journal.last_of(b"k"), Some(number));
        let seen: Vec<u64> = (1..=number).filter(|at| *at != 3).collect();
        assert_eq!(numbers(&journal, b"k", 0), seen);
        if number % 16 == 0 {
            assert_eq!(wait(&journal, number), Ok(()));
        }
    }
    let few = Most { records: 7, ..MOST };
    let (mut above, mut all) = (0, Vec::new());
    loop {
        let (slice, page) = read(&journal, above, few);
        all.extend(page);
        above = slice.next;
        if !slice.more {
            break;
        }
    }
    assert_eq!(all, (1..=40).filter(|at| *at != 3).collect::<Vec<_>>());
}

#[test]
fn reading_goes_on_over_any_number_of_expired_records() {
    let dir = tempfile::tempdir().expect("a directory");
    let Opened { journal, .. } = open(dir.path(), Arc::new(RealDisk), 1 << 20);
    for number in 1..=2000 {
        let expires_ms = if number == 1 || number == 2000 { u64::MAX } else { 5 };
        let record =
            Record { number, at_ms: 1, expires_ms, keys: &[b"k"], kind: 0, body: b"short" };
        journal.append(journal.reserve(record.bytes()).expect("there is room"), record);
    }
    assert_eq!(wait(&journal, 2000), Ok(()));
    let one = Most { records: 1, ..MOST };
    let (mut above, mut found, mut reads) = (1, Vec::new(), 0);
    while found.is_empty() {
        let (slice, page) = read(&journal, above, one);
        assert!(slice.next > above, "it goes on");
        assert_eq!(slice.from, if page.is_empty() { slice.next } else { 1999 });
        (above, found, reads) = (slice.next, page, reads + 1);
    }
    assert_eq!(found, [2000]);
    assert!(reads > 2, "no read looks at more than it may: {reads}");
    let (mut below, mut out) = (2000, Vec::new());
    while out.is_empty() {
        let slice = journal.before(b"k", below, one, &mut out).expect("it reads");
        assert!(slice.next < below, "it goes on");
        below = slice.next;
    }
    assert_eq!(out[0].number, 1);
}

#[test]
fn large_group_stays_within_a_small_bound_at_every_moment() {
    let dir = tempfile::tempdir().expect("a directory");
    let bytes_max = 200_000;
    let Opened { journal, .. } = open(dir.path(), Arc::new(RealDisk), bytes_max / 4);
    let body = [7; 100];
    let (sender, receiver) = mpsc::sync_channel(40);
    for number in 1..=40_000 {
        let keys: &[&[u8]] = &[&number.to_string().into_bytes()];
        let record = Record { number, at_ms: 1, expires_ms: u64::MAX, keys, kind: 0, body: &body };
        journal.append(journal.reserve(record.bytes()).expect("there is room"), record);
        if number % 1000 == 0 {
            let (sender, path) = (sender.clone(), dir.path().to_owned());
            // The writer calls it: no file changes meanwhile.
            journal.wait_durable(number, move |result| {
                let files = std::fs::read_dir(path).expect("it lists");
                let sizes = files.map(|file| file.and_then(|file| file.metadata()));
                let bytes: u64 = sizes.map(|size| size.expect("it has a size").len()).sum();
                sender.send((result, bytes)).expect("the test waits");
            });
        }
    }
    drop(sender);
    let all: Vec<_> = receiver.iter().collect();
    assert_eq!(all.len(), 40);
    for (result, bytes) in all {
        assert_eq!(result, Ok(()));
        assert!(bytes <= bytes_max + bytes_max / 20, "{bytes}");
    }
    let stats = journal.stats();
    assert!(stats.bytes > bytes_max / 2 && stats.records > 500, "{stats:?}");
    assert_eq!((stats.last, stats.failures), (Some(40_000), 0));
    let first = stats.first.expect("records are left");
    assert_eq!(stats.records, 40_001 - first);
}

#[test]
fn panic_of_one_who_waits_ends_no_writer() {
    let dir = tempfile::tempdir().expect("a directory");
    let Opened { journal, .. } = open(dir.path(), Arc::new(RealDisk), 1 << 20);
    append(&journal, 1, &[b"k"]);
    journal.wait_durable(1, |_| panic!("on purpose"));
    append(&journal, 2, &[b"k"]);
    assert_eq!(wait(&journal, 2), Ok(()));
    journal.close().expect("it closes");
}

#[test]
fn log_is_checked_and_exported_beside_the_process_that_has_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = open_small(dir.path()).journal;
    (1..=5).for_each(|number| append(&journal, number * 10, &[b"k"]));
    assert_eq!(wait(&journal, 50), Ok(()));
    let mut out = Vec::new();
    let report = export(dir.path(), &mut |record| out.push(record.number)).expect("it reads");
    assert_eq!(out, [10, 20, 30, 40, 50]);
    assert_eq!((report.in_use, report.segments, report.records), (true, 5, 5));
    assert_eq!((report.first, report.last), (Some(10), Some(50)));
    assert!(report.torn.is_none() && report.damaged.is_empty());
    journal.close().expect("it closes");
    let paths = segments(dir.path());
    flip(&paths[1], 64 + 12);
    std::fs::remove_file(&paths[3]).expect("it is removed");
    let last = std::fs::read(&paths[4]).expect("it reads");
    std::fs::write(&paths[4], &last[..64 + 15]).expect("it writes");
    let report = check(dir.path()).expect("it reads");
    assert_eq!((report.in_use, report.segments, report.records), (false, 4, 2));
    assert_eq!(
        report.damaged,
        [
            Damage { file: paths[1].clone(), after: 10, before: 21 },
            Damage { file: paths[4].clone(), after: 30, before: 41 },
        ]
    );
    assert_eq!(report.torn, Some(Cut { file: paths[4].clone(), bytes: 15, after: 40 }));
    assert_eq!(std::fs::read(&paths[4]).expect("it reads").len(), 64 + 15, "nothing is changed");
}

#[test]
fn segments_that_the_server_drops_while_they_are_read_are_no_hole() {
    let dir = tempfile::tempdir().expect("a directory");
    small(dir.path(), 5);
    let paths = segments(dir.path());
    let mut out = Vec::new();
    let report = export(dir.path(), &mut |record| {
        if record.number == 10 {
            for path in &paths[..3] {
                std::fs::remove_file(path).expect("it is removed");
            }
        }
        out.push(record.number);
    });
    let report = report.expect("it reads");
    assert_eq!((report.damaged, out), (vec![], vec![10, 40, 50]));
}

/// Root looks at the log of a user who may have put anything there.
#[test]
fn pipe_or_link_among_the_segments_is_refused_and_named() {
    let dir = tempfile::tempdir().expect("a directory");
    small(dir.path(), 3);
    let elsewhere = dir.path().join("elsewhere");
    let lock = dir.path().join("lock");
    for path in [segments(dir.path()).remove(1), lock] {
        for is_link in [true, false] {
            let aside = path.with_extension("aside");
            std::fs::rename(&path, &aside).expect("it is renamed");
            if is_link {
                std::fs::copy(&aside, &elsewhere).expect("it is copied");
                std::os::unix::fs::symlink(&elsewhere, &path).expect("it is linked");
            } else {
                let made = std::process::Command::new("mkfifo").arg(&path).status();
                assert!(made.expect("mkfifo runs").success());
            }
            let (sender, receiver) = mpsc::sync_channel(1);
            let log = dir.path().to_owned();
            // Nobody waits for one that hangs.
            std::thread::spawn(move || {
                let report = check(&log).map_err(|error| error.to_string());
                sender.send(report).expect("the test waits");
            });
            let refused = receiver.recv_timeout(testing::DEADLINE).expect("it does not wait");
            let refused = refused.expect_err("it is no segment");
            let name = path.display().to_string();
            assert!(refused.contains(&name) && refused.contains("plain file"), "{refused}");
            std::fs::rename(&aside, &path).expect("it is put back");
        }
    }
    assert!(check(dir.path()).expect("it reads").damaged.is_empty());
}
