//! Clients of the hub whose server is replaced: what each is, goes on, or ends in order.

use std::sync::Arc;

use hub::{Claims, Grant, Nobody, TokenRefusal};
use mercure::{DETAIL_TYPE, MatchType};
use serde_json::json;
use topics::{TopicFollowers, list_number};

use super::one::One;
use super::random::Random;
use super::server::{Place, silent_config};
use super::subscribers::{HUB, post};
use crate::config::EngineConfig;
use crate::mercure_config::MercureConfig;
use crate::state::ConnState;
use crate::tokens::{Granted, Outcome, TokenCheck};

/// Verifies tokens that have their claims in the open.
#[derive(Debug)]
struct InTheOpen {
    /// For how long they are good.
    remaining_ms: Option<u64>,
}

/// Headers of tokens of the old dialect and of 1.0: `{"typ":"JWT"}` and `{"typ":"at+jwt"}`.
const HEADERS: [&str; 2] = ["eyJ0eXAiOiJKV1QifQ", "eyJ0eXAiOiJhdCtqd3QifQ"];

impl TokenCheck for InTheOpen {
    fn check(&self, token: &str) -> Option<Outcome> {
        let mut parts = token.split('.');
        let is_v1 = parts.next() == Some(HEADERS[1]);
        let hex = parts.next().unwrap();
        let bytes = (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16));
        let json = String::from_utf8(bytes.collect::<Result<_, _>>().unwrap()).unwrap();
        if json == "null" {
            return Some(Err(TokenRefusal::Revoked));
        }
        let kind = is_v1.then(|| "at+jwt".into());
        let claims = Some(Box::new(Claims { kind, json: json.into() }));
        let grant = Grant { claims, ..Grant::default() };
        Some(Ok(Granted { grant: Arc::new(grant), remaining_ms: self.remaining_ms }))
    }
}

/// The field with a token that lists these, with a payload.
pub(super) fn bearer(is_v1: bool, granted: &[(MatchType, &str)]) -> String {
    let texts: Vec<&str> = granted.iter().map(|(_, text)| *text).collect();
    let topics: Vec<_> = granted
        .iter()
        .map(|(kind, text)| json!({ "match": text, "match_type": kind.name() }))
        .collect();
    let detail = json!({
        "type": DETAIL_TYPE, "actions": ["subscribe"], "topics": topics, "payload": 7,
    });
    let claims = match is_v1 {
        // A detail has at least one.
        true => json!({
            "iss": "a", "aud": "http://hub.test/.well-known/mercure", "exp": 1,
            "authorization_details": if topics.is_empty() { json!([]) } else { json!([detail]) },
        }),
        false => json!({ "mercure": { "subscribe": texts, "payload": 7 } }),
    };
    let hex: String = claims.to_string().bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("Authorization: Bearer {}.{hex}.x\r\n", HEADERS[usize::from(is_v1)])
}

fn hub_config(is_open: bool, has_check: bool) -> MercureConfig {
    let check =
        has_check.then(|| Arc::new(InTheOpen { remaining_ms: None }) as Arc<dyn TokenCheck>);
    MercureConfig { is_open, check, ..MercureConfig::default() }
}

/// A hub for anonymous clients and for those with such tokens.
pub(super) fn guarded() -> One {
    One::start(EngineConfig { mercure: Some(hub_config(true, true)), ..silent_config() })
}

/// Such a hub whose tokens are good for so long.
pub(super) fn guarded_for(remaining_ms: u64) -> One {
    let check = Some(Arc::new(InTheOpen { remaining_ms: Some(remaining_ms) }) as _);
    let mercure = Some(MercureConfig { check, ..MercureConfig::default() });
    One::start(EngineConfig { mercure, ..silent_config() })
}

/// Such a hub as a node of a cluster.
pub(super) fn guarded_node() -> One {
    let mercure = Some(hub_config(true, true));
    One::start(EngineConfig { mercure, cluster: true, ..silent_config() })
}

