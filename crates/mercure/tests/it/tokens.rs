//! What claims grant, and what is answered where they do not.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mercure::{
    Claims, ClaimsFault, DETAIL_TYPE, Dialect, MatchType, Refusal, Selector, Topic, limits,
};
use serde_json::{Value, json};

use crate::hub;

/// The tokens of the specification: all may be published; a subscriber with a payload; both, in
/// 1.0.
const TOKENS: [&str; 3] = [
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJtZXJjdXJlIjp7InB1Ymxpc2giOlsiKiJdfX0.\
     a8cjcSRUAcHdnGNMKifA4BK5epRXxQI0UBp2XpNrBdw",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJtZXJjdXJlIjp7InN1YnNjcmliZSI6WyJodHRwczovL2V4YW1wbGUu\
     Y29tL2Jvb2tzL3tpZH0iXSwicGF5bG9hZCI6eyJ1c2VyIjoiYm9iIn19fQ.\
     VPmJeb0UihoZlrfVE7EMDh0MmTBfEPsAZq6NXBcELiY",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJpc3MiOiJodHRwczovL2FwcC5leGFtcGxlIiwiYXVkIjoiaHR0\
     cHM6Ly9odWIuZXhhbXBsZS8ud2VsbC1rbm93bi9tZXJjdXJlIiwiZXhwIjo0MTAyNDQ0ODAwLCJhdXRob3JpemF0aW9uX2\
     RldGFpbHMiOlt7InR5cGUiOiJodHRwczovL21lcmN1cmUucm9ja3MvYXV0aG9yaXphdGlvbi1kZXRhaWwiLCJhY3Rpb25z\
     IjpbInB1Ymxpc2giLCJzdWJzY3JpYmUiXSwidG9waWNzIjpbeyJtYXRjaCI6IioifV19XX0.\
     xuoK7by66ANxoLwV4UT2epDuoOq_BW78V3bGMDBtnmU",
];

/// The claims of a token whose signature nobody looks at here.
fn of_token(token: &str) -> Claims {
    let mut parts = token.split('.').map(|part| -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap_or_default()
    });
    let header = parts.next().unwrap();
    let dialect = Dialect::of_token(header["typ"].as_str());
    assert_eq!(Dialect::of_unverified(token), dialect);
    Claims::parse(dialect, &parts.next().unwrap(), &hub()).unwrap()
}

fn old(claims: Value) -> Result<Claims, ClaimsFault> {
    Claims::parse(Dialect::Old, &claims, &hub())
}

fn v1(details: Value) -> Result<Claims, ClaimsFault> {
    Claims::parse(Dialect::V1, &json!({ "authorization_details": details }), &hub())
}

fn may_publish(claims: &Claims, topics: &[&str]) -> bool {
    let topics: Vec<Topic<'_>> = topics.iter().map(|topic| Topic::new(topic)).collect();
    claims.publish().covers(&topics)
}

fn may_hear(claims: &Claims, topics: &[&str]) -> bool {
    let topics: Vec<Topic<'_>> = topics.iter().map(|topic| Topic::new(topic)).collect();
    claims.subscribe().reaches(&topics)
}

