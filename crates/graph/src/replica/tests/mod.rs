//! A replica against a naive model: what it applies, refuses, forgets and finds again.

mod rebuilding;
mod standing;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hub::{Id, IdText, pair_hash};

use super::*;
use crate::tests::{Model, agree, open, pair, seed, sliced};
use crate::{LoadError, LoadOptions, OpenReason, WriteError, check};

type Owned = Vec<(String, String)>;

fn open_replica(dir: &Path) -> Replica {
    Replica::open(dir, &ReplicaOptions::default()).unwrap()
}

fn state(replica: &Replica) -> ReplicaState {
    match replica.standing() {
        Standing::Follows(state) => state,
        Standing::MustRebuild { why } => panic!("it must be rebuilt: {why}"),
    }
}

fn why(replica: &Replica) -> String {
    match replica.standing() {
        Standing::Follows(state) => panic!("it follows from {state:?}"),
        Standing::MustRebuild { why } => why,
    }
}

fn hash_of(model: &Model) -> u64 {
    let hashes = model.iter().map(|(a, b)| pair_hash(a, b).hash);
    hashes.fold(0, u64::wrapping_add)
}

/// Sorted as PostgreSQL does it: names first, by a number that only PostgreSQL knows.
fn stream(model: &Model, by_subscribee: bool) -> Vec<Result<PairBatch, String>> {
    let order = |text: &String| match text.parse::<u64>() {
        Ok(number) => (1, number, 0),
        Err(_) => (0, pair_hash(text, "").hash, 0),
    };
    let mut pairs: Vec<_> = model.iter().collect();
    pairs.sort_by_key(
        |(a, b)| if by_subscribee { (order(b), order(a)) } else { (order(a), order(b)) },
    );
    let names: BTreeSet<&String> = pairs.iter().flat_map(|(a, b)| [a, b]).collect();
    let names: Vec<&String> = names.into_iter().filter(|name| order(name).0 == 0).collect();
    fn id<'t>(text: &'t String, names: &[&String]) -> NumberedId<'t> {
        let number = names.binary_search(&text).ok().map(|number| number as u32);
        // Some numbers are too large to be believed.
        let far = |number: u32| if number.is_multiple_of(5) { number + (1 << 28) } else { number };
        NumberedId { text, number: number.map(far) }
    }
    let batch = |pairs: &[&(String, String)]| {
        let mut batch = PairBatch::default();
        pairs.iter().for_each(|(a, b)| batch.push_numbered(id(a, &names), id(b, &names)));
        Ok(batch)
    };
    pairs.chunks(100).map(batch).collect()
}

fn rebuild(
    replica: &mut Replica,
    model: &Model,
    origin: Origin,
) -> Result<ReplicaState, RebuildError<String>> {
    replica.rebuild(&origin, stream(model, true), stream(model, false))
}

/// A new replica without pairs, at version 0.
fn follower(dir: &Path) -> Replica {
    let mut replica = open_replica(dir);
    rebuild(&mut replica, &Model::new(), Origin { lineage: 5, ..Origin::default() }).unwrap();
    replica
}

/// Tells other threads to stop when the test is over, also when that is because it failed.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn people() -> Vec<String> {
    (0..300).map(|n| if n % 3 == 0 { format!("p{n}") } else { n.to_string() }).collect()
}

fn owned(pairs: &[(&str, &str)]) -> Owned {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

fn adding(version: u64, added: &Owned) -> Change<'_> {
    Change { version, removed: &[], added, set_hash: None, at: None }
}

/// A change, what it does to the model, and to its hash.
fn random_change(random: &mut fastrand::Rng, people: &[String], model: &mut Model) -> [Owned; 2] {
    let mut pairs = |count| -> Owned {
        let pair = |_| {
            let other = if random.bool() { random.usize(..3) } else { random.usize(..40) };
            (people[random.usize(..people.len())].clone(), people[other].clone())
        };
        (0..count).map(pair).collect()
    };
    let (removed, added) = (pairs(7), pairs(10));
    removed.iter().for_each(|pair| _ = model.remove(pair));
    model.extend(added.iter().cloned());
    [removed, added]
}

#[test]
fn random_changes_agree_with_a_naive_model_and_its_hash() {
    let mut random = fastrand::Rng::with_seed(seed());
    let people = people();
    let dir = tempfile::tempdir().unwrap();
    let (mut replica, mut model, mut version) = (follower(dir.path()), Model::new(), 0);
    for round in 0..60 {
        let first = version + 1;
        let batch: Vec<_> = (0..random.u64(1..6))
            .map(|_| {
                version += 1;
                let before = model.clone();
                let [removed, added] = random_change(&mut random, &people, &mut model);
                let gone = before.difference(&model).count() as i64;
                (
                    version,
                    removed,
                    added,
                    hash_of(&model),
                    model.len() as i64 - before.len() as i64,
                    gone,
                )
            })
            .collect();
        let at = LogPlace { epoch: 1, sequence: version * 10, record: 0 };
        let changes: Vec<Change<'_>> = batch
            .iter()
            .map(|(version, removed, added, hash, ..)| Change {
                version: *version,
                removed,
                added,
                set_hash: Some(*hash),
                at: Some(at),
            })
            .collect();
        let applied = replica.apply(&changes).unwrap();
        for (applied, (version, _, _, hash, more, gone)) in applied.iter().zip(&batch) {
            assert_eq!(
                (applied.version, applied.set_hash, applied.skipped),
                (*version, *hash, false)
            );
            assert_eq!(applied.added as i64 - applied.removed as i64, *more);
            assert!(applied.removed as i64 >= *gone);
        }
        let expected = ReplicaState { lineage: 5, version, at, set_hash: hash_of(&model) };
        assert_eq!(state(&replica), expected);
        if random.usize(..4) == 0 {
            let again = replica.apply(&changes).unwrap();
            assert!(again.iter().all(|applied| applied.skipped && applied.added == 0));
            let error = replica.apply(&[adding(version + 2, &vec![])]).unwrap_err();
            assert_eq!(error, ApplyError::Gap { version, found: version + 2 });
            let none = vec![];
            let lost = Change { set_hash: Some(1), ..adding(version, &none) };
            assert!(matches!(replica.apply(&[lost]), Err(ApplyError::HashDiffers { .. })));
            assert!(first <= version);
        }
        if round % 15 == 14 {
            agree(replica.graph(), &model, &people, random.usize(1..300));
            drop(replica);
            replica = open_replica(dir.path());
            assert_eq!(state(&replica), expected);
            agree(replica.graph(), &model, &people, random.usize(1..300));
        }
    }
}

