//! The graph of a node where PostgreSQL is away, differs, or is loaded into.

use std::fs;
use std::time::{Duration, Instant};

use testing::postgres::Postgres;

use super::failures::copy;
use super::graph::{followers, node, nodes, pairs, world};
use super::{World, wait_members, wait_ready};
use crate::harness::{Api, Program, Server, encke, wait_for};

/// In so much time a node keeps its place in the log with its replica twice.
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
    let begun = Instant::now();
    wait_for("its place is kept", || {
        // Who answers behind that time, by its one thread, has done what was due in it.
        second.api.stats();
        begun.elapsed() > KEPT
    });
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
    back.api.post_until_taken("/subscriptions/add", &pairs("7", "rj"));
    wait_for("the other node has it", || followers(&first.api, "rj") == ["7", "eve"]);
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
    wait_ready(&[&first]);
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

fn metric(api: &Api, name: &str) -> u64 {
    let text = api.get("/metrics").body;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("{name} is no metric of {text}")).trim().parse().unwrap()
}

#[test]
fn rows_that_were_changed_behind_the_back_are_found_and_taken_by_all_nodes() {
    let Some((world, postgres)) = world() else { return };
    let url = format!("--postgres={}", postgres.url());
    let first = world.node("n1", &[&url, "--graph-check=1"]);
    let second = node(&world, &postgres, "n2");
    wait_members(&first, 2);
    for (subscriber, subscribee) in [("bob", "rj"), ("8", "rj"), ("8", "9")] {
        first.api.subscribe(subscriber, subscribee);
    }
    let [equal, differed] = ["equal", "differed"]
        .map(|outcome| format!("encke_graph_checks_total{{outcome=\"{outcome}\"}}"));
    wait_for("a check", || metric(&first.api, &equal) > 0);
    assert_eq!(metric(&second.api, &equal), 0, "that is once a day");
    assert_eq!(metric(&first.api, &differed), 0);
    // As by somebody who repairs something with triggers off, and forgets the graph's functions.
    postgres
        .sql(
            "alter table encke.subscriptions disable trigger all;
             delete from encke.subscriptions where subscriber = 8 and subscribee <> 9;
             alter table encke.subscriptions enable trigger all",
        )
        .unwrap();
    for node in [&first, &second] {
        wait_for("the replica has what the rows say", || followers(&node.api, "rj") == ["bob"]);
    }
    wait_for("what the check has found is counted", || metric(&first.api, &differed) == 1);
    first.api.subscribe("eve", "rj");
    assert_eq!(followers(&first.api, "rj"), ["bob", "eve"]);
    wait_for("the other node goes on", || followers(&second.api, "rj") == ["bob", "eve"]);
    let before = metric(&first.api, &equal);
    wait_for("a check finds nothing", || metric(&first.api, &equal) > before + 1);
    assert_eq!(metric(&first.api, &differed), 1);
}

/// The graph's own pairs are equal, so an alert by the metric would miss it.
#[test]
fn table_that_no_trigger_has_followed_is_an_outcome_of_its_own() {
    let Some((world, postgres)) = world() else { return };
    let node = world.node("n1", &[&format!("--postgres={}", postgres.url()), "--graph-check=1"]);
    postgres.sql("create table follows (a bigint, b bigint, primary key (a, b))").unwrap();
    postgres.sql("select encke.install('follows', 'a', 'b')").unwrap();
    postgres.sql("insert into follows values (8, 9)").unwrap();
    let [equal, differed] = ["equal", "table_differed"]
        .map(|outcome| format!("encke_graph_checks_total{{outcome=\"{outcome}\"}}"));
    wait_for("a check", || metric(&node.api, &equal) > 0);
    assert_eq!(metric(&node.api, &differed), 0);
    postgres
        .sql(
            "alter table follows disable trigger all; insert into follows values (1, 2);
             alter table follows enable trigger all",
        )
        .unwrap();
    wait_for("a check finds it", || metric(&node.api, &differed) > 0);
    let before = metric(&node.api, &equal);
    let found = metric(&node.api, &differed);
    wait_for("the next one does", || metric(&node.api, &differed) > found);
    assert_eq!(metric(&node.api, &equal), before);
    postgres.sql("select encke.install('follows', 'a', 'b')").unwrap();
    wait_for("they are the same again", || metric(&node.api, &equal) > before);
    assert_eq!(followers(&node.api, "2"), ["1"]);
}

