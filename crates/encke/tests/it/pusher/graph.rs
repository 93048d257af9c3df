//! Users that hear on their own channel what they follow in the stored graph.

use serde_json::{Value, json};

use super::{AppServer, Client, app_with, data_of, post};

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

const WATCHLIST: &str = "pusher_internal:watchlist_events";

/// Signs in, with what else the user data have.
fn sign_in(client: &mut Client, user_data: &Value) {
    let text = user_data.to_string();
    let auth = client.auth_of_user("app-1", &text);
    client.say(&json!({ "event": "pusher:signin", "data": { "auth": auth, "user_data": text } }));
    assert_eq!(client.hear()["event"], "pusher:signin_success");
}

/// The users who are told to be online or offline next.
fn hear_watched(client: &mut Client, state: &str) -> Value {
    let heard = client.hear();
    assert_eq!(heard["event"], WATCHLIST, "{heard}");
    let events = data_of(&heard)["events"].take();
    let event = events.as_array().unwrap().iter().find(|event| event["name"] == state);
    event.unwrap_or_else(|| panic!("{heard}"))["user_ids"].clone()
}

#[test]
fn those_whom_a_user_follows_are_its_watchlist_where_its_app_says_so() {
    let app = app_with(&json!({ "graph_watchlist": true }));
    let apps = AppServer::of(&json!([app]), &["--presence-grace=0"]);
    let api = &apps.server.api;
    let (mut bob, mut rj) = (apps.client("1"), apps.client("1"));
    api.subscribe("bob", "rj");
    sign_in(&mut bob, &json!({ "id": "bob" }));
    assert_eq!(hear_watched(&mut bob, "offline"), json!(["rj"]));
    sign_in(&mut rj, &json!({ "id": "rj" }));
    assert_eq!(hear_watched(&mut bob, "online"), json!(["rj"]));
    // Whoever follows nobody hears of nobody, and what the backend has signed holds.
    rj.hear_nothing();
    let mut again = apps.client("1");
    sign_in(&mut again, &json!({ "id": "bob", "watchlist": ["eve"] }));
    assert_eq!(hear_watched(&mut again, "offline"), json!(["eve"]));
    drop(rj);
    assert_eq!(hear_watched(&mut bob, "offline"), json!(["rj"]));
    again.hear_nothing();
}

#[test]
fn watchlist_out_of_the_graph_has_the_bound_of_others() {
    let app = app_with(&json!({ "graph_watchlist": true }));
    let apps = AppServer::of(&json!([app]), &[]);
    let pair = |n: u32| json!({ "subscriber": "bob", "subscribee": format!("user-{n}") });
    let pairs: Vec<Value> = (0..101).map(pair).collect();
    assert_eq!(apps.server.api.post("/subscriptions/add", &json!(pairs)).ok()["added"], 101);
    let mut bob = apps.client("1");
    sign_in(&mut bob, &json!({ "id": "bob" }));
    let cut = bob.hear();
    assert_eq!((&cut["event"], &data_of(&cut)["code"]), (&json!("pusher:error"), &json!(4302)));
    assert_eq!(hear_watched(&mut bob, "offline").as_array().unwrap().len(), 100);
}
