//! Here is who hears what, by seed against the rule of the protocol taken word for word. An update
//! is heard if a selector matches one of its topics. If it is private, a granted selector must
//! match one of them too. Live and afterwards.

mod at_once;
mod handed_over;
mod kept;
mod selectors;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastrand::Rng;
use hub::{Followers, Id, IdText, Names, Nobody, SLICE_MAX};
use mercure::{Selector, Topic};
use testing::seeded;

use self::selectors::{SELECTORS, grants_of, of_one_token, selector};
use crate::{TopicFollowers, Topics, TopicsFull, TopicsLimits, UpdateFollowers, UpdateKeys};

const TOPICS: [&str; 10] = [
    "HTTPS://A.test:443/books/1?x=1",
    "https://a.test/books/1",
    "https://a.test/books/2",
    "https://a.test/books/",
    "https://a.test/users/bob/books/1",
    "https://a.test/users/rj/books/1",
    "https://a.test/books/{id}",
    "https://b.test/é",
    "note",
    "* note",
];

struct Listener {
    selectors: Vec<Arc<Selector>>,
    granted: Vec<Selector>,
    keys: Vec<(String, Id)>,
    is_counted: bool,
}

struct Update {
    number: u64,
    topics: Vec<String>,
    is_private: bool,
}

struct World {
    names: Arc<Names>,
    topics: Arc<Topics>,
    listeners: BTreeMap<u64, Listener>,
    sent: Vec<Update>,
    now_ms: u64,
}

fn some<'t>(rng: &mut Rng, of: &[&'t str], most: usize) -> Vec<&'t str> {
    let count = rng.usize(0..=most);
    let picked: BTreeSet<&str> = (0..count).map(|_| of[rng.usize(..of.len())]).collect();
    picked.into_iter().collect()
}

impl Update {
    /// The rule, word for word.
    fn is_heard_by(&self, listener: &Listener) -> bool {
        let topics: Vec<Topic<'_>> = self.topics.iter().map(|topic| Topic::new(topic)).collect();
        let any = |selector: &Selector| topics.iter().any(|topic| selector.matches(topic));
        listener.selectors.iter().any(|selector| any(selector))
            && (!self.is_private || listener.granted.iter().any(any))
    }

    fn keys(&self) -> Vec<String> {
        let UpdateKeys { about, also } = UpdateKeys::of(&self.topics, self.is_private).unwrap();
        std::iter::once(about).chain(also).collect()
    }
}

impl World {
    fn new(limits: TopicsLimits) -> World {
        let names = Arc::new(Names::new([7; 16]));
        let topics = Arc::new(Topics::new(Arc::clone(&names), limits));
        World { names, topics, listeners: BTreeMap::new(), sent: Vec::new(), now_ms: 1 }
    }

    fn try_join(
        &mut self,
        name: u64,
        selectors: &[&str],
        granted: Option<&[&str]>,
    ) -> Result<(), TopicsFull> {
        let selectors: Vec<Arc<Selector>> =
            selectors.iter().map(|text| Arc::new(selector(text))).collect();
        let grants = granted.map(grants_of);
        let listening = self.topics.listen(&selectors, grants.as_ref())?;
        let id = |key: &String| self.names.acquire(IdText::of_key(key).unwrap());
        let keys = listening.keys.iter().map(|key| (key.clone(), id(key))).collect();
        let granted = granted.unwrap_or_default().iter();
        let granted = granted.map(|text| selector(text)).collect();
        let is_counted = listening.is_counted;
        self.listeners.insert(name, Listener { selectors, granted, keys, is_counted });
        Ok(())
    }

    fn join(&mut self, name: u64, selectors: &[&str], granted: Option<&[&str]>) {
        self.try_join(name, selectors, granted).unwrap();
    }

    fn leave(&mut self, name: u64) {
        let Some(gone) = self.listeners.remove(&name) else { return };
        if gone.is_counted {
            self.topics.leave(gone.keys.iter().map(|(_, id)| *id));
        }
        gone.keys.iter().for_each(|(_, id)| self.names.release(*id));
    }

