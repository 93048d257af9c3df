//! Which topics a token opens.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::{Selector, SelectorKind, Topic};

/// The selectors of one kind of a token's claims. Two with the same meaning are equal.
///
/// Clients of thousands of tokens may each have a list of hundreds of topics: a topic costs its
/// text and some 32 bytes, as the allocator has them.
#[derive(Debug, Default)]
pub struct Grants {
    is_all: bool,
    /// Plain topics, each once, in order.
    exact: Box<[Box<str>]>,
    /// Each once, in the order of their keys. None beside `*`, which opens what they open.
    patterns: Box<[Arc<Selector>]>,
}

impl Grants {
    /// What these selectors open together.
    pub fn new(selectors: impl IntoIterator<Item = Arc<Selector>>) -> Grants {
        let (mut is_all, mut exact, mut patterns) = (false, Vec::new(), Vec::new());
        for selector in selectors {
            match selector.kind() {
                SelectorKind::All => is_all = true,
                SelectorKind::Exact => exact.push(Box::from(selector.text())),
                SelectorKind::Pattern => patterns.push(selector),
            }
        }
        if is_all {
            patterns.clear();
        }
        exact.sort_unstable();
        exact.dedup();
        patterns.sort_by_cached_key(|pattern| pattern.key().into_owned());
        patterns.dedup_by(|one, other| one.key() == other.key());
        Grants { is_all, exact: exact.into(), patterns: patterns.into() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::from(self.is_all) + self.exact.len() + self.patterns.len()
    }

    /// For how much their regular expressions count that may take long to try.
    pub fn regex_cost(&self) -> usize {
        self.patterns().map(|pattern| pattern.regex_cost()).sum()
    }

    /// For how much those count that were compiled to read them.
    pub fn compile_cost(&self) -> usize {
        self.patterns().map(|pattern| pattern.compile_cost()).sum()
    }

    /// Whether they open nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether they open everything.
    pub fn is_all(&self) -> bool {
        self.is_all
    }

    /// The plain topics among them.
    pub fn exact(&self) -> impl Iterator<Item = &str> {
        self.exact.iter().map(|topic| &**topic)
    }

    /// The patterns among them, but for those beside `*`.
    pub fn patterns(&self) -> impl Iterator<Item = &Arc<Selector>> {
        self.patterns.iter()
    }

    /// The memory that they take, in bytes, but for what regular expressions of patterns take.
    pub fn bytes(&self) -> usize {
        let exact = self.exact().map(|topic| size_of::<Box<str>>() + 16 + topic.len());
        let patterns = self.patterns().map(|pattern| {
            size_of::<Arc<Selector>>() + size_of::<Selector>() + 32 + pattern.text().len()
        });
        size_of::<Grants>() + exact.sum::<usize>() + patterns.sum::<usize>()
    }

    /// Whether they open all that a pattern, or `*`, matches, as far as that can be told: it is
    /// listed itself, or all is.
    pub fn lists(&self, selector: &Selector) -> bool {
        let key = selector.key();
        self.is_all
            || selector.kind() == SelectorKind::Pattern
                && self.patterns.binary_search_by(|pattern| pattern.key().cmp(&key)).is_ok()
    }

    /// Whether a plain topic is among them by its name, beside `*` or without it.
    pub fn names(&self, topic: &str) -> bool {
        self.exact.binary_search_by(|exact| (**exact).cmp(topic)).is_ok()
    }

    /// Whether they open one topic.
    pub fn opens(&self, topic: &Topic<'_>) -> bool {
        self.is_all
            || self.names(topic.text())
            || self.patterns().any(|pattern| pattern.matches(topic))
    }

    /// Whether they open every topic of an update: whoever has them may publish it.
    pub fn covers(&self, topics: &[Topic<'_>]) -> bool {
        !topics.is_empty() && topics.iter().all(|topic| self.opens(topic))
    }

    /// Whether they open some topic of an update: whoever has them may hear it if it is private.
    pub fn reaches(&self, topics: &[Topic<'_>]) -> bool {
        topics.iter().any(|topic| self.opens(topic))
    }
}

impl Grants {
    /// What two of them are compared by: beside `*`, what else is listed opens nothing more.
    fn meaning(&self) -> impl Iterator<Item = (bool, Cow<'_, str>)> {
        let exact = self.exact.iter().filter(|_| !self.is_all);
        let exact = exact.map(|topic| (true, Cow::Borrowed(&**topic)));
        exact.chain(self.patterns.iter().map(|pattern| (false, pattern.key())))
    }
}

impl PartialEq for Grants {
    fn eq(&self, other: &Grants) -> bool {
        self.is_all == other.is_all && self.meaning().eq(other.meaning())
    }
}

impl Eq for Grants {}

impl Hash for Grants {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.is_all.hash(state);
        self.meaning().for_each(|each| each.hash(state));
    }
}
