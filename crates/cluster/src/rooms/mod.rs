//! Who is in a room, over all nodes: pure state, told what the log says and the time.
//!
//! Nodes say in the log whom they have in a room. They do so only for rooms that some node *wants*
//! to know of, because a client of it watches one or its API was asked. Whoever wants a room reads
//! there what all nodes say of it, its own words too, in one order. So each node that wants a room
//! has the same list at the same record, and tells the same changes.
//!
//! | read in the log | what a node does |
//! | --- | --- |
//! | a want that is new here | says whom it has there, and that it answered; tells all updates |
//! | an unwant of the last node that wanted | says nothing more of the room |
//! | a join | says once more what it wants: that is new to nobody but the new node |
//! | a leave | after the grace somebody says that the users of that node alone are gone |
//!
//! A list is *settled*, and is given to anybody, once each node that was a member at the want has
//! answered it or is no member any more. A node that loses its place, or a part of the log, begins
//! anew: nothing is told until its lists are settled, and then all of them are told whole.
//!
//! Which info of a user counts: that of the record which is the last in the log, of those of the
//! nodes that still have the user.
//!
//! A room can have a bound: [`RoomList::is_past`] says whether a user came when others had taken
//! all places. Each node asks that for its own users alone, once their list is settled, and takes
//! those out who are past it. What came first is what the log says first. Of users who were there
//! before a node asked for the list, those of nodes that had asked before are first. Two nodes can
//! each hold the other's user for the first one ([`RoomList::in_doubt`]), so the node that asked
//! later waits for what the other refuses.
//!
//! Cost: nothing where nobody wants to know. A room that is wanted costs some 200 bytes at each
//! node, and a part of a record at each. Each user in it costs some 150 bytes at the nodes that
//! want it.

mod action;
mod list;
mod outbox;
mod reading;

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;

pub use self::action::RoomAction;
pub use self::list::{Doubt, ListedBytes, RoomChange, RoomList};
use self::outbox::Outbox;
pub use self::outbox::RoomUser;
use crate::action::RoomStep;
use crate::limits::RANK_MS;
use crate::room_note::RoomNote;

/// What a room that somebody wants takes up beside its name, twice.
const ROOM_BYTES: usize = 256;

/// Stands as an answer before a want that is said once more: no record has this number, so versions
/// that do not know it pass it over.
const AGAIN: u64 = 0;

/// Stands for a node that is gone before the users of a room of which only the count is told, which
/// is passed over likewise.
const COUNTED: u64 = 0;

/// A node that is no member any more, whose users may come back elsewhere.
#[derive(Debug)]
struct Orphans {
    of: u64,
    /// When to say that they are gone, unless somebody has.
    due_ms: Option<u64>,
}

/// What one node knows of all rooms that are wanted.
#[derive(Debug)]
pub struct Rooms {
    grace_ms: u64,
    listed: ListedBytes,
    /// What this node is, and all members, as the log has it.
    me: Option<u64>,
    nodes: Vec<u64>,
    /// Up to which record each has answered.
    answered: BTreeMap<u64, u64>,
    /// Those whose next want is said once more, for a node that is new.
    repeats: Vec<u64>,
    /// Those that tell the count alone of the room of which they say next whom they have there.
    counting: Vec<u64>,
    /// Who wants each room.
    wanted: BTreeMap<Box<str>, SmallVec<[u64; 2]>>,
    /// The rooms that this node wants.
    lists: BTreeMap<Box<str>, RoomList>,
    /// Those that are not settled, by the record that wants them.
    settling: VecDeque<(u64, Box<str>)>,
    orphans: Vec<Orphans>,
    /// Counts the notes that were read.
    notes: u64,
    outbox: Outbox,
    actions: VecDeque<RoomAction>,
    /// What the lists take up.
    list_bytes: usize,
}

impl Rooms {
    /// Of a node that is no member yet. Users of a node that is gone leave after `grace_ms`.
    pub fn new(grace_ms: u64, listed: ListedBytes) -> Rooms {
        Rooms {
            grace_ms,
            listed,
            me: None,
            nodes: Vec::new(),
            answered: BTreeMap::new(),
            repeats: Vec::new(),
            counting: Vec::new(),
            wanted: BTreeMap::new(),
            lists: BTreeMap::new(),
            settling: VecDeque::new(),
            orphans: Vec::new(),
            notes: 0,
            outbox: Outbox::default(),
            actions: VecDeque::new(),
            list_bytes: 0,
        }
    }

