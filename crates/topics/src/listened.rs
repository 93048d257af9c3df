//! The selectors that somebody listens to, each once, with its keys and how many listen.
//!
//! Of a plain topic only those are here that are listened to with a list of grants which does not
//! name it. Cost: a selector that is compiled, and some 200 bytes. A look for a topic costs what
//! [`Patterns`] takes to find those that match.

use std::collections::HashMap;
use std::sync::Arc;

use hub::Id;
use mercure::limits::{ANONYMOUS_REGEX_MAX, HUB_URLS_MAX};
use mercure::{Grants, Patterns, Selector, SelectorKind, Topic};
use smallvec::SmallVec;

/// There are as many patterns as may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

/// Who listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ListenerKind {
    /// It has shown no token.
    pub(crate) is_anonymous: bool,
    /// It was let in by the process that this one goes on for: no share of today's takes that away.
    pub(crate) was_let_in: bool,
}

/// Those that are listened to.
#[derive(Debug, Default)]
pub(crate) struct Listened {
    /// By the numbers that the tables below have; `None` where one is free.
    selectors: Vec<Option<ListenedSelector>>,
    free: Vec<u32>,
    patterns: Patterns<u32>,
    /// Plain topics.
    exact: HashMap<Box<str>, u32>,
    all: Option<u32>,
    keys: HashMap<Id, Live>,
    /// For how many patterns those count that were made for clients without a token, and for how
    /// much their regular expressions.
    anonymous: usize,
    anonymous_regexes: usize,
    /// How many of them have a list of grants.
    with_list: usize,
    /// Log-ins under all of them.
    listeners: usize,
}

/// A selector that is listened to.
#[derive(Debug)]
pub(crate) struct ListenedSelector {
    pub(crate) selector: Arc<Selector>,
    /// The key of those who hear what is public.
    pub(crate) public: Option<Id>,
    /// The key of those who hear all.
    pub(crate) private: Option<Id>,
    /// The keys of those who hear what is private and granted by a list.
    pub(crate) granted: SmallVec<[(Id, Arc<Grants>); 1]>,
}

/// A key that is listened to.
#[derive(Debug)]
struct Live {
    listeners: u32,
    /// The selector that it is of.
    of: u32,
    /// Of a key with a list: which of the selector's it is.
    at: u32,
    /// For how many patterns it counts that was made for a client without a token; 0 for others.
    anonymous: u32,
}

/// Which key of a selector.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Public,
    Private,
    Granted(Arc<Grants>),
}

/// A key that nobody listens to any more.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) list: Option<Arc<Grants>>,
}

impl Listened {
    /// One more listens under the key `id`, which is that `part` of `selector`. Whether it is the
    /// first one.
    pub(crate) fn listen(
        &mut self,
        id: Id,
        (selector, part): (&Arc<Selector>, Part),
        ListenerKind { is_anonymous, was_let_in }: ListenerKind,
    ) -> Result<bool, Full> {
        if let Some(live) = self.keys.get_mut(&id) {
            live.listeners += 1;
            self.listeners += 1;
            return Ok(false);
        }
        let of = match self.find(selector) {
            Some(of) => of,
            // Their words are addresses too, where the operator has named none.
            None if is_anonymous && !was_let_in && self.is_past_share(selector) => {
                return Err(Full);
            }
            None => self.put(selector)?,
        };
        self.listeners += 1;
        let mut at = 0;
        if let Some(heard) = self.selectors[of as usize].as_mut() {
            match part {
                Part::Public => heard.public = Some(id),
                Part::Private => heard.private = Some(id),
                Part::Granted(list) => {
                    self.with_list += 1;
                    at = heard.granted.len() as u32;
                    heard.granted.push((id, list));
                }
            }
        }
        let anonymous = if is_anonymous { selector.cost() } else { 0 };
        self.anonymous += anonymous;
        self.anonymous_regexes += if is_anonymous { selector.regex_cost() } else { 0 };
        self.keys.insert(id, Live { listeners: 1, of, at, anonymous: anonymous as u32 });
        Ok(true)
    }

    /// One that listened under the key `id` does no more. What ended if it was the last one;
    /// `None` as well of a key that is not counted.
    pub(crate) fn leave(&mut self, id: Id) -> Option<Ended> {
        let live = self.keys.get_mut(&id)?;
        live.listeners -= 1;
        self.listeners -= 1;
        if live.listeners > 0 {
            return None;
        }
        let (of, at) = (live.of, live.at as usize);
        let live_anonymous = live.anonymous as usize;
        self.anonymous -= live_anonymous;
        self.keys.remove(&id);
        let heard = self.selectors[of as usize].as_mut()?;
        self.anonymous_regexes -= if live_anonymous > 0 { heard.selector.regex_cost() } else { 0 };
        let mut list = None;
        if heard.public == Some(id) {
            heard.public = None;
        } else if heard.private == Some(id) {
            heard.private = None;
        } else if heard.granted.get(at).is_some_and(|(key, _)| *key == id) {
            list = Some(heard.granted.swap_remove(at).1);
            self.with_list -= 1;
            // The last one has come to its place.
            let moved = heard.granted.get(at).and_then(|(key, _)| self.keys.get_mut(key));
            moved.into_iter().for_each(|moved| moved.at = at as u32);
        }
        if heard.public.is_none() && heard.private.is_none() && heard.granted.is_empty() {
            self.take_out(of);
        }
        Some(Ended { list })
    }

