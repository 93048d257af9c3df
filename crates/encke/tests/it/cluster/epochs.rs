//! Logs that are given up while a node is away, or starts.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testing::{NatsServer, tried_again};

use super::failures::copy;
use super::graph::{node, world};
use super::{World, cluster_stats, connections_at_all, hear, resume, wait_ready};
use crate::harness::wait_for;

/// What JetStream's API answers.
fn ask(nats: &NatsServer, what: &str, body: &str) -> Value {
    let stream = TcpStream::connect(nats.address()).unwrap();
    let len = body.len();
    let request = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\nPUB $JS.API.{what} answer {len}\r\n\
         {body}\r\n"
    );
    (&stream).write_all(request.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "NATS has gone");
        if let Some(len) = line.strip_prefix("MSG ").and_then(|rest| rest.split(' ').next_back()) {
            let mut answer = vec![0; len.trim_end().parse().unwrap()];
            reader.read_exact(&mut answer).unwrap();
            return serde_json::from_slice(&answer).unwrap();
        }
    }
}

/// Takes its subjects from the first log, as a node does that is about to propose another one.
fn seal(world: &World) {
    let mut config = ask(&world.nats, "STREAM.INFO.ENCKE_c_1", "")["config"].take();
    config["subjects"] = json!(["encke.c.1.sealed"]);
    let answer = ask(&world.nats, "STREAM.UPDATE.ENCKE_c_1", &config.to_string());
    assert!(answer["error"].is_null(), "{answer}");
}

/// Whoever sealed it may have gone before it could propose the next: a node that starts then, and
/// one that goes on, propose it.
#[test]
fn node_that_starts_with_a_log_that_was_given_up_goes_on_with_another() {
    let Some((world, postgres)) = world() else { return };
    let first = node(&world, &postgres, "n1");
    first.api.subscribe("bob", "rj");
    first.into_program().kill();
    seal(&world);
    let first = node(&world, &postgres, "n1");
    let mut stream = first.listener("bob");
    assert_eq!(first.api.send("rj", "x"), 1);
    assert_eq!(stream.data(), "x");
    assert_eq!(cluster_stats(&first)["epoch"], 2);
}

#[test]
fn node_whose_log_is_given_up_goes_on_with_another() {
    let Some(world) = World::new() else { return };
    let first = world.node("n1", &[]);
    seal(&world);
    // It sees that when there is something to put into it.
    let send = || first.api.post("/send", &json!({ "about": "rj", "data": 1 })).status();
    wait_for("a send is taken", || send() == 200);
    assert_eq!(cluster_stats(&first)["epoch"], 2);
}

/// So long, a node's lease, counts are lower bounds behind a new log: who has not come back by then
/// is taken for gone.
const LEASE: Duration = Duration::from_secs(10);

/// Behind another log nobody is a member before its join is read there. Who is asked meanwhile does
/// not know how many are to answer. A node that stands still for as long as its lease is not asked,
/// which then is told.
#[test]
fn counts_while_another_log_begins_are_true_or_lower_bounds() {
    let Some(world) = World::new() else { return };
    let [first, second] = world.nodes::<2>();
    let _stream = second.listener("bob");
    assert_eq!(connections_at_all(&first, "bob"), 1);
    let begin = Instant::now();
    seal(&world);
    let mut answers = Vec::new();
    thread::scope(|scope| {
        let api = first.api.another();
        let sending = scope.spawn(move || {
            let send = || api.post("/send", &json!({ "about": "rj", "data": 1 })).status();
            wait_for("a send is taken", || send() == 200);
        });
        wait_for("both are members again", || {
            let answer = first.api.get("/connections/bob").ok();
            answers.push((begin.elapsed(), answer));
            sending.is_finished() && cluster_stats(&first)["members"] == 2
        });
    });
    assert_eq!(cluster_stats(&first)["epoch"], 2);
    let is_true = |answer: &Value| answer["connections"] == 1 || answer["at_least"] == true;
    if let Some((age, wrong)) = answers.iter().find(|(_, answer)| !is_true(answer)) {
        assert!(*age >= LEASE, "{wrong} after {age:?}");
        tried_again(&format!("a node was away for longer than its lease: {wrong}"));
    }
}

/// The log goes back while no node is there, so that only what a node has kept tells of it: at
/// once, or after another node has put other events where the lost ones were.
#[test]
fn log_that_went_back_while_no_node_was_there_is_a_gap() {
    for others in [0, 6] {
        let Some((mut world, postgres)) = world() else { return };
        let first = node(&world, &postgres, "n1");
        assert_eq!(first.api.send("bob", "kept"), 0);
        let (store, older) = (world.nats.store(), world.stores.path().join("older"));
        world.nats.kill();
        copy(&store, &older);
        world.nats.restart();
        wait_ready(&[&first]);
        let mut stream = first.listener("bob");
        assert_eq!(first.api.send("bob", "lost"), 1);
        let (_, place) = hear(&mut stream, 1);
        first.stop("TERM");
        world.nats.kill();
        fs::remove_dir_all(&store).unwrap();
        copy(&older, &store);
        world.nats.restart();
        let second = (others > 0).then(|| node(&world, &postgres, "n2"));
        for n in 0..others {
            second.iter().for_each(|second| assert_eq!(second.api.send("eve", n), 0));
        }
        let first = node(&world, &postgres, "n1");
        assert_eq!(cluster_stats(&first)["epoch"], 2);
        assert_eq!(resume(&first, "bob", &place).event(), json!({"gap": true}));
    }
}
