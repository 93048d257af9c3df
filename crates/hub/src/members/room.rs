//! One room: its members, each once, in as little memory as they can be.
//!
//! Nearly all ids have one member, the user whose id it is: it stands in the room itself. Up to 32
//! more are in a vector, of which each look reads all (768 bytes). Past that there is a table.
//!
//! Cost of a room: 40 bytes, and 48 more with a second member. With a third it has its vector, 24
//! bytes for each but the first, and with many a table, 28 bytes for each.

use arcstr::ArcStr;

use crate::bucket_table::BucketTable;
use crate::id::Id;
use crate::keys::Keys;

/// How a connection goes from a room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Going {
    Away,
    /// It polls, and is likely to come back at once.
    BetweenPolls,
    /// It was not to be there.
    AtOnce,
}

/// What a connection shows of its user, and how many may be there.
#[derive(Clone, Copy)]
pub(super) struct Shown<'i> {
    pub(super) info: Option<&'i Info>,
    /// Where there is a bound, what is told of a user stays what it is.
    pub(super) most: Option<usize>,
    /// A poll has shown it.
    pub(super) by_poll: bool,
}

/// So many beside the first are looked through one by one.
const FEW: usize = 32;

/// What others are told of a member beside its id: one JSON value on one line. Copies share it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Info(ArcStr);

impl Info {
    /// Of `json`, one valid JSON value. Line breaks between its tokens are taken out.
    pub fn new(json: &str) -> Info {
        match memchr::memchr2(b'\r', b'\n', json.as_bytes()) {
            None => Info(json.into()),
            Some(_) => Info(json.replace(['\r', '\n'], "").into()),
        }
    }

    /// The JSON.
    pub fn json(&self) -> &str {
        &self.0
    }
}

/// A user in a room.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) sub: Id,
    pub(super) info: Option<Info>,
    /// Its connections that are logged in under the room's id.
    pub(super) conns: u32,
    /// What it takes up in a list, once others were told that it is there.
    pub(super) told_bytes: u16,
    /// It waits to be looked at.
    pub(super) is_noted: bool,
    marks: Marks,
}

/// What else is to be known of it when it is looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Marks(u8);

impl Marks {
    /// Its info is another one than was told.
    const RENEWED: u8 = 1;
    /// The last of its connections that has gone was a poll.
    const POLLS: u8 = 2;
}

impl Member {
    pub(super) fn new(sub: Id) -> Member {
        let (info, conns, told_bytes) = (None, 0, 0);
        Member { sub, info, conns, told_bytes, is_noted: false, marks: Marks::default() }
    }

    /// Its info is another one than was told.
    pub(super) fn renew(&mut self) {
        self.marks.0 |= Marks::RENEWED;
    }

    /// Whether its info was another one than was told. Now it is told.
    pub(super) fn take_renewed(&mut self) -> bool {
        let is_renewed = self.marks.0 & Marks::RENEWED != 0;
        self.marks.0 &= !Marks::RENEWED;
        is_renewed
    }

    /// Whether the last of its connections that has gone was a poll.
    pub(super) fn polls(&self) -> bool {
        self.marks.0 & Marks::POLLS != 0
    }

    pub(super) fn set_polls(&mut self, polls: bool) {
        self.marks.0 = self.marks.0 & !Marks::POLLS | if polls { Marks::POLLS } else { 0 };
    }

    /// Whether others were told that it is there.
    pub(super) fn is_told(&self) -> bool {
        self.told_bytes > 0
    }
}

/// The members of an id: one at least.
pub(super) struct Room {
    pub(super) id: Id,
    first: Member,
    more: Option<Box<More>>,
}

const _: () = assert!(size_of::<Room>() == 40 && size_of::<Member>() == 24);

/// What only a room of several has.
struct More {
    counts_alone: bool,
    others: Others,
}

/// All members but the first.
enum Others {
    One(Member),
    Few(Vec<Member>),
    Many(Box<Many>),
}

// With what the allocator keeps of it, 48 bytes.
const _: () = assert!(size_of::<More>() == 40);

/// The members of a crowd, but the first, and what others were told of all.
struct Many {
    told: usize,
    told_bytes: usize,
    members: BucketTable<Member, 16>,
}

impl Room {
    pub(super) fn new(id: Id, first: Member) -> Room {
        Room { id, first, more: None }
    }

    pub(super) fn member(&mut self, sub: Id, keys: &Keys) -> Option<&mut Member> {
        if self.first.sub == sub {
            return Some(&mut self.first);
        }
        match &mut self.more.as_mut()?.others {
            Others::One(one) => Some(one).filter(|member| member.sub == sub),
            Others::Few(few) => few.iter_mut().find(|member| member.sub == sub),
            Others::Many(many) => {
                many.members.find_mut(keys.hash(sub.to_bits()), |member| member.sub == sub)
            }
        }
    }

