//! Channels that are one audience with an id: what either side sends both hear, once and in one
//! order, also after a return, over nodes, upgrades and changes of the file.

use serde_json::{Value, json};

use super::nodes::{self, Nodes};
use super::{AppServer, Client, app_with, data_of, get, option_of, post};
use crate::harness::{
    Server, Socket, Stream, TOKEN_SECRET, Wire, get as request, token_for, wait_for,
};
use crate::upgrade::Upgraded;

const SSE: &str = "text/event-stream";

fn shared() -> Value {
    json!([app_with(&json!({ "ids": "chat:" }))])
}

fn triggered(name: &str, channel: &str, data: &str) -> Value {
    json!({ "name": name, "channel": channel, "data": data })
}

/// Triggers an event; how many connections heard it.
#[track_caller]
fn trigger(server: &Server, body: &Value) -> u64 {
    let answer = post(&server.api, "1", "/events", body);
    answer.ok();
    answer.head.field("encke-delivered").unwrap().parse().unwrap()
}

/// The next event of a stream of SSE.
fn sse_event(stream: &mut Stream) -> Value {
    let mut block = stream.chunk();
    while !block.contains("data: ") {
        block = stream.chunk();
    }
    let data = block.split_once("data: ").unwrap().1;
    serde_json::from_str(data.trim_end()).unwrap()
}

/// What a client hears next on a channel.
#[track_caller]
fn hears(client: &mut Client, event: &str, channel: &str, data: &str) -> String {
    let heard = client.hear();
    let id = heard["id"].as_str().unwrap_or_else(|| panic!("{heard}")).to_owned();
    let expected = json!({ "event": event, "channel": channel, "data": data, "id": id });
    assert_eq!(heard, expected);
    id
}

#[test]
fn what_either_side_sends_both_hear_once() {
    let apps = AppServer::of(&shared(), &[]);
    let (server, api) = (&apps.server, &apps.server.api);
    api.subscribe("bob", "chat:news");
    let mut page = server.stream("/stream/chat:news", SSE);
    let mut socket = Socket::open(server.listen(), "/stream/chat:news");
    // It follows the id and is logged in under it.
    let mut bob = server.stream("/stream/bob?id=chat:news", "application/x-ndjson");
    server.wait_online("chat:news", 3);
    let (mut eve, mut rj) = (apps.client("1"), apps.client("1"));
    [&mut eve, &mut rj].into_iter().for_each(|client| client.subscribe("news"));

    let mut body = triggered("n", "news", "{\"x\": 1}");
    assert_eq!(trigger(server, &body), 5);
    let id = hears(&mut eve, "n", "news", "{\"x\": 1}");
    assert_eq!(hears(&mut rj, "n", "news", "{\"x\": 1}"), id);
    let own = json!({ "id": id, "about": "chat:news", "event": "n", "data": { "x": 1 } });
    assert_eq!([sse_event(&mut page), socket.json(), bob.event()], [&own; 3].map(Value::clone));

    body["socket_id"] = eve.id.to_string().into();
    body["data"] = "hello".into();
    assert_eq!(trigger(server, &body), 4, "all but eve");
    hears(&mut rj, "n", "news", "hello");
    assert_eq!(sse_event(&mut page)["data"], "hello");
    assert_eq!((socket.data(), bob.data()), (json!("hello"), json!("hello")));
    let batch = json!({ "batch": [triggered("b", "news", "2")] });
    assert_eq!(post(api, "1", "/batch_events", &batch).head.field("encke-delivered"), Some("5"));
    assert_eq!([sse_event(&mut page), socket.json()].map(|event| event["data"].clone()), [2, 2]);
    assert_eq!(bob.data(), 2);
    [&mut eve, &mut rj].into_iter().for_each(|client| drop(hears(client, "b", "news", "2")));

    for (more, called, data) in [
        (json!({ "event": "typing", "data": [1] }), "typing", "[1]"),
        (json!({ "text": "hi", "about": ["other", "chat:news"] }), "message", "hi"),
        (json!({ "event": "pusher:error", "data": {} }), "message", "{}"),
    ] {
        let mut sent = json!({ "about": "chat:news" });
        sent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(api.post("/send", &sent).ok()["delivered"], 5, "{sent}");
        let id = hears(&mut eve, called, "news", data);
        assert_eq!(hears(&mut rj, called, "news", data), id);
        assert_eq!(
            [sse_event(&mut page), socket.json()].map(|event| event["id"].clone()),
            [&*id; 2]
        );
        assert_eq!(bob.event()["id"], id);
    }
    // Neither side counts the other's.
    assert_eq!(api.connections("chat:news"), 3);
    let counted = get(api, "1", "/channels/news", &[("info", "subscription_count")]).ok();
    assert_eq!(counted["subscription_count"], 2);
    for (about, channel) in [("news", "news"), ("chat:cache-a", "cache-a")] {
        let mut of_channel = apps.client("1");
        of_channel.say(&json!({ "event": "pusher:subscribe", "data": { "channel": channel } }));
        of_channel.hear();
        assert_eq!(api.send(about, 1), 0, "{about} is another id, or is not shared");
    }
}

