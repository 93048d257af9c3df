//! What apps are told while a node of the cluster stands still, and while its log is away.

use serde_json::json;
use testing::tried_again;

use super::nodes::{Nodes, client, set};
use super::{Client, get, post};
use crate::harness::wait_for;

#[test]
fn counts_are_lower_bounds_while_a_node_stands_still() {
    let Some(world) = Nodes::start("0") else { return };
    let mut clients = world.clients();
    for client in &mut clients {
        client.subscribe("news");
    }
    let info = [("info", "subscription_count")];
    let ask = |path: &str| {
        let parameters = if path == "/channels" { &[][..] } else { &info[..] };
        let answer = get(&world.nodes[0].api, "1", path, parameters);
        let at_least = answer.head.field("encke-at-least").map(str::to_owned);
        (answer.ok(), at_least)
    };
    let counted = |count: u64| json!({ "occupied": true, "subscription_count": count });
    wait_for("all are counted", || ask("/channels/news") == (counted(3), None));
    let at_least = Some("true".to_owned());
    let all = json!({ "channels": { "news": {} } });
    for (path, expected) in [("/channels/news", counted(2)), ("/channels", all)] {
        // It is asked before the others take it for gone, after two seconds, as a machine that
        // stands still may have it: then it has to come back first.
        for attempt in 1.. {
            world.nodes[2].signal("STOP");
            let told = ask(path);
            world.nodes[2].signal("CONT");
            if told == (expected.clone(), at_least.clone()) {
                break;
            }
            assert_eq!(told, (expected.clone(), None), "nobody counts what is not there");
            assert!(attempt < 4, "{path}: the answer never says that one is missing");
            tried_again("a node that stood still was taken for gone before it was asked");
            wait_for("all are counted", || ask("/channels/news") == (counted(3), None));
        }
    }
    wait_for("all are counted", || ask("/channels/news") == (counted(3), None));
}

#[test]
fn triggers_are_refused_and_lists_wait_while_the_log_is_away() {
    let Some(mut world) = Nodes::start("0") else { return };
    let mut clients = world.clients();
    for client in &mut clients {
        client.subscribe("private-rj");
    }
    assert_eq!(clients[0].sit("presence-rj", "bob"), set(&["bob"]));
    world.world.nats.kill();
    let body = json!({ "name": "n", "channel": "private-rj", "data": "away" });
    wait_for("it is refused", || post(&world.nodes[1].api, "1", "/events", &body).status() == 503);
    clients[1].say(&json!({ "event": "client-typing", "channel": "private-rj", "data": 1 }));
    let refused = clients[1].hear();
    assert_eq!(refused["event"], "pusher:error", "{refused}");
    assert!(refused["data"].as_str().unwrap().contains("4301"), "{refused}");
    // Its node has told of rooms before, so it knows that all others do.
    let mut zoe = client(&world.nodes[0]);
    zoe.ask_to_sit("presence-rj", "zoe");
    zoe.hear_nothing();
    world.world.nats.restart();
    assert_eq!(zoe.hear_list("presence-rj"), set(&["bob", "zoe"]));
    wait_for("it is sent again", || {
        post(&world.nodes[1].api, "1", "/events", &body).status() == 200
    });
    let heard = |client: &mut Client| loop {
        let heard = client.hear();
        if heard["event"] == "n" {
            return heard["data"].clone();
        }
    };
    assert_eq!(heard(&mut clients[0]), "away");
}
