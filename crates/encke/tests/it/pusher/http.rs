//! The HTTP API: who is let in, what is counted, and how long a request may be.

use serde_json::{Value, json};

use super::{AppServer, SECRET, get, post, signed, signed_at};
use crate::harness::{Program, Server, encke, wait_for};
use crate::keys::new_key;

#[test]
fn event_reaches_all_of_its_channels_but_the_one_that_sent_it() {
    let apps = AppServer::start(&[]);
    let (api, mut a, mut b) = (&apps.server.api, apps.client("1"), apps.client("1"));
    for client in [&mut a, &mut b] {
        client.subscribe("news");
        client.subscribe("private-rj");
    }
    let body = json!({ "name": "photo", "channels": ["news", "private-rj", "nobody"],
                       "data": "{\"photo\":789}", "socket_id": a.id.to_string(),
                       "info": "subscription_count" });
    let answer = post(api, "1", "/events", &body);
    assert_eq!(answer.head.field("encke-delivered"), Some("2"), "{answer:?}");
    let counted = json!({ "news": { "subscription_count": 2 },
                          "private-rj": { "subscription_count": 2 },
                          "nobody": { "subscription_count": 0 } });
    assert_eq!(answer.ok(), json!({ "channels": counted }));
    for channel in ["news", "private-rj"] {
        let heard = b.hear();
        assert_eq!(
            heard,
            json!({ "event": "photo", "channel": channel, "data": "{\"photo\":789}",
                    "id": heard["id"] })
        );
    }
    a.hear_nothing();
    // Whoever is not there is left out for nothing.
    let body = json!({ "name": "n", "channel": "news", "data": "", "socket_id": "1.2" });
    assert_eq!(post(api, "1", "/events", &body).ok(), json!({}));
    assert_eq!((&a.hear()["data"], &b.hear()["data"]), (&json!(""), &json!("")));
}

#[test]
fn channels_are_not_ids_and_an_app_s_are_its_own() {
    let apps = AppServer::start(&[]);
    let api = &apps.server.api;
    api.subscribe("follower", "news");
    let (mut client, mut other) = (apps.client("1"), apps.client("2"));
    let mut stream = apps.server.listener("news");
    client.subscribe("news");
    other.say(&json!({ "event": "pusher:subscribe", "data": { "channel": "news" } }));
    assert_eq!(other.hear()["event"], "pusher_internal:subscription_succeeded");
    assert_eq!(api.connections("news"), 1, "a channel is no id");
    assert_eq!(api.send("news", 1), 1);
    assert_eq!(stream.event()["data"], 1);
    post(api, "1", "/events", &json!({ "name": "n", "channel": "news", "data": "of 1" })).ok();
    assert_eq!(client.hear()["data"], "of 1");
    other.hear_nothing();
    client.hear_nothing();
    assert_eq!(api.send("news", 2), 1);
    assert_eq!(stream.event()["data"], 2, "it heard nothing of the channel");
    assert_eq!(get(api, "1", "/channels", &[]).ok(), json!({ "channels": { "news": {} } }));
    for id in ["%23c1:news", "1:news"] {
        let answer = api.get(&format!("/connections/{id}"));
        assert!(answer.status() == 400 || answer.ok()["connections"] == 0, "{id}: {answer:?}");
    }
}

#[test]
fn requests_are_let_in_by_their_signature_alone() {
    let apps = AppServer::start(&[]);
    let api = &apps.server.api;
    let body = r#"{"name":"n","channel":"c","data":"x"}"#;
    let send = |path: &str, body: &str| {
        api.request("POST", path, Some("application/json"), body.as_bytes()).unwrap()
    };
    let good = signed("POST", "1", "/events", &[], body);
    assert_eq!(send(&good, body).ok(), json!({}));
    send(&good, &body.replace('x', "y")).problem(401);
    send(&good.replace("app-1", "app-2"), body).problem(401);
    let refused = send("/apps/1/events", body);
    refused.problem(401);
    assert_eq!(refused.head.field("www-authenticate"), None, "it is to sign");
    send(&signed("POST", "9", "/events", &[], body), body).problem(404);
    send(&signed("POST", "3", "/events", &[], body), body).problem(403);
    let old = signed_at(1_700_000_000, ["POST", "1", "/events"], &[], body);
    let problem = send(&old, body).problem(401);
    assert!(problem["detail"].as_str().unwrap().contains("auth_timestamp"), "{problem}");
    api.get(&signed("GET", "1", "/events", &[], "")).problem(405);
    api.get("/apps/1/nothing").problem(404);
    let metrics = api.get("/metrics").body;
    assert!(metrics.contains("encke_api_refusals_total{reason=\"signature\"} 4"), "{metrics}");
    assert!(!apps.server.stderr().contains(SECRET));
}

