//! Who is in one room, by what all nodes say of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

/// What a user in a list takes up beside its texts: a place in a tree and one holder.
const ENTRY_BYTES: usize = 128;

/// Of a user who was said to be there by a node that asked for the list later than this one, as
/// long as the list is not settled.
const SINCE_LATER: u64 = u64::MAX;

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

/// Why a node does not know who came first: a user of its own was there before its list was
/// settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doubt {
    /// How many nodes asked before this one.
    pub nodes: usize,
    /// Orders the users of this node.
    pub since: u64,
}

/// Whose word it is that a user is there, of a list that is not settled. All nodes that want a room
/// have one order for their users from before, so that of two that ask at one time one is first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Precedence {
    /// Of a node that wanted to know the room before this one did.
    Before,
    /// Of this node; or the list is settled, so that the log's order is that of users.
    InTurn,
    /// Of a node that wants to know it later, or not at all.
    Later,
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

/// A user who is there.
#[derive(Debug, Default)]
struct Present {
    holders: Holders,
    /// The how manyeth note said first that it is there, 0 where that was before all of this node.
    since: u64,
    /// Several nodes had it at one time: they may not agree on when it came.
    is_shared: bool,
}

/// Who is in a room.
#[derive(Debug, Default)]
pub struct RoomList {
    members: BTreeMap<Box<str>, Present>,
    /// The nodes that are saying whom they have, and since which note.
    begun: SmallVec<[(u64, u64); 1]>,
    /// What all of them take up in a list that clients are told.
    listed_bytes: usize,
    /// What they take up here.
    bytes: usize,
    /// The nodes that have asked before this one, of those that have.
    pub(super) before: SmallVec<[u64; 2]>,
    /// The first record that says that this node wants to know, once it was read.
    pub(super) wanted_at: Option<u64>,
    /// All nodes have said whom they have, the last of them in the note `settled_at`.
    pub(super) is_settled: bool,
    settled_at: u64,
    /// Only the count is told of it.
    pub(super) is_counted: bool,
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

    /// Whether only the count is told of it, here or at a node that said so before this list was
    /// settled.
    pub fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Each user, in order, with its info.
    pub fn members(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.members.iter().map(|(sub, one)| (&**sub, info(&one.holders).map(|info| &**info)))
    }

    /// Whether `most` others, or more, were there before `sub` was; `false` where it is not there.
    /// Of those who were there before this node asked each counts for the other. So of all nodes
    /// together no more than `most` are let in.
    pub fn is_past(&self, sub: &str, most: usize) -> bool {
        if self.len() <= most {
            return false;
        }
        let Some(Present { since, is_shared, .. }) = self.members.get(sub) else { return false };
        // It is one of them itself. Who was at several nodes counts for all, and all for it.
        let is_before = |one: &&Present| *is_shared || one.is_shared || one.since <= *since;
        let there = self.members.values().filter(is_before);
        there.take(most + 1).count() > most
    }

    /// Whether users of other nodes count for earlier than `sub` although it came first, perhaps.
    /// Those nodes may refuse users on account of it, so there can be a place once they have. One
    /// who was at several nodes is past the bound at each: who counts it waits for it to go.
    pub fn in_doubt(&self, sub: &str) -> Option<Doubt> {
        let Present { since, is_shared, .. } = *self.members.get(sub)?;
        let doubt = Doubt { nodes: self.before.len(), since };
        (since < self.settled_at && doubt.nodes > 0 && !is_shared).then_some(doubt)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// This node has asked, after these. What they have said by now was before that.
    pub(super) fn ask_behind(&mut self, before: SmallVec<[u64; 2]>) {
        let is_theirs = |one: &Present| one.holders.iter().any(|one| before.contains(&one.node));
        self.members.values_mut().filter(|one| is_theirs(one)).for_each(|one| one.since = 0);
        self.before = before;
    }

    /// `node` begins to say whom it has.
    pub(super) fn begin(&mut self, node: u64, at: u64) {
        self.begun.retain(|(of, _)| *of != node);
        self.begun.push((node, at));
    }

    /// `node` has `sub`.
    pub(super) fn joined(
        &mut self,
        (node, at, precedence): (u64, u64, Precedence),
        sub: Box<str>,
        info: Option<Arc<str>>,
        listed: ListedBytes,
    ) -> Option<(Box<str>, RoomChange)> {
        let name = sub.clone();
        self.change(sub, listed, |Present { holders, since, is_shared }| {
            let is_new = holders.is_empty();
            *is_shared |= holders.iter().any(|holder| holder.node != node);
            match precedence {
                Precedence::Before => *since = 0,
                Precedence::InTurn if is_new || *since == SINCE_LATER => *since = at,
                Precedence::Later if is_new => *since = SINCE_LATER,
                Precedence::InTurn | Precedence::Later => {}
            }
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
        let change = self.change(sub, listed, |one| {
            one.holders.retain(|holder| holder.node != node);
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

    /// All nodes have said whom they have, the last of them in the note `at`.
    pub(super) fn settle(&mut self, at: u64) {
        (self.is_settled, self.settled_at) = (true, at);
        let later = self.members.values_mut().filter(|one| one.since == SINCE_LATER);
        later.for_each(|one| one.since = at);
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
        let over = self.members.iter().filter(|(_, one)| one.holders.iter().any(is_over));
        let over: Vec<Box<str>> = over.map(|(sub, _)| sub.clone()).collect();
        over.into_iter().filter_map(|sub| self.left(node, sub, listed)).collect()
    }

    /// Changes who has `sub`. What is to be told of it then, if anything is.
    fn change(
        &mut self,
        sub: Box<str>,
        listed: ListedBytes,
        change: impl FnOnce(&mut Present),
    ) -> Option<RoomChange> {
        let mut one = self.members.remove(&sub).unwrap_or_default();
        let state = |one: &Present| (!one.holders.is_empty(), info(&one.holders).cloned());
        let (was_there, before) = state(&one);
        change(&mut one);
        let (is_there, after) = state(&one);
        let taken = |is: bool, info: &Option<Arc<str>>| match is {
            true => (listed(&sub, info.as_deref()), entry_bytes(&sub, info.as_deref())),
            false => (0, 0),
        };
        let (was, is) = (taken(was_there, &before), taken(is_there, &after));
        self.listed_bytes = self.listed_bytes + is.0 - was.0;
        self.bytes = self.bytes + is.1 - was.1;
        if is_there {
            self.members.insert(sub, one);
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
