//! The table of rooms: where the members of a room stand by themselves, and where together.

#[cfg(test)]
mod tests;

use super::info::KeptInfo;
use super::member::Member;
use super::room::{AnyRoom, Content, Informed, Room, RoomEntry, Several};
use crate::bucket_table::BucketTable;
use crate::id::Id;
use crate::keys::Keys;

/// Rooms by their ids, whose infos are kept by `I`.
#[derive(Default)]
pub(super) struct RoomTable<I> {
    entries: BucketTable<RoomEntry<I>, 8>,
}

impl<I: KeptInfo + Default> RoomTable<I> {
    /// So many members of a room are entries of their own. More take less in an allocation. There a
    /// member of a channel is smaller, so fewer are enough for it.
    const APART: usize = if size_of::<Informed<I>>() < 24 { 3 } else { 4 };

    /// So many stand by themselves again: fewer, so that nobody who comes and goes moves them each
    /// time.
    const APART_AGAIN: usize = Self::APART - 1;

    /// The room `id`, whose hash is `hash`.
    pub(super) fn find(&mut self, hash: u64, id: Id) -> Option<Room<'_, I>> {
        let bucket = self.entries.bucket_mut(hash);
        let first = bucket.iter().position(|entry| entry.room == id)?;
        Some(Room { id, entries: &mut bucket[first..] })
    }

    /// Puts a member in that is not there, perhaps the first of its room.
    pub(super) fn insert(&mut self, hash: u64, id: Id, mut member: Member, keys: &Keys) {
        let (apart, counts_alone) = match self.find(hash, id) {
            None => (0, false),
            Some(mut room) => {
                if let Some(several) = room.several() {
                    return several.insert(Informed::new(member), keys);
                }
                (room.len(), room.counts_alone())
            }
        };
        if apart < Self::APART {
            member.set_counted_alone(counts_alone);
            return self.put(id, Content::Member(Informed::new(member)), keys);
        }
        let mut members = Vec::with_capacity(apart);
        while let Some(entry) = self.entries.remove(hash, |entry| entry.room == id) {
            if let Content::Member(one) = entry.content {
                members.push(one);
            }
        }
        let mut members = Several::Few(members.into_boxed_slice());
        members.insert(Informed::new(member), keys);
        self.put(id, Content::Room(members), keys);
    }

    /// Takes a member out, of whom nobody was told or knows any more. `true` where it was the last
    /// one, and with it the room is gone.
    pub(super) fn remove(&mut self, hash: u64, id: Id, sub: Id, keys: &Keys) -> bool {
        let Some(mut room) = self.find(hash, id) else { return false };
        let Some(several) = room.several() else {
            self.entries.remove(hash, |entry| entry.room == id && entry.is_member(sub));
            return self.find(hash, id).is_none();
        };
        several.remove(sub, keys);
        if let Several::Few(few) = several
            && few.len() <= Self::APART_AGAIN
        {
            let members = std::mem::take(few).into_vec();
            self.entries.remove(hash, |entry| entry.room == id);
            members.into_iter().for_each(|one| self.put(id, Content::Member(one), keys));
        }
        false
    }

    fn put(&mut self, room: Id, content: Content<I>, keys: &Keys) {
        self.entries.insert(RoomEntry { room, content }, |entry| keys.hash(entry.room.to_bits()));
    }

    /// The infos of all members.
    pub(super) fn infos_mut(&mut self) -> impl Iterator<Item = &mut I> {
        self.entries.iter_mut().flat_map(RoomEntry::infos_mut)
    }

    /// The bytes of its allocations.
    #[cfg(test)]
    pub(super) fn allocations(&self) -> impl Iterator<Item = usize> {
        self.entries.iter().flat_map(RoomEntry::allocations).chain(self.entries.allocations())
    }
}