#[test]
fn each_side_resumes_where_the_other_was() {
    let apps = AppServer::of(&shared(), &[]);
    let server = &apps.server;
    let mut eve = apps.client("1");
    eve.subscribe("news");
    server.api.send("chat:news", 1);
    let after = hears(&mut eve, "message", "news", "1");
    drop(eve);
    trigger(server, &triggered("n", "news", "2"));
    server.api.send("chat:news", 3);
    let mut eve = apps.client("1");
    eve.subscribe_after("news", &after);
    hears(&mut eve, "n", "news", "2");
    hears(&mut eve, "message", "news", "3");
    let mut wire = server.ask(request(
        "/stream/chat:news",
        &[&format!("Accept: {SSE}"), &format!("Last-Event-ID: {after}")],
    ));
    assert_eq!(wire.head().status, 200);
    let mut heard = String::new();
    while !heard.contains("\"data\":3") {
        heard.push_str(&String::from_utf8(wire.chunk().unwrap()).unwrap());
    }
    assert!(heard.contains("\"data\":2") && !heard.contains("gap"), "{heard}");
    trigger(server, &triggered("n", "news", "4"));
    hears(&mut eve, "n", "news", "4");
    eve.hear_nothing();
}

#[test]
fn kept_events_are_missed_by_no_subscriber_over_a_restart() {
    let (data, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = [option_of(files.path(), &shared()), "--keep=chat:*=7d".to_owned()];
    let start = || Server::start_in(data.path(), &options.each_ref().map(String::as_str));
    let server = start();
    let mut eve = Client::open(&server, "/app/app-1");
    eve.subscribe("news");
    trigger(&server, &triggered("n", "news", "1"));
    let after = hears(&mut eve, "n", "news", "1");
    trigger(&server, &triggered("n", "news", "2"));
    assert_eq!(server.stop("TERM").code(), Some(0));
    let server = start();
    let mut eve = Client::open(&server, "/app/app-1");
    eve.subscribe_after("news", &after);
    hears(&mut eve, "n", "news", "2");
    eve.hear_nothing();
}

/// A client that is a member of a presence channel.
fn member(apps: &AppServer, user: &str) -> Client {
    let mut client = apps.client("1");
    client.sit("presence-room", user);
    client
}

#[test]
fn channels_with_signatures_are_no_id_s_where_streams_need_no_token() {
    let apps = AppServer::of(&shared(), &["--presence-grace=0"]);
    let server = &apps.server;
    let private = "private-rj";
    let ids = format!("/stream/chat:{private}?id=chat:presence-room");
    let mut stream = server.stream(&ids, "application/x-ndjson");
    let (mut bob, mut eve) = (member(&apps, "bob"), apps.client("1"));
    [&mut bob, &mut eve].into_iter().for_each(|client| client.subscribe(private));
    assert_eq!(trigger(server, &triggered("n", private, "secret")), 2);
    assert_eq!(trigger(server, &triggered("n", "presence-room", "secret")), 1);
    bob.say(&json!({ "event": "client-x", "channel": private, "data": "secret" }));
    assert_eq!(eve.hear()["event"], "n");
    assert_eq!(eve.hear()["event"], "client-x");
    assert_eq!(server.api.send(&format!("chat:{private}"), "own"), 1, "the stream alone");
    assert_eq!(stream.data(), "own", "it heard nothing before that");
    eve.hear_nothing();
}

#[test]
fn channels_with_signatures_are_shared_with_those_whose_token_grants_the_id() {
    let token_key = format!("--token-key={TOKEN_SECRET}");
    let apps = AppServer::of(&shared(), &["--presence-grace=0", &token_key]);
    let server = &apps.server;
    let listen = |id: &str, token: &str| -> Wire {
        let bearer = format!("Authorization: Bearer {token}");
        server.ask(request(&format!("/stream/{id}"), &["Accept: application/x-ndjson", &bearer]))
    };
    let room = "chat:presence-room";
    assert_eq!(listen(room, &token_for("eve")).head().status, 403);
    let mut stream = listen(room, &token_for(room));
    assert_eq!(stream.head().status, 200);
    let mut bob = member(&apps, "bob");
    let mut eve = member(&apps, "eve");
    assert_eq!(data_of(&bob.hear())["user_id"], "eve");
    bob.say(&json!({ "event": "client-x", "channel": "presence-room", "data": { "a": 1 } }));
    let heard = eve.hear();
    let expected = json!({ "event": "client-x", "channel": "presence-room", "data": { "a": 1 },
                           "user_id": "bob", "id": heard["id"] });
    assert_eq!(heard, expected);
    let line = String::from_utf8(stream.chunk().unwrap()).unwrap();
    let own = json!({ "id": heard["id"], "about": room, "event": "client-x", "from": "bob",
                      "data": { "a": 1 } });
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), own);
    bob.hear_nothing();
    assert_eq!(server.api.send(room, 2), 3);
    [&mut bob, &mut eve].into_iter().for_each(|one| {
        hears(one, "message", "presence-room", "2");
    });
    // Who hears the id is no member.
    let users = get(&server.api, "1", "/channels/presence-room/users", &[]).ok();
    assert_eq!(users, json!({ "users": [{ "id": "bob" }, { "id": "eve" }] }));
}

