//! What attackers do. Each sets up what it holds, says so, and goes on until it is told to end.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Outcome;
use crate::harness::{Wire, get, signed};
use crate::hub::PATH;
use crate::wire::publish_all;

/// How they mean harm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Attack {
    /// As many patterns as anonymous clients may take, each of 16 expressions, that begin as the
    /// topics of the neighbours do and match none of them.
    SlowPatterns,
    /// Patterns of such expressions that match long updates nearly: their publisher is granted
    /// such topics.
    NearMatches,
    /// Subscribers with a topic of 4,000 bytes each, in all that fits; they come and go.
    LongTopics,
    /// 100,000 updates, each on another topic of 4,000 bytes.
    LongUpdates,
    /// Subscribers, each with a token of its own that grants 900 selectors, none of which is what
    /// it asks for.
    LongTokens,
    /// As many URL patterns with regular expressions as anonymous clients may take, and long
    /// updates that match none of them, though nearly.
    UrlPatterns,
    /// Anonymous clients who ask by such patterns for all that is remembered, on 600 topics, again
    /// and again.
    UrlPatternResumes,
}

impl Attack {
    pub(crate) const ALL: [Attack; 7] = [
        Attack::SlowPatterns,
        Attack::NearMatches,
        Attack::LongTopics,
        Attack::LongUpdates,
        Attack::LongTokens,
        Attack::UrlPatterns,
        Attack::UrlPatternResumes,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Attack::SlowPatterns => "5,000 slow patterns of anonymous clients",
            Attack::NearMatches => "the same, and long updates that match nearly",
            Attack::LongTopics => "8,000 subscribers with topics of 4 KB, who come and go",
            Attack::LongUpdates => "100,000 updates on topics of 4 KB",
            Attack::LongTokens => "5,000 tokens with 900 selectors",
            Attack::UrlPatterns => {
                "URL patterns of anonymous clients, and long updates that match nearly"
            }
            Attack::UrlPatternResumes => "resumes of 600 topics by URL patterns",
        }
    }
}

/// Patterns of anonymous clients, at most (`TopicsLimits`).
const PATTERNS: usize = 5_000;

/// Patterns of one request, whose head has 8 KiB.
const PATTERNS_EACH: usize = 40;

const EXPRESSIONS: usize = 16;

const TOPIC_BYTES: usize = 4_000;

const SUBSCRIBERS: usize = 8_000;

const UPDATES: usize = 100_000;

/// Updates that are on their way at one time on one connection: they fit the kernel's buffers.
const AT_ONCE: usize = 20;

const TOKENS: usize = 5_000;

/// As many of two letters as a token of 6 KiB has room for, which is the longest that is verified.
const SELECTORS: usize = 900;

/// Topics that are remembered when they are asked for by patterns.
const REMEMBERED: usize = 600;

/// Bytes of each of them.
const REMEMBERED_BYTES: usize = 500;

/// Letters of which selectors of two are made: 36 times 36.
const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// Plays an attacker until its standard input ends.
pub(crate) fn run(attack: Attack, listen: SocketAddr, api: SocketAddr) -> Outcome<()> {
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    thread::spawn(move || {
        // An error is an end too.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        ends.store(true, Ordering::Relaxed);
    });
    match attack {
        Attack::SlowPatterns => hold(slow_patterns(listen), &is_over),
        Attack::NearMatches => near_matches(listen, api, &is_over),
        Attack::LongTopics => long_topics(listen, &is_over),
        Attack::LongUpdates => long_updates(api, &is_over),
        Attack::LongTokens => hold(long_tokens(listen), &is_over),
        Attack::UrlPatterns => url_patterns(listen, api, &is_over),
        Attack::UrlPatternResumes => url_pattern_resumes(listen, api, &is_over),
    }
}

fn there() {
    println!("there");
}

fn hold(wires: Vec<Wire>, is_over: &AtomicBool) -> Outcome<()> {
    there();
    while !is_over.load(Ordering::Relaxed) {
        thread::park_timeout(std::time::Duration::from_millis(10));
    }
    drop(wires);
    Ok(())
}

/// A subscriber, if it is let in.
fn subscribe(listen: SocketAddr, query: &str, fields: &[&str]) -> Wire {
    let mut wire = Wire::connect(listen);
    wire.send(get(&format!("{PATH}?{query}"), fields));
    let head = wire.head();
    assert_eq!(head.status, 200, "{}", head.text);
    wire
}

fn slow_patterns(listen: SocketAddr) -> Vec<Wire> {
    let expressions = "%7B%2Ba%7D".repeat(EXPRESSIONS);
    let of = |first: usize| {
        let numbers = first..first + PATTERNS_EACH;
        let patterns: Vec<String> = numbers
            .map(|number| format!("topic=https://a.test/books/{expressions}-{number}"))
            .collect();
        patterns.join("&")
    };
    let firsts = (0..PATTERNS).step_by(PATTERNS_EACH);
    firsts.map(|first| subscribe(listen, &of(first), &[])).collect()
}

