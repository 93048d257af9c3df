//! Counts of subscribers that are pushed to them, and to the backend.

use serde_json::{Value, json};

use super::nodes::{self, Nodes};
use super::{AppServer, Client, app_with, data_of, post};
use crate::harness::wait_for;

/// The next number that the client is told of `channel`.
fn count(client: &mut Client, channel: &str) -> Value {
    let heard = client.hear();
    assert_eq!(heard["event"], "pusher_internal:subscription_count", "{heard}");
    assert_eq!(heard["channel"], channel);
    data_of(&heard)["subscription_count"].clone()
}

#[test]
fn subscribers_hear_how_many_they_are_where_their_app_wants_it() {
    let mut plain = app_with(&json!({}));
    plain["id"] = json!("2");
    plain["key"] = json!("app-2");
    let told = app_with(&json!({ "subscription_count": true }));
    let apps = AppServer::of(&json!([told, plain]), &["--presence-grace=0"]);
    let mut clients: Vec<Client> = (0..3).map(|_| apps.client("1")).collect();
    for now in 0..clients.len() {
        clients[now].subscribe("news");
        for client in &mut clients[..=now] {
            assert_eq!(count(client, "news"), now + 1);
        }
    }
    drop(clients.pop());
    for client in &mut clients {
        assert_eq!(count(client, "news"), 2);
    }
    // A presence channel has its list, and other apps have asked for nothing.
    clients[0].sit_and_sign_in();
    clients[0].hear_nothing();
    let mut other = apps.client("2");
    other.say(&json!({ "event": "pusher:subscribe", "data": { "channel": "news" } }));
    assert_eq!(other.hear()["event"], "pusher_internal:subscription_succeeded");
    other.hear_nothing();
    assert_eq!(count_after_crowd(&apps, &mut clients[1]), 121);
}

impl Client {
    /// Takes what comes until the last number of `channel` is `expected`.
    #[track_caller]
    fn hear_count(&mut self, channel: &str, expected: usize) {
        while count(self, channel) != expected {}
    }
}

#[test]
fn subscribers_of_all_nodes_hear_one_number_also_when_a_node_is_killed() {
    let told = app_with(&json!({ "subscription_count": true }));
    let Some(mut world) = Nodes::of(&json!([told]), "0") else { return };
    let mut clients = world.clients();
    // Where the machine stands still a node may be asked too late, and another number comes first.
    for now in 0..clients.len() {
        clients[now].subscribe("news");
        for client in &mut clients[..=now] {
            client.hear_count("news", now + 1);
        }
    }
    let mut too = nodes::client(&world.nodes[1]);
    too.subscribe("news");
    for client in clients.iter_mut().chain([&mut too]) {
        client.hear_count("news", 4);
    }
    drop(too);
    for client in &mut clients {
        client.hear_count("news", 3);
    }
    // Of a node without subscribers, and of a presence channel, nothing is told.
    clients[0].subscribe("elsewhere");
    assert_eq!(count(&mut clients[0], "elsewhere"), 1);
    clients[1].sit("presence-room", "bob");
    clients.iter_mut().for_each(Client::hear_nothing);
    world.nodes.remove(2).into_program().kill();
    clients.truncate(2);
    for client in &mut clients {
        assert_eq!(count(client, "news"), 2, "a node that does not answer is not left out");
    }
    let third = world.another("n4");
    clients.push(nodes::client(&third));
    clients[2].subscribe("news");
    for client in &mut clients {
        assert_eq!(count(client, "news"), 3);
        client.hear_nothing();
    }
}

#[test]
fn last_number_is_the_same_at_all_nodes_whoever_comes_and_goes_where() {
    let told = app_with(&json!({ "subscription_count": true }));
    let Some(world) = Nodes::of(&json!([told]), "0") else { return };
    let mut random = fastrand::Rng::with_seed(testing::seed());
    let (mut watching, mut there) = (world.clients(), Vec::new());
    watching.iter_mut().for_each(|client| client.subscribe("news"));
    for _ in 0..90 {
        if there.len() > 6 || !there.is_empty() && random.bool() {
            drop(there.swap_remove(random.usize(..there.len())));
            continue;
        }
        let mut client = nodes::client(&world.nodes[random.usize(..3)]);
        client.subscribe("news");
        there.push(client);
    }
    // More than there ever were, so that no number before is the last one.
    while there.len() < 9 {
        there.push(nodes::client(&world.nodes[0]));
        there.last_mut().unwrap().subscribe("news");
    }
    let last = watching.len() + there.len();
    for client in &mut watching {
        client.hear_count("news", last);
    }
    drop(there);
    for client in &mut watching {
        client.hear_count("news", 3);
        client.hear_nothing();
    }
}

#[test]
fn number_that_changed_while_the_log_was_away_is_told_when_it_is_back() {
    let told = app_with(&json!({ "subscription_count": true }));
    let Some(mut world) = Nodes::of(&json!([told]), "0") else { return };
    let mut clients = world.clients();
    clients.iter_mut().for_each(|client| client.subscribe("news"));
    for client in &mut clients {
        client.hear_count("news", 3);
    }
    world.world.nats.kill();
    let body = json!({ "name": "n", "channel": "news", "data": "away" });
    wait_for("it is away", || post(&world.nodes[2].api, "1", "/events", &body).status() == 503);
    let mut late = nodes::client(&world.nodes[0]);
    late.subscribe("news");
    world.world.nats.restart();
    for client in clients.iter_mut().chain([&mut late]) {
        loop {
            // The event may come, too.
            let heard = client.hear();
            if heard["event"] != "n" && data_of(&heard)["subscription_count"] == 4 {
                break;
            }
        }
    }
}

/// A crowd is counted less often: its last number comes, and not each one before.
fn count_after_crowd(apps: &AppServer, client: &mut Client) -> Value {
    let mut crowd: Vec<Client> = (0..119).map(|_| apps.client("1")).collect();
    for client in &mut crowd {
        let frame = json!({ "event": "pusher:subscribe", "data": { "channel": "news" } });
        client.say(&frame);
    }
    let mut last = json!(2);
    while last != 121 {
        last = count(client, "news");
    }
    last
}
