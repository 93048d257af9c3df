//! All patterns that somebody listens to, each distinct one once.
//!
//! They are grouped by what their matches begin with. A publish looks for the topic's beginnings
//! among the groups, once for each length that any group has, and tries the patterns of those it
//! finds. So its cost follows the patterns that may match, not all of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use thiserror::Error;

use crate::limits::{HUB_URLS_MAX, LITERAL_BYTES_MAX, PATTERNS_MAX, REGEX_LIVE_MAX};
use crate::topic::UrlParts;
use crate::{HubUrl, Selector, SelectorKind, Topic};

/// Looks into the groups that take as long as to try a pattern.
const LENGTHS_OF_A_LOOK: usize = 8;

/// Patterns that could be tried while a topic is read as seen from another address.
const ADDRESS_LOOKS: usize = 4;

/// The live patterns, with what belongs to each.
#[derive(Clone, Debug)]
pub struct Patterns<T> {
    templates: Groups<T>,
    /// Patterns of 1.0, by the address that they are seen from.
    urls: Vec<(HubUrl, Groups<T>)>,
    len: usize,
    /// For how many they count, and for how much their regular expressions.
    cost: usize,
    regex_cost: usize,
}

/// There is no room for another pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "Too many different topic patterns are listened to (limit {PATTERNS_MAX}). Use exact topics, \
     or retry later."
)]
pub struct PatternsFull;

/// The patterns of one beginning by their texts: however many they are, one is found at once.
type Group<T> = HashMap<Box<str>, Live<T>>;

#[derive(Clone, Debug)]
struct Groups<T> {
    by_literal: HashMap<Box<[u8]>, Group<T>>,
    /// How many groups have a beginning of that length.
    lengths: BTreeMap<usize, usize>,
}

#[derive(Clone, Debug)]
struct Live<T> {
    selector: Arc<Selector>,
    value: T,
}

impl<T> Default for Patterns<T> {
    fn default() -> Patterns<T> {
        Patterns { templates: Groups::default(), urls: Vec::new(), len: 0, cost: 0, regex_cost: 0 }
    }
}

impl<T> Default for Groups<T> {
    fn default() -> Groups<T> {
        Groups { by_literal: HashMap::new(), lengths: BTreeMap::new() }
    }
}

impl<T> Patterns<T> {
    /// No pattern.
    pub fn new() -> Patterns<T> {
        Patterns::default()
    }

    /// How many patterns there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// From how many addresses patterns would be seen if this one were there as well; `None` if it
    /// has none, or one that is known.
    pub fn addresses_with_new(&self, selector: &Selector) -> Option<usize> {
        let (hub, _) = selector.url_group()?;
        let is_new = self.urls.iter().all(|(known, _)| known != hub);
        is_new.then_some(self.urls.len() + 1)
    }

    /// Adds a pattern with what belongs to it, and returns what belonged to the same one before.
    ///
    /// # Errors
    /// There are as many as there may be; the subscriber should be refused.
    ///
    /// # Panics
    /// In a debug build, for a selector that is no pattern.
    pub fn insert(&mut self, selector: Arc<Selector>, value: T) -> Result<Option<T>, PatternsFull> {
        debug_assert_eq!(selector.kind(), SelectorKind::Pattern, "others are found by their key");
        if let Some(known) = self.get_mut(&selector) {
            return Ok(Some(std::mem::replace(known, value)));
        }
        let (cost, regex_cost) = (selector.cost(), selector.regex_cost());
        if self.cost + cost > PATTERNS_MAX || self.regex_cost + regex_cost > REGEX_LIVE_MAX {
            return Err(PatternsFull);
        }
        let groups = match selector.url_group() {
            None => &mut self.templates,
            Some((hub, _)) => {
                let at = self.urls.iter().position(|(known, _)| known == hub);
                let at = match at {
                    Some(at) => at,
                    None if self.urls.len() >= HUB_URLS_MAX => return Err(PatternsFull),
                    None => {
                        self.urls.push((hub.clone(), Groups::default()));
                        self.urls.len() - 1
                    }
                };
                &mut self.urls[at].1
            }
        };
        groups.insert(Live { selector, value });
        self.len += 1;
        self.cost += cost;
        self.regex_cost += regex_cost;
        Ok(None)
    }

    /// Takes a pattern out, with what belongs to it.
    pub fn remove(&mut self, selector: &Selector) -> Option<T> {
        let value = match selector.url_group() {
            None => self.templates.remove(selector),
            Some((hub, _)) => {
                let at = self.urls.iter().position(|(known, _)| known == hub)?;
                let value = self.urls[at].1.remove(selector);
                if self.urls[at].1.by_literal.is_empty() {
                    self.urls.swap_remove(at);
                }
                value
            }
        };
        if value.is_some() {
            self.len -= 1;
            self.cost -= selector.cost();
            self.regex_cost -= selector.regex_cost();
        }
        value
    }

