//! A replica that is made anew while it is read, copied, and summed up.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};

use hub::{BUCKETS, PairHash, pair_hash};

use super::*;
use crate::{BackupError, RestoreError, check_backup, restore};

fn random_model(random: &mut fastrand::Rng, people: &[String], pairs: usize) -> Model {
    let mut pair = || {
        let other = if random.bool() { random.usize(..3) } else { random.usize(..people.len()) };
        (people[random.usize(..people.len())].clone(), people[other].clone())
    };
    (0..pairs).map(|_| pair()).collect()
}

#[test]
fn rebuilt_replica_has_the_pairs_that_came_and_ids_stay() {
    let mut random = fastrand::Rng::with_seed(seed());
    let people = people();
    let dir = tempfile::tempdir().unwrap();
    let mut replica = open_replica(dir.path());
    let graph = replica.graph().clone();
    let foreign = graph.names().acquire(IdText::parse("foreign").unwrap());
    for version in 1..12 {
        let mut model = random_model(&mut random, &people, 150 * version as usize);
        model.extend((version % 2 == 0).then(|| ("foreign".into(), "7".into())));
        let at = LogPlace { epoch: 1, sequence: version, record: 0 };
        let origin = Origin { lineage: 1, version, at, set_hash: Some(hash_of(&model)) };
        let made = rebuild(&mut replica, &model, origin).unwrap();
        assert_eq!(made, ReplicaState { lineage: 1, version, at, set_hash: hash_of(&model) });
        assert_eq!(graph.replica_state(), Some(made), "all handles go over to it");
        agree(&graph, &model, &people, random.usize(1..300));
        assert_eq!(graph.names().lookup(IdText::parse("foreign").unwrap()), Some(foreign));
        let [removed, added] = random_change(&mut random, &people, &mut model.clone());
        replica.apply(&[Change { removed: &removed, ..adding(version + 1, &added) }]).unwrap();
        if version % 4 == 0 {
            let before = state(&replica);
            let mut after = model.clone();
            removed.iter().for_each(|pair| _ = after.remove(pair));
            after.extend(added);
            assert_eq!(before.set_hash, hash_of(&after));
        }
    }
    graph.names().release(foreign);
    rebuild(&mut replica, &Model::new(), Origin::default()).unwrap();
    assert!(graph.names().is_empty(), "names that nobody refers to are forgotten");
    let files = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let files: BTreeSet<_> = files.map(|name| name.to_string_lossy().into_owned()).collect();
    let expected = ["data.mdb", "data.replica", "data.state", "lock", "lock.mdb"];
    assert_eq!(files, expected.map(str::to_owned).into(), "nothing is left behind");
    drop((replica, graph));
    state(&open_replica(dir.path()));
}

#[test]
fn look_ups_are_answered_from_the_old_pairs_until_the_new_ones_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut replica = follower(dir.path());
    let graph = replica.graph().clone();
    let followers = || graph.page_followers(Id::from_bits(7), None, 1000).unwrap().ids.len();
    replica.apply(&[adding(1, &owned(&[("1", "7")]))]).unwrap();
    let model: Model = owned(&[("1", "7"), ("2", "7")]).into_iter().collect();
    let asked = stream(&model, true).into_iter().inspect(|_| assert_eq!(followers(), 1));
    let again = stream(&model, false).into_iter().inspect(|_| assert_eq!(followers(), 1));
    replica.rebuild(&Origin::default(), asked, again).unwrap();
    assert_eq!(followers(), 2);
}

