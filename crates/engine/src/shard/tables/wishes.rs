//! Channels of which subscribers want to hear what they have missed
//! (`crate::shard::channels::missed`).

use std::collections::HashMap;
use std::sync::Arc;

use hub::KEY_MARK;
use smallvec::SmallVec;

use crate::Event;
use crate::shared_ids::KeptId;

/// Where a subscriber goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::shard) enum Start {
    /// Here, and it is told where that is.
    Here,
    /// Behind an event of which nothing is known: there is a gap.
    Nowhere,
    /// Behind this number.
    Behind(u64),
}

/// A channel of which a connection wants to hear what it has missed.
pub(in crate::shard) struct Wish {
    pub(in crate::shard) key: Box<str>,
    pub(in crate::shard) start: Start,
    /// It is logged in there. Of a presence channel it waits for the list first.
    pub(in crate::shard) is_in: bool,
    /// The events of what a user follows are meant, too.
    pub(in crate::shard) has_graph: bool,
    /// The id that is one audience with the channel, if there is one.
    pub(in crate::shard) shared: Option<KeptId>,
    /// The question that was asked.
    pub(in crate::shard) asked: Option<Arc<()>>,
    /// What `passed_over` was then: what that asks for has all up to there, or nothing has.
    pub(in crate::shard) asked_over: u64,
    pub(in crate::shard) is_first: bool,
    /// It was told that some up to this number may be missing.
    pub(in crate::shard) gap_up_to: u64,
    /// The number of the last event that was passed over.
    pub(in crate::shard) passed_over: u64,
}

/// The wishes of connections, by slot.
#[derive(Default)]
pub(in crate::shard) struct Wishes(pub(in crate::shard) HashMap<u32, SmallVec<[Wish; 1]>>);

impl Wishes {
    /// Whether there is none.
    pub(in crate::shard) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(in crate::shard) fn of(&mut self, slot: u32) -> &mut [Wish] {
        self.0.get_mut(&slot).map_or(&mut [], |wishes| wishes)
    }

    pub(in crate::shard) fn find(&mut self, slot: u32, key: &str) -> Option<&mut Wish> {
        self.of(slot).iter_mut().find(|wish| *wish.key == *key)
    }

    /// The connection in `slot` wants no more of this channel.
    pub(in crate::shard) fn forget(&mut self, slot: u32, key: &str) {
        let Some(wishes) = self.0.get_mut(&slot) else { return };
        wishes.retain(|wish| *wish.key != *key);
        if wishes.is_empty() {
            self.0.remove(&slot);
        }
    }

    /// The connection in `slot` has gone.
    pub(in crate::shard) fn forget_all(&mut self, slot: u32) {
        self.0.remove(&slot);
    }

    /// Whether the connection in `slot` is told `event` later, with what it has missed.
    pub(in crate::shard) fn passes_over(&mut self, slot: u32, event: &Event) -> bool {
        let about = event.about();
        let is_of = |wish: &&mut Wish| {
            wish.is_in && (*wish.key == *about || wish.has_graph && !about.starts_with(KEY_MARK))
        };
        // What nobody remembers is told now or never.
        if !event.is_remembered() {
            return false;
        }
        let Some(wish) = self.of(slot).iter_mut().find(is_of) else { return false };
        wish.passed_over = wish.passed_over.max(event.number());
        true
    }

    /// The keys of the channels of which the connection in `slot` waits for something, and from
    /// where it goes on in each.
    pub(in crate::shard) fn written(&self, slot: u32) -> Vec<(String, Start)> {
        let wishes = self.0.get(&slot).into_iter().flatten();
        wishes.map(|wish| (wish.key.to_string(), wish.start)).collect()
    }
}