/// Every place of a topic may be the end of an expression.
fn near_matches(listen: SocketAddr, api: SocketAddr, is_over: &AtomicBool) -> Outcome<()> {
    let _wires = slow_patterns(listen);
    there();
    let topic = format!("https://a.test/books/{}", "-1".repeat(TOPIC_BYTES / 2) + "!");
    let mut wire = Wire::connect(api);
    while !is_over.load(Ordering::Relaxed) {
        publish_all(&mut wire, &[(topic.clone(), "x".to_owned())])?;
    }
    Ok(())
}

fn long_topics(listen: SocketAddr, is_over: &AtomicBool) -> Outcome<()> {
    let filler = "x".repeat(TOPIC_BYTES);
    let join = |number: usize| {
        subscribe(listen, &format!("topic=https://a.test/long/{number}/{filler}"), &[])
    };
    let mut wires: VecDeque<Wire> = (0..SUBSCRIBERS).map(join).collect();
    there();
    let mut number = SUBSCRIBERS;
    while !is_over.load(Ordering::Relaxed) {
        wires.pop_front();
        wires.push_back(join(number));
        number += 1;
    }
    Ok(())
}

fn long_updates(api: SocketAddr, is_over: &AtomicBool) -> Outcome<()> {
    let filler = "x".repeat(TOPIC_BYTES);
    let mut wire = Wire::connect(api);
    for first in (0..UPDATES).step_by(AT_ONCE) {
        let numbers = first..first + AT_ONCE;
        let of: Vec<_> = numbers
            .map(|number| (format!("https://a.test/long/{number}/{filler}"), "x".to_owned()))
            .collect();
        publish_all(&mut wire, &of)?;
    }
    hold(Vec::new(), is_over)
}

fn long_tokens(listen: SocketAddr) -> Vec<Wire> {
    let letters = || LETTERS.iter().map(|letter| char::from(*letter));
    let all: Vec<String> =
        letters().flat_map(|a| letters().map(move |b| format!("{a}{b}"))).collect();
    let mut random = fastrand::Rng::with_seed(1);
    let join = |_| {
        let chosen: Vec<&String> = random.choose_multiple(all.iter(), SELECTORS);
        let token = signed(&json!({ "mercure": { "subscribe": chosen } }));
        let authorization = format!("Authorization: Bearer {token}");
        subscribe(listen, "topic=https://a.test/books/x", &[&authorization])
    };
    (0..TOKENS).map(join).collect()
}

/// A query for a pattern that tries many ways at each place of a topic.
fn url_pattern(number: usize) -> String {
    let pattern = format!("https://a.test/:id(.*[a-f].{{20}}b{number})");
    let escaped = pattern.bytes().map(|byte| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    format!("match_urlpattern={}", escaped.collect::<String>())
}

fn url_patterns(listen: SocketAddr, api: SocketAddr, is_over: &AtomicBool) -> Outcome<()> {
    let mut wires = Vec::new();
    for number in 0..PATTERNS {
        let mut wire = Wire::connect(listen);
        wire.send(get(&format!("{PATH}?{}", url_pattern(number)), &[]));
        let head = wire.head();
        // There are no more for anonymous clients.
        if head.status == 429 {
            break;
        }
        assert_eq!(head.status, 200, "{}", head.text);
        wires.push(wire);
    }
    assert!(!wires.is_empty(), "nobody was let in");
    there();
    let topic = format!("https://a.test/{}", "a".repeat(TOPIC_BYTES));
    let mut wire = Wire::connect(api);
    while !is_over.load(Ordering::Relaxed) {
        publish_all(&mut wire, &[(topic.clone(), "x".to_owned())])?;
    }
    Ok(())
}

fn url_pattern_resumes(listen: SocketAddr, api: SocketAddr, is_over: &AtomicBool) -> Outcome<()> {
    let filler = "a".repeat(REMEMBERED_BYTES);
    let topics = (0..REMEMBERED).map(|number| format!("https://a.test/{filler}{number}"));
    let updates: Vec<_> = topics.map(|topic| (topic, "x".to_owned())).collect();
    let mut wire = Wire::connect(api);
    updates.chunks(AT_ONCE).try_for_each(|some| publish_all(&mut wire, some))?;
    there();
    let patterns: Vec<String> = (0..12).map(url_pattern).collect();
    let request = get(&format!("{PATH}?last_event_id=earliest&{}", patterns.join("&")), &[]);
    while !is_over.load(Ordering::Relaxed) {
        let mut wire = Wire::connect(listen);
        wire.send(&request);
        let head = wire.head();
        // The one before may not have gone yet.
        assert!([200, 429, 503].contains(&head.status), "{}", head.text);
        wire.reset();
    }
    Ok(())
}
