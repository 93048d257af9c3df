//! Keys of the API: made and revoked at any node, good at all of them or at none.

use std::fs;

use auth::keys::{KeyFile, NewKey, Scope};

use super::World;
use crate::harness::{Server, wait_for};
use crate::keys::{new_key, revoke};

fn status(node: &Server, key: &str) -> u16 {
    node.api.with_key(key).get("/stats").status()
}

/// Waits until calls at `node` need a key; before, any is as good as none.
fn wait_for_keys(node: &Server) {
    wait_for("calls need a key", || node.api.get("/stats").status() == 401);
}

#[test]
fn key_that_is_made_or_revoked_at_one_node_is_so_at_all() {
    let Some(world) = World::new() else { return };
    let [first, second] = world.nodes();
    assert_eq!(second.api.get("/stats").status(), 200, "nobody needs one");
    let key = new_key(&world.store("n1"), &["--scope=read"]);
    wait_for_keys(&second);
    assert_eq!(status(&second, &key), 200);
    let other = new_key(&world.store("n2"), &["--scope=read"]);
    wait_for("the other's is good here", || status(&first, &other) == 200);
    // At another node than the one that has made it.
    revoke(&world.store("n2"), &key);
    assert_eq!(status(&second, &key), 401);
    wait_for("it is revoked where it was made", || status(&first, &key) == 401);
    assert_eq!(status(&first, &other), 200);
    // A node that has just started knows them before its first answer, and one that comes back
    // with an older file does not bring back what is revoked.
    let old = fs::read_to_string(world.store("n1").join("keys.json")).unwrap();
    let third = world.node("n3", &[]);
    assert_eq!([&key, &other].map(|key| status(&third, key)), [401, 200]);
    third.into_program().kill();
    revoke(&world.store("n1"), &other);
    wait_for("it is revoked at both", || status(&second, &other) == 401);
    fs::write(world.store("n3").join("keys.json"), old).unwrap();
    let third = world.node("n3", &[]);
    assert_eq!(status(&third, &other), 401);
}

/// All that NATS had is gone.
#[test]
fn keys_are_good_without_nats_and_what_it_has_lost_comes_back() {
    let Some(mut world) = World::new() else { return };
    let [first, second] = world.nodes();
    let key = new_key(&world.store("n1"), &["--scope=read"]);
    wait_for_keys(&second);
    world.nats.kill();
    assert_eq!([&first, &second].map(|node| status(node, &key)), [200, 200]);
    let away = new_key(&world.store("n2"), &["--scope=read"]);
    assert_eq!([&first, &second].map(|node| status(node, &away)), [401, 200]);
    fs::remove_dir_all(world.nats.store()).unwrap();
    world.nats.restart();
    wait_for("what was made meanwhile is good everywhere", || status(&first, &away) == 200);
    assert_eq!(status(&first, &key), 200);
}

#[test]
fn node_that_has_more_keys_than_all_have_room_for_starts_and_they_are_good_there() {
    let Some(world) = World::new() else { return };
    let file = KeyFile::in_dir(&world.store("n1"));
    let about = (0..16).map(|n| format!("{n:x<250}").parse().unwrap()).collect();
    let wish = NewKey { scopes: vec![Scope::Send, Scope::Read], about, expires: None };
    // Some 280 KB, of which the cluster's list holds 256 KiB.
    let keys: Vec<String> = (0..70).map(|_| file.make(&wish, 1).unwrap().1).collect();
    let node = world.node("n1", &[]);
    assert_eq!([&keys[0], &keys[69]].map(|key| status(&node, key)), [200, 200]);
}
