//! Who is subscribed, in the form of 1.0: lists with a place behind which each change comes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::subscriptions::{LISTEN, PATH, change, ids, reader};
use super::v1::{ISSUER, PUBLIC_URL, grants};
use super::{HUB, Hub, PAGE};
use crate::harness::{Stream, get};

/// A token of 1.0 that may read all lists and hear all changes.
pub(super) fn reader_of_v1() -> String {
    let below = format!("{PATH}/*");
    grants("subscribe", &[("urlpattern", &below), ("exact", PATH)], &Value::Null)
}

/// The document of the next update, which has the name of the hub's own.
fn change_of_v1(stream: &mut Stream) -> Value {
    let event = stream.chunk();
    let document = event.strip_prefix("event: mercure\nid: #").expect(&event);
    let data = document.lines().find_map(|line| line.strip_prefix("data: "));
    serde_json::from_str(data.unwrap()).unwrap()
}

#[test]
fn changes_are_told_in_both_forms_behind_the_place_of_a_list() {
    let hub = Hub::start(&["--mercure-open", PUBLIC_URL, ISSUER]);
    let token = reader_of_v1();
    let first = hub.ask_list(PATH, &[&token]);
    assert_eq!(first.head.field("content-type"), Some("application/json"));
    assert_eq!(first.head.field("etag"), Some("\"earliest\""));
    let link = "<https://hub.example/.well-known/mercure>; rel=\"mercure\"; \
                last-event-id=\"earliest\"; type=\"mercure\"; content-type=\"application/json\"";
    assert_eq!(first.head.field("link"), Some(link));
    let empty = json!({ "id": PATH, "type": "subscriptions", "subscriptions": [] });
    assert_eq!(first.ok(), empty);
    let known =
        |tag: &str| hub.ask_list(PATH, &[&token, &format!("If-None-Match: {tag}")]).status();
    assert_eq!((known("\"earliest\""), known("\"x\"")), (304, 200));
    let query =
        format!("match_urlpattern={PATH}/:type/:match/:who&match=end&last_event_id=earliest");
    let mut stream = hub.listen(&query, &[&token]);
    let mut old = hub.listen(&format!("{LISTEN}&topic=end"), &[&reader()]);
    // The old one has begun with a template, which has no form in 1.0, and a topic.
    assert_eq!(change_of_v1(&mut stream)["match"], "end");
    let one = hub.listen("match=a&match_urlpattern=https://a.test/:id", &[]);
    let mut begun = [change_of_v1(&mut stream), change_of_v1(&mut stream)];
    begun.sort_by_key(|begun| begun["match"].as_str().unwrap().len());
    let of =
        [("exact", "a", "a"), ("urlpattern", "https://a.test/:id", "https%3A%2F%2Fa.test%2F%3Aid")];
    for (begun, (kind, text, encoded)) in begun.iter().zip(of) {
        let name = begun["subscriber"].as_str().unwrap();
        let parent = format!("{PATH}/{kind}/{encoded}");
        let id = format!("{parent}/{}", name.replace(':', "%3A"));
        let document = json!({
            "id": id, "type": "subscription", "match_type": kind, "match": text,
            "subscriber": name, "active": true,
        });
        assert_eq!(*begun, document);
        let listed = hub.ask_list(&id, &[&token]);
        assert_eq!(listed.ok(), document);
        assert_ne!(listed.head.field("etag"), Some("\"earliest\""));
        assert_eq!(ids(&hub.ask_list(&parent, &[&token]).ok()), BTreeSet::from([id]));
    }
    // The two plain ones of the listeners, and these.
    let all = ids(&hub.ask_list(PATH, &[&token]).ok());
    assert_eq!(all.len(), 5, "{all:?}");
    drop(one);
    for _ in 0..2 {
        let ended = change_of_v1(&mut stream);
        assert!(ended["active"] == false, "{ended}");
        assert_eq!(hub.ask_list(ended["id"].as_str().unwrap(), &[&token]).status(), 404);
    }
    // Who listens in the old form hears of what has one, once.
    let mut begun = std::iter::repeat_with(|| change(&mut old));
    assert!(begun.any(|begun| begun["topic"] == "a" && begun["active"] == true));
    let ended = change(&mut old);
    assert!(ended["topic"] == "a" && ended["active"] == false, "{ended}");
    hub.publish("topic=end&data=end");
    for stream in [&mut stream, &mut old] {
        assert!(stream.chunk().ends_with("data: end\n\n"));
    }
}

