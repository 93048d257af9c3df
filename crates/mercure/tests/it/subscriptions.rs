//! Documents and paths of subscriptions.

use mercure::{
    Dialect, MatchType, Selector, Subscription, SubscriptionPath, Topic, collection, etag,
    is_not_modified, subscriptions_content_type,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::hub;

const SUBSCRIBER: &str = "urn:uuid:bb3de268-05b0-4c65-b44e-8f9acefc29d6";
const OLD_PATH: &str = "/.well-known/mercure/subscriptions/\
                        https%3A%2F%2Fexample.com%2F%7Bselector%7D/\
                        urn%3Auuid%3Abb3de268-05b0-4c65-b44e-8f9acefc29d6";

/// What a collection of these answers.
fn whole(path: &SubscriptionPath<'_>, last: &str, listed: &[&Subscription<'_>]) -> String {
    let (head, foot) = collection(path, last);
    let listed: Vec<String> = listed.iter().map(|one| one.listed()).collect();
    format!("{head}{}{foot}", listed.join(","))
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn path_of_a_subscription_is_encoded_once() {
    let old = Selector::old("https://example.com/{selector}").unwrap();
    assert_eq!(SubscriptionPath::one(&old, SUBSCRIBER).to_string(), OLD_PATH);
    let v1 = Selector::v1(MatchType::UrlPattern, "/a b/:é", &hub()).unwrap();
    assert_eq!(
        SubscriptionPath::one(&v1, "x~y").to_string(),
        "/.well-known/mercure/subscriptions/urlpattern/%2Fa%20b%2F%3A%C3%A9/x~y"
    );
    let of_selector = SubscriptionPath::of(Dialect::V1, MatchType::Exact, "*");
    assert_eq!(of_selector.to_string(), "/.well-known/mercure/subscriptions/exact/%2A");
    let all = SubscriptionPath::all(Dialect::Old);
    assert_eq!(all.to_string(), "/.well-known/mercure/subscriptions");
}

#[test]
fn paths_are_read_as_they_are_written() {
    let base = "/.well-known/mercure/subscriptions";
    for (dialect, path, text, subscriber) in [
        (Dialect::Old, "", None, None),
        (Dialect::Old, "/a", Some("a"), None),
        (Dialect::Old, "/a%20b/s", Some("a b"), Some("s")),
        (Dialect::Old, "/exact/a", Some("exact"), Some("a")),
        (Dialect::Old, "/a+b", Some("a+b"), None),
        (Dialect::V1, "", None, None),
        (Dialect::V1, "/exact/a", Some("a"), None),
        (Dialect::V1, "/urlpattern/%2F%3Aid/s", Some("/:id"), Some("s")),
    ] {
        let given = format!("{base}{path}");
        let read = SubscriptionPath::parse(dialect, &given).unwrap();
        assert_eq!((read.text(), read.subscriber()), (text, subscriber), "{path}");
        assert_eq!(read.dialect(), dialect);
        let again = read.to_string();
        assert_eq!(SubscriptionPath::parse(dialect, &again).as_ref(), Some(&read), "{path}");
    }
    // Other spellings are the same path, whose normal form is what must be granted.
    let read = SubscriptionPath::parse(Dialect::Old, "/.well-known/mercure/subscriptions/%61%2f");
    assert_eq!(read.unwrap().to_string(), "/.well-known/mercure/subscriptions/a%2F");
    for (dialect, path) in [
        (Dialect::Old, "/"),
        (Dialect::Old, "/a/"),
        (Dialect::Old, "/a/b/c"),
        (Dialect::Old, "//s"),
        (Dialect::Old, "x"),
        (Dialect::Old, "/%ff"),
        (Dialect::Old, "/a/%ff"),
        (Dialect::V1, "/exact"),
        (Dialect::V1, "/Exact/a"),
        (Dialect::V1, "/a/b"),
        (Dialect::V1, "/exact/a/b/c"),
    ] {
        assert_eq!(SubscriptionPath::parse(dialect, &format!("{base}{path}")), None, "{path}");
    }
    for path in ["", "/", "/.well-known/mercure", "/x/.well-known/mercure/subscriptions"] {
        assert_eq!(SubscriptionPath::parse(Dialect::Old, path), None, "{path}");
    }
}

#[test]
fn templates_of_tokens_open_paths() {
    let all = Selector::old("/.well-known/mercure/subscriptions{/topic}{/subscriber}").unwrap();
    let one = Selector::old("/.well-known/mercure/subscriptions/{topic}").unwrap();
    let old = Selector::old("https://example.com/{selector}").unwrap();
    let path = SubscriptionPath::one(&old, SUBSCRIBER).to_string();
    assert!(all.matches(&Topic::new(&path)));
    assert!(!one.matches(&Topic::new(&path)));
    let parent = SubscriptionPath::of(Dialect::Old, MatchType::Exact, old.text()).to_string();
    assert!(all.matches(&Topic::new(&parent)) && one.matches(&Topic::new(&parent)));
}

#[test]
fn path_contains_what_lies_below_it() {
    let parse = |path| SubscriptionPath::parse(Dialect::V1, path).unwrap();
    let all = parse("/.well-known/mercure/subscriptions");
    let exact = parse("/.well-known/mercure/subscriptions/exact/a");
    let one = parse("/.well-known/mercure/subscriptions/exact/a/s");
    let pattern = parse("/.well-known/mercure/subscriptions/urlpattern/a/s");
    for (outer, inner, expected) in [
        (&all, &one, true),
        (&all, &pattern, true),
        (&exact, &one, true),
        (&exact, &pattern, false),
        (&one, &one, true),
        (&one, &pattern, false),
        (&one, &exact, false),
    ] {
        assert_eq!(outer.contains(inner), expected, "{outer} and {inner}");
    }
    let old = SubscriptionPath::parse(Dialect::Old, "/.well-known/mercure/subscriptions").unwrap();
    assert!(!old.contains(&one));
}

#[test]
fn documents_have_the_members_of_each_dialect() {
    let payload: Box<RawValue> = serde_json::from_str(r#"{"user":"bob"}"#).unwrap();
    let old = Selector::old("https://example.com/{selector}").unwrap();
    let path = SubscriptionPath::one(&old, SUBSCRIBER);
    let old = Subscription { path, is_active: true, payload: Some(&payload) };
    let document = json!({
        "@context": "https://mercure.rocks/", "id": OLD_PATH, "type": "Subscription",
        "topic": "https://example.com/{selector}", "subscriber": SUBSCRIBER, "active": true,
        "payload": {"user": "bob"},
    });
    assert_eq!(value(&old.json()), document);
    let mut answer = document.clone();
    answer["lastEventID"] = json!("x");
    assert_eq!(value(&old.answer("x")), answer);
    let mut listed = document;
    listed.as_object_mut().unwrap().remove("@context");
    let all = SubscriptionPath::all(Dialect::Old);
    assert_eq!(
        value(&whole(&all, "earliest", &[&old])),
        json!({
            "@context": "https://mercure.rocks/", "id": "/.well-known/mercure/subscriptions",
            "type": "Subscriptions", "lastEventID": "earliest", "subscriptions": [listed],
        })
    );

    let selector = Selector::v1(MatchType::Exact, "bar", &hub()).unwrap();
    let path = SubscriptionPath::one(&selector, SUBSCRIBER);
    let id = path.to_string();
    let v1 = Subscription { path, is_active: false, payload: None };
    let document = json!({
        "id": id, "type": "subscription", "match_type": "exact", "match": "bar",
        "subscriber": SUBSCRIBER, "active": false,
    });
    assert_eq!(value(&v1.json()), document);
    assert_eq!(value(&v1.answer("x")), document);
    let all = SubscriptionPath::all(Dialect::V1);
    assert_eq!(
        value(&whole(&all, "x", &[&v1])),
        json!({
            "id": "/.well-known/mercure/subscriptions", "type": "subscriptions",
            "subscriptions": [document],
        })
    );
    assert_eq!(subscriptions_content_type(Dialect::Old), "application/ld+json");
    assert_eq!(subscriptions_content_type(Dialect::V1), "application/json");
    assert_eq!(Dialect::Old.own_event_name(), None);
    assert_eq!(Dialect::V1.own_event_name(), Some("mercure"));
}

#[test]
fn tag_is_the_last_id() {
    assert_eq!(etag(Dialect::Old, "urn:x:1"), "urn:x:1");
    assert_eq!(etag(Dialect::V1, "urn:x:1"), "\"urn:x:1\"");
    assert_eq!(etag(Dialect::V1, "a\"b"), "\"a%22b\"");
    for dialect in [Dialect::Old, Dialect::V1] {
        for given in ["a,b", "\"a,b\"", "W/\"a,b\"", " \"a,b\" ", "*"] {
            assert!(is_not_modified(given, dialect, "a,b"), "{given}");
        }
        for given in ["\"x\", \"a\"", "x,a", "W/\"a\",y"] {
            assert!(is_not_modified(given, dialect, "a"), "{given}");
        }
        for given in ["", "b", "\"b\"", "\"a", "A", "aa"] {
            assert!(!is_not_modified(given, dialect, "a"), "{given}");
        }
    }
}
