//! The tables, shared by those who publish, those who look up what was missed, and workers whose
//! clients listen to patterns.
//!
//! One lock. A publisher holds it to read, for as long as it takes to find the patterns that match,
//! and before and behind that to write, for its topics. A client that listens to a pattern, or
//! leaves it, holds it to write, for a few look-ups and one compiled pattern.

use std::sync::Arc;

use hub::{Id, IdText, Names};
use mercure::limits::PATTERNS_MAX;
use mercure::{Grants, Selector, SelectorKind};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::index::Index;
use crate::keys::{Access, Listening, UpdateKeys, granted_key, selector_key};
use crate::listened::{Listened, ListenerKind, Part};
use crate::lists::{Arriving, Lists};
use crate::places::PublisherIds;
use crate::subscriptions::{self, Subscriptions};

/// Bounds of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopicsLimits {
    /// Keys that are counted by their listeners: of patterns, and of lists of grants.
    pub keys_max: usize,
    /// For how many patterns those may count that clients without a token take: never all.
    pub anonymous_keys_max: usize,
    /// Bytes of the lists of grants that clients listen with.
    pub list_bytes_max: usize,
    /// Bytes of the topics that are known.
    pub topic_bytes_max: usize,
    /// Bytes of the ids of publishers that are known.
    pub id_bytes_max: usize,
    /// How long a topic is known after its last update, in milliseconds: longer than what is sent
    /// about it is remembered.
    pub topic_ms: u64,
}

impl TopicsLimits {
    /// Those where events are remembered for `age_ms`. A topic of 60 bytes counts for 250, so
    /// 64 MiB are 260,000 topics; an id of 40 for 170, so 32 MiB are 190,000 updates, as many as
    /// the history has room for.
    pub fn new(age_ms: u64) -> TopicsLimits {
        TopicsLimits {
            keys_max: 100_000,
            anonymous_keys_max: PATTERNS_MAX / 2,
            list_bytes_max: 256 << 20,
            topic_bytes_max: 64 << 20,
            id_bytes_max: 32 << 20,
            topic_ms: age_ms.saturating_add(TOPIC_SPARE_MS),
        }
    }
}

/// How much longer a topic is known than what is sent about it, in milliseconds: the history ages
/// by the clock of its router.
const TOPIC_SPARE_MS: u64 = 10_000;

/// Topics that are looked at by one [`Topics::forget`].
const LOOKS_MAX: usize = 1024;

/// There is no room for another pattern, or another list of grants. Nothing was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "Clients listen to as many different patterns, or with as many different tokens, as may be"
)]
pub struct TopicsFull;

/// How much there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TopicsFigures {
    /// Different patterns that are listened to.
    pub patterns: usize,
    /// Keys that are counted by their listeners.
    pub keys: usize,
    /// Those of them that were made for clients without a token.
    pub anonymous_keys: usize,
    /// Those of them that have a list of grants.
    pub list_keys: usize,
    /// Log-ins under all of them.
    pub listeners: usize,
    /// Lists of grants that such keys have.
    pub lists: usize,
    /// Topics that are known.
    pub topics: usize,
    /// The bytes that they count for.
    pub topic_bytes: usize,
    /// Ids of publishers that are known.
    pub ids: usize,
    /// The bytes that they count for.
    pub id_bytes: usize,
}

/// Who listens to what, and what there was.
pub struct Topics {
    pub(crate) names: Arc<Names>,
    limits: TopicsLimits,
    ids: PublisherIds,
    subscriptions: Subscriptions,
    state: RwLock<State>,
    pub(crate) arriving: Arriving,
}

impl std::fmt::Debug for Topics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?}", self.figures())
    }
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) listened: Listened,
    pub(crate) index: Index,
    lists: Lists,
    /// The update that was posted last.
    pub(crate) last: Option<LastUpdate>,
}

/// The update that was posted last.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LastUpdate {
    /// Its number.
    pub number: u64,
    /// The id that its publisher gave it.
    #[serde(default)]
    pub id: Option<Box<str>>,
}

/// An update on its way. It is known from before it is sent, and ends when it is
/// [posted](UnderWay::posted) or dropped.
#[derive(Debug)]
pub struct UnderWay {
    topics: Arc<Topics>,
    of: Vec<String>,
    /// The time at its begin.
    now_ms: u64,
    posted: Option<LastUpdate>,
}

