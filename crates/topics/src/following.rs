//! Which keys follow which, as whoever gathers an audience asks, and whoever looks up what a client
//! has missed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use hub::{Followers, FollowersError, Id, IdText, KeptListener, Key, SLICE_MAX, Space};
use mercure::{Grants, Topic};
use parking_lot::Mutex;

use crate::kept::{looks_of, reaches};
use crate::keys::topic_key;
use crate::state::{State, Topics};
use crate::subscriptions;

/// Topics that a slice looks at, at most: those that a simple pattern does not match take less than
/// half a microsecond each.
const LOOKS_MAX: usize = 4 * SLICE_MAX;

/// Bytes of topics that a slice goes over, at most, once for each expression of the pattern: some
/// milliseconds. One topic is looked at in any case.
const LOOK_BYTES_MAX: usize = 256 << 10;

/// Bytes of topics that are looked at for a pattern of regular expressions that count for one, some
/// 60 ms; of others in proportion. Where there are more its client is told of a gap.
const REGEX_LOOK_BYTES_MAX: usize = 256 << 10;

/// Patterns that are tried on a topic, or selectors of lists, where that may not take long: some
/// ten microseconds.
const LOOKS_AT_ONCE: usize = 64;

/// Who hears one update: keys of patterns that match its topics, and of lists that grant one of
/// them.
pub struct UpdateFollowers<'u> {
    topics: &'u Topics,
    of: Cow<'u, [String]>,
    /// Whether it is said only if that does not take long.
    is_at_once: bool,
    /// The subject that was asked for last and what follows it: its slices come one behind the
    /// other, and are of one look.
    last: Mutex<Option<(Id, Vec<Id>)>>,
}

impl<'u> UpdateFollowers<'u> {
    /// Who hears the update on all these topics.
    pub fn new(topics: &'u Topics, of: impl Into<Cow<'u, [String]>>) -> UpdateFollowers<'u> {
        UpdateFollowers { topics, of: of.into(), is_at_once: false, last: Mutex::new(None) }
    }

    /// Likewise, if it does not take long to say that; else a slice is an error.
    pub fn at_once(topics: &'u Topics, of: impl Into<Cow<'u, [String]>>) -> UpdateFollowers<'u> {
        UpdateFollowers { is_at_once: true, ..UpdateFollowers::new(topics, of) }
    }

    /// The keys that follow `subject`, which is the key of one of the topics.
    fn of_subject(&self, subject: Id) -> Result<Vec<Id>, FollowersError> {
        let mut found = Vec::new();
        let Some(text) = self.topics.names.text(subject) else { return Ok(found) };
        let Some(Key { space, name, .. }) = Key::parse(&text) else { return Ok(found) };
        let of: Vec<Topic<'_>> = self.of.iter().map(|topic| Topic::new(topic)).collect();
        let Some(topic) = of.iter().find(|topic| topic.text() == name) else { return Ok(found) };
        let is_private = match space {
            Space::Topic => false,
            Space::PrivateTopic => true,
            _ => return Ok(found),
        };
        if !is_private {
            found.extend(self.topics.lookup(&topic_key(name, true)));
        }
        let most = if self.is_at_once { LOOKS_AT_ONCE } else { usize::MAX };
        let mut state = self.topics.state();
        let Some(mut matched) = state.listened.costly(topic, most) else {
            drop(state);
            self.look(most.saturating_add(1))?;
            return Ok(found);
        };
        if !matched.is_empty() {
            // What takes long is done without the tables.
            drop(state);
            self.look(matched.len() * (LOOKS_AT_ONCE + 1))?;
            matched.retain(|pattern| pattern.matches(topic));
            state = self.topics.state();
        }
        let (mut granted, mut lists) = (Vec::new(), 0);
        let are_all = state.listened.matching(topic, (&matched, most), &mut |heard| {
            found.extend(heard.private);
            if !is_private {
                found.extend(heard.public);
                return;
            }
            lists += heard.granted.len();
            // Each subscriber may have its own.
            if !self.is_at_once || lists <= LOOKS_AT_ONCE {
                granted.extend(heard.granted.iter().map(|(id, list)| (*id, Arc::clone(list))));
            }
        });
        drop(state);
        self.look(if are_all { lists } else { most.saturating_add(1) })?;
        self.look(granted.iter().map(|(_, list)| looks_into(list)).sum())?;
        // So are these. Of equal lists there is one.
        let mut looked_at: HashMap<*const Grants, bool> = HashMap::new();
        for (id, list) in granted {
            let reaches = looked_at.entry(Arc::as_ptr(&list)).or_insert_with(|| list.reaches(&of));
            found.extend(reaches.then_some(id));
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Whether so many selectors may be tried.
    fn look(&self, looks: usize) -> Result<(), FollowersError> {
        match self.is_at_once && looks > LOOKS_AT_ONCE {
            true => Err(FollowersError(format!("{looks} selectors take long to try"))),
            false => Ok(()),
        }
    }
}

/// How many selectors of a list are tried: one with regular expressions takes long.
fn looks_into(list: &Grants) -> usize {
    list.len() + list.regex_cost() * (LOOKS_AT_ONCE + 1)
}

impl Followers for UpdateFollowers<'_> {
    fn slice(
        &self,
        subject: Id,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        let mut last = self.last.lock();
        // Who begins anew wants to know who follows by now.
        if after.is_none() || last.as_ref().is_none_or(|(of, _)| *of != subject) {
            *last = Some((subject, self.of_subject(subject)?));
        }
        let followers = last.as_ref().map_or(&[][..], |(_, followers)| followers);
        let from = after.map_or(0, |after| followers.partition_point(|id| *id <= after));
        let slice = &followers[from..followers.len().min(from + SLICE_MAX)];
        slice.iter().for_each(|id| visit(*id));
        let has_more = from + slice.len() < followers.len();
        Ok(slice.last().copied().filter(|_| has_more))
    }

    fn slice_of_following(
        &self,
        _: Id,
        _: Option<Id>,
        _: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        // Nobody looks that up while an update is sent.
        Ok(None)
    }
}

