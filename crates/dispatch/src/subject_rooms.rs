//! Rooms of the log in which no users are logged in: what is in them another task knows, and wants
//! to know over all nodes of a cluster. It stands between that task and the one that reads in the
//! log who is in rooms ([`crate::members`]).
//!
//! So webhooks of apps are told over all nodes ([`crate::pusher_hooks`]), and who is subscribed at
//! a hub of the Mercure protocol. A room has [subjects](Subject), as a room of users has those.
//!
//! Cost: a lock, twenty times a second. A subject takes its name here where this node has it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cluster::{RoomChange, RoomUser, Rooms};
use hub::{Key, Space};
use tokio::sync::{mpsc, oneshot};

/// What the log says that the task has not taken yet. Then the one that reads the log waits for it.
const STEPS_WAITING_MAX: usize = 1024;

/// What has changed here and was not passed on yet; of more the whole state is said.
const UPDATES_MAX: usize = 65_536;

/// What is in a room.
pub type Subject = Arc<str>;

/// What is told of a subject.
pub type SubjectInfo = Option<Arc<str>>;

/// What has become of rooms, in the order of the log. A room is called after its app.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SubjectAction {
    /// This node has lost its place, or a part of the log: all lists are settled anew.
    Lost,
    /// Some node wants to know what is in the room, or none any more.
    Heard {
        /// The room.
        app: Box<str>,
        /// Whether one does.
        is_heard: bool,
    },
    /// What is there, over all nodes.
    Settled {
        /// The room.
        app: Box<str>,
        /// All that is in it.
        subjects: Vec<(Subject, SubjectInfo)>,
    },
    /// A subject of a settled list has come or gone, or another thing is told of it.
    Changed {
        /// The room.
        app: Box<str>,
        /// The subject.
        subject: Subject,
        /// What it has become.
        change: RoomChange,
    },
    /// From now on one node is to tell others of the room, if any is.
    First {
        /// The room.
        app: Box<str>,
        /// Which node.
        node: Option<u64>,
        /// Whether it is this one.
        is_me: bool,
        /// Whether this node was the first to ask, of those that want to know.
        asked_first: bool,
    },
}

/// What a step of the log has brought.
#[derive(Debug)]
pub struct SubjectStep {
    /// The epoch of the log.
    pub epoch: u64,
    /// The last record that was read.
    pub sequence: u64,
    /// What has come of it.
    pub actions: Vec<SubjectAction>,
    /// Dropped once this node has said what it has in rooms that are heard from now on: nothing is
    /// said in the log before.
    pub filled: Option<oneshot::Sender<()>>,
}

enum SubjectUpdate {
    Want(Box<str>),
    Unwant(Box<str>),
    Change { app: Box<str>, subject: Subject, change: RoomChange },
}

#[derive(Default)]
struct Here {
    /// What this node has in each room.
    apps: BTreeMap<Box<str>, BTreeMap<Subject, SubjectInfo>>,
    updates: Vec<SubjectUpdate>,
    /// There were more updates than are kept.
    is_overrun: bool,
}

/// What both tasks have of it.
pub struct SubjectRooms {
    space: Space,
    is_filled_late: bool,
    here: Mutex<Here>,
    steps: mpsc::Sender<SubjectStep>,
}

impl SubjectRooms {
    /// Those whose keys are of `space`, of a node that wants nothing yet, and what the log will
    /// say. Where they are filled late, that is when somebody wants to know what is in one.
    pub fn new(space: Space, is_filled_late: bool) -> (SubjectRooms, mpsc::Receiver<SubjectStep>) {
        let (sender, steps) = mpsc::channel(STEPS_WAITING_MAX);
        (SubjectRooms { space, is_filled_late, here: Mutex::default(), steps: sender }, steps)
    }

    /// The room of an app.
    fn room_of(&self, app: &str) -> String {
        Key { space: self.space, app, name: "" }.text()
    }

