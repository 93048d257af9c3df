//! One room: its members, each once, in as little memory as they can be.
//!
//! Nearly all ids have one member, the user whose id it is: it stands in the room itself. Up to
//! 32 more are in a vector, of which each look reads all (768 bytes); past that there is a table.

use std::sync::Arc;

use hashbrown::HashTable;

use crate::id::Id;
use crate::keys::Keys;
use crate::tables;

/// So many beside the first are looked through one by one.
const FEW: usize = 32;

/// What others are told of a member beside its id: one JSON value on one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Info(Box<str>);

impl Info {
    /// Of `json`, one valid JSON value. Line breaks between its tokens are taken out.
    pub fn new(json: &str) -> Info {
        Info(json.chars().filter(|c| !matches!(c, '\r' | '\n')).collect())
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
    pub(super) info: Option<Arc<Info>>,
    /// Its connections that are logged in under the room's id.
    pub(super) conns: u32,
    /// What it takes up in a list, once others were told that it is there.
    pub(super) told_bytes: u16,
    /// It waits to be looked at.
    pub(super) is_noted: bool,
    /// Its info is another one than was told.
    pub(super) is_renewed: bool,
}

impl Member {
    pub(super) fn new(sub: Id) -> Member {
        let (info, conns, told_bytes) = (None, 0, 0);
        Member { sub, info, conns, told_bytes, is_noted: false, is_renewed: false }
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
    told: usize,
    told_bytes: usize,
    counts_alone: bool,
    set: Set,
}

enum Set {
    Few(Vec<Member>),
    Many(HashTable<Member>),
}

impl Room {
    pub(super) fn new(id: Id, first: Member) -> Room {
        Room { id, first, more: None }
    }

    pub(super) fn member(&mut self, sub: Id, keys: &Keys) -> Option<&mut Member> {
        if self.first.sub == sub {
            return Some(&mut self.first);
        }
        match &mut self.more.as_mut()?.set {
            Set::Few(members) => members.iter_mut().find(|member| member.sub == sub),
            Set::Many(members) => {
                members.find_mut(keys.hash(sub.to_bits()), |member| member.sub == sub)
            }
        }
    }

    /// Puts one in that is not there.
    pub(super) fn insert(&mut self, member: Member, keys: &Keys) {
        let hash = |member: &Member| keys.hash(member.sub.to_bits());
        let first = &self.first;
        let more = self.more.get_or_insert_with(|| {
            let (told, told_bytes) = (usize::from(first.is_told()), first.told_bytes.into());
            Box::new(More { told, told_bytes, counts_alone: false, set: Set::Few(Vec::new()) })
        });
        match &mut more.set {
            Set::Few(members) if members.len() < FEW => {
                members.reserve_exact(1 + members.len() / 2);
                members.push(member);
            }
            Set::Few(members) => {
                let mut table = HashTable::with_capacity(FEW + 1);
                for member in members.drain(..).chain([member]) {
                    table.insert_unique(hash(&member), member, hash);
                }
                more.set = Set::Many(table);
            }
            Set::Many(table) => {
                table.insert_unique(hash(&member), member, hash);
            }
        }
    }

    /// Takes one out, of whom nobody was told or knows any more. `true` where it was the last one,
    /// and the room is to go.
    pub(super) fn remove(&mut self, sub: Id, keys: &Keys) -> bool {
        let Some(more) = &mut self.more else { return self.first.sub == sub };
        if self.first.sub == sub {
            let Some(next) = more.set.pop(keys) else { return true };
            self.first = next;
        } else {
            more.set.remove(sub, keys);
        }
        if more.set.len() == 0 {
            self.more = None;
        }
        false
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        let (few, many) = match self.more.as_ref().map(|more| &more.set) {
            None => (&[][..], None),
            Some(Set::Few(members)) => (&members[..], None),
            Some(Set::Many(table)) => (&[][..], Some(table)),
        };
        let many = many.into_iter().flat_map(|table| table.iter());
        std::iter::once(&self.first).chain(few).chain(many)
    }

    pub(super) fn len(&self) -> usize {
        1 + self.more.as_ref().map_or(0, |more| more.set.len())
    }

    /// How many others were told of, and the bytes of a list of them.
    pub(super) fn told(&self) -> (usize, usize) {
        match &self.more {
            None => (usize::from(self.first.is_told()), self.first.told_bytes.into()),
            Some(more) => (more.told, more.told_bytes),
        }
    }

    /// Others are told of one who is there, that it takes up so many bytes of a list now: none
    /// where it has left.
    pub(super) fn set_told(&mut self, sub: Id, bytes: u16, keys: &Keys) {
        let Some(member) = self.member(sub, keys) else { return };
        let before = std::mem::replace(&mut member.told_bytes, bytes);
        if let Some(more) = &mut self.more {
            more.told = more.told + usize::from(bytes > 0) - usize::from(before > 0);
            more.told_bytes = more.told_bytes + usize::from(bytes) - usize::from(before);
            debug_assert!(more.told <= 1 + more.set.len());
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
}

impl Set {
    fn len(&self) -> usize {
        match self {
            Set::Few(members) => members.len(),
            Set::Many(table) => table.len(),
        }
    }

    /// Takes any one out.
    fn pop(&mut self, keys: &Keys) -> Option<Member> {
        let sub = match self {
            Set::Few(members) => return members.pop(),
            Set::Many(table) => table.iter().next()?.sub,
        };
        self.remove(sub, keys)
    }

    fn remove(&mut self, sub: Id, keys: &Keys) -> Option<Member> {
        match self {
            Set::Few(members) => {
                let place = members.iter().position(|member| member.sub == sub)?;
                Some(members.swap_remove(place))
            }
            Set::Many(table) => {
                let found =
                    table.find_entry(keys.hash(sub.to_bits()), |member| member.sub == sub).ok()?;
                let (member, _) = found.remove();
                tables::shrink(table, |member| keys.hash(member.sub.to_bits()));
                Some(member)
            }
        }
    }
}
