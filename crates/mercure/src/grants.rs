//! Which topics a token opens.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::{Selector, SelectorKind, Topic};

/// The selectors of one kind of a token's claims. Two with the same meaning are equal.
#[derive(Debug, Default)]
pub struct Grants {
    is_all: bool,
    /// Each once, exact ones too.
    selectors: Vec<Arc<Selector>>,
    exact: HashSet<Box<str>>,
    /// All keys in order, which is what two of them are compared by.
    keys: Box<[String]>,
}

impl Grants {
    /// What these selectors open together.
    pub fn new(selectors: impl IntoIterator<Item = Arc<Selector>>) -> Grants {
        let mut grants = Grants::default();
        let mut keys = HashSet::new();
        let mut all = None;
        for selector in selectors {
            let key = selector.key();
            let mark = match selector.kind() {
                SelectorKind::All => {
                    all = Some(selector);
                    continue;
                }
                SelectorKind::Exact => '=',
                SelectorKind::Pattern => '~',
            };
            if keys.insert(format!("{mark}{key}")) {
                if mark == '=' {
                    grants.exact.insert(key.into());
                }
                grants.selectors.push(selector);
            }
        }
        if let Some(all) = all {
            // Whatever else is listed opens nothing more.
            let (exact, keys) = (grants.exact, Box::from(["*".to_owned()]));
            return Grants { is_all: true, selectors: vec![all], exact, keys };
        }
        let mut keys: Vec<String> = keys.into_iter().collect();
        keys.sort_unstable();
        Grants { keys: keys.into(), ..grants }
    }

    /// Whether they open nothing.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether they open everything.
    pub fn is_all(&self) -> bool {
        self.is_all
    }

    /// The selectors, each meaning once; `*` alone if it is among them.
    pub fn selectors(&self) -> &[Arc<Selector>] {
        &self.selectors
    }

    /// The patterns among them.
    pub fn patterns(&self) -> impl Iterator<Item = &Arc<Selector>> {
        self.selectors.iter().filter(|selector| selector.kind() == SelectorKind::Pattern)
    }

    /// Whether they open all that a pattern, or `*`, matches, as far as that can be told: it is
    /// listed itself, or all is.
    pub fn lists(&self, selector: &Selector) -> bool {
        let listed = || format!("~{}", selector.key());
        self.is_all
            || selector.kind() == SelectorKind::Pattern
                && self.keys.binary_search(&listed()).is_ok()
    }

    /// Whether a plain topic is among them by its name, beside `*` or without it.
    pub fn names(&self, topic: &str) -> bool {
        self.exact.contains(topic)
    }

    /// Whether they open one topic.
    pub fn opens(&self, topic: &Topic<'_>) -> bool {
        self.is_all
            || self.exact.contains(topic.text())
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

impl PartialEq for Grants {
    fn eq(&self, other: &Grants) -> bool {
        self.keys == other.keys
    }
}

impl Eq for Grants {}

impl Hash for Grants {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.keys.hash(state);
    }
}
