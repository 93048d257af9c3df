//! Whose tokens connections have shown, and which rooms they watch ([`crate::shard::members`]).
//!
//! A watched channel stands with the connection's seat there ([`Seats`]), other rooms here.
//!
//! Cost of a room that a connection watches: 12 bytes and its part of the table, some 15 at any
//! number of them, or 23 for a channel with the seat. While the connection waits for a list, some
//! 200 more.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use hub::{BucketTable, Id, NarrowId};
use smallvec::SmallVec;

use super::hash_of_slot;
use super::seats::Seats;
use super::slot_marks::SlotMarks;
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

/// A room that a connection watches, and no channel.
#[derive(Clone, Copy, Debug)]
struct Watched {
    room: NarrowId,
    slot: SlotMarks,
}

const _: () = assert!(size_of::<Watched>() == 12);

impl Watched {
    /// The mark of one who has asked for the list, and not for what changes alone.
    const LISTED: u8 = 1;

    fn is_of(&self, slot: u32) -> bool {
        self.slot.slot() == slot
    }
}

/// What a connection has asked for.
#[derive(Debug, Default)]
struct Asking {
    /// Each of its questions keeps it until it was looked at.
    ticket: Arc<()>,
    /// The rooms for whose lists it waits: as long as what stands beside one is here, somebody
    /// wants it.
    waits: SmallVec<[(Id, Arc<()>); 1]>,
}

impl Asking {
    fn unanswered(&self) -> usize {
        Arc::strong_count(&self.ticket) - 1
    }

    /// Whether nothing here counts any more.
    fn is_over(&self) -> bool {
        self.waits.is_empty() && self.unanswered() == 0
    }
}

/// What connections watch, and what they have asked for.
#[derive(Debug, Default)]
pub(in crate::shard) struct Watching {
    rooms: BucketTable<Watched, 16>,
    /// What is watched of channels, and the seats of members.
    pub(in crate::shard) seats: Seats,
    /// Of connections that wait for lists, or of which questions are not looked at yet.
    asking: HashMap<u32, Asking>,
    /// How many those were when all were looked at last.
    kept: usize,
}

/// So many that ask are not worth a look whether they still do.
const ASKING_FEW: usize = 64;

impl Watching {
    /// Whether nobody watches anything.
    pub(in crate::shard) fn is_empty(&self) -> bool {
        self.rooms.is_empty() && self.seats.is_empty() && self.asking.is_empty()
    }

    fn entries(&self, slot: u32) -> impl Iterator<Item = &Watched> {
        let entries = self.rooms.bucket(hash_of_slot(slot)).iter();
        entries.filter(move |watched| watched.is_of(slot))
    }

    /// The rooms that the connection in `slot` watches.
    pub(in crate::shard) fn of(&self, slot: u32) -> impl Iterator<Item = Id> {
        self.entries(slot).map(|watched| watched.room.id()).chain(self.seats.watched(slot))
    }

    /// Whether it watches `room`.
    pub(in crate::shard) fn has(&self, slot: u32, room: Id) -> bool {
        match room.is_key() {
            true => self.seats.watched(slot).any(|watched| watched == room),
            false => self.entries(slot).any(|watched| watched.room.id() == room),
        }
    }

    /// Of how many rooms it is told the list.
    pub(in crate::shard) fn listed(&self, slot: u32) -> usize {
        let rooms = self.entries(slot).filter(|watched| watched.slot.has(Watched::LISTED)).count();
        rooms + self.seats.listed(slot)
    }

    /// It watches `room`, which it did not, for its list or for what changes alone.
    pub(in crate::shard) fn put(&mut self, slot: u32, room: Id, is_listed: bool) {
        debug_assert!(!self.has(slot, room), "a connection watches a room once");
        if room.is_key() {
            return self.seats.watch(slot, room, is_listed);
        }
        let mut watched = Watched { room: room.into(), slot: SlotMarks::new(slot) };
        watched.slot.set(Watched::LISTED, is_listed);
        self.rooms.insert(watched, |watched| hash_of_slot(watched.slot.slot()));
    }