    /// What belongs to a pattern.
    pub fn get(&self, selector: &Selector) -> Option<&T> {
        let groups = match selector.url_group() {
            None => &self.templates,
            Some((hub, _)) => &self.urls.iter().find(|(known, _)| known == hub)?.1,
        };
        let group = groups.by_literal.get(beginning(selector))?;
        group.get(selector.text()).map(|live| &live.value)
    }

    fn get_mut(&mut self, selector: &Selector) -> Option<&mut T> {
        let groups = match selector.url_group() {
            None => &mut self.templates,
            Some((hub, _)) => &mut self.urls.iter_mut().find(|(known, _)| known == hub)?.1,
        };
        let group = groups.by_literal.get_mut(beginning(selector))?;
        group.get_mut(selector.text()).map(|live| &mut live.value)
    }

    /// Shows `heard` what belongs to each pattern that matches a topic, in no order, but for the
    /// [costly](Patterns::costly) ones.
    pub fn matches(&self, topic: &Topic<'_>, heard: &mut dyn FnMut(&T)) {
        self.templates.each(topic.text(), &mut |live| {
            if live.selector.matches(topic) {
                heard(&live.value);
            }
        });
        for (hub, groups) in &self.urls {
            topic.with_url(hub, |url| {
                groups.each(&url.grouping, &mut |live| {
                    if live.selector.regex_cost() == 0 && live.selector.matches_url(url) {
                        heard(&live.value);
                    }
                });
            });
        }
    }

    /// How many patterns are tried on a topic, costly or not. What it takes to find them counts for
    /// some, too.
    pub fn tried(&self, topic: &Topic<'_>) -> usize {
        let of_hub = |url: &UrlParts, groups: &Groups<T>| groups.tried(&url.grouping);
        let of_hubs = self.urls.iter().map(|(hub, groups)| {
            ADDRESS_LOOKS + topic.with_url(hub, |url| of_hub(url, groups)).unwrap_or(0)
        });
        self.templates.tried(topic.text()) + of_hubs.sum::<usize>()
    }

    /// The patterns that take long to try on a topic, and have its beginning. Whoever holds a lock
    /// on the others tries these without it.
    pub fn costly(&self, topic: &Topic<'_>) -> Vec<Arc<Selector>> {
        let mut costly = Vec::new();
        if self.regex_cost == 0 {
            return costly;
        }
        for (hub, groups) in &self.urls {
            topic.with_url(hub, |url| {
                groups.each(&url.grouping, &mut |live| {
                    if live.selector.regex_cost() > 0 {
                        costly.push(Arc::clone(&live.selector));
                    }
                });
            });
        }
        costly
    }
}

impl<T> Groups<T> {
    fn insert(&mut self, live: Live<T>) {
        let literal = beginning(&live.selector);
        if !self.by_literal.contains_key(literal) {
            *self.lengths.entry(literal.len()).or_default() += 1;
        }
        let group = self.by_literal.entry(literal.into()).or_default();
        group.insert(live.selector.text().into(), live);
    }

    fn remove(&mut self, selector: &Selector) -> Option<T> {
        let literal = beginning(selector);
        let group = self.by_literal.get_mut(literal)?;
        let live = group.remove(selector.text())?;
        if group.is_empty() {
            self.by_literal.remove(literal);
            let groups = self.lengths.get_mut(&literal.len())?;
            *groups -= 1;
            if *groups == 0 {
                self.lengths.remove(&literal.len());
            }
        }
        Some(live.value)
    }

    /// Visits the patterns whose matches may begin as `text` does.
    fn each(&self, text: &str, visit: &mut dyn FnMut(&Live<T>)) {
        self.groups(text).flat_map(HashMap::values).for_each(visit);
    }

    /// How many these are, and how long it takes to find them.
    fn tried(&self, text: &str) -> usize {
        let found: usize = self.groups(text).map(HashMap::len).sum();
        found + self.lengths.len() / LENGTHS_OF_A_LOOK
    }

    /// The groups of these.
    fn groups(&self, text: &str) -> impl Iterator<Item = &Group<T>> {
        let beginnings = self.lengths.keys().map_while(|&len| text.as_bytes().get(..len));
        beginnings.filter_map(|beginning| self.by_literal.get(beginning))
    }
}

/// What patterns are grouped by.
fn beginning(selector: &Selector) -> &[u8] {
    let literal = selector.url_group().map_or(selector.literal(), |(_, literal)| literal);
    let literal = literal.as_bytes();
    &literal[..literal.len().min(LITERAL_BYTES_MAX)]
}
