//! Topics about which something may be remembered, so that what a pattern has missed is found.
//!
//! A topic is here from before its update is begun until some time after its last one, longer than
//! that is remembered. Of those that went the last number is kept: what stands up to there may not
//! be found by a pattern.
//!
//! Cost: its text and some 150 bytes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use hub::Id;

/// What a topic counts for beside its text: an entry of a tree that is half full at its worst, the
/// text's counts, and a place in the queue.
const ENTRY_BYTES: usize = 192;

/// What is known of a topic.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its key for all, and that for those who are granted it, once there was such an update.
    pub(crate) public: Option<Id>,
    pub(crate) private: Option<Id>,
    /// The number of its last update, and when that was.
    last: u64,
    last_ms: u64,
    /// Updates that are not posted yet.
    under_way: u32,
    /// The [walk](Index::begin_walk) that its last update came behind.
    changed: u32,
}

impl Entry {
    /// The number of its last update, 0 where none was posted, and when that was.
    pub(crate) fn last(&self) -> (u64, u64) {
        (self.last, self.last_ms)
    }

    /// The walk that its last update came behind.
    pub(crate) fn changed(&self) -> u32 {
        self.changed
    }

    /// Its keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Id> {
        self.public.into_iter().chain(self.private)
    }
}

/// Topics, in the order of their texts.
#[derive(Debug, Default)]
pub(crate) struct Index {
    topics: BTreeMap<Arc<str>, Entry>,
    /// Each of them once, in the order in which they are looked at again.
    queue: VecDeque<Arc<str>>,
    bytes: usize,
    /// The last number of those that went.
    floor: u64,
    /// The last number of all.
    newest: u64,
    /// How many walks over all of them have begun.
    walks: u32,
}

impl Index {
    /// An update on `topic` is under way. Its entry, whose key is to be put in.
    pub(crate) fn begin(&mut self, topic: &str) -> &mut Entry {
        let entry = self.entry(topic);
        entry.under_way += 1;
        entry
    }

    /// The entry of `topic`, from now on if there was none.
    fn entry(&mut self, topic: &str) -> &mut Entry {
        if !self.topics.contains_key(topic) {
            let text: Arc<str> = topic.into();
            self.bytes += ENTRY_BYTES + text.len();
            self.queue.push_back(Arc::clone(&text));
            let (public, private) = (None, None);
            let entry = Entry { public, private, last: 0, last_ms: 0, under_way: 0, changed: 0 };
            self.topics.insert(text, entry);
        }
        self.topics.get_mut(topic).expect("it was put in above")
    }

    /// The update is posted under this number, or was not.
    pub(crate) fn end(&mut self, topic: &str, posted: Option<u64>, now_ms: u64) {
        let Some(entry) = self.topics.get_mut(topic) else {
            debug_assert!(false, "what is under way stays");
            return;
        };
        entry.under_way -= 1;
        // Also of one that was not posted: its keys are kept as long as all others.
        entry.last_ms = entry.last_ms.max(now_ms);
        entry.last = entry.last.max(posted.unwrap_or(0));
        entry.changed = self.walks;
        self.newest = self.newest.max(entry.last);
    }

    /// Somebody begins to go over all of them. Of those whose last update ends from now on
    /// [`Entry::changed`] is this number or a greater one.
    pub(crate) fn begin_walk(&mut self) -> u32 {
        self.walks = self.walks.saturating_add(1);
        self.walks
    }

    /// Another process has known of an update on `topic` with this number. Its entry, whose keys
    /// are to be put in.
    pub(crate) fn take_over(&mut self, topic: &str, last: u64, last_ms: u64) -> &mut Entry {
        self.newest = self.newest.max(last);
        let entry = self.entry(topic);
        (entry.last, entry.last_ms) = (entry.last.max(last), entry.last_ms.max(last_ms));
        entry
    }

    /// Looks at the next `most` topics, and takes out those whose last update was before
    /// `before_ms`, and as long as there are more bytes than `bytes_max` all of them, unless they
    /// are under way. What they had, for whoever keeps their keys.
    pub(crate) fn forget(&mut self, most: usize, before_ms: u64, bytes_max: usize) -> Vec<Entry> {
        let mut gone = Vec::new();
        for _ in 0..most.min(self.queue.len()) {
            let Some(text) = self.queue.pop_front() else { break };
            let Some(entry) = self.topics.get(&text) else { continue };
            let is_over = entry.last_ms < before_ms || self.bytes > bytes_max;
            if entry.under_way > 0 || !is_over {
                self.queue.push_back(text);
                continue;
            }
            self.floor = self.floor.max(entry.last);
            self.bytes -= ENTRY_BYTES + text.len();
            gone.extend(self.topics.remove(&text));
        }
        gone
    }

    /// Visits at most `most` of those behind `after` that begin with `literal`, in their order,
    /// until one is not wanted any more. The last one that was looked at, if there may be more.
    pub(crate) fn walk(
        &self,
        literal: &str,
        after: Option<&str>,
        most: usize,
        visit: &mut dyn FnMut(&str, &Entry) -> bool,
    ) -> Option<(&str, &Entry)> {
        let from = match after {
            Some(after) if after >= literal => Bound::Excluded(after),
            _ => Bound::Included(literal),
        };
        let mut topics = self.topics.range::<str, _>((from, Bound::Unbounded));
        let mut looked_at = 0;
        while let Some((text, entry)) = topics.next().filter(|(text, _)| text.starts_with(literal))
        {
            looked_at += 1;
            if !visit(text, entry) || looked_at == most {
                return Some((text, entry));
            }
        }
        None
    }

    /// The number up to which some may not be found.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// The number of the last update.
    pub(crate) fn newest(&self) -> u64 {
        self.newest.max(self.floor)
    }

    /// Some up to this number may not be found.
    pub(crate) fn raise_floor(&mut self, number: u64) {
        self.floor = self.floor.max(number);
    }

    /// The bytes of their texts.
    pub(crate) fn text_bytes(&self) -> usize {
        self.bytes - self.topics.len() * ENTRY_BYTES
    }

    /// How many there are, and the bytes that they count for.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.topics.len(), self.bytes)
    }
}
