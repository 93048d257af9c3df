//! Clients of the hub that are logged in under ids of the stored graph (`topic=encke:bob`).

use serde_json::{Value, json};

use super::{Hub, bearer, subscriber};
use crate::harness::{Server, Stream, TOKEN_SECRET, get, wait_for};

/// A token about `sub`, which lists these topics.
fn of(sub: &str, topics: &[&str]) -> String {
    bearer(&json!({ "mercure": { "subscribe": topics }, "sub": sub }))
}

/// Sends the event and says its id.
fn send(server: &Server, event: &Value) -> String {
    let answer = server.api.post("/send", event).ok();
    format!("#{}", answer["id"].as_str().unwrap())
}

/// What the next event but for its id is.
fn heard(stream: &mut Stream) -> String {
    let event = stream.chunk();
    let lines = event.trim_end().lines().filter(|line| !line.starts_with("id: "));
    lines.collect::<Vec<_>>().join("|")
}

#[test]
fn plain_client_hears_what_is_sent_about_whom_it_follows() {
    let hub = Hub::start(&["--mercure-open"]);
    hub.server.api.subscribe("bob", "rj");
    let query = "topic=encke:bob&topic=https://a.test/books/1";
    let mut by_name = hub.listen(query, &[&subscriber(&["encke:bob"])]);
    let mut by_subject = hub.listen("topic=encke:bob", &[&of("bob", &[])]);
    let mut anonymous = [
        hub.listen("topic=*&topic=encke:{id}&topic=rj", &[]),
        hub.listen("topic=*", &[&of("bob", &["*", "encke:bob"])]),
        hub.listen("topic=*&topic=encke:eve", &[&of("eve", &["*"])]),
    ];
    assert_eq!(hub.server.api.connections("bob"), 2);
    for (event, text) in [
        (json!({ "about": "rj", "data": { "a": [1, "x"] } }), "data: {\"a\":[1,\"x\"]}"),
        (json!({ "about": "bob", "text": "a\nb", "event": "note" }), "event: note|data: a|data: b"),
        (json!({ "about": ["rj", "bob"], "data": 7 }), "data: 7"),
    ] {
        assert_eq!(hub.server.api.post("/send", &event).ok()["delivered"], 2, "{event}");
        for stream in [&mut by_name, &mut by_subject] {
            assert_eq!(heard(stream), text);
        }
    }
    // An update comes by the same stream, and is the first that the others hear, but for who is
    // subscribed, which `*` grants.
    hub.publish("topic=https://a.test/books/1&data=book");
    for stream in anonymous.iter_mut().chain([&mut by_name]) {
        let mut first = heard(stream);
        while first.starts_with("data: {\"@context\"") {
            first = heard(stream);
        }
        assert_eq!(first, "data: book");
    }
    drop(by_subject);
    wait_for("one has left", || hub.server.api.connections("bob") == 1);
    hub.server.api.post("/logout/bob", &json!(null));
    by_name.expect_last_chunk();
}

#[test]
fn plain_client_hears_appends_to_a_durable_stream_that_it_follows() {
    let hub = Hub::start(&["--mercure-open", "--streams", "--streams-events=run:*"]);
    let api = &hub.server.api;
    api.subscribe("bob", "run:1");
    let mut bob = hub.listen("topic=encke:bob", &[&subscriber(&["encke:bob"])]);
    let created = api.request("PUT", "/v1/stream/run:1", Some("text/plain"), b"Hello").unwrap();
    assert_eq!(created.status(), 201);
    let event = heard(&mut bob);
    assert!(event.starts_with("event: append|data: {\"next\":\""), "{event}");
    assert!(event.ends_with(",\"text\":\"Hello\"}"), "{event}");
}

#[test]
fn id_that_the_token_does_not_grant_is_refused() {
    let hub = Hub::start(&["--mercure-open"]);
    let denied = |topics: &[&str]| (of("rj", topics), 403);
    for (token, status) in [
        (subscriber(&["*"]), 403),
        denied(&["*", "encke:rj", "encke:{id}", "encke:{+all}"]),
        denied(&["bob", "https://encke:bob"]),
        (of("bob", &[]), 200),
        ("Accept: */*".to_owned(), 401),
    ] {
        for method in ["GET", "HEAD"] {
            let target = format!("{}?topic=a&topic=encke:bob", super::HUB);
            let request = get(&target, &[&token]).replacen("GET", method, 1);
            assert_eq!(hub.server.ask(request).head().status, status, "{method} {token}");
        }
    }
    assert_eq!(hub.status("topic=encke:a/b", &[&of("a/b", &["*"])]), 400);
    wait_for("nobody is bob", || hub.server.api.connections("bob") == 0);
    let refused = hub.publish_by(&super::publisher(), "topic=a&topic=encke:bob&data=x");
    assert!(refused.status() == 403 && refused.body.contains("/send"), "{refused:?}");
}

