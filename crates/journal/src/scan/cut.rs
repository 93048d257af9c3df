//! Random logs whose last block is cut at each of its bytes, by seed: what a crash may leave of
//! what was not synced. All whole records before the cut are there, and nothing else.
//!
//! A million logs: `ENCKE_SIM_RUNS=500 cargo test -p journal cut`.

use std::fmt::Arguments;

use super::{Bounds, Scan, scan};
use crate::Record;
use crate::format::{HEADER, Header, mark};
use crate::sim::Rng;

const SEEDS: u64 = 2_000;

/// A segment with some synced groups, and a last one behind their marks.
struct Log {
    salt: u32,
    bytes: Vec<u8>,
    /// Of each record its number and where it ends.
    ends: Vec<(u64, usize)>,
    /// Where the last group begins.
    synced: usize,
}

impl Log {
    fn random(rng: &mut Rng) -> Log {
        let salt = rng.below(1 << 32) as u32;
        let mut number = rng.below(100);
        let bytes = Header { salt, previous: number, sequence: 1 }.bytes().to_vec();
        let mut log = Log { salt, bytes, ends: Vec::new(), synced: HEADER as usize };
        for _ in 0..rng.below(3) {
            log.group(&mut number, rng);
            let end = log.bytes.len();
            log.bytes.extend_from_slice(&mark(salt, end as u64, number));
            log.synced = log.bytes.len();
        }
        log.group(&mut number, rng);
        log
    }

    fn group(&mut self, number: &mut u64, rng: &mut Rng) {
        for _ in 0..1 + rng.below(4) {
            let bits = rng.below(40);
            *number += 1 + rng.below(1 << bits);
            // Many zeros, so that some are where a cut leaves zeros as well.
            let mut some = || if rng.below(2) == 0 { 0 } else { rng.below(256) as u8 };
            let body: Vec<u8> = (0..some() % 50).map(|_| some()).collect();
            let key = [some(), some()];
            let keys: &[&[u8]] =
                if body.len().is_multiple_of(2) { &[&key] } else { &[&key, b"all"] };
            let (number, kind) = (*number, some());
            let expires_ms = if kind == 0 { u64::MAX } else { 1_000 + u64::from(kind) };
            let record = Record { number, at_ms: 1_000, expires_ms, keys, kind, body: &body };
            record.encode(self.salt, &mut self.bytes);
            self.ends.push((number, self.bytes.len()));
        }
    }

    /// What is left of the log is read as its whole records up to the first byte that differs.
    fn check(&self, left: &[u8], seed: u64, what: Arguments<'_>) {
        let same = self.bytes.iter().zip(left).take_while(|(one, other)| one == other).count();
        let whole: Vec<&(u64, usize)> =
            self.ends.iter().take_while(|(_, end)| *end <= same).collect();
        let end = whole.last().map_or(0, |(_, end)| *end).max(self.synced) as u64;
        let last = whole.last().map_or(self.previous(), |(number, _)| *number);
        let mut numbers = Vec::new();
        let bounds = Bounds { salt: self.salt, previous: self.previous(), next: None, until: None };
        let found = scan(left, bounds, &mut |_, record| numbers.push(record.number));
        assert_eq!(found, Scan { end, last, lost: Vec::new() }, "seed {seed}, {what}");
        assert!(whole.iter().map(|(number, _)| number).eq(&numbers), "seed {seed}, {what}");
    }

    fn previous(&self) -> u64 {
        u64::from_le_bytes(self.bytes[16..24].try_into().expect("eight bytes"))
    }
}

#[test]
fn random_logs_that_are_cut_at_any_byte_of_the_last_block_have_all_whole_records() {
    for seed in testing::simulator_seeds(SEEDS).tried {
        let mut rng = Rng(seed);
        let log = Log::random(&mut rng);
        let whole = log.bytes.len();
        for cut in log.synced..=whole {
            log.check(&log.bytes[..cut], seed, format_args!("cut at {cut}"));
            // The file has its length already, and not its bytes.
            let mut left = log.bytes.clone();
            left[cut..].fill(0);
            left.resize(whole + rng.below(40) as usize, 0);
            log.check(&left, seed, format_args!("zeros from {cut}"));
            // A later sector is there, and one before it is not.
            let lost = cut + rng.below((whole - cut) as u64 + 1) as usize;
            let mut left = log.bytes.clone();
            left[cut..lost].iter_mut().for_each(|byte| *byte = rng.below(256) as u8);
            log.check(&left, seed, format_args!("other bytes from {cut} to {lost}"));
        }
    }
}
