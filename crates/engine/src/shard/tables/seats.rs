//! The presence channels that connections are in (`crate::shard::channels::seats`).

use std::collections::HashSet;

use hub::{BucketTable, Id};
use smallvec::SmallVec;

use super::hash_of_slot;

/// A presence channel that a connection is in, and as whom. Both names are kept for it.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) struct Seat {
    pub(in crate::shard) room: Id,
    pub(in crate::shard) sub: Id,
    /// It waits for the list, and nobody knew the user to be there before.
    pub(in crate::shard) is_unseen: bool,
}

/// A seat in the table of all.
#[derive(Clone, Copy, Debug)]
struct SeatEntry {
    room: Id,
    sub: Id,
    slot: u32,
    is_unseen: bool,
}

// 27 bytes for each with its part of the table, at any number of them.
const _: () = assert!(size_of::<SeatEntry>() == 24);

impl SeatEntry {
    fn seat(self) -> Seat {
        Seat { room: self.room, sub: self.sub, is_unseen: self.is_unseen }
    }

    fn hash(&self) -> u64 {
        hash_of_slot(self.slot)
    }
}

/// The seats of connections.
#[derive(Default)]
pub(in crate::shard) struct Seats {
    all: BucketTable<SeatEntry, 16>,
    /// The slots of connections that have left a channel unseen: once each, or one of them could
    /// have others told that it comes and goes as fast as it likes.
    hasty: HashSet<u32>,
}

impl Seats {
    pub(in crate::shard) fn of(&self, slot: u32) -> impl Iterator<Item = Seat> {
        let entries = self.all.bucket(hash_of_slot(slot)).iter();
        entries.filter(move |entry| entry.slot == slot).map(|&entry| entry.seat())
    }

    pub(in crate::shard) fn find(&self, slot: u32, room: Id) -> Option<Seat> {
        self.of(slot).find(|seat| seat.room == room)
    }

    pub(in crate::shard) fn put(&mut self, slot: u32, seat: Seat) {
        debug_assert!(self.find(slot, seat.room).is_none(), "a connection has one in a channel");
        let Seat { room, sub, is_unseen } = seat;
        self.all.insert(SeatEntry { room, sub, slot, is_unseen }, SeatEntry::hash);
    }

    /// The connection has the list of `room`.
    pub(in crate::shard) fn let_in(&mut self, slot: u32, room: Id) {
        let is_it = |entry: &SeatEntry| entry.slot == slot && entry.room == room;
        if let Some(entry) = self.all.find_mut(hash_of_slot(slot), is_it) {
            entry.is_unseen = false;
        }
    }

    pub(in crate::shard) fn take(&mut self, slot: u32, room: Id) -> Option<Seat> {
        let is_it = |entry: &SeatEntry| entry.slot == slot && entry.room == room;
        let seat = self.all.remove(hash_of_slot(slot), is_it)?.seat();
        if seat.is_unseen {
            self.hasty.insert(slot);
        }
        Some(seat)
    }

    /// Whether the connection in `slot` has left a channel unseen.
    pub(in crate::shard) fn is_hasty(&self, slot: u32) -> bool {
        self.hasty.contains(&slot)
    }

    /// All seats of the connection in `slot`, which has gone.
    pub(in crate::shard) fn take_all(&mut self, slot: u32) -> SmallVec<[Seat; 1]> {
        self.hasty.remove(&slot);
        let next = || self.all.remove(hash_of_slot(slot), |entry| entry.slot == slot);
        std::iter::from_fn(next).map(SeatEntry::seat).collect()
    }
}