#[test]
fn one_place_is_of_topics_and_of_ids() {
    let hub = Hub::start(&["--mercure-open", "--history-events=4"]);
    hub.server.api.subscribe("bob", "rj");
    let query = "topic=encke:bob&topic=https://a.test/books/{id}";
    let token = of("bob", &[]);
    let mut stream = hub.listen(query, &[&token]);
    let first = send(&hub.server, &json!({ "about": "rj", "data": 1 }));
    assert_eq!(stream.chunk(), format!("id: {first}\ndata: 1\n\n"));
    drop(stream);
    hub.publish("topic=https://a.test/books/1&data=2&id=urn:2");
    let third = send(&hub.server, &json!({ "about": "bob", "data": 3 }));
    hub.publish("topic=https://a.test/books/2&data=4&id=urn:4");
    send(&hub.server, &json!({ "about": "eve", "data": "hers" }));
    let missed = [
        "id: urn:2\ndata: 2\n\n".to_owned(),
        format!("id: {third}\ndata: 3\n\n"),
        "id: urn:4\ndata: 4\n\n".to_owned(),
    ];
    for (place, from) in [(&*first, 0), ("urn:2", 1), (&third, 2)] {
        let mut stream = hub.listen(query, &[&token, &format!("Last-Event-ID: {place}")]);
        assert_eq!(stream.head.field("last-event-id"), Some(place));
        missed[from..].iter().for_each(|event| assert_eq!(stream.chunk(), *event));
        send(&hub.server, &json!({ "about": "rj", "data": "live" }));
        assert_eq!(heard(&mut stream), "data: live");
    }
    // More was sent about one whom it follows than is remembered.
    (0..6).for_each(|n| drop(send(&hub.server, &json!({ "about": "rj", "data": n }))));
    let mut late = hub.listen(query, &[&token, &format!("Last-Event-ID: {first}")]);
    assert_eq!(late.head.field("last-event-id"), Some("earliest"));
    assert!(late.chunk().starts_with("event: gap\n"));
}

#[test]
fn restart_is_a_gap_for_topics_that_are_not_kept_and_none_for_ids_that_are() {
    let data = tempfile::tempdir().unwrap();
    let options = ["--keep=rj=1h", "--keep=bob=1h", "--log-sync=always"];
    let hub = Hub::start_in(data.path(), &options);
    hub.server.api.subscribe("bob", "rj");
    let first = send(&hub.server, &json!({ "about": "rj", "data": 1 }));
    send(&hub.server, &json!({ "about": "rj", "data": 2 }));
    let Hub { server, _files: files } = hub;
    server.into_program().kill();
    let hub = Hub { server: Hub::serve_in(data.path(), files.path(), &options), _files: files };
    let fields = [&*of("bob", &[]), &format!("Last-Event-ID: {first}")];
    let mut stream = hub.listen("topic=encke:bob", &fields);
    assert_eq!(stream.head.field("last-event-id"), Some(&*first));
    assert_eq!(heard(&mut stream), "data: 2");
    let mut both = hub.listen("topic=encke:bob&topic={any}", &fields);
    assert_eq!(both.head.field("last-event-id"), Some("earliest"));
    let mut all = vec![heard(&mut both), heard(&mut both)];
    all.sort();
    assert!(all[0] == "data: 2" && all[1].starts_with("event: gap"), "{all:?}");
}

#[test]
fn subject_that_is_revoked_hears_nothing_more() {
    let own = format!("--token-key={TOKEN_SECRET}");
    let hub = Hub::start(&[&own]);
    let bobs = of("bob", &[]);
    let mut bob = hub.listen("topic=encke:bob", &[&bobs]);
    let mut rj = hub.listen("topic=encke:bob", &[&of("rj", &["encke:bob"])]);
    hub.server.api.post("/tokens/revoke", &json!({ "sub": "bob" })).ok();
    bob.expect_last_chunk();
    wait_for("one has left", || hub.server.api.connections("bob") == 1);
    assert_eq!(hub.server.api.send("bob", "x"), 1);
    assert_eq!(heard(&mut rj), "data: x");
    assert_eq!(hub.status("topic=encke:bob", &[&bobs]), 401);
    let presence = hub.server.ask(get("/stream/bob", &[])).head();
    assert_eq!(presence.status, 401, "a token of the hub is none of streams");
}
