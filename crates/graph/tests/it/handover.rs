//! Two processes that live, and one store: it is the one's or the other's, and nothing that was
//! acknowledged by either is lost, whoever is killed.

use std::fs;

use super::child;
use super::player::Player;

/// The text of the lock's file.
fn owner(dir: &std::path::Path) -> String {
    fs::read_to_string(dir.join("lock")).unwrap().trim().to_owned()
}

#[test]
fn what_one_process_stored_is_there_in_the_next_and_so_are_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let (mut old, mut new) = (Player::start(dir.path()), Player::start(dir.path()));
    assert!(new.say("beside").starts_with("error"), "there is nobody to take it over from");
    assert_eq!(old.say("open"), "ok");
    assert_eq!(old.say("add alice bob 7 bob bob alice"), "3");
    assert_eq!(new.say("beside"), "ok");
    assert_eq!(new.say("known alice"), old.say("known alice"));
    assert_eq!(old.say("add carol bob carol dora"), "2");
    assert_eq!(old.say("remove bob alice alice bob"), "2");
    assert_eq!(new.say("known carol"), "nobody");
    assert_eq!(new.say("look"), "ok");
    assert_eq!(new.say("known carol"), old.say("known carol"));
    assert_eq!(new.say("known alice"), "nobody", "nobody refers to her any more");
    assert_eq!(old.say("add erna bob"), "1");
    assert_eq!(owner(dir.path()), old.pid().to_string());

    assert_eq!(old.say("go"), "gone with 4");
    assert_eq!(old.say("go"), "gone with 4", "once more");
    let refused = old.say("add alice bob");
    assert!(refused.contains("nothing was stored, a new version"), "{refused}");
    assert_eq!(old.say("followers bob"), "7 carol erna", "it goes on reading");
    assert_eq!(owner(dir.path()), "");
    assert_eq!(new.say("take"), "ok");
    assert_eq!(owner(dir.path()), new.pid().to_string());
    assert_eq!(new.say("known erna"), old.say("known erna"));
    assert_eq!(new.say("followers bob"), "7 carol erna");
    assert_eq!(new.say("add 8 bob zoe bob"), "2");
    assert!(old.say("followers bob").starts_with("7 8 "), "what is new is seen there, too");
    old.end();
    assert_eq!(owner(dir.path()), new.pid().to_string(), "who has let go leaves it alone");
    assert_eq!(new.say("add 9 bob"), "1");
    new.end();
    let mut third = Player::start(dir.path());
    assert_eq!(third.say("open"), "ok");
    assert_eq!(third.say("followers bob"), "7 8 9 carol erna zoe");
    third.end();
}

#[test]
fn owner_goes_on_when_its_successor_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut old, mut new) = (Player::start(dir.path()), Player::start(dir.path()));
    assert_eq!(old.say("open"), "ok");
    assert_eq!(old.say("add alice bob carol bob"), "2");
    assert_eq!(old.say("back"), "ok", "it has not let go");
    assert_eq!(new.say("beside"), "ok");
    assert_eq!(old.say("go"), "gone with 2");
    assert_eq!(new.say("take"), "ok");
    assert_eq!(new.say("add dora bob"), "1");
    assert_eq!(new.say("remove alice bob"), "1");
    let refused = old.say("back");
    assert!(refused.contains(&format!("another process (pid {}) uses it", new.pid())), "{refused}");
    assert!(old.say("add erna bob").contains("a new version"), "it is as it was");
    new.kill();
    assert_eq!(old.say("back"), "ok");
    assert_eq!(old.say("followers bob"), "carol dora");
    assert_eq!(old.say("known alice"), "nobody");
    assert_eq!(owner(dir.path()), old.pid().to_string());
    assert_eq!(old.say("add alice bob"), "1");
    // And so once more, with another successor.
    let mut new = Player::start(dir.path());
    assert_eq!(new.say("beside"), "ok");
    assert_eq!(old.say("go"), "gone with 3");
    old.kill();
    assert_eq!(new.say("take"), "ok");
    assert_eq!(new.say("followers bob"), "alice carol dora");
    new.end();
}

#[test]
fn successor_that_gives_up_leaves_no_trace_and_takes_nothing_that_is_held() {
    let dir = tempfile::tempdir().unwrap();
    let mut old = Player::start(dir.path());
    assert_eq!(old.say("open"), "ok");
    assert_eq!(old.say("add alice bob"), "1");
    let state = fs::read(dir.path().join("data.state")).unwrap();
    for way in ["forget", "take", "end"] {
        let mut new = Player::start(dir.path());
        assert_eq!(new.say("beside"), "ok");
        if way != "end" {
            let answer = new.say(way);
            let in_use = format!("another process (pid {}) uses it", old.pid());
            assert!(way == "forget" && answer == "ok" || answer.contains(&in_use), "{answer}");
        }
        new.end();
        assert_eq!(owner(dir.path()), old.pid().to_string());
        assert_eq!(fs::read(dir.path().join("data.state")).unwrap(), state);
    }
    assert_eq!(old.say("add carol bob"), "1");
    old.end();
}

