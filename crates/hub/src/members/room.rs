//! One room: its members, each once, in as little memory as they can be.
//!
//! Nearly all ids have one member, the user whose id it is, and nearly all rooms beside have two.
//! Up to four members of a room, three of a channel, are entries of the table itself, each with the
//! room's id. With one more the room is one entry, and its members stand in an allocation of just
//! their length. Up to 33 of them are looked through one by one (792 bytes). Past that there is a
//! table of their own.
//!
//! Cost: 37 bytes for each of up to four members, with its part of a bucket. Past that as much for
//! the room, and 24 for each member; in a table of many 27. In a channel a member is 20 bytes where
//! it is no entry, and has its [info](super::info) beside.

use super::info::{Info, KeptInfo, TextPlace};
use super::member::Member;
use crate::bucket_table::{BucketTable, walk_place};
use crate::id::Id;
use crate::keys::Keys;

/// So many members are looked through one by one.
const FEW: usize = 33;

/// So many are few again: half of that, so that nobody who comes and goes moves them each time.
const FEW_AGAIN: usize = FEW / 2;

/// A user in a room, with what is told of it. The member is last: what tells an [entry](Content) of
/// one from a room is in its last bytes, and a room has the place before them.
#[repr(C)]
pub(super) struct Informed<I> {
    info: I,
    member: Member,
}

impl<I: Default> Informed<I> {
    pub(super) fn new(member: Member) -> Informed<I> {
        Informed { info: I::default(), member }
    }

    fn is(&self, sub: Id) -> bool {
        self.member.sub() == sub
    }
}

/// An entry of the table of rooms.
pub(super) struct RoomEntry<I> {
    pub(super) room: Id,
    pub(super) content: Content<I>,
}

/// One of the few members of a room, or all members of one.
pub(super) enum Content<I> {
    Member(Informed<I>),
    Room(Several<I>),
}

const _: () = assert!(size_of::<Informed<Option<Info>>>() == 24);
const _: () = assert!(size_of::<Informed<TextPlace>>() == 20);
const _: () = assert!(size_of::<RoomEntry<Option<Info>>>() == 32);
const _: () = assert!(size_of::<RoomEntry<TextPlace>>() == 32);

impl<I: Default> RoomEntry<I> {
    /// Whether it is this member, and no whole room.
    pub(super) fn is_member(&self, sub: Id) -> bool {
        matches!(&self.content, Content::Member(one) if one.is(sub))
    }

    /// The members that it has.
    fn iter(&self) -> impl Iterator<Item = &Informed<I>> {
        let (few, many) = match &self.content {
            Content::Member(one) => (std::slice::from_ref(one), None),
            Content::Room(Several::Few(few)) => (&few[..], None),
            Content::Room(Several::Many(many)) => (&[][..], Some(many)),
        };
        few.iter().chain(many.into_iter().flat_map(|many| many.members.iter()))
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Informed<I>> {
        let (few, many) = match &mut self.content {
            Content::Member(one) => (std::slice::from_mut(one), None),
            Content::Room(Several::Few(few)) => (&mut few[..], None),
            Content::Room(Several::Many(many)) => (&mut [][..], Some(many)),
        };
        few.iter_mut().chain(many.into_iter().flat_map(|many| many.members.iter_mut()))
    }

    /// The infos of its members.
    pub(super) fn infos_mut(&mut self) -> impl Iterator<Item = &mut I> {
        self.iter_mut().map(|one| &mut one.info)
    }

    /// The bytes of its allocations.
    #[cfg(test)]
    pub(super) fn allocations(&self) -> Vec<usize> {
        match &self.content {
            Content::Member(_) => Vec::new(),
            Content::Room(Several::Few(few)) => vec![size_of_val(&few[..])],
            Content::Room(Several::Many(many)) => {
                many.members.allocations().chain([size_of::<Many<I>>()]).collect()
            }
        }
    }
}

/// All members of a room that is one entry.
pub(super) enum Several<I> {
    /// As many as there is room for.
    Few(Box<[Informed<I>]>),
    Many(Box<Many<I>>),
}

/// The members of a crowd, and what others were told of them.
pub(super) struct Many<I> {
    counts_alone: bool,
    told: usize,
    told_bytes: usize,
    members: BucketTable<Informed<I>, 16>,
}

impl<I: Default> Several<I> {
    pub(super) fn len(&self) -> usize {
        match self {
            Several::Few(few) => few.len(),
            Several::Many(many) => many.members.len(),
        }
    }

