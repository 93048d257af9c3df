//! Lists of who is in a room, gathered in slices: a worker that logs somebody in needs the same
//! lock, and waits for a slice at most.
//!
//! Between two slices members come and go. What others were told of them only the roster changes,
//! and it makes no list meanwhile: so its list is the one behind all that it has told. A list for
//! anybody else has each member once that is there all the while, and one that comes or goes
//! meanwhile once or not at all.
//!
//! Cost under the lock: of each member a look-up of its name, and a copy of its name and, in a
//! channel, of its info, 1 KB at most. What is copied into is used again for the next slice. What
//! the list keeps is made of it when the lock is free, so others have time to take it.

use super::info::Info;
use super::member::Member;
use super::room::AnyRoom;
use super::{ListedMember, MemberList, Members};
use crate::id::Id;

/// Members that are looked at under the lock in one go; and the rest of a bucket beside.
const SLICE: usize = 64;

/// How far a list has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ListStep {
    /// There is another slice.
    More,
    /// All are listed.
    Whole,
    /// There are so many, and that is all that is told of the room.
    Counted(usize),
}

/// What is listed of members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Listing {
    Ids,
    /// What is told of them as well.
    Infos,
}

/// A list that is being gathered.
pub(super) struct Lister<'m> {
    members: &'m Members,
    room: Id,
    listing: Listing,
    /// Where the walk through the room goes on.
    from: u64,
    listed: Vec<ListedMember>,
    slice: ListSlice,
}

/// What was copied of some members.
#[derive(Default)]
pub(super) struct ListSlice {
    texts: String,
    members: Vec<SlicedMember>,
    /// How many were looked at.
    pub(super) seen: usize,
}

/// Where the id of a member ends in the texts of the slice, and what is told of it.
struct SlicedMember {
    id_end: usize,
    info: SlicedInfo,
}

enum SlicedInfo {
    /// Nothing, or what the token of a connection keeps.
    Shared(Option<Info>),
    /// A text up to there.
    Text(usize),
}

impl<'m> Lister<'m> {
    pub(super) fn new(members: &'m Members, room: Id, listing: Listing) -> Lister<'m> {
        let (listed, slice) = (Vec::new(), ListSlice::default());
        Lister { members, room, listing, from: 0, listed, slice }
    }

    /// Lists those of a slice who are there, unless what is told of the room is a count.
    pub(super) fn step(
        &mut self,
        count_of: impl Fn(&dyn AnyRoom) -> Option<usize>,
        is_there: impl Fn(&Member) -> bool,
    ) -> ListStep {
        let step = self.copy(count_of, is_there);
        let mut begin = 0;
        for SlicedMember { id_end, info } in self.slice.members.drain(..) {
            let id = Box::from(&self.slice.texts[begin..id_end]);
            begin = id_end;
            let info = match info {
                SlicedInfo::Shared(info) => info,
                SlicedInfo::Text(end) => {
                    begin = end;
                    Some(Info::of_line(&self.slice.texts[id_end..end]))
                }
            };
            self.listed.push((id, info));
        }
        self.slice.texts.clear();
        step
    }

    /// Copies a slice. The room is locked meanwhile, and at no other time.
    fn copy(
        &mut self,
        count_of: impl Fn(&dyn AnyRoom) -> Option<usize>,
        is_there: impl Fn(&Member) -> bool,
    ) -> ListStep {
        let Lister { members, room, listing, slice, .. } = self;
        let hash = members.keys.hash(room.to_bits());
        let mut stripe = members.stripe(hash);
        let Some((found, infos)) = stripe.rooms.find(hash, *room) else { return ListStep::Whole };
        if let Some(count) = count_of(&*found) {
            return ListStep::Counted(count);
        }
        slice.seen = 0;
        let next = found.walk(self.from, SLICE, &members.keys, &mut |member, kept| {
            slice.seen += 1;
            // Before the lock is free: after that the id may be another one's.
            let name = if is_there(member) { members.names.text(member.sub()) } else { None };
            let Some(name) = name else { return };
            slice.texts.push_str(&name);
            let id_end = slice.texts.len();
            let info = match (*listing, room.is_key()) {
                (Listing::Ids, _) => SlicedInfo::Shared(None),
                (Listing::Infos, false) => SlicedInfo::Shared(kept.info(infos)),
                (Listing::Infos, true) => match kept.json(infos) {
                    None => SlicedInfo::Shared(None),
                    Some(json) => {
                        slice.texts.push_str(json);
                        SlicedInfo::Text(slice.texts.len())
                    }
                },
            };
            slice.members.push(SlicedMember { id_end, info });
        });
        self.from = next.unwrap_or(self.from);
        next.map_or(ListStep::Whole, |_| ListStep::More)
    }

    /// How many were looked at under the lock for the last slice.
    #[cfg(test)]
    pub(super) fn seen(&self) -> usize {
        self.slice.seen
    }

    /// Those who are listed.
    pub(super) fn into_listed(self) -> Vec<ListedMember> {
        self.listed
    }
}

impl Members {
    /// Who is logged in under `room` now, or was until its grace ends.
    pub fn list(&self, room: Id) -> MemberList {
        // A crowd is not walked through.
        let is_crowd = |found: &dyn AnyRoom| {
            found.counts_alone() || found.len() > self.limits.members && !room.is_key()
        };
        let count_of = |found: &dyn AnyRoom| is_crowd(found).then_some(found.len());
        self.list_of(room, Listing::Infos, count_of, is_seen)
    }

    /// The ids of those who are in the channel `room` now, or were until their grace ends.
    pub fn ids_in(&self, room: Id) -> Vec<Box<str>> {
        let list = self.list_of(room, Listing::Ids, |_| None, is_seen);
        list.members.into_iter().flatten().map(|(id, _)| id).collect()
    }

    /// Those who are there, or how many, where that is all that is told of the room.
    pub(super) fn list_of(
        &self,
        room: Id,
        listing: Listing,
        count_of: impl Fn(&dyn AnyRoom) -> Option<usize>,
        is_there: impl Fn(&Member) -> bool,
    ) -> MemberList {
        let mut lister = Lister::new(self, room, listing);
        loop {
            match lister.step(&count_of, &is_there) {
                ListStep::More => {}
                ListStep::Counted(count) => return MemberList { count, members: None },
                ListStep::Whole => {
                    let members = lister.into_listed();
                    return MemberList { count: members.len(), members: Some(members) };
                }
            }
        }
    }
}

/// Whether others see the member as being there.
fn is_seen(member: &Member) -> bool {
    member.conns > 0 || member.is_told()
}