impl Topics {
    /// Nobody listens, and nothing was sent. Keys are names of `names`.
    pub fn new(names: Arc<Names>, limits: TopicsLimits) -> Topics {
        let ids = PublisherIds::new(limits.id_bytes_max);
        let subscriptions = Subscriptions::default();
        let (state, arriving) = (RwLock::default(), Arriving::default());
        Topics { names, limits, ids, subscriptions, state, arriving }
    }

    /// What was sent up to this number may not be known here, for this process has begun later.
    pub fn begun_at(&self, number: u64) {
        self.state.write().index.raise_floor(number);
        self.subscriptions.begin_at(number);
    }

    /// The keys under which one who listens to `selectors` with these grants is to be logged in,
    /// in this order: before it is, so that whoever sends finds it as soon as it is.
    ///
    /// # Errors
    ///
    /// There is no room for another pattern.
    pub fn listen(
        &self,
        selectors: &[Arc<Selector>],
        grants: Option<&Arc<Grants>>,
    ) -> Result<Listening, TopicsFull> {
        let mut listening = Listening::default();
        let mut counted = Vec::new();
        for selector in selectors {
            let access = Access::of(selector, grants.map(|grants| &**grants));
            let key = selector_key(selector, access == Access::Granted);
            if selector.kind() != SelectorKind::Exact {
                let is_granted = access == Access::Granted;
                let part = if is_granted { Part::Private } else { Part::Public };
                counted.push((key.clone(), selector, part));
            }
            listening.keys.push(key);
            if let (Access::Perhaps, Some(list)) = (access, grants) {
                // It has its key with the number of the list.
                counted.push((String::new(), selector, Part::Granted(Arc::clone(list))));
            }
        }
        listening.hears_subscriptions =
            grants.is_some_and(|grants| subscriptions::may_hear(selectors, grants));
        if !counted.is_empty() {
            listening.is_counted = true;
            let of = ListenerKind { is_anonymous: grants.is_none(), was_let_in: false };
            self.count(counted, of, &mut listening)?;
        }
        Ok(listening)
    }

    /// Counts one more listener of each key.
    pub(crate) fn count(
        &self,
        counted: Vec<(String, &Arc<Selector>, Part)>,
        of: ListenerKind,
        listening: &mut Listening,
    ) -> Result<(), TopicsFull> {
        let mut state = self.state.write();
        let mut done = Vec::with_capacity(counted.len());
        for (mut key, selector, part) in counted {
            let list = match &part {
                Part::Granted(list) => Some(Arc::clone(list)),
                Part::Public | Part::Private => None,
            };
            if let Some(list) = &list {
                let Some(number) = state.lists.take(list, self.limits.list_bytes_max) else {
                    done.into_iter().for_each(|id| self.leave_key(&mut state, id));
                    return Err(TopicsFull);
                };
                key = granted_key(selector, number);
                listening.keys.push(key.clone());
            }
            let id = IdText::of_key(&key).ok().map(|text| self.names.acquire(text));
            let has_share = of.was_let_in || !of.is_anonymous;
            let anonymous_max = if has_share { usize::MAX } else { self.limits.anonymous_keys_max };
            let has_room = state.listened.keys() < self.limits.keys_max
                && state.listened.anonymous() + selector.cost() <= anonymous_max;
            let has_place = |id: &Id| has_room || state.listened.of_key(*id).is_some();
            let is_first = match id.filter(has_place) {
                Some(id) => state.listened.listen(id, (selector, part), of),
                None => Err(crate::listened::Full),
            };
            // The first one keeps the name, and the number of the list.
            if is_first != Ok(true) {
                id.into_iter().for_each(|id| self.names.release(id));
                list.iter().for_each(|list| state.lists.give_back(list));
            }
            if is_first.is_err() {
                done.into_iter().for_each(|id| self.leave_key(&mut state, id));
                return Err(TopicsFull);
            }
            done.extend(id);
        }
        Ok(())
    }

    /// One who was logged in under these keys listens no more. Those that are not counted are
    /// passed over.
    pub fn leave(&self, keys: impl Iterator<Item = Id>) {
        let mut state = self.state.write();
        keys.for_each(|id| self.leave_key(&mut state, id));
    }

    fn leave_key(&self, state: &mut State, id: Id) {
        let Some(ended) = state.listened.leave(id) else { return };
        self.names.release(id);
        if let Some(list) = ended.list {
            state.lists.give_back(&list);
        }
    }

