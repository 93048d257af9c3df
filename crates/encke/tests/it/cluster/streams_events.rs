//! Appends to the durable streams of one node as events: heard at all nodes once, in order, whether
//! NATS is away or the node is killed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde_json::Value;

use super::{World, cluster_stats, wait_members};
use crate::harness::{Api, Server, Stream, wait_for};

const EVENTS: [&str; 2] = ["--streams", "--streams-events=run:*"];

const PATH: &str = "/v1/stream/run:1";

/// Appends a text, as a writer that may repeat itself; the status of the answer, if one comes.
fn append(api: &Api, sequence: u64, closes: bool) -> Option<u16> {
    let sequence_field = format!("Producer-Seq: {sequence}");
    let mut fields = vec!["Producer-Id: w", "Producer-Epoch: 0", &*sequence_field];
    fields.extend(closes.then_some("Stream-Closed: true"));
    let text = format!("{sequence},");
    let answer = api.with(&fields).request("POST", PATH, Some("text/plain"), text.as_bytes());
    answer.ok().map(|answer| answer.status())
}

/// Appends until the next sequence is `end`, each as often as it takes, or the node is gone.
fn write(api: &Api, next: &AtomicU64, end: u64) {
    loop {
        let sequence = next.load(Ordering::Relaxed);
        if sequence == end {
            return;
        }
        match append(api, sequence, false) {
            Some(200 | 204) => next.store(sequence + 1, Ordering::Relaxed),
            // The event of the one before is not sent yet.
            Some(503) => {}
            Some(status) => panic!("{sequence} is answered {status}"),
            None => return,
        }
    }
}

/// Hears a run to its end: each event begins where the one before has ended.
fn hear_run(stream: &mut Stream) -> String {
    let (mut text, mut end) = (String::new(), Value::Null);
    loop {
        let event = stream.event();
        let data = &event["data"];
        assert!(end.is_null() || end == data["from"], "twice, or not: {event} behind {end}");
        end = data["next"].clone();
        text += data["text"].as_str().unwrap();
        if event["event"] == "close" {
            return text;
        }
    }
}

#[test]
fn append_is_heard_once_and_in_order_at_all_nodes_over_kills_and_without_nats() {
    let Some(mut world) = World::new() else { return };
    let [first, second, third] = world.nodes_with(&EVENTS);
    let mut streams = [second.listener("run:1"), third.listener("run:1")];
    first.api.request("PUT", PATH, Some("text/plain"), b"").unwrap();
    let next = AtomicU64::new(0);
    write(&first.api, &next, 5);
    // Another stream of the same path, at another node, has events of its own.
    second.api.request("PUT", PATH, Some("text/plain"), b"").unwrap();
    world.nats.kill();
    thread::scope(|scope| {
        let (api, next) = (first.api.another(), &next);
        scope.spawn(move || write(&api, next, 10));
        wait_for("the node says so", || first.api.get("/readyz").status() == 503);
        world.nats.restart();
    });
    let mut first = first;
    for kill in 1..=4 {
        thread::scope(|scope| {
            let api = first.api.another();
            let (next, before) = (&next, next.load(Ordering::Relaxed));
            scope.spawn(move || write(&api, next, u64::MAX));
            wait_for("appends", || next.load(Ordering::Relaxed) > before + 3 * kill);
            first.signal("KILL");
        });
        first.stop("KILL");
        first = world.node("n1", &EVENTS);
        wait_members(&first, 3);
    }
    // What was not answered is repeated, and behind it is the end.
    let last = next.load(Ordering::Relaxed) + 1;
    write(&first.api, &next, last);
    wait_for("the end", || append(&first.api, last, true) == Some(200));
    let whole = first.api.get(PATH).body;
    for stream in &mut streams {
        assert_eq!(hear_run(stream), whole);
    }
}

/// What came of sends to the cluster's log that were not counted.
fn sends_in_vain(node: &Server) -> [Value; 2] {
    let mut sends = cluster_stats(node)["sends"].take();
    ["not_sent", "unknown"].map(|outcome| sends[outcome].take())
}

/// Its event is not even offered to the log: a thread would wait until it is given up.
#[test]
fn append_is_answered_while_nats_is_away_without_a_try_to_send_its_event() {
    let Some(mut world) = World::new() else { return };
    let node = world.node("n1", &EVENTS);
    node.api.request("PUT", PATH, Some("text/plain"), b"").unwrap();
    let mut listener = node.listener("run:1");
    let before = sends_in_vain(&node);
    assert!(before.iter().all(Value::is_number), "{before:?}");
    world.nats.kill();
    wait_for("the node says so", || node.api.get("/readyz").status() == 503);
    assert_eq!(append(&node.api, 0, false), Some(200));
    // The event of the one before is due.
    assert_eq!(append(&node.api, 1, false), Some(503));
    assert_eq!(sends_in_vain(&node), before);
    world.nats.restart();
    wait_for("the node sends", || append(&node.api, 1, true) == Some(200));
    assert_eq!(hear_run(&mut listener), "0,1,");
}
