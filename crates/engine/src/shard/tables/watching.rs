//! Whose tokens connections have shown, and which rooms they watch ([`crate::shard::members`]).

use std::sync::Arc;

use hub::Id;
use smallvec::SmallVec;

use crate::limits::WATCHES_STALE_MAX;

/// The subject of a connection's token, if it has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::shard) struct Subject(pub(in crate::shard) Id);

// Counted among what a member takes up: `hub::members::tests::bytes`.
const _: () = assert!(size_of::<Subject>() == 8);

impl Default for Subject {
    fn default() -> Subject {
        Subject(Id::NONE)
    }
}

impl Subject {
    pub(in crate::shard) fn id(self) -> Option<Id> {
        (self.0 != Id::NONE).then_some(self.0)
    }
}

/// A room that a connection watches.
#[derive(Debug)]
pub(in crate::shard) struct Watched {
    pub(in crate::shard) room: Id,
    /// It waits for the list: as long as this is here somebody wants it.
    pub(in crate::shard) asked: Option<Arc<()>>,
    /// It has asked for the list, and not for what changes alone.
    pub(in crate::shard) is_listed: bool,
}

/// What a connection watches, and what it has asked.
#[derive(Debug, Default)]
pub(in crate::shard) struct Watching {
    pub(in crate::shard) rooms: SmallVec<[Watched; 1]>,
    /// Each of its questions keeps it until it was looked at.
    pub(in crate::shard) ticket: Arc<()>,
}

impl Watching {
    pub(in crate::shard) fn find(&mut self, room: Id) -> Option<&mut Watched> {
        self.rooms.iter_mut().find(|watched| watched.room == room)
    }

    /// Of how many rooms it is told the list.
    pub(in crate::shard) fn listed(&self) -> usize {
        self.rooms.iter().filter(|watched| watched.is_listed).count()
    }

    /// Whether it has asked so often for what it does not wait for that it may not ask now.
    pub(in crate::shard) fn asks_too_often(&self) -> bool {
        let unanswered = Arc::strong_count(&self.ticket) - 1;
        let waits_for = self.rooms.iter().filter(|watched| watched.asked.is_some()).count();
        unanswered.saturating_sub(waits_for) >= WATCHES_STALE_MAX
    }

    /// Whether nothing here counts any more.
    pub(in crate::shard) fn is_over(&self) -> bool {
        self.rooms.is_empty() && Arc::strong_count(&self.ticket) == 1
    }
}
