//! The table of live patterns beside a loop over all of them, by seed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use fastrand::Rng;
use mercure::{HubUrl, MatchType, Patterns, PatternsFull, Selector, SelectorKind, Topic, limits};

use crate::hub;

fn heard(patterns: &Patterns<u32>, topic: &Topic<'_>) -> Vec<u32> {
    let mut heard = Vec::new();
    patterns.matches(topic, &mut |&value| heard.push(value));
    let costly = patterns.costly(topic).into_iter().filter(|pattern| pattern.matches(topic));
    heard.extend(costly.map(|pattern| *patterns.get(&pattern).unwrap()));
    heard.sort_unstable();
    heard
}

fn random_pattern(rng: &mut Rng, hubs: &[HubUrl]) -> Selector {
    let host = ["https://a.example", "https://b.example", "http://a.example", "", "urn:x:"];
    let host = host[rng.usize(..host.len())];
    let path = ["", "/", "/books", "/books/", "/books/1", "/users/"][rng.usize(..6)];
    if rng.bool() {
        let tail = ["{id}", "{/a,b}", "{?q}", "{id}/books", "{+rest}", "{#f}"][rng.usize(..6)];
        Selector::old(&format!("{host}{path}{tail}")).unwrap()
    } else {
        let tail = [":id", "*", "{/:a}?", ":id/books", "?q=*", ":n(\\d+)"][rng.usize(..6)];
        let (text, hub) = (format!("{host}{path}{tail}"), &hubs[rng.usize(..hubs.len())]);
        let selector = Selector::v1(MatchType::UrlPattern, &text, hub);
        selector.unwrap_or_else(|_| Selector::old("{id}").unwrap())
    }
}

fn random_topic(rng: &mut Rng) -> String {
    let parts = [
        "https://a.example",
        "https://b.example",
        "http://a.example",
        "HTTPS://A.example:443",
        "/books",
        "/books/",
        "/books/1",
        "/users/",
        "1",
        "2/books",
        "?q=1",
        "#f",
        "urn:x:",
        "/",
    ];
    (0..rng.usize(1..4)).map(|_| parts[rng.usize(..parts.len())]).collect()
}

#[test]
fn table_finds_what_a_loop_finds() {
    let hubs = [hub(), HubUrl::parse("https://a.example/hub").unwrap()];
    let mut found = 0;
    testing::seeded(40, |rng| {
        let mut patterns = Patterns::new();
        let mut naive: BTreeMap<String, (Arc<Selector>, u32)> = BTreeMap::new();
        for number in 0..400 {
            let selector = Arc::new(random_pattern(rng, &hubs));
            if selector.kind() != SelectorKind::Pattern {
                continue;
            }
            let key = selector.key().into_owned();
            let known = naive.get(&key).map(|&(_, value)| value);
            assert_eq!(patterns.get(&selector).copied(), known, "{key}");
            if rng.u8(..3) == 0 {
                assert_eq!(patterns.remove(&selector), known, "{key}");
                naive.remove(&key);
            } else {
                assert_eq!(patterns.insert(Arc::clone(&selector), number), Ok(known), "{key}");
                naive.insert(key, (selector, number));
            }
            assert_eq!((patterns.len(), patterns.is_empty()), (naive.len(), naive.is_empty()));
            let text = random_topic(rng);
            let topic = Topic::new(&text);
            let all = naive.values().filter(|(selector, _)| selector.matches(&topic));
            let mut expected: Vec<u32> = all.map(|&(_, value)| value).collect();
            expected.sort_unstable();
            assert_eq!(heard(&patterns, &topic), expected, "{text}");
            found += expected.len();
        }
    });
    assert!(found > 1_000, "{found} matches");
}

#[test]
fn ten_thousand_patterns_are_the_most() {
    let mut patterns = Patterns::new();
    for number in 0..u32::try_from(limits::PATTERNS_MAX).unwrap() {
        let text = format!("https://example.com/users/{number}/{{id}}");
        let selector = Arc::new(Selector::old(&text).unwrap());
        assert_eq!(patterns.insert(selector, number), Ok(None));
    }
    let one_more = Arc::new(Selector::old("{a}").unwrap());
    assert_eq!(patterns.insert(Arc::clone(&one_more), 0), Err(PatternsFull));
    assert_eq!(heard(&patterns, &Topic::new("https://example.com/users/4711/x")), [4711]);
    assert!(heard(&patterns, &Topic::new("https://example.com/users/")).is_empty());
    let gone = Selector::old("https://example.com/users/1/{id}").unwrap();
    assert_eq!(patterns.remove(&gone), Some(1));
    assert_eq!(patterns.insert(one_more, 0), Ok(None));
}

