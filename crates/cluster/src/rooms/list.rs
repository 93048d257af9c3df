//! Who is in one room, by what all nodes say of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

/// What a user in a list takes up beside its texts: a place in a tree and one holder.
const ENTRY_BYTES: usize = 112;

/// What a user takes up in the list that clients are told.
pub type ListedBytes = fn(&str, Option<&str>) -> usize;

/// What a user has become in a room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoomChange {
    /// It is there, with this info.
    Joined(Option<Arc<str>>),
    /// It was there, and has this info now.
    Renewed(Option<Arc<str>>),
    /// No node has it any more.
    Left,
}

/// A node that has a user in a room.
#[derive(Clone, Debug)]
struct Holder {
    node: u64,
    info: Option<Arc<str>>,
    /// The how manyeth note of the log said so last, as counted here.
    at: u64,
}

/// The nodes that have a user: one at least.
type Holders = SmallVec<[Holder; 1]>;

/// Who is in a room.
#[derive(Debug, Default)]
pub struct RoomList {
    members: BTreeMap<Box<str>, Holders>,
    /// The nodes that are saying whom they have, and since which note.
    begun: SmallVec<[(u64, u64); 1]>,
    /// What all of them take up in a list that clients are told.
    listed_bytes: usize,
    /// What they take up here.
    bytes: usize,
    /// The first record that says that this node wants to know, once it was read.
    pub(super) wanted_at: Option<u64>,
    /// All nodes have said whom they have.
    pub(super) is_settled: bool,
}

impl RoomList {
    /// How many users are there.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether nobody is there.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// What they take up in a list that clients are told.
    pub fn listed_bytes(&self) -> usize {
        self.listed_bytes
    }

    /// Each user, in order, with its info.
    pub fn members(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.members.iter().map(|(sub, holders)| (&**sub, info(holders).map(|info| &**info)))
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// `node` begins to say whom it has.
    pub(super) fn begin(&mut self, node: u64, at: u64) {
        self.begun.retain(|(of, _)| *of != node);
        self.begun.push((node, at));
    }

    /// `node` has `sub`.
    pub(super) fn joined(
        &mut self,
        (node, at): (u64, u64),
        sub: Box<str>,
        info: Option<Arc<str>>,
        listed: ListedBytes,
    ) -> Option<(Box<str>, RoomChange)> {
        let name = sub.clone();
        self.change(sub, listed, |holders| {
            holders.retain(|holder| holder.node != node);
            holders.push(Holder { node, info, at });
        })
        .map(|change| (name, change))
    }

    /// `node` has `sub` no more.
    pub(super) fn left(
        &mut self,
        node: u64,
        sub: Box<str>,
        listed: ListedBytes,
    ) -> Option<(Box<str>, RoomChange)> {
        let name = sub.clone();
        let change = self.change(sub, listed, |holders| {
            holders.retain(|holder| holder.node != node);
        });
        change.map(|change| (name, change))
    }

    /// `node` has said whom it has: all others of whom it has said so before are not there.
    pub(super) fn end(&mut self, node: u64, listed: ListedBytes) -> Vec<(Box<str>, RoomChange)> {
        let Some(place) = self.begun.iter().position(|(of, _)| *of == node) else {
            return Vec::new();
        };
        let (_, since) = self.begun.remove(place);
        self.drop_holders(node, since, listed)
    }

    /// `node` has nobody any more.
    pub(super) fn gone(&mut self, node: u64, listed: ListedBytes) -> Vec<(Box<str>, RoomChange)> {
        self.begun.retain(|(of, _)| *of != node);
        self.drop_holders(node, u64::MAX, listed)
    }

    /// Forgets all that was said.
    pub(super) fn clear(&mut self) {
        *self = RoomList::default();
    }

    /// `node` has nobody of whom it has said so last before `since`.
    fn drop_holders(
        &mut self,
        node: u64,
        since: u64,
        listed: ListedBytes,
    ) -> Vec<(Box<str>, RoomChange)> {
        let is_over = |holder: &Holder| holder.node == node && holder.at < since;
        let over = self.members.iter().filter(|(_, holders)| holders.iter().any(is_over));
        let over: Vec<Box<str>> = over.map(|(sub, _)| sub.clone()).collect();
        over.into_iter().filter_map(|sub| self.left(node, sub, listed)).collect()
    }

    /// Changes who has `sub`. What is to be told of it then, if anything is.
    fn change(
        &mut self,
        sub: Box<str>,
        listed: ListedBytes,
        change: impl FnOnce(&mut Holders),
    ) -> Option<RoomChange> {
        let mut holders = self.members.remove(&sub).unwrap_or_default();
        let (was_there, before) = (!holders.is_empty(), info(&holders).cloned());
        change(&mut holders);
        let (is_there, after) = (!holders.is_empty(), info(&holders).cloned());
        let taken = |is: bool, info: &Option<Arc<str>>| match is {
            true => (listed(&sub, info.as_deref()), entry_bytes(&sub, info.as_deref())),
            false => (0, 0),
        };
        let (was, is) = (taken(was_there, &before), taken(is_there, &after));
        self.listed_bytes = self.listed_bytes + is.0 - was.0;
        self.bytes = self.bytes + is.1 - was.1;
        if is_there {
            self.members.insert(sub, holders);
        }
        match (was_there, is_there) {
            (true, false) => Some(RoomChange::Left),
            (false, true) => Some(RoomChange::Joined(after)),
            (true, true) if before != after => Some(RoomChange::Renewed(after)),
            _ => None,
        }
    }
}

/// What was said last of a user counts, of all that nodes say which have it.
fn info(holders: &Holders) -> Option<&Arc<str>> {
    holders.iter().max_by_key(|holder| holder.at)?.info.as_ref()
}

fn entry_bytes(sub: &str, info: Option<&str>) -> usize {
    ENTRY_BYTES + sub.len() + info.map_or(0, str::len)
}