#[test]
fn changes_go_on_while_a_replica_is_built_and_the_new_one_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut replica = follower(dir.path());
    let graph = replica.graph().clone();
    let people = ["a", "b", "c", "d", "e", "7"].map(str::to_owned);
    // The old one is wrong: it lacks a pair, and has one too many.
    replica.apply(&[adding(1, &owned(&[("a", "b"), ("e", "7")]))]).unwrap();
    let mut model: Model = owned(&[("a", "b"), ("c", "7")]).into_iter().collect();
    let rebuild = replica.begin_rebuild().unwrap();
    let origin =
        Origin { lineage: 5, version: 1, set_hash: Some(hash_of(&model)), ..Origin::default() };
    let mut built = rebuild.run(&origin, stream(&model, true), stream(&model, false)).unwrap();
    // What is being built holds names that nobody refers to, so pairs are compared alone.
    let followers = |of: &str| {
        let of = graph.names().lookup(IdText::parse(of).unwrap()).unwrap();
        sliced(&graph, of).len()
    };
    assert_eq!([followers("b"), followers("7"), followers("c")], [1, 1, 0]);
    let (removed, added) = (owned(&[("a", "b"), ("c", "7")]), owned(&[("d", "a"), ("d", "c")]));
    let change = Change { removed: &removed, ..adding(2, &added) };
    replica.apply(&[change]).unwrap();
    model = added.iter().cloned().collect();
    built.apply(&[Change { set_hash: Some(hash_of(&model)), ..change }]).unwrap();
    assert_eq!(["b", "7", "a", "c"].map(followers), [0, 1, 1, 1]);
    assert_eq!(state(&replica).version, 2);
    assert_eq!(built.state().version, 2);
    let made = replica.finish_rebuild(built).unwrap();
    assert_eq!((made.version, made.set_hash), (2, hash_of(&model)));
    agree(&graph, &model, &people, 10);
    assert_eq!(graph.names().len(), 3, "e and b are forgotten");
    // One that is given up leaves the names of the one that stays.
    let rebuild = replica.begin_rebuild().unwrap();
    let origin = Origin { lineage: 5, version: 2, ..Origin::default() };
    let mut built = rebuild.run(&origin, stream(&model, true), stream(&model, false)).unwrap();
    built.apply(&[Change { removed: &added, ..adding(3, &Owned::new()) }]).unwrap();
    drop(built);
    agree(&graph, &model, &people, 10);
    drop((replica, graph));
    let replica = open_replica(dir.path());
    agree(replica.graph(), &model, &people, 10);
}

#[test]
fn rebuild_that_fails_leaves_the_replica_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let mut replica = follower(dir.path());
    replica.apply(&[adding(1, &owned(&[("a", "7"), ("1", "b")]))]).unwrap();
    let before = state(&replica);
    let batch = |pairs: &[(&str, &str)]| Ok(pairs.iter().copied().collect::<PairBatch>());
    let some = || batch(&[("c", "1"), ("2", "1"), ("3", "d")]);
    let by_subscriber = || batch(&[("c", "1"), ("2", "1"), ("3", "d")]);
    let mut fails = |first, second, origin: Origin, expected: &str| {
        let error = replica.rebuild(&origin, first, second).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
        assert_eq!(state(&replica), before);
        let people = ["a", "7", "1", "b"].map(str::to_owned);
        let model: Model = owned(&[("a", "7"), ("1", "b")]).into_iter().collect();
        agree(replica.graph(), &model, &people, 10);
        assert_eq!(replica.graph().names().len(), 2, "and nobody new is known");
    };
    let any = Origin::default();
    let broken = || Err("the line is cut".to_owned());
    fails(vec![some(), broken()], vec![by_subscriber()], any, "the line is cut");
    fails(vec![some()], vec![by_subscriber(), broken()], any, "the line is cut");
    fails(vec![some()], vec![], any, "3 and 0 pairs");
    fails(vec![some()], vec![batch(&[("c", "1"), ("2", "1"), ("3", "e")])], any, "not the same");
    fails(vec![some()], vec![some(), batch(&[("9", "9")])], any, "3 and 4 pairs");
    let other = Origin { set_hash: Some(3), ..any };
    fails(vec![some()], vec![by_subscriber()], other, "is not 0000000000000003");
    fails(vec![batch(&[("1", "7"), ("1", "6")])], vec![], any, "the list of 6 in followers");
    fails(vec![batch(&[("1", "7"), ("1", "7")])], vec![], any, "the list of 7 in followers has");
    fails(vec![batch(&[("1", "x"), ("2", "x"), ("1", "x")])], vec![], any, "has somebody twice");
    fails(vec![batch(&[("1", "x y")])], vec![], any, "must not contain ' '");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 5, "nothing is left behind");
}

