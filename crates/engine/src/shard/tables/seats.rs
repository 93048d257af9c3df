//! What connections have in channels: a seat as a member (`crate::shard::channels::seats`), that
//! they watch who is there ([`super::watching`]), or both.
//!
//! Who has a seat watches its channel as soon as it may, so both are one entry. They come and go
//! apart from each other: the seat is there first, and at the end of a connection it goes first.
//!
//! Cost of a channel that a connection is a member of: 20 bytes and its part of the table, 23 at
//! any number of them.

use std::collections::HashSet;

use hub::{BucketTable, Id, NarrowId};
use smallvec::SmallVec;

use super::hash_of_slot;
use super::slot_marks::SlotMarks;

/// A presence channel that a connection is in, and as whom. Both names are kept for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::shard) struct Seat {
    pub(in crate::shard) room: Id,
    pub(in crate::shard) sub: Id,
    /// It waits for the list, and nobody knew the user to be there before.
    pub(in crate::shard) is_unseen: bool,
}

/// What a connection has in a channel, in the table of all.
#[derive(Clone, Copy, Debug)]
struct InChannel {
    room: NarrowId,
    /// As whom it has a seat, or `Id::NONE`.
    sub: NarrowId,
    /// With marks: [`InChannel::UNSEEN`] and so on.
    slot: SlotMarks,
}

const _: () = assert!(size_of::<InChannel>() == 20);

impl InChannel {
    /// The mark of [`Seat::is_unseen`].
    const UNSEEN: u8 = 1;
    /// It watches the channel.
    const WATCHED: u8 = 2;
    /// It has asked for the list there, and not for what changes alone.
    const LISTED: u8 = 4;

    fn new(slot: u32, room: Id) -> InChannel {
        InChannel { room: room.into(), sub: Id::NONE.into(), slot: SlotMarks::new(slot) }
    }

    fn hash(&self) -> u64 {
        hash_of_slot(self.slot.slot())
    }

    fn is_of(&self, slot: u32) -> bool {
        self.slot.slot() == slot
    }

    fn seat(&self) -> Option<Seat> {
        let (room, sub) = (self.room.id(), self.sub.id());
        (sub != Id::NONE).then_some(Seat { room, sub, is_unseen: self.slot.has(InChannel::UNSEEN) })
    }

    fn take_seat(&mut self) -> Option<Seat> {
        let seat = self.seat();
        self.sub = Id::NONE.into();
        self.slot.set(InChannel::UNSEEN, false);
        seat
    }

    /// It does not watch the channel; the channel, if it did.
    fn take_watched(&mut self) -> Option<Id> {
        let was_watched = self.slot.has(InChannel::WATCHED);
        self.slot.set(InChannel::WATCHED | InChannel::LISTED, false);
        was_watched.then_some(self.room.id())
    }

    /// Whether it says nothing any more.
    fn is_void(&self) -> bool {
        self.sub.id() == Id::NONE && !self.slot.has(InChannel::WATCHED)
    }
}

/// What connections have in channels.
#[derive(Debug, Default)]
pub(in crate::shard) struct Seats {
    all: BucketTable<InChannel, 16>,
    /// The slots of connections that have left a channel unseen: once each, or one of them could
    /// have others told that it comes and goes as fast as it likes.
    hasty: HashSet<u32>,
}

impl Seats {
    /// The seats of the connection in `slot`.
    pub(in crate::shard) fn of(&self, slot: u32) -> impl Iterator<Item = Seat> {
        self.entries(slot).filter_map(InChannel::seat)
    }

    pub(in crate::shard) fn find(&self, slot: u32, room: Id) -> Option<Seat> {
        self.of(slot).find(|seat| seat.room == room)
    }

    pub(in crate::shard) fn put(&mut self, slot: u32, Seat { room, sub, is_unseen }: Seat) {
        debug_assert!(self.find(slot, room).is_none(), "a connection has one in a channel");
        let entry = self.entry(slot, room);
        entry.sub = sub.into();
        entry.slot.set(InChannel::UNSEEN, is_unseen);
    }

    /// The connection has the list of `room`.
    pub(in crate::shard) fn let_in(&mut self, slot: u32, room: Id) {
        self.change(slot, room, |entry| entry.slot.set(InChannel::UNSEEN, false));
    }

