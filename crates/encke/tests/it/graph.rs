//! The stored friends graph through the API: changes, look-ups from both sides, pages, restarts.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Server, escape};

fn pair(subscriber: impl Into<Value>, subscribee: impl Into<Value>) -> Value {
    json!({ "subscriber": subscriber.into(), "subscribee": subscribee.into() })
}

fn page(ids: &[&str]) -> Value {
    json!({ "ids": ids, "next": null })
}

#[test]
fn adding_and_removing_count_what_they_changed() {
    let server = Server::start(&[]);
    let add = |pairs: Value| server.api.post("/subscriptions/add", &pairs).ok()["added"].take();
    let remove =
        |pairs: Value| server.api.post("/subscriptions/remove", &pairs).ok()["removed"].take();
    assert_eq!(add(json!([pair("bob", "rj"), pair(1, "rj"), pair("bob", "rj")])), 2);
    assert_eq!(add(json!([pair("bob", "rj"), pair("1", "rj"), pair("rj", "bob")])), 1);
    assert_eq!(add(json!([])), 0);
    assert_eq!(server.api.stats()["subscriptions"], 3);
    assert_eq!(remove(json!([pair("bob", "rj"), pair("bob", "rj"), pair("x", "y")])), 1);
    assert_eq!(remove(json!([pair("bob", "rj")])), 0);
    assert_eq!(remove(json!([])), 0);
    assert_eq!(server.api.stats()["subscriptions"], 2);
    assert_eq!(server.api.get("/subscribers/rj").ok(), page(&["1"]));
    assert_eq!(server.api.get("/subscriptions/rj").ok(), page(&["bob"]));
}

#[test]
fn lines_are_as_good_as_an_array() {
    let server = Server::start(&[]);
    let lines = concat!(
        "{\"subscriber\":\"a\",\"subscribee\":\"b\"}\r\n\n  \n",
        "{\"subscribee\":7,\"subscriber\":\"a\"}\n",
        "{\"subscriber\":\"a\",\"subscribee\":\"b\"}",
    );
    assert_eq!(server.api.post_lines("/subscriptions/add", lines).ok(), json!({ "added": 2 }));
    assert_eq!(server.api.get("/subscriptions/a").ok(), page(&["7", "b"]));
    let removed = server.api.post_lines("/subscriptions/remove", lines).ok();
    assert_eq!(removed, json!({ "removed": 2 }));
    assert_eq!(server.api.post_lines("/subscriptions/add", "").ok(), json!({ "added": 0 }));
}

#[test]
fn bad_pair_of_an_array_leaves_the_graph_as_it_was() {
    let server = Server::start(&[]);
    for bad in [
        pair("a b", "c"),
        pair("a", ""),
        pair(1.5, "c"),
        json!({ "subscriber": "a" }),
        json!({ "subscriber": "a", "subscribee": "b", "since": 2008 }),
        json!("a b"),
        Value::Null,
    ] {
        let pairs = json!([pair("good", "pair"), bad]);
        server.api.post("/subscriptions/add", &pairs).problem(400);
    }
    assert_eq!(server.api.stats()["subscriptions"], 0);
    assert_eq!(server.api.get("/subscribers/pair").ok(), page(&[]));
}

#[test]
fn bad_line_ends_a_stream_and_tells_what_is_stored() {
    let server = Server::start(&[]);
    let good = |n: u32| format!("{{\"subscriber\":{n},\"subscribee\":\"rj\"}}\n");
    let lines = good(1) + &good(2) + "{\"subscriber\":3}\n" + &good(4);
    let answer = server.api.post_lines("/subscriptions/add", &lines);
    let problem = answer.problem(400);
    assert_eq!((&problem["line"], &problem["added"]), (&json!(3), &json!(2)));
    assert_eq!(server.api.get("/subscribers/rj").ok(), page(&["1", "2"]));
    let problem = server.api.post_lines("/subscriptions/remove", &lines).problem(400);
    assert_eq!((&problem["line"], &problem["removed"]), (&json!(3), &json!(2)));
    assert_eq!(server.api.get("/subscribers/rj").ok(), page(&[]));
}

#[test]
fn nobody_follows_an_unknown_id_and_it_follows_nobody() {
    let server = Server::start(&[]);
    for id in ["nobody", "123", "9223372036854775808", "%C3%A9", "add", "remove"] {
        assert_eq!(server.api.get(&format!("/subscribers/{id}")).ok(), page(&[]), "{id}");
        assert_eq!(server.api.get(&format!("/subscriptions/{id}")).ok(), page(&[]), "{id}");
    }
}

#[test]
fn id_may_follow_itself_and_hears_itself_once() {
    let server = Server::start(&[]);
    server.api.subscribe("me", "me");
    let mut me = server.listener("me");
    assert_eq!(server.api.get("/subscribers/me").ok(), page(&["me"]));
    assert_eq!((server.api.send("me", 1), server.api.send("me", 2)), (1, 1));
    assert_eq!((me.data(), me.data()), (json!(1), json!(2)));
}

#[test]
fn names_that_need_escapes_are_found_from_both_sides() {
    let server = Server::start(&[]);
    let names = ["é", "日本", "a&b=c", "100%", "\"q\"\\", "+1", "add", "remove", ".", ".."];
    for name in names {
        server.api.subscribe(name, "hub");
        let path = format!("/subscriptions/{}", escape(name));
        assert_eq!(server.api.get(&path).ok(), page(&["hub"]), "{name}");
    }
    let subscribers: BTreeSet<_> = server.api.ids("/subscribers/hub", 3).into_iter().collect();
    assert_eq!(subscribers, names.map(str::to_owned).into());
}

