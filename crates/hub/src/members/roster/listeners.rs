//! Of which rooms it is told who comes and goes: those that somebody watches here, or those that
//! some node of a cluster wants to know of.

use std::collections::HashSet;

use super::Roster;
use crate::id::{Id, IdText};
use crate::members::lists::Listing;
use crate::members::member::Member;
use crate::members::{ListedMember, Members};

/// Which rooms are listened to.
pub(super) enum Listeners {
    /// Those that a connection watches, and these, which polls ask for now and then.
    Watchers(HashSet<Id>),
    /// These. Their names are kept.
    Rooms(HashSet<Id>),
}

impl Listeners {
    pub(super) fn has(&self, members: &Members, room: Id) -> bool {
        match self {
            Listeners::Watchers(followed) => members.is_watched(room) || followed.contains(&room),
            Listeners::Rooms(rooms) => rooms.contains(&room),
        }
    }
}

impl Members {
    /// Whether a connection watches `room`.
    fn is_watched(&self, room: Id) -> bool {
        self.watchers.get().is_some_and(|watchers| watchers.connections(room) > 0)
    }
}

impl Roster {
    /// Whether a connection watches `room`.
    pub(in crate::members) fn is_watched(&self, room: Id) -> bool {
        self.members.is_watched(room)
    }

    /// From now on it tells of those rooms that it is made to [listen to](Roster::listen), whoever
    /// watches here.
    pub fn share(&mut self) {
        if matches!(self.listeners, Listeners::Watchers(_)) {
            self.listeners = Listeners::Rooms(HashSet::new());
        }
    }

    /// Tells who comes and goes in `room`, also while nobody watches it, unless it
    /// [shares](Roster::share). Somebody keeps its name.
    pub(in crate::members) fn follow(&mut self, room: Id) {
        if let Listeners::Watchers(followed) = &mut self.listeners {
            followed.insert(room);
        }
    }

    /// Tells of `room` no more while nobody watches it.
    pub(in crate::members) fn follow_no_more(&mut self, room: Id) {
        if let Listeners::Watchers(followed) = &mut self.listeners {
            followed.remove(&room);
        }
    }

    /// Tells who comes and goes in `room`, if it [shares](Roster::share).
    pub fn listen(&mut self, room: IdText<'_>) {
        let Listeners::Rooms(rooms) = &mut self.listeners else { return };
        let id = self.members.names.acquire(room);
        if !rooms.insert(id) {
            self.members.names.release(id);
        }
    }

    /// Tells of `room` no more.
    pub fn ignore(&mut self, room: IdText<'_>) {
        let Listeners::Rooms(rooms) = &mut self.listeners else { return };
        if let Some(id) = self.members.names.lookup(room)
            && rooms.remove(&id)
        {
            self.members.names.release(id);
        }
    }

    /// All who are in a room, however many, as far as others were told.
    pub fn all(&self, room: Id) -> Vec<ListedMember> {
        let list = self.members.list_of(room, Listing::Infos, |_| None, Member::is_told);
        list.members.unwrap_or_default()
    }
}