    /// Who hears it, each once.
    fn publish(&mut self, topics: &[&str], is_private: bool) -> BTreeSet<u64> {
        let topics: Vec<String> = topics.iter().map(|topic| (*topic).to_owned()).collect();
        let number = self.sent.last().map_or(1, |last| last.number + 1);
        let (keys, under_way) = self.topics.begin(&topics, is_private, self.now_ms).unwrap();
        let update = Update { number, topics, is_private };
        assert_eq!(update.keys()[0], keys.about);
        let followers = UpdateFollowers::new(&self.topics, &update.topics);
        let mut ids = BTreeSet::new();
        for key in update.keys() {
            let subject = self.names.lookup(IdText::of_key(&key).unwrap()).unwrap();
            ids.insert(subject);
            let mut after = None;
            loop {
                let next = followers.slice(subject, after, &mut |id| {
                    assert!(after.is_none_or(|after| id > after), "they come in their order");
                    ids.insert(id);
                });
                after = next.unwrap();
                if after.is_none() {
                    break;
                }
            }
        }
        under_way.posted(number, None);
        self.sent.push(update);
        let hears = |listener: &Listener| listener.keys.iter().any(|(_, id)| ids.contains(id));
        self.listeners.iter().filter(|(_, one)| hears(one)).map(|(name, _)| *name).collect()
    }

    /// The numbers of what one finds that was sent after `after`.
    fn missed(&self, name: u64, after: u64) -> BTreeSet<u64> {
        let followers = TopicFollowers::new(&self.topics, &Nobody);
        let mut found = BTreeSet::new();
        for (key, id) in &self.listeners[&name].keys {
            let mut subjects = BTreeSet::from([key.clone()]);
            let mut last = None;
            loop {
                let next = followers.slice_of_following(*id, last, &mut |id| {
                    subjects.extend(self.names.text(id));
                });
                last = next.unwrap();
                if last.is_none() {
                    break;
                }
            }
            for update in self.sent.iter().filter(|update| update.number > after) {
                let keys = update.keys();
                let mut texts = keys.iter().map(|key| Cow::Borrowed(&**key));
                if keys.iter().any(|key| subjects.contains(key)) && followers.hears(*id, &mut texts)
                {
                    found.insert(update.number);
                }
            }
        }
        found
    }

    fn check_missed(&self, name: u64, after: u64) {
        let listener = &self.listeners[&name];
        let later = self.sent.iter().filter(|update| update.number > after);
        let heard = later.filter(|update| update.is_heard_by(listener));
        let expected: BTreeSet<u64> = heard.map(|update| update.number).collect();
        assert_eq!(self.missed(name, after), expected, "{name} from {after} on");
        let kept = self.sent.iter().filter(|update| update.number > after);
        let kept = kept.filter(|update| self.finds_kept(name, update));
        let kept: BTreeSet<u64> = kept.map(|update| update.number).collect();
        assert_eq!(kept, expected, "{name} from {after} on, of what is kept");
    }
}

fn limits() -> TopicsLimits {
    TopicsLimits::new(60_000)
}

#[test]
fn everybody_hears_what_the_rule_says_and_finds_it_afterwards() {
    seeded(200, |rng| {
        let mut world = World::new(limits());
        for step in 0..rng.u64(1..60) {
            world.now_ms += 1;
            match rng.u8(0..10) {
                0..4 => {
                    let selectors = some(rng, &SELECTORS, 4);
                    let granted = of_one_token(&some(rng, &SELECTORS, 5));
                    world.join(step, &selectors, rng.bool().then_some(&granted[..]));
                }
                4 => world.leave(rng.u64(0..=step)),
                5 if rng.u8(0..5) == 0 => world.upgrade(rng.usize(1..200)),
                5..8 => {
                    let mut topics = some(rng, &TOPICS, 3);
                    rng.shuffle(&mut topics);
                    if topics.is_empty() {
                        continue;
                    }
                    let heard = world.publish(&topics, rng.bool());
                    let update = world.sent.last().unwrap();
                    let listeners = world.listeners.iter();
                    let expected = listeners.filter(|(_, one)| update.is_heard_by(one));
                    assert_eq!(heard, expected.map(|(name, _)| *name).collect(), "{topics:?}");
                }
                _ => {
                    let after = rng.u64(0..=world.sent.len() as u64);
                    let names: Vec<u64> = world.listeners.keys().copied().collect();
                    names.into_iter().for_each(|name| world.check_missed(name, after));
                }
            }
        }
        let names: Vec<u64> = world.listeners.keys().copied().collect();
        names.into_iter().for_each(|name| world.leave(name));
        let figures = world.topics.figures();
        assert_eq!((figures.keys, figures.lists, figures.patterns), (0, 0, 0));
        world.topics.forget(world.now_ms + 1_000_000);
        assert_eq!(world.topics.figures().topics, 0);
        assert!(world.names.is_empty(), "of what is gone nothing is kept");
    });
}