    /// Puts one in that is not there.
    pub(super) fn insert(&mut self, member: Member, keys: &Keys) {
        let (told, told_bytes) = self.told_of_few();
        let Some(more) = &mut self.more else {
            let more = More { counts_alone: false, others: Others::One(member) };
            self.more = Some(Box::new(more));
            return;
        };
        match &mut more.others {
            Others::One(one) => {
                let one = std::mem::replace(one, Member::new(Id::NONE));
                more.others = Others::Few(vec![one, member]);
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

    /// Takes one out, of whom nobody was told or knows any more. `true` where it was the last one,
    /// and the room is to go.
    pub(super) fn remove(&mut self, sub: Id, keys: &Keys) -> bool {
        let Some(more) = &mut self.more else { return self.first.sub == sub };
        if self.first.sub == sub {
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

    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        let (few, many) = match self.more.as_ref().map(|more| &more.others) {
            None => (&[][..], None),
            Some(Others::One(one)) => (std::slice::from_ref(one), None),
            Some(Others::Few(few)) => (&few[..], None),
            Some(Others::Many(many)) => (&[][..], Some(many)),
        };
        let many = many.into_iter().flat_map(|many| many.members.iter());
        std::iter::once(&self.first).chain(few).chain(many)
    }

    pub(super) fn len(&self) -> usize {
        1 + self.more.as_ref().map_or(0, |more| more.others.len())
    }

    /// How many others were told of, and the bytes of a list of them.
    pub(super) fn told(&self) -> (usize, usize) {
        match self.more.as_ref().map(|more| &more.others) {
            Some(Others::Many(many)) => (many.told, many.told_bytes),
            _ => self.told_of_few(),
        }
    }

    /// Likewise of the first and a few; nothing of a crowd, which knows it.
    fn told_of_few(&self) -> (usize, usize) {
        if let Some(More { others: Others::Many(_), .. }) = self.more.as_deref() {
            return (0, 0);
        }
        self.members().filter(|member| member.is_told()).fold((0, 0), |(told, bytes), member| {
            (told + 1, bytes + usize::from(member.told_bytes))
        })
    }

    /// Others are told of one who is there, that it takes up so many bytes of a list now: none
    /// where it has left.
    pub(super) fn set_told(&mut self, sub: Id, bytes: u16, keys: &Keys) {
        let Some(member) = self.member(sub, keys) else { return };
        let before = std::mem::replace(&mut member.told_bytes, bytes);
        if let Some(More { others: Others::Many(many), .. }) = self.more.as_deref_mut() {
            many.told = many.told + usize::from(bytes > 0) - usize::from(before > 0);
            many.told_bytes = many.told_bytes + usize::from(bytes) - usize::from(before);
            debug_assert!(many.told <= 1 + many.members.len());
        }
    }

    /// Whether it is too large a room to tell more than how many are there.
    pub(super) fn counts_alone(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.counts_alone)
    }

    pub(super) fn set_counts_alone(&mut self, is_so: bool) {
        if let Some(more) = &mut self.more {
            more.counts_alone = is_so;
        }
    }

    /// The bytes of its allocations.
    #[cfg(test)]
    pub(super) fn allocations(&self) -> Vec<usize> {
        let Some(more) = &self.more else { return Vec::new() };
        let mut allocations = vec![size_of::<More>()];
        match &more.others {
            Others::One(_) => {}
            Others::Few(few) => allocations.push(few.capacity() * size_of::<Member>()),
            Others::Many(many) => {
                allocations.push(size_of::<Many>());
                allocations.extend(many.members.allocations());
            }
        }
        allocations
    }
}

impl Others {
    fn len(&self) -> usize {
        match self {
            // It was taken out, and the room has none but the first.
            Others::One(one) => usize::from(one.sub != Id::NONE),
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
        member.map(|member| member.sub)
    }

    fn remove(&mut self, sub: Id, keys: &Keys) -> Option<Member> {
        match self {
            Others::One(one) if one.sub == sub => {
                Some(std::mem::replace(one, Member::new(Id::NONE)))
            }
            Others::One(_) => None,
            Others::Few(few) => {
                let place = few.iter().position(|member| member.sub == sub)?;
                let removed = few.swap_remove(place);
                match few.len() {
                    1 => *self = Others::One(few.pop()?),
                    len if few.capacity() > 2 * len => few.shrink_to_fit(),
                    _ => {}
                }
                Some(removed)
            }
            Others::Many(many) => {
                many.members.remove(keys.hash(sub.to_bits()), |member| member.sub == sub)
            }
        }
    }
}

impl Many {
    fn insert(&mut self, member: Member, keys: &Keys) {
        self.members.insert(member, |member| keys.hash(member.sub.to_bits()));
    }
}
