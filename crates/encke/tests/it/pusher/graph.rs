//! Users that hear on their own channel what they follow in the stored graph.

use serde_json::json;

use super::{AppServer, Client, app_with, post};

const OWN: &str = "#server-to-user-bob";

fn server() -> AppServer {
    AppServer::of(&json!([app_with(&json!({ "graph": true }))]), &["--presence-grace=0"])
}

#[test]
fn signed_in_user_hears_what_it_follows_on_its_own_channel() {
    let apps = server();
    let api = &apps.server.api;
    api.subscribe("bob", "rj");
    let (mut bob, mut again) = (apps.client("1"), apps.client("1"));
    bob.sit_and_sign_in();
    again.sit_and_sign_in();
    let mut eve = apps.client("1");
    eve.subscribe("rj");
    assert_eq!(api.connections("bob"), 2);
    assert_eq!(api.send("rj", json!({ "n": 1 })), 2);
    for client in [&mut bob, &mut again] {
        let heard = client.hear();
        assert_eq!(
            heard,
            json!({ "event": "message", "channel": OWN, "data": "{\"n\":1}", "id": heard["id"] })
        );
    }
    let named = json!({ "about": ["bob", "rj"], "event": "news", "text": "hello" });
    assert_eq!(api.post("/send", &named).ok()["delivered"], 2, "once to each");
    let heard = bob.hear();
    assert_eq!((&heard["event"], &heard["data"]), (&json!("news"), &json!("hello")));
    assert_eq!(again.hear(), heard);
    // What the app sends there is no event about the id.
    let mut stream = apps.server.listener("bob");
    let own = json!({ "name": "own", "channel": OWN, "data": "1" });
    assert_eq!(post(api, "1", "/events", &own).head.field("encke-delivered"), Some("2"));
    assert_eq!(
        (bob.hear()["event"].clone(), again.hear()["event"].clone()),
        (json!("own"), json!("own"))
    );
    assert_eq!(api.send("bob", 3), 3);
    assert_eq!(stream.event()["data"], 3);
    assert_eq!((&bob.hear()["data"], &again.hear()["data"]), (&json!("3"), &json!("3")));
    again.say(&json!({ "event": "pusher:unsubscribe", "data": { "channel": OWN } }));
    again.hear_nothing();
    assert_eq!(api.send("rj", 4), 2);
    assert_eq!(bob.hear()["data"], "4");
    again.hear_nothing();
    eve.hear_nothing();
}

#[test]
fn user_that_comes_back_hears_what_it_has_missed_of_both() {
    let apps = server();
    let api = &apps.server.api;
    api.subscribe("bob", "rj");
    let mut bob = apps.client("1");
    bob.sit_and_sign_in();
    api.send("rj", 1);
    let after = bob.hear()["id"].as_str().unwrap().to_owned();
    drop(bob);
    crate::harness::wait_for("bob has gone", || api.connections("bob") == 0);
    api.send("rj", 2);
    post(api, "1", "/events", &json!({ "name": "own", "channel": OWN, "data": "3" })).ok();
    api.send("bob", 4);
    let mut bob: Client = apps.client("1");
    let user_data = r#"{"id":"bob"}"#;
    let auth = bob.auth_of_user("app-1", user_data);
    bob.say(&json!({ "event": "pusher:signin", "data": { "auth": auth, "user_data": user_data } }));
    assert_eq!(bob.hear()["event"], "pusher:signin_success");
    bob.subscribe_after(OWN, &after);
    let heard: Vec<_> = (0..3).map(|_| bob.hear()["data"].clone()).collect();
    assert_eq!(heard, ["2", "3", "4"]);
    api.send("bob", 5);
    assert_eq!(bob.hear()["data"], "5");
    bob.hear_nothing();
}
