//! Matchers of 1.0: the tables, and the library's own verdict by seed.

use fastrand::Rng;
use mercure::{HubUrl, MatchType, Selector, SelectorFault, SelectorKind, Topic, limits};
use url::Url;
use urlpattern::{UrlPattern, UrlPatternInit, UrlPatternMatchInput};

use crate::hub;

fn pattern(text: &str) -> Selector {
    Selector::v1(MatchType::UrlPattern, text, &hub()).unwrap()
}

/// A pattern, whether it matches, and topics.
const TABLE: [(&str, bool, &[&str]); 15] = [
    (
        "https://example.com/books/:id",
        true,
        &[
            "https://example.com/books/1",
            "https://example.com/books/1?x=1",
            "https://example.com/books/1#f",
            "https://example.com/books/é",
            "https://EXAMPLE.com:443/books/1",
            "https://example.com/x/../books/1",
            "https://rj:secret@example.com/books/1",
        ],
    ),
    (
        "https://example.com/books/:id",
        false,
        &[
            "https://example.com/books/",
            "https://example.com/books/a/b",
            "http://example.com/books/1",
            "https://example.com:8443/books/1",
            "https://example.org/books/1",
            "",
            "books/1",
        ],
    ),
    (
        "https://example.com/users/42/*",
        true,
        &["https://example.com/users/42/books/1", "https://example.com/users/42/"],
    ),
    ("https://example.com/users/42/*", false, &["https://example.com/users/42"]),
    (
        "https://example.com/books{/:id}?",
        true,
        &["https://example.com/books", "https://example.com/books/1"],
    ),
    ("https://example.com/books{/:id}?", false, &["https://example.com/books/1/2"]),
    ("https://example.com/q?a=*", true, &["https://example.com/q?a=1"]),
    ("https://example.com/q?a=*", false, &["https://example.com/q"]),
    (r"https://example.com/b/:id(\d+)", true, &["https://example.com/b/12"]),
    (r"https://example.com/b/:id(\d+)", false, &["https://example.com/b/x"]),
    ("bar", true, &["bar", "/.well-known/bar", "https://hub.example/.well-known/bar"]),
    ("bar", false, &["/bar", "bar/", "https://example.com/.well-known/bar"]),
    ("/books/:id", true, &["/books/1", "https://hub.example/books/1", "../books/1"]),
    ("/books/:id", false, &["https://example.com/books/1", "http://hub.example/books/1"]),
    ("*", true, &["", "*", "no url at all", "https://example.com/"]),
];

#[test]
fn url_patterns_match_as_the_tables_say() {
    for (text, expected, topics) in TABLE {
        for topic in topics {
            let topic = Topic::new(topic);
            assert_eq!(pattern(text).matches(&topic), expected, "{text} and {:?}", topic.text());
        }
    }
}

#[test]
fn exact_matcher_compares_bytes_and_knows_the_star() {
    let exact = |text| Selector::v1(MatchType::Exact, text, &hub()).unwrap();
    assert!(exact("bar").matches(&Topic::new("bar")));
    assert!(!exact("bar").matches(&Topic::new("/.well-known/bar")));
    assert!(!exact("https://example.com/{id}").matches(&Topic::new("https://example.com/1")));
    assert_eq!(exact("*").kind(), SelectorKind::All);
    assert_eq!(pattern("*").kind(), SelectorKind::All);
}

#[test]
fn invalid_pattern_is_refused() {
    for text in [
        "https://example.com/(",
        "https://example.com/:id(",
        "https://example.com/:1",
        "{",
        "https://example.com/:a/:a",
        "https://a]/x",
        r"https://example.com/(?<n>a)",
        "https://example.com/([)",
    ] {
        let fault = Selector::v1(MatchType::UrlPattern, text, &hub()).unwrap_err();
        assert!(matches!(fault, SelectorFault::Invalid(_)), "{text}: {fault}");
    }
    for text in ["a\nb", "a\u{7f}", "a\u{85}", "a\u{200b}", "\u{feff}a"] {
        for match_type in MatchType::ALL {
            let fault = Selector::v1(match_type, text, &hub()).unwrap_err();
            assert_eq!(fault, SelectorFault::Character, "{text:?}");
        }
    }
}

