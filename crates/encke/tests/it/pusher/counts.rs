//! Counts of subscribers that are pushed to them, and to the backend.

use serde_json::{Value, json};

use super::{AppServer, Client, app_with, data_of};

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
