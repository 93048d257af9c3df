//! What is known of topics, handed on to the process that goes on for this one.
//!
//! ```text
//! dump, dump, … None     while updates come, a slice at a time  -> take_over, each in its turn
//! dump, … None           once none come any more: what differs  -> take_over
//! rest                   after that                             -> take_over_rest
//! ```
//!
//! Both must have the same history, and the same dictionary of names but for their ids. Who listens
//! comes by its connection ([`Topics::listen_again`]).
//!
//! Cost: a copy of each topic and of each id, under a lock for as long as a slice takes; in the
//! second round a look at each topic.

use hub::IdText;
use serde::{Deserialize, Serialize};

use crate::keys::topic_key;
use crate::state::{LastUpdate, Topics};
use crate::subscriptions::SubscriptionsRest;

/// Topics that one slice looks at.
const LOOKS_MAX: usize = 8_192;

/// A slice of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TopicsPart {
    topics: Vec<KnownTopic>,
    /// Ids of publishers, and the number of the update that each means.
    ids: Vec<(Box<str>, u64)>,
}

/// A topic about which something may be remembered.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct KnownTopic {
    topic: String,
    /// The number of its last update, and how many milliseconds ago that was.
    last: u64,
    age_ms: u64,
    /// Which kinds of updates there were.
    is_public: bool,
    is_private: bool,
}

/// How far it has been dumped.
#[derive(Clone, Debug, Default)]
pub struct TopicsDumped {
    ids: u64,
    /// Topics that changed before this walk have been.
    since: u32,
    walk: Option<Walk>,
}

/// A round over all topics.
#[derive(Clone, Debug)]
struct Walk {
    number: u32,
    /// The topic that was looked at last.
    after: Option<Box<str>>,
    is_done: bool,
}

/// What is known once no updates come any more.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TopicsRest {
    floor: u64,
    last: Option<LastUpdate>,
    subscriptions: SubscriptionsRest,
}

impl TopicsPart {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty() && self.ids.is_empty()
    }
}

impl Topics {
    /// The next slice, of texts of `most_bytes` or little more; perhaps an empty one. `None` when a
    /// round is done: the next call begins another one, which has what changed since.
    pub fn dump(
        &self,
        dumped: &mut TopicsDumped,
        most_bytes: usize,
        now_ms: u64,
    ) -> Option<TopicsPart> {
        let TopicsDumped { ids: ids_up_to, since, walk } = dumped;
        let (mut part, mut bytes) = (TopicsPart::default(), 0);
        let walk = match walk {
            Some(done) if done.is_done => {
                *since = done.number;
                *walk = None;
                return None;
            }
            Some(walk) => walk,
            None => {
                (part.ids, *ids_up_to) = self.ids().dump(*ids_up_to, most_bytes);
                bytes = part.ids.iter().map(|(id, _)| id.len()).sum();
                if bytes >= most_bytes {
                    return Some(part);
                }
                let number = self.state_mut().index.begin_walk();
                walk.insert(Walk { number, after: None, is_done: false })
            }
        };
        let state = self.state();
        let last = state.index.walk("", walk.after.as_deref(), LOOKS_MAX, &mut |topic, entry| {
            let (last, last_ms) = entry.last();
            if last > 0 && entry.changed() >= *since {
                bytes += topic.len();
                part.topics.push(KnownTopic {
                    topic: topic.to_owned(),
                    last,
                    age_ms: now_ms.saturating_sub(last_ms),
                    is_public: entry.public.is_some(),
                    is_private: entry.private.is_some(),
                });
            }
            bytes < most_bytes
        });
        walk.after = last.map(|(topic, _)| topic.into());
        walk.is_done = walk.after.is_none();
        Some(part)
    }

    /// What is to be known beside that.
    pub fn rest(&self) -> TopicsRest {
        let state = self.state();
        TopicsRest {
            floor: state.index.floor(),
            last: state.last.clone(),
            subscriptions: self.subscriptions().rest(),
        }
    }

    /// Takes over a slice that other tables have dumped. `false` if it is none; then a part of it
    /// may be here.
    #[must_use]
    pub fn take_over(&self, part: TopicsPart, now_ms: u64) -> bool {
        part.ids.iter().for_each(|(id, number)| self.ids().put(id, *number));
        let mut state = self.state_mut();
        for KnownTopic { topic, last, age_ms, is_public, is_private } in part.topics {
            let key = |has: bool, is_private| has.then(|| topic_key(&topic, is_private));
            let keys = [key(is_public, false), key(is_private, true)];
            if keys.iter().flatten().any(|key| IdText::of_key(key).is_err()) {
                return false;
            }
            let entry = state.index.take_over(&topic, last, now_ms.saturating_sub(age_ms));
            let places = [&mut entry.public, &mut entry.private];
            for (place, key) in places.into_iter().zip(keys.iter().map(Option::as_deref)) {
                let text = key.and_then(|key| IdText::of_key(key).ok());
                if place.is_none() {
                    *place = text.map(|text| self.names.acquire(text));
                }
            }
        }
        true
    }

    /// Takes over the rest, when all connections have been.
    pub fn take_over_rest(&self, rest: TopicsRest) {
        let mut state = self.state_mut();
        state.index.raise_floor(rest.floor);
        state.last = rest.last;
        drop(state);
        self.arriving.forget();
        self.subscriptions().take_over(rest.subscriptions);
    }
}
