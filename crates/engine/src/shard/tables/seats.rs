//! The presence channels that connections are in (`crate::shard::channels::seats`).

use std::collections::HashMap;

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
pub(in crate::shard) struct Seats(pub(in crate::shard) HashMap<u32, SmallVec<[Seat; 1]>>);

impl Seats {
    pub(in crate::shard) fn of(&self, slot: u32) -> &[Seat] {
        self.0.get(&slot).map_or(&[], |seats| seats)
    }

    pub(in crate::shard) fn find(&self, slot: u32, room: Id) -> Option<Seat> {
        self.of(slot).iter().copied().find(|seat| seat.room == room)
    }

    pub(in crate::shard) fn put(&mut self, slot: u32, seat: Seat) {
        debug_assert!(self.find(slot, seat.room).is_none(), "a connection has one in a channel");
        self.0.entry(slot).or_default().push(seat);
    }

    /// The connection has the list of `room`.
    pub(in crate::shard) fn let_in(&mut self, slot: u32, room: Id) {
        let mut seats = self.0.get_mut(&slot).into_iter().flatten();
        if let Some(seat) = seats.find(|seat| seat.room == room) {
            seat.is_unseen = false;
        }
    }

    pub(in crate::shard) fn take(&mut self, slot: u32, room: Id) -> Option<Seat> {
        let seats = self.0.get_mut(&slot)?;
        let place = seats.iter().position(|seat| seat.room == room)?;
        let seat = seats.swap_remove(place);
        if seats.is_empty() {
            self.0.remove(&slot);
        }
        Some(seat)
    }
}