    fn find(&mut self, sub: Id, keys: &Keys) -> Option<&mut Informed<I>> {
        match self {
            Several::Few(few) => few.iter_mut().find(|one| one.is(sub)),
            Several::Many(many) => {
                many.members.find_mut(keys.hash(sub.to_bits()), |one| one.is(sub))
            }
        }
    }

    fn counts_alone(&self) -> bool {
        match self {
            Several::Few(few) => few.first().is_some_and(|one| one.member.is_counted_alone()),
            Several::Many(many) => many.counts_alone,
        }
    }

    fn set_counts_alone(&mut self, is_so: bool) {
        match self {
            Several::Few(few) => {
                few.iter_mut().for_each(|one| one.member.set_counted_alone(is_so));
            }
            Several::Many(many) => many.counts_alone = is_so,
        }
    }

    /// Puts one in that is not there.
    pub(super) fn insert(&mut self, mut one: Informed<I>, keys: &Keys) {
        one.member.set_counted_alone(self.counts_alone());
        match self {
            Several::Few(few) => {
                let mut members = std::mem::take(few).into_vec();
                if members.len() < FEW {
                    members.reserve_exact(1);
                    members.push(one);
                    *few = members.into_boxed_slice();
                } else {
                    members.push(one);
                    *self = Several::Many(Box::new(Many::of(members, keys)));
                }
            }
            Several::Many(many) => many.insert(one, keys),
        }
    }

    /// Takes one out, of whom nobody was told or knows any more.
    pub(super) fn remove(&mut self, sub: Id, keys: &Keys) {
        match self {
            Several::Few(few) => {
                let mut members = std::mem::take(few).into_vec();
                members.iter().position(|one| one.is(sub)).map(|at| members.swap_remove(at));
                *few = members.into_boxed_slice();
            }
            Several::Many(many) => {
                many.members.remove(keys.hash(sub.to_bits()), |one| one.is(sub));
                if many.members.len() <= FEW_AGAIN {
                    let counts_alone = many.counts_alone;
                    let members = std::mem::take(&mut many.members);
                    *self = Several::Few(members.into_entries().collect());
                    self.set_counts_alone(counts_alone);
                }
            }
        }
    }
}

impl<I: Default> Many<I> {
    fn of(members: Vec<Informed<I>>, keys: &Keys) -> Many<I> {
        let (told, told_bytes) = told_of(members.iter());
        let counts_alone = members.first().is_some_and(|one| one.member.is_counted_alone());
        let mut many = Many { counts_alone, told, told_bytes, members: BucketTable::default() };
        members.into_iter().for_each(|one| many.insert(one, keys));
        many
    }

    fn insert(&mut self, one: Informed<I>, keys: &Keys) {
        self.members.insert(one, |one| keys.hash(one.member.sub().to_bits()));
    }
}

/// How many of these others were told of, and the bytes of a list of them.
fn told_of<'i, I: 'i>(members: impl Iterator<Item = &'i Informed<I>>) -> (usize, usize) {
    let told = members.map(|one| &one.member).filter(|member| member.is_told());
    told.fold((0, 0), |(told, bytes), member| (told + 1, bytes + usize::from(member.told_bytes)))
}

/// A member, and what is told of it.
pub(super) type FoundMember<'r> = (&'r mut Member, &'r mut dyn KeptInfo);

/// What is done with each member of a walk, and what is told of it.
pub(super) type MemberVisit<'v> = &'v mut dyn FnMut(&Member, &dyn KeptInfo);

/// A room that was found, however it keeps infos.
pub(super) trait AnyRoom {
    /// How many members there are, one at least.
    fn len(&self) -> usize;

    /// One of them, with what is told of it.
    fn find(&mut self, sub: Id, keys: &Keys) -> Option<FoundMember<'_>>;

