//! The protocol line by line, as data (`cases.jsonl`): one request, one update or one place each.
//! `${u}` stands for a text that is another one in each case.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{BOOKS, HUB, Hub, PAGE, token};
use crate::harness::{Answer, Stream, escape, get, read_answer};

const CASES: &str = include_str!("cases.jsonl");

/// The cases that have `member`, by name, each with a text of its own.
fn cases(member: &str) -> Vec<(String, Value)> {
    let lines = CASES.lines().enumerate();
    let cases = lines.map(|(n, line)| line.replace("${u}", &format!("case{n}")));
    let cases: Vec<Value> = cases.map(|line| serde_json::from_str(&line).unwrap()).collect();
    let cases = cases.into_iter().filter(|case| !case[member].is_null());
    let named = cases.map(|case| (case["name"].as_str().unwrap().to_owned(), case));
    let named: Vec<_> = named.collect();
    assert!(!named.is_empty(), "{member}");
    named
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Pairs as a form or a query.
fn encoded(pairs: &Value) -> String {
    let mut out = String::new();
    for pair in pairs.as_array().unwrap() {
        let separator = if out.is_empty() { "" } else { "&" };
        write!(out, "{separator}{}={}", escape(text(&pair[0])), escape(text(&pair[1]))).unwrap();
    }
    out
}

/// The query and the header line by which a client shows its token.
fn shown(client: &Value) -> (String, Vec<String>) {
    let claim = client["claim"].as_str().unwrap_or("mercure");
    let mut claims = json!({ claim: client["claims"] });
    if client["expired"] == true {
        claims["exp"] = 1.into();
    }
    let token = match (&client["token"], &client["claims"]) {
        (Value::String(token), _) => token.clone(),
        (_, Value::Null) => return (String::new(), Vec::new()),
        _ => token(&claims),
    };
    let scheme = client["scheme"].as_str().unwrap_or("Bearer");
    match client["by"].as_str() {
        Some("query") => (format!("authorization={token}"), Vec::new()),
        Some("cookie") => (String::new(), vec![format!("Cookie: mercureAuthorization={token}")]),
        _ => (String::new(), vec![format!("Authorization: {scheme} {token}")]),
    }
}

/// The target of a publish, its header lines, and its form.
fn publish_of(case: &Value) -> (String, Vec<String>, String) {
    let publish = &case["publish"];
    let (query, mut fields) = shown(publish);
    let kind = publish["content_type"].as_str().unwrap_or("application/x-www-form-urlencoded");
    fields.push(format!("Content-Type: {kind}"));
    match publish["origin"].as_str() {
        Some("listed") => fields.push(format!("Origin: {PAGE}")),
        Some(_) => fields.push("Origin: http://foreign.test".to_owned()),
        None => {}
    }
    (format!("{HUB}?{query}"), fields, encoded(&publish["form"]))
}

impl Hub {
    /// Publishes on the API's port.
    fn publish_case(&self, case: &Value) -> Answer {
        let (target, fields, form) = publish_of(case);
        self.server.api.post_with(&target, &(fields.join("\r\n") + "\r\n"), &form)
    }

    /// Publishes on the public port.
    fn publish_case_publicly(&self, case: &Value) -> Answer {
        let (target, mut fields, form) = publish_of(case);
        fields.push(format!("Content-Length: {}", form.len()));
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let request = get(&target, &fields).replacen("GET", "POST", 1) + &form;
        read_answer(&mut self.server.ask(request), "POST").unwrap()
    }

    /// Listens as the case says, and to a topic that nothing else is published on.
    fn listen_case(&self, case: &Value, more: &str) -> Stream {
        let subscribe = &case["subscribe"];
        let (query, fields) = shown(subscribe);
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        self.listen(&format!("{}&{more}&{query}", encoded(&subscribe["query"])), &fields)
    }

    /// The stream has heard nothing before what is published now.
    fn hears_nothing_else(&self, stream: &mut Stream, topic: &str, name: &str) {
        let (id, _) = self.publish(&format!("topic={topic}&data=end"));
        assert_eq!(stream.chunk(), format!("id: {id}\ndata: end\n\n"), "{name}");
    }
}

#[test]
fn each_update_is_heard_as_its_case_says() {
    let hub = Hub::start(&["--mercure-open"]);
    for (n, (name, case)) in cases("hears").into_iter().enumerate() {
        let end = format!("end{n}");
        let mut stream = hub.listen_case(&case, &format!("topic={end}"));
        let answer = hub.publish_case(&case);
        assert_eq!(answer.status(), 200, "{name}: {answer:?}");
        if case["hears"] == true {
            let heard = stream.chunk();
            let lines: Vec<&str> = heard.lines().collect();
            match case["lines"].as_array() {
                Some(expected) => {
                    let expected: Vec<&str> = expected.iter().map(text).chain([""]).collect();
                    assert_eq!(lines, expected, "{name}");
                }
                None => {
                    assert_eq!(lines[0], format!("id: {}", answer.body), "{name}");
                    assert_eq!(lines[1..], ["data: x", ""], "{name}");
                }
            }
        }
        hub.hears_nothing_else(&mut stream, &end, &name);
    }
}

#[test]
fn each_request_is_answered_as_its_case_says_on_both_ports() {
    let allowed = format!("--allow-origin={PAGE}");
    let hub = Hub::start(&["--mercure-open", &allowed]);
    for (name, case) in cases("status") {
        let status = |answer: u16| {
            assert!(
                case["status"].as_array().unwrap().contains(&answer.into()),
                "{name}: {answer}"
            );
        };
        if case["publish"].is_null() {
            let subscribe = &case["subscribe"];
            let (query, fields) = shown(subscribe);
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            let target = format!("{HUB}?{}&{query}", encoded(&subscribe["query"]));
            let method = subscribe["method"].as_str().unwrap_or("GET");
            let request = get(&target, &fields).replacen("GET", method, 1);
            status(hub.server.ask(request).head().status);
            continue;
        }
        status(hub.publish_case_publicly(&case).status());
        match case["publish"]["by"] == "cookie" {
            // Cookies are for pages, which have no business there.
            true => assert!([401, 403].contains(&hub.publish_case(&case).status()), "{name}"),
            false => status(hub.publish_case(&case).status()),
        }
    }
}

#[test]
fn each_place_is_where_its_case_says() {
    let hub = Hub::start(&["--mercure-open"]);
    for (n, (name, case)) in cases("place").into_iter().enumerate() {
        let place = &case["place"];
        let topic = format!("place{n}");
        let own = |id: &str| match id {
            "1" | "2" | "3" => format!("urn:{n}:{id}"),
            other => other.to_owned(),
        };
        for id in place["published"].as_array().unwrap() {
            hub.publish(&format!("topic={topic}&data=x&id={}", own(text(id))));
        }
        let (mut query, mut fields) = (format!("topic={topic}"), Vec::new());
        for (parameter, id) in place["ask"].as_object().unwrap() {
            match parameter.as_str() {
                "header" => fields.push(format!("Last-Event-ID: {}", own(text(id)))),
                _ => write!(query, "&{parameter}={}", own(text(id))).unwrap(),
            }
        }
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let mut stream = hub.listen(&query, &fields);
        let field = place["field"].as_str().map(own);
        assert_eq!(stream.head.field("last-event-id"), field.as_deref(), "{name}");
        for replayed in place["replayed"].as_array().unwrap() {
            let heard = stream.chunk();
            match text(replayed) {
                "gap" => assert!(heard.starts_with("event: gap\nid: #"), "{name}: {heard}"),
                id => assert_eq!(heard, format!("id: {}\ndata: x\n\n", own(id)), "{name}"),
            }
        }
        hub.hears_nothing_else(&mut stream, &topic, &name);
    }
}

#[test]
fn bounds_are_as_the_page_says() {
    let hub = Hub::start(&["--mercure-open"]);
    let topics = |count: usize| (0..count).map(|n| format!("topic=t{n}&")).collect::<String>();
    assert_eq!(hub.status(&topics(500), &[]), 200);
    // A head has 8 KiB.
    assert_eq!(hub.status(&topics(1_001), &[]), 431);
    let long = format!("topic={}", "x".repeat(4_096));
    let mut stream = hub.listen(&long, &[]);
    assert_eq!(hub.publish(&format!("{long}&data=y")).1, 1);
    assert!(stream.chunk().ends_with("\ndata: y\n\n"));
    assert_eq!(hub.publish_by(&super::publisher(), &format!("{long}x")).status(), 400);
    assert_eq!(hub.publish_by(&super::publisher(), &topics(100)).status(), 200);
    assert_eq!(hub.publish_by(&super::publisher(), &topics(101)).status(), 400);
    let mut stream = hub.listen(BOOKS, &[]);
    let data = "x".repeat(40_000);
    assert_eq!(hub.publish(&format!("topic=https://a.test/books/1&data={data}")).1, 1);
    assert!(stream.chunk().ends_with(&format!("\ndata: {data}\n\n")));
    // An event fits into a backlog, which has 64 KiB.
    let large = format!("topic=a&data={}", "x".repeat(70_000));
    assert_eq!(hub.publish_by(&super::publisher(), &large).status(), 413);
}
