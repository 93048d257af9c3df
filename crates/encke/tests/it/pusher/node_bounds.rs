//! `max_members` of a channel whose members are at several nodes.

use std::collections::BTreeSet;

use serde_json::json;

use super::nodes::{Nodes, client, set};
use super::{app_with, data_of, get};
use crate::harness::{Server, wait_for};

const ROOM: &str = "presence-room";
const REFUSED: &str = "pusher:subscription_error";

/// Three nodes whose app lets three members into a channel.
fn nodes(grace: &str) -> Option<Nodes> {
    Nodes::of(&json!([app_with(&json!({ "max_members": 3 }))]), grace)
}

fn users(node: &Server) -> BTreeSet<String> {
    let told = get(&node.api, "1", &format!("/channels/{ROOM}/users"), &[]).ok();
    let users = told["users"].as_array().unwrap();
    users.iter().map(|user| user["id"].as_str().unwrap().to_owned()).collect()
}

/// Whether the user is let in; of who is not it is known why.
fn comes(node: &Server, user: &str) -> Option<super::Client> {
    let mut one = client(node);
    one.ask_to_sit(ROOM, user);
    let heard = one.hear();
    if heard["event"] == REFUSED {
        assert_eq!(data_of(&heard)["type"], "LimitReached", "{heard}");
        one.hear_nothing();
        return None;
    }
    assert_eq!(heard["event"], "pusher_internal:subscription_succeeded", "{heard}");
    Some(one)
}

impl super::Client {
    /// What is told next of a user, and of whom.
    fn hear_next_of_user(&mut self) -> (String, String) {
        let heard = self.hear();
        let user = data_of(&heard)["user_id"].as_str().unwrap_or_default().to_owned();
        (heard["event"].as_str().unwrap().to_owned(), user)
    }
}

#[test]
fn channel_that_is_full_over_all_nodes_lets_nobody_in_at_any() {
    // Who is refused has no grace: it would take a place for a minute.
    let Some(world) = nodes("60") else { return };
    let [first, second, third] = &world.nodes[..] else { panic!("three nodes") };
    let _two = ["a", "b"].map(|user| comes(first, user).expect("there is room"));
    // The first one at its node, and the last one of all.
    let _third = comes(second, "c").expect("there is room");
    for (node, user) in [(first, "d"), (second, "e"), (third, "f"), (third, "g")] {
        assert!(comes(node, user).is_none(), "{user}");
    }
    wait_for("who was refused is in no list", || {
        world.nodes.iter().all(|node| users(node) == set(&["a", "b", "c"]))
    });
    let again = comes(third, "a");
    assert!(again.is_some(), "a member has a further connection at another node");
}

#[test]
fn place_that_a_member_leaves_is_free_at_each_node() {
    let Some(world) = nodes("0") else { return };
    let [first, second, third] = &world.nodes[..] else { panic!("three nodes") };
    let a = comes(first, "a").expect("there is room");
    let _second = comes(second, "b").expect("there is room");
    let mut third_member = comes(third, "c").expect("there is room");
    assert!(comes(third, "d").is_none());
    drop(a);
    // What it hears is in the log: who comes behind that has the place.
    while third_member.hear_next_of_user() != ("pusher_internal:member_removed".into(), "a".into())
    {
    }
    let _third = comes(third, "d").expect("there is room");
    assert!(comes(first, "e").is_none());
}

#[test]
fn crowd_that_comes_to_all_nodes_at_once_has_as_many_members_as_may_be() {
    let Some(world) = nodes("60") else { return };
    // Each is the first channel of its node, or one of those that come behind.
    let mut crowd: Vec<_> = (0..30).map(|n| (client(&world.nodes[n % 3]), n.to_string())).collect();
    crowd.iter_mut().for_each(|(one, user)| one.ask_to_sit(ROOM, user));
    let mut let_in = BTreeSet::new();
    for (one, user) in &mut crowd {
        // Those who came before hear of others, too; each hears first of itself.
        if one.hear()["event"] != REFUSED {
            let_in.insert(user.clone());
        }
    }
    assert_eq!(let_in.len(), 3, "{let_in:?}");
    wait_for("all nodes list who was let in", || {
        world.nodes.iter().all(|node| users(node) == let_in)
    });
}
