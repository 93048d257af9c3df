//! Random appends to many streams on a disk that tears, loses and fails, over kills and losses of
//! power, by seed: what was acknowledged is there, and nothing that was not asked for.

use std::collections::BTreeMap;

use super::*;
use crate::Appended;
use crate::disk::power::{self, Random};

/// Some seconds on a disk; `ENCKE_SIM_RUNS` multiplies it, so `cargo xtask ci` takes half of them.
const SEEDS: u64 = 16;

/// Losses of power of one seed, one after the other.
const LIVES: u64 = 6;

const PATHS: u64 = 5;

/// What a stream has, as its writer knows it.
#[derive(Clone, Default, Debug)]
struct Known {
    exists: bool,
    /// What was acknowledged.
    text: String,
    sequence: u64,
    /// What was asked for last and not acknowledged.
    maybe: Option<Maybe>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Maybe {
    Append(String),
    /// It is made, or made again, or deleted.
    Other,
}

/// What has happened in all seeds.
#[derive(Default, Debug)]
struct Counts {
    acknowledged: u64,
    killed: u64,
    given_back: u64,
    failed: u64,
    repeated: u64,
    /// Torn ends that look damaged.
    torn: u64,
}

struct World {
    random: Random,
    streams: BTreeMap<String, Known>,
    counts: Counts,
    number: u64,
}

impl World {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// One process after the other, until the power is lost.
    fn live(&mut self, mut store: Store, (dir, seed): (&Path, u64)) {
        let failure_in = if self.below(3) == 0 { 0 } else { 4 + self.below(20) };
        power::fail_in(failure_in);
        // Who comes late with it has groups settle their log themselves.
        let settle_in = [1, 1_000][self.below(2) as usize];
        while !power::is_lost() {
            match self.below(32) {
                0 | 1 => self.delete(&store),
                2 => store.rest(),
                // Rarely, so that many halves are full before.
                3 if self.below(8) == 0 => (0..2).for_each(|_| store.rest()),
                7 if self.below(8) == 0 => store.empty_log(),
                4 | 5 => drop(store.read(&path(self.below(PATHS)), Start::Beginning, usize::MAX)),
                6 => {
                    // It is killed, and the disk may fail with the start of the next one.
                    drop(store);
                    let opened = Store::open(dir, LIMITS, sys::clock::unix_ms);
                    power::fail_in(0);
                    store = opened.unwrap_or_else(|_| open(dir));
                    self.check(&store, seed);
                    self.counts.killed += 1;
                    power::fail_in(failure_in);
                }
                _ => self.append(&store),
            }
            if self.below(settle_in) == 0 {
                store.settle_log();
            }
        }
    }

    fn delete(&mut self, store: &Store) {
        let path = path(self.below(PATHS));
        let known = self.streams.entry(path.clone()).or_default();
        if !known.exists || known.maybe.is_some() {
            return;
        }
        let deleted = store.delete(&path, None);
        if deleted.is_ok() && !power::is_lost() {
            *known = Known::default();
        } else if !matches!(deleted, Err(Refusal::Disk(_))) || power::is_lost() {
            known.maybe = Some(Maybe::Other);
        }
    }

    /// Appends to some streams at once, each of which is made before if it is not there.
    fn append(&mut self, store: &Store) {
        let (new, mut asked) = (text(), Vec::new());
        let (first, count) = (self.below(PATHS), 1 + self.below(4));
        for number in first..first + count {
            let path = path(number % PATHS);
            self.number += 1;
            // Long ones are not logged, and some end within a sector.
            let len = if self.below(20) == 0 { 2_500 } else { self.below(300) as usize };
            let text = format!("{}:{},", self.number, "x".repeat(len));
            let known = self.streams.entry(path.clone()).or_default();
            if !known.exists || known.maybe == Some(Maybe::Other) {
                if store.create(&path, &new, None).is_err() || power::is_lost() {
                    known.maybe = Some(Maybe::Other);
                    continue;
                }
                // It may be the old one, if a deletion has failed.
                let head = all(store, &path);
                assert!(head.is_empty() || head == known.text, "{path}: {head:?}");
                let sequence = if head.is_empty() { 0 } else { known.sequence };
                *known = Known { exists: true, text: head, sequence, maybe: None };
            }
            let text = match &known.maybe {
                Some(Maybe::Append(text)) => text.clone(),
                _ => text,
            };
            asked.push((path, known.sequence, text));
        }
        let appends: Vec<_> = asked
            .iter()
            .map(|(path, sequence, text)| (&**path, nth(*sequence, text.as_bytes())))
            .collect();
        let (streams, counts) = (&mut self.streams, &mut self.counts);
        let mut done = |number: usize, appended: Result<Appended, Refusal>| {
            let (path, _, text) = &asked[number];
            let known = streams.get_mut(path).unwrap();
            match appended {
                Ok(appended) if !power::is_lost() => {
                    counts.acknowledged += 1;
                    counts.repeated += u64::from(appended.repeated);
                    known.text.push_str(text);
                    (known.sequence, known.maybe) = (known.sequence + 1, None);
                }
                // Not refused for what was asked.
                Ok(_) | Err(Refusal::Unsure(_)) => known.maybe = Some(Maybe::Append(text.clone())),
                Err(Refusal::Disk(_)) if known.maybe.is_none() && !power::is_lost() => {
                    counts.failed += 1;
                }
                Err(Refusal::Disk(_)) => known.maybe = Some(Maybe::Append(text.clone())),
                Err(other) => panic!("{path}: {other:?}"),
            }
        };
        match &appends[..] {
            [(path, append)] => done(0, store.append(path, append, None)),
            appends => store.append_group(appends, &mut done),
        }
    }