    /// The app whose room that is; `None` of all other rooms.
    pub(crate) fn app_of<'r>(&self, room: &'r str) -> Option<&'r str> {
        Key::parse(room).filter(|key| key.space == self.space).map(|key| key.app)
    }

    /// This node has something in the room of `app` from now on.
    pub fn open(&self, app: &str) {
        let mut here = self.here();
        if !here.apps.contains_key(app) {
            here.apps.insert(app.into(), BTreeMap::new());
        }
    }

    /// It has nothing there any more, which nobody is told: none hears of it.
    pub fn close(&self, app: &str) {
        self.here().apps.remove(app);
    }

    /// This node wants to know what is in the room.
    pub fn want(&self, app: &str) {
        self.open(app);
        self.here().updates.push(SubjectUpdate::Want(app.into()));
    }

    /// It does not any more, and goes on telling what it has.
    pub fn unwant(&self, app: &str) {
        self.here().updates.push(SubjectUpdate::Unwant(app.into()));
    }

    /// It does not any more, and has nothing there any more.
    pub(crate) fn leave(&self, app: &str) {
        let mut here = self.here();
        let Some(subjects) = here.apps.remove(app) else { return };
        // Others may want to know still.
        let gone = |subject| {
            let change = RoomChange::Left;
            SubjectUpdate::Change { app: app.into(), subject, change }
        };
        here.updates.extend(subjects.into_keys().map(gone));
        here.updates.push(SubjectUpdate::Unwant(app.into()));
    }

    /// A subject of an app is at this node, or is not.
    pub(crate) fn set(&self, app: &str, subject: &Subject, is_there: bool) {
        match is_there {
            true => self.put(app, subject, None),
            false => self.take(app, subject),
        }
    }

    /// A subject is at this node, and this is told of it.
    pub fn put(&self, app: &str, subject: &Subject, info: SubjectInfo) {
        let mut here = self.here();
        let Some(subjects) = here.apps.get_mut(app) else { return };
        if subjects.get(subject) == Some(&info) {
            return;
        }
        let before = subjects.insert(Arc::clone(subject), info.clone());
        let change = match before {
            Some(_) => RoomChange::Renewed(info),
            None => RoomChange::Joined(info),
        };
        here.note(app, subject, change);
    }

    /// A subject is at this node no more.
    pub fn take(&self, app: &str, subject: &Subject) {
        let mut here = self.here();
        let Some(subjects) = here.apps.get_mut(app) else { return };
        if subjects.remove(subject).is_some() {
            here.note(app, subject, RoomChange::Left);
        }
    }

    /// These are at this node, and no others. What is told of those that stay is not changed.
    pub fn replace(&self, app: &str, subjects: BTreeMap<Subject, SubjectInfo>) {
        let mut here = self.here();
        let Some(there) = here.apps.get_mut(app) else { return };
        let before = std::mem::take(there);
        let (stay, gone): (Vec<_>, Vec<_>) =
            before.into_iter().partition(|(subject, _)| subjects.contains_key(subject));
        there.extend(stay);
        let is_new = |(subject, _): &(Subject, SubjectInfo)| !there.contains_key(subject);
        let mut new: Vec<_> = subjects.into_iter().filter(is_new).collect();
        // As [users](SubjectRooms::users) are said.
        new.reverse();
        there.extend(new.iter().cloned());
        for (subject, _) in gone {
            here.note(app, &subject, RoomChange::Left);
        }
        for (subject, info) in new {
            here.note(app, &subject, RoomChange::Joined(info));
        }
    }

    /// All subjects of this node, with their apps.
    pub(crate) fn all(&self) -> Vec<(Box<str>, Subject)> {
        let here = self.here();
        let mut all = Vec::new();
        for (app, subjects) in &here.apps {
            all.extend(subjects.keys().map(|subject| (app.clone(), Arc::clone(subject))));
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
                SubjectUpdate::Want(app) => drop(rooms.want(&self.room_of(&app))),
                SubjectUpdate::Unwant(app) => rooms.unwant(&self.room_of(&app)),
                SubjectUpdate::Change { app, subject, change } => {
                    rooms.update(&self.room_of(&app), (&*subject).into(), change);
                }
            }
        }
        if std::mem::take(&mut here.is_overrun) {
            here.apps.keys().for_each(|app| rooms.restate(&self.room_of(app)));
        }
    }

    /// What this node has in the room of an app, for the log: the last in the order of their bytes
    /// first, as they are told to be gone in that order.
    pub(crate) fn users(&self, app: &str) -> Vec<RoomUser> {
        let here = self.here();
        let subjects = here.apps.get(app).into_iter().flatten().rev();
        subjects.map(|(subject, info)| ((&**subject).into(), info.clone())).collect()
    }

    /// Hands on what the log has said. Waits while much waits.
    pub(crate) async fn tell(&self, mut step: SubjectStep) {
        let is_heard =
            |action: &SubjectAction| matches!(action, SubjectAction::Heard { is_heard: true, .. });
        let is_to_fill = self.is_filled_late && step.actions.iter().any(is_heard);
        let filled = is_to_fill.then(|| {
            let (sender, filled) = oneshot::channel();
            step.filled = Some(sender);
            filled
        });
        // Nobody takes it any more where the server ends.
        let _ = self.steps.send(step).await;
        if let Some(filled) = filled {
            let _ = filled.await;
        }
    }

    /// Each change is whole when the lock is given back.
    fn here(&self) -> MutexGuard<'_, Here> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Here {
    fn note(&mut self, app: &str, subject: &Subject, change: RoomChange) {
        if self.updates.len() >= UPDATES_MAX {
            self.is_overrun = true;
            return;
        }
        let subject = Arc::clone(subject);
        self.updates.push(SubjectUpdate::Change { app: app.into(), subject, change });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_when_all_is_said_anew_has_its_info_and_the_rest_goes() {
        let (rooms, _steps) = SubjectRooms::new(Space::Subscribers, true);
        let [stays, goes, comes]: [Subject; 3] = ["a", "b", "c"].map(Into::into);
        rooms.put("", &stays, Some("1".into()));
        assert_eq!(rooms.users(""), [], "a room that is not open");
        rooms.open("");
        rooms.put("", &stays, Some("1".into()));
        rooms.put("", &goes, None);
        let all = [(Arc::clone(&stays), None), (Arc::clone(&comes), Some("3".into()))];
        rooms.replace("", all.into_iter().collect());
        // So much that only the whole state is said.
        for _ in 0..UPDATES_MAX {
            rooms.put("", &goes, None);
            rooms.take("", &goes);
        }
        let users: [RoomUser; 2] = [("c".into(), Some("3".into())), ("a".into(), Some("1".into()))];
        assert_eq!(rooms.users(""), users);
        assert!(rooms.here().is_overrun);
    }
}