/// What those follow who come back: keys by these tables, and ids by the stored graph.
pub struct TopicFollowers<'f> {
    topics: &'f Topics,
    stored: &'f dyn Followers,
}

impl<'f> TopicFollowers<'f> {
    /// Who follows whom, of both.
    pub fn new(topics: &'f Topics, stored: &'f dyn Followers) -> TopicFollowers<'f> {
        TopicFollowers { topics, stored }
    }
}

impl Followers for TopicFollowers<'_> {
    fn slice(
        &self,
        subject: Id,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        debug_assert!(!subject.is_key(), "an update knows by itself who follows its keys");
        self.stored.slice(subject, after, visit)
    }

    fn slice_of_following(
        &self,
        subscriber: Id,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        match subscriber.is_key() {
            true => Ok(self.topics.slice_of_followed(subscriber, after, visit)),
            false => self.stored.slice_of_following(subscriber, after, visit),
        }
    }

    fn hears(&self, subscriber: Id, subjects: &mut dyn Iterator<Item = Cow<'_, str>>) -> bool {
        match self.topics.space(subscriber) {
            Some(Space::Granted) => self.topics.is_granted(subscriber, subjects),
            _ => true,
        }
    }

    fn unknown_up_to(&self, subscriber: Id) -> u64 {
        let Some(text) = self.topics.names.text(subscriber) else { return 0 };
        let Some(key) = Key::parse(&text) else { return 0 };
        let floor = match key.space {
            Space::Pattern | Space::PrivatePattern | Space::Granted => {
                let state = self.topics.state();
                match state.is_too_costly(subscriber) {
                    true => state.index.newest(),
                    false => state.index.floor(),
                }
            }
            _ => 0,
        };
        match subscriptions::asks_for_paths(key) {
            true => floor.max(self.topics.subscriptions().since()),
            false => floor,
        }
    }

    fn kept_listener(&self, subscriber: Id) -> Option<Arc<dyn KeptListener>> {
        self.topics.kept_listener(subscriber)
    }
}

impl State {
    /// Whether the pattern of a key takes too long to be tried on all topics that are known.
    fn is_too_costly(&self, subscriber: Id) -> bool {
        let heard = self.listened.of_key(subscriber);
        let cost = heard.map_or(0, |heard| heard.selector.regex_cost());
        cost > 0 && self.index.text_bytes().saturating_mul(cost) > REGEX_LOOK_BYTES_MAX
    }
}

impl Topics {
    /// The id of a key that somebody keeps.
    pub(crate) fn lookup(&self, key: &str) -> Option<Id> {
        self.names.lookup(IdText::of_key(key).ok()?)
    }

    fn space(&self, id: Id) -> Option<Space> {
        Some(Key::parse(&self.names.text(id)?)?.space)
    }

    /// Visits keys of topics that the key `subscriber` follows, in the order of the topics, from
    /// behind that of `after` on. The key of the last topic looked at, if there may be more.
    fn slice_of_followed(
        &self,
        subscriber: Id,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Option<Id> {
        let text = self.names.text(subscriber)?;
        let Key { space, name, .. } = Key::parse(&text)?;
        let (public, private) = match space {
            Space::PrivateTopic => {
                // Nobody may keep it, though something was published.
                self.id_at_once(&topic_key(name, false)).into_iter().for_each(visit);
                return None;
            }
            Space::Pattern => (true, false),
            Space::PrivatePattern => (true, true),
            Space::Granted => (false, true),
            _ => return None,
        };
        let state = self.state();
        if state.is_too_costly(subscriber) {
            return None;
        }
        let selector = &state.listened.of_key(subscriber)?.selector;
        // A topic that went meanwhile has no text: then it begins anew, and finds some again.
        let after = after.and_then(|id| self.names.text(id));
        let after = after.as_deref().and_then(|text| Some(Key::parse(text)?.name));
        let (mut visited, mut looked_at) = (0, 0);
        let each = looks_of(selector);
        let last = state.index.walk(selector.literal(), after, LOOKS_MAX, &mut |text, entry| {
            if selector.matches(&Topic::new(text)) {
                let keys = entry.public.filter(|_| public);
                for id in keys.into_iter().chain(entry.private.filter(|_| private)) {
                    visit(id);
                    visited += 1;
                }
            }
            looked_at += text.len() * each;
            // One topic has two keys at most.
            visited + 2 <= SLICE_MAX && looked_at < LOOK_BYTES_MAX
        });
        last.and_then(|(_, entry)| entry.keys().next())
    }

    /// Whether the list of the key `subscriber` grants one of the topics that `subjects` are the
    /// keys of, or they are public.
    fn is_granted(&self, subscriber: Id, subjects: &mut dyn Iterator<Item = Cow<'_, str>>) -> bool {
        let list = self.state().listened.list_of(subscriber);
        list.is_some_and(|list| reaches(&list, subjects))
    }

    /// The id of a key, which may have none by now: then it is one under which nothing is found but
    /// what was forgotten of it.
    fn id_at_once(&self, key: &str) -> Option<Id> {
        let key = IdText::of_key(key).ok()?;
        let id = self.names.acquire(key);
        self.names.release(id);
        Some(id)
    }
}
