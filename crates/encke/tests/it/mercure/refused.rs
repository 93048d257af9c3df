//! Who the hub is, and whose tokens it takes: requests that are refused in both dialects.

use serde_json::json;

use super::v1::{METADATA, PUBLIC_URL, access_token, grants};
use super::{FORM, HUB, Hub, PAGE};
use crate::harness::{get, read_answer, wait_for};

/// What the hub is called stands in its answers, and in the tokens that it takes.
#[test]
fn hub_that_nobody_names_answers_400() {
    let hub = Hub::start(&[]);
    let aud = json!({ "aud": format!("http://localhost{HUB}") });
    let by = grants("subscribe", &[("exact", "a")], &aud);
    let by_publisher = grants("publish", &[("exact", "a")], &aud);
    let form = "topic=a&data=x";
    let sends = format!("{FORM}\r\nContent-Length: {}", form.len());
    let status = |request: String| {
        let head = hub.server.ask(request).head();
        assert!(!head.text.contains("resource_metadata"), "{}", head.text);
        head.status
    };
    for host in ["Host: \r\n", "Host: a%22,error=%22b\r\n", "Host: a%41\r\n", "Host: :80\r\n"] {
        for path in [&*format!("{HUB}?match=a"), METADATA] {
            let ask = |rest: &str| status(format!("GET {path} HTTP/1.1\r\n{host}{rest}\r\n"));
            assert_eq!((ask(""), ask(&format!("{by}\r\n"))), (400, 400), "{path} {host}");
        }
        let fields = format!("{host}{by_publisher}\r\n{sends}\r\n\r\n");
        assert_eq!(status(format!("POST {HUB} HTTP/1.1\r\n{fields}{form}")), 400, "{host}");
    }
    // A token for `localhost` is good at a hub that is called so, and at no other.
    assert_eq!(status(format!("GET {HUB}?match=a HTTP/1.0\r\n{by}\r\n\r\n")), 400);
    let called = format!("GET {HUB}?match=a HTTP/1.0\r\nHost: localhost\r\n{by}\r\n\r\n");
    assert_eq!(status(called), 200);
    let named = Hub::start(&["--mercure-open", PUBLIC_URL]);
    let head = named.server.ask(format!("GET {HUB}?match=a HTTP/1.0\r\n\r\n")).head();
    assert_eq!(head.status, 200, "its operator has named it");
}

#[test]
fn token_stands_in_the_cookie_of_its_dialect_and_has_its_claim() {
    let hub = Hub::start(&[&format!("--allow-origin={PAGE}"), PUBLIC_URL]);
    let detail = json!({
        "type": "https://mercure.rocks/authorization-detail",
        "actions": ["publish", "subscribe"],
        "topics": [{ "match": "*" }],
    });
    let new = access_token(&json!({ "details": [detail] }));
    let both = json!({ "publish": ["*"], "subscribe": ["*"] });
    let old = super::token(&json!({ "mercure": both }));
    let stale = super::token(&json!({ "mercure": both, "exp": 1 }));
    let other = super::token(&json!({ "sub": "bob", "aud": "another service" }));
    let (of_old, of_new) = ("mercureAuthorization", "__Secure-mercure_access_token");
    let origin = format!("Origin: {PAGE}");
    let post = |field: &str| {
        let form = "topic=a&data=x";
        let length = format!("Content-Length: {}", form.len());
        let request = get(HUB, &[&origin, field, FORM, &length]).replacen("GET", "POST", 1) + form;
        read_answer(&mut hub.server.ask(request), "POST").unwrap()
    };
    // What of 1.0 is told where to get a token.
    for (field, status, is_told) in [
        (format!("Cookie: {of_old}={stale}; {of_new}={new}"), 200, false),
        (format!("Cookie: {of_old}={old}"), 200, false),
        (format!("Cookie: {of_old}={new}"), 400, true),
        (format!("Cookie: {of_new}={old}"), 401, true),
        (format!("Cookie: {of_old}={other}"), 401, false),
        (format!("Authorization: Bearer {other}"), 401, false),
        ("Authorization: Basic abc".to_owned(), 401, true),
        ("Accept: */*".to_owned(), 401, true),
    ] {
        let answer = post(&field);
        assert_eq!(answer.status(), status, "{field}: {answer:?}");
        let told = answer.head.field("www-authenticate").unwrap_or_default();
        assert_eq!(told.contains("resource_metadata"), is_told, "{field}: {told}");
        let exposed = answer.head.field("access-control-expose-headers").unwrap();
        assert!(exposed.contains("WWW-Authenticate"), "a page reads it: {exposed}");
    }
    for (query, field, status) in [
        ("topic=a", format!("Cookie: {of_old}={old}"), 200),
        ("topic=a", format!("Cookie: {of_old}={new}"), 400),
        ("match=a", format!("Cookie: {of_new}={new}"), 200),
        ("match=a", format!("Cookie: {of_new}={old}"), 401),
        ("topic=a", format!("Authorization: Bearer {other}"), 401),
        ("match=a", format!("Authorization: Bearer {other}"), 401),
    ] {
        assert_eq!(hub.status(query, &[&field]), status, "{query} {field}");
    }
    let head = hub.server.ask(get(&format!("{HUB}?match=a"), &[&origin])).head();
    let exposed = head.field("access-control-expose-headers");
    assert_eq!((head.status, exposed), (401, Some("WWW-Authenticate")));
}

/// Clients of 1.0 would hear it as the hub's own.
#[test]
fn token_of_the_old_dialect_publishes_nothing_of_the_hub() {
    let hub = Hub::start(&["--mercure-open", PUBLIC_URL]);
    for topic in [
        "mercure/subscriptions/exact/x/y",
        "https%3A%2F%2Fhub.example%2F.well-known%5Cmercure%5Csubscriptions",
        "https%3A%2F%2Fhub.example%2F.well-known%2Fx%2F..%2Fmercure%2Fsubscriptions",
    ] {
        let answer = hub.publish_by(&super::publisher(), &format!("topic={topic}&data=x"));
        assert_eq!(answer.status(), 403, "{topic}");
    }
    // A plain name of the old dialect stays one.
    let mut stream = hub.listen("topic=%23general", &[]);
    assert_eq!(hub.publish("topic=%23general&data=x").1, 1);
    assert!(stream.chunk().ends_with("data: x\n\n"));
}

/// What a client sends stands in the log, as a line that stays one.
#[test]
fn anonymous_client_writes_no_line_of_the_log() {
    let hub = Hub::start(&["--mercure-open"]);
    let query = "match%0A2026-11-29T00:00:00Z%20ERROR%20forged%0D%1B%5B2J=x";
    assert_eq!(hub.status(query, &[]), 400);
    wait_for("it is logged", || hub.server.stderr().contains("forged"));
    let log = hub.server.stderr();
    let line = log.lines().find(|line| line.contains("forged")).unwrap();
    assert!(line.contains("a client was refused") && !line.contains(['\r', '\x1b']), "{log}");
}
