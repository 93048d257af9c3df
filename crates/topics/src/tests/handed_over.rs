//! Another process goes on: with the same tables, other ids of names, and other numbers of lists.

use super::*;
use crate::TopicsDumped;

impl World {
    /// Hands all that is known on to the tables of another process, in slices of so many bytes.
    fn hand_on(&self, to: &World, dumped: &mut TopicsDumped, most_bytes: usize) {
        while let Some(part) = self.topics.dump(dumped, most_bytes, self.now_ms) {
            let written = serde_json::to_string(&part).unwrap();
            let part = serde_json::from_str(&written).unwrap();
            assert!(to.topics.take_over(part, self.now_ms));
        }
    }

    /// Another process goes on with all, and this one ends.
    pub(super) fn upgrade(&mut self, most_bytes: usize) {
        let mut next = World::new(*self.topics.limits());
        // Other numbers of lists, and ids of names.
        next.join(0, &["{other}"], Some(&["none"]));
        let mut dumped = TopicsDumped::default();
        (0..2).for_each(|_| self.hand_on(&next, &mut dumped, most_bytes));
        let names: Vec<u64> = self.listeners.keys().copied().collect();
        next.leave(0);
        for name in names {
            let keys: Vec<String> =
                self.listeners[&name].keys.iter().map(|(key, _)| key.clone()).collect();
            for list in keys.iter().filter_map(|key| self.topics.write_list(key)) {
                next.topics.expect_list(&list);
            }
            let is_anonymous = self.listeners[&name].granted.is_empty();
            let listening = next.topics.listen_again(&keys, is_anonymous).unwrap();
            assert_eq!(listening.is_counted, self.listeners[&name].is_counted);
            self.leave_but(name, |before| {
                let id = |key: &String| next.names.acquire(IdText::of_key(key).unwrap());
                let keys = listening.keys.iter().map(|key| (key.clone(), id(key))).collect();
                next.listeners.insert(name, Listener { keys, ..before });
            });
        }
        next.topics.take_over_rest(self.topics.rest());
        assert_eq!(next.topics.last_update(), self.topics.last_update());
        (next.sent, next.now_ms) = (std::mem::take(&mut self.sent), self.now_ms);
        self.topics.forget(self.now_ms + 1_000_000);
        assert!(self.names.is_empty(), "nothing is left in the one before");
        *self = next;
    }

    /// One leaves, and is another's.
    fn leave_but(&mut self, name: u64, take: impl FnOnce(Listener)) {
        let Listener { selectors, granted, keys, is_counted } =
            self.listeners.remove(&name).unwrap();
        if is_counted {
            self.topics.leave(keys.iter().map(|(_, id)| *id));
        }
        keys.iter().for_each(|(_, id)| self.names.release(*id));
        take(Listener { selectors, granted, keys: Vec::new(), is_counted });
    }
}

#[test]
fn what_changes_while_it_is_handed_on_is_handed_on_behind_it() {
    let (mut world, next) = (World::new(limits()), World::new(limits()));
    world.join(1, &["{word}"], None);
    world.publish(&["a"], false);
    world.publish(&["b", "c"], false);
    let (_, under_way) = world.topics.begin(&["a".into()], true, 1).unwrap();
    let mut dumped = TopicsDumped::default();
    world.hand_on(&next, &mut dumped, 1);
    assert_eq!(next.topics.figures().topics, 3);
    world.sent.push(Update { number: 3, topics: vec!["a".into()], is_private: true });
    under_way.posted(3, Some("urn:3"));
    world.publish(&["d"], false);
    world.now_ms += 1_000;
    let first = world.topics.dump(&mut dumped, usize::MAX, world.now_ms).unwrap();
    let text = serde_json::to_value(&first).unwrap();
    let names: Vec<&str> =
        text["topics"].as_array().unwrap().iter().map(|of| of["topic"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "d"], "what has not changed is there already");
    assert_eq!(text["ids"][0], serde_json::json!(["urn:3", 3]));
    assert!(next.topics.take_over(first, world.now_ms));
    assert!(world.topics.dump(&mut dumped, usize::MAX, world.now_ms).is_none());
    next.topics.take_over_rest(world.topics.rest());
    assert_eq!(next.topics.figures().topics, world.topics.figures().topics);
    assert_eq!(next.topics.ids().number("urn:3"), Some(3));
    // They are as old as they were.
    next.topics.forget(next.now_ms + limits().topic_ms);
    assert_eq!(next.topics.figures().topics, 4);
    next.topics.forget(world.now_ms + limits().topic_ms);
    assert_eq!(next.topics.figures().topics, 0);
    assert!(next.names.is_empty());
}

#[test]
fn part_with_what_can_be_no_topic_is_none() {
    let world = World::new(limits());
    let part = serde_json::json!({ "topics": [{ "topic": "a\nb", "last": 1, "is_public": true }] });
    assert!(!world.topics.take_over(serde_json::from_value(part).unwrap(), 1));
}

#[test]
fn one_who_was_let_in_before_goes_on_past_the_shares_of_those_who_come() {
    let tight = TopicsLimits { anonymous_keys_max: 1, ..limits() };
    let world = World::new(tight);
    let keys = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    for name in ["{a}", "{b}", "{c}"] {
        let again = world.topics.listen_again(&keys(&[&format!("#r:template {name}")]), true);
        assert!(again.is_some(), "{name}");
    }
    let refused = world.topics.listen(&[Arc::new(selector("{d}"))], None);
    assert_eq!(refused.unwrap_err(), TopicsFull);
    let figures = world.topics.figures();
    // A list that has not come, a key of something else, a pattern that is none.
    for bad in ["#g7:note", "#c1:a", "bob", "#r:template a", "#r:other {a}", "#v:urlpattern x y"] {
        let again = world.topics.listen_again(&keys(&["#r:template {a}", bad]), true);
        assert!(again.is_none(), "{bad}");
        assert_eq!(world.topics.figures(), figures, "nothing was done");
    }
    world.topics.expect_list(b"{\"number\":7,\"patterns\":[\"template a\"]}");
    world.topics.expect_list(b"no list");
    assert!(world.topics.listen_again(&keys(&["#g7:note"]), false).is_none());
    world.topics.expect_list(b"{\"number\":7,\"exact\":[\"a\"],\"new\":1}");
    assert!(world.topics.listen_again(&keys(&["#t:note", "#g7:note"]), false).is_some());
    world.topics.take_over_rest(Default::default());
    assert!(world.topics.listen_again(&keys(&["#g7:note"]), false).is_none(), "all have come");
}
