//! The log on the simulated disk: after any end of a process, what was told durable is there.
//!
//! The naive model is a map of all that was appended. The writer is a thread, so a seed fixes what
//! the disk loses, but not which records are one group. One seed again:
//! `ENCKE_SEED=7 cargo test -p journal crash`. A million logs, five of each seed:
//! `ENCKE_SIM_RUNS=400 cargo test -p journal crash`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use crate::sim::{End, Rng, SimDisk};
use crate::*;

const ALL: Most = Most { records: 100_000, bytes: 1 << 30, now_ms: 1 };
const SEEDS: u64 = 500;

type Model = BTreeMap<u64, Vec<u8>>;

fn config(segment_bytes: u64, bytes_max: u64) -> Config {
    Config { dir: PathBuf::from("/log"), bytes_max, segment_bytes, sync: Sync::Group }
}

fn append(journal: &Journal, number: u64, body: &[u8]) {
    let keys: &[&[u8]] = &[b"all"];
    let record = Record { number, at_ms: 1, expires_ms: u64::MAX, keys, kind: 0, body };
    journal.append(journal.reserve(record.bytes()).expect("there is room"), record);
}

/// What becomes of the wait for a number, which may not be appended yet.
fn waited(journal: &Journal, number: u64) -> mpsc::Receiver<Result<(), Failed>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    journal.wait_durable(number, move |result| {
        // A test that has seen enough listens no more.
        let _ = sender.send(result);
    });
    receiver
}

fn body(number: u64, rng: &mut Rng) -> Vec<u8> {
    let length = rng.below(60) as usize;
    vec![number as u8; length]
}

fn read(journal: &Journal) -> (u64, Model) {
    let mut out = Vec::new();
    let slice = journal.after(b"all", 0, ALL, &mut out).expect("it reads");
    assert!(!slice.more);
    assert!(out.is_sorted_by(|one, next| one.number < next.number), "numbers ascend");
    (slice.from, out.into_iter().map(|record| (record.number, record.body)).collect())
}

/// Compares a log that was opened again with the model; the last number that it has.
fn compare(opened: &Opened, model: &Model, safe: u64, seed: u64) -> u64 {
    assert!(opened.found.damaged.is_empty(), "seed {seed}: {:?}", opened.found);
    let (from, there) = read(&opened.journal);
    let last = opened.found.last.unwrap_or(0).max(from);
    assert!(last >= safe, "seed {seed}: {safe} was told safe, {last} is the last");
    let mut expected = model.clone();
    expected.retain(|number, _| *number > from && *number <= last);
    let above: Model = there.into_iter().filter(|(number, _)| *number > from).collect();
    assert_eq!(above, expected, "seed {seed}: no hole, nothing else");
    last
}

/// Some processes one after the other; each finds what the one before it left.
fn lives(seed: u64) {
    let mut rng = Rng(seed);
    let mut disk = SimDisk::default();
    let mut model = Model::new();
    let (mut number, mut safe) = (0, 0);
    let segment_bytes = 100 + rng.below(2000);
    let bytes_max = segment_bytes * (4 + rng.below(20));
    for _ in 0..5 {
        let opened = Journal::open(config(segment_bytes, bytes_max), Arc::new(disk.clone()))
            .expect("the log opens");
        let last = compare(&opened, &model, safe, seed);
        model.retain(|number, _| *number <= last);
        let journal = opened.journal;
        for _ in 0..rng.below(60) {
            number += 1 + rng.below(3);
            let body = body(number, &mut rng);
            append(&journal, number, &body);
            model.insert(number, body);
            if rng.below(4) == 0 {
                let answer = waited(&journal, number).recv().expect("the writer answers");
                assert_eq!(answer, Ok(()), "seed {seed}");
                assert!(journal.durable() >= number, "seed {seed}");
            }
        }
        let end = if rng.below(3) == 0 { End::Kill } else { End::Power };
        // Read before the end: what was told so far is what must be there.
        safe = match end {
            End::Kill => journal.written(),
            End::Power => journal.durable(),
        };
        disk = disk.after(end, &mut rng);
    }
}

#[test]
fn crash_at_any_moment_keeps_what_was_told_durable() {
    testing::simulator_seeds(SEEDS).tried.for_each(lives);
}

/// Appends until a wait fails; what was appended, and the last number that was told durable.
fn append_until_failure(journal: &Journal, rng: &mut Rng) -> (Model, u64) {
    let mut model = Model::new();
    let mut safe = 0;
    for number in 1..=8 {
        let body = body(number, rng);
        // Asked before it is appended: the failure is then told at once, not after a second try.
        let answer = waited(journal, number);
        append(journal, number, &body);
        model.insert(number, body);
        match answer.recv().expect("the writer answers") {
            Ok(()) => safe = number,
            Err(Failed) => break,
        }
    }
    (model, safe)
}