    /// An update on `topics` begins: before it is given to the router. What it is about, and what
    /// is to be kept until it is posted. `None` without a topic, or with one that cannot be a key.
    #[must_use]
    pub fn begin(
        self: &Arc<Topics>,
        topics: &[String],
        is_private: bool,
        now_ms: u64,
    ) -> Option<(UpdateKeys, UnderWay)> {
        let keys = UpdateKeys::of(topics, is_private)?.checked()?;
        let under_way = self.begin_in(self.state.write(), (topics, &keys), is_private, now_ms);
        Some((keys, under_way))
    }

    /// Likewise, if nobody else has the tables: else it is `None`.
    #[must_use]
    pub fn begin_at_once(
        self: &Arc<Topics>,
        topics: &[String],
        is_private: bool,
        now_ms: u64,
    ) -> Option<Option<(UpdateKeys, UnderWay)>> {
        let state = self.state.try_write()?;
        let keys = UpdateKeys::of(topics, is_private).and_then(UpdateKeys::checked);
        let begin = |keys| {
            let under_way = self.begin_in(state, (topics, &keys), is_private, now_ms);
            (keys, under_way)
        };
        Some(keys.map(begin))
    }

    fn begin_in(
        self: &Arc<Topics>,
        mut state: RwLockWriteGuard<'_, State>,
        (topics, keys): (&[String], &UpdateKeys),
        is_private: bool,
        now_ms: u64,
    ) -> UnderWay {
        let texts = || std::iter::once(&keys.about).chain(&keys.also);
        for (topic, key) in topics.iter().zip(texts()) {
            let entry = state.index.begin(topic);
            let place = if is_private { &mut entry.private } else { &mut entry.public };
            if place.is_none() {
                *place = IdText::of_key(key).ok().map(|text| self.names.acquire(text));
            }
        }
        // More than come, so that they become fewer.
        self.forget_some(&mut state, topics.len() + 1, now_ms);
        drop(state);
        let of = topics.to_vec();
        UnderWay { topics: Arc::clone(self), of, now_ms, posted: None }
    }

    /// Forgets what is too old, a slice of it.
    pub fn forget(&self, now_ms: u64) {
        self.forget_some(&mut self.state.write(), LOOKS_MAX, now_ms);
    }

    fn forget_some(&self, state: &mut State, most: usize, now_ms: u64) {
        let before_ms = now_ms.saturating_sub(self.limits.topic_ms);
        let gone = state.index.forget(most, before_ms, self.limits.topic_bytes_max);
        gone.iter().flat_map(|entry| entry.keys()).for_each(|id| self.names.release(id));
    }

    /// The ids that publishers gave.
    pub fn ids(&self) -> &PublisherIds {
        &self.ids
    }

    /// Who comes and goes.
    pub fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// The update that was posted last, by this process.
    pub fn last_update(&self) -> Option<LastUpdate> {
        self.state.read().last.clone()
    }

    /// How much there is.
    pub fn figures(&self) -> TopicsFigures {
        let state = self.state.read();
        let (topics, topic_bytes) = state.index.sizes();
        let (ids, id_bytes) = self.ids.sizes();
        TopicsFigures {
            patterns: state.listened.patterns(),
            keys: state.listened.keys(),
            anonymous_keys: state.listened.anonymous(),
            list_keys: state.listened.with_list(),
            listeners: state.listened.listeners(),
            lists: state.lists.len(),
            topics,
            topic_bytes,
            ids,
            id_bytes,
        }
    }

    /// The bounds of it.
    pub fn limits(&self) -> &TopicsLimits {
        &self.limits
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    pub(crate) fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write()
    }
}

impl UnderWay {
    /// It is posted under this number, and its publisher gave it the id `id`, or none.
    pub fn posted(mut self, number: u64, id: Option<&str>) {
        self.posted = Some(LastUpdate { number, id: id.map(Box::from) });
        if let Some(id) = id {
            self.topics.ids.put(id, number);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.topics.state.write();
        let posted = self.posted.take();
        let number = posted.as_ref().map(|posted| posted.number);
        for topic in &self.of {
            state.index.end(topic, number, self.now_ms);
        }
        // Of two that are posted at one time the later one may come here first.
        if number > state.last.as_ref().map(|last| last.number) {
            state.last = posted;
        }
    }
}
