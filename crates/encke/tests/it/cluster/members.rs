//! Who is in a room, on several nodes: one list and the same changes, whatever a node or the log
//! comes to.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::{NAME, World, cluster_stats, wait_members};
use crate::harness::{Server, Stream, TOKEN_SECRET, wait_for};
use crate::members::{in_room, list_in, listed, open, set, token};
use crate::polled_members::Poller;

fn options(grace: &str) -> Vec<String> {
    vec![format!("--token-key={TOKEN_SECRET}"), format!("--presence-grace={grace}")]
}

pub(super) fn node(world: &World, name: &str, grace: &str) -> Server {
    let options = options(grace);
    world.node(name, &options.iter().map(String::as_str).collect::<Vec<_>>())
}

fn nodes<const N: usize>(world: &World, grace: &str) -> [Server; N] {
    let nodes = std::array::from_fn(|n| node(world, &format!("n{}", n + 1), grace));
    nodes.iter().for_each(|node| wait_members(node, N as u64));
    nodes
}

/// A stream of somebody who watches room:7 and is not in it.
pub(super) fn watch(server: &Server) -> Stream {
    open(server, "/stream/room:none?members=room:7", &token("watcher", None))
}

/// Takes what comes until the list has become `expected`; no change may contradict the list.
#[track_caller]
pub(super) fn hear_until(stream: &mut Stream, list: &mut BTreeSet<String>, expected: &[&str]) {
    while *list != set(expected) {
        let message = stream.event();
        let id = |change: &Value| change["id"].as_str().unwrap().to_owned();
        if message["members"].is_object() {
            *list = list_in(&message);
        } else if message["joined"].is_object() {
            list.insert(id(&message["joined"]));
        } else if message != json!({ "gap": true }) {
            assert!(list.remove(&id(&message["left"])), "{message} of {list:?}");
        }
    }
}

#[test]
fn list_and_changes_of_a_room_are_the_same_on_all_nodes() {
    let Some(world) = World::new() else { return };
    let nodes: [Server; 3] = nodes(&world, "1");
    let bob = open(&nodes[0], "/stream/room:7", &token("bob", Some(json!({ "name": "Bob" }))));
    let mut first = watch(&nodes[0]);
    assert_eq!(list_in(&first.event()), set(&["bob"]));
    let zoe = in_room(&nodes[1], "zoe");
    assert_eq!(first.event()["joined"]["id"], "zoe");
    let mut streams = [first, watch(&nodes[1]), watch(&nodes[2])];
    let list = json!({ "members": { "of": "room:7", "count": 2,
        "list": [{ "id": "bob", "info": { "name": "Bob" } }, { "id": "zoe" }] } });
    for stream in &mut streams[1..] {
        assert_eq!(stream.event(), list);
    }
    // Who watches and is there is in its own list, and a backend hears the same of each node.
    let mut eve = open(&nodes[2], "/stream/room:7?members=room:7", &token("eve", None));
    assert_eq!(list_in(&eve.event()), set(&["bob", "eve", "zoe"]));
    for node in &nodes {
        wait_for("the node has read it", || listed(node) == set(&["bob", "eve", "zoe"]));
    }
    // A user of two nodes is there once; what its latest token says is told.
    let second = open(&nodes[1], "/stream/room:7", &token("bob", Some(json!(7))));
    drop(bob);
    let zoes = in_room(&nodes[0], "zoe");
    drop(zoe);
    drop(eve);
    for stream in &mut streams {
        assert_eq!(stream.event()["joined"]["id"], "eve");
        let joined = json!({ "joined": { "of": "room:7", "id": "bob", "info": 7 } });
        assert_eq!(stream.event(), joined);
        assert_eq!(stream.event()["left"]["id"], "eve", "bob and zoe are elsewhere");
    }
    drop((second, zoes));
    for stream in &mut streams {
        let left: Vec<Value> = (0..2).map(|_| stream.event()["left"]["id"].take()).collect();
        assert!(left.contains(&json!("bob")) && left.contains(&json!("zoe")), "{left:?}");
    }
    let nobody = json!({ "members": { "of": "room:8", "count": 0, "list": [] } });
    assert_eq!(nodes[1].api.get("/members/room:8").ok(), nobody);
}

#[test]
fn room_of_too_many_on_all_nodes_together_is_counted() {
    let Some(world) = World::new() else { return };
    let more = [options("0"), vec!["--members-max=2".to_owned()]].concat();
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let nodes: [Server; 2] = world.nodes_with(&more);
    // One that tells of no rooms holds up nobody.
    let without = world.node("n3", &[more[0], "--members-max=0"]);
    wait_members(&without, 3);
    let (_bob, zoe) = (in_room(&nodes[0], "bob"), in_room(&nodes[1], "zoe"));
    let mut streams = nodes.each_ref().map(watch);
    for stream in &mut streams {
        let mut list = list_in(&stream.event());
        hear_until(stream, &mut list, &["bob", "zoe"]);
    }
    let eve = in_room(&nodes[1], "eve");
    for stream in &mut streams {
        assert_eq!(stream.event(), json!({ "joined": { "of": "room:7", "count": 3 } }));
    }
    let counted = json!({ "members": { "of": "room:7", "count": 3 } });
    assert_eq!(nodes[0].api.get("/members/room:7").ok(), counted);
    drop(eve);
    for stream in &mut streams {
        assert_eq!(stream.event(), json!({ "left": { "of": "room:7", "count": 2 } }));
    }
    drop(zoe);
    for stream in &mut streams {
        assert_eq!(list_in(&stream.event()), set(&["bob"]), "it is small again");
    }
}

