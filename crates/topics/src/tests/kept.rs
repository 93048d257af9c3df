//! What is found of updates that are kept, and of those that were forgotten.

use std::borrow::Cow;
use std::sync::Arc;

use hub::{Draft, Followers, IdText, Key, Nobody, kept_under};
use hub::{EventId, EventParts, History, HistoryLimits, Payload, Since, Slice, Tag};

use super::{Update, World, limits};
use crate::TopicFollowers;

impl World {
    /// Whether one finds an update that is kept, as an archive looks for it, which knows no tables.
    pub(super) fn finds_kept(&self, name: u64, update: &Update) -> bool {
        let followers = TopicFollowers::new(&self.topics, &Nobody);
        let about = update.keys();
        let mut ids = self.listeners[&name].keys.iter();
        ids.any(|(key, id)| {
            let listener = followers.kept_listener(*id);
            let is_there = match &listener {
                Some(listener) if listener.is_of_many() => {
                    let begins =
                        |key: &str| Key::parse(key).unwrap().name.starts_with(listener.literal());
                    assert!(about.iter().all(|key| !listener.listens(key) || begins(key)));
                    about.iter().any(|key| listener.listens(key))
                }
                _ => kept_under(key).iter().any(|key| about.iter().any(|own| own == key)),
            };
            let mut subjects = about.iter().map(|key| Cow::Borrowed(&**key));
            is_there && listener.is_none_or(|listener| listener.hears(&mut subjects))
        })
    }
}

/// Nobody keeps the name of what is public about a topic any more. What was forgotten of it the
/// history knows, if it is asked.
#[test]
fn one_who_is_granted_a_topic_is_told_what_was_forgotten_of_what_is_public_about_it() {
    let mut world = World::new(limits());
    world.join(1, &["note"], Some(&["note"]));
    let bounds = HistoryLimits { events_max: 9, age_ms_max: 100, bytes_max: 1 << 20 };
    let history: History<()> = History::new(Arc::clone(&world.names), bounds);
    let payload = Payload::Json("1");
    let parts = EventParts { about: "#t:note", also: &[], name: None, from: None, payload };
    let event = Draft::of_key(parts).unwrap().numbered(EventId::new(5, Tag::of(1)));
    let begun = history.begin(&[IdText::of_key("#t:note").unwrap()]);
    history.record(begun, Arc::new(event), 0);
    let followers = TopicFollowers::new(&world.topics, &Nobody);
    let own = world.listeners[&1].keys[0].1;
    let covered = |after: u64| {
        let mut subjects = vec![own];
        followers.slice_of_following(own, None, &mut |id| subjects.push(id)).unwrap();
        let mut found = Vec::new();
        match history.since(&subjects, after, history.now(), Slice::ALL, &mut found) {
            Since::Read { covered, .. } => (covered, found.len()),
            Since::Pending => panic!("nothing is under way"),
        }
    };
    assert_eq!(covered(4), (true, 1));
    while history.expire(1_000) {}
    assert!(world.names.lookup(IdText::of_key("#t:note").unwrap()).is_none());
    assert_eq!((covered(4), covered(5)), ((false, 0), (true, 0)));
    world.leave(1);
    assert!(world.names.is_empty());
}
