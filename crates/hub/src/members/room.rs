//! One room: its members, each once, in as little memory as they can be.
//!
//! Nearly all ids have one member, the user whose id it is: it stands in the room itself. Up to 32
//! more are in a vector, of which each look reads all (768 bytes). Past that there is a table.
//!
//! Cost of a room: 40 bytes, and 48 more with a second member. With a third it has its vector, 24
//! bytes for each but the first, and with many a table, 27 bytes for each. In a channel a member is
//! 20 bytes, and has its [info](super::info) beside.

use super::info::{Info, KeptInfo, TextPlace};
use super::member::Member;
use crate::bucket_table::BucketTable;
use crate::id::Id;
use crate::keys::Keys;

/// So many beside the first are looked through one by one.
const FEW: usize = 32;

/// A user in a room, with what is told of it.
struct Informed<I> {
    member: Member,
    info: I,
}

impl<I: Default> Informed<I> {
    fn new(member: Member) -> Informed<I> {
        Informed { member, info: I::default() }
    }

    fn is(&self, sub: Id) -> bool {
        self.member.sub() == sub
    }

    /// It is taken out, and leaves a mark that it was.
    fn take(&mut self) -> Informed<I> {
        std::mem::replace(self, Informed::new(Member::new(Id::NONE)))
    }
}

/// The members of an id or of a channel, one at least, whose infos are kept by `I`.
pub(super) struct Room<I> {
    pub(super) id: Id,
    first: Informed<I>,
    more: Option<Box<More<I>>>,
}

const _: () = assert!(size_of::<Informed<Option<Info>>>() == 24);
const _: () = assert!(size_of::<Room<Option<Info>>>() == 40);
const _: () = assert!(size_of::<Informed<TextPlace>>() == 20);
const _: () = assert!(size_of::<Room<TextPlace>>() == 40);

/// What only a room of several has.
struct More<I> {
    counts_alone: bool,
    others: Others<I>,
}

/// All members but the first.
enum Others<I> {
    One(Informed<I>),
    Few(Vec<Informed<I>>),
    Many(Box<Many<I>>),
}

// With what the allocator keeps of it, 48 bytes.
const _: () = assert!(size_of::<More<Option<Info>>>() == 40 && size_of::<More<TextPlace>>() == 40);

/// The members of a crowd, but the first, and what others were told of all.
struct Many<I> {
    told: usize,
    told_bytes: usize,
    members: BucketTable<Informed<I>, 16>,
}

/// A member, and what is told of it.
pub(super) type FoundMember<'r> = (&'r mut Member, &'r mut dyn KeptInfo);

/// A room, however it keeps infos.
pub(super) trait AnyRoom {
    /// How many members there are.
    fn len(&self) -> usize;

    /// One of them, with what is told of it.
    fn find(&mut self, sub: Id, keys: &Keys) -> Option<FoundMember<'_>>;

    /// All of them.
    fn members(&self) -> Box<dyn Iterator<Item = (&Member, &dyn KeptInfo)> + '_>;

    /// Puts one in that is not there.
    fn insert(&mut self, member: Member, keys: &Keys);

    /// Takes one out, of whom nobody was told or knows any more. `true` where it was the last one,
    /// and the room is to go.
    fn remove(&mut self, sub: Id, keys: &Keys) -> bool;

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

impl<I: KeptInfo + Default> AnyRoom for Room<I> {
    fn len(&self) -> usize {
        1 + self.more.as_ref().map_or(0, |more| more.others.len())
    }

    fn find(&mut self, sub: Id, keys: &Keys) -> Option<FoundMember<'_>> {
        let found = self.informed(sub, keys)?;
        Some((&mut found.member, &mut found.info))
    }

    fn members(&self) -> Box<dyn Iterator<Item = (&Member, &dyn KeptInfo)> + '_> {
        Box::new(self.iter().map(|one| (&one.member, &one.info as &dyn KeptInfo)))
    }

    fn insert(&mut self, member: Member, keys: &Keys) {
        let member = Informed::new(member);
        let (told, told_bytes) = self.told_of_few();
        let Some(more) = &mut self.more else {
            let more = More { counts_alone: false, others: Others::One(member) };
            self.more = Some(Box::new(more));
            return;
        };
        match &mut more.others {
            Others::One(one) => {
                more.others = Others::Few(vec![one.take(), member]);
            }
            Others::Few(few) if few.len() < FEW => {
                if few.len() == few.capacity() {
                    few.reserve_exact(1 + few.len() / 16);
                }
                few.push(member);
            }
            Others::Few(few) => {
                let few = std::mem::take(few);
                let mut many = Many { told, told_bytes, members: BucketTable::default() };
                for member in few.into_iter().chain([member]) {
                    many.insert(member, keys);
                }
                more.others = Others::Many(Box::new(many));
            }
            Others::Many(many) => many.insert(member, keys),
        }
    }

    fn remove(&mut self, sub: Id, keys: &Keys) -> bool {
        let Some(more) = &mut self.more else { return self.first.is(sub) };
        if self.first.is(sub) {
            let next = more.others.any().and_then(|next| more.others.remove(next, keys));
            let Some(next) = next else { return true };
            self.first = next;
        } else {
            more.others.remove(sub, keys);
        }
        if more.others.len() == 0 {
            self.more = None;
        }
        false
    }

    fn told(&self) -> (usize, usize) {
        match self.more.as_ref().map(|more| &more.others) {
            Some(Others::Many(many)) => (many.told, many.told_bytes),
            _ => self.told_of_few(),
        }
    }

    fn set_told(&mut self, sub: Id, bytes: u16, keys: &Keys) {
        let Some(member) = self.member(sub, keys) else { return };
        let before = std::mem::replace(&mut member.told_bytes, bytes);
        if let Some(More { others: Others::Many(many), .. }) = self.more.as_deref_mut() {
            many.told = many.told + usize::from(bytes > 0) - usize::from(before > 0);
            many.told_bytes = many.told_bytes + usize::from(bytes) - usize::from(before);
            debug_assert!(many.told <= 1 + many.members.len());
        }
    }

    fn counts_alone(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.counts_alone)
    }

    fn set_counts_alone(&mut self, is_so: bool) {
        if let Some(more) = &mut self.more {
            more.counts_alone = is_so;
        }
    }
}

