//! What a key hears of updates that are kept on disk: as live, by the rule of the protocol, of each
//! update on its own. No table is asked for it but at the beginning.
//!
//! A pattern is looked for among all that are kept, since nobody knows there which topics there
//! were. Cost: its selector is tried on each.

use std::borrow::Cow;
use std::sync::Arc;

use hub::{Id, KeptListener, Key, Space};
use mercure::{Grants, MatchType, Selector, SelectorKind, Topic};

use crate::state::Topics;

/// As how many expressions a URL pattern counts: each topic is read as a URL for it.
const URL_LOOKS: usize = 8;

/// As how many more, for each that its regular expressions count for: 0.2 µs a byte, beside 10 ns.
const REGEX_LOOKS: usize = 16;

/// As how many bytes each byte of a topic counts that `selector` is tried on.
pub(crate) fn looks_of(selector: &Selector) -> usize {
    match selector.match_type() {
        MatchType::UrlPattern => URL_LOOKS + REGEX_LOOKS * selector.regex_cost(),
        MatchType::Exact => 1 + selector.text().matches('{').count(),
    }
}

/// A key that somebody is logged in under.
struct KeptKey {
    space: Space,
    selector: Arc<Selector>,
    /// Of [`Space::Granted`].
    list: Option<Arc<Grants>>,
}

impl KeptListener for KeptKey {
    fn is_of_many(&self) -> bool {
        self.selector.kind() != SelectorKind::Exact
    }

    fn literal(&self) -> &str {
        self.selector.literal()
    }

    fn looks(&self) -> usize {
        looks_of(&self.selector)
    }

    fn listens(&self, key: &str) -> bool {
        let Some(key) = Key::parse(key) else { return false };
        let is_open = match key.space {
            Space::Topic => matches!(self.space, Space::Pattern | Space::PrivatePattern),
            Space::PrivateTopic => matches!(self.space, Space::PrivatePattern | Space::Granted),
            _ => false,
        };
        is_open && self.selector.matches(&Topic::new(key.name))
    }

    fn hears(&self, subjects: &mut dyn Iterator<Item = Cow<'_, str>>) -> bool {
        self.space != Space::Granted
            || self.list.as_ref().is_some_and(|list| reaches(list, subjects))
    }
}

/// Whether a list grants one of the topics that `subjects` are the keys of, or they are public.
pub(crate) fn reaches(list: &Grants, subjects: &mut dyn Iterator<Item = Cow<'_, str>>) -> bool {
    for subject in subjects {
        match Key::parse(&subject) {
            Some(Key { space: Space::PrivateTopic, name, .. }) => {
                if list.opens(&Topic::new(name)) {
                    return true;
                }
            }
            _ => return true,
        }
    }
    false
}

impl Topics {
    /// What the key `id` hears of kept updates, where that is not all about its topic: of a
    /// pattern, or by a list of grants. `None` as well once nobody listens there.
    pub(crate) fn kept_listener(&self, id: Id) -> Option<Arc<dyn KeptListener>> {
        let text = self.names.text(id)?;
        let Key { space, .. } = Key::parse(&text)?;
        if !matches!(space, Space::Pattern | Space::PrivatePattern | Space::Granted) {
            return None;
        }
        let state = self.state();
        let selector = Arc::clone(&state.listened.of_key(id)?.selector);
        let list = state.listened.list_of(id);
        Some(Arc::new(KeptKey { space, selector, list }))
    }
}