#[test]
fn users_of_a_killed_node_leave_unless_they_come_back_in_time() {
    let Some(world) = World::new() else { return };
    let [a, b, c] = nodes(&world, "4");
    let (_bob, _eve, _zoe) = (in_room(&a, "bob"), in_room(&a, "eve"), in_room(&b, "zoe"));
    let mut streams = [watch(&b), watch(&c)];
    let mut lists = streams.each_mut().map(|stream| list_in(&stream.event()));
    for (stream, list) in streams.iter_mut().zip(&mut lists) {
        hear_until(stream, list, &["bob", "eve", "zoe"]);
    }
    a.into_program().kill();
    // Where it comes back it has never left.
    let bob = in_room(&c, "bob");
    for stream in &mut streams {
        assert_eq!(stream.event()["left"]["id"], "eve");
    }
    assert_eq!([listed(&b), listed(&c)], [set(&["bob", "zoe"]), set(&["bob", "zoe"])]);
    // A new node has the whole list before it answers.
    let a = node(&world, "n1", "4");
    assert_eq!(listed(&a), set(&["bob", "zoe"]));
    let mut at_first = watch(&a);
    assert_eq!(list_in(&at_first.event()), set(&["bob", "zoe"]));
    let _eve = in_room(&a, "eve");
    for stream in streams.iter_mut().chain([&mut at_first]) {
        assert_eq!(stream.event()["joined"]["id"], "eve");
    }
    drop(bob);
    for stream in streams.iter_mut().chain([&mut at_first]) {
        assert_eq!(stream.event()["left"]["id"], "bob");
    }
}

#[test]
fn what_happens_while_the_log_is_away_is_told_when_it_is_back_and_in_another_epoch_too() {
    let Some(mut world) = World::new() else { return };
    let [a, b] = nodes(&world, "0");
    let _bob = in_room(&a, "bob");
    let mut streams = [watch(&a), watch(&b)];
    let mut lists = streams.each_mut().map(|stream| list_in(&stream.event()));
    for is_forgotten in [false, true] {
        world.nats.kill();
        let eve = in_room(&a, "eve");
        let refused = b.api.get(&format!("/members/room:{is_forgotten}")).problem(503);
        assert!(refused["detail"].as_str().unwrap().contains("try again"), "{refused}");
        if is_forgotten {
            std::fs::remove_dir_all(world.nats.store()).unwrap();
        }
        world.nats.restart();
        for (stream, list) in streams.iter_mut().zip(&mut lists) {
            hear_until(stream, list, &["bob", "eve"]);
        }
        drop(eve);
        for (stream, list) in streams.iter_mut().zip(&mut lists) {
            hear_until(stream, list, &["bob"]);
        }
    }
    wait_for("another epoch has begun", || cluster_stats(&a)["epoch"].as_u64() > Some(1));
    wait_for("both have read the same", || [listed(&a), listed(&b)].map(|l| l.len()) == [1, 1]);
}

/// A node of the previous version does not read what others would say of rooms.
#[test]
fn each_node_tells_of_its_own_users_until_all_are_of_this_version() {
    let Some(previous) = testing::found("previous/encke") else {
        return testing::skip("there is no previous version: cargo xtask programs builds it");
    };
    let Some(world) = World::new() else { return };
    let old = start(&previous, &world, "n1");
    let new = node(&world, "n2", "0");
    [&old, &new].into_iter().for_each(|node| wait_members(node, 2));
    let _zoe = in_room(&new, "zoe");
    let mut stream = watch(&new);
    let mut list = list_in(&stream.event());
    assert_eq!(list, set(&["zoe"]));
    assert_eq!(old.api.send("room:7", 1), 1, "they are one cluster");
    assert_eq!(old.stop("TERM").code(), Some(0));
    let first = node(&world, "n1", "0");
    [&first, &new].into_iter().for_each(|node| wait_members(node, 2));
    let _bob = in_room(&first, "bob");
    hear_until(&mut stream, &mut list, &["bob", "zoe"]);
    wait_for("both have read the same", || listed(&first) == set(&["bob", "zoe"]));
}

fn start(program: &Path, world: &World, name: &str) -> Server {
    let nats = format!("--nats={}", world.nats.url());
    let mut all = vec![NAME.to_owned(), nats, format!("--node={name}")];
    all.push(format!("--token-key={TOKEN_SECRET}"));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    Server::start_program(program, &world.store(name), &all)
}

#[test]
fn poll_goes_on_from_node_to_node_without_a_new_list() {
    let Some(world) = World::new() else { return };
    let nodes: [Server; 3] = nodes(&world, "1");
    let _bob = open(&nodes[0], "/stream/room:7", &token("bob", Some(json!({ "name": "Bob" }))));
    let mut eve = Poller::new("eve", "/poll/eve");
    while eve.list.is_empty() {
        eve.poll(&nodes[0], 60);
    }
    // Each of them wants to know the room before something changes there.
    let streams: Vec<Stream> = nodes.iter().map(watch).collect();
    for (node, mut stream) in nodes.iter().zip(streams) {
        assert_eq!(list_in(&stream.event()), set(&["bob"]));
        eve.poll(node, 0);
    }
    assert_eq!((&eve.list, eve.lists), (&set(&["bob"]), 1), "all have the same list");
    for turn in 0..6 {
        let name = format!("user:{turn}");
        let wire = eve.ask(&nodes[turn % 3], 60);
        let user = in_room(&nodes[(turn + 1) % 3], &name);
        eve.read(wire);
        drop(user);
        while eve.list != set(&["bob"]) {
            eve.poll(&nodes[(turn + 2) % 3], 60);
        }
    }
    assert!(eve.lists < 6, "{} lists: changes are told as such", eve.lists);
}
