//! Damaged input at each reader: it is read or refused, whatever it is, and what was read keeps its
//! bounds.

use fastrand::Rng;
use mercure::{
    Claims, Dialect, HubUrl, MatchType, Patterns, Presented, Selector, SelectorKind, Subscribe,
    SubscribeRequest, SubscriptionPath, TokenFields, Topic, Update, UpdateFrame, limits,
    push_update,
};
use std::sync::Arc;

use crate::hub;

/// How many mutants of each seed.
const MUTANTS: usize = 1_500;

/// What is put into the place of a byte, or between two.
const ODD: [&str; 28] = [
    "\"", "{", "}", "(", ")", "[", "]", ":", "*", "?", "+", "\\", "/", "//", "..", "%", "%7B",
    "%ff", "&", "=", "#", "@", "\0", "ü", "😀", "|", "(?:", "\u{200d}",
];

/// Shows mutants of `seed` to `read`.
fn mutants(rng: &mut Rng, seed: &str, mut read: impl FnMut(&str)) {
    for _ in 0..MUTANTS {
        let mut text: Vec<char> = seed.chars().collect();
        for _ in 0..rng.usize(1..6) {
            let at = rng.usize(..=text.len());
            let to = (at + rng.usize(..4)).min(text.len());
            let odd = ODD[rng.usize(..ODD.len())].chars();
            match rng.u8(..8) {
                0 => text.truncate(at),
                1 => drop(text.drain(at..to)),
                2 => {
                    let part = text[at..to].to_vec();
                    drop(text.splice(at..at, part.repeat(rng.usize(..40))));
                }
                3 => drop(text.splice(at..at, [rng.char(..)])),
                _ => drop(text.splice(at..to, odd)),
            }
        }
        read(&text.into_iter().collect::<String>());
    }
}

fn rng() -> Rng {
    Rng::with_seed(testing::seed())
}

#[test]
fn selectors_are_read_or_refused_and_tried_on_anything() {
    let rng = &mut rng();
    let topics = ["", "https://example.com/books/1?a#b", "/books/%C3%A9/2", "urn:x:1", "\0", "ü"];
    let hubs = [hub(), HubUrl::parse("http://[::1]:3000/a/hub").unwrap()];
    for seed in [
        "https://example.com/books/{id}{/a,b*}{?q:3}",
        "https://example.com/books/:id(\\d+){/:more}*?q=*#:f",
        "{http}{s}?://:user:pass@*.example.com::port/([a-z]+)+/x",
        "/b{/:a}?/*.{png,jpg}",
    ] {
        mutants(rng, seed, |text| {
            let selectors = [
                Selector::old(text),
                Selector::v1(MatchType::Exact, text, &hubs[0]),
                Selector::v1(MatchType::UrlPattern, text, &hubs[0]),
                Selector::v1(MatchType::UrlPattern, text, &hubs[1]),
            ];
            let (mut patterns, mut own) = (Patterns::new(), 0);
            for selector in selectors.into_iter().flatten().map(Arc::new) {
                assert_eq!(selector.text(), text);
                for topic in topics.into_iter().chain([text]).map(Topic::new) {
                    let is_match = selector.matches(&topic);
                    if selector.kind() == SelectorKind::Exact {
                        assert_eq!(is_match, topic.text() == text);
                    }
                }
                if selector.kind() == SelectorKind::Pattern {
                    let before = patterns.insert(Arc::clone(&selector), ()).unwrap();
                    assert_eq!(before, None, "{text}");
                    let is_found =
                        selector.regex_cost() == 0 && selector.matches(&Topic::new(text));
                    own += u32::from(is_found);
                }
            }
            let mut found = 0;
            patterns.matches(&Topic::new(text), &mut |()| found += 1);
            assert_eq!(found, own, "{text}");
        });
    }
}