#[test]
fn crash_after_each_call_that_fails_keeps_what_was_told_durable() {
    let mut failed = 0;
    for case in 0..200 {
        let (call, calls) = (case / 5, 1 + case % 5);
        let mut rng = Rng(case);
        let disk = SimDisk::default();
        let settings = || config(150, 1 << 20);
        let journal = Journal::open(settings(), Arc::new(disk.clone())).expect("it opens").journal;
        disk.fail(call..call + calls);
        let (model, safe) = append_until_failure(&journal, &mut rng);
        let disk_after = disk.after(End::Power, &mut rng);
        failed += u64::from(disk.failed() > 0);
        drop(journal);
        let journal = Journal::open(settings(), Arc::new(disk_after)).expect("it opens").journal;
        let (_, there) = read(&journal);
        let last = there.last_key_value().map_or(0, |(number, _)| *number);
        assert!(last >= safe, "case {case}: {safe} was told durable, {last} is the last");
        let expected: Model = model.into_iter().filter(|(number, _)| *number <= last).collect();
        assert_eq!(there, expected, "case {case}: no hole, nothing else");
    }
    assert!(failed > 100, "most cases meet their failing call: {failed}");
}

/// Syncs fail, and what they leave may not be cut off; the process is killed, the next one goes on,
/// and then the power fails.
#[test]
fn what_a_failed_sync_left_is_on_disk_before_the_next_process_goes_on() {
    let mut failed = 0;
    for case in 0..400 {
        let (call, calls) = (case / 8, 1 + case % 8);
        let mut rng = Rng(case);
        let disk = SimDisk::default();
        let settings = || config(150 + 400 * (case % 3), 1 << 20);
        let journal = Journal::open(settings(), Arc::new(disk.clone())).expect("it opens").journal;
        disk.fail(call..call + calls);
        let (mut model, safe) = append_until_failure(&journal, &mut rng);
        let killed = disk.after(End::Kill, &mut rng);
        failed += u64::from(disk.failed() > 0);
        drop(journal);
        let opened = Journal::open(settings(), Arc::new(killed.clone())).expect("it opens");
        let last = compare(&opened, &model, safe, case);
        model.retain(|number, _| *number <= last);
        for number in last + 1..last + 4 {
            let body = body(number, &mut rng);
            append(&opened.journal, number, &body);
            model.insert(number, body);
            assert_eq!(waited(&opened.journal, number).recv(), Ok(Ok(())), "case {case}");
        }
        let off = killed.after(End::Power, &mut rng);
        drop(opened);
        let opened = Journal::open(settings(), Arc::new(off)).expect("it opens");
        assert_eq!(compare(&opened, &model, last + 3, case), last + 3);
    }
    assert!(failed > 200, "most cases meet their failing call: {failed}");
}

/// Nothing of the end of the log can be written once more: the disk is full, or has no room in its
/// place.
#[test]
fn log_that_starts_on_a_full_disk_writes_behind_no_hole() {
    let mut started = 0;
    for case in 0..200 {
        let (call, first) = (1 + case % 3, case / 3 % 4);
        let mut rng = Rng(case);
        let disk = SimDisk::default();
        let settings = || config(1 << 20, 1 << 22);
        let journal = Journal::open(settings(), Arc::new(disk.clone())).expect("it opens").journal;
        let mut model = Model::new();
        let mut store = |journal: &Journal, number: u64, rng: &mut Rng| {
            let body = body(number, rng);
            append(journal, number, &body);
            model.insert(number, body);
            waited(journal, number).recv().expect("the writer answers")
        };
        assert_eq!(store(&journal, 1, &mut rng), Ok(()));
        // Its sync fails, and it is not cut off: it is read at the next start.
        disk.fail(first..first + 2);
        let _ = store(&journal, 2, &mut rng);
        let killed = disk.after(End::Kill, &mut rng);
        drop(journal);
        killed.fail(call..call + 1);
        let Ok(opened) = Journal::open(settings(), Arc::new(killed.clone())) else { continue };
        started += u64::from(killed.failed() > 0);
        assert_eq!(store(&opened.journal, 3, &mut rng), Ok(()), "case {case}");
        let off = killed.after(End::Power, &mut rng);
        drop(opened);
        let opened = Journal::open(settings(), Arc::new(off)).expect("it opens");
        let (_, there) = read(&opened.journal);
        assert!(there.contains_key(&1) && there.contains_key(&3), "case {case}: {there:?}");
    }
    assert!(started > 40, "a full disk is no reason not to start: {started}");
}

/// One call fails; all is appended, waited for as often as it takes, and is there after it.
fn mended(call: u64) -> u64 {
    let mut rng = Rng(call);
    let disk = SimDisk::default();
    let settings = || config(150, 1 << 20);
    let journal = Journal::open(settings(), Arc::new(disk.clone())).expect("it opens").journal;
    disk.fail(call..call + 1);
    let mut model = Model::new();
    for number in 1..=8 {
        let body = body(number, &mut rng);
        append(&journal, number, &body);
        model.insert(number, body);
        while waited(&journal, number).recv().expect("the writer answers").is_err() {}
    }
    assert_eq!(read(&journal), (0, model.clone()), "call {call}");
    let disk_after = disk.after(End::Power, &mut rng);
    let opened = Journal::open(settings(), Arc::new(disk_after)).expect("it opens");
    assert_eq!(compare(&opened, &model, 8, call), 8);
    disk.failed()
}

#[test]
fn crash_after_a_failure_that_was_mended_keeps_everything() {
    // The writer pauses after a failure: all cases wait for it at once.
    let failed: u64 = std::thread::scope(|scope| {
        let cases: Vec<_> = (0..40).map(|call| scope.spawn(move || mended(call))).collect();
        cases.into_iter().map(|case| case.join().expect("it holds")).sum()
    });
    assert!(failed > 20, "most cases meet their failing call: {failed}");
}
