//! One shard whose clients speak the Mercure protocol: what each is answered, and what it hears.

mod kept;

use hub::{Draft, EventParts, HistoryLimits, Nobody, Payload};
use mercure::{Dialect, HubUrl, Update};
use topics::{TopicFollowers, UpdateFollowers, payload};

use super::one::One;
use super::server::{Place, posted, silent_config};
use crate::Outgoing;
use crate::config::EngineConfig;
use crate::mailbox::Mail;
use crate::mercure_config::MercureConfig;
use crate::receipt::Receipt;

pub(super) const HUB: &str = "/.well-known/mercure";

fn hub() -> One {
    let mercure = Some(MercureConfig { is_open: true, ..MercureConfig::default() });
    One::start(EngineConfig { mercure, ..silent_config() })
}

fn subscribe(one: &mut One, query: &str, lines: &str) -> Place {
    one.client(1 << 20, &format!("GET {HUB}?{query} HTTP/1.0\r\nHost: hub.test\r\n{lines}\r\n"))
}

/// The head and what follows it.
fn answer(one: &mut One, place: Place) -> (String, String) {
    let read = one.reads(place);
    let (head, body) = read.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

/// Publishes a form; how many heard it, and Encke's id.
fn publish(one: &mut One, form: &str) -> (u32, String) {
    let (receipt, id) = post(one, form);
    one.turn_after(1);
    (receipt.ready().unwrap(), id)
}

/// Posts a form.
pub(super) fn post(one: &One, form: &str) -> (Receipt, String) {
    let address = HubUrl::parse("http://hub.test/.well-known/mercure").unwrap();
    let update = Update::parse(form.as_bytes(), Dialect::Old, &address).unwrap();
    let topics = one.router.topics().unwrap().clone();
    let (keys, under_way) = topics.begin(&update.topics, update.is_private, 1).unwrap();
    let also: Vec<&str> = keys.also.iter().map(String::as_str).collect();
    let data = payload(&update);
    let parts = EventParts {
        about: &keys.about,
        also: &also,
        name: update.kind.as_deref(),
        from: None,
        payload: Payload::Json(&data),
    };
    let outgoing = Outgoing::from(Draft::of_key(parts).unwrap());
    let followers = UpdateFollowers::new(&topics, &update.topics);
    let mut sending = one.router.send(outgoing);
    let receipt = posted(&mut sending, &followers);
    let event = sending.event().unwrap().clone();
    under_way.posted(event.number(), update.id.as_deref());
    drop(sending);
    (receipt, event.id().to_owned())
}

/// Answers what clients that came back ask, and lets them read it.
fn answer_resumes(one: &mut One) {
    let topics = one.router.topics().unwrap().clone();
    while one.answer(&TopicFollowers::new(&topics, &Nobody)) > 0 {
        one.turn_after(1);
    }
}

#[test]
fn update_comes_as_the_protocol_has_it_and_once() {
    let mut one = hub();
    let both = "topic=https%3A%2F%2Fa.test%2Fbooks%2F%7Bid%7D&topic=note";
    let place = subscribe(&mut one, both, "");
    let (head, body) = answer(&mut one, place);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"), "{head}");
    assert!(!head.contains("Last-Event-ID"), "it has asked for no place: {head}");
    assert_eq!(body, ":\n");
    let other = subscribe(&mut one, "topic=https://a.test/books/2", "");
    one.reads(other);
    let form = "topic=https://a.test/books/1&topic=note&data=a%0D%0Ab&type=t&retry=3000&id=urn:x:1";
    assert_eq!(publish(&mut one, form).0, 1);
    let heard = "event: t\nretry: 3000\nid: urn:x:1\ndata: a\ndata: b\n\n";
    assert_eq!((one.reads(place), one.reads(other)), (heard.to_owned(), String::new()));
    let (count, id) = publish(&mut one, "topic=https://a.test/books/2&data=%7B%22x%22:1%7D");
    let heard = format!("id: #{id}\ndata: {{\"x\":1}}\n\n");
    assert_eq!((count, one.reads(place), one.reads(other)), (2, heard.clone(), heard));
}

#[test]
fn private_update_reaches_no_anonymous_client() {
    let mut one = hub();
    let places: Vec<Place> = ["*", "note", "%7Bword%7D"]
        .map(|topic| subscribe(&mut one, &format!("topic={topic}"), ""))
        .into();
    assert_eq!(publish(&mut one, "topic=note&data=x&private=on").0, 0);
    assert_eq!(publish(&mut one, "topic=note&data=y").0, 3);
    for place in places {
        let heard = one.reads(place);
        assert!(heard.ends_with("\ndata: y\n\n") && !heard.contains("data: x"), "{heard}");
    }
    let back = subscribe(&mut one, "topic=*&lastEventID=earliest", "");
    answer_resumes(&mut one);
    let heard = one.reads(back);
    assert!(heard.contains("data: y") && !heard.contains("data: x"), "{heard}");
}

#[test]
fn who_comes_back_hears_what_was_missed_by_topic_and_by_pattern() {
    let mut one = hub();
    let (_, first) = publish(&mut one, "topic=https://a.test/1&data=1");
    publish(&mut one, "topic=https://a.test/2&topic=https://a.test/3&data=2&id=urn:2");
    publish(&mut one, "topic=https://b.test/1&data=3");
    for (topic, heard) in [
        ("https://a.test/%7Bid%7D", &["2", "4"][..]),
        ("*", &["2", "3", "4"]),
        ("https://a.test/3", &["2"]),
        ("https://a.test/9", &["4"]),
    ] {
        let mut one = hub();
        let (_, first) = publish(&mut one, "topic=https://a.test/1&data=1");
        publish(&mut one, "topic=https://a.test/2&topic=https://a.test/3&data=2&id=urn:2");
        publish(&mut one, "topic=https://b.test/1&data=3");
        let line = format!("Last-Event-ID: #{first}\r\n");
        let place = subscribe(&mut one, &format!("topic={topic}"), &line);
        assert_eq!(one.reads(place), "", "its head says what follows");
        // Meanwhile.
        publish(&mut one, "topic=https://a.test/9&data=4");
        answer_resumes(&mut one);
        let (head, body) = answer(&mut one, place);
        assert!(head.contains(&format!("\r\nLast-Event-ID: #{first}")), "{head}");
        let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
        assert_eq!(data.collect::<Vec<_>>(), heard, "{topic}");
    }
    // The id of a publisher is a place as well, and so is that of an update of others.
    for asked in ["urn:2", &*first] {
        let place =
            subscribe(&mut one, "topic=https://b.test/1", &format!("Last-Event-ID: {asked}\r\n"));
        answer_resumes(&mut one);
        let (head, body) = answer(&mut one, place);
        assert!(head.contains(&format!("\r\nLast-Event-ID: {asked}")), "{head}");
        assert!(body.ends_with("data: 3\n\n"), "{body}");
    }
}

#[test]
fn place_that_is_unknown_or_forgotten_is_told() {
    let mercure = Some(MercureConfig { is_open: true, ..MercureConfig::default() });
    let history = HistoryLimits { events_max: 2, ..HistoryLimits::default() };
    let mut one = One::start(EngineConfig { mercure, history, ..silent_config() });
    let (_, first) = publish(&mut one, "topic=note&data=1");
    for data in 2..=5 {
        publish(&mut one, &format!("topic=note&data={data}"));
    }
    for query in ["topic=note&lastEventID=urn:nobody", "topic=*&last_event_id=%23ffff"] {
        let place = subscribe(&mut one, query, "");
        let (head, body) = answer(&mut one, place);
        assert!(head.contains("\r\nLast-Event-ID: earliest"), "{head}");
        assert!(body.starts_with(":\nevent: gap\nid: #"), "{body}");
        publish(&mut one, "topic=note&data=live");
        assert!(one.reads(place).ends_with("data: live\n\n"));
    }
    for topic in ["note", "*", "%7Bword%7D"] {
        let query = format!("topic={topic}&Last-Event-ID=%23{first}");
        let place = subscribe(&mut one, &query, "");
        answer_resumes(&mut one);
        let (head, body) = answer(&mut one, place);
        assert!(head.contains("\r\nLast-Event-ID: earliest"), "{head}");
        assert!(body.starts_with(":\nevent: gap\n"), "{body}");
        assert_eq!(body.matches("data: live").count(), 2, "what is left follows: {body}");
    }
}

#[test]
fn page_that_is_silent_is_told_where_it_stands_and_of_no_gap() {
    let mercure = Some(MercureConfig { is_open: true, ..MercureConfig::default() });
    let mut config = EngineConfig { mercure, ..silent_config() };
    config.settings.keepalive_ms = 1_000;
    let mut one = One::start(config);
    // As an `EventSource` asks, and as any other client does.
    let page = "Sec-Fetch-Mode: cors\r\nCache-Control: no-cache\r\n";
    let (page, other) = (
        subscribe(&mut one, "topic=%7Bword%7D", page),
        subscribe(&mut one, "topic=%7Bword%7D", ""),
    );
    let (_, first) = publish(&mut one, "topic=note&data=1");
    publish(&mut one, "topic=https://a.test/books&data=2");
    one.reads(page);
    one.reads(other);
    one.turn_after(1_000);
    let (told, not_told) = (one.reads(page), one.reads(other));
    assert_eq!(not_told, ":\n");
    let last = told.strip_prefix("id: ").and_then(|rest| rest.strip_suffix("\n\n")).unwrap();
    assert_ne!(last, format!("#{first}"), "it has heard nothing, but knows that");
    // What is older than that is forgotten.
    let hub::Place::Known(number) = one.router.event_ids().known(&last.as_bytes()[1..]) else {
        panic!("{last} is no place")
    };
    one.router.topics().unwrap().begun_at(number);
    for (place, is_gap) in [(last, false), (&format!("#{first}"), true)] {
        let line = format!("Last-Event-ID: {place}\r\n");
        let back = subscribe(&mut one, "topic=%7Bword%7D", &line);
        answer_resumes(&mut one);
        let (head, body) = answer(&mut one, back);
        assert_eq!(body.contains("event: gap"), is_gap, "{place}: {head} {body}");
        assert_eq!(head.contains("\r\nLast-Event-ID: earliest"), is_gap, "{head}");
    }
}

#[test]
fn url_pattern_hears_and_finds_what_it_matches() {
    let mut one = hub();
    let pattern = "match_urlpattern=https%3A%2F%2Fa.test%2F%3Aid";
    let place = subscribe(&mut one, pattern, "");
    let (head, body) = answer(&mut one, place);
    assert!(!head.contains("Last-Event-ID") && body == ":\n", "it has asked for no place: {head}");
    let (count, first) = publish(&mut one, "topic=https://a.test/1&data=1");
    publish(&mut one, "topic=https://a.test/1/2&data=2");
    let (_, last) = publish(&mut one, "topic=other&topic=https://A.test:443/2?x&data=3");
    let heard = format!("id: #{first}\ndata: 1\n\nid: #{last}\ndata: 3\n\n");
    assert_eq!((count, one.reads(place)), (1, heard));
    let back = subscribe(&mut one, pattern, &format!("Last-Event-ID: #{first}\r\n"));
    answer_resumes(&mut one);
    let (head, body) = answer(&mut one, back);
    assert!(head.contains(&format!("\r\nMercure-Last-Event-ID: #{first}")), "{head}");
    assert_eq!(body, format!(":\nid: #{last}\ndata: 3\n\n"));
    assert_eq!(one.router.topics().unwrap().figures().patterns, 1);
    for place in [place, back] {
        one.wire(place).client_ends();
        one.turn_after(1);
    }
    assert_eq!(one.router.topics().unwrap().figures().keys, 0);
}

#[test]
fn request_that_is_none_is_refused_and_nothing_is_kept() {
    let mut one = hub();
    let faults =
        ["", "match=", "match=a&Match=b", "match_urlpattern=%7B", "topic=a&match=b", "x=1"];
    for (query, status) in faults.map(|query| (query, 400)) {
        let place = subscribe(&mut one, query, "");
        let (head, _) = answer(&mut one, place);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{query}: {head}");
        one.wire(place).client_ends();
        one.turn_after(1);
    }
    let place = subscribe(&mut one, "topic=%7Ba%7D&topic=*&topic=b", "");
    assert_eq!(one.router.topics().unwrap().figures().keys, 2);
    one.wire(place).client_ends();
    one.turn_after(1);
    assert_eq!(one.router.topics().unwrap().figures().keys, 0);
    assert!(one.router.names().is_empty(), "nobody listens any more");
}

#[test]
fn stream_that_ends_before_it_knows_what_was_missed_has_a_head() {
    let mut one = hub();
    let (_, first) = publish(&mut one, "topic=note&data=1");
    let place = subscribe(&mut one, "topic=note", &format!("Last-Event-ID: #{first}\r\n"));
    assert_eq!(one.reads(place), "");
    one.server.shards[0].mail(Mail::Drain { deadline_ms: u64::MAX });
    one.turn_after(1);
    let (head, body) = answer(&mut one, place);
    assert!(head.contains("\r\nLast-Event-ID: earliest"), "{head}");
    assert_eq!(body, ":\n");
}

#[test]
fn path_is_none_where_it_is_not_served() {
    let mut one = One::start(silent_config());
    let place = subscribe(&mut one, "topic=a", "");
    assert!(answer(&mut one, place).0.starts_with("HTTP/1.1 404 "));
}
