//! The rooms whose hashes share some bits, and what has changed in them.

use std::collections::HashSet;

use super::Membership;
use super::info::{Info, TextPlace};
use super::member::Member;
use super::room::{AnyRoom, Room};
use crate::bucket_table::BucketTable;
use crate::id::Id;
use crate::keys::Keys;
use crate::texts::Texts;

#[derive(Default)]
pub(super) struct RoomStripe {
    pub(super) rooms: Rooms,
    /// Those that have changed since the roster has looked at them, each once.
    pub(super) noted: Vec<Membership>,
    /// Those of them that have no grace.
    pub(super) at_once: HashSet<Membership>,
}

/// Rooms of ids, and channels: those keep infos in another way.
#[derive(Default)]
pub(super) struct Rooms {
    of_ids: BucketTable<Room<Option<Info>>, 8>,
    channels: BucketTable<Room<TextPlace>, 8>,
    /// The infos of channels.
    infos: Texts,
}

impl Rooms {
    /// The room `id`, whose hash is `hash`, and where infos may stand.
    pub(super) fn find(&self, hash: u64, id: Id) -> Option<(&dyn AnyRoom, &Texts)> {
        let room: &dyn AnyRoom = match id.is_key() {
            true => self.channels.find(hash, |room| room.id == id)?,
            false => self.of_ids.find(hash, |room| room.id == id)?,
        };
        Some((room, &self.infos))
    }

    /// Likewise, to be changed.
    pub(super) fn find_mut(&mut self, hash: u64, id: Id) -> Option<(&mut dyn AnyRoom, &mut Texts)> {
        let room: &mut dyn AnyRoom = match id.is_key() {
            true => self.channels.find_mut(hash, |room| room.id == id)?,
            false => self.of_ids.find_mut(hash, |room| room.id == id)?,
        };
        Some((room, &mut self.infos))
    }

    /// The member `sub` of the room `id`.
    pub(super) fn member(
        &mut self,
        hash: u64,
        Membership { room, sub }: Membership,
        keys: &Keys,
    ) -> Option<&mut Member> {
        let (room, _) = self.find_mut(hash, room)?;
        room.member(sub, keys)
    }

    /// The room `id`, or one with the member that `make` makes. Whether it is new.
    pub(super) fn find_or_insert(
        &mut self,
        hash: u64,
        id: Id,
        make: impl FnOnce() -> Member,
        keys: &Keys,
    ) -> (&mut dyn AnyRoom, &mut Texts, bool) {
        fn find<'r, I: Default>(
            rooms: &'r mut BucketTable<Room<I>, 8>,
            (hash, id): (u64, Id),
            make: impl FnOnce() -> Member,
            keys: &Keys,
        ) -> (&'r mut Room<I>, bool) {
            let make = || Room::new(id, make());
            let hash_of = |room: &Room<I>| keys.hash(room.id.to_bits());
            rooms.find_or_insert(hash, |room| room.id == id, make, hash_of)
        }
        let (room, is_new): (&mut dyn AnyRoom, bool) = match id.is_key() {
            true => {
                let (room, is_new) = find(&mut self.channels, (hash, id), make, keys);
                (room, is_new)
            }
            false => {
                let (room, is_new) = find(&mut self.of_ids, (hash, id), make, keys);
                (room, is_new)
            }
        };
        (room, &mut self.infos, is_new)
    }

    /// Takes the room `id` out, which has no info of a member any more.
    pub(super) fn remove(&mut self, hash: u64, id: Id) {
        match id.is_key() {
            true => drop(self.channels.remove(hash, |room| room.id == id)),
            false => drop(self.of_ids.remove(hash, |room| room.id == id)),
        }
    }

    /// Closes the gaps between infos, if they are many.
    pub(super) fn close_gaps(&mut self) {
        if self.infos.is_loose() {
            let members = self.channels.iter_mut().flat_map(Room::infos_mut);
            self.infos.close_gaps(members.filter_map(TextPlace::place_mut));
        }
    }

    /// The bytes of its allocations.
    #[cfg(test)]
    pub(super) fn allocations(&self) -> impl Iterator<Item = usize> {
        let of_ids = self.of_ids.iter().flat_map(Room::allocations);
        let channels = self.channels.iter().flat_map(Room::allocations);
        let rooms = of_ids.chain(channels).chain(self.of_ids.allocations());
        rooms.chain(self.channels.allocations()).chain(self.infos.allocation())
    }
}