/// The first reason is that a table is missing; when the node connects anew they all are.
#[test]
fn another_reason_for_which_postgresql_cannot_be_used_is_told_too() {
    let Some((world, postgres)) = world() else { return };
    let node = node(&world, &postgres, "n1");
    node.api.subscribe("bob", "rj");
    postgres.sql("drop schema encke cascade").unwrap();
    for reason in ["\"encke.version\" does not exist", "the graph's tables are gone"] {
        wait_for("the log has the reason", || node.stderr().contains(reason));
    }
    assert_eq!(followers(&node.api, "rj"), ["bob"]);
}

/// A file of pairs.
fn file(world: &World, name: &str, lines: impl Iterator<Item = String>) -> String {
    let path = world.store(name);
    fs::write(&path, lines.collect::<String>()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn file_is_loaded_while_nodes_run_and_all_or_nothing() {
    let Some((world, postgres)) = world() else { return };
    let [first, second] = nodes(&world, &postgres);
    let url = postgres.url();
    let load = |file: &str| {
        let mut command = encke(["graph", "load", file, "--postgres", &url, "--json"]);
        Program::spawn(&mut command)
    };
    let mut stream = second.listener("n3");
    let few = file(&world, "few", (0..5).map(|n| format!("n{n} rj\n")));
    let loaded = load(&few).finish();
    assert!(loaded.stdout.contains("\"added\":5"), "{loaded:?}");
    wait_for("both nodes have it", || {
        [&first, &second].iter().all(|node| followers(&node.api, "rj").len() == 5)
    });
    assert_eq!(metric(&second.api, "encke_graph_rebuilds_total"), 1, "only at its start");
    assert_eq!(first.api.send("rj", 1), 1);
    assert_eq!(stream.data(), 1);

    // More than go into one version, and whoever loads dies in the middle.
    let many = file(&world, "many", (0..100_000).map(|n| format!("{n} n{}\n", n % 1000)));
    let loading = load(&many);
    let waits = "select count(*) from pg_stat_activity where state <> 'idle'
        and query like '%encke.commit(%' and pid <> pg_backend_pid()";
    wait_for("it writes", || postgres.sql(waits).unwrap().trim() != "0");
    loading.signal("KILL");
    drop(loading);
    // As long as PostgreSQL has not seen that, changes are refused for a moment.
    wait_for("its transaction is over", || postgres.sql(waits).unwrap().trim() == "0");
    first.api.subscribe("eve", "rj");
    assert_eq!(followers(&first.api, "n1").len(), 0, "nothing was loaded");
    assert_eq!(load(&many).finish().code(), Some(0));
    wait_for("both nodes have all", || {
        [&first, &second].iter().all(|node| {
            let stats = node.api.stats();
            stats["subscriptions"] == 100_006
        })
    });
    let wrong = file(&world, "wrong", ["1 2\n", "3\n"].map(str::to_owned).into_iter());
    let refused = load(&wrong).finish();
    assert_eq!(refused.code(), Some(1));
    assert!(refused.stderr.contains("wrong:2:"), "{refused:?}");
}

#[test]
fn file_that_fills_the_graph_is_taken_whole_by_nodes_that_run() {
    let Some((world, postgres)) = world() else { return };
    let [first, second] = nodes(&world, &postgres);
    let many = file(&world, "many", (0..100_000).map(|n| format!("{n} n{}\n", n % 1000)));
    let mut command = encke(["graph", "load", &many, "--both", "--postgres", &postgres.url()]);
    let loaded = Program::spawn(&mut command).finish();
    assert!(loaded.stdout.contains("200,000 new subscriptions"), "{loaded:?}");
    first.api.subscribe("eve", "n7");
    for node in [&first, &second] {
        wait_for("it has all", || node.api.stats()["subscriptions"] == 200_001);
        let rebuilds = || metric(&node.api, "encke_graph_rebuilds_total");
        wait_for("it was built once more", || rebuilds() == 2);
    }
    let mut stream = second.listener("eve");
    assert_eq!(first.api.send("n7", 1), 1);
    assert_eq!(stream.data(), 1);
}
