//! Listeners that another process has let in, which this one goes on for.
//!
//! What each listens to is told by its keys. A key that has a list of grants has the number that
//! the list had there: the list comes before it, once, whoever has it. Here it gets another number.
//!
//! Cost: as of one who begins to listen; a pattern is compiled once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use hub::{Key, Space};
use mercure::{Grants, Selector};
use serde::{Deserialize, Serialize};

use crate::keys::Listening;
use crate::listened::{ListenerKind, Part};
use crate::state::Topics;

/// A list of grants as it is handed on.
#[derive(Debug, Serialize, Deserialize)]
struct WrittenList<'l> {
    number: u64,
    #[serde(default)]
    is_all: bool,
    #[serde(borrow, default)]
    exact: Vec<Cow<'l, str>>,
    /// The keys of patterns.
    #[serde(borrow, default)]
    patterns: Vec<Cow<'l, str>>,
}

impl WrittenList<'_> {
    /// What it was written of; `None` where this version cannot read all of it.
    fn grants(&self) -> Option<Grants> {
        let all = self.is_all.then(|| Selector::of_key("*"));
        let patterns = self.patterns.iter().map(|key| Selector::of_key(key));
        let others: Result<Vec<Selector>, _> = all.into_iter().chain(patterns).collect();
        let exact = self.exact.iter().map(|topic| Selector::exact(topic));
        Some(Grants::new(others.ok()?.into_iter().chain(exact).map(Arc::new)))
    }
}

/// The number of the list of grants that a key has; `None` of a key that has none.
pub fn list_number(key: &str) -> Option<u64> {
    match Key::parse(key)? {
        Key { space: Space::Granted, app, .. } => app.trim_end_matches('*').parse().ok(),
        _ => None,
    }
}

impl Topics {
    /// The list of grants of a key that somebody is logged in under, if it has one.
    pub fn write_list(&self, key: &str) -> Option<Vec<u8>> {
        let number = list_number(key)?;
        let list = self.state().listened.list_of(self.lookup(key)?)?;
        let written = WrittenList {
            number,
            is_all: list.is_all(),
            exact: list.exact().map(Cow::Borrowed).collect(),
            patterns: list.patterns().map(|pattern| pattern.key()).collect(),
        };
        // Numbers and texts are written whatever is in them.
        serde_json::to_vec(&written).ok()
    }

    /// A list comes that some of those who follow have. One that this version cannot read is left
    /// out: who has it cannot listen here.
    pub fn expect_list(&self, bytes: &[u8]) {
        let Ok(written) = serde_json::from_slice::<WrittenList<'_>>(bytes) else { return };
        if self.arriving.get(written.number).is_none()
            && let Some(grants) = written.grants()
        {
            self.arriving.put(written.number, grants);
        }
    }

    /// The keys under which one is to be logged in that was logged in under `keys` where it comes
    /// from, with a token or as an anonymous client. `None` if it cannot listen to all of that
    /// here: nothing was done.
    pub fn listen_again(&self, keys: &[String], is_anonymous: bool) -> Option<Listening> {
        let mut listening = Listening::default();
        let mut selectors = HashMap::new();
        let mut counted: Vec<(String, Arc<Selector>, Part)> = Vec::new();
        for text in keys {
            let Key { space, app, name } = Key::parse(text)?;
            match space {
                Space::Topic | Space::PrivateTopic => listening.keys.push(text.clone()),
                Space::Pattern | Space::PrivatePattern => {
                    let is_private = space == Space::PrivatePattern;
                    let part = if is_private { Part::Private } else { Part::Public };
                    let selector = self.selector_of(name, &mut selectors)?;
                    counted.push((text.clone(), selector, part));
                    listening.keys.push(text.clone());
                }
                Space::Granted => {
                    let list = self.arriving.get(list_number(text)?)?;
                    let selector = match app.ends_with('*') {
                        true => self.selector_of(name, &mut selectors)?,
                        false => Arc::new(Selector::exact(name)),
                    };
                    // It has its key with the number of the list.
                    counted.push((String::new(), selector, Part::Granted(list)));
                }
                _ => return None,
            }
        }
        if counted.is_empty() {
            return Some(listening);
        }
        listening.is_counted = true;
        let counted = counted.iter().map(|(key, of, part)| (key.clone(), of, part.clone()));
        let of = ListenerKind { is_anonymous, was_let_in: true };
        self.count(counted.collect(), of, &mut listening).ok()?;
        Some(listening)
    }

    /// The pattern that has this key: the one that somebody listens to, or else a new one.
    fn selector_of<'k>(
        &self,
        key: &'k str,
        known: &mut HashMap<&'k str, Arc<Selector>>,
    ) -> Option<Arc<Selector>> {
        if let Some(selector) = known.get(key) {
            return Some(Arc::clone(selector));
        }
        let live = |space| {
            let id = self.lookup(&Key { space, app: "", name: key }.text())?;
            Some(Arc::clone(&self.state().listened.of_key(id)?.selector))
        };
        let live = [Space::Pattern, Space::PrivatePattern].into_iter().find_map(live);
        let selector = live.or_else(|| Selector::of_key(key).ok().map(Arc::new))?;
        known.insert(key, Arc::clone(&selector));
        Some(selector)
    }
}
