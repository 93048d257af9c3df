//! Which channels of an app somebody hears and who is in them, over all nodes of a cluster: what is
//! between the task that reads in the log who is in rooms ([`crate::members`]) and the one that
//! tells webhooks ([`crate::pusher_hooks`]).
//!
//! An app with webhooks is a room of the log, which all nodes with such an app want to know. In it
//! are no users, but [subjects](channel_subject): the app's channels, and the members of presence
//! channels.
//!
//! Cost: a lock, twenty times a second. A subject takes its name here where this node has it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cluster::{RoomChange, RoomUser, Rooms};
use hub::{Key, Space};
use tokio::sync::mpsc;

/// What the log says that the task which tells webhooks has not taken yet. Then the one that reads
/// the log waits for it.
const STEPS_WAITING_MAX: usize = 1024;

/// What has changed here and was not passed on yet; of more the whole state is said.
const UPDATES_MAX: usize = 65_536;

/// What ends the subject of a channel, and what stands before the user in that of a member: neither
/// occurs in a channel's name. In the order of their bytes the members of a channel stand before
/// it, so they are told to be gone first.
const CHANNEL_END: char = '~';
const MEMBER: char = '/';

/// A channel, or a member of one, in the room of its app.
pub(crate) type Subject = Arc<str>;

/// The subject of a channel.
pub(crate) fn channel_subject(channel: &str) -> Subject {
    format!("{channel}{CHANNEL_END}").into()
}

/// The subject of a user in a channel.
pub(crate) fn member_subject(channel: &str, user: &str) -> Subject {
    format!("{channel}{MEMBER}{user}").into()
}

/// The channel of a subject, and its user if it is a member. `None` of what no node of this version
/// would say.
pub(crate) fn parse_subject(subject: &str) -> Option<(&str, Option<&str>)> {
    match subject.split_once(MEMBER) {
        Some((channel, user)) => Some((channel, Some(user))),
        None => Some((subject.strip_suffix(CHANNEL_END)?, None)),
    }
}

/// The room of an app.
fn room_of(app: &str) -> String {
    Key { space: Space::Webhooks, app, name: "" }.text()
}

/// The app whose room that is; `None` of all other rooms.
pub(crate) fn app_of(room: &str) -> Option<&str> {
    Key::parse(room).filter(|key| key.space == Space::Webhooks).map(|key| key.app)
}

/// What has become of apps, in the order of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum HookAction {
    /// This node has lost its place, or a part of the log: all lists are settled anew.
    Lost,
    /// Who is there, over all nodes.
    Settled { app: Box<str>, subjects: Vec<Subject> },
    /// A subject of a settled list has come or gone.
    Changed { app: Box<str>, subject: Subject, is_there: bool },
    /// From now on this node is to tell the webhooks of an app: `node`, if any is.
    First { app: Box<str>, node: Option<u64>, is_me: bool },
}

/// What a step of the log has brought.
#[derive(Debug)]
pub(crate) struct HookStep {
    /// The epoch of the log, and the last record that was read.
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    pub(crate) actions: Vec<HookAction>,
}

enum HookUpdate {
    Want(Box<str>),
    Unwant(Box<str>),
    Change { app: Box<str>, subject: Subject, is_there: bool },
}

#[derive(Default)]
struct Here {
    /// What this node has of each app that it wants to know.
    apps: BTreeMap<Box<str>, BTreeSet<Subject>>,
    updates: Vec<HookUpdate>,
    /// There were more updates than are kept.
    is_overrun: bool,
}

/// What both tasks have of it.
pub(crate) struct HookRooms {
    here: Mutex<Here>,
    steps: mpsc::Sender<HookStep>,
}

impl HookRooms {
    /// One of a node that wants nothing yet, and what the log will say.
    pub(crate) fn new() -> (HookRooms, mpsc::Receiver<HookStep>) {
        let (sender, steps) = mpsc::channel(STEPS_WAITING_MAX);
        (HookRooms { here: Mutex::default(), steps: sender }, steps)
    }

