//! Who is in a room over all nodes of a cluster, as far as this node wants to know it.
//!
//! [`cluster::Rooms`] says what each list is and what has changed. Here is what waits for it, and
//! how it becomes what clients are told. A question waits until the list is settled and has all
//! that this node has said before: who asks is in its own list.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use cluster::{Doubt, RoomAction, RoomChange, RoomStep, RoomUser, Rooms};
use engine::Watch;
use hub::{
    Id, IdText, Info, ListLimits, Manner, MemberChange, MemberList, MemberUpdate, Members, Names,
    Roster, listed_bytes,
};
use tokio::sync::oneshot;

use super::subjects::SubjectReader;
use crate::cluster::{RoomFormat, RoomsSay};
use crate::subject_rooms::{SubjectRooms, SubjectStep};

/// Calls of the API that wait for lists; further ones are refused.
const CALLS_MAX: usize = 4096;

/// So many looks in a row at what nobody wants any more: a room that is asked for now and then is
/// not wanted anew each time.
const LOOKS_KEPT: u32 = 2;

/// Somebody who waits for a list.
pub(super) enum ListAsker {
    /// A connection.
    Watch(Watch),
    /// A call of the API.
    Call(oneshot::Sender<Arc<str>>),
}

impl ListAsker {
    /// Whether it waits no more.
    fn is_over(&self) -> bool {
        match self {
            ListAsker::Watch(watch) => !watch.is_waiting(),
            ListAsker::Call(reply) => reply.is_closed(),
        }
    }

    fn is_call(&self) -> bool {
        matches!(self, ListAsker::Call(_))
    }
}

/// What comes out of a step of the log, in this order.
#[derive(Default)]
pub(super) struct StepUpdates {
    /// Rooms whose watchers are to have the whole list.
    pub(super) whole: Vec<Box<str>>,
    /// What has changed in others.
    pub(super) updates: Vec<MemberUpdate>,
    /// Somebody wants to know a room: whoever is there by now is to be told as being there.
    pub(super) listens: bool,
    /// What it says of rooms that stand for something else than users.
    pub(super) of_subjects: Vec<(Arc<SubjectRooms>, SubjectStep)>,
}

/// A room by its text, as nodes tell each other, an id or a key; `None` of what is neither.
pub(super) fn room_text(text: &str) -> Option<IdText<'_>> {
    IdText::of_key(text).ok()
}

/// What this node knows of all rooms.
pub(super) struct Shared {
    rooms: Rooms,
    names: Arc<Names>,
    limits: ListLimits,
    say: RoomsSay,
    /// Whether lists are those of all nodes.
    format: RoomFormat,
    /// Rooms that clients of this node have asked for, and for how many looks nobody wants them.
    asked: HashMap<Box<str>, u32>,
    /// Who waits for lists that are not settled; for what this node has said; and for nothing more.
    unsettled: HashMap<Box<str>, Vec<ListAsker>>,
    behind: VecDeque<(u64, Box<str>, ListAsker)>,
    ready: VecDeque<(Box<str>, ListAsker)>,
    calls: usize,
    /// What all of it is counted for.
    bytes: usize,
    /// Rooms that stand for something else than users, of each kind.
    subjects: Vec<SubjectReader>,
}

impl Shared {
    pub(super) fn new(
        members: &Members,
        names: Arc<Names>,
        grace_ms: u64,
        say: RoomsSay,
    ) -> Shared {
        Shared {
            rooms: Rooms::new(grace_ms, listed_bytes),
            names,
            limits: members.limits(),
            say,
            format: RoomFormat::Unknown,
            asked: HashMap::new(),
            unsettled: HashMap::new(),
            behind: VecDeque::new(),
            ready: VecDeque::new(),
            calls: 0,
            bytes: 0,
            subjects: Vec::new(),
        }
    }

    /// One that also tells of rooms that stand for something else than users.
    pub(super) fn with_subjects(mut self, rooms: Vec<Arc<SubjectRooms>>) -> Shared {
        self.subjects = rooms.into_iter().map(SubjectReader::new).collect();
        self
    }

    pub(super) fn format(&self) -> RoomFormat {
        self.format
    }

    /// What nodes read was found out. Once all read what is said of rooms, it stays so.
    pub(super) fn found(&mut self, format: RoomFormat, roster: &mut Roster) {
        if self.format == RoomFormat::Read {
            return;
        }
        self.format = format;
        if format == RoomFormat::Read {
            roster.share();
            for room in self.asked.keys() {
                self.rooms.want(room);
            }
        } else {
            // All have their lists from this node's own users.
            let waiting = std::mem::take(&mut self.unsettled);
            let of_room = |(room, all): (Box<str>, Vec<ListAsker>)| {
                all.into_iter().map(move |one| (room.clone(), one))
            };
            self.ready.extend(waiting.into_iter().flat_map(of_room));
        }
    }