#[test]
fn both_sides_hear_each_other_at_all_nodes() {
    let Some(world) = Nodes::of(&shared(), "0") else { return };
    let (mut clients, nodes) = (world.clients(), &world.nodes);
    clients.iter_mut().for_each(|client| client.subscribe("news"));
    let open = |node: &Server| node.stream("/stream/chat:news", "application/x-ndjson");
    let mut streams: Vec<Stream> = nodes.iter().map(open).collect();
    let mut ids = Vec::new();
    for (n, node) in nodes.iter().enumerate() {
        nodes::trigger(node, "news", &n.to_string());
        node.api.send("chat:news", n);
    }
    for client in &mut clients {
        let heard: Vec<Value> = (0..6).map(|_| client.hear()).collect();
        assert!(heard.iter().all(|frame| frame["channel"] == "news"), "{heard:?}");
        ids.push(heard.iter().map(|frame| frame["id"].clone()).collect::<Vec<_>>());
        client.hear_nothing();
    }
    for stream in &mut streams {
        ids.push((0..6).map(|_| stream.event()["id"].take()).collect());
    }
    assert!(ids.iter().all(|one| *one == ids[0] && one.is_sorted_by_key(|id| id.to_string())));
    // What the first has heard is its place at another node.
    let mut again = nodes::client(&nodes[2]);
    again.subscribe_after("news", ids[0][4].as_str().unwrap());
    assert_eq!(again.hear()["id"], ids[0][5]);
    again.hear_nothing();
}

#[test]
fn channel_is_shared_over_an_upgrade() {
    let files = tempfile::tempdir().unwrap();
    let server = Upgraded::serve(&[&option_of(files.path(), &shared())]);
    let mut eve = Client::open(&server, "/app/app-1");
    eve.subscribe("news");
    let mut stream = server.stream("/stream/chat:news", "application/x-ndjson");
    server.api.send("chat:news", 1);
    let after = hears(&mut eve, "message", "news", "1");
    server.upgrade(&[]);
    let api = server.api.another();
    assert_eq!(api.send("chat:news", 2), 2);
    let sent = post(&api, "1", "/events", &triggered("n", "news", "3"));
    assert_eq!(sent.head.field("encke-delivered"), Some("2"));
    hears(&mut eve, "message", "news", "2");
    hears(&mut eve, "n", "news", "3");
    assert_eq!([stream.data(), stream.data(), stream.data()], [1, 2, 3]);
    let mut again = Client::open(&server, "/app/app-1");
    again.subscribe_after("news", &after);
    hears(&mut again, "message", "news", "2");
    hears(&mut again, "n", "news", "3");
}

#[test]
fn file_that_is_changed_changes_what_is_shared_for_those_who_are_there() {
    let apps = AppServer::of(&json!([app_with(&json!({}))]), &[]);
    let server = &apps.server;
    let mut stream = server.stream("/stream/chat:news", "application/x-ndjson");
    let mut eve = apps.client("1");
    eve.subscribe("news");
    let event = triggered("n", "news", "1");
    assert_eq!((trigger(server, &event), server.api.send("chat:news", 2)), (1, 1));
    hears(&mut eve, "n", "news", "1");
    assert_eq!(stream.data(), 2);
    for (members, both) in [(json!({ "ids": "chat:" }), 2), (json!({}), 1)] {
        option_of(apps.files.path(), &json!([app_with(&members)]));
        wait_for("the file is read", || trigger(server, &event) == both);
        // Each time it was asked for, eve has heard it.
        while hears_one(&mut eve) {}
        assert_eq!(server.api.send("chat:news", 3), both);
        assert_eq!(hears_one(&mut eve), both == 2);
    }
}

/// Whether something has come before the answer to a ping.
fn hears_one(client: &mut Client) -> bool {
    client.say(&json!({ "event": "pusher:ping", "data": {} }));
    let heard = client.hear();
    if heard["event"] == "pusher:pong" {
        return false;
    }
    assert_eq!(heard["channel"], "news", "{heard}");
    while client.hear()["event"] != "pusher:pong" {}
    true
}
