//! When a replica may go on, when it must be rebuilt, and whose a directory is.

use std::fs;

use super::*;
use crate::replica_mark::Mark;

/// A replica with two pairs at version 1, and the directory that its process left at a kill.
fn killed() -> (tempfile::TempDir, ReplicaState) {
    let dir = tempfile::tempdir().unwrap();
    let killed = tempfile::tempdir().unwrap();
    let mut replica = follower(dir.path());
    replica.apply(&[adding(1, &owned(&[("a", "b"), ("1", "2")]))]).unwrap();
    for entry in fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), killed.path().join(entry.file_name())).unwrap();
        }
    }
    (killed, state(&replica))
}

fn text(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap()
}

#[test]
fn process_that_dies_loses_nothing() {
    let (dir, state_then) = killed();
    assert!(text(dir.path(), "data.replica").contains("closed no"));
    let replica = open_replica(dir.path());
    assert_eq!(state(&replica), state_then);
    assert_eq!(replica.graph().subscriptions(), 2);
}

#[test]
fn machine_that_dies_makes_the_replica_anew() {
    let (dir, _) = killed();
    let mark = Mark { boot: Some("another".into()), closed: None };
    mark.write(dir.path()).unwrap();
    let mut replica = open_replica(dir.path());
    assert!(why(&replica).contains("the machine stopped before it was closed"));
    let graph = replica.graph().clone();
    assert!(graph.page_followers(Id::from_bits(2), None, 1).is_err(), "it answers nothing");
    assert!(graph.usable().unwrap_err().to_string().contains("is being made anew"));
    assert_eq!((graph.replica_state(), graph.subscriptions()), (None, 0));
    assert!(replica.apply(&[adding(1, &vec![])]).is_err());
    drop((replica, graph));
    // Trying once does not make it better.
    let mut replica = open_replica(dir.path());
    why(&replica);
    let model: Model = owned(&[("9", "2")]).into_iter().collect();
    let origin = Origin { lineage: 6, version: 40, ..Origin::default() };
    let made = rebuild(&mut replica, &model, origin).unwrap();
    assert_eq!((made.version, state(&replica)), (40, made));
    assert_eq!(replica.graph().page_followers(Id::from_bits(2), None, 9).unwrap().ids.len(), 1);
    drop(replica);
    assert_eq!(state(&open_replica(dir.path())), made);
}

#[test]
fn replica_that_was_closed_survives_a_boot() {
    let (dir, state_then) = killed();
    drop(open_replica(dir.path()));
    let closed = text(dir.path(), "data.replica");
    let transaction = closed.lines().find_map(|line| line.strip_prefix("closed ")).unwrap();
    let mark = Mark { boot: Some("another".into()), closed: transaction.parse().ok() };
    mark.write(dir.path()).unwrap();
    let replica = open_replica(dir.path());
    assert_eq!(state(&replica), state_then);
    assert!(text(dir.path(), "data.replica").contains("closed no"), "from now on it is open");
    drop(replica);
    // Another file than the one that was closed.
    Mark { closed: mark.closed.map(|closed| closed + 1), ..mark }.write(dir.path()).unwrap();
    assert!(why(&open_replica(dir.path())).contains("not the file that was closed"));
}

#[test]
fn replica_that_is_damaged_or_misses_a_file_is_made_anew() {
    type Fault = fn(&Path);
    let cut: Fault = |dir| {
        let file = fs::OpenOptions::new().write(true).open(dir.join("data.mdb")).unwrap();
        file.set_len(8192 + 4096).unwrap();
    };
    let faults: [(&str, Fault); 5] = [
        ("data.mdb is damaged", cut),
        ("data.mdb is missing", |dir| fs::remove_file(dir.join("data.mdb")).unwrap()),
        ("data.mdb is missing", |dir| fs::write(dir.join("data.mdb"), "").unwrap()),
        ("data.replica is missing", |dir| fs::remove_file(dir.join("data.replica")).unwrap()),
        ("data.replica is damaged", |dir| fs::write(dir.join("data.replica"), "boot").unwrap()),
    ];
    for (expected, fault) in faults {
        let (dir, _) = killed();
        fault(dir.path());
        let mut replica = open_replica(dir.path());
        assert!(why(&replica).contains(expected), "{expected}: {}", why(&replica));
        rebuild(&mut replica, &Model::new(), Origin::default()).unwrap();
        assert_eq!(state(&replica), ReplicaState::default());
        drop(replica);
        assert_eq!(state(&open_replica(dir.path())), ReplicaState::default());
    }
}

