//! Here `kill -9` ends a process that keeps a replica, at random moments. Pairs, version and hash
//! are always of one version. None that was applied is lost, also while the replica is rebuilt.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::Duration;

use graph::replica::{
    Change, LogPlace, Origin, PairBatch, Replica, ReplicaOptions, ReplicaState, Standing,
};
use hub::pair_hash;

use super::crash::{everything, spin};
use super::{SEED, child, child_dir, seed, spawn};

type Pairs = BTreeSet<(String, String)>;

const KILLS: u64 = 60;

/// Every so many versions come by a rebuild.
const REBUILD_EVERY: u64 = 37;

/// What a version takes away and brings.
fn change(seed: u64, version: u64) -> [Vec<(String, String)>; 2] {
    let mut random = fastrand::Rng::with_seed(seed ^ version.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    [0, 1].map(|_| {
        let count = random.usize(..12);
        let pair = |_| {
            let (a, b) = (random.u64(1000..1060), random.u64(..40));
            let a = if a % 2 == 0 { format!("user:{a}") } else { a.to_string() };
            (a, if b % 2 == 0 { format!("{b}th") } else { b.to_string() })
        };
        (0..count).map(pair).collect()
    })
}

/// The pairs of a version.
#[derive(Default)]
struct Model {
    pairs: Pairs,
    version: u64,
}

impl Model {
    fn go_to(&mut self, seed: u64, version: u64) {
        for next in self.version + 1..=version {
            let [removed, added] = change(seed, next);
            removed.iter().for_each(|pair| _ = self.pairs.remove(pair));
            self.pairs.extend(added);
        }
        self.version = self.version.max(version);
    }

    fn hash(&self) -> u64 {
        self.pairs.iter().fold(0, |sum, (a, b)| sum.wrapping_add(pair_hash(a, b).hash))
    }

    fn batches(&self, by_subscribee: bool) -> impl Iterator<Item = Result<PairBatch, String>> {
        let order = |text: &String| text.parse::<u64>().map_err(|_| text.clone());
        let mut pairs: Vec<&(String, String)> = self.pairs.iter().collect();
        pairs.sort_by_key(|(a, b)| order(if by_subscribee { b } else { a }));
        let batch = |pairs: &[&(String, String)]| {
            Ok(pairs.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect())
        };
        pairs.chunks(7).map(batch).collect::<Vec<_>>().into_iter()
    }
}

fn open(dir: &Path) -> Replica {
    Replica::open(dir, &ReplicaOptions::default()).unwrap()
}

fn place(version: u64) -> LogPlace {
    LogPlace { epoch: 1, sequence: 3 * version, record: 7 }
}

#[test]
fn child_follows_until_it_is_killed() {
    let Some(dir) = child_dir() else { return };
    let seed = std::env::var(SEED).unwrap().parse().unwrap();
    let mut replica = open(&dir);
    let mut model = Model::default();
    let from = match replica.standing() {
        Standing::Follows(state) => state.version,
        Standing::MustRebuild { .. } => 0,
    };
    model.go_to(seed, from);
    // Each life of it tries something else.
    let mut random = fastrand::Rng::with_seed(seed ^ from);
    let mut must_rebuild = from == 0;
    loop {
        let version = model.version + 1;
        let mut last = version;
        if must_rebuild || version.is_multiple_of(REBUILD_EVERY) {
            must_rebuild = false;
            model.go_to(seed, version);
            let set_hash = Some(model.hash());
            let origin = Origin { lineage: 7, version, at: place(version), set_hash };
            replica.rebuild(&origin, model.batches(true), model.batches(false)).unwrap();
        } else {
            last = (version + random.u64(..4)).min(version.next_multiple_of(REBUILD_EVERY) - 1);
            let all: Vec<_> = (version..=last).map(|version| change(seed, version)).collect();
            let hashes: Vec<u64> = (version..=last)
                .map(|version| {
                    model.go_to(seed, version);
                    model.hash()
                })
                .collect();
            let changes = (version..=last).zip(&all).zip(hashes);
            let changes: Vec<Change<'_>> = changes
                .map(|((version, [removed, added]), hash)| {
                    let (set_hash, at) = (Some(hash), Some(place(version)));
                    Change { version, removed, added, set_hash, at }
                })
                .collect();
            replica.apply(&changes).unwrap();
        }
        // One write, so that a kill cannot leave half a line.
        std::io::stdout().write_all(format!("at {last}\n").as_bytes()).unwrap();
    }
}

#[test]
fn replica_is_of_one_version_after_sixty_kills() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let dir = tempfile::tempdir().unwrap();
    let mut model = Model::default();
    for kill in 0..KILLS {
        let mut command = child(&[], "replica::child_follows_until_it_is_killed", dir.path());
        let mut child = spawn(command.env(SEED, seed.to_string()));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut told = 0;
        let mut read = |lines: &mut dyn Iterator<Item = std::io::Result<String>>| {
            let line = lines.next()?.unwrap();
            // The first line starts with what the test runner prints.
            told = line.split_once("at ").map_or(told, |(_, version)| version.parse().unwrap());
            Some(told)
        };
        for _ in 0..random.u32(1..60) {
            read(&mut lines);
        }
        spin(Duration::from_micros(random.u64(..20_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        while read(&mut lines).is_some() {}

        let replica = open(dir.path());
        let Standing::Follows(state) = replica.standing() else {
            let standing = replica.standing();
            assert_eq!((told, model.version), (0, 0), "{standing:?} after kill {kill}");
            // It was killed before its first version was whole.
            continue;
        };
        assert!(state.version >= told.max(model.version), "{} after {told}", state.version);
        model.go_to(seed, state.version);
        let at = place(state.version);
        let set_hash = model.hash();
        let expected = ReplicaState { lineage: 7, version: model.version, at, set_hash };
        assert_eq!(state, expected, "after kill {kill}");
        assert_eq!(everything(replica.graph()), model.pairs, "after kill {kill}");
        let sums = replica.graph().bucket_sums().unwrap();
        assert_eq!((sums.state, sums.total()), (state, set_hash));
        drop(replica);
    }
    assert!(model.version > KILLS, "the children worked at all");
}
