//! What a record of the log changes in the rooms.

use super::list::{ListedBytes, Precedence, RoomChange, RoomList};
use super::{AGAIN, COUNTED, RoomAction, Rooms};
use crate::room_note::RoomNote;

impl Rooms {
    /// What the node `from` says in the record `sequence`.
    pub(super) fn read(&mut self, sequence: u64, from: u64, notes: Vec<RoomNote>) {
        let is_mine = self.me == Some(from);
        if is_mine {
            self.outbox.arrived();
        }
        debug_assert!(self.nodes.contains(&from), "what counts is of a member");
        let mut is_new = false;
        for note in notes {
            self.notes += 1;
            match note {
                RoomNote::Want(room) => {
                    is_new |= self.read_want(sequence, from, room);
                    self.repeats.retain(|node| *node != from);
                }
                RoomNote::Unwant(room) => self.read_unwant(from, room),
                RoomNote::Answered(AGAIN) if !self.repeats.contains(&from) => {
                    self.repeats.push(from);
                }
                RoomNote::Answered(up_to) => {
                    let answered = self.answered.entry(from).or_default();
                    *answered = up_to.max(*answered);
                }
                RoomNote::Gone(COUNTED) if !self.counting.contains(&from) => {
                    self.counting.push(from);
                }
                RoomNote::Gone(node) if !self.nodes.contains(&node) => self.read_gone(node),
                RoomNote::Gone(_) => {}
                RoomNote::Begin(room) => {
                    let (at, counting) = (self.notes, self.counting.len());
                    self.counting.retain(|node| *node != from);
                    let is_counted = self.counting.len() < counting;
                    self.change(room, |list, _| {
                        list.is_counted |= is_counted && !list.is_settled;
                        list.begin(from, at);
                        None
                    });
                }
                RoomNote::End(room) => {
                    self.change(room, |list, listed| list.end(from, listed));
                }
                RoomNote::Joined { room, sub, info } => {
                    let said = (from, self.notes, self.precedence(&room, from));
                    self.change(room, |list, listed| list.joined(said, sub, info, listed));
                }
                RoomNote::Left { room, sub } => {
                    self.change(room, |list, listed| list.left(from, sub, listed));
                }
            }
        }
        if is_new && self.me.is_some() {
            self.outbox.note(RoomNote::Answered(sequence));
        }
    }

    /// Whether that is new here, and is to be answered.
    fn read_want(&mut self, sequence: u64, from: u64, room: Box<str>) -> bool {
        if self.me == Some(from)
            && let Some(list) = self.lists.get_mut(&room).filter(|list| list.wanted_at.is_none())
        {
            list.wanted_at = Some(sequence);
            self.settling.push_back((sequence, room.clone()));
        }
        if !self.wanted.contains_key(&room) {
            self.actions.push_back(RoomAction::Listen(room.clone()));
        }
        let wanting = self.wanted.entry(room.clone()).or_default();
        let is_new = !wanting.contains(&from);
        if is_new {
            wanting.push(from);
            self.put_in_order(from, &room);
            if self.me.is_some() {
                self.outbox.state(&room, false);
            }
        }
        is_new
    }

    /// `from` wants to know `room`, which is new here: was it first, or this node?
    ///
    /// All nodes go by the order of the log. What a node says once more for one that is new is of
    /// before that.
    fn put_in_order(&mut self, from: u64, room: &str) {
        let (Some(me), Some(wanting)) = (self.me, self.wanted.get(room)) else { return };
        let Some(list) = self.lists.get_mut(room) else { return };
        if from == me {
            list.ask_behind(wanting.iter().copied().filter(|other| *other != me).collect());
        } else if self.repeats.contains(&from) && !list.before.contains(&from) {
            list.before.push(from);
        }
    }

    /// Whose word that of the node `from` is for the order of users in `room`.
    fn precedence(&self, room: &str, from: u64) -> Precedence {
        match self.lists.get(room).filter(|list| !list.is_settled && self.me != Some(from)) {
            None => Precedence::InTurn,
            Some(list) if list.before.contains(&from) => Precedence::Before,
            Some(_) => Precedence::Later,
        }
    }

    fn read_unwant(&mut self, from: u64, room: Box<str>) {
        // This node has changed its mind meanwhile, and wants the room anew.
        if self.me == Some(from)
            && let Some(list) = self.lists.get_mut(&room)
        {
            // Behind the next want all say anew whom they have. Until then a node may hold that
            // nobody wants the room, and not tell who leaves: nothing of before counts.
            self.list_bytes -= list.bytes();
            list.clear();
        }
        if let Some(list) = self.lists.get_mut(&room) {
            list.before.retain(|one| *one != from);
        }
        let Some(wanting) = self.wanted.get_mut(&room) else { return };
        wanting.retain(|one| *one != from);
        if wanting.is_empty() {
            self.wanted.remove(&room);
            self.actions.push_back(RoomAction::Ignore(room));
        }
    }

    fn read_gone(&mut self, node: u64) {
        let place = self.orphans.iter().position(|orphans| orphans.of == node);
        let Some(place) = place else { return };
        self.orphans.remove(place);
        let rooms: Vec<Box<str>> = self.lists.keys().cloned().collect();
        for room in rooms {
            self.change(room, |list, listed| list.gone(node, listed));
        }
    }

    /// Changes a list, if this node has it, and says what is to be told.
    fn change<C: IntoIterator<Item = (Box<str>, RoomChange)>>(
        &mut self,
        room: Box<str>,
        change: impl FnOnce(&mut RoomList, ListedBytes) -> C,
    ) {
        let Some(list) = self.lists.get_mut(&room) else { return };
        let before = list.bytes();
        let changes = change(list, self.listed);
        self.list_bytes = self.list_bytes + list.bytes() - before;
        if list.is_settled {
            let changed = |(sub, change)| RoomAction::Changed { room: room.clone(), sub, change };
            self.actions.extend(changes.into_iter().map(changed));
        }
    }
}
