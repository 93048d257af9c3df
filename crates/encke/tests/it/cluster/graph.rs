//! One graph for all nodes, in PostgreSQL and in a replica on each node.

use serde_json::{Value, json};
use testing::TcpRelay;
use testing::postgres::Postgres;

use super::{World, wait_members};
use crate::harness::{Api, Server, Wire, read_answer, wait_for};

/// A world with a PostgreSQL. `None`, and the test is skipped, where one of both is missing.
pub(super) fn world() -> Option<(World, Postgres)> {
    Some((World::new()?, Postgres::start(&[])?))
}

pub(super) fn node(world: &World, postgres: &Postgres, name: &str) -> Server {
    world.node(name, &[&format!("--postgres={}", postgres.url())])
}

pub(super) fn nodes<const N: usize>(world: &World, postgres: &Postgres) -> [Server; N] {
    let nodes: Vec<Server> = (1..=N).map(|n| node(world, postgres, &format!("n{n}"))).collect();
    nodes.iter().for_each(|node| wait_members(node, N as u64));
    nodes.try_into().ok().unwrap()
}

pub(super) fn pairs(subscriber: &str, subscribee: &str) -> Value {
    json!([{ "subscriber": subscriber, "subscribee": subscribee }])
}

pub(super) fn followers(api: &Api, id: &str) -> Vec<String> {
    let mut ids = api.ids(&format!("/subscribers/{id}"), 100);
    ids.sort();
    ids
}

#[test]
fn subscription_is_obeyed_by_later_sends_on_every_node() {
    let Some((world, postgres)) = world() else { return };
    let [first, second] = nodes(&world, &postgres);
    let mut stream = second.listener("bob");
    for round in 0..20 {
        let (add, remove) = ("/subscriptions/add", "/subscriptions/remove");
        assert_eq!(first.api.post(add, &pairs("bob", "rj")).ok(), json!({"added": 1}));
        assert_eq!(first.api.post(add, &pairs("bob", "rj")).ok(), json!({"added": 0}));
        for node in [&first, &second] {
            assert_eq!(node.api.send("rj", round), 1);
            assert_eq!(stream.data(), round);
        }
        assert_eq!(second.api.post(remove, &pairs("bob", "rj")).ok(), json!({"removed": 1}));
        assert_eq!(first.api.send("rj", round), 0);
    }
}

#[test]
fn graph_is_that_of_postgresql_on_a_node_that_comes_later_or_was_away() {
    let Some((world, postgres)) = world() else { return };
    let first = node(&world, &postgres, "n1");
    for (subscriber, subscribee) in [("1", "2"), ("bob", "rj"), ("7", "rj"), ("bob", "2")] {
        first.api.subscribe(subscriber, subscribee);
    }
    let second = node(&world, &postgres, "n2");
    assert_eq!(followers(&second.api, "rj"), ["7", "bob"]);
    assert_eq!(followers(&second.api, "2"), ["1", "bob"]);
    second.into_program().signal("KILL");
    first.api.subscribe("eve", "rj");
    first.api.post("/subscriptions/remove", &pairs("7", "rj")).ok();
    let back = node(&world, &postgres, "n2");
    wait_for("the replica is where the others are", || {
        followers(&back.api, "rj") == ["bob", "eve"]
    });
}

#[test]
fn sql_of_the_application_changes_the_graph_of_all_nodes() {
    let Some((world, postgres)) = world() else { return };
    let [first, second] = nodes(&world, &postgres);
    postgres.sql("select encke.change(added => array[['bob', 'rj'], ['8', 'rj']])").unwrap();
    for node in [&first, &second] {
        wait_for("the change is heard of", || followers(&node.api, "rj") == ["8", "bob"]);
    }
    let mut stream = first.listener("8");
    assert_eq!(second.api.send("rj", "x"), 1);
    assert_eq!(stream.data(), "x");
}

#[test]
fn while_postgresql_is_away_sends_and_streams_go_on_and_changes_are_refused() {
    let Some((world, mut postgres)) = world() else { return };
    let [first, second] = nodes(&world, &postgres);
    first.api.subscribe("bob", "rj");
    let mut stream = second.listener("bob");
    postgres.kill();
    let refused = first.api.post("/subscriptions/add", &pairs("eve", "rj")).problem(503);
    assert!(refused["detail"].as_str().unwrap().contains("database"), "{refused}");
    for n in 0..5 {
        assert_eq!(first.api.send("rj", n), 1);
        assert_eq!(stream.data(), n);
    }
    postgres.run();
    first.api.post_until_taken("/subscriptions/add", &pairs("eve", "rj"));
    // What is sent obeys at once; a list may be read a moment earlier.
    wait_for("the other replica has it", || followers(&second.api, "rj") == ["bob", "eve"]);
}

/// Keeps the database's state, to be put back.
fn save(postgres: &mut Postgres) {
    postgres.stop();
    postgres.save("older");
    postgres.run();
}

/// Puts the database back to what was kept.
fn put_back(postgres: &mut Postgres) {
    postgres.stop();
    postgres.restore("older");
    postgres.run();
}