#[test]
fn pattern_that_costs_more_counts_for_more() {
    let pattern = |text: &str| Selector::v1(MatchType::UrlPattern, text, &hub()).unwrap();
    for (text, cost, regex_cost) in [
        ("https://a.example/books/:id", 1, 0),
        ("https://a.example/books/:id/pages/:page", 1, 0),
        ("https://a.example/*a*b*c*d*e", 1, 1),
        ("https://a.example/:id(\\d+)", 1, 1),
        ("https://a.example/:id(\\d{200})", 1, 4),
        ("https://a.example/:id(\\d{200})/x?q=:q(\\d{200})", 1, 8),
        ("https://*.example/books/:id", limits::ANY_HOST_COST, 0),
        (":scheme://a.example/", limits::ANY_HOST_COST, 0),
    ] {
        let pattern = pattern(text);
        assert_eq!((pattern.cost(), pattern.regex_cost()), (cost, regex_cost), "{text}");
    }
    for text in ["/:id(\\w{900})", "/:id(\\p{L}+)"] {
        assert!(Selector::v1(MatchType::UrlPattern, text, &hub()).is_err(), "{text}");
    }
    let of_regex = |number: usize| Arc::new(pattern(&format!("/{number}/:id(\\d+)")));
    let mut patterns = Patterns::new();
    for number in 0..limits::REGEX_LIVE_MAX {
        assert_eq!(patterns.insert(of_regex(number), 0), Ok(None));
    }
    let one_more = of_regex(limits::REGEX_LIVE_MAX);
    assert_eq!(patterns.insert(Arc::clone(&one_more), 0), Err(PatternsFull));
    assert_eq!(patterns.costly(&Topic::new("/7/1")).len(), 1);
    assert_eq!(patterns.remove(&of_regex(0)), Some(0));
    assert_eq!(patterns.insert(one_more, 0), Ok(None));
    let of_any_host = |number: usize| Arc::new(pattern(&format!("https://*.{number}.example/")));
    let mut patterns = Patterns::new();
    let most = limits::PATTERNS_MAX / limits::ANY_HOST_COST;
    for number in 0..most {
        assert_eq!(patterns.insert(of_any_host(number), 0), Ok(None));
    }
    let plain = Arc::new(pattern("https://a.example/books/:id"));
    assert_eq!(patterns.insert(Arc::clone(&plain), 0), Err(PatternsFull));
    assert_eq!(patterns.remove(&of_any_host(0)), Some(0));
    assert_eq!(patterns.insert(plain, 0), Ok(None));
}

#[test]
fn patterns_are_seen_from_few_addresses() {
    let mut patterns = Patterns::new();
    let seen_from = |number: usize| {
        let hub = HubUrl::parse(&format!("https://{number}.example/hub")).unwrap();
        Arc::new(Selector::v1(MatchType::UrlPattern, ":id", &hub).unwrap())
    };
    for number in 0..limits::HUB_URLS_MAX {
        assert_eq!(patterns.addresses_with_new(&seen_from(number)), Some(number + 1));
        assert_eq!(patterns.insert(seen_from(number), 0), Ok(None));
    }
    let one_more = seen_from(limits::HUB_URLS_MAX);
    assert_eq!(patterns.addresses_with_new(&seen_from(0)), None);
    assert_eq!(patterns.insert(Arc::clone(&one_more), 0), Err(PatternsFull));
    assert_eq!(heard(&patterns, &Topic::new("x")).len(), limits::HUB_URLS_MAX);
    assert_eq!(patterns.remove(&seen_from(0)), Some(0));
    assert_eq!(patterns.insert(one_more, 0), Ok(None));
}

/// What the limits are by: run it with `--ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn cost_of_a_url_pattern() {
    const PATTERNS: usize = 1_000;
    let resident_kib = || -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4
    };
    let regexes =
        ["(\\w{35})", "(\\d{200})", "(.*[a-f].{20}b)", "(.*[a-f].{40}b)", "(.*[ab].{150}b)"];
    for tail in ["", "/x/:page"].into_iter().chain(regexes) {
        let (before, start) = (resident_kib(), Instant::now());
        let patterns: Vec<Selector> = (0..PATTERNS)
            .map(|n| {
                let text = format!("https://a.example/{n}/:id{tail}");
                let pattern = Selector::v1(MatchType::UrlPattern, &text, &hub()).unwrap();
                // A regular expression makes its cache when it is first used.
                for topic in ["12345678/x/90?x=1", "12345678"] {
                    pattern.matches(&Topic::new(&format!("https://a.example/{n}/{topic}")));
                }
                pattern
            })
            .collect();
        let each = (resident_kib() - before) as f64 / PATTERNS as f64;
        let (cost, time) = (patterns[0].regex_cost(), start.elapsed() / PATTERNS as u32);
        let long: String = (0..4_000).map(|_| ['a', 'b', 'c'][fastrand::usize(..3)]).collect();
        let (long, start) = (format!("https://a.example/7/{long}"), Instant::now());
        patterns[7].matches(&Topic::new(&long));
        let on_long = start.elapsed();
        eprintln!(
            ":id{tail}: {each} KiB and {time:?} each, counts for {cost}; {on_long:?} on 4 KB"
        );
        std::mem::forget(patterns);
    }
}
