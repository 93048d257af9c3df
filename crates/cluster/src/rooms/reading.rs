//! What a record of the log changes in the rooms.

use super::list::{ListedBytes, RoomChange, RoomList, Saying};
use super::{RoomAct, Rooms};
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
                RoomNote::Want(room) => is_new |= self.read_want(sequence, from, room),
                RoomNote::Unwant(room) => self.read_unwant(from, room),
                RoomNote::Answered(up_to) => {
                    let answered = self.answered.entry(from).or_default();
                    *answered = up_to.max(*answered);
                }
                RoomNote::Gone(node) if !self.nodes.contains(&node) => self.read_gone(node),
                RoomNote::Gone(_) => {}
                RoomNote::Begin(room) => {
                    let at = self.notes;
                    self.change(room, |list, _| {
                        list.begin(from, at);
                        None
                    });
                }
                RoomNote::End(room) => {
                    self.change(room, |list, listed| list.end(from, listed));
                }
                RoomNote::Joined { room, sub, info } => {
                    let said = (from, self.notes, self.saying(&room, from));
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
        if self.me == Some(from) {
            self.first_want.get_or_insert(sequence);
        }
        if self.me == Some(from)
            && let Some(list) = self.lists.get_mut(&room).filter(|list| list.wanted_at.is_none())
        {
            list.wanted_at = Some(sequence);
            self.settling.push_back((sequence, room.clone()));
        }
        if !self.wanted.contains_key(&room) {
            self.acts.push_back(RoomAct::Listen(room.clone()));
        }
        let wanting = self.wanted.entry(room.clone()).or_default();
        let is_new = !wanting.contains(&from);
        if is_new {
            wanting.push(from);
            if self.me.is_some() {
                self.outbox.state(&room, false);
            }
        }
        is_new
    }

    /// Whose word that of the node `from` is for the order of users in `room`.
    fn saying(&self, room: &str, from: u64) -> Saying {
        let is_settled = self.lists.get(room).is_none_or(|list| list.is_settled);
        let Some(me) = self.me.filter(|me| !is_settled && *me != from) else {
            return Saying::InTurn;
        };
        let wanting = self.wanted.get(room).map_or(&[][..], |wanting| wanting);
        let place = |node| wanting.iter().position(|one| *one == node);
        let (Some(theirs), mine) = (place(from), place(me)) else { return Saying::Later };
        // An older node says its wants once more for a new one, which cannot tell them from new
        // ones until it has an answer from there.
        let answered = self.answered.get(&from).zip(self.first_want);
        let is_repeated = from < me && answered.is_none_or(|(up_to, first)| *up_to < first);
        match is_repeated || mine.is_none_or(|mine| theirs < mine) {
            true => Saying::Before,
            false => Saying::Later,
        }
    }

    fn read_unwant(&mut self, from: u64, room: Box<str>) {
        // This node has changed its mind meanwhile, and wants the room anew.
        if self.me == Some(from)
            && let Some(list) = self.lists.get_mut(&room)
        {
            list.wanted_at = None;
            list.is_settled = false;
        }
        let Some(wanting) = self.wanted.get_mut(&room) else { return };
        wanting.retain(|one| *one != from);
        if wanting.is_empty() {
            self.wanted.remove(&room);
            self.acts.push_back(RoomAct::Ignore(room));
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
            let changed = |(sub, change)| RoomAct::Changed { room: room.clone(), sub, change };
            self.acts.extend(changes.into_iter().map(changed));
        }
    }
}