#[test]
fn wrong_signatures_from_one_address_are_slowed_down() {
    let apps = AppServer::start(&[]);
    let threads = (0..40).map(|_| {
        let api = apps.server.api.another();
        std::thread::spawn(move || api.get("/apps/1/channels?auth_key=app-1").status())
    });
    let threads: Vec<_> = threads.collect();
    let statuses: Vec<u16> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(statuses.contains(&401) && statuses.contains(&429), "{statuses:?}");
    wait_for("a right one is heard", || {
        get(&apps.server.api, "1", "/channels", &[]).status() == 200
    });
}

#[test]
fn bodies_have_bounds_and_a_bad_batch_sends_nothing() {
    let apps = AppServer::start(&[]);
    let api = &apps.server.api;
    let mut client = apps.client("1");
    client.subscribe("c");
    let event = |data: String| json!({ "name": "n", "channel": "c", "data": data });
    post(api, "1", "/events", &event("x".repeat(10 * 1024 + 1))).problem(413);
    post(api, "2", "/events", &event("x".repeat(21))).problem(413);
    post(api, "1", "/events", &event("x".repeat(1 << 20))).problem(413);
    let batch = json!({ "batch": [event("1".into()), { "name": "pusher:x", "channel": "c",
                                                       "data": "2" }] });
    let problem = post(api, "1", "/batch_events", &batch).problem(400);
    assert!(problem["detail"].as_str().unwrap().starts_with("Event 1"), "{problem}");
    client.hear_nothing();
    let most = event("ü".repeat(5 * 1024));
    let batch = json!({ "batch": vec![most; 10] });
    assert_eq!(post(api, "1", "/batch_events", &batch).ok(), json!({}));
    for _ in 0..10 {
        assert_eq!(client.hear()["data"].as_str().unwrap().len(), 10 * 1024);
    }
}

#[test]
fn api_with_keys_takes_signed_requests_without_one() {
    let data = tempfile::tempdir().unwrap();
    new_key(data.path(), &["--scope=admin"]);
    let path = data.path().join("apps.json");
    let made = Program::run(encke(["pusher", "app", "new", "--json", "--file"]).arg(&path));
    assert_eq!(made.code(), Some(0), "{made:?}");
    let app: Value = serde_json::from_str(&made.stdout).unwrap();
    let option = format!("--pusher-apps={}", path.display());
    let server = Server::start_in(data.path(), &[&option]);
    server.api.get("/stats").problem(401);
    let query = "auth_key=KEY&auth_timestamp=NOW&auth_version=1.0";
    let query = query.replace("KEY", app["key"].as_str().unwrap());
    let query = query.replace("NOW", &(sys::clock::unix_ms() / 1000).to_string());
    let text = format!("GET\n/apps/1/connections\n{query}");
    let secret = ::pusher::Secret::new(app["secret"].as_str().unwrap().as_bytes());
    let signature = secret.sign(&[text.as_bytes()]);
    let path = format!("/apps/1/connections?{query}&auth_signature={signature}");
    assert_eq!(server.api.get(&path).ok(), json!({ "connections": 0 }));
}

#[test]
fn server_without_apps_has_no_such_paths() {
    let server = Server::start(&[]);
    server.api.get("/apps/1/channels").problem(404);
    server.api.post("/users/bob/terminate_connections", &json!({})).problem(404);
}

/// Laravel triggers on so many at a time, and says `null` where there is no socket.
#[test]
fn event_reaches_a_hundred_channels() {
    let apps = AppServer::start(&[]);
    let (api, mut client) = (&apps.server.api, apps.client("1"));
    let channels: Vec<String> = (0..100).map(|n| format!("private-{n}")).collect();
    channels.iter().for_each(|channel| client.subscribe(channel));
    let body = json!({ "name": "n", "channels": channels, "data": "{}", "socket_id": null });
    let answer = post(api, "1", "/events", &body);
    assert_eq!(answer.head.field("encke-delivered"), Some("100"), "{answer:?}");
    for channel in &channels {
        assert_eq!(client.hear()["channel"], **channel);
    }
    client.hear_nothing();
}
