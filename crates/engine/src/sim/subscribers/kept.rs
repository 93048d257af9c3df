//! Updates that are kept: what a client hears that comes back over restarts, by seed against the
//! rule of the protocol taken word for word.

use std::sync::Arc;

use hub::testing::MemoryArchive;
use hub::{Claims, Grant, HistoryLimits, Key, Place as Known};
use mercure::{Selector, Topic};
use serde_json::json;

use super::{One, answer, answer_resumes, publish, subscribe};
use crate::config::{EngineConfig, EventStore};
use crate::mercure_config::MercureConfig;
use crate::sim::random::Random;
use crate::sim::server::silent_config;
use crate::tokens::{Granted, Outcome, TokenCheck};

/// Of topics that begin so updates are kept.
const KEPT: &str = "https://a.test/";

const TOPICS: [&str; 9] = [
    "https://a.test/books/1",
    "https://a.test/books/2",
    "https://a.test/books/{id}",
    "https://a.test/users/bob/books/1",
    "https://a.test/users/rj/books/1",
    "https://b.test/books/1",
    "https://b.test/users/bob",
    "note",
    "other",
];

const SELECTORS: [&str; 11] = [
    "*",
    "https://a.test/books/{id}",
    "https://a.test/users/{user}/books/1",
    "https://a.test/users/bob/{+rest}",
    "https://a.test/{+rest}",
    "https://{+rest}",
    "{word}",
    "https://a.test/books/1",
    "https://a.test/users/bob/books/1",
    "https://b.test/users/bob",
    "note",
];

/// Of which topics all are kept that a selector matches.
fn is_whole(selector: &str) -> bool {
    selector.starts_with(KEPT)
}

fn keeps(id: &str) -> bool {
    Key::parse(id).is_some_and(|key| key.name.starts_with(KEPT))
}

/// A token is the numbers of the selectors that it grants.
#[derive(Debug)]
struct ByNumbers;

impl TokenCheck for ByNumbers {
    fn check(&self, token: &str) -> Option<Outcome> {
        let numbers = token.split('-').filter_map(|number| number.parse::<usize>().ok());
        let granted: Vec<&str> = numbers.map(|number| SELECTORS[number]).collect();
        let json = json!({ "mercure": { "subscribe": granted } }).to_string().into();
        let claims = Some(Box::new(Claims { kind: None, json }));
        let grant = Arc::new(Grant { claims, ..Grant::default() });
        Some(Ok(Granted { grant, remaining_ms: None }))
    }
}

/// An update that was published.
struct Sent {
    number: u64,
    id: String,
    topics: Vec<&'static str>,
    is_private: bool,
}

impl Sent {
    /// The rule, word for word, where of its topics only those count that are `listed`.
    fn is_heard(&self, selectors: &[usize], granted: &[usize], listed: fn(&str) -> bool) -> bool {
        let any = |of: &[usize], listed: fn(&str) -> bool| {
            let selectors = of.iter().map(|&number| Selector::old(SELECTORS[number]).unwrap());
            let topics = || self.topics.iter().filter(|topic| listed(topic));
            selectors.into_iter().any(|of| topics().any(|topic| of.matches(&Topic::new(topic))))
        };
        any(selectors, listed) && (!self.is_private || any(granted, |_| true))
    }
}

struct World {
    random: Random,
    archive: Arc<MemoryArchive>,
    one: One,
    sent: Vec<Sent>,
    gaps: usize,
    pages: u64,
}

impl World {
    fn new(seed: u64, events_max: usize) -> World {
        let archive = Arc::new(MemoryArchive::new(keeps, events_max));
        let one = World::life(&archive, 0);
        World { random: Random::new(seed), archive, one, sent: Vec::new(), gaps: 0, pages: 0 }
    }

    fn life(archive: &Arc<MemoryArchive>, last: u64) -> One {
        let check: Arc<dyn TokenCheck> = Arc::new(ByNumbers);
        let mercure = MercureConfig { is_open: true, check: Some(check), ..Default::default() };
        let history = HistoryLimits { events_max: 2, age_ms_max: 400, ..Default::default() };
        let (mercure, event_store) = (Some(mercure), Some(EventStore(archive.clone())));
        let one = One::start(EngineConfig { mercure, event_store, history, ..silent_config() });
        if last > 0 {
            one.router.forget_up_to(last);
        }
        one
    }

    fn restart(&mut self) {
        let last = self.one.router.event_ids().last();
        self.one = World::life(&self.archive, last);
    }

    fn some(&mut self, of: usize, most: usize) -> Vec<usize> {
        let count = self.random.below(most + 1);
        let mut some: Vec<usize> = (0..count).map(|_| self.random.below(of)).collect();
        some.sort_unstable();
        some.dedup();
        some
    }