    /// This node has `app`, and the app has webhooks.
    pub(crate) fn want(&self, app: &str) {
        let mut here = self.here();
        if !here.apps.contains_key(app) {
            here.apps.insert(app.into(), BTreeSet::new());
            here.updates.push(HookUpdate::Want(app.into()));
        }
    }

    /// It has none any more.
    pub(crate) fn unwant(&self, app: &str) {
        let mut here = self.here();
        let Some(subjects) = here.apps.remove(app) else { return };
        // Others may want to know still.
        let gone = |subject| HookUpdate::Change { app: app.into(), subject, is_there: false };
        here.updates.extend(subjects.into_iter().map(gone));
        here.updates.push(HookUpdate::Unwant(app.into()));
    }

    /// A subject of an app is at this node, or is not.
    pub(crate) fn set(&self, app: &str, subject: &Subject, is_there: bool) {
        let mut here = self.here();
        let Some(subjects) = here.apps.get_mut(app) else { return };
        let has_changed = match is_there {
            true => subjects.insert(Arc::clone(subject)),
            false => subjects.remove(subject),
        };
        if !has_changed {
            return;
        }
        if here.updates.len() >= UPDATES_MAX {
            here.is_overrun = true;
            return;
        }
        let subject = Arc::clone(subject);
        here.updates.push(HookUpdate::Change { app: app.into(), subject, is_there });
    }

    /// All subjects of this node, with their apps.
    pub(crate) fn all(&self) -> Vec<(Box<str>, Subject)> {
        let here = self.here();
        let mut all = Vec::new();
        for (app, subjects) in &here.apps {
            all.extend(subjects.iter().map(|subject| (app.clone(), Arc::clone(subject))));
        }
        all
    }

    /// Whether something is to be passed on.
    pub(crate) fn has_updates(&self) -> bool {
        !self.here().updates.is_empty()
    }

    /// Gives what has changed here to what says it in the log.
    pub(crate) fn pass_on(&self, rooms: &mut Rooms) {
        let mut here = self.here();
        for update in std::mem::take(&mut here.updates) {
            match update {
                HookUpdate::Want(app) => drop(rooms.want(&room_of(&app))),
                HookUpdate::Unwant(app) => rooms.unwant(&room_of(&app)),
                HookUpdate::Change { app, subject, is_there } => {
                    let change = match is_there {
                        true => RoomChange::Joined(None),
                        false => RoomChange::Left,
                    };
                    rooms.update(&room_of(&app), (&*subject).into(), change);
                }
            }
        }
        if std::mem::take(&mut here.is_overrun) {
            here.apps.keys().for_each(|app| rooms.restate(&room_of(app)));
        }
    }

    /// What this node has of an app, for the log. A channel stands before its members.
    pub(crate) fn users(&self, app: &str) -> Vec<RoomUser> {
        let here = self.here();
        let subjects = here.apps.get(app).into_iter().flatten().rev();
        subjects.map(|subject| ((&**subject).into(), None)).collect()
    }

    /// Hands on what the log has said. Waits while much waits.
    pub(crate) async fn tell(&self, step: HookStep) {
        // Nobody takes it any more where the server ends.
        let _ = self.steps.send(step).await;
    }

    /// Each change is whole when the lock is given back.
    fn here(&self) -> MutexGuard<'_, Here> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_is_read_as_it_was_made_and_members_go_before_their_channel() {
        let (channel, member) =
            (channel_subject("presence-a"), member_subject("presence-a", "b/~c"));
        assert_eq!(parse_subject(&channel), Some(("presence-a", None)));
        assert_eq!(parse_subject(&member), Some(("presence-a", Some("b/~c"))));
        assert_eq!(parse_subject("presence-a"), None);
        assert!(member < channel, "in the order in which they are told to be gone");
        assert_eq!(app_of(&room_of("7")), Some("7"));
        assert_eq!((app_of("#c7:a"), app_of("room:7")), (None, None));
    }
}