    /// The log says this.
    pub(super) fn step(&mut self, now_ms: u64, step: RoomStep, roster: &mut Roster) -> StepUpdates {
        // Who has said something of rooms has found out that all read it.
        if matches!(step, RoomStep::Notes { .. }) {
            self.found(RoomFormat::Read, roster);
        }
        self.subjects.iter_mut().for_each(|reader| reader.begin(&step));
        self.rooms.step(now_ms, step);
        let mut told = StepUpdates::default();
        while let Some(action) = self.rooms.next_action() {
            let rooms = &self.rooms;
            if self.subjects.iter_mut().any(|reader| reader.take(&action, rooms)) {
                // Nobody is logged in there.
                continue;
            }
            match action {
                RoomAction::Listen(room) => {
                    room_text(&room).into_iter().for_each(|room| roster.listen(room));
                    told.listens = true;
                }
                RoomAction::Ignore(room) => {
                    room_text(&room).into_iter().for_each(|room| roster.ignore(room));
                }
                RoomAction::Settled(room) => {
                    self.manner(&room);
                    for waiting in self.unsettled.remove(&room).unwrap_or_default() {
                        self.place(&room, waiting);
                    }
                    told.whole.push(room);
                }
                RoomAction::Changed { room, sub, change } => {
                    told.updates.extend(self.update_of(&room, sub, change));
                }
            }
        }
        for reader in &mut self.subjects {
            let step = reader.end(&self.rooms);
            told.of_subjects.extend(step.map(|step| (Arc::clone(reader.rooms()), step)));
        }
        let read = self.rooms.said().1;
        while let Some((_, room, waiting)) = self.behind.pop_front_if(|(said, ..)| *said <= read) {
            self.place(&room, waiting);
        }
        told
    }

    fn update_of(&mut self, room: &str, sub: Box<str>, change: RoomChange) -> Option<MemberUpdate> {
        let (manner, count) = (self.manner(room), self.rooms.list(room)?.len());
        let room = self.id(room)?;
        let change = match change {
            // Members of a channel come and go, and nothing else is told of them.
            RoomChange::Renewed(_) if room.is_key() => return None,
            RoomChange::Joined(info) | RoomChange::Renewed(info) => {
                MemberChange::Joined(info.map(|info| Info::new(&info)))
            }
            RoomChange::Left => MemberChange::Left,
        };
        Some(MemberUpdate { room, sub, change, count, manner })
    }

    /// How a change in the room is told now.
    fn manner(&mut self, room: &str) -> Manner {
        // All members of a channel, which has a bound, are told of.
        if room_text(room).is_none_or(IdText::is_key) {
            return Manner::Whole;
        }
        let Some(list) = self.rooms.list(room) else { return Manner::Whole };
        let manner = self.limits.manner(list.is_counted(), list.len(), list.listed_bytes());
        self.rooms.set_counted(room, manner == Manner::Count);
        manner
    }

    /// The id of a room that somebody keeps here.
    pub(super) fn id(&self, room: &str) -> Option<Id> {
        self.names.lookup(room_text(room)?)
    }

    /// Whether the list is settled, or is that of this node alone.
    pub(super) fn has_list(&self, room: &str) -> bool {
        self.format != RoomFormat::Read || self.rooms.list(room).is_some()
    }

    /// The list, if it is settled.
    pub(super) fn list(&self, room: &str) -> Option<MemberList> {
        let list = self.rooms.list(room)?;
        let member = |(sub, info): (&str, Option<&str>)| (Box::from(sub), info.map(Info::new));
        let members = (!list.is_counted()).then(|| list.members().map(member).collect());
        Some(MemberList { count: list.len(), members })
    }

    /// Whether the channel `room` had as many members as it may have, over all nodes, before the
    /// one came that `watch` becomes.
    pub(super) fn is_full_for(&self, room: &str, watch: &Watch) -> bool {
        let Some((sub, most)) = watch.seat() else { return false };
        let (sub, list) = (self.names.text(sub), self.rooms.list(room));
        sub.zip(list).is_some_and(|(sub, list)| list.is_past(&sub, most))
    }

    /// Whether `watch` came first, perhaps, although the channel is full for it.
    pub(super) fn in_doubt(&self, room: &str, watch: &Watch) -> Option<Doubt> {
        let sub = self.names.text(watch.seat()?.0)?;
        self.rooms.list(room)?.in_doubt(&sub)
    }

