//! Random appends, reads, drops and restarts against a plain list. One seed again:
//! `ENCKE_SEED=7 cargo test -p journal model`.

use std::path::PathBuf;
use std::sync::Arc;

use crate::sim::{End, Rng, SimDisk};
use crate::tests::wait;
use crate::*;

const SEEDS: u64 = 150;

/// Number, expiry, keys, bytes of the body.
type Listed = (u64, u64, Vec<u8>, u64);

fn config(rng: &mut Rng) -> Config {
    let segment_bytes = 80 + rng.below(1500);
    let bytes_max = segment_bytes * (8 + rng.below(60));
    Config { dir: PathBuf::from("/log"), bytes_max, segment_bytes, sync: Sync::Group }
}

fn append(journal: &Journal, (number, expires_ms, keys, length): &Listed) {
    let keys: Vec<&[u8]> = keys.iter().map(std::slice::from_ref).collect();
    let (number, expires_ms, body) = (*number, *expires_ms, vec![*number as u8; *length as usize]);
    let record = Record { number, at_ms: 1, expires_ms, keys: &keys, kind: 1, body: &body };
    journal.append(journal.reserve(record.bytes()).expect("there is room"), record);
}

/// Reads all pages of a key in one direction and compares them with the list.
fn compare(journal: &Journal, list: &[Listed], rng: &mut Rng, seed: u64) {
    let key = rng.below(8) as u8;
    let last = list.last().map_or(0, |(number, ..)| *number);
    let bound = rng.below(last + 2);
    let newest_first = rng.below(2) == 0;
    let now_ms = rng.below(200);
    let most = Most { records: 1 + rng.below(20) as usize, bytes: 1 << 20, now_ms };
    let (mut at, mut from, mut out) = (bound, 0, Vec::new());
    loop {
        let slice = match newest_first {
            true => journal.before(&[key], at, most, &mut out),
            false => journal.after(&[key], at, most, &mut out),
        };
        let slice = slice.expect("it reads");
        from = from.max(slice.from);
        at = slice.next;
        if !slice.more {
            break;
        }
    }
    let mut expected: Vec<u64> = list
        .iter()
        .filter(|(number, _, keys, _)| {
            keys.contains(&key) && if newest_first { *number < bound } else { *number > bound }
        })
        .filter(|(number, expires_ms, ..)| *expires_ms > now_ms && *number > from)
        .map(|(number, ..)| *number)
        .collect();
    if newest_first {
        expected.reverse();
    }
    let whole = out.iter().all(|record| {
        let listed = list.iter().find(|(number, ..)| *number == record.number);
        let (number, expires_ms, ..) = listed.expect("what is read was appended");
        record.expires_ms == *expires_ms && record.body.iter().all(|byte| *byte == *number as u8)
    });
    assert!(whole, "seed {seed}: records are as they were appended");
    let found: Vec<u64> = out.iter().map(|record| record.number).collect();
    assert!(found.is_sorted_by(|a, b| if newest_first { a > b } else { a < b }), "seed {seed}");
    let above: Vec<u64> = found.into_iter().filter(|number| *number > from).collect();
    assert_eq!(above, expected, "seed {seed}: key {key} from {bound}, {newest_first}, {now_ms}");
}

/// Counts a key's records from the newest back, and compares with the list as far as it is there.
fn compare_count(journal: &Journal, list: &[Listed], rng: &mut Rng, seed: u64) {
    let key = rng.below(8) as u8;
    let (records, bytes) = match rng.below(3) {
        0 => (rng.below(40), u64::MAX),
        1 => (u64::MAX, rng.below(3000)),
        _ => (rng.below(40), rng.below(3000)),
    };
    let bound = Bound { records, bytes, bytes_each: rng.below(20) };
    let (mut left, mut weight) = (bound.records, 0);
    let of_key = list.iter().rev().filter(|(_, _, keys, _)| keys.contains(&key));
    let over = of_key.map(|(number, _, keys, length)| {
        // A key of a byte has its length before it.
        weight += 2 * keys.len() as u64 + length + bound.bytes_each;
        let fits = left > 0 && weight <= bound.bytes;
        left = left.saturating_sub(1);
        (*number, fits)
    });
    let over = over.filter(|(_, fits)| !fits).map(|(number, _)| number).next().unwrap_or(0);
    let found = journal.over(&[key], bound).expect("it reads");
    let most = Most { records: 1, bytes: 1, now_ms: 0 };
    let dropped = journal.after(&[7], 0, most, &mut Vec::new()).expect("it reads").from;
    let is_gone = found == 0 && over <= dropped;
    assert!(found == over || is_gone, "seed {seed}: key {key}, {bound:?}: {found}, not {over}");
}

/// `from` rises no further than what was dropped or has expired.
fn compare_floor(journal: &Journal, list: &[Listed], seed: u64) {
    let stats = journal.stats();
    let mut out = Vec::new();
    let most = Most { records: usize::MAX, bytes: usize::MAX, now_ms: 0 };
    let slice = journal.after(&[7], 0, most, &mut out).expect("it reads");
    let first = stats.first.unwrap_or(u64::MAX);
    let dropped = list.iter().map(|(number, ..)| *number).filter(|number| *number < first).max();
    assert_eq!(slice.from, dropped.unwrap_or(0), "seed {seed}: {stats:?}");
}

fn life(seed: u64) {
    let mut rng = Rng(seed);
    let disk = SimDisk::default();
    let config = config(&mut rng);
    let open = |disk: SimDisk| {
        let opened = Journal::open(config.clone(), Arc::new(disk)).expect("it opens");
        assert!(opened.found.damaged.is_empty() && opened.found.cut.is_none(), "seed {seed}");
        opened.journal
    };
    let (mut disk, mut journal, mut list) = (disk.clone(), open(disk), Vec::<Listed>::new());
    let mut number = 0;
    for _ in 0..200 {
        match rng.below(40) {
            0..=24 => {
                number += 1 + rng.below(3);
                let expires_ms = if rng.below(3) == 0 { rng.below(200) } else { u64::MAX };
                // Key 7 is in all; the others may come twice.
                let mut keys: Vec<u8> = (0..rng.below(3)).map(|_| rng.below(7) as u8).collect();
                keys.push(7);
                // Some are longer than what is read of a record at first, and than a segment.
                let is_long = rng.below(20) == 0;
                let length = if is_long { 300 + rng.below(1500) } else { rng.below(50) };
                list.push((number, expires_ms.max(1), keys, length));
                append(&journal, &list[list.len() - 1]);
            }
            25..=32 => compare(&journal, &list, &mut rng, seed),
            33..=35 => compare_count(&journal, &list, &mut rng, seed),
            36..=37 => assert_eq!(wait(&journal, number), Ok(()), "seed {seed}"),
            38 => journal.drop_expired(rng.below(100)).expect("files are removed"),
            _ => {
                assert_eq!(wait(&journal, number), Ok(()), "seed {seed}");
                compare_floor(&journal, &list, seed);
                disk = disk.after(End::Kill, &mut rng);
                journal = open(disk.clone());
            }
        }
    }
    journal.close().expect("it closes");
}

#[test]
fn model_of_random_lives_is_what_is_read() {
    testing::simulator_seeds(SEEDS).tried.for_each(life);
}