/// Somebody is online at both when the old one stores her: she is known by another id to each.
#[test]
fn name_that_both_processes_know_keeps_its_id_in_each() {
    let dir = tempfile::tempdir().unwrap();
    let (mut old, mut new) = (Player::start(dir.path()), Player::start(dir.path()));
    assert_eq!(old.say("open"), "ok");
    assert_eq!(old.say("add alice bob"), "1");
    assert_eq!(old.say("online nobody"), old.say("known nobody"));
    let theirs = old.say("online carol");
    assert_eq!(new.say("beside"), "ok");
    let ours = new.say("online carol");
    assert_ne!(ours, theirs);
    assert_eq!(old.say("add carol bob carol carol alice carol carol 7 7 carol"), "5");
    for way in ["look", "look"] {
        assert_eq!(new.say(way), "ok");
        assert_eq!(new.say("known carol"), ours);
    }
    assert_eq!(old.say("go"), "gone with 6");
    assert_eq!(new.say("take"), "ok");
    let agrees = |process: &mut Player, id: &str| {
        assert_eq!(process.say("known carol"), id);
        assert_eq!(process.say("followers bob"), "alice carol");
        assert_eq!(process.say("followers carol"), "7 alice carol");
        assert_eq!(process.say("followers 7"), "carol");
    };
    agrees(&mut new, &ours);
    assert_eq!(new.say("remove carol 7"), "1");
    assert_eq!(new.say("add carol 7"), "1");
    new.kill();
    let check = |dir: &std::path::Path| graph::check(dir, &mut |_, _| {}).unwrap().findings;
    assert_eq!(check(dir.path()), [""; 0]);
    assert_eq!(old.say("back"), "ok");
    agrees(&mut old, &theirs);
    old.end();
    assert_eq!(check(dir.path()), [""; 0]);
}

/// The successor changes so much that each page that the old one's snapshot has would be written
/// over.
#[test]
fn look_up_that_is_under_way_ends_with_what_it_began_with() {
    let dir = tempfile::tempdir().unwrap();
    let (mut old, mut new) = (Player::start(dir.path()), Player::start(dir.path()));
    assert_eq!(old.say("open"), "ok");
    assert_eq!(old.say(&crowd("add", "5000")), "1000");
    assert_eq!(old.say("slow 5000"), "ok");
    assert_eq!(new.say("beside"), "ok");
    assert_eq!(old.say("watch"), "watches");
    assert_eq!(old.say("go"), "gone with 1000");
    assert_eq!(new.say("take"), "ok");
    assert_eq!(new.say(&crowd("remove", "5000")), "1000");
    for nth in 0..40 {
        assert_eq!(new.say(&crowd("add", &format!("{nth}th"))), "1000");
        assert_eq!(new.say(&crowd("remove", &format!("{nth}th"))), "1000");
    }
    assert_eq!(old.say("followers 5000"), "", "a new look-up sees what is there now");
    assert_eq!(old.say("on"), whole_crowd());
    old.end();
    new.end();
}

/// Its snapshot would keep all pages from being used again.
#[test]
fn process_that_is_killed_in_a_look_up_does_not_make_the_file_grow() {
    let dir = tempfile::tempdir().unwrap();
    let (mut old, mut new) = (Player::start(dir.path()), Player::start(dir.path()));
    assert_eq!(old.say("open"), "ok");
    assert_eq!(old.say(&crowd("add", "5000")), "1000");
    assert_eq!(old.say("slow 5000"), "ok");
    assert_eq!(new.say("beside"), "ok");
    assert_eq!(old.say("go"), "gone with 1000");
    assert_eq!(new.say("take"), "ok");
    old.kill();
    let mut bytes_after = || {
        for _ in 0..15 {
            assert_eq!(new.say(&crowd("remove", "5000")), "1000");
            assert_eq!(new.say(&crowd("add", "5000")), "1000");
        }
        fs::metadata(dir.path().join("data.mdb")).unwrap().len()
    };
    let (first, second) = (bytes_after(), bytes_after());
    assert!(second < first + first / 4, "{first} bytes, then {second}");
    new.end();
}

/// A thousand who follow `whom`, to be added or removed.
fn crowd(way: &str, whom: &str) -> String {
    let pairs: Vec<String> = (1000..2000).map(|n| format!("{n} {whom}")).collect();
    format!("{way} {}", pairs.join(" "))
}

fn whole_crowd() -> String {
    (1000..2000).map(|n| n.to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn process_of_the_same_id_in_another_namespace_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let first = || {
        let unshare = ["unshare", "--pid", "--fork", "--kill-child"];
        Player::start_by(&mut child(&unshare, "player::child_plays", dir.path()))
    };
    let may = std::process::Command::new("unshare").args(["--pid", "--fork", "true"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        return testing::skip("this user may not make a PID namespace (unshare --pid)");
    }
    let (mut old, mut same, mut new) = (first(), first(), Player::start(dir.path()));
    assert_eq!(old.say("open"), "ok");
    assert_eq!(old.say("add alice bob"), "1");
    let refused = same.say("beside");
    assert!(refused.contains("has the same process id as this one, 1,"), "{refused}");
    same.end();
    assert_eq!(old.say("followers bob"), "alice", "its places among the readers are its own");
    assert_eq!(new.say("beside"), "ok");
    assert_eq!(old.say("go"), "gone with 1");
    assert_eq!(new.say("take"), "ok");
    assert_eq!(new.say("add 7 bob"), "1");
    assert_eq!(old.say("followers bob"), "7 alice");
    old.end();
    assert_eq!(new.say("followers bob"), "7 alice");
    new.end();
}