    fn publish(&mut self) {
        let mut topics: Vec<_> = self.some(TOPICS.len(), 3).iter().map(|&n| TOPICS[n]).collect();
        if topics.is_empty() {
            topics.push(TOPICS[self.random.below(TOPICS.len())]);
        }
        let is_private = self.random.one_in(2);
        let mut form = format!("data={}", self.sent.len());
        topics.iter().for_each(|topic| {
            form += &format!("&topic={}", topic.replace('{', "%7B").replace('}', "%7D"));
        });
        form += if is_private { "&private=on" } else { "" };
        let own = self.random.one_in(3).then(|| format!("urn:{}", self.sent.len()));
        own.iter().for_each(|own| form += &format!("&id={own}"));
        let id = publish(&mut self.one, &form).1;
        let Known::Known(number) = self.one.router.event_ids().known(id.as_bytes()) else {
            panic!("{id} was given")
        };
        let id = own.unwrap_or_else(|| format!("#{id}"));
        self.sent.push(Sent { number, id, topics, is_private });
    }

    /// A client comes back, or asks for all, and more is published meanwhile. Perhaps the server is
    /// replaced before it has its answer.
    fn resume(&mut self) {
        let mut selectors = self.some(SELECTORS.len(), 3);
        if selectors.is_empty() {
            selectors.push(0);
        }
        let granted =
            if self.random.one_in(3) { Vec::new() } else { self.some(SELECTORS.len(), 4) };
        let at = self.random.below(self.sent.len() + 1);
        let (place, after) = match self.sent.get(at) {
            Some(sent) => (sent.id.clone(), sent.number),
            None => ("earliest".to_owned(), 0),
        };
        let query: Vec<String> = selectors
            .iter()
            .map(|&n| SELECTORS[n].replace('{', "%7B").replace('}', "%7D").replace('+', "%2B"))
            .map(|text| format!("topic={text}"))
            .collect();
        let token: Vec<String> = granted.iter().map(ToString::to_string).collect();
        let mut lines = format!("Last-Event-ID: {place}\r\n");
        if !granted.is_empty() {
            lines += &format!("Authorization: Bearer {}\r\n", token.join("-"));
        }
        let place_of = subscribe(&mut self.one, &query.join("&"), &lines);
        if self.random.one_in(2) {
            self.publish();
        }
        let place_of = match self.random.one_in(3) {
            true => {
                self.one.upgrade(&mut self.random);
                self.one.turn_after(1);
                self.one.server.find(place_of)
            }
            false => place_of,
        };
        let pages = self.archive.pages();
        answer_resumes(&mut self.one);
        self.pages += self.archive.pages() - pages;
        self.publish();
        let (head, body) = answer(&mut self.one, place_of);
        let field = head.lines().find_map(|line| line.strip_prefix("Last-Event-ID: ")).unwrap();
        let is_gap = body.contains("event: gap");
        let told = format!("{selectors:?} {granted:?} behind {place}: {head}\n{body}");
        assert!(place == "earliest" || (field == place) != is_gap, "{told}");
        self.gaps += usize::from(is_gap);
        let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
        let heard: Vec<usize> = data.filter_map(|data| data.parse().ok()).collect();
        assert!(heard.is_sorted_by(|one, next| one < next), "once and in order: {told}");
        let due = |listed| {
            let of = self.sent.iter().enumerate().filter(|(_, sent)| sent.number > after);
            let of = of.filter(|(_, sent)| sent.is_heard(&selectors, &granted, listed));
            of.map(|(number, _)| number).collect::<Vec<_>>()
        };
        let (all, kept) = (due(|_| true), due(|topic| topic.starts_with(KEPT)));
        assert!(heard.iter().all(|number| all.contains(number)), "not theirs: {told}");
        let is_known = place == "earliest" || !place.starts_with("urn:") || !is_gap;
        if is_known {
            let missed: Vec<_> = kept.iter().filter(|number| !heard.contains(number)).collect();
            assert!(missed.is_empty(), "{missed:?} are kept: {told}");
        }
        if !is_gap && place != "earliest" {
            assert_eq!(heard, all, "{told}");
        }
        let is_whole = selectors.iter().all(|&number| is_whole(SELECTORS[number]));
        assert!(!(is_whole && is_known && is_gap), "nothing is missing: {told}");
        self.one.wire(place_of).client_ends();
        self.one.turn_after(1);
    }
}

#[test]
fn client_hears_over_restarts_what_is_kept_and_is_told_of_the_rest() {
    let mut random = Random::of_test();
    let (mut gaps, mut pages) = (0, 0);
    for _ in 0..60 {
        let mut world = World::new(random.next(), usize::MAX);
        world.publish();
        for _ in 0..60 {
            match world.random.below(12) {
                0 => world.restart(),
                1 => {
                    world.one.turn_after(100);
                    let now_ms = world.one.server.clock.now_ms();
                    world.one.router.topics().unwrap().forget(now_ms + 60_000);
                }
                2..7 => world.resume(),
                _ => world.publish(),
            }
        }
        (gaps, pages) = (gaps + world.gaps, pages + world.pages);
    }
    assert!(gaps > 100 && pages > 1_000, "{gaps} gaps, {pages} pages");
}
