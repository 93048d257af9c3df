//! Idempotency keys: an event is posted once, at whichever node it is sent again.

use std::thread;

use serde_json::{Value, json};

use super::{World, wait_members};
use crate::harness::{Api, Server, wait_for};

fn sends(api: &Api, key: &str, data: &str) -> Value {
    api.post("/send", &json!({ "about": "rj", "data": data, "key": key })).ok()
}

#[test]
fn send_that_is_repeated_at_another_node_is_posted_once() {
    let Some(world) = World::new() else { return };
    let [first, second] = world.nodes();
    let mut streams = [first.listener("rj"), second.listener("rj")];
    let sent = sends(&first.api, "a", "x");
    assert_eq!(sent["delivered"], 2, "{sent}");
    // The other node may read the log a moment later, and posts nothing then either.
    let again = sends(&second.api, "a", "x");
    assert_eq!(again["id"], sent["id"], "{again}");
    assert_eq!(sends(&first.api, "a", "x"), sent, "whoever has posted it knows how many heard it");
    let another = json!({ "about": "rj", "data": "y", "key": "a" });
    for node in [&first, &second] {
        node.api.post("/send", &another).problem(422);
    }
    // A node that has just started has read them in the log.
    let third = world.node("n3", &[]);
    wait_members(&third, 3);
    assert_eq!(sends(&third.api, "a", "x")["id"], sent["id"]);
    sends(&third.api, "b", "last");
    for stream in &mut streams {
        assert_eq!([stream.data(), stream.data()], ["x", "last"]);
    }
}

#[test]
fn sends_with_one_key_at_all_nodes_at_one_time_are_one() {
    let Some(world) = World::new() else { return };
    let nodes: [Server; 2] = world.nodes();
    let mut streams = nodes.each_ref().map(|node| node.listener("rj"));
    const KEYS: usize = 200;
    let answers: [Vec<Value>; 2] = thread::scope(|scope| {
        let sending = nodes.each_ref().map(|node| {
            let api = node.api.another();
            scope.spawn(move || {
                let send = |n: usize| sends(&api, &format!("key {n}"), &n.to_string());
                (0..KEYS).map(send).collect()
            })
        });
        sending.map(|sending| sending.join().unwrap())
    });
    for (n, (one, other)) in answers[0].iter().zip(&answers[1]).enumerate() {
        assert_eq!(one["id"], other["id"], "{n}");
        let exact = [one, other].iter().filter(|sent| sent["at_least"].is_null()).count();
        assert!(exact >= 1, "{n}: {one} {other}");
    }
    sends(&nodes[0].api, "last", "last");
    for stream in &mut streams {
        let mut heard: Vec<String> = (0..KEYS).map(|_| text(&stream.data())).collect();
        assert_eq!(text(&stream.data()), "last", "nothing comes twice");
        heard.sort_by_key(|n| n.parse::<usize>().unwrap());
        assert_eq!(heard, (0..KEYS).map(|n| n.to_string()).collect::<Vec<_>>());
    }
    let known = |node: &Server| node.api.stats()["idempotency_keys"].clone();
    wait_for("both know all keys", || nodes.iter().all(|node| known(node) == KEYS + 1));
}

/// The second of two is posted nowhere, so the disk would never say that it is there. Nothing else
/// is sent that could be written down behind it.
#[test]
fn durable_sends_with_one_key_at_all_nodes_at_one_time_are_answered_as_one() {
    let Some(world) = World::new() else { return };
    let nodes: [Server; 2] = world.nodes_with(&["--keep=rj=7d"]);
    for n in 0..200 {
        let key = format!("key {n}");
        let event = json!({ "about": "rj", "data": n, "key": key, "durable": true });
        let ids = thread::scope(|scope| {
            let sending = nodes.each_ref().map(|node| {
                let (api, event) = (node.api.another(), &event);
                scope.spawn(move || api.post("/send", event).ok()["id"].take())
            });
            sending.map(|sending| sending.join().unwrap())
        });
        assert_eq!(ids[0], ids[1], "{n}");
    }
}

/// Neither node knows of the other's event when it takes its own: the log's order decides.
#[test]
fn of_different_sends_with_one_key_at_one_time_one_is_posted_and_the_other_refused() {
    let Some(world) = World::new() else { return };
    let nodes: [Server; 2] = world.nodes();
    let mut streams = nodes.each_ref().map(|node| node.listener("rj"));
    const KEYS: usize = 200;
    let statuses: Vec<[u16; 2]> = (0..KEYS)
        .map(|n| {
            thread::scope(|scope| {
                let sending = [0, 1].map(|node| {
                    let api = nodes[node].api.another();
                    let event = json!({ "about": "rj", "data": node, "key": format!("key {n}") });
                    scope.spawn(move || api.post("/send", &event).status())
                });
                sending.map(|sending| sending.join().unwrap())
            })
        })
        .collect();
    for stream in &mut streams {
        for (n, statuses) in statuses.iter().enumerate() {
            let posted = stream.data().as_u64().unwrap() as usize;
            assert_eq!((statuses[posted], statuses[1 - posted]), (200, 422), "{n}");
        }
    }
    // It is remembered as the log has it, at both.
    for node in &nodes {
        let again = [0, 1].map(|data| {
            let event = json!({ "about": "rj", "data": data, "key": "key 0" });
            node.api.post("/send", &event).status()
        });
        assert_eq!(again, statuses[0]);
    }
}

fn text(data: &Value) -> String {
    data.as_str().unwrap().to_owned()
}