    /// The log says this, in its order.
    pub fn step(&mut self, now_ms: u64, step: RoomStep) {
        match step {
            RoomStep::View { nodes, me, .. } => self.view(now_ms, nodes, me),
            RoomStep::Lost => {
                self.nodes.clear();
                self.me = None;
                self.restart();
            }
            RoomStep::Notes { sequence, from, notes } => self.read(sequence, from, notes),
        }
        self.settle();
    }

    /// This node wants to know who is in `room`. Whether it did not before.
    pub fn want(&mut self, room: &str) -> bool {
        let is_new = !self.lists.contains_key(room);
        if is_new {
            self.lists.insert(room.into(), RoomList::default());
            if self.me.is_some() {
                self.outbox.note(RoomNote::Want(room.into()));
            }
        }
        is_new
    }

    /// This node does not want to know it any more.
    pub fn unwant(&mut self, room: &str) {
        let Some(list) = self.lists.remove(room) else { return };
        self.list_bytes -= list.bytes();
        if self.me.is_some() {
            self.outbox.note(RoomNote::Unwant(room.into()));
        }
    }

    /// A user of this node has come or gone in a room that is [listened](RoomAction::Listen) to.
    pub fn update(&mut self, room: &str, sub: Box<str>, change: RoomChange) {
        if self.me.is_none() || !self.wanted.contains_key(room) {
            return;
        }
        let name = room.into();
        let note = match change {
            RoomChange::Joined(info) | RoomChange::Renewed(info) => {
                RoomNote::Joined { room: name, sub, info }
            }
            RoomChange::Left => RoomNote::Left { room: name, sub },
        };
        if !self.outbox.change(room, note) {
            self.outbox.say_anew(self.wanted.keys().map(|room| &**room));
        }
    }

    /// Time passes.
    pub fn tick(&mut self, now_ms: u64) {
        for orphans in &mut self.orphans {
            if self.me.is_some() && orphans.due_ms.is_some_and(|due_ms| due_ms <= now_ms) {
                orphans.due_ms = None;
                self.outbox.note(RoomNote::Gone(orphans.of));
            }
        }
    }

    /// Somebody has come or gone in `room` of whom [`Rooms::update`] was not told one by one: all
    /// that this node has there is said anew.
    pub fn restate(&mut self, room: &str) {
        if self.me.is_some() && self.wanted.contains_key(room) {
            self.outbox.state(room, true);
        }
    }

    /// When to call [`Rooms::tick`], if nothing happens before.
    pub fn next_deadline(&self) -> Option<u64> {
        self.me.and_then(|_| self.orphans.iter().filter_map(|orphans| orphans.due_ms).min())
    }

    /// The next record of this node, if none is on its way and there is something to say, and the
    /// incarnation that says it. `users` are those of this node in a room, as far as it has told
    /// others.
    pub fn next_record(
        &mut self,
        users: impl FnMut(&str) -> Vec<RoomUser>,
    ) -> Option<(u64, Vec<RoomNote>)> {
        let me = self.me?;
        let lists = &self.lists;
        let is_counted = |room: &str| lists.get(room).is_some_and(RoomList::is_counted);
        Some((me, self.outbox.next(users, is_counted)?))
    }

    /// Of a room that this node wants only the count is told from now on, or the list. Nodes that
    /// want it later do as this one does: whoever goes from one to the other is told the same.
    pub fn set_counted(&mut self, room: &str, is_counted: bool) {
        if let Some(list) = self.lists.get_mut(room) {
            list.is_counted = is_counted;
        }
    }

    /// What comes out next. Take all of it after each input.
    pub fn next_action(&mut self) -> Option<RoomAction> {
        self.actions.pop_front()
    }

    /// The list of a room that this node wants, once it is settled.
    pub fn list(&self, room: &str) -> Option<&RoomList> {
        self.lists.get(room).filter(|list| list.is_settled)
    }

