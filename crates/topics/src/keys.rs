//! Which keys a listener is to be logged in under, and which keys an update is about.

use std::borrow::Cow;

use hub::{IdText, Key, Space};
use mercure::{Grants, Selector, SelectorKind, Topic};

/// The keys under which one listener is to be logged in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listening {
    /// Their texts.
    pub keys: Vec<String>,
    /// Whether some of them are counted by listeners, and must be [left](crate::Topics::leave).
    pub is_counted: bool,
    /// Whether it may hear [who is subscribed](crate::Subscriptions).
    pub hears_subscriptions: bool,
}

/// The keys that an update is about, each topic once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdateKeys {
    /// The key of the canonical topic.
    pub about: String,
    /// The keys of the alternate ones.
    pub also: Vec<String>,
}

impl UpdateKeys {
    /// The keys of an update on `topics`, of which there is one at least.
    pub fn of(topics: &[String], is_private: bool) -> Option<UpdateKeys> {
        let (first, others) = topics.split_first()?;
        let key = |topic: &String| topic_key(topic, is_private);
        Some(UpdateKeys { about: key(first), also: others.iter().map(key).collect() })
    }

    /// These keys, if each may be one: a topic may have no control character.
    pub fn checked(self) -> Option<UpdateKeys> {
        let is_key = |text: &String| IdText::of_key(text).is_ok();
        (is_key(&self.about) && self.also.iter().all(is_key)).then_some(self)
    }

    /// The topics of an update that is about these `keys`, and whether it is private; `None` of
    /// what is no update.
    pub fn topics<'k>(keys: impl IntoIterator<Item = Cow<'k, str>>) -> Option<(Vec<String>, bool)> {
        let (mut topics, mut is_private) = (Vec::new(), None);
        for key in keys {
            let Key { space, name, .. } = Key::parse(&key)?;
            let of_this = match space {
                Space::Topic => false,
                Space::PrivateTopic => true,
                _ => return None,
            };
            if *is_private.get_or_insert(of_this) != of_this {
                return None;
            }
            topics.push(name.to_owned());
        }
        Some((topics, is_private?))
    }
}

/// The key of a topic, for all, or for those who are granted it.
pub(crate) fn topic_key(topic: &str, is_private: bool) -> String {
    let space = if is_private { Space::PrivateTopic } else { Space::Topic };
    Key { space, app: "", name: topic }.text()
}

/// How a selector is listened to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Nothing private may come by it.
    Public,
    /// All that is private and comes by it is granted.
    Granted,
    /// What is private and comes by it is granted or not.
    Perhaps,
}

impl Access {
    /// How one with these `grants` listens to `selector`.
    pub(crate) fn of(selector: &Selector, grants: Option<&Grants>) -> Access {
        let Some(grants) = grants.filter(|grants| !grants.is_empty()) else {
            return Access::Public;
        };
        let is_granted = match selector.kind() {
            SelectorKind::Exact => grants.opens(&Topic::new(selector.text())),
            SelectorKind::All | SelectorKind::Pattern => grants.lists(selector),
        };
        if is_granted { Access::Granted } else { Access::Perhaps }
    }
}

/// The key of a selector that somebody listens to, with its grants or without.
pub(crate) fn selector_key(selector: &Selector, is_granted: bool) -> String {
    match selector.kind() {
        SelectorKind::Exact => topic_key(selector.text(), is_granted),
        SelectorKind::All | SelectorKind::Pattern => {
            let space = if is_granted { Space::PrivatePattern } else { Space::Pattern };
            Key { space, app: "", name: &selector.key() }.text()
        }
    }
}

/// The key of a selector that is listened to with the list of grants of this number.
pub(crate) fn granted_key(selector: &Selector, list: u64) -> String {
    let (kind, name): (&str, Cow<'_, str>) = match selector.kind() {
        SelectorKind::Exact => ("", selector.text().into()),
        SelectorKind::All | SelectorKind::Pattern => ("*", selector.key()),
    };
    // A topic may read as the key of a pattern.
    Key { space: Space::Granted, app: &format!("{list}{kind}"), name: &name }.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_an_update_tell_its_topics_and_those_of_others_none() {
        let topics = ["https://a.test/1".to_owned(), "#t:b".to_owned(), String::new()];
        for is_private in [false, true] {
            let UpdateKeys { about, also } = UpdateKeys::of(&topics, is_private).unwrap();
            let keys = std::iter::once(about).chain(also).map(Cow::Owned);
            assert_eq!(UpdateKeys::topics(keys), Some((topics.to_vec(), is_private)));
        }
        for others in [&["#t:a", "#p:b"][..], &["#c1:a"], &["#t:a", "bob"], &["#r:*"], &[]] {
            let keys = others.iter().map(|key| Cow::Borrowed(*key));
            assert_eq!(UpdateKeys::topics(keys), None, "{others:?}");
        }
        let bad = |topic: &str| UpdateKeys::of(&[topic.to_owned()], false).unwrap().checked();
        assert!(bad("a\nb").is_none() && bad("a b").is_some());
    }
}