#[test]
fn tokens_of_the_specification_grant_what_it_says() {
    // The decoder of base64 bears no line break, and the texts have none.
    let [publisher, subscriber, both] = TOKENS.map(of_token);
    assert!(may_publish(&publisher, &["a", "https://example.com/"]));
    assert!(publisher.subscribe().is_empty() && !may_hear(&publisher, &["a"]));
    assert!(!may_publish(&subscriber, &["https://example.com/books/1"]));
    assert!(may_hear(&subscriber, &["x", "https://example.com/books/1"]));
    assert!(!may_hear(&subscriber, &["https://example.com/books/1/2"]));
    let selector = Selector::old("anything").unwrap();
    let payload = subscriber.payload_of(&selector).unwrap();
    assert_eq!(payload.get(), r#"{"user":"bob"}"#);
    assert_eq!(both.dialect(), Dialect::V1);
    assert!(both.publish().is_all() && both.subscribe().is_all());
    assert!(both.payload_of(&selector).is_none());
}

#[test]
fn every_topic_of_an_update_must_be_granted() {
    let claims = old(json!({"mercure": {"publish": ["a", "b/{id}"]}})).unwrap();
    for (topics, expected) in [
        (&["a"][..], true),
        (&["b/1"], true),
        (&["a", "b/1"], true),
        (&["a", "c"], false),
        (&["c", "a"], false),
        (&["b/1/2"], false),
        (&["b/{id}"], true),
        (&[], false),
    ] {
        assert_eq!(may_publish(&claims, topics), expected, "{topics:?}");
    }
}

#[test]
fn claim_of_the_old_dialect_may_have_either_name() {
    let url = "https://mercure.rocks/";
    assert!(may_publish(&old(json!({url: {"publish": ["a"]}})).unwrap(), &["a"]));
    let both = old(json!({"mercure": {"publish": ["a"]}, url: {"publish": ["b"]}})).unwrap();
    assert!(may_publish(&both, &["b"]) && !may_publish(&both, &["a"]));
    for claims in [
        json!({"mercure": {}}),
        json!({"mercure": {"publish": [], "subscribe": null, "payload": null}}),
        json!({"mercure": {"Publish": ["*"]}, "publish": ["*"]}),
    ] {
        let claims = old(claims).unwrap();
        assert!(claims.publish().is_empty() && claims.subscribe().is_empty(), "{claims:?}");
        assert!(!may_publish(&claims, &["a"]) && !may_hear(&claims, &["a"]));
    }
    for claims in [
        json!({}),
        json!({"sub": "bob", "aud": "another service"}),
        json!({"mercure": null}),
        json!({"authorization_details": [{"type": DETAIL_TYPE, "actions": ["publish"],
            "topics": [{"match": "*"}]}]}),
        json!([]),
        json!({"mercure": []}),
        json!({"mercure": "*"}),
        json!({"mercure": {"publish": "*"}}),
        json!({"mercure": {"publish": {"a": 1}}}),
        json!({"mercure": {"publish": ["a", 1]}}),
        json!({"mercure": {"publish": ["a"], "subscribe": [null]}}),
    ] {
        let refusal = Refusal::from(old(claims.clone()).unwrap_err());
        assert_eq!(refusal.status(Dialect::Old), 401, "{claims}");
    }
}

#[test]
fn old_claims_have_a_bound() {
    let listed = |count: usize| -> Value {
        let topics: Vec<String> = (0..count).map(|number| format!("{number}/{{id}}")).collect();
        json!({"mercure": {"publish": topics}})
    };
    assert!(may_publish(&old(listed(limits::SELECTORS_MAX)).unwrap(), &["999/x"]));
    assert_eq!(old(listed(limits::SELECTORS_MAX + 1)).unwrap_err(), ClaimsFault::TooMany);
}

#[test]
fn details_grant_by_action_and_matcher() {
    let claims = v1(json!([
        {"type": "https://other.example/", "actions": 7},
        {"type": DETAIL_TYPE, "actions": ["subscribe", "dance"], "topics": [
            {"match": "https://example.com/books/:id", "match_type": "urlpattern"},
            {"match": "bar"}], "payload": {"user": "bob"}},
        {"type": DETAIL_TYPE, "actions": ["publish"], "topics": [
            {"match": "foo", "match_type": "exact"}]},
        {"type": DETAIL_TYPE, "actions": ["dance"], "topics": [{"match": "*"}]},
        {"type": DETAIL_TYPE, "actions": ["subscribe"], "topics": [{"match": "*"}],
            "payload": [1, 2]},
    ]))
    .unwrap();
    assert!(may_publish(&claims, &["foo"]) && !may_publish(&claims, &["bar"]));
    assert!(claims.subscribe().is_all());
    let payload = |match_type, text| {
        let selector = Selector::v1(match_type, text, &hub()).unwrap();
        claims.payload_of(&selector).map(|payload| payload.get().to_owned())
    };
    let (bob, other) = (Some(r#"{"user":"bob"}"#.to_owned()), Some("[1,2]".to_owned()));
    assert_eq!(payload(MatchType::Exact, "bar"), bob);
    assert_eq!(payload(MatchType::Exact, "https://example.com/books/1"), bob);
    // The string of the subscription, not what it matches: here a pattern that the grant matches.
    assert_eq!(payload(MatchType::UrlPattern, "https://example.com/books/:id"), bob);
    assert_eq!(payload(MatchType::Exact, "https://example.com/books/1/2"), other);
    assert_eq!(payload(MatchType::Exact, "*"), other);
    let none = Claims::parse(Dialect::V1, &json!({"mercure": {"publish": ["*"]}}), &hub()).unwrap();
    assert!(none.publish().is_empty() && none.subscribe().is_empty());
}

#[test]
fn fault_in_one_detail_makes_the_whole_token_invalid() {
    let good = json!({"type": DETAIL_TYPE, "actions": ["publish"], "topics": [{"match": "*"}]});
    assert!(v1(json!([good])).is_ok());
    let with = |name: &str, value: Value| {
        let mut detail = good.clone();
        match value {
            Value::Null => drop(detail.as_object_mut().unwrap().remove(name)),
            value => detail[name] = value,
        }
        detail
    };
    for bad in [
        with("actions", Value::Null),
        with("actions", json!([])),
        with("actions", json!("publish")),
        with("actions", json!(["publish", 1])),
        with("topics", Value::Null),
        with("topics", json!([])),
        with("topics", json!({"match": "*"})),
        with("topics", json!(["*"])),
        with("topics", json!([{}])),
        with("topics", json!([{"match": 1}])),
        with("topics", json!([{"match": "*", "match_type": "uritemplate"}])),
        with("topics", json!([{"match": "a", "match_type": "Exact"}])),
        with("topics", json!([{"match": "a", "match_type": null}])),
        with("topics", json!([{"match": "{", "match_type": "urlpattern"}])),
        with("topics", json!([{"match": "a\n"}])),
        with("type", Value::Null),
        json!("publish"),
    ] {
        let fault = v1(json!([good, bad])).unwrap_err();
        let refusal = Refusal::from(fault);
        assert_eq!(refusal.status(Dialect::V1), 401, "{bad}");
        assert_eq!(refusal.error_code(Dialect::V1), Some("invalid_token"), "{bad}");
    }
    assert_eq!(v1(json!({"type": DETAIL_TYPE})).unwrap_err(), ClaimsFault::Details);
    let many = vec![json!({"match": "a"}); limits::DETAIL_TOPICS_MAX + 1];
    assert_eq!(v1(json!([with("topics", json!(many))])).unwrap_err(), ClaimsFault::TooMany);
    let costly = |count: usize| {
        let url = |n| json!({"match": format!("/{n}/:x(\\d{{200}})"), "match_type": "urlpattern"});
        v1(json!([with("topics", (0..count).map(url).collect())]))
    };
    let most = limits::DETAIL_REGEX_COST_MAX / 4;
    assert_eq!(costly(most).unwrap().publish().patterns().count(), most);
    assert_eq!(costly(most + 1).unwrap_err(), ClaimsFault::TooCostly);
}

#[test]
fn grants_with_the_same_meaning_are_equal() {
    let grants = |publish: Value| old(json!({"mercure": {"publish": publish}})).unwrap();
    let equal = |a, b| grants(a).publish() == grants(b).publish();
    assert!(equal(json!(["a", "b/{c}"]), json!(["b/{c}", "a", "a"])));
    assert!(equal(json!(["a", "*"]), json!(["*", "{x}"])));
    assert!(equal(json!([]), json!(null)));
    assert!(!equal(json!(["a"]), json!(["b"])));
    assert!(!equal(json!(["{a}"]), json!(["template {a}"])));
    assert!(!equal(json!(["*"]), json!(["a"])));
}

#[test]
fn what_is_no_token_is_of_the_old_dialect() {
    for text in ["", ".", "a.b.c", "bnVsbA.x.y", "eyJ0eXAiOjF9.x.y"] {
        assert_eq!(Dialect::of_unverified(text), Dialect::Old, "{text}");
    }
}

#[test]
fn refusals_are_told_as_each_dialect_has_them() {
    let metadata = "https://hub.example/.well-known/oauth-protected-resource/.well-known/mercure";
    let resource = format!("resource_metadata=\"{metadata}\"");
    for (refusal, old, v1, code) in [
        (Refusal::NoToken, 401, 401, None),
        (Refusal::BadToken("it has expired".into()), 401, 401, Some("invalid_token")),
        (Refusal::NoGrant, 403, 403, Some("insufficient_scope")),
        (Refusal::NotBearer, 401, 400, Some("invalid_request")),
        (Refusal::TokenInQuery, 400, 400, Some("invalid_request")),
        (Refusal::ForeignOrigin("null".to_owned()), 401, 400, Some("invalid_request")),
    ] {
        assert_eq!((refusal.status(Dialect::Old), refusal.status(Dialect::V1)), (old, v1));
        assert_eq!(refusal.error_code(Dialect::Old), None);
        assert_eq!(refusal.error_code(Dialect::V1), code);
        let challenge = refusal.challenge(Dialect::V1, Some(metadata)).unwrap();
        let expected = match code {
            None => format!("Bearer {resource}"),
            Some(code) => format!("Bearer error=\"{code}\", {resource}"),
        };
        assert_eq!(challenge, expected);
        let old_challenge = refusal.challenge(Dialect::Old, Some(metadata));
        assert_eq!(old_challenge.as_deref(), (old == 401).then_some("Bearer"), "{refusal}");
        assert!(refusal.to_string().ends_with('.'), "{refusal}");
    }
}