/// Subscribers of `star`: integers and names, thousands of them.
fn crowd() -> BTreeSet<String> {
    let numbers = (0..3000).map(|n: u64| (n * n * 1_000_003 % (1 << 40)).to_string());
    let names = (0..3000).map(|n| format!("fan:{n}"));
    let odd = ["0", "9223372036854775807", "9223372036854775808", "007", "-1"];
    numbers.chain(names).chain(odd.map(str::to_owned)).collect()
}

#[test]
fn pages_hold_each_id_once_whatever_their_size() {
    let server = Server::start(&[]);
    let crowd = crowd();
    let lines = |follow: fn(&str) -> Value| -> String {
        crowd.iter().map(|id| follow(id).to_string() + "\n").collect()
    };
    let added = json!({ "added": crowd.len() });
    let fans = lines(|id| pair(id, "star"));
    assert_eq!(server.api.post_lines("/subscriptions/add", &fans).ok(), added);
    let follows = lines(|id| pair("reader", id));
    assert_eq!(server.api.post_lines("/subscriptions/add", &follows).ok(), added);
    for path in ["/subscribers/star", "/subscriptions/reader"] {
        for limit in [10_000, 1000, 999, 101] {
            let ids = server.api.ids(path, limit);
            assert_eq!(ids.len(), crowd.len(), "{path} by {limit}");
            assert!(ids.into_iter().collect::<BTreeSet<_>>() == crowd, "{path} by {limit}");
        }
    }
    let first = server.api.get("/subscribers/star").ok();
    assert_eq!(first["ids"].as_array().unwrap().len(), 1000, "a page when nobody says how long");
    assert_eq!(server.api.get("/subscribers/star?limit=6005").ok()["ids"], {
        let ids = server.api.ids("/subscribers/star", 500);
        json!(ids)
    });
}

/// Names vanish from the server when their last subscription goes; the place of a page does not.
#[test]
fn page_goes_on_at_its_place_though_every_name_before_it_was_forgotten() {
    let server = Server::start(&[]);
    let crowd: BTreeSet<String> =
        (0..20).map(|n| n.to_string()).chain((0..20).map(|n| format!("fan:{n}"))).collect();
    let follow = |ids: &[&str]| json!(ids.iter().map(|id| pair(*id, "star")).collect::<Vec<_>>());
    let all: Vec<&str> = crowd.iter().map(String::as_str).collect();
    server.api.post("/subscriptions/add", &follow(&all)).ok();
    let (mut seen, mut after) = (Vec::new(), String::new());
    for page in 1..=8 {
        let found = server.api.get(&format!("/subscribers/star?limit=5{after}")).ok();
        let ids: Vec<String> = serde_json::from_value(found["ids"].clone()).unwrap();
        assert_eq!(ids.len(), 5, "{found}");
        let gone: Vec<&str> = ids.iter().map(String::as_str).collect();
        server.api.post("/subscriptions/remove", &follow(&gone)).ok();
        assert_eq!(found["next"].is_null(), page == 8, "{found}");
        after = format!("&after={}", found["next"].as_str().unwrap_or_default());
        seen.extend(ids);
    }
    assert_eq!(seen.len(), crowd.len());
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), crowd, "none twice, none missed");
}

#[test]
fn bad_pages_are_400() {
    let server = Server::start(&[]);
    server.api.subscribe("a", "star");
    for query in [
        "limit=0",
        "limit=-1",
        "limit=10001",
        "limit=x",
        "limit=",
        "after=a%20b",
        "after=",
        "after=bob",
    ] {
        server.api.get(&format!("/subscribers/star?{query}")).problem(400);
        server.api.get(&format!("/subscriptions/star?{query}")).problem(400);
    }
    server.api.get("/subscribers/a%20b").problem(400);
    server.api.get("/subscriptions/%FF").problem(400);
}

#[test]
fn graph_survives_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let crowd = crowd();
    let server = Server::start_in(data.path(), &[]);
    let lines: String =
        crowd.iter().map(|id| pair(id.as_str(), "star").to_string() + "\n").collect();
    server.api.post_lines("/subscriptions/add", &lines).ok();
    server.api.post("/subscriptions/remove", &json!([pair("fan:7", "star"), pair(0, "star")])).ok();
    assert_eq!(server.stop("TERM").code(), Some(0));

    let server = Server::start_in(data.path(), &[]);
    let mut expected = crowd;
    assert!(expected.remove("fan:7") && expected.remove("0"));
    assert_eq!(server.api.stats()["subscriptions"], expected.len());
    let subscribers: BTreeSet<_> = server.api.ids("/subscribers/star", 1000).into_iter().collect();
    assert!(subscribers == expected);
    for id in ["fan:8", "007", "9223372036854775808"] {
        assert_eq!(server.api.get(&format!("/subscriptions/{id}")).ok(), page(&["star"]));
    }
    let mut fan = server.listener("fan:8");
    let _gone = server.listener("fan:7");
    assert_eq!(server.api.send("star", "hello"), 1);
    assert_eq!(fan.data(), "hello");
}
