//! Rooms of the log that stand for the channels of an app, on their way to the task that tells
//! webhooks: [`HookRooms`].

use std::collections::HashMap;
use std::sync::Arc;

use cluster::{RoomAction, RoomChange, RoomStep, RoomUser, Rooms};

use crate::hook_rooms::{HookAction, HookRooms, HookStep, Subject, app_of};

/// What of the log concerns webhooks.
pub(super) struct HookedRooms {
    rooms: Arc<HookRooms>,
    epoch: u64,
    sequence: u64,
    me: Option<u64>,
    /// The rooms of apps whose lists are settled, with the node that was said to tell the webhooks.
    settled: HashMap<Box<str>, Option<(Option<u64>, bool)>>,
    actions: Vec<HookAction>,
}

impl HookedRooms {
    pub(super) fn new(rooms: Arc<HookRooms>) -> HookedRooms {
        let (settled, actions) = (HashMap::new(), Vec::new());
        HookedRooms { rooms, epoch: 0, sequence: 0, me: None, settled, actions }
    }

    /// Whether something is to be said in the log.
    pub(super) fn has_updates(&self) -> bool {
        self.rooms.has_updates()
    }

    /// Gives what is to be said to `rooms`.
    pub(super) fn pass_on(&self, rooms: &mut Rooms) {
        self.rooms.pass_on(rooms);
    }

    /// What this node has of an app.
    pub(super) fn users(&self, app: &str) -> Vec<RoomUser> {
        self.rooms.users(app)
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
        self.actions.push(HookAction::Lost);
    }

    /// What has come of it in the room of an app.
    pub(super) fn take(&mut self, app: &str, action: &RoomAction, rooms: &Rooms) {
        let app = app.into();
        match action {
            RoomAction::Listen(_) | RoomAction::Ignore(_) => {}
            RoomAction::Settled(room) => {
                let members = rooms.list(room).into_iter().flat_map(|list| list.members());
                let subjects = members.map(|(subject, _)| Subject::from(subject)).collect();
                self.settled.insert(room.clone(), None);
                self.actions.push(HookAction::Settled { app, subjects });
            }
            RoomAction::Changed { sub, change, .. } => {
                let is_there = match change {
                    RoomChange::Joined(_) => true,
                    RoomChange::Left => false,
                    RoomChange::Renewed(_) => return,
                };
                self.actions.push(HookAction::Changed { app, subject: (&**sub).into(), is_there });
            }
        }
    }

    /// All that was in the step, and whose turn it is behind it to tell; `None` where no app has
    /// webhooks.
    pub(super) fn end(&mut self, rooms: &Rooms) -> Option<HookStep> {
        self.settled.retain(|room, _| rooms.list(room).is_some());
        for (room, said) in &mut self.settled {
            let node = rooms.first_wanting(room);
            let now = (node, node.is_some() && node == rooms.me());
            if said.replace(now) != Some(now)
                && let Some(app) = app_of(room)
            {
                self.actions.push(HookAction::First { app: app.into(), node, is_me: now.1 });
            }
        }
        let actions = std::mem::take(&mut self.actions);
        let is_told = !self.settled.is_empty() || !actions.is_empty();
        is_told.then_some(HookStep { epoch: self.epoch, sequence: self.sequence, actions })
    }

    /// Where that goes.
    pub(super) fn rooms(&self) -> &Arc<HookRooms> {
        &self.rooms
    }
}