#[test]
fn damage_that_is_met_while_it_is_open_makes_it_anew() {
    let (dir, state_then) = killed();
    let mut replica = open_replica(dir.path());
    assert_eq!(state(&replica), state_then);
    let file = fs::OpenOptions::new().write(true).open(dir.path().join("data.mdb")).unwrap();
    file.set_len(8192).unwrap();
    assert!(replica.apply(&[adding(2, &owned(&[("5", "6")]))]).is_err());
    assert!(why(&replica).contains("damaged"), "{}", why(&replica));
    let graph = replica.graph().clone();
    rebuild(&mut replica, &Model::new(), Origin::default()).unwrap();
    assert_eq!(state(&replica), ReplicaState::default());
    assert!(graph.usable().is_ok() && graph.page_followers(Id::from_bits(2), None, 1).is_ok());
}

#[test]
fn graph_that_is_its_own_record_is_not_taken_for_a_replica() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    graph.add_blocking(vec![pair("1", "2")]).unwrap();
    drop(graph);
    let options = ReplicaOptions::default();
    let error = Replica::open(dir.path(), &options).err().unwrap();
    assert!(matches!(error.reason, OpenReason::IsOwnRecord));
    assert!(error.to_string().contains("single node's own record"), "{error}");
    assert_eq!(open(dir.path()).subscriptions(), 1, "it is as it was");

    let options = ReplicaOptions { replace_own_record: true, ..options };
    let mut replica = Replica::open(dir.path(), &options).unwrap();
    assert!(why(&replica).contains("its graph is replaced"));
    drop(replica);
    assert_eq!(open(dir.path()).subscriptions(), 1, "as long as it is not rebuilt");
    replica = Replica::open(dir.path(), &options).unwrap();
    rebuild(&mut replica, &Model::new(), Origin::default()).unwrap();
    drop(replica);
    let error = Graph::open(dir.path(), &GraphOptions::default()).err().unwrap();
    assert!(matches!(error.reason, OpenReason::IsReplica));
    assert!(error.to_string().contains("start it as a node of its cluster"), "{error}");
    state(&open_replica(dir.path()));
}

#[test]
fn damaged_record_of_a_single_node_is_not_taken_for_a_replica_either() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    fs::write(dir.path().join("data.mdb"), [7; 9000]).unwrap();
    let error = Replica::open(dir.path(), &ReplicaOptions::default()).err().unwrap();
    assert!(matches!(error.reason, OpenReason::Damaged(_)));
}

#[test]
fn check_of_a_closed_replica_finds_nothing() {
    let (dir, _) = killed();
    drop(open_replica(dir.path()));
    let check = check(dir.path(), &mut |_, _| {}).unwrap();
    assert_eq!((check.findings, check.subscriptions), (vec![], Some(2)));
}

/// A crash may come when the new file is there and nothing was said of it yet.
#[test]
fn state_of_the_old_file_is_not_held_against_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut replica = follower(dir.path());
    for version in 1..30 {
        replica.apply(&[adding(version, &owned(&[("1", &version.to_string())]))]).unwrap();
    }
    drop(replica);
    let mut replica = open_replica(dir.path());
    // From here on no state can be written.
    fs::create_dir(dir.path().join("data.state.partial")).unwrap();
    let made = rebuild(&mut replica, &Model::new(), Origin::default()).unwrap();
    drop(replica);
    assert_eq!(state(&open_replica(dir.path())), made);
}
