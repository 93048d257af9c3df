//! Clients of channels through an upgrade of the server: they stay, with all that they are.

use serde_json::json;

use super::{Client, data_of, get, option, post};
use crate::upgrade::Upgraded;

#[test]
fn clients_of_channels_stay_what_they_are_over_an_upgrade() {
    let files = tempfile::tempdir().unwrap();
    let server = Upgraded::serve(&[&option(files.path()), "--presence-grace=0"]);
    let (mut bob, mut eve) =
        (Client::open(&server, "/app/app-1"), Client::open(&server, "/app/app-1"));
    bob.sit_and_sign_in();
    for client in [&mut bob, &mut eve] {
        client.subscribe("private-rj");
    }
    let before = post(
        &server.api,
        "1",
        "/events",
        &json!({ "name": "n", "channel": "private-rj", "data": "1" }),
    );
    assert_eq!(before.head.field("encke-delivered"), Some("2"), "{before:?}");
    server.upgrade(&[]);
    let api = server.api.another();
    let to = |channels: [&str; 2]| {
        json!({ "name": "n", "channels": channels, "data": "2",
                                            "socket_id": eve.id.to_string() })
    };
    post(&api, "1", "/events", &to(["private-rj", "#server-to-user-bob"])).ok();
    let mut heard = Vec::new();
    while heard.len() < 3 {
        let frame = bob.hear();
        // It may be told anew who is there.
        if frame["event"] == "n" {
            heard.push((frame["channel"].clone(), frame["data"].clone()));
        }
    }
    let wanted = [("private-rj", "1"), ("private-rj", "2"), ("#server-to-user-bob", "2")];
    assert_eq!(heard, wanted.map(|(channel, data)| (json!(channel), json!(data))));
    assert_eq!(eve.hear()["data"], "1");
    eve.hear_nothing();
    let users = get(&api, "1", "/channels/presence-room/users", &[]).ok();
    assert_eq!(users, json!({ "users": [{ "id": "bob" }] }));
    // A newcomer is told of, and the old one sends under its name.
    let data = r#"{"user_id":"eve"}"#;
    let auth = eve.auth("app-1", "presence-room", Some(data));
    eve.say(&json!({ "event": "pusher:subscribe",
                     "data": { "channel": "presence-room", "auth": auth, "channel_data": data } }));
    let list = eve.hear();
    assert_eq!(data_of(&list)["presence"]["count"], 2, "{list}");
    let added = loop {
        let frame = bob.hear();
        if frame["event"] == "pusher_internal:member_added" {
            break data_of(&frame)["user_id"].clone();
        }
    };
    assert_eq!(added, "eve");
    bob.say(&json!({ "event": "client-typing", "channel": "presence-room", "data": 1 }));
    let typing = eve.hear();
    assert_eq!((&typing["event"], &typing["user_id"]), (&json!("client-typing"), &json!("bob")));
    post(&api, "1", "/users/bob/terminate_connections", &json!({})).ok();
    assert_eq!(u16::from(bob.socket.end().0), 4009);
    drop(eve);
    let connections = || get(&api, "1", "/connections", &[]).ok()["connections"].clone();
    crate::harness::wait_for("the app has no connection", || connections() == 0);
}
