//! Who hears an update, where that may not take long.

use std::sync::Arc;

use hub::{Followers, Id, IdText};

use super::{World, limits};
use crate::{UpdateFollowers, UpdateKeys};

impl World {
    /// Who follows the topic, if that is said at once; the same as without a bound.
    fn at_once(&self, topic: &str, is_private: bool) -> Option<Vec<Id>> {
        let topics = [topic.to_owned()];
        let UpdateKeys { about, .. } = UpdateKeys::of(&topics, is_private).unwrap();
        let subject = self.names.acquire(IdText::of_key(&about).unwrap());
        let all = |followers: UpdateFollowers<'_>| {
            let mut found = Vec::new();
            let next = followers.slice(subject, None, &mut |id| found.push(id)).ok()?;
            assert_eq!(next, None, "they fit into a slice");
            Some(found)
        };
        let without_bound = all(UpdateFollowers::new(&self.topics, &topics[..]));
        let at_once = all(UpdateFollowers::at_once(&self.topics, &topics[..]));
        self.names.release(subject);
        assert!(at_once.is_none() || at_once == without_bound);
        at_once
    }

    fn heard_at_once(&self, topic: &str, is_private: bool) -> Option<usize> {
        self.at_once(topic, is_private).map(|found| found.len())
    }
}

#[test]
fn patterns_that_are_tried_are_few() {
    let mut world = World::new(limits());
    let pattern = |n: u64| format!("https://a.test/{{a}}/{n}{{+b}}");
    for n in 0..64 {
        world.join(n, &[&pattern(n)], None);
    }
    assert_eq!(world.heard_at_once("https://a.test/x/63", false), Some(2), "6 and 63");
    world.join(64, &[&pattern(64)], None);
    assert_eq!(world.heard_at_once("https://a.test/x/63", false), None);
    assert_eq!(world.heard_at_once("https://b.test/x/63", false), Some(0), "none is tried");
    world.leave(0);
    assert_eq!(world.heard_at_once("https://a.test/x/63", false), Some(2));
}

#[test]
fn pattern_with_regular_expressions_is_not_tried_at_once() {
    let mut world = World::new(limits());
    world.join(1, &["url https://a.test/:kind(b.*s)/:id"], None);
    assert_eq!(world.heard_at_once("https://a.test/books/1", false), None);
    assert_eq!(world.heard_at_once("https://b.test/books/1", false), Some(0));
}

#[test]
fn lists_of_grants_that_are_looked_at_are_short() {
    let mut world = World::new(limits());
    let granted: Vec<String> = (0..64).map(|n| format!("https://a.test/books/{n}")).collect();
    let granted: Vec<&str> = granted.iter().map(|text| &**text).collect();
    let pattern = "https://a.test/books/{id}";
    world.join(1, &[pattern], Some(&granted));
    assert_eq!(world.heard_at_once("https://a.test/books/63", true), Some(1));
    assert_eq!(world.heard_at_once("https://a.test/books/64", true), Some(0));
    world.join(2, &[pattern], Some(&granted[..1]));
    assert_eq!(world.heard_at_once("https://a.test/books/63", true), None);
    let plain = "https://a.test/users/{user}/books/1";
    world.join(3, &[plain], Some(&["url https://a.test/:kind(b.*s)/:id"]));
    assert_eq!(world.heard_at_once("https://a.test/users/bob/books/1", true), None);
    assert_eq!(Arc::strong_count(&world.names), 2, "names are the world's and the tables'");
}
