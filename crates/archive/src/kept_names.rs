//! Which names are kept, of ids and of topics, and since when.

use hub::{KEY_MARK, Key, Space};

use crate::DiskArchive;
use crate::rules::KeepRule;

/// From which number on all was kept.
pub(crate) struct Since {
    /// By each of the rules, in their order.
    pub(crate) rules: Box<[u64]>,
    /// Of topics, whatever their rule says.
    pub(crate) topics: u64,
}

impl DiskArchive {
    /// The name that a rule must fit so that what is sent about `id` is kept: an id, or the topic
    /// of a key.
    pub(crate) fn name_of<'i>(&self, id: &'i str) -> Option<&'i str> {
        if !id.starts_with(KEY_MARK) {
            return Some(id);
        }
        let Key { space, app, name } = Key::parse(id)?;
        let is_topic = match space {
            Space::Topic | Space::PrivateTopic => true,
            // Others are of patterns.
            Space::Granted => !app.ends_with('*'),
            _ => false,
        };
        let hub_path = self.hub_path.filter(|_| is_topic)?;
        (!name.starts_with(hub_path)).then_some(name)
    }

    /// The rule that counts for `id`, or for the topic that it is the key of.
    pub(crate) fn rule_of(&self, id: &str) -> Option<&KeepRule> {
        self.rules.find(self.name_of(id)?)
    }

    /// From which number on all events about `id` were kept: as long as any rule has kept it.
    pub(crate) fn since(&self, id: &str) -> u64 {
        let Some(name) = self.name_of(id) else { return u64::MAX };
        let since = self.since_of(|rule| rule.fits(name));
        if id.starts_with(KEY_MARK) { since.max(self.topics_since()) } else { since }
    }

    /// Whether all topics are kept that begin with `literal`.
    pub(crate) fn covers_all(&self, literal: &str) -> bool {
        self.hub_path.is_some_and(|path| !literal.starts_with(path))
            && self.rules.iter().any(|rule| rule.fits_all(literal))
    }

    /// From which number on all updates were kept that are kept at all, of topics that begin with
    /// `literal`.
    pub(crate) fn since_all(&self, literal: &str) -> u64 {
        if self.covers_all(literal) {
            return self.since_of(|rule| rule.fits_all(literal)).max(self.topics_since());
        }
        // Each of the rules may be the one of a topic of which the memory has lost some.
        let since = self.since.read();
        let Some(since) = &*since else { return 0 };
        let those = self.rules.iter().zip(&since.rules);
        let those = those.filter(|(rule, _)| rule.fits_some(literal)).map(|(_, since)| *since);
        those.max().map_or(0, |latest| latest.max(since.topics))
    }

    fn since_of(&self, fits: impl Fn(&KeepRule) -> bool) -> u64 {
        let since = self.since.read();
        let Some(since) = &*since else { return 0 };
        let those = self.rules.iter().zip(&since.rules).filter(|(rule, _)| fits(rule));
        those.map(|(_, since)| *since).min().unwrap_or(u64::MAX)
    }

    fn topics_since(&self) -> u64 {
        self.since.read().as_ref().map_or(0, |since| since.topics)
    }
}