    /// Takes its seat in `room`. That it watches the channel stays.
    pub(in crate::shard) fn take(&mut self, slot: u32, room: Id) -> Option<Seat> {
        let seat = self.change(slot, room, InChannel::take_seat).flatten()?;
        if seat.is_unseen {
            self.hasty.insert(slot);
        }
        Some(seat)
    }

    /// Whether the connection in `slot` has left a channel unseen.
    pub(in crate::shard) fn is_hasty(&self, slot: u32) -> bool {
        self.hasty.contains(&slot)
    }

    /// All seats of the connection in `slot`, which has gone. What it watches stays.
    pub(in crate::shard) fn take_all(&mut self, slot: u32) -> SmallVec<[Seat; 1]> {
        self.hasty.remove(&slot);
        let seats = self.entries_mut(slot).filter_map(InChannel::take_seat).collect();
        self.remove_void(slot);
        seats
    }

    /// The channels that the connection in `slot` watches.
    pub(super) fn watched(&self, slot: u32) -> impl Iterator<Item = Id> {
        let watched = self.entries(slot).filter(|entry| entry.slot.has(InChannel::WATCHED));
        watched.map(|entry| entry.room.id())
    }

    /// Of how many channels it is told the list.
    pub(super) fn listed(&self, slot: u32) -> usize {
        self.entries(slot).filter(|entry| entry.slot.has(InChannel::LISTED)).count()
    }

    /// It watches `room`, which it did not.
    pub(super) fn watch(&mut self, slot: u32, room: Id, is_listed: bool) {
        let entry = self.entry(slot, room);
        entry.slot.set(InChannel::WATCHED, true);
        entry.slot.set(InChannel::LISTED, is_listed);
    }

    /// It watches `room` no more; whether it did. Its seat stays.
    pub(super) fn unwatch(&mut self, slot: u32, room: Id) -> bool {
        self.change(slot, room, InChannel::take_watched).flatten().is_some()
    }

    /// All channels that the connection in `slot` has watched, which has gone. Its seats stay.
    pub(super) fn unwatch_all(&mut self, slot: u32) -> SmallVec<[Id; 4]> {
        let rooms = self.entries_mut(slot).filter_map(InChannel::take_watched).collect();
        self.remove_void(slot);
        rooms
    }

    /// Whether no connection has anything in a channel.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn entries(&self, slot: u32) -> impl Iterator<Item = &InChannel> {
        self.all.bucket(hash_of_slot(slot)).iter().filter(move |entry| entry.is_of(slot))
    }

    fn entries_mut(&mut self, slot: u32) -> impl Iterator<Item = &mut InChannel> {
        let entries = self.all.bucket_mut(hash_of_slot(slot)).iter_mut();
        entries.filter(move |entry| entry.is_of(slot))
    }

    /// What the connection in `slot` has in `room`, which is put in if there is nothing.
    fn entry(&mut self, slot: u32, room: Id) -> &mut InChannel {
        let is_it = |entry: &InChannel| entry.is_of(slot) && entry.room.id() == room;
        let make = || InChannel::new(slot, room);
        self.all.find_or_insert(hash_of_slot(slot), is_it, make, InChannel::hash).0
    }

    /// Changes that, if there is something. It goes once it says nothing any more.
    fn change<R>(
        &mut self,
        slot: u32,
        room: Id,
        change: impl FnOnce(&mut InChannel) -> R,
    ) -> Option<R> {
        let is_it = |entry: &InChannel| entry.is_of(slot) && entry.room.id() == room;
        let entry = self.all.find_mut(hash_of_slot(slot), is_it)?;
        let changed = change(entry);
        if entry.is_void() {
            self.all.remove(hash_of_slot(slot), is_it);
        }
        Some(changed)
    }

    fn remove_void(&mut self, slot: u32) {
        let is_void = |entry: &InChannel| entry.is_of(slot) && entry.is_void();
        while self.all.remove(hash_of_slot(slot), is_void).is_some() {}
    }

    /// The bytes of its allocations, without what the allocator adds.
    #[cfg(test)]
    pub(super) fn allocations(&self) -> impl Iterator<Item = usize> {
        self.all.allocations()
    }
}