#[test]
fn readers_go_on_while_replicas_are_swapped_under_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut replica = follower(dir.path());
    let graph = replica.graph().clone();
    let crowd: Owned = (0..2000).map(|n| (n.to_string(), "rj".into())).collect();
    let model: Model = crowd.into_iter().collect();
    rebuild(&mut replica, &model, Origin::default()).unwrap();
    let rj = graph.names().lookup(IdText::parse("rj").unwrap()).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(sliced(&graph, rj).len(), 2000);
                    assert_eq!(graph.usable(), Ok(()));
                }
            });
        }
        let _ends = Ends(&done);
        for version in 0..30 {
            rebuild(&mut replica, &model, Origin { version, ..Origin::default() }).unwrap();
        }
    });
}

#[test]
fn copy_equals_its_source_and_follows_on() {
    let mut random = fastrand::Rng::with_seed(seed());
    let people = people();
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut replica = open_replica(dir.path());
    let mut model = random_model(&mut random, &people, 3000);
    rebuild(&mut replica, &model, Origin::default()).unwrap();
    let file = other.path().join("copy");
    for version in 1..30 {
        let [removed, added] = random_change(&mut random, &people, &mut model);
        replica.apply(&[Change { removed: &removed, ..adding(version, &added) }]).unwrap();
        if version % 7 > 0 {
            continue;
        }
        let source = state(&replica);
        replica.graph().copy_to(&mut File::create(&file).unwrap()).unwrap();
        assert_eq!(install(&file, other.path()).unwrap(), source);
        let mut copy = open_replica(other.path());
        assert_eq!(state(&copy), source);
        agree(copy.graph(), &model, &people, 100);
        assert_eq!(copy.graph().bucket_sums().unwrap(), replica.graph().bucket_sums().unwrap());
        let more = owned(&[("more", "7")]);
        let applied = copy.apply(&[adding(version + 1, &more)]).unwrap();
        assert_eq!(applied[0].set_hash, source.set_hash.wrapping_add(pair_hash("more", "7").hash));
    }
}

#[test]
fn copy_that_is_damaged_or_none_replaces_nothing() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let replica = follower(dir.path());
    let file = other.path().join("copy");
    replica.graph().copy_to(&mut File::create(&file).unwrap()).unwrap();
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 4096]).unwrap();
    assert!(matches!(install(&file, other.path()).unwrap_err().reason, OpenReason::Damaged(_)));
    fs::write(&file, &bytes).unwrap();
    let single = tempfile::tempdir().unwrap();
    drop(open(single.path()));
    let error = install(&file, single.path()).unwrap_err();
    assert!(matches!(error.reason, OpenReason::IsOwnRecord));
    let error = install(&single.path().join("data.mdb"), other.path()).unwrap_err();
    assert!(matches!(error.reason, OpenReason::IsOwnRecord));
    drop(open(single.path()));
    assert!(install(&file, dir.path()).is_err(), "it is in use");
    assert_eq!(install(&file, other.path()).unwrap(), state(&replica));
}