#[test]
fn private_update_reaches_whoever_is_granted_an_alternate_topic_and_nobody_else() {
    let mut world = World::new(limits());
    let (book, bobs) = ("https://a.test/books/1", "https://a.test/users/bob/books/1");
    let all_books: &[&str] = &["https://a.test/books/{id}"];
    world.join(1, all_books, Some(&["https://a.test/users/bob/{+rest}"]));
    world.join(2, all_books, Some(&["https://a.test/users/rj/{+rest}"]));
    world.join(3, all_books, None);
    world.join(4, all_books, Some(&[]));
    world.join(5, &["*"], Some(&["*"]));
    assert_eq!(world.publish(&[book, bobs], true), BTreeSet::from([1, 5]));
    assert_eq!(world.publish(&[book], true), BTreeSet::from([5]));
    assert_eq!(world.publish(&[book], false), BTreeSet::from([1, 2, 3, 4, 5]));
    (1..=5).for_each(|name| world.check_missed(name, 0));
}

#[test]
fn equal_grants_are_one_list_and_equal_patterns_one_key() {
    let mut world = World::new(limits());
    for name in 0..100 {
        world.join(name, &["https://a.test/books/{id}"], Some(&["note", "{word}"]));
    }
    let figures = world.topics.figures();
    assert_eq!((figures.patterns, figures.keys, figures.lists), (1, 2, 1));
    world.join(100, &["https://a.test/books/1"], Some(&["https://a.test/books/{id}"]));
    assert_eq!(world.topics.figures(), figures, "a topic that is granted is not counted");
}

#[test]
fn pattern_past_the_bound_is_refused_and_leaves_nothing() {
    let mut world = World::new(TopicsLimits { keys_max: 3, ..limits() });
    world.join(1, &["{a}"], None);
    let refused = world.try_join(2, &["{a}", "{b}", "{c}"], Some(&["note"]));
    assert_eq!(refused, Err(TopicsFull));
    let figures = world.topics.figures();
    assert_eq!((figures.keys, figures.lists, figures.patterns), (1, 0, 1));
    world.leave(1);
    assert!(world.names.is_empty());
}

#[test]
fn lists_of_grants_past_their_bytes_are_refused_and_leave_nothing() {
    let mut world = World::new(TopicsLimits { list_bytes_max: 70_000, ..limits() });
    let names: Vec<String> = (0..500).map(|n| format!("topic {n}")).collect();
    let granted: Vec<&str> = names.iter().map(|name| &**name).collect();
    world.join(1, &["{a}"], Some(&granted));
    world.join(2, &["{b}"], Some(&granted));
    world.join(3, &["{b}"], Some(&granted[1..]));
    world.join(4, &["{b}"], Some(&granted[2..]));
    assert_eq!(world.try_join(5, &["{b}"], Some(&granted[3..])), Err(TopicsFull));
    assert_eq!(world.topics.figures().lists, 3, "equal ones are one");
    (1..4).for_each(|name| world.leave(name));
    world.join(5, &["{b}"], Some(&granted[3..]));
    (4..6).for_each(|name| world.leave(name));
    assert!(world.names.is_empty());
}

#[test]
fn topics_that_went_are_a_gap_for_patterns_and_those_under_way_stay() {
    let mut world = World::new(limits());
    world.join(1, &["{word}"], None);
    world.join(2, &["note"], None);
    let unknown = |world: &World, name: u64| {
        let followers = TopicFollowers::new(&world.topics, &Nobody);
        followers.unknown_up_to(world.listeners[&name].keys[0].1)
    };
    world.publish(&["note"], false);
    world.publish(&["note"], false);
    assert_eq!((unknown(&world, 1), world.topics.figures().topics), (0, 1));
    world.now_ms += 60_000;
    world.topics.forget(world.now_ms);
    assert_eq!(unknown(&world, 1), 0, "it may be remembered");
    world.now_ms += 60_000;
    let (_, under_way) = world.topics.begin(&["other".into()], false, 1).unwrap();
    world.topics.forget(world.now_ms);
    assert_eq!((unknown(&world, 1), unknown(&world, 2)), (2, 0));
    assert_eq!(world.topics.figures().topics, 1, "it is under way");
    drop(under_way);
    world.topics.forget(world.now_ms);
    assert_eq!((world.topics.figures().topics, unknown(&world, 1)), (0, 2));
}