#[test]
fn pattern_that_would_be_slow_or_large_is_refused() {
    for text in [
        "/:a(\\w{1000}{1000})".to_owned(),
        "/:a((?:(?:(?:a{50}){50}){50}))".to_owned(),
        format!("/{}", ":a".repeat(limits::GROUPS_MAX + 1)),
    ] {
        let fault = Selector::v1(MatchType::UrlPattern, &text, &hub()).unwrap_err();
        assert!(matches!(fault, SelectorFault::Invalid(_)), "{text}: {fault}");
    }
    // What takes exponential time where one backtracks.
    let slow = pattern("/:a((?:a+)+)b");
    assert!(!slow.matches(&Topic::new(&format!("/{}cb", "a".repeat(3_000)))));
    let names: String = (0..limits::GROUPS_MAX).map(|number| format!("/:n{number}")).collect();
    assert!(pattern(&names).matches(&Topic::new(&"/x".repeat(limits::GROUPS_MAX))));
}

#[test]
fn relative_pattern_belongs_to_the_address_it_is_seen_from() {
    let other = HubUrl::parse("https://other.example/hub").unwrap();
    let [here, there] = [hub(), other.clone()]
        .map(|hub| Selector::v1(MatchType::UrlPattern, "books/:id", &hub).unwrap());
    assert_ne!(here.key(), there.key());
    let relative = Topic::new("books/1");
    assert!(here.matches(&relative) && there.matches(&relative) && here.matches(&relative));
    let whole = Topic::new("https://other.example/books/1");
    assert!(!here.matches(&whole) && there.matches(&whole));
}

/// A text of pieces that patterns and URLs are made of.
fn text(rng: &mut Rng, pieces: &[&str]) -> String {
    (0..rng.usize(1..7)).map(|_| pieces[rng.usize(..pieces.len())]).collect()
}

#[test]
fn pattern_matches_what_the_library_says() {
    const PATTERN: [&str; 19] = [
        "https://",
        "http://",
        "a.example",
        "/",
        "/",
        "b",
        "b",
        ":x",
        ":y",
        "*",
        "{/c}?",
        "?q=",
        "#",
        "([a-z]+)",
        "\\?",
        ":8443",
        "rj@",
        "..",
        "é",
    ];
    const TOPIC: [&str; 14] = [
        "https://",
        "http://",
        "a.example",
        "/",
        "/",
        "b",
        "c",
        "1",
        "?q=",
        "#",
        ":8443",
        "rj@",
        "..",
        "é",
    ];
    let (mut matches, mut others) = (0, 0);
    testing::seeded(1_500, |rng| {
        let mut text_of = |pieces: &[&str]| match rng.bool() {
            true => format!("https://a.example/{}", text(rng, pieces)),
            false => text(rng, pieces),
        };
        let source = text_of(&PATTERN);
        let base = Url::parse(hub().as_str()).unwrap();
        let library =
            UrlPatternInit::parse_constructor_string::<regex::Regex>(&source, Some(base.clone()))
                .and_then(|init| UrlPattern::<regex::Regex>::parse(init, Default::default()));
        let ours = Selector::v1(MatchType::UrlPattern, &source, &hub());
        assert_eq!(library.is_ok(), ours.is_ok(), "{source}: {ours:?}");
        let (Ok(library), Ok(ours)) = (library, ours) else { return };
        for _ in 0..10 {
            let topic = text_of(&TOPIC);
            let expected = ours.kind() == SelectorKind::All
                || base.join(&topic).is_ok_and(|url| {
                    library.test(UrlPatternMatchInput::Url(url)).is_ok_and(|is_match| is_match)
                });
            assert_eq!(ours.matches(&Topic::new(&topic)), expected, "{source} and {topic}");
            *if expected { &mut matches } else { &mut others } += 1;
        }
    });
    assert!(matches > 50 && others > 300, "{matches} matches, {others} others");
}
