//! All patterns that somebody listens to, each distinct one once.
//!
//! They are [grouped](groups) by what their matches begin and end with. A publish looks for its
//! topic among the groups and tries the patterns of those it finds. So its cost follows the
//! patterns that may match, not all of them.

mod groups;

use std::sync::Arc;

use thiserror::Error;

use self::groups::{Groups, Looks};
use crate::limits::{HUB_URLS_MAX, PATTERNS_MAX, REGEX_LIVE_MAX};
use crate::{HubUrl, Selector, SelectorKind, Topic};

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

impl<T> Default for Patterns<T> {
    fn default() -> Patterns<T> {
        Patterns { templates: Groups::default(), urls: Vec::new(), len: 0, cost: 0, regex_cost: 0 }
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
        let hub = selector.url_hub()?;
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
        let groups = match selector.url_hub() {
            None => &mut self.templates,
            Some(hub) => {
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
        groups.insert(selector, value);
        self.len += 1;
        self.cost += cost;
        self.regex_cost += regex_cost;
        Ok(None)
    }

    /// Takes a pattern out, with what belongs to it.
    pub fn remove(&mut self, selector: &Selector) -> Option<T> {
        let value = match selector.url_hub() {
            None => self.templates.remove(selector.text()),
            Some(hub) => {
                let at = self.urls.iter().position(|(known, _)| known == hub)?;
                let value = self.urls[at].1.remove(selector.text());
                if self.urls[at].1.is_empty() {
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
        let groups = match selector.url_hub() {
            None => &self.templates,
            Some(hub) => &self.urls.iter().find(|(known, _)| known == hub)?.1,
        };
        groups.get(selector.text())
    }

    fn get_mut(&mut self, selector: &Selector) -> Option<&mut T> {
        let groups = match selector.url_hub() {
            None => &mut self.templates,
            Some(hub) => &mut self.urls.iter_mut().find(|(known, _)| known == hub)?.1,
        };
        groups.get_mut(selector.text())
    }

    /// Shows `heard` what belongs to each pattern that matches a topic, in no order, but for the
    /// [costly](Patterns::costly) ones.
    pub fn matches(&self, topic: &Topic<'_>, heard: &mut dyn FnMut(&T)) {
        let all = self.matches_within(topic, usize::MAX, heard);
        debug_assert!(all, "nobody has so many");
    }

    /// Likewise, if at most so many patterns are to be tried, costly or not. What it takes to find
    /// them counts for some, too. Whether there were no more: else some were not shown.
    pub fn matches_within(
        &self,
        topic: &Topic<'_>,
        most: usize,
        heard: &mut dyn FnMut(&T),
    ) -> bool {
        self.try_all(topic, &mut Looks::new(most), heard).is_some()
    }

    fn try_all(
        &self,
        topic: &Topic<'_>,
        looks: &mut Looks,
        heard: &mut dyn FnMut(&T),
    ) -> Option<()> {
        self.templates.each(topic.text(), looks, &mut |live| {
            if live.selector.matches(topic) {
                heard(&live.value);
            }
        })?;
        for (hub, groups) in &self.urls {
            looks.spend(ADDRESS_LOOKS)?;
            let tried = topic.with_url(hub, |url| {
                groups.each(&url.grouping, looks, &mut |live| {
                    if live.selector.regex_cost() == 0 && live.selector.matches_url(url) {
                        heard(&live.value);
                    }
                })
            });
            tried.unwrap_or(Some(()))?;
        }
        Some(())
    }

    /// The patterns that take long to try on a topic, and have its beginning and end. Whoever holds
    /// a lock on the others tries these without it.
    /// `None` if more than so many patterns would have to be looked at for that.
    pub fn costly(&self, topic: &Topic<'_>, most: usize) -> Option<Vec<Arc<Selector>>> {
        let (mut costly, mut looks) = (Vec::new(), Looks::new(most));
        if self.regex_cost == 0 {
            return Some(costly);
        }
        for (hub, groups) in &self.urls {
            looks.spend(ADDRESS_LOOKS)?;
            let looked = topic.with_url(hub, |url| {
                groups.each(&url.grouping, &mut looks, &mut |live| {
                    if live.selector.regex_cost() > 0 {
                        costly.push(Arc::clone(&live.selector));
                    }
                })
            });
            looked.unwrap_or(Some(()))?;
        }
        Some(costly)
    }
}
