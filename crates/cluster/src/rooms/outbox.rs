//! What a node has to say of rooms. A queue, of which one record is on its way to the log at a
//! time.
//!
//! Whom this node has in a room is put together only when it is its turn, so it is said once,
//! however many ask. What happens in the room until then is a part of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::COUNTED;
use crate::limits::{
    RECORD_BYTES_MAX, RECORD_HEAD_BYTES, ROOM_NOTES_MAX, ROOM_QUEUE_BYTES_MAX, ROOM_QUEUE_MAX,
};
use crate::room_note::RoomNote;

/// A user of this node, and what is told of it.
pub type RoomUser = (Box<str>, Option<Arc<str>>);

#[derive(Debug)]
enum ToSay {
    Note(RoomNote),
    /// Whom this node has in a room.
    State(Box<str>),
}

/// What is to be said.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Each with its number.
    queue: VecDeque<(u64, ToSay)>,
    /// The rest of what one item has come to.
    opened: VecDeque<RoomNote>,
    /// Rooms whose state is in the queue, and whether it is said also if that is nobody, where
    /// something else was said.
    states: BTreeMap<Box<str>, bool>,
    /// Users who have come or gone in the queue, and their bytes.
    changes: usize,
    change_bytes: usize,
    /// The number of the last item, of the last one that was read in the log, and of the last one
    /// that is wholly in the record on its way.
    pub(super) queued: u64,
    pub(super) read: u64,
    on_its_way: Option<u64>,
}

impl Outbox {
    fn push(&mut self, item: ToSay) {
        self.queued += 1;
        self.queue.push_back((self.queued, item));
    }

    pub(super) fn note(&mut self, note: RoomNote) {
        self.push(ToSay::Note(note));
    }

    /// A user has come or gone. `false` where so much waits that it was not taken: then the
    /// [whole state](Outbox::say_anew) is to be said.
    #[must_use]
    pub(super) fn change(&mut self, room: &str, note: RoomNote) -> bool {
        if let Some(says_nobody) = self.states.get_mut(room) {
            // Perhaps it was the last one, of whom others have heard.
            *says_nobody = true;
            return true;
        }
        let bytes = self.change_bytes + note.bytes();
        if self.changes >= ROOM_QUEUE_MAX || bytes > ROOM_QUEUE_BYTES_MAX {
            return false;
        }
        (self.changes, self.change_bytes) = (self.changes + 1, bytes);
        self.note(note);
        true
    }

    /// Whom this node has in `room` is to be said.
    pub(super) fn state(&mut self, room: &str, says_nobody: bool) {
        if let Some(says) = self.states.get_mut(room) {
            *says |= says_nobody;
            return;
        }
        self.states.insert(room.into(), says_nobody);
        self.push(ToSay::State(room.into()));
    }

    /// Who has come and gone is not said one by one: whom this node has in each of `rooms` is.
    pub(super) fn say_anew<'r>(&mut self, rooms: impl Iterator<Item = &'r str>) {
        let is_change = |item: &ToSay| {
            let of_one =
                |note: &RoomNote| matches!(note, RoomNote::Joined { .. } | RoomNote::Left { .. });
            matches!(item, ToSay::Note(note) if of_one(note)) || matches!(item, ToSay::State(_))
        };
        self.queue.retain(|(_, item)| !is_change(item));
        // Answers that are in the queue stand behind what they promise.
        let kept = std::mem::take(&mut self.queue);
        (self.changes, self.change_bytes) = (0, 0);
        self.states.clear();
        rooms.for_each(|room| self.state(room, true));
        for (_, item) in kept {
            self.push(item);
        }
    }

    /// Nothing is to be said any more.
    pub(super) fn clear(&mut self) {
        *self = Outbox { queued: self.queued, read: self.queued, ..Outbox::default() };
    }

    /// The record on its way was read in the log.
    pub(super) fn arrived(&mut self) {
        if let Some(last) = self.on_its_way.take() {
            debug_assert!(last >= self.read);
            self.read = last;
        }
    }

    /// The next record, if none is on its way and there is something to say. `users` are those of
    /// this node in a room, of which perhaps only the count is told.
    pub(super) fn next(
        &mut self,
        mut users: impl FnMut(&str) -> Vec<RoomUser>,
        is_counted: impl Fn(&str) -> bool,
    ) -> Option<Vec<RoomNote>> {
        if self.on_its_way.is_some() {
            return None;
        }
        let (mut notes, mut bytes) = (Vec::new(), RECORD_HEAD_BYTES);
        let mut last = self.read;
        loop {
            while let Some(note) = self.opened.front() {
                bytes += note.bytes();
                if notes.len() >= ROOM_NOTES_MAX || bytes > RECORD_BYTES_MAX {
                    return self.send(notes, last);
                }
                notes.extend(self.opened.pop_front());
            }
            // All of the item before is in the record.
            last = self.queue.front().map_or(self.queued, |(number, _)| number - 1);
            let Some((_, item)) = self.queue.pop_front() else { break };
            self.open(item, &mut users, &is_counted);
        }
        self.send(notes, last)
    }

    fn open(
        &mut self,
        item: ToSay,
        users: &mut impl FnMut(&str) -> Vec<RoomUser>,
        is_counted: &impl Fn(&str) -> bool,
    ) {
        match item {
            ToSay::Note(note) => {
                if matches!(note, RoomNote::Joined { .. } | RoomNote::Left { .. }) {
                    self.changes -= 1;
                    self.change_bytes -= note.bytes();
                }
                self.opened.push_back(note);
            }
            ToSay::State(room) => {
                let says_nobody = self.states.remove(&room).unwrap_or_default();
                let (users, is_counted) = (users(&room), is_counted(&room));
                if users.is_empty() && !says_nobody && !is_counted {
                    return;
                }
                if is_counted {
                    self.opened.push_back(RoomNote::Gone(COUNTED));
                }
                self.opened.push_back(RoomNote::Begin(room.clone()));
                let joined = |(sub, info)| RoomNote::Joined { room: room.clone(), sub, info };
                self.opened.extend(users.into_iter().map(joined));
                self.opened.push_back(RoomNote::End(room));
            }
        }
    }

    fn send(&mut self, notes: Vec<RoomNote>, last: u64) -> Option<Vec<RoomNote>> {
        if notes.is_empty() {
            // Nothing of it had to be said.
            self.read = last;
            return None;
        }
        self.on_its_way = Some(last);
        Some(notes)
    }

    /// What it takes up.
    pub(super) fn bytes(&self) -> usize {
        self.queue.len() * size_of::<(u64, ToSay)>() + self.change_bytes
    }
}