    /// It watches `room` no more, and waits for nothing there. Whether it did watch it.
    pub(in crate::shard) fn take(&mut self, slot: u32, room: Id) -> bool {
        let is_it = |watched: &Watched| watched.is_of(slot) && watched.room.id() == room;
        let has_watched = match room.is_key() {
            true => self.seats.unwatch(slot, room),
            false => self.rooms.remove(hash_of_slot(slot), is_it).is_some(),
        };
        self.answered(slot, room);
        has_watched
    }

    /// All that the connection in `slot` has watched, which has gone.
    pub(in crate::shard) fn take_all(&mut self, slot: u32) -> SmallVec<[Id; 4]> {
        // Its questions count for no other connection that gets the slot.
        self.forget(slot);
        let mut rooms = self.seats.unwatch_all(slot);
        let next = || self.rooms.remove(hash_of_slot(slot), |watched| watched.is_of(slot));
        rooms.extend(std::iter::from_fn(next).map(|watched| watched.room.id()));
        rooms
    }

    /// What says that it waits for the list of `room`, if it does.
    pub(in crate::shard) fn asked(&self, slot: u32, room: Id) -> Option<&Arc<()>> {
        let mut waits = self.asking.get(&slot)?.waits.iter();
        waits.find(|(waited, _)| *waited == room).map(|(_, client)| client)
    }

    /// Whether it has asked so often for what it does not wait for that it may not ask now.
    pub(in crate::shard) fn asks_too_often(&self, slot: u32) -> bool {
        self.asking.get(&slot).is_some_and(|asking| {
            asking.unanswered().saturating_sub(asking.waits.len()) >= WATCHES_STALE_MAX
        })
    }

    /// It waits for the list of `room`, for which it did not. What says so as long as it does, and
    /// what its question is to keep.
    pub(in crate::shard) fn ask(&mut self, slot: u32, room: Id) -> (Weak<()>, Arc<()>) {
        debug_assert!(self.asked(slot, room).is_none(), "a connection asks for a list once");
        self.look_for_ended();
        let asking = self.asking.entry(slot).or_default();
        let client = Arc::new(());
        let waits = Arc::downgrade(&client);
        asking.waits.push((room, client));
        (waits, Arc::clone(&asking.ticket))
    }

    /// It waits for the list of `room` no more.
    pub(in crate::shard) fn answered(&mut self, slot: u32, room: Id) {
        let Some(asking) = self.asking.get_mut(&slot) else { return };
        asking.waits.retain(|(waited, _)| *waited != room);
        if asking.is_over() {
            self.forget(slot);
        }
    }

    /// The rooms for whose lists it has waited. It waits for none now.
    pub(in crate::shard) fn take_waits(&mut self, slot: u32) -> SmallVec<[Id; 4]> {
        let asking = self.asking.get_mut(&slot).into_iter();
        asking.flat_map(|asking| asking.waits.drain(..)).map(|(room, _)| room).collect()
    }

    /// The bytes of its allocations for what is watched, without what the allocator adds.
    #[cfg(test)]
    fn allocations(&self) -> impl Iterator<Item = usize> {
        self.rooms.allocations().chain(self.seats.allocations())
    }

    fn forget(&mut self, slot: u32) {
        self.asking.remove(&slot);
        if self.asking.len() * 8 < self.asking.capacity() {
            self.asking.shrink_to(2 * self.asking.len());
            self.kept = self.kept.min(self.asking.len());
        }
    }

    /// Nobody tells when a question ends for which its connection does not wait. So once there are
    /// twice as many as at the last time, all are looked at.
    fn look_for_ended(&mut self) {
        if self.asking.len() > 2 * self.kept + ASKING_FEW {
            self.asking.retain(|_, asking| !asking.is_over());
            self.kept = self.asking.len();
        }
    }
}

#[cfg(test)]
mod tests;