    /// Visits members from the place `from` on, [in the order of a walk](crate::bucket_table), some
    /// `most` of them, and all where they are few. Where the walk goes on.
    fn walk(&self, from: u64, most: usize, keys: &Keys, visit: MemberVisit<'_>) -> Option<u64>;

    /// How many others were told of, and the bytes of a list of them.
    fn told(&self) -> (usize, usize);

    /// Others are told of one who is there, that it takes up so many bytes of a list now: none
    /// where it has left.
    fn set_told(&mut self, sub: Id, bytes: u16, keys: &Keys);

    /// Whether it is too large a room to tell more than how many are there.
    fn counts_alone(&self) -> bool;

    fn set_counts_alone(&mut self, is_so: bool);

    /// One of the members.
    fn member(&mut self, sub: Id, keys: &Keys) -> Option<&mut Member> {
        self.find(sub, keys).map(|(member, _)| member)
    }
}

/// The room `id`, whose infos are kept by `I`. The first of the entries is the room, or one of its
/// members; the others may be of other rooms.
pub(super) struct Room<'t, I> {
    pub(super) id: Id,
    pub(super) entries: &'t mut [RoomEntry<I>],
}

impl<I: Default> Room<'_, I> {
    /// Its members, where it is one entry.
    pub(super) fn several(&mut self) -> Option<&mut Several<I>> {
        match &mut self.entries.first_mut()?.content {
            Content::Room(members) => Some(members),
            Content::Member(_) => None,
        }
    }

    fn own(&self) -> impl Iterator<Item = &RoomEntry<I>> {
        self.entries.iter().filter(|entry| entry.room == self.id)
    }

    fn own_mut(&mut self) -> impl Iterator<Item = &mut RoomEntry<I>> {
        self.entries.iter_mut().filter(|entry| entry.room == self.id)
    }

    fn many(&self) -> Option<&Many<I>> {
        match &self.entries.first()?.content {
            Content::Room(Several::Many(many)) => Some(many),
            _ => None,
        }
    }
}

impl<I: KeptInfo + Default> AnyRoom for Room<'_, I> {
    fn len(&self) -> usize {
        match self.entries.first().map(|entry| &entry.content) {
            Some(Content::Room(members)) => members.len(),
            _ => self.own().count(),
        }
    }

    fn find(&mut self, sub: Id, keys: &Keys) -> Option<FoundMember<'_>> {
        let id = self.id;
        let (first, rest) = self.entries.split_first_mut()?;
        let found = match &mut first.content {
            Content::Room(members) => members.find(sub, keys),
            Content::Member(one) if one.is(sub) => Some(one),
            Content::Member(_) => {
                let entry = rest.iter_mut().find(|entry| entry.room == id && entry.is_member(sub));
                entry.and_then(|entry| entry.iter_mut().next())
            }
        }?;
        Some((&mut found.member, &mut found.info))
    }

    fn walk(&self, from: u64, most: usize, keys: &Keys, visit: MemberVisit<'_>) -> Option<u64> {
        let hash_of = |one: &Informed<I>| keys.hash(one.member.sub().to_bits());
        let visit = |one: &Informed<I>| visit(&one.member, &one.info);
        if let Some(many) = self.many() {
            return many.members.walk(from, most, hash_of, visit);
        }
        let few = self.own().flat_map(RoomEntry::iter);
        few.filter(|one| walk_place(hash_of(one)) >= from).for_each(visit);
        None
    }

    fn told(&self) -> (usize, usize) {
        match self.many() {
            Some(many) => (many.told, many.told_bytes),
            None => told_of(self.own().flat_map(RoomEntry::iter)),
        }
    }

    fn set_told(&mut self, sub: Id, bytes: u16, keys: &Keys) {
        let Some(member) = self.member(sub, keys) else { return };
        let before = std::mem::replace(&mut member.told_bytes, bytes);
        if let Some(Several::Many(many)) = self.several() {
            many.told = many.told + usize::from(bytes > 0) - usize::from(before > 0);
            many.told_bytes = many.told_bytes + usize::from(bytes) - usize::from(before);
            debug_assert!(many.told <= many.members.len());
        }
    }

    fn counts_alone(&self) -> bool {
        match self.entries.first().map(|entry| &entry.content) {
            Some(Content::Room(members)) => members.counts_alone(),
            Some(Content::Member(one)) => one.member.is_counted_alone(),
            None => false,
        }
    }

    fn set_counts_alone(&mut self, is_so: bool) {
        for entry in self.own_mut() {
            match &mut entry.content {
                Content::Room(members) => members.set_counts_alone(is_so),
                Content::Member(one) => one.member.set_counted_alone(is_so),
            }
        }
    }
}
