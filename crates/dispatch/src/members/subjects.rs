//! Rooms of the log that stand for something else than users, on their way to the task that wants
//! to know them: [`SubjectRooms`].

use std::collections::HashMap;
use std::sync::Arc;

use cluster::{RoomAction, RoomStep, RoomUser, Rooms};

use crate::subject_rooms::{Subject, SubjectAction, SubjectRooms, SubjectStep};

/// What of the log concerns them.
pub(super) struct SubjectReader {
    rooms: Arc<SubjectRooms>,
    epoch: u64,
    sequence: u64,
    me: Option<u64>,
    /// The rooms of apps whose lists are settled, with the node that was said to tell of them.
    settled: HashMap<Box<str>, Option<SubjectTeller>>,
    actions: Vec<SubjectAction>,
}

/// Who tells others of a room.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SubjectTeller {
    node: Option<u64>,
    is_me: bool,
    asked_first: bool,
}

impl SubjectReader {
    pub(super) fn new(rooms: Arc<SubjectRooms>) -> SubjectReader {
        let (settled, actions) = (HashMap::new(), Vec::new());
        SubjectReader { rooms, epoch: 0, sequence: 0, me: None, settled, actions }
    }

    /// Whether something is to be said in the log.
    pub(super) fn has_updates(&self) -> bool {
        self.rooms.has_updates()
    }

    /// Gives what is to be said to `rooms`.
    pub(super) fn pass_on(&self, rooms: &mut Rooms) {
        self.rooms.pass_on(rooms);
    }

    /// What this node has in the room; `None` of a room that is none of these.
    pub(super) fn users(&self, room: &str) -> Option<Vec<RoomUser>> {
        self.rooms.app_of(room).map(|app| self.rooms.users(app))
    }

    /// The log says this; `rooms` was told it.
    pub(super) fn begin(&mut self, step: &RoomStep) {
        match step {
            RoomStep::View { me, epoch, .. } => {
                if (*me, *epoch) != (self.me, self.epoch) {
                    self.lose();
                    self.sequence = 0;
                }
                (self.me, self.epoch) = (*me, *epoch);
            }
            RoomStep::Lost => {
                self.me = None;
                self.lose();
            }
            RoomStep::Notes { sequence, .. } => self.sequence = *sequence,
        }
    }

    fn lose(&mut self) {
        self.settled.clear();
        self.actions.push(SubjectAction::Lost);
    }

    /// What has come of it in a room. Whether that is one of these.
    pub(super) fn take(&mut self, action: &RoomAction, rooms: &Rooms) -> bool {
        let Some(app) = self.rooms.app_of(action.room()) else { return false };
        let app = app.into();
        self.actions.push(match action {
            RoomAction::Listen(_) => SubjectAction::Heard { app, is_heard: true },
            RoomAction::Ignore(_) => SubjectAction::Heard { app, is_heard: false },
            RoomAction::Settled(room) => {
                let members = rooms.list(room).into_iter().flat_map(|list| list.members());
                let subject =
                    |(subject, info): (&str, Option<&str>)| (subject.into(), info.map(Arc::from));
                let subjects = members.map(subject).collect();
                self.settled.insert(room.clone(), None);
                SubjectAction::Settled { app, subjects }
            }
            RoomAction::Changed { sub, change, .. } => {
                let (subject, change) = (Subject::from(&**sub), change.clone());
                SubjectAction::Changed { app, subject, change }
            }
        });
        true
    }

    /// All that was in the step, and whose turn it is behind it to tell; `None` where nobody wants
    /// to know.
    pub(super) fn end(&mut self, rooms: &Rooms) -> Option<SubjectStep> {
        self.settled.retain(|room, _| rooms.list(room).is_some());
        for (room, said) in &mut self.settled {
            let node = rooms.first_wanting(room);
            let is_me = node.is_some() && node == rooms.me();
            let asked_first = rooms.asked_first(room);
            let now = SubjectTeller { node, is_me, asked_first };
            if said.replace(now) != Some(now)
                && let Some(app) = self.rooms.app_of(room)
            {
                let app = app.into();
                self.actions.push(SubjectAction::First { app, node, is_me, asked_first });
            }
        }
        let actions = std::mem::take(&mut self.actions);
        let is_told = !self.settled.is_empty() || !actions.is_empty();
        let (epoch, sequence, filled) = (self.epoch, self.sequence, None);
        is_told.then_some(SubjectStep { epoch, sequence, actions, filled })
    }

    /// Where that goes.
    pub(super) fn rooms(&self) -> &Arc<SubjectRooms> {
        &self.rooms
    }
}