#[test]
fn who_begins_to_want_the_form_of_1_0_has_a_gap_and_a_new_list() {
    let hub = Hub::start(&["--mercure-open", PUBLIC_URL, ISSUER]);
    let (token, old) = (reader_of_v1(), reader());
    let _listener = hub.listen(LISTEN, &[&old]);
    hub.publish("topic=x&data=1");
    let id = hub.list(PATH)["lastEventID"].as_str().unwrap().to_owned();
    // Changes of these were told in no form yet.
    let _pattern = hub.listen("match_urlpattern=https://a.test/:id", &[]);
    let query = format!("match_urlpattern={PATH}/*");
    let mut stream = hub.listen(&query, &[&token, &format!("Last-Event-ID: {id}")]);
    assert_eq!(stream.head.field("mercure-last-event-id"), Some("earliest"));
    assert!(stream.chunk().contains("event: gap"));
    let listed = hub.ask_list(PATH, &[&token]);
    assert_ne!(listed.head.field("etag"), Some(&*format!("\"{id}\"")));
    assert_eq!(ids(&listed.ok()).len(), 2);
    // The id may be a publisher's.
    hub.publish("topic=x&data=1&id=%C3%A9");
    let head = hub.ask_list(PATH, &[&token]).head;
    assert!(head.field("etag").is_some() && head.field("link").is_some(), "{}", head.text);
}

#[test]
fn selector_that_is_too_long_for_a_path_of_1_0_ends_nobody() {
    let hub = Hub::start(&["--mercure-open", PUBLIC_URL, ISSUER]);
    let token = reader_of_v1();
    let query = format!("match_urlpattern={PATH}/*&match=end");
    let mut stream = hub.listen(&query, &[&token]);
    for kind in ["topic", "match_urlpattern"] {
        for count in 1_500..1_510 {
            // One that is no URL pattern is refused.
            drop(hub.server.ask(get(&format!("{HUB}?{kind}={}", ":".repeat(count)), &[])).head());
        }
    }
    hub.publish("topic=end&data=end");
    let told = std::iter::repeat_with(|| stream.chunk()).find(|told| !told.contains("mercure"));
    assert!(told.unwrap().ends_with("data: end\n\n"));
    assert_eq!(hub.server.api.stats()["mercure"]["subscription_changes"]["lost"], 0);
}

#[test]
fn page_of_another_origin_reads_the_place_of_a_list_and_asks_for_a_newer_one() {
    let hub =
        Hub::start(&["--mercure-open", PUBLIC_URL, ISSUER, &format!("--allow-origin={PAGE}")]);
    let origin = format!("Origin: {PAGE}");
    let head = hub.ask_list(PATH, &[&reader_of_v1(), &origin]).head;
    let exposed = head.field("access-control-expose-headers").unwrap_or_default();
    assert!(["Link", "ETag"].iter().all(|name| exposed.contains(name)), "{exposed}");
    let allowed = |path: &str| {
        let fields = [&*origin, "Access-Control-Request-Method: GET"];
        let request = get(path, &fields).replacen("GET", "OPTIONS", 1);
        let head = hub.server.ask(request).head();
        head.field("access-control-allow-headers").unwrap_or_default().to_owned()
    };
    let [of_list, of_hub] = [PATH, HUB].map(allowed);
    assert!(of_list.contains("If-None-Match"), "{of_list}");
    assert!(of_hub.contains("Last-Event-ID") && !of_hub.contains("If-None-Match"), "{of_hub}");
}
