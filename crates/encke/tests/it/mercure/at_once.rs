//! Updates that are published in a worker's turn, which are answered and heard as any other.

use std::fs;

use serde_json::json;

use super::v1::{ISSUER, PUBLIC_URL, grants};
use super::{BOOKS, FORM, HUB, Hub, SECRET, bearer, publisher, subscriber};
use crate::harness::{Answer, Wire, get, read_answer, wait_for};
use crate::lanes::{all_at_once, at_once, comparable};

/// A request to publish `form`, with further `fields`.
fn request(fields: &[&str], form: &str) -> String {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let len = form.len();
    format!("POST {HUB} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len}\r\n{fields}\r\n{form}")
}

fn answer(wire: &mut Wire) -> Answer {
    read_answer(wire, "POST").unwrap()
}

/// Requests that a lane serves, and others, each with whether it does.
fn requests() -> Vec<(String, bool)> {
    let (all, one) = (publisher(), bearer(&json!({ "mercure": { "publish": ["a"] } })));
    let form = |text: &str| request(&[FORM, &all], text);
    let by = |fields: &[&str]| request(fields, "topic=a&data=x");
    let long = format!("topic=a&data={}", "x".repeat(30_000));
    let longer = format!("topic=a&data={}", "x".repeat(80_000));
    let long_topic = format!("topic={}&data=x", "a".repeat(600));
    let many = "topic=a&topic=b&topic=c&topic=d&topic=e&data=x";
    let mut granted: Vec<String> = (0..200).map(|n| format!("topic-{n}")).collect();
    granted.push("a".to_owned());
    let long_token = bearer(&json!({ "mercure": { "publish": granted } }));
    let v1 = grants("publish", &[("exact", "https://a.test/a")], &json!({}));
    let v1_pattern = grants("publish", &[("urlpattern", r"https://a.test/(\d+)")], &json!({}));
    let lane = [
        form("topic=a&data=x"),
        form("topic=a&data=x&id=urn:own"),
        form("topic=a&topic=b&data=a%0Ab&type=t&retry=7&private=on"),
        form("topic=https%3A%2F%2Fa.test%2Fbooks%2F1&data=%C3%A9"),
        form("topic=a"),
        form(&long),
        by(&["Content-Type: APPLICATION/x-www-form-urlencoded; charset=utf-8", &one]),
        by(&[FORM, &one.replace("Bearer", "bEARER"), "X-Forwarded-For: 10.0.0.1"]),
        request(&[FORM, &v1], "topic=https%3A%2F%2Fa.test%2Fa&data=x"),
    ];
    let other = [
        form(&longer),
        form(&long_topic),
        form(many),
        form(""),
        form("data=x"),
        form("topic=a&data=x&id=%23own"),
        form("topic=a&data=x&retry=x"),
        form("topic=encke:bob&data=x"),
        form("topic=a%0A&data=x"),
        by(&[&all]),
        by(&["Content-Type: application/json", &all]),
        by(&[FORM]),
        by(&[FORM, &one, &all]),
        by(&[FORM, &long_token]),
        by(&[FORM, &subscriber(&["*"])]),
        by(&[FORM, &bearer(&json!({ "mercure": { "publish": ["b"] } }))]),
        by(&[FORM, &bearer(&json!({ "mercure": { "publish": ["a"] }, "exp": 1 }))]),
        by(&[FORM, "Authorization: Basic YTpi"]),
        request(&[FORM, &v1_pattern], "topic=https%3A%2F%2Fa.test%2F7&data=x"),
        by(&[FORM, &all.replace("Bearer ", "Bearer x")]),
        by(&[FORM, &all, "Origin: http://localhost"]),
        by(&[FORM, &all, "Cookie: a=b"]),
        by(&[FORM, &all, "Expect: 100-continue"]),
        by(&[FORM, &all]).replace("mercure HTTP", "mercure?x=1 HTTP"),
        by(&[FORM, &all]).replace("localhost", "evil.test"),
        by(&[FORM, &v1]),
    ];
    lane.into_iter().map(|text| (text, true)).chain(other.map(|text| (text, false))).collect()
}