    /// The rooms that this node wants.
    pub fn wants(&self) -> impl Iterator<Item = &str> {
        self.lists.keys().map(|room| &**room)
    }

    /// Of the nodes that want `room`, the one that has been a member for longest. All nodes with a
    /// settled list of the room say the same at the same record.
    pub fn first_wanting(&self, room: &str) -> Option<u64> {
        self.wanted.get(room)?.iter().min().copied()
    }

    /// Whether this node has a settled list of `room`, and asked for it before all others that
    /// still want to know. One node at most has at each record, and its list was settled first.
    pub fn asked_first(&self, room: &str) -> bool {
        let wanting = self.wanted.get(room);
        let wants = |node: &u64| wanting.is_some_and(|wanting| wanting.contains(node));
        self.list(room).is_some_and(|list| !list.before.iter().any(wants))
    }

    /// What this node is as a member, if it is one.
    pub fn me(&self) -> Option<u64> {
        self.me
    }

    /// Counts what this node has to say, and what of that it has read in the log: a list has all
    /// that this node said before.
    pub fn said(&self) -> (u64, u64) {
        (self.outbox.queued, self.outbox.read)
    }

    /// What all of it takes up.
    pub fn bytes(&self) -> usize {
        let rooms = self.wanted.len().max(self.lists.len());
        rooms * ROOM_BYTES + self.list_bytes + self.outbox.bytes()
    }

    fn view(&mut self, now_ms: u64, nodes: Vec<u64>, me: Option<u64>) {
        let before = std::mem::replace(&mut self.nodes, nodes);
        if me != self.me {
            self.me = me;
            return self.restart();
        }
        let is_new = self.nodes.iter().any(|node| !before.contains(node));
        for node in before {
            if !self.nodes.contains(&node) {
                self.lose(now_ms, node);
            }
        }
        if self.me.is_some() && is_new {
            for room in self.lists.keys() {
                self.outbox.note(RoomNote::Answered(AGAIN));
                self.outbox.note(RoomNote::Want(room.clone()));
            }
        }
    }

    /// What others want and say is not known any more, and they do not know what this node wants.
    fn restart(&mut self) {
        self.actions.clear();
        let wanted = std::mem::take(&mut self.wanted);
        let ignored = wanted.into_keys().map(RoomAction::Ignore);
        self.actions.extend(ignored);
        self.lists.values_mut().for_each(RoomList::clear);
        self.list_bytes = 0;
        self.answered.clear();
        self.repeats.clear();
        self.counting.clear();
        self.settling.clear();
        self.orphans.clear();
        self.outbox.clear();
        if self.me.is_some() {
            self.want_all();
        }
    }

    fn want_all(&mut self) {
        for room in self.lists.keys() {
            self.outbox.note(RoomNote::Want(room.clone()));
        }
    }

    /// `node` is no member any more.
    fn lose(&mut self, now_ms: u64, node: u64) {
        self.answered.remove(&node);
        self.repeats.retain(|one| *one != node);
        self.counting.retain(|one| *one != node);
        let actions = &mut self.actions;
        self.wanted.retain(|room, wanting| {
            wanting.retain(|one| *one != node);
            if wanting.is_empty() {
                actions.push_back(RoomAction::Ignore(room.clone()));
            }
            !wanting.is_empty()
        });
        // One of all is enough, so they do not speak at once.
        let before_me = self.nodes.iter().filter(|one| Some(**one) < self.me).count() as u64;
        let due_ms = Some(now_ms + self.grace_ms + before_me * RANK_MS);
        self.orphans.push(Orphans { of: node, due_ms });
    }

    /// Settles the lists whose wants all have answered.
    fn settle(&mut self) {
        while let Some((sequence, room)) = self.settling.front() {
            let wanted_at = Some(*sequence);
            let has_answered = |node: &u64| {
                *node > *sequence || self.answered.get(node).is_some_and(|up_to| up_to >= sequence)
            };
            let list = self.lists.get_mut(room).filter(|list| list.wanted_at == wanted_at);
            if list.is_some() && !self.nodes.iter().all(has_answered) {
                return;
            }
            if let Some(list) = list {
                self.notes += 1;
                list.settle(self.notes);
                self.actions.push_back(RoomAction::Settled(room.clone()));
            }
            self.settling.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