#[test]
fn call_that_fails_in_the_middle_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut replica = follower(dir.path());
    let (one, two) = (owned(&[("a", "b"), ("1", "2")]), owned(&[("c", "d")]));
    replica.apply(&[adding(1, &one)]).unwrap();
    let before = state(&replica);
    let wrong = Change { set_hash: Some(7), ..adding(3, &one) };
    let bad = owned(&[("a", "b c")]);
    let place = LogPlace { epoch: 9, sequence: 9, record: 5 };
    let good = Change { at: Some(place), ..adding(2, &two) };
    for second in [wrong, adding(4, &one), adding(3, &bad)] {
        assert!(replica.apply(&[good, second]).is_err());
        assert_eq!(state(&replica), before);
        assert_eq!(replica.graph().subscriptions(), 2);
        assert_eq!(replica.graph().names().len(), 2, "a and b");
    }
    replica.apply(&[good]).unwrap();
    assert_eq!(state(&replica).at, place);
}

#[test]
fn pair_in_both_lists_is_there_and_one_that_changes_nothing_does_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let mut replica = follower(dir.path());
    let pair = owned(&[("1", "rj")]);
    let change = Change { removed: &pair, ..adding(1, &pair) };
    let applied = replica.apply(&[change, adding(2, &pair)]).unwrap();
    let hash = pair_hash("1", "rj").hash;
    let counts = applied.iter().map(|a| (a.added, a.removed, a.set_hash)).collect::<Vec<_>>();
    assert_eq!(counts, [(1, 0, hash), (0, 0, hash)]);
}

#[test]
fn place_in_the_log_is_kept_without_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let mut replica = follower(dir.path());
    let place = |sequence| LogPlace { epoch: 3, sequence, record: !sequence };
    replica.at(place(70));
    assert_eq!(state(&replica).at, place(70));
    drop(replica);
    let mut replica = open_replica(dir.path());
    assert_eq!(state(&replica).at, place(70));
    replica.at(place(80));
    // A change that came another way takes the place along, one of the log has its own.
    replica.apply(&[adding(1, &vec![])]).unwrap();
    assert_eq!(replica.store().committed.lock().unwrap().replica.unwrap().at, place(80));
    replica.at(place(90));
    replica.apply(&[Change { at: Some(place(91)), ..adding(2, &vec![]) }]).unwrap();
    assert_eq!(
        state(&replica),
        ReplicaState { lineage: 5, version: 2, at: place(91), set_hash: 0 }
    );
}

#[test]
fn readers_see_a_change_wholly_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let mut replica = follower(dir.path());
    let [odd, even] = [1, 0].map(|rest| -> Owned {
        (0..400).filter(|n| n % 2 == rest).map(|n| (n.to_string(), "7".into())).collect()
    });
    let graph = replica.graph().clone();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            while !done.load(Ordering::Relaxed) {
                let ids = graph.page_followers(Id::from_bits(7), None, 1000).unwrap().ids;
                let rest: BTreeSet<u64> = ids.iter().map(|id| id.to_bits() % 2).collect();
                assert!(ids.is_empty() || ids.len() == 200 && rest.len() == 1, "{}", ids.len());
                seen.extend(rest);
            }
            seen
        });
        let ends = Ends(&done);
        for version in 1..400 {
            let [removed, added] = if version % 2 == 0 { [&odd, &even] } else { [&even, &odd] };
            replica.apply(&[Change { removed, ..adding(version, added) }]).unwrap();
        }
        drop(ends);
        assert_eq!(reader.join().unwrap().len(), 2, "it saw both");
    });
}

#[test]
fn pairs_of_a_replica_change_by_the_log_alone() {
    let dir = tempfile::tempdir().unwrap();
    let replica = follower(dir.path());
    let graph = replica.graph();
    assert_eq!(graph.add_blocking(vec![pair("1", "2")]), Err(WriteError::IsReplica));
    assert_eq!(graph.remove_blocking(vec![pair("1", "2")]), Err(WriteError::IsReplica));
    let loaded = graph.load("it", &mut &b"1 2\n"[..], 0, LoadOptions::default(), &mut |_| {});
    assert!(matches!(loaded, Err(LoadError::Write(WriteError::IsReplica))));
    assert_eq!(graph.subscriptions(), 0);
}