#[test]
fn database_put_back_to_an_older_state_is_followed_and_not_mixed() {
    let Some((world, mut postgres)) = world() else { return };
    let [first, second] = nodes(&world, &postgres);
    first.api.subscribe("bob", "rj");
    save(&mut postgres);
    first.api.post_until_taken("/subscriptions/add", &pairs("eve", "rj"));
    put_back(&mut postgres);
    for node in [&first, &second] {
        wait_for("the replica is that of the database", || followers(&node.api, "rj") == ["bob"]);
    }
    first.api.post_until_taken("/subscriptions/add", &pairs("7", "rj"));
    for node in [&first, &second] {
        wait_for("the replica goes on", || followers(&node.api, "rj") == ["7", "bob"]);
    }
}

/// Versions begin again below those that the nodes have, and are others.
#[test]
fn change_after_the_database_was_put_back_is_obeyed_by_the_next_send() {
    let Some((world, mut postgres)) = world() else { return };
    let [first, second] = nodes(&world, &postgres);
    first.api.subscribe("bob", "rj");
    save(&mut postgres);
    let add = |subscribee: &str| first.api.post("/subscriptions/add", &pairs("bob", subscribee));
    first.api.post_until_taken("/subscriptions/add", &pairs("bob", "lost"));
    for n in 0..50 {
        add(&format!("lost{n}")).ok();
    }
    put_back(&mut postgres);
    let mut stream = second.listener("bob");
    let mut obeyed = 0;
    for n in 0..100 {
        let name = format!("n{n}");
        // Until the nodes have the graph anew, changes may be refused.
        if add(&name).status() == 200 {
            let sent = second.api.post("/send", &json!({ "about": name, "data": n })).ok();
            assert!(sent["delivered"] == 1 || sent["at_least"] == true, "{n}: {sent}");
            assert_eq!(stream.data(), n);
            obeyed += 1;
        }
    }
    assert!(obeyed > 50, "{obeyed}");
}

#[test]
fn node_whose_database_falls_silent_hears_of_changes_by_the_log() {
    let Some((world, postgres)) = world() else { return };
    let relay = TcpRelay::start(([127, 0, 0, 1], postgres.port()).into());
    let (direct, port) = (postgres.url(), postgres.port().to_string());
    let url = direct.replace(&port, &relay.address().port().to_string());
    let deaf = world.node("n1", &[&format!("--postgres={url}")]);
    let other = node(&world, &postgres, "n2");
    wait_members(&deaf, 2);
    let mut stream = deaf.listener("bob");
    relay.swallow();
    other.api.subscribe("bob", "rj");
    for (n, node) in [&other, &deaf].into_iter().enumerate() {
        assert_eq!(node.api.send("rj", n), 1);
        assert_eq!(stream.data(), n);
    }
    let refused = deaf.api.post("/subscriptions/add", &pairs("eve", "rj"));
    assert_eq!(refused.status(), 503, "{refused:?}");
    relay.cut();
    relay.pass();
    deaf.api.post_until_taken("/subscriptions/add", &pairs("eve", "rj"));
}

#[test]
fn without_postgresql_the_graph_stands_still() {
    let Some(world) = World::new() else { return };
    let node = world.node("n1", &[]);
    let refused = node.api.post("/subscriptions/add", &pairs("bob", "rj")).problem(409);
    assert!(refused["detail"].as_str().unwrap().contains("--postgres"), "{refused}");
}

#[test]
fn subscription_that_another_node_has_made_is_none_more_and_is_answered() {
    let Some((world, postgres)) = world() else { return };
    let [first, second] = nodes(&world, &postgres);
    let add = |node: &Server| node.api.post("/subscriptions/add", &pairs("bob", "rj")).ok();
    assert_eq!(add(&first), json!({"added": 1}));
    assert_eq!(add(&second), json!({"added": 0}));
    drop(second);
    // A node that has it all from the database, too.
    let third = node(&world, &postgres, "n3");
    assert_eq!(add(&third), json!({"added": 0}));
    let nothing = third.api.post("/subscriptions/remove", &pairs("eve", "rj")).ok();
    assert_eq!(nothing, json!({"removed": 0}));
}

#[test]
fn node_that_ends_while_its_database_is_silent_answers_who_waits_and_takes_no_longer() {
    let Some((world, postgres)) = world() else { return };
    let relay = TcpRelay::start(([127, 0, 0, 1], postgres.port()).into());
    let (direct, port) = (postgres.url(), postgres.port().to_string());
    let url = direct.replace(&port, &relay.address().port().to_string());
    let node = world.node("n1", &[&format!("--postgres={url}"), "--grace=1800"]);
    node.api.subscribe("bob", "rj");
    let mut stream = node.listener("bob");
    relay.swallow();
    let body = pairs("eve", "rj").to_string();
    let mut waiting = Wire::connect(node.api.address());
    waiting.send(format!(
        "POST /subscriptions/add HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    // Answered on a later connection, so the one before is known to the server.
    assert_eq!(node.api.another().send("rj", "last"), 1);
    assert_eq!(stream.data(), "last");
    // Not when its grace is over, nor a third of that: either is longer than this waits.
    let finished = node.stop("TERM");
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    let refused = read_answer(&mut waiting, "POST").unwrap().problem(503);
    assert!(refused["detail"].as_str().unwrap().contains("again"), "{refused}");
    stream.expect_last_chunk();
}
