//! What the nodes of a cluster keep on disk: each its own, out of the log of all.

use std::fs::File;
use std::io::Write;

use serde_json::{Value, json};

use super::{NAME, World, resume, wait_members};
use crate::full_disk::{inside, server_on_a_small_disk};
use crate::harness::{Server, Stream, wait_for};

const KEEP: &str = "--keep=x=7d";

/// Durable sends for which a disk has no room that has none for a page.
const SENDS_MAX: usize = 2_000;

/// Sends an event about `x`; its id, once it is on the disk of this node.
fn send(node: &Server, data: &str) -> String {
    let event = json!({ "about": "x", "data": data, "durable": true });
    node.api.post("/send", &event).ok()["id"].as_str().unwrap().to_owned()
}

/// What `node` has on disk, with the ids.
fn kept(node: &Server) -> Vec<(String, Value)> {
    let page = node.api.get("/events/x").ok();
    let events = page["events"].as_array().unwrap();
    let event = |event: &Value| (event["id"].as_str().unwrap().to_owned(), event["data"].clone());
    events.iter().map(event).collect()
}

/// Hears `data` from `place` on, first of all, and no gap.
#[track_caller]
fn expect(node: &Server, place: &str, data: &[&str]) {
    let mut stream: Stream = resume(node, "x", place);
    for &data in data {
        assert_eq!(stream.data(), data, "from {place}");
    }
}

#[test]
fn node_has_on_disk_what_was_sent_while_it_was_away() {
    let Some(world) = World::new() else { return };
    let [first, second] = world.nodes_with(&[KEEP]);
    let place = send(&first, "heard");
    send(&second, "missed");
    second.api.post("/send", &json!({"about": "y", "data": 1, "durable": true})).problem(400);
    first.stop("KILL");
    send(&second, "while away");
    let first = world.node("n1", &[KEEP]);
    for node in [&first, &second] {
        expect(node, &place, &["missed", "while away"]);
        let data: Vec<Value> = kept(node).into_iter().map(|(_, data)| data).collect();
        assert_eq!(data, ["heard", "missed", "while away"]);
        assert_eq!(node.api.stats()["resume_gaps"], 0);
    }
    // The whole cluster goes, and comes back.
    let before = kept(&first);
    first.stop("TERM");
    second.stop("KILL");
    let [first, second] = world.nodes_with(&[KEEP]);
    for node in [&first, &second] {
        wait_for("its log", || kept(node) == before);
        expect(node, &place, &["missed", "while away"]);
    }
    let last = send(&first, "after");
    wait_for("the same log", || kept(&second) == kept(&first));
    assert_eq!(kept(&second).last().unwrap().0, last);
}

#[test]
fn log_of_another_server_is_put_aside_when_that_becomes_a_node() {
    let Some(world) = World::new() else { return };
    let second = world.node("n2", &[KEEP]);
    let alone = Server::start_in(&world.store("n1"), &[KEEP]);
    let place = send(&alone, "alone");
    alone.stop("TERM");
    let first = world.node("n1", &[KEEP]);
    assert!(kept(&first).is_empty(), "it is not of this cluster");
    assert!(world.store("n1").join("log.of-before").is_dir());
    let mut stream = resume(&first, "x", &place);
    assert_eq!(stream.event(), json!({"gap": true}), "{place} is of another server");
    let id = send(&second, "of the cluster");
    wait_for("the event on the other node", || kept(&first).len() == 1);
    assert_eq!(kept(&first)[0].0, id);
}

/// The log of the cluster has the event, and clients hear it. Its sender wants to know more.
#[test]
fn durable_send_with_a_key_is_unsure_where_the_disk_is_full() {
    let Some(world) = World::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let nats = format!("--nats={}", world.nats.url());
    let options = [NAME, nats.as_str(), "--node=n1", KEEP];
    let Some(node) = server_on_a_small_disk(dir.path(), &options) else {
        return testing::skip("this user may not mount a small disk (unshare --mount)");
    };
    wait_members(&node, 1);
    let send = |n: usize| {
        let (data, key) = ("x".repeat(1000), n.to_string());
        let event = json!({ "about": "x", "data": data, "key": key, "durable": true });
        node.api.post("/send", &event)
    };
    send(0).ok();
    let mut ballast = File::create(inside(&node, &dir.path().join("ballast"))).unwrap();
    // Until there is no room for a page any more.
    while ballast.write_all(&[1; 4096]).is_ok() {}
    let unsure = (1..SENDS_MAX).map(|n| (n, send(n))).find(|(_, answer)| answer.status() != 200);
    let (n, first) = unsure.expect("the disk is full");
    for answer in [first, send(n)] {
        let problem = answer.problem(503);
        assert_eq!(problem["type"], "errors#outcome-unknown");
        assert!(problem["detail"].as_str().unwrap().contains("not on disk for sure"), "{problem}");
    }
}
