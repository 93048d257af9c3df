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
    let costly = patterns.costly(topic, usize::MAX).unwrap();
    let costly = costly.into_iter().filter(|pattern| pattern.matches(topic));
    heard.extend(costly.map(|pattern| *patterns.get(&pattern).unwrap()));
    heard.sort_unstable();
    heard
}

fn random_pattern(rng: &mut Rng, hubs: &[HubUrl]) -> Selector {
    let host = ["https://a.example", "https://b.example", "http://a.example", "", "urn:x:"];
    let host = host[rng.usize(..host.len())];
    let path = ["", "/", "/books", "/books/", "/books/1", "/users/"][rng.usize(..6)];
    let id = rng.u8(..3);
    if rng.bool() {
        let tails = ["{id}", "{/a,b}", "{?q}", "{id}/books", "{+rest}", "{#f}"];
        // They begin alike, and differ by what is behind a variable, or between two.
        let alike =
            ["{a}/book/{id}/of/{b}/x", "{a}/book/{id}", "{+a}/{id}/of/{b}", "{a}/k/{id}/of"];
        let tail = match rng.bool() {
            true => tails[rng.usize(..6)].to_owned(),
            false => alike[rng.usize(..4)].replace("{id}", &id.to_string()),
        };
        Selector::old(&format!("{host}{path}{tail}")).unwrap()
    } else {
        let tails = [":id", "*", "{/:a}?", ":id/books", "?q=*", ":n(\\d+)"];
        let alike = [":a/book/:id/of/:b/x", ":a/book/:id", ":a/book/:id/*", ":a/k/:id/of"];
        let tail = match rng.bool() {
            true => tails[rng.usize(..6)].to_owned(),
            false => alike[rng.usize(..4)].replace(":id", &id.to_string()),
        };
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
        "/1/book/1/of/2/x",
        "/2/book/1/of/book/2/of",
        "a/k/1/of",
        "/book/2",
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

/// Each of them has matches that begin as those of all others do.
#[test]
fn patterns_that_begin_alike_are_told_apart_by_what_is_behind_a_variable() {
    const MANY: u32 = 2_000;
    type Text = fn(u32) -> String;
    let old = |text: &str| Selector::old(text).unwrap();
    let url = |text: &str| Selector::v1(MatchType::UrlPattern, text, &hub()).unwrap();
    let texts: [(Text, _); 4] = [
        (|n| format!("https://a.example/books/{{id}}/reviews/x{n}"), "b/reviews/x1711"),
        (|n| format!("https://a.example/books/{{id}}/of/{n}/{{+rest}}"), "b/of/1711/c/d"),
        (|n| format!("https://a.example/books/:id/reviews/x{n}"), "b/reviews/x1711"),
        (|n| format!("https://a.example/books/:id/of/{n}/:page"), "b/of/1711/c"),
    ];
    for (at, (text, topic)) in texts.into_iter().enumerate() {
        let selector = |n: u32| Arc::new(if at < 2 { old(&text(n)) } else { url(&text(n)) });
        let mut patterns = Patterns::new();
        (0..MANY).for_each(|n| assert_eq!(patterns.insert(selector(n), n), Ok(None)));
        let topic = format!("https://a.example/books/{topic}");
        let found = |patterns: &Patterns<u32>| {
            let mut found = Vec::new();
            // What finds them counts for some, too.
            assert!(patterns.matches_within(&Topic::new(&topic), 16, &mut |n| found.push(*n)));
            found
        };
        assert_eq!(found(&patterns), [1711], "{topic}");
        (1_000..MANY).for_each(|n| assert_eq!(patterns.remove(&selector(n)), Some(n)));
        assert!(found(&patterns).is_empty(), "{topic}");
        (0..1_000).for_each(|n| assert_eq!(patterns.remove(&selector(n)), Some(n)));
        assert!(patterns.is_empty());
        assert!(patterns.matches_within(&Topic::new(&topic), 0, &mut |_| ()));
    }
}

/// One who may not look at many is not shown the costly ones among them either.
#[test]
fn costly_patterns_are_looked_for_within_a_bound() {
    let url = |text: &str| Arc::new(Selector::v1(MatchType::UrlPattern, text, &hub()).unwrap());
    let mut patterns = Patterns::new();
    patterns.insert(url("https://a.example/:a/:n(\\d+)"), 0).unwrap();
    for n in 1..=9 {
        patterns.insert(url(&format!("https://a.example/:a/b{n}/*")), n).unwrap();
    }
    let text = "https://a.example/x/7";
    let costly = |most| patterns.costly(&Topic::new(text), most).map(|costly| costly.len());
    assert_eq!(costly(8), None);
    assert_eq!(costly(usize::MAX), Some(1));
}

/// The same text twice in a topic finds one pattern once, and those that nothing tells apart are
/// all tried.
#[test]
fn pattern_is_shown_once_and_those_without_a_text_are_all_tried() {
    let mut patterns = Patterns::new();
    let template = |text: &str| Arc::new(Selector::old(text).unwrap());
    patterns.insert(template("{+a}/book/{+b}"), 1).unwrap();
    assert_eq!(heard(&patterns, &Topic::new("x/book/book/book/y")), [1]);
    assert!(heard(&patterns, &Topic::new("/books/book")).is_empty());
    for n in 2..10 {
        patterns.insert(template(&format!("{{+a{n}}}")), n).unwrap();
    }
    let within = |most| patterns.matches_within(&Topic::new("a"), most, &mut |_| ());
    assert!(within(8) && !within(7));
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
    assert_eq!(patterns.costly(&Topic::new("/7/1"), usize::MAX).unwrap().len(), 1);
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

/// What a match takes: run it with `--release -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn cost_of_a_match() {
    let number = u32::try_from(limits::PATTERNS_MAX).unwrap();
    for (pattern, topic) in [
        ("https://a.test/shelves/{n}/books/{book}", "https://a.test/shelves/{n}/books/1"),
        ("https://a.test/shelves/{shelf}/books/{n}", "https://a.test/shelves/1/books/{n}"),
        ("https://a.test/shelves/{shelf}/of/{n}/{b}", "https://a.test/shelves/1/of/{n}/b"),
    ] {
        let of = |text: &str, n: u32| text.replace("{n}", &n.to_string());
        let mut patterns = Patterns::new();
        for n in 0..number {
            patterns.insert(Arc::new(Selector::old(&of(pattern, n)).unwrap()), n).unwrap();
        }
        let topics: Vec<String> =
            (0..200_000).map(|_| of(topic, fastrand::u32(..number))).collect();
        let (start, mut found) = (Instant::now(), 0);
        for topic in &topics {
            patterns.matches(&Topic::new(topic), &mut |_| found += 1);
        }
        let each = start.elapsed() / topics.len() as u32;
        eprintln!("{pattern}: {each:?} each, {found} matches");
    }
}