#[test]
fn pattern_finds_topics_of_many_slices() {
    let mut world = World::new(limits());
    let topics: Vec<String> = (0..3 * SLICE_MAX).map(|n| format!("word{n}")).collect();
    world.join(1, &["{word}"], Some(&["{word}"]));
    world.join(2, &["word1{rest}"], None);
    for (n, topic) in topics.iter().enumerate() {
        world.publish(&[topic], n % 2 == 0);
    }
    assert_eq!(world.missed(1, 0).len(), topics.len());
    world.check_missed(2, 100);
}

#[test]
fn topic_that_cannot_be_a_key_is_none() {
    let world = World::new(limits());
    for topic in ["a\nb", "\u{85}", &"x".repeat(5_000)] {
        assert!(world.topics.begin(&[topic.to_owned()], false, 1).is_none());
    }
    assert!(world.topics.begin(&[], false, 1).is_none());
    assert_eq!(world.topics.figures().topics, 0);
}

/// Each client has a token of its own, as applications make them, and all listen to one pattern.
#[test]
fn many_lists_of_one_pattern_are_gone_through_in_slices_whoever_leaves() {
    const CLIENTS: u64 = 2 * SLICE_MAX as u64 + 100;
    let mut world = World::new(limits());
    let granted = |name: u64| format!("https://a.test/users/{name}");
    let also = |name: u64| match name % 2 {
        0 => "https://a.test/books/1",
        _ => "https://a.test/books/2",
    };
    for name in 0..CLIENTS {
        let own = granted(name);
        world.join(name, &["https://a.test/books/{id}"], Some(&[&own, also(name)]));
    }
    let of = |kind: u64, left: u64| -> BTreeSet<u64> {
        (0..CLIENTS).filter(|name| name % 2 == kind && name % 3 >= left).collect()
    };
    assert_eq!(world.publish(&["https://a.test/books/1"], true), of(0, 0));
    assert_eq!(world.publish(&["https://a.test/books/2"], true), of(1, 0));
    (0..CLIENTS).filter(|name| name % 3 == 0).for_each(|name| world.leave(name));
    assert_eq!(world.publish(&["https://a.test/books/1"], true), of(0, 1));
    for name in [1, 2, CLIENTS - 2, CLIENTS - 1].into_iter().filter(|name| name % 3 > 0) {
        world.check_missed(name, 0);
    }
    (0..CLIENTS).for_each(|name| world.leave(name));
    assert_eq!(world.topics.figures().keys, 0);
}

#[test]
fn clients_without_a_token_leave_room_for_those_who_have_one() {
    let mut world = World::new(TopicsLimits { anonymous_keys_max: 2, ..limits() });
    world.join(0, &["https://a.test/{one}"], None);
    world.join(1, &["https://a.test/{two}", "note"], None);
    assert_eq!(world.try_join(2, &["https://a.test/{three}"], None), Err(TopicsFull));
    world.join(3, &["https://a.test/{one}", "note", "https://b.test/"], None);
    world.join(4, &["https://a.test/{three}"], Some(&["note"]));
    // Who has a token may have made it.
    world.join(5, &["https://a.test/{three}"], None);
    world.leave(1);
    world.join(6, &["https://a.test/{four}"], None);
    assert_eq!(world.try_join(7, &["https://a.test/{five}"], None), Err(TopicsFull));
    (0..8).for_each(|name| world.leave(name));
    assert_eq!(world.topics.figures().keys, 0);
}

#[test]
fn one_who_asks_for_subscriptions_hears_of_a_gap_before_they_were_told() {
    let mut world = World::new(limits());
    let paths = "/.well-known/mercure/subscriptions{/topic}{/subscriber}";
    world.join(1, &[paths], Some(&[paths]));
    world.join(2, &[paths], Some(&["*"]));
    world.join(3, &["*"], Some(&["*"]));
    world.join(4, &[paths], None);
    let unknown = |name: u64| {
        let followers = TopicFollowers::new(&world.topics, &Nobody);
        let keys = world.listeners[&name].keys.iter();
        keys.map(|(_, id)| followers.unknown_up_to(*id)).max().unwrap()
    };
    assert_eq!([1, 2, 3, 4].map(unknown), [0; 4]);
    world.topics.subscriptions().ask(|| 5);
    assert_eq!([1, 2, 3, 4].map(unknown), [5, 5, 0, 0]);
}
