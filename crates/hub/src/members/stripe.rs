//! The rooms whose hashes share some bits, and what has changed in them.

use std::collections::HashSet;
use std::ops::{Deref, DerefMut};

use super::Membership;
use super::info::{Info, TextPlace};
use super::member::Member;
use super::room::{AnyRoom, Room};
use super::table::RoomTable;
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
    of_ids: RoomTable<Option<Info>>,
    channels: RoomTable<TextPlace>,
    /// The infos of channels.
    infos: Texts,
}

/// A room that was found.
pub(super) enum FoundRoom<'t> {
    OfId(Room<'t, Option<Info>>),
    Channel(Room<'t, TextPlace>),
}

impl<'t> Deref for FoundRoom<'t> {
    type Target = dyn AnyRoom + 't;

    fn deref(&self) -> &Self::Target {
        match self {
            FoundRoom::OfId(room) => room,
            FoundRoom::Channel(room) => room,
        }
    }
}

impl DerefMut for FoundRoom<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            FoundRoom::OfId(room) => room,
            FoundRoom::Channel(room) => room,
        }
    }
}

impl Rooms {
    /// The room `id`, whose hash is `hash`, and where infos may stand.
    pub(super) fn find(&mut self, hash: u64, id: Id) -> Option<(FoundRoom<'_>, &mut Texts)> {
        let room = match id.is_key() {
            true => FoundRoom::Channel(self.channels.find(hash, id)?),
            false => FoundRoom::OfId(self.of_ids.find(hash, id)?),
        };
        Some((room, &mut self.infos))
    }

    /// What `change` says of the member `sub` of the room `id`, if it is there.
    pub(super) fn of_member<T>(
        &mut self,
        hash: u64,
        Membership { room, sub }: Membership,
        keys: &Keys,
        change: impl FnOnce(&mut Member) -> T,
    ) -> Option<T> {
        let (mut room, _) = self.find(hash, room)?;
        room.member(sub, keys).map(change)
    }

    /// Puts a member in that is not there, perhaps the first of the room `id`.
    pub(super) fn insert(&mut self, hash: u64, id: Id, member: Member, keys: &Keys) {
        match id.is_key() {
            true => self.channels.insert(hash, id, member, keys),
            false => self.of_ids.insert(hash, id, member, keys),
        }
    }

    /// Takes a member out, which has no info any more. Whether it was the last one of its room.
    pub(super) fn remove(&mut self, hash: u64, pair: Membership, keys: &Keys) -> bool {
        let Membership { room, sub } = pair;
        match room.is_key() {
            true => self.channels.remove(hash, room, sub, keys),
            false => self.of_ids.remove(hash, room, sub, keys),
        }
    }

    /// Closes the gaps between infos, if they are many.
    pub(super) fn close_gaps(&mut self) {
        if self.infos.is_loose() {
            let infos = self.channels.infos_mut();
            self.infos.close_gaps(infos.filter_map(TextPlace::place_mut));
        }
    }

    /// The bytes of its allocations.
    #[cfg(test)]
    pub(super) fn allocations(&self) -> impl Iterator<Item = usize> {
        let rooms = self.of_ids.allocations().chain(self.channels.allocations());
        rooms.chain(self.infos.allocations())
    }
}