pub(super) fn subscribe(one: &mut One, query: &str, lines: &str) -> Place {
    let request = format!("GET {HUB}?{query} HTTP/1.0\r\nHost: hub.test\r\n{lines}\r\n");
    one.client(1 << 20, &request)
}

/// An anonymous client and one with a token.
fn two(one: &mut One) -> [Place; 2] {
    let places = [
        subscribe(one, "topic=%7Bword%7D", ""),
        subscribe(one, "topic=%7Bword%7D", &bearer(false, &[(MatchType::Exact, "note")])),
    ];
    places.iter().for_each(|place| assert!(one.reads(*place).ends_with("\r\n\r\n:\n")));
    places
}

#[test]
fn stream_ends_where_the_hub_is_not_for_it_any_more() {
    let cases = [
        (Some(hub_config(true, true)), [false, false]),
        (Some(hub_config(false, true)), [true, false]),
        (Some(hub_config(true, false)), [false, true]),
        (None, [true, true]),
    ];
    for (mercure, ends) in cases {
        let mut one = guarded();
        let places = two(&mut one);
        let text = format!("{mercure:?}");
        one.server.nature.config.mercure = mercure;
        one.upgrade(&mut Random::of_test());
        one.turn_after(1);
        for (place, ends) in places.into_iter().zip(ends) {
            let place = one.server.find(place);
            assert_eq!(one.is_closed(place) || one.wire(place).server_ended, ends, "{text}");
        }
        if let Some(topics) = one.router.topics() {
            let left = ends.iter().filter(|ends| !**ends).count();
            // The one with a token has the list of its grants, too.
            let keys = usize::from(left > 0) + usize::from(!ends[1]);
            assert_eq!(topics.figures().keys, keys, "{text}");
        }
    }
}

#[test]
fn head_that_waits_for_what_was_missed_is_told_behind_an_upgrade() {
    let mut one = guarded();
    let (_, first) = post(&one, "topic=note&data=1&id=urn:1");
    post(&one, "topic=note&data=2&private=on");
    one.turn_after(1);
    let token = bearer(false, &[(MatchType::Exact, "note")]);
    let lines = format!("{token}Last-Event-ID: urn:1\r\n");
    let place = subscribe(&mut one, "topic=%7Bword%7D", &lines);
    let mut random = Random::of_test();
    for _ in 0..2 {
        one.upgrade(&mut random);
        one.turn_after(1);
    }
    let place = one.server.find(place);
    assert_eq!(one.reads(place), "", "its head says what follows");
    let topics = one.router.topics().unwrap().clone();
    assert!(one.answer(&TopicFollowers::new(&topics, &Nobody)) >= 1);
    one.turn_after(1);
    assert_eq!(one.server.resumes.resumed(), 1, "it is told for the first time");
    let read = one.reads(place);
    assert!(read.contains("\r\nLast-Event-ID: urn:1\r\n"), "{first}: {read}");
    assert!(read.ends_with(":\nid: #") || read.ends_with("data: 2\n\n"), "{read}");
    assert!(!read.contains("gap"), "{read}");
}

#[test]
fn list_of_grants_is_written_beside_those_who_have_it() {
    let mut one = guarded();
    let [anonymous, other] = two(&mut one);
    let shard = &mut one.server.shards[0];
    let mut written = |place: Place| -> ConnState { shard.write_down(place.key.slot).unwrap() };
    let (anonymous, other) = (written(anonymous), written(other));
    assert!(anonymous.is_of_hub() && anonymous.lists().next().is_none());
    let (number, key) = other.lists().next().unwrap();
    assert_eq!(list_number(key), Some(number));
    assert!(one.server.shards[0].write_list(key).is_some());
    let more = other.more.as_ref().unwrap();
    assert!(more.ids.is_empty(), "its keys are what it is at the hub");
    assert_eq!(more.subscriber.as_ref().unwrap().payload.as_deref(), Some("7"));
}