impl<I: Default> Room<I> {
    pub(super) fn new(id: Id, first: Member) -> Room<I> {
        Room { id, first: Informed::new(first), more: None }
    }

    fn informed(&mut self, sub: Id, keys: &Keys) -> Option<&mut Informed<I>> {
        if self.first.is(sub) {
            return Some(&mut self.first);
        }
        match &mut self.more.as_mut()?.others {
            Others::One(one) => Some(one).filter(|one| one.is(sub)),
            Others::Few(few) => few.iter_mut().find(|one| one.is(sub)),
            Others::Many(many) => {
                many.members.find_mut(keys.hash(sub.to_bits()), |one| one.is(sub))
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Informed<I>> {
        let (few, many) = match self.more.as_ref().map(|more| &more.others) {
            None => (&[][..], None),
            Some(Others::One(one)) => (std::slice::from_ref(one), None),
            Some(Others::Few(few)) => (&few[..], None),
            Some(Others::Many(many)) => (&[][..], Some(many)),
        };
        let many = many.into_iter().flat_map(|many| many.members.iter());
        std::iter::once(&self.first).chain(few).chain(many)
    }

    /// The infos of all members.
    pub(super) fn infos_mut(&mut self) -> impl Iterator<Item = &mut I> {
        let (few, many) = match self.more.as_mut().map(|more| &mut more.others) {
            None => (&mut [][..], None),
            Some(Others::One(one)) => (std::slice::from_mut(one), None),
            Some(Others::Few(few)) => (&mut few[..], None),
            Some(Others::Many(many)) => (&mut [][..], Some(many)),
        };
        let many = many.into_iter().flat_map(|many| many.members.iter_mut());
        let all = std::iter::once(&mut self.first).chain(few).chain(many);
        all.map(|one| &mut one.info)
    }

    /// What others were told of a few; nothing of a crowd, which knows it.
    fn told_of_few(&self) -> (usize, usize) {
        if let Some(More { others: Others::Many(_), .. }) = self.more.as_deref() {
            return (0, 0);
        }
        let told = self.iter().map(|one| &one.member).filter(|member| member.is_told());
        told.fold((0, 0), |(told, bytes), member| {
            (told + 1, bytes + usize::from(member.told_bytes))
        })
    }

    /// The bytes of its allocations.
    #[cfg(test)]
    pub(super) fn allocations(&self) -> Vec<usize> {
        let Some(more) = &self.more else { return Vec::new() };
        let mut allocations = vec![size_of::<More<I>>()];
        match &more.others {
            Others::One(_) => {}
            Others::Few(few) => allocations.push(few.capacity() * size_of::<Informed<I>>()),
            Others::Many(many) => {
                allocations.push(size_of::<Many<I>>());
                allocations.extend(many.members.allocations());
            }
        }
        allocations
    }
}

impl<I: Default> Others<I> {
    fn len(&self) -> usize {
        match self {
            // It was taken out, and the room has none but the first.
            Others::One(one) => usize::from(!one.is(Id::NONE)),
            Others::Few(few) => few.len(),
            Others::Many(many) => many.members.len(),
        }
    }

    /// Anyone.
    fn any(&self) -> Option<Id> {
        let member = match self {
            Others::One(one) => Some(one),
            Others::Few(few) => few.last(),
            Others::Many(many) => many.members.iter().next(),
        };
        member.map(|one| one.member.sub())
    }

    fn remove(&mut self, sub: Id, keys: &Keys) -> Option<Informed<I>> {
        match self {
            Others::One(one) if one.is(sub) => Some(one.take()),
            Others::One(_) => None,
            Others::Few(few) => {
                let place = few.iter().position(|one| one.is(sub))?;
                let removed = few.swap_remove(place);
                match few.len() {
                    1 => *self = Others::One(few.pop()?),
                    len if few.capacity() > 2 * len => few.shrink_to_fit(),
                    _ => {}
                }
                Some(removed)
            }
            Others::Many(many) => many.members.remove(keys.hash(sub.to_bits()), |one| one.is(sub)),
        }
    }
}

impl<I: Default> Many<I> {
    fn insert(&mut self, one: Informed<I>, keys: &Keys) {
        self.members.insert(one, |one| keys.hash(one.member.sub().to_bits()));
    }
}
