//! What the log says of who is in a room, on its way to and from [`Rooms`](crate::Rooms).

use super::Node;
use crate::action::{Action, RoomStep};
use crate::pipeline::Item;
use crate::record::Head;
use crate::room_note::RoomNote;
use crate::roster::RecordCounts;

impl Node {
    /// Puts what this node, as long as it is `incarnation`, says of rooms into the log: at most
    /// [`ROOM_NOTES_MAX`](crate::limits::ROOM_NOTES_MAX) notes, and nothing more until they were
    /// read there. If the node loses its place before, they do not count.
    pub fn submit_rooms(&mut self, now_ms: u64, incarnation: u64, notes: Vec<RoomNote>) {
        let is_me = self.incarnation == Some(incarnation);
        if is_me && !self.leaving && !self.ended {
            let is_taken = self.publisher.submit_rooms(notes);
            debug_assert!(is_taken, "one record of rooms is on its way at a time");
            self.step(now_ms);
        }
    }

    /// A record of rooms was read. Nothing that is posted waits for it.
    pub(super) fn take_rooms(&mut self, now_ms: u64, head: &Head, notes: Vec<RoomNote>) -> Item {
        let (counts, from, _) = self.counts(now_ms, head);
        // Who does not know the view has no list.
        if counts == RecordCounts::Yes && self.roster.is_known() {
            let step = RoomStep::Notes { sequence: self.read, from, notes };
            self.actions.push_back(Action::Rooms(step));
        }
        Item::Nothing
    }

    /// Tells who may say something of rooms, once that is another view.
    pub(super) fn say_view(&mut self) {
        if !std::mem::take(&mut self.is_view_new) {
            return;
        }
        let step = if self.roster.is_known() {
            let (nodes, me) = (self.incarnations(), self.incarnation);
            RoomStep::View { nodes, me, epoch: self.epoch.number }
        } else {
            RoomStep::Lost
        };
        self.actions.push_back(Action::Rooms(step));
    }
}
