//! Clients that publish at one node of several.

use serde_json::{Value, json};

use super::World;
use crate::harness::{Server, Socket};

#[test]
fn client_publishes_at_any_node_and_all_but_it_hear_once() {
    let Some(world) = World::new() else { return };
    let nodes: [Server; 3] = world.nodes_with(&["--client-send"]);
    let mut sockets: Vec<Socket> =
        nodes.iter().map(|node| Socket::open(node.listen(), "/stream/room?next=1")).collect();
    let ids: Vec<Value> =
        sockets.iter_mut().map(|socket| socket.json()["connection"].take()).collect();
    for node in &nodes {
        assert_eq!(node.api.send("room", "all"), 3);
    }
    for socket in &mut sockets {
        for _ in &nodes {
            assert_eq!(socket.data(), "all");
        }
    }
    for sender in 0..nodes.len() {
        let event = json!({"about": "room", "data": sender, "key": format!("k{sender}")});
        let sent = sockets[sender].ask(json!({"send": event, "ref": sender}));
        assert_eq!(sent["ok"]["delivered"], 2, "{sent}");
        let again = sockets[sender].ask(json!({"send": event, "ref": "again"}));
        assert_eq!(again["ok"]["id"], sent["ok"]["id"], "{again}");
        for (_, socket) in sockets.iter_mut().enumerate().filter(|(other, _)| *other != sender) {
            assert_eq!(socket.data(), sender);
        }
    }
    // A sender that leaves out another one, wherever that is, hears nothing itself either.
    for sender in 0..nodes.len() {
        let [second, third] = [1, 2].map(|step| (sender + step) % nodes.len());
        let event = json!({"about": "room", "data": sender, "except": ids[second]});
        let sent = sockets[sender].ask(json!({"send": event, "ref": sender}));
        assert_eq!(sent["ok"]["delivered"], 1, "{sent}");
        assert_eq!(sockets[third].data(), sender);
    }
    assert_eq!(nodes[0].api.send("room", "end"), 3);
    for socket in &mut sockets {
        assert_eq!(socket.data(), "end", "the sender has heard none of its own");
    }
}

#[test]
fn what_a_client_says_at_once_is_heard_at_all_nodes_in_its_order() {
    const SENDS: usize = 60;
    let Some(world) = World::new() else { return };
    let nodes: [Server; 3] = world.nodes_with(&["--client-send", "--client-send-rate=0"]);
    let mut hearing: Vec<Socket> =
        nodes.iter().map(|node| Socket::open(node.listen(), "/stream/room")).collect();
    let mut sender = Socket::open(nodes[0].listen(), "/stream/sender");
    for number in 0..SENDS {
        let event = json!({"about": "room", "data": number});
        sender.send(json!({"send": event, "ref": number}).to_string());
    }
    for socket in &mut hearing {
        for number in 0..SENDS {
            assert_eq!(socket.data(), number);
        }
    }
    // Answers come as they are known.
    let mut answered: Vec<u64> = (0..SENDS)
        .map(|_| {
            let answer = sender.json();
            assert!(answer["ok"]["id"].is_string(), "{answer}");
            answer["ref"].as_u64().unwrap()
        })
        .collect();
    answered.sort_unstable();
    assert!(answered.into_iter().eq(0..SENDS as u64));
}
