//! Which topics may be published to.

use mercure::{Dialect, Refusal, Update, limits};

use crate::hub;

fn published(dialect: Dialect, topic: &str) -> Result<Update, Refusal> {
    let form: String = form_urlencoded::Serializer::new(String::new())
        .extend_pairs([("topic", topic), ("data", "x")])
        .finish();
    Update::parse(form.as_bytes(), dialect, &hub())
}

#[test]
fn topics_below_the_hubs_path_are_its_own() {
    for topic in [
        "/.well-known/mercure",
        "/.well-known/mercure/subscriptions/a/b",
        "https://example.com/.well-known/mercure?x",
        "https://example.com/a?/.well-known/mercurex",
        "mercure/subscriptions/exact/x/y",
        "./mercure/",
        "https://hub.example/.well-known\\mercure\\subscriptions",
        "https://hub.example/.well-known/x/../mercure/subscriptions",
        "https://example.com/.well-known/%6dercure/subscriptions",
        "../%2ewell-known/mercure/x",
    ] {
        let refusal = published(Dialect::Old, topic).unwrap_err();
        assert_eq!(refusal, Refusal::ReservedTopic, "{topic}");
        assert_eq!(refusal.status(Dialect::Old), 403);
    }
    for topic in [
        "mercure",
        "/.well-known/mercure",
        "/.well-known/mercure/",
        "/.well-known/mercure/subscriptions/exact/a/b",
        "https://example.com/.well-known/mercure",
        "https://example.com/.well-known/mercure?a#b",
        "https://example.com/.well-known/%6dercure",
        "https://example.com/.well-known/%6Dercure/x",
        "https://example.com/%2ewell-known/mercure",
        "https://example.com/a/../.well-known/mercure",
        "https://example.com/a/%2e%2E/.well-known/mercure",
        "HTTPS://example.com/.well-known/x/.././mercure",
        "../.well-known/mercure/a",
        "https://example.com\\.well-known\\mercure",
        "//example.com/.well-known/mercure",
    ] {
        let refusal = published(Dialect::V1, topic).unwrap_err();
        assert_eq!(refusal, Refusal::ReservedTopic, "{topic}");
        assert_eq!(refusal.status(Dialect::V1), 400);
    }
}

#[test]
fn plain_name_of_the_old_dialect_is_anybodys() {
    for topic in ["mercure", "#general", "?x", "mercure?x/y", "mercurex/y"] {
        assert!(published(Dialect::Old, topic).is_ok(), "{topic}");
    }
}

#[test]
fn topics_beside_the_hubs_path_are_anybodys() {
    for topic in [
        "https://example.com/books/1",
        "/.well-known/mercurex",
        "/.well-known/Mercure",
        "/x/.well-known/mercure",
        "https://example.com/?x=/.well-known/mercure",
        "https://example.com/.well-known%2Fmercure",
        "http://[/.well-known/mercure",
        "urn:x:1",
        "bücher",
        "a b",
    ] {
        assert_eq!(published(Dialect::V1, topic).unwrap().topics, [topic], "{topic}");
    }
    for topic in ["mercure", "*", "/.well-known/Mercure", "a\u{200b}", "bücher"] {
        assert_eq!(published(Dialect::Old, topic).unwrap().topics, [topic], "{topic:?}");
    }
}

#[test]
fn star_and_forbidden_characters_are_no_topics_of_1_0() {
    assert_eq!(published(Dialect::V1, "*"), Err(Refusal::TopicIsAll));
    for letter in [
        '\0',
        '\t',
        '\n',
        '\u{1f}',
        '\u{7f}',
        '\u{80}',
        '\u{9f}',
        '\u{ad}',
        '\u{61c}',
        '\u{200b}',
        '\u{200f}',
        '\u{202e}',
        '\u{2066}',
        '\u{feff}',
        '\u{fff9}',
        '\u{110bd}',
        '\u{e0041}',
    ] {
        let topic = format!("https://example.com/{letter}");
        assert_eq!(published(Dialect::V1, &topic), Err(Refusal::TopicCharacter), "{letter:?}");
    }
    for topic in ["a\tb", "\u{7f}", "\u{85}"] {
        assert_eq!(published(Dialect::Old, topic), Err(Refusal::TopicCharacter), "{topic:?}");
    }
    for letter in ['\u{a0}', '\u{2010}', '\u{2065}', '\u{fffd}', '😀'] {
        let topic = format!("https://example.com/{letter}");
        assert!(published(Dialect::V1, &topic).is_ok(), "{letter:?}");
    }
}

#[test]
fn topic_has_a_bound() {
    for dialect in [Dialect::Old, Dialect::V1] {
        let topic = "x".repeat(limits::TOPIC_BYTES_MAX);
        assert!(published(dialect, &topic).is_ok());
        assert_eq!(published(dialect, &format!("{topic}x")), Err(Refusal::TopicTooLong));
    }
}
