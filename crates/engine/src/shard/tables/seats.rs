//! The presence channels that connections are in (`crate::shard::channels::seats`).

use std::collections::{HashMap, HashSet};

use hub::Id;
use smallvec::SmallVec;

/// A presence channel that a connection is in, and as whom. Both names are kept for it.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) struct Seat {
    pub(in crate::shard) room: Id,
    pub(in crate::shard) sub: Id,
    /// It waits for the list, and nobody knew the user to be there before.
    pub(in crate::shard) is_unseen: bool,
}

/// The seats of connections, by slot.
#[derive(Default)]
pub(in crate::shard) struct Seats {
    by_slot: HashMap<u32, SmallVec<[Seat; 1]>>,
    /// The slots of connections that have left a channel unseen: once each, or one of them could
    /// have others told that it comes and goes as fast as it likes.
    hasty: HashSet<u32>,
}

impl Seats {
    pub(in crate::shard) fn of(&self, slot: u32) -> &[Seat] {
        self.by_slot.get(&slot).map_or(&[], |seats| seats)
    }

    pub(in crate::shard) fn find(&self, slot: u32, room: Id) -> Option<Seat> {
        self.of(slot).iter().copied().find(|seat| seat.room == room)
    }

    pub(in crate::shard) fn put(&mut self, slot: u32, seat: Seat) {
        debug_assert!(self.find(slot, seat.room).is_none(), "a connection has one in a channel");
        self.by_slot.entry(slot).or_default().push(seat);
    }

    /// The connection has the list of `room`.
    pub(in crate::shard) fn let_in(&mut self, slot: u32, room: Id) {
        let mut seats = self.by_slot.get_mut(&slot).into_iter().flatten();
        if let Some(seat) = seats.find(|seat| seat.room == room) {
            seat.is_unseen = false;
        }
    }

    pub(in crate::shard) fn take(&mut self, slot: u32, room: Id) -> Option<Seat> {
        let seats = self.by_slot.get_mut(&slot)?;
        let place = seats.iter().position(|seat| seat.room == room)?;
        let seat = seats.swap_remove(place);
        if seats.is_empty() {
            self.by_slot.remove(&slot);
        }
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
        self.by_slot.remove(&slot).unwrap_or_default()
    }
}