#[test]
fn requests_are_read_or_refused() {
    let rng = &mut rng();
    let hub = hub();
    let query = "topic=a&topic=%7Bid%7D&lastEventID=%23x&authorization=y";
    let of_v1 = "match=a&match_urlpattern=%2Fb%2F:id&match_exact=*&last_event_id=x";
    for seed in [query, of_v1] {
        mutants(rng, seed, |text| {
            let token = [None, Some(Dialect::Old), Some(Dialect::V1)][text.len() % 3];
            let body = text.len().is_multiple_of(2).then_some(text.as_bytes());
            let last_event_id = None;
            let request = SubscribeRequest { query: text, body, last_event_id, token, hub: &hub };
            match Subscribe::parse(request) {
                Ok(subscribe) => {
                    assert!((1..=limits::SELECTORS_MAX).contains(&subscribe.selectors.len()));
                }
                Err(refusal) => {
                    let dialect = Subscribe::dialect_of(request);
                    assert!((400..=403).contains(&refusal.status(dialect)), "{refusal}");
                    assert!(refusal.to_string().ends_with('.'), "{refusal}");
                }
            }
            let (authorization, cookie) = ([text], [text]);
            let fields = TokenFields {
                authorization: if text.len().is_multiple_of(5) { &authorization } else { &[] },
                cookie: &cookie,
                origin: None,
                referer: Some(text),
            };
            if let Ok(Some(presented)) = Presented::find(fields, text, token) {
                assert!(!presented.token.is_empty());
                let _ = presented.origin_of_publish(fields);
            }
        });
    }
}

#[test]
fn forms_are_read_or_refused_and_one_update_is_one_event() {
    let rng = &mut rng();
    let hub = hub();
    let form = "topic=https://example.com/a&topic=b&data=x%0D%0Ay%0Az&private&id=i&type=t&retry=30";
    mutants(rng, form, |text| {
        for dialect in [Dialect::Old, Dialect::V1] {
            let update = match Update::parse(text.as_bytes(), dialect, &hub) {
                Ok(update) => update,
                Err(refusal) => {
                    assert!((400..=403).contains(&refusal.status(dialect)), "{refusal}");
                    continue;
                }
            };
            assert!(!update.topics.is_empty());
            assert!(update.topics.iter().all(|topic| topic.len() <= limits::TOPIC_BYTES_MAX));
            let mut out = Vec::new();
            let (id, kind) = (update.id.as_deref().unwrap_or("#1"), update.kind.as_deref());
            push_update(
                &mut out,
                &UpdateFrame { kind, retry: update.retry, id, data: &update.data },
            );
            let text = String::from_utf8(out).unwrap();
            // One blank line, at the end, and no carriage return: one event to every reader.
            assert_eq!(text.find("\n\n"), Some(text.len() - 2), "{text:?}");
            assert!(!text.contains('\r'), "{text:?}");
            let data: Vec<&str> =
                text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
            let sent = update.data.replace("\r\n", "\n").replace('\r', "\n");
            assert_eq!(data.join("\n"), sent);
        }
    });
}

#[test]
fn claims_and_paths_are_read_or_refused() {
    let rng = &mut rng();
    let hub = hub();
    let old = r#"{"mercure":{"publish":["a","{id}"],"subscribe":["*"],"payload":{"user":"bob"}}}"#;
    let v1 = r#"{"authorization_details":[{"type":"https://mercure.rocks/authorization-detail",
        "actions":["publish","subscribe"],"topics":[{"match":"/:id","match_type":"urlpattern"},
        {"match":"bar"}],"payload":{"user":"bob"}}]}"#;
    let selector = Selector::old("a").unwrap();
    for seed in [old, v1] {
        mutants(rng, seed, |text| {
            let Ok(claims) = serde_json::from_str(text) else { return };
            for dialect in [Dialect::Old, Dialect::V1] {
                if let Ok(claims) = Claims::parse(dialect, &claims, &hub) {
                    let topics = [Topic::new("a"), Topic::new("/b")];
                    let (publish, subscribe) = (claims.publish(), claims.subscribe());
                    assert!(!publish.covers(&topics) || publish.reaches(&topics));
                    assert!(!subscribe.is_empty() || !subscribe.reaches(&topics));
                    let _ = claims.payload_of(&selector);
                }
            }
        });
    }
    mutants(rng, "/.well-known/mercure/subscriptions/exact/a%2Fb/urn%3Auuid%3A1", |text| {
        for dialect in [Dialect::Old, Dialect::V1] {
            if let Some(path) = SubscriptionPath::parse(dialect, text) {
                let normal = path.to_string();
                assert_eq!(SubscriptionPath::parse(dialect, &normal), Some(path), "{text}");
            }
        }
    });
}