    /// Looks at all streams as the next process has them.
    fn check(&mut self, store: &Store, seed: u64) {
        for (path, known) in &mut self.streams {
            let mut read = store.read(path, Start::Beginning, usize::MAX);
            if let (Err(Refusal::Damaged(at)), Some(Maybe::Append(_))) = (&read, &known.maybe) {
                // A few torn ends look as a damaged sector does: its operator cuts it off.
                let file = store.file(&store.stream(path));
                File::options().write(true).open(file).unwrap().set_len(*at).unwrap();
                self.counts.torn += 1;
                read = store.read(path, Start::Beginning, usize::MAX);
            }
            let found = match read {
                Ok(piece) => Some(String::from_utf8(piece.data).unwrap()),
                Err(Refusal::Unknown) => None,
                Err(other) => panic!("seed {seed}: {path}: {other:?}"),
            };
            let is_as_known = match (&found, &known.maybe) {
                (Some(found), Some(Maybe::Append(more))) => {
                    *found == known.text || *found == format!("{}{more}", known.text)
                }
                (Some(found), None) => known.exists && *found == known.text,
                (Some(found), Some(Maybe::Other)) => found.is_empty() || *found == known.text,
                (None, maybe) => !known.exists || *maybe == Some(Maybe::Other),
            };
            assert!(is_as_known, "seed {seed}: {path} has {found:?}, and not {known:?}");
            let Some(found) = found else {
                *known = Known::default();
                continue;
            };
            if found.is_empty() && !known.text.is_empty() {
                // It was deleted, and made again.
                *known = Known::default();
            }
            known.exists = true;
            known.maybe.take_if(|maybe| *maybe == Maybe::Other);
        }
    }
}

fn path(number: u64) -> String {
    format!("run:{number}")
}

/// How many bytes a start gives back.
fn given_back(before: &Path) -> u64 {
    let dirs = fs::read_dir(before).unwrap().map(|entry| entry.unwrap().path());
    let dirs = dirs.filter(|path| path.is_dir());
    let files = dirs.flat_map(|dir| fs::read_dir(dir).unwrap());
    files.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn what_was_acknowledged_is_there_whenever_the_power_is_lost_and_the_disk_fails() {
    let seeds = testing::simulator_seeds(SEEDS);
    let mut counts = Counts::default();
    for seed in seeds.tried {
        println!("seed {seed}");
        let dir = TempDir::new().unwrap();
        let mut at = dir.path().join("0");
        fs::create_dir(&at).unwrap();
        let mut world = World { random: Random(seed), streams: BTreeMap::new(), counts, number: 0 };
        for life in 1..=LIVES {
            let next = dir.path().join(life.to_string());
            let before = given_back(&at);
            // The power may be lost at the start already.
            let (power_in, seed_of_disk) = (1 + world.below(500), world.below(1 << 30));
            power::begin(&at, &next, Random(seed_of_disk), power_in);
            let store = open(&at);
            world.counts.given_back += store.bytes().saturating_sub(before);
            world.check(&store, seed);
            world.live(store, (&at, seed));
            power::end();
            at = next;
        }
        world.check(&open(&at), seed);
        counts = world.counts;
    }
    println!("{counts:?}");
    if seeds.are_enough {
        let Counts { acknowledged, killed, given_back, failed, repeated, .. } = counts;
        assert!(acknowledged > 1_000 && given_back > 1_000 && failed > 10 && repeated > 10);
        assert!(killed > 10);
    }
}