    /// Somebody asks for a list. `false` where too many calls wait.
    pub(super) fn ask(&mut self, room: &str, waiting: ListAsker) -> bool {
        if waiting.is_call() && self.calls >= CALLS_MAX {
            return false;
        }
        self.calls += usize::from(waiting.is_call());
        self.asked.insert(room.into(), 0);
        match self.format {
            RoomFormat::Read => drop(self.rooms.want(room)),
            RoomFormat::Unknown | RoomFormat::Missing => self.say.need_format(),
        }
        self.place(room, waiting);
        true
    }

    /// Puts somebody where it waits.
    fn place(&mut self, room: &str, waiting: ListAsker) {
        let (said, read) = self.rooms.said();
        match self.format {
            RoomFormat::Missing => self.ready.push_back((room.into(), waiting)),
            RoomFormat::Read if self.rooms.list(room).is_none() => self.wait(room, waiting),
            RoomFormat::Unknown => self.wait(room, waiting),
            RoomFormat::Read if read < said => self.behind.push_back((said, room.into(), waiting)),
            RoomFormat::Read => self.ready.push_back((room.into(), waiting)),
        }
    }

    fn wait(&mut self, room: &str, waiting: ListAsker) {
        self.unsettled.entry(room.into()).or_default().push(waiting);
    }

    /// Somebody's list is not there any more, since this node has lost its place: it waits again.
    pub(super) fn again(&mut self, room: &str, waiting: ListAsker) {
        self.calls += usize::from(waiting.is_call());
        self.place(room, waiting);
    }

    /// Somebody whose list is there, as far as is known.
    pub(super) fn take_ready(&mut self) -> Option<(Box<str>, ListAsker)> {
        let (room, waiting) = self.ready.pop_front()?;
        self.calls -= usize::from(waiting.is_call());
        Some((room, waiting))
    }

    /// What this node's roster has to tell goes into the log.
    pub(super) fn update(&mut self, update: MemberUpdate) {
        let Some(room) = self.names.text(update.room) else { return };
        let change = match update.change {
            MemberChange::Joined(info) => {
                RoomChange::Joined(info.map(|info| Arc::from(info.json())))
            }
            MemberChange::Left => RoomChange::Left,
        };
        self.rooms.update(&room, update.sub, change);
    }

    /// Gives the node loop what is to be said, and says anew what all of it takes up.
    pub(super) async fn flush(&mut self, now_ms: u64, roster: &Roster, members: &Members) {
        if self.format == RoomFormat::Read {
            self.rooms.tick(now_ms);
            let names = &self.names;
            let subjects = &self.subjects;
            subjects.iter().for_each(|reader| reader.pass_on(&mut self.rooms));
            let users = |room: &str| -> Vec<RoomUser> {
                if let Some(there) = subjects.iter().find_map(|reader| reader.users(room)) {
                    return there;
                }
                let id = room_text(room).and_then(|room| names.lookup(room));
                let info = |info: Option<Info>| info.map(|info| Arc::from(info.json()));
                let all = id.map(|id| roster.all(id)).unwrap_or_default();
                all.into_iter().map(|(sub, of)| (sub, info(of))).collect()
            };
            if let Some((me, notes)) = self.rooms.next_record(users) {
                self.say.say(me, notes).await;
            }
        } else if self.subjects.iter().any(SubjectReader::has_updates) {
            self.say.need_format();
        }
        let bytes = self.rooms.bytes();
        members.account(std::mem::replace(&mut self.bytes, bytes), bytes);
    }

    /// Forgets rooms that nobody here wants any more, and who has waited and does not any more:
    /// how many connections that were.
    pub(super) fn look(&mut self, members: &Members) -> usize {
        let (calls, mut over) = (&mut self.calls, 0);
        let mut is_over = |waiting: &ListAsker| {
            let is_over = waiting.is_over();
            *calls -= usize::from(is_over && waiting.is_call());
            over += usize::from(is_over && !waiting.is_call());
            is_over
        };
        self.unsettled.retain(|_, all| {
            all.retain(|waiting| !is_over(waiting));
            !all.is_empty()
        });
        // While the log cannot be reached they may wait for as long as for one that is unsettled.
        self.behind.retain(|(.., waiting)| !is_over(waiting));
        let (rooms, unsettled) = (&mut self.rooms, &self.unsettled);
        let names = &self.names;
        self.asked.retain(|room, looks| {
            let id = room_text(room).and_then(|room| names.lookup(room));
            let is_watched = id.is_some_and(|id| members.watchers().connections(id) > 0);
            *looks = if is_watched || unsettled.contains_key(room) { 0 } else { *looks + 1 };
            let stays = *looks <= LOOKS_KEPT;
            if !stays {
                rooms.unwant(room);
            }
            stays
        });
        over
    }
}

#[cfg(test)]
mod tests;