/// The same bytes, on a connection that is served in a worker's turn and on one that is not.
#[test]
fn answers_are_those_of_the_library() {
    let requests = requests();
    let served = requests.iter().filter(|(_, is_served)| *is_served).count();
    all_at_once(served as u64, || {
        let hub = Hub::start(&["--mercure-open", PUBLIC_URL, ISSUER]);
        let _listeners = [hub.listen("topic=a", &[]), hub.listen(BOOKS, &[])];
        requests.iter().map(|(text, is_served)| compare(&hub, text, *is_served)).sum()
    });
}

/// Compares the answers to one request; 1 if it was served in a worker's turn, as only one may be
/// that `is_served` there.
fn compare(hub: &Hub, text: &str, is_served: bool) -> u64 {
    let answered = |first: &str| {
        let mut wire = Wire::connect(hub.server.api.address());
        wire.send(first);
        assert_eq!(answer(&mut wire).status(), 200);
        let before = at_once(&hub.server);
        wire.send(text);
        // The server asks for the body that comes anyway (RFC 9110, section 10.1.1).
        if text.contains("Expect") {
            assert_eq!(wire.head().status, 100);
        }
        let (head, mut body) = comparable(&answer(&mut wire));
        // The id of an update to which its publisher gave none.
        if body.as_str().is_some_and(|text| text.starts_with('#')) {
            body = "#".into();
        }
        (head, body, at_once(&hub.server) - before)
    };
    let update = request(&[FORM, &publisher()], "topic=nobody");
    let (here, there) = (answered(&update), answered(&get("/stats", &[])));
    let begin = &text[..text.len().min(500)];
    assert_eq!((&here.0, &here.1), (&there.0, &there.1), "{begin}");
    assert!(here.2 <= u64::from(is_served) && there.2 == 0, "{begin}");
    here.2
}

#[test]
fn publisher_that_is_known_is_refused_once_its_key_is_another_one() {
    let hub = Hub::start(&["--mercure-open", "--workers=1"]);
    let mut wire = Wire::connect(hub.server.api.address());
    let update = request(&[FORM, &publisher()], "topic=nobody");
    let before = at_once(&hub.server);
    let mut status = || {
        wire.send(&update);
        answer(&mut wire).status()
    };
    // The second that the lane publishes finds its publisher known.
    wait_for("the lane knows it", || {
        assert_eq!(status(), 200);
        at_once(&hub.server) >= before + 2
    });
    let [key, new] = ["key", "new"].map(|name| hub._files.path().join(name));
    fs::write(&new, SECRET.to_uppercase()).unwrap();
    fs::rename(&new, &key).unwrap();
    hub.server.signal("HUP");
    let over = "what could be reloaded is in use";
    wait_for("the new key is read", || hub.server.stderr().contains(over));
    assert_eq!(status(), 401);
}

/// What takes long is for the control plane: its turns hold up no stream.
#[test]
fn update_on_which_many_patterns_are_tried_is_published_elsewhere() {
    let hub = Hub::start(&["--mercure-open"]);
    let pattern = |n: usize| format!("topic=https://a.test/%7Ba%7D/{n}%7B%2Bb%7D");
    let mut listeners: Vec<_> = (0..65).map(|n| hub.listen(&pattern(n), &[])).collect();
    let before = at_once(&hub.server);
    assert_eq!(hub.publish("topic=https://a.test/x/64&data=x&id=urn:1").1, 2, "6 and 64");
    assert_eq!(at_once(&hub.server), before);
    for n in [6, 64] {
        assert_eq!(listeners[n].chunk(), "id: urn:1\ndata: x\n\n");
    }
}
