//! The graph of a node where PostgreSQL is away, differs, or is loaded into.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use testing::postgres::Postgres;

use super::failures::copy;
use super::graph::{followers, node, nodes, pairs, world};
use super::{World, wait_members};
use crate::harness::{Api, Program, Server, wait_for};

/// Longer than a node takes to keep its place in the log with its replica, beside other tests.
const KEPT: Duration = Duration::from_millis(2_500);

fn starting(world: &World, postgres: &Postgres, name: &str) -> (Program, Api) {
    world.starting(name, &[&format!("--postgres={}", postgres.url())])
}

/// Waits until a node says that it waits for PostgreSQL, and lets it wait.
fn wait_for_words(api: &Api) -> String {
    let mut words = String::new();
    wait_for("the node says what it waits for", || {
        let Ok(answer) = api.request("GET", "/readyz", None, b"") else { return false };
        let problem = answer.problem(503);
        problem["detail"].as_str().unwrap().clone_into(&mut words);
        words.contains("waits for PostgreSQL")
    });
    words
}

#[test]
fn node_that_starts_while_postgresql_is_away_has_what_the_log_says() {
    let Some((world, mut postgres)) = world() else { return };
    let [first, second, third] = nodes(&world, &postgres);
    first.api.subscribe("bob", "rj");
    sleep(KEPT);
    second.into_program().signal("KILL");
    third.stop("TERM");
    first.api.subscribe("eve", "rj");
    first.api.post("/subscriptions/remove", &pairs("bob", "rj")).ok();
    postgres.kill();
    for name in ["n2", "n3"] {
        let back = node(&world, &postgres, name);
        assert_eq!(followers(&back.api, "rj"), ["eve"]);
        let mut stream = back.listener("eve");
        assert_eq!(first.api.send("rj", name), 1);
        assert_eq!(stream.data(), name);
        back.stop("TERM");
    }
    let back = node(&world, &postgres, "n2");
    wait_members(&back, 2);
    let refused = back.api.post("/subscriptions/add", &pairs("7", "rj"));
    assert_eq!(refused.status(), 503, "{refused:?}");
    postgres.run();
    wait_for("changes are taken again", || {
        back.api.post("/subscriptions/add", &pairs("7", "rj")).status() == 200
    });
    assert_eq!(followers(&first.api, "rj"), ["7", "eve"]);
}

#[test]
fn node_without_a_graph_waits_for_postgresql_and_says_so() {
    let Some((world, mut postgres)) = world() else { return };
    let first = node(&world, &postgres, "n1");
    first.api.subscribe("bob", "rj");
    postgres.kill();
    let (waiting, api) = starting(&world, &postgres, "n2");
    wait_for_words(&api);
    assert_eq!(first.api.send("rj", 1), 0, "the others do not wait for it");
    postgres.run();
    let second = Server::of(waiting);
    wait_members(&second, 2);
    assert_eq!(followers(&second.api, "rj"), ["bob"]);
    assert_eq!(second.api.get("/readyz").status(), 200);
    // One that waits ends when it is told to.
    postgres.kill();
    let (waiting, api) = starting(&world, &postgres, "n3");
    wait_for_words(&api);
    waiting.signal("TERM");
    assert_eq!(waiting.finish().code(), Some(0));
}

#[test]
fn node_that_meets_another_log_waits_for_postgresql() {
    let Some((mut world, mut postgres)) = world() else { return };
    let first = node(&world, &postgres, "n1");
    first.api.subscribe("bob", "rj");
    let (store, older) = (world.nats.store(), world.stores.path().join("older"));
    world.nats.kill();
    copy(&store, &older);
    world.nats.restart();
    wait_for("the node is ready", || first.api.get("/readyz").status() == 200);
    first.api.subscribe("eve", "rj");
    first.stop("TERM");
    world.nats.kill();
    fs::remove_dir_all(&store).unwrap();
    copy(&older, &store);
    world.nats.restart();
    postgres.kill();
    let (waiting, api) = starting(&world, &postgres, "n1");
    let words = wait_for_words(&api);
    assert!(words.contains("the log has not all"), "{words}");
    postgres.run();
    let first = Server::of(waiting);
    assert_eq!(followers(&first.api, "rj"), ["bob", "eve"]);
}