    /// The selector of a key.
    pub(crate) fn of_key(&self, id: Id) -> Option<&ListenedSelector> {
        self.selectors[self.keys.get(&id)?.of as usize].as_ref()
    }

    /// The list of grants of a key that has one.
    pub(crate) fn list_of(&self, id: Id) -> Option<Arc<Grants>> {
        let live = self.keys.get(&id)?;
        let heard = self.selectors[live.of as usize].as_ref()?;
        let found = heard.granted.get(live.at as usize).filter(|(key, _)| *key == id);
        found.map(|(_, list)| Arc::clone(list))
    }

    /// Patterns that may match `topic` and take long to try. `None` if more than `most` would have
    /// to be looked at for that.
    pub(crate) fn costly(&self, topic: &Topic<'_>, most: usize) -> Option<Vec<Arc<Selector>>> {
        self.patterns.costly(topic, most)
    }

    /// Visits those that match `topic`, each once: of the costly patterns those that are `matched`.
    /// `false`, and none is visited, if more than `most` patterns are to be tried.
    pub(crate) fn matching(
        &self,
        topic: &Topic<'_>,
        (matched, most): (&[Arc<Selector>], usize),
        visit: &mut dyn FnMut(&ListenedSelector),
    ) -> bool {
        let exact = self.exact.get(topic.text()).copied();
        let mut numbers: SmallVec<[u32; 8]> = self.all.into_iter().chain(exact).collect();
        numbers.extend(matched.iter().filter_map(|pattern| self.patterns.get(pattern).copied()));
        let are_all = self.patterns.matches_within(topic, most, &mut |of| numbers.push(*of));
        for of in numbers.into_iter().filter(|_| are_all) {
            self.selectors[of as usize].iter().for_each(&mut *visit);
        }
        are_all
    }

    /// How many keys are counted here.
    pub(crate) fn keys(&self) -> usize {
        self.keys.len()
    }

    /// For how many patterns those count that were made for clients without a token.
    pub(crate) fn anonymous(&self) -> usize {
        self.anonymous
    }

    /// How many of them have a list of grants.
    pub(crate) fn with_list(&self) -> usize {
        self.with_list
    }

    /// How many log-ins there are under all of them.
    pub(crate) fn listeners(&self) -> usize {
        self.listeners
    }

    /// How many patterns there are.
    pub(crate) fn patterns(&self) -> usize {
        self.patterns.len()
    }

    /// Whether a pattern would take of what is left for clients with a token: addresses, and time.
    fn is_past_share(&self, selector: &Selector) -> bool {
        let addresses = self.patterns.addresses_with_new(selector);
        self.anonymous_regexes + selector.regex_cost() > ANONYMOUS_REGEX_MAX
            || addresses.is_some_and(|with| with > HUB_URLS_MAX / 2)
    }

    fn find(&self, selector: &Selector) -> Option<u32> {
        match selector.kind() {
            SelectorKind::All => self.all,
            SelectorKind::Exact => self.exact.get(selector.text()).copied(),
            SelectorKind::Pattern => self.patterns.get(selector).copied(),
        }
    }

    fn put(&mut self, selector: &Arc<Selector>) -> Result<u32, Full> {
        let of = self.free.last().copied().unwrap_or(self.selectors.len() as u32);
        let selector = Arc::clone(selector);
        match selector.kind() {
            SelectorKind::All => self.all = Some(of),
            SelectorKind::Exact => drop(self.exact.insert(selector.text().into(), of)),
            SelectorKind::Pattern => {
                let put = self.patterns.insert(Arc::clone(&selector), of);
                put.map_err(|_| Full)?;
            }
        }
        let (public, private, granted) = (None, None, SmallVec::new());
        let heard = Some(ListenedSelector { selector, public, private, granted });
        match self.free.pop() {
            Some(free) => self.selectors[free as usize] = heard,
            None => self.selectors.push(heard),
        }
        Ok(of)
    }

    fn take_out(&mut self, of: u32) {
        let Some(heard) = self.selectors[of as usize].take() else { return };
        self.free.push(of);
        match heard.selector.kind() {
            SelectorKind::All => self.all = None,
            SelectorKind::Exact => drop(self.exact.remove(heard.selector.text())),
            SelectorKind::Pattern => drop(self.patterns.remove(&heard.selector)),
        }
    }
}
