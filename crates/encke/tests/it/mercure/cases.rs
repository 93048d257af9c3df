//! The protocol line by line, as data (`cases.jsonl`): one request, one update or one place each.
//! `${u}` stands for a text that is another one in each case.

use std::fmt::Write;

use serde_json::{Value, json};

use super::subscriptions::PATH;
use super::v1::{ISSUER, PUBLIC_URL, access_token};
use super::{BOOKS, FORM, HUB, Hub, PAGE, begin, token};
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

/// A hub that takes tokens of 1.0.
fn hub() -> Hub {
    let allowed = format!("--allow-origin={PAGE}");
    Hub::start(&["--mercure-open", PUBLIC_URL, ISSUER, &allowed])
}

/// Whether a client speaks 1.0.
fn is_v1(subscribe: &Value) -> bool {
    let query = subscribe["query"].as_array().unwrap();
    subscribe["method"] == "QUERY" || query.iter().any(|pair| text(&pair[0]).starts_with("match"))
}

/// The request by which a client subscribes, to `more` as well.
fn subscription(subscribe: &Value, more: &str) -> String {
    let (query, mut fields) = shown(subscribe);
    let target = format!("{HUB}?{}&{more}&{query}", encoded(&subscribe["query"]));
    let (method, body) = (subscribe["method"].as_str().unwrap_or("GET"), &subscribe["body"]);
    let body = if body.is_null() { String::new() } else { encoded(body) };
    if method == "QUERY" {
        fields.push(format!("{FORM}\r\nContent-Length: {}", body.len()));
    }
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    get(&target, &fields).replacen("GET", method, 1) + &body
}

/// The answer says what is wrong with the token, and where to get another, as the case has it.
fn check_challenge(case: &Value, field: Option<&str>, name: &str) {
    let Some(code) = case["challenge"].as_str() else { return };
    let code = if code.is_empty() { String::new() } else { format!("error=\"{code}\", ") };
    let metadata = "https://hub.example/.well-known/oauth-protected-resource/.well-known/mercure";
    let expected = format!("Bearer {code}resource_metadata=\"{metadata}\"");
    assert_eq!(field, Some(&*expected), "{name}");
}

/// The query and the header line by which a client shows its token.
fn shown(client: &Value) -> (String, Vec<String>) {
    let claim = client["claim"].as_str().unwrap_or("mercure");
    let mut claims = json!({ claim: client["claims"] });
    if client["expired"] == true {
        claims["exp"] = 1.into();
    }
    let is_v1 = !client["details"].is_null();
    let token = match (&client["token"], &client["claims"]) {
        (Value::String(token), _) => token.clone(),
        _ if is_v1 => access_token(client),
        (_, Value::Null) => return (String::new(), Vec::new()),
        _ => token(&claims),
    };
    let cookie = if is_v1 { "__Secure-mercure_access_token" } else { "mercureAuthorization" };
    let scheme = client["scheme"].as_str().unwrap_or("Bearer");
    match client["by"].as_str() {
        Some("query") => (format!("authorization={token}"), Vec::new()),
        Some("cookie") => (String::new(), vec![format!("Cookie: {cookie}={token}")]),
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
        let name = if is_v1(subscribe) { "match" } else { "topic" };
        begin(&self.server, subscription(subscribe, &format!("{name}={more}")))
    }

    /// The stream has heard nothing before what is published now.
    fn hears_nothing_else(&self, stream: &mut Stream, topic: &str, name: &str) {
        let (id, _) = self.publish(&format!("topic={topic}&data=end"));
        assert_eq!(stream.chunk(), format!("id: {id}\ndata: end\n\n"), "{name}");
    }
}

#[test]
fn each_update_is_heard_as_its_case_says() {
    let hub = hub();
    for (n, (name, case)) in cases("hears").into_iter().enumerate() {
        let end = format!("end{n}");
        let mut stream = hub.listen_case(&case, &end);
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
    let hub = hub();
    for (name, case) in cases("status") {
        let status = |answer: u16| {
            assert!(
                case["status"].as_array().unwrap().contains(&answer.into()),
                "{name}: {answer}"
            );
        };
        if case["publish"].is_null() {
            let head = hub.server.ask(subscription(&case["subscribe"], "")).head();
            status(head.status);
            check_challenge(&case, head.field("www-authenticate"), &name);
            continue;
        }
        let answer = hub.publish_case_publicly(&case);
        status(answer.status());
        check_challenge(&case, answer.head.field("www-authenticate"), &name);
        match case["publish"]["by"] == "cookie" {
            // Cookies are for pages, which have no business there.
            true => assert!([400, 401, 403].contains(&hub.publish_case(&case).status()), "{name}"),
            false => {
                let answer = hub.publish_case(&case);
                status(answer.status());
                check_challenge(&case, answer.head.field("www-authenticate"), &name);
            }
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
        let (selector, field) = match place["v1"] == true {
            true => ("match", "mercure-last-event-id"),
            false => ("topic", "last-event-id"),
        };
        let (mut query, mut fields) = (format!("{selector}={topic}"), Vec::new());
        for (parameter, id) in place["ask"].as_object().unwrap() {
            match parameter.as_str() {
                "header" => fields.push(format!("Last-Event-ID: {}", own(text(id)))),
                _ => write!(query, "&{parameter}={}", own(text(id))).unwrap(),
            }
        }
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let mut stream = hub.listen(&query, &fields);
        let told = stream.head.field(field);
        match place["field"].as_str() {
            Some("now") => assert!(told.unwrap().starts_with('#'), "{name}"),
            other => assert_eq!(told, other.map(own).as_deref(), "{name}"),
        }
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

/// What each document has, whichever subscription it is of.
fn check_listed(listed: &Value, expected: &Value, is_v1: bool, name: &str) {
    let id = text(&listed["id"]);
    assert!(id.ends_with(&text(&listed["subscriber"]).replace(':', "%3A")), "{name}: {listed}");
    let kind = if is_v1 { "subscription" } else { "Subscription" };
    let mut document = json!({
        "id": id, "type": kind, "subscriber": listed["subscriber"], "active": true,
    });
    for (member, value) in expected.as_object().unwrap() {
        document[member] = value.clone();
    }
    assert_eq!(*listed, document, "{name}");
}

#[test]
fn each_list_is_answered_as_its_case_says() {
    let hub = hub();
    for (name, case) in cases("list") {
        let (list, is_v1) = (&case["list"], name.starts_with("1.0 "));
        let _stream = begin(&hub.server, subscription(&case["subscribe"], ""));
        let path = format!("{PATH}{}", text(&list["path"]));
        let (_, fields) = shown(list);
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let answer = hub.ask_list(&path, &fields);
        assert_eq!(Value::from(answer.status()), list["status"], "{name}: {answer:?}");
        check_challenge(list, answer.head.field("www-authenticate"), &name);
        let Some(expected) = list["listed"].as_array() else { continue };
        let kind = if is_v1 { "application/json" } else { "application/ld+json" };
        assert_eq!(answer.head.field("content-type"), Some(kind), "{name}");
        let all = answer.ok();
        assert_eq!(text(&all["id"]), path, "{name}");
        let listed = all["subscriptions"].as_array().unwrap();
        assert_eq!(listed.len(), expected.len(), "{name}: {all}");
        for (listed, expected) in listed.iter().zip(expected) {
            check_listed(listed, expected, is_v1, &name);
        }
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