#[test]
fn copy_of_a_replica_is_no_backup_and_its_directory_takes_none() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let replica = follower(dir.path());
    let (file, backup) = (other.path().join("copy"), other.path().join("backup"));
    let mut written = File::create(&backup).unwrap();
    assert_eq!(replica.graph().backup_to(&mut written), Err(BackupError::IsReplica));
    replica.graph().copy_to(&mut File::create(&file).unwrap()).unwrap();
    let to = other.path().join("to");
    let refused = restore(&file, &to, &mut |_, _| {});
    assert!(matches!(refused, Err(RestoreError::Unsound { .. })), "{refused:?}");

    let single = open(&other.path().join("single"));
    single.backup_to(&mut written).unwrap();
    assert_eq!(check_backup(&backup, &mut |_, _| {}).unwrap().subscriptions, 0);
    drop(replica);
    let before = fs::read(dir.path().join("data.mdb")).unwrap();
    let refused = restore(&backup, dir.path(), &mut |_, _| {}).unwrap_err();
    assert!(refused.to_string().contains("a node of a cluster keeps"), "{refused}");
    assert!(fs::read(dir.path().join("data.mdb")).unwrap() == before);
    // Who may write into the directory leads nobody astray; others do not read what comes there.
    let elsewhere = other.path().join("elsewhere");
    fs::write(&elsewhere, "of somebody else").unwrap();
    symlink(&elsewhere, to.join("data.mdb.partial")).unwrap();
    restore(&backup, &to, &mut |_, _| {}).unwrap();
    assert_eq!(fs::read(&elsewhere).unwrap(), b"of somebody else");
    let mode = fs::metadata(to.join("data.mdb")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(open(&to).subscriptions(), 0);
}

#[test]
fn sums_are_those_of_one_version_though_pairs_change_meanwhile() {
    let mut random = fastrand::Rng::with_seed(seed());
    let people = people();
    let dir = tempfile::tempdir().unwrap();
    let mut replica = open_replica(dir.path());
    let mut model = random_model(&mut random, &people, 3000);
    // Enough for several slices.
    let crowd = (0..150_000u32).map(|n| (format!("{}", 1000 + n), format!("{}", n % 300)));
    model.extend(crowd);
    rebuild(&mut replica, &model, Origin::default()).unwrap();
    let graph = replica.graph().clone();
    let done = AtomicBool::new(false);
    let sums_of = |model: &Model| {
        let mut sums = [0u64; BUCKETS];
        for (a, b) in model {
            let PairHash { hash, bucket } = pair_hash(a, b);
            sums[bucket] = sums[bucket].wrapping_add(hash);
        }
        sums
    };
    let mut expected = vec![sums_of(&model)];
    thread::scope(|scope| {
        let summing = scope.spawn(|| {
            let mut sums = Vec::new();
            while !done.load(Ordering::Relaxed) || sums.is_empty() {
                sums.push(graph.bucket_sums().unwrap());
            }
            sums
        });
        let ends = Ends(&done);
        let mut version = 0;
        while version < 40 || !summing.is_finished() {
            version += 1;
            let before = model.clone();
            let [mut removed, added] = random_change(&mut random, &people, &mut model);
            let number = random.u32(..150_000);
            removed.push((format!("{}", 1000 + number), format!("{}", number % 300)));
            model.remove(&removed[removed.len() - 1]);
            let mut sums = expected[expected.len() - 1];
            for (a, b) in before.symmetric_difference(&model) {
                let PairHash { hash, bucket } = pair_hash(a, b);
                let there = model.contains(&(a.clone(), b.clone()));
                let change = if there { hash } else { hash.wrapping_neg() };
                sums[bucket] = sums[bucket].wrapping_add(change);
            }
            let hash = Some(sums.iter().fold(0, |total: u64, sum| total.wrapping_add(*sum)));
            let change = Change { removed: &removed, set_hash: hash, ..adding(version, &added) };
            replica.apply(&[change]).unwrap();
            expected.push(sums);
            if version == 40 {
                done.store(true, Ordering::Relaxed);
            }
        }
        drop(ends);
        for found in summing.join().unwrap() {
            assert_eq!(*found.sums, expected[found.state.version as usize]);
            assert_eq!(found.total(), found.state.set_hash);
        }
    });
    assert_eq!(*graph.bucket_sums().unwrap().sums, sums_of(&model));
}
