//! Who is in a room, as this shard has it: users come and go with their connections, and
//! connections watch rooms.
//!
//! A connection whose token has a subject makes that one a member of each id that it is logged in
//! under ([`hub::Members`]). Where streams need no tokens there are no subjects, and nothing here
//! costs anything.
//!
//! Cost of a connection that has a subject: 8 bytes beside its record. Of one that watches: see
//! [`crate::watch`].

mod handover;
mod polled;

use std::borrow::Cow;
use std::sync::Arc;

use hub::{Grant, Id, IdText, IdsFull, Info};
use proto::{Format, Problem, Request, members};

use super::core::{At, Core};
use super::tables::watching::Subject;
use super::{Shard, key_of};
use crate::limits::{RETRY_AFTER_SECONDS, WATCHES_PER_CONNECTION_MAX};
use crate::questions::Asker;
use crate::said::{DirectMessage, RoomText};
use crate::sockets::Sockets;
use crate::watch::{RoomQuery, Watch};

impl<S: Sockets> Core<S> {
    /// The subject of its token is from now on a member of all that the connection is logged in
    /// under.
    pub(super) fn join_as(&mut self, at: &At<'_, S::Socket>, subject: &str, info: Option<&Info>) {
        let Some(rooms) = self.rooms.as_ref().filter(|_| self.config.has_members_of_ids()) else {
            return;
        };
        let Ok(subject) = IdText::parse(subject) else { return };
        // It is let in, so it gets a name.
        let Ok(subject) = self.names.login(subject, true) else { return };
        let polls = at.conn.wire.format() == Format::Poll;
        self.ids(at).for_each(|id| match polls {
            true => rooms.members.join_by_poll(id, subject, info),
            false => rooms.members.join(id, subject, info),
        });
        self.subjects.set(at.slot, Subject(subject));
        self.budget.spend_ids(self.ids_len(at));
    }

    /// The connection is logged in under these ids too.
    pub(super) fn join(&self, at: &At<'_, S::Socket>, ids: &[Id]) {
        let Some((rooms, subject)) = self.rooms.as_ref().zip(self.subject(at)) else { return };
        let info = at.conn.grant().and_then(|grant| grant.info());
        ids.iter().for_each(|&id| rooms.members.join(id, subject, info));
    }

    /// The connection is to be logged out of `id`.
    pub(super) fn leave_room(&self, at: &At<'_, S::Socket>, id: Id) {
        if let Some((rooms, subject)) = self.rooms.as_ref().zip(self.subject(at)) {
            match at.conn.wire.format() {
                Format::Poll => rooms.members.leave_between_polls(id, subject),
                _ => rooms.members.leave(id, subject),
            }
        }
    }

    /// The connection goes on with this token, of the same subject as the one before.
    pub(super) fn renew_info(&self, at: &At<'_, S::Socket>, grant: &Grant) {
        let Some((rooms, subject)) = self.rooms.as_ref().zip(self.subject(at)) else { return };
        self.ids(at).for_each(|id| rooms.members.renew(id, subject, grant.info()));
    }

    /// The connection is a member of nothing any more, and watches nothing.
    pub(super) fn forget_rooms(&mut self, at: &At<'_, S::Socket>) {
        drop(self.take_polled(at.slot));
        if self.rooms.is_none() {
            return;
        }
        if let Some(subject) = self.subjects.take(at.slot).id() {
            self.names.logout(subject);
        }
        if !self.watching.is_empty() {
            let rooms = self.watching.take_all(at.slot);
            rooms.iter().for_each(|&room| self.unwatch_room(at, room));
        }
    }

    fn subject(&self, at: &At<'_, S::Socket>) -> Option<Id> {
        self.subjects.get(at.slot).id()
    }

    /// Has the connection watch `room`, and asks for the list. Where there are no members, which is
    /// where streams need no tokens, the list is returned.
    pub(super) fn watch(
        &mut self,
        at: &At<'_, S::Socket>,
        room: IdText<'_>,
    ) -> Result<Option<String>, Problem> {
        let is_kept = room.is_key() || self.config.has_members_of_ids();
        let Some(rooms) = self.rooms.as_ref().filter(|_| is_kept) else {
            return match self.config.tokens {
                Some(_) => Err(Problem::members_off()),
                None => Ok(Some(members::list(&room.to_string(), 0, Some([])))),
            };
        };
        let full = |_| Problem::ids_full(RETRY_AFTER_SECONDS);
        let room = self.names.login(room, false).map_err(full)?;
        if self.watching.has(at.slot, room) {
            self.names.logout(room);
        } else if self.watching.listed(at.slot) >= WATCHES_PER_CONNECTION_MAX {
            self.names.logout(room);
            return Err(Problem::bad_request(format!(
                "A connection is told of at most {WATCHES_PER_CONNECTION_MAX} rooms who is there. \
                 Stop with some first: {{\"unwatch\":\"id\"}}."
            )));
        } else {
            // First of all: what changes from now on comes behind the list, or is in it.
            let me = hub::ConnRef::new(self.worker, at.slot as usize, at.place.generation);
            rooms.members.watchers().login(room, me);
            self.watching.put(at.slot, room, true);
            if let Some(polled) = self.polled.get_mut(&at.slot) {
                polled.add(room);
            }
        }
        self.ask_list(at, room)?;
        Ok(None)
    }

    /// Whether a request may have its stream told who is in the rooms that it names.
    pub(super) fn may_watch(
        &self,
        request: &Request<'_>,
        grant: Option<&Grant>,
    ) -> Result<(), Problem> {
        let Some(grant) = grant else { return Ok(()) };
        match request.members.iter().find(|room| !grant.allows_members(room)) {
            None => Ok(()),
            Some(denied) => {
                self.counters.ids_not_granted.add(1);
                Err(Problem::members_not_granted(denied))
            }
        }
    }

    /// Has the connection watch these rooms. The lists that are known.
    pub(super) fn watch_all(
        &mut self,
        at: &At<'_, S::Socket>,
        rooms: &[Cow<'_, str>],
    ) -> Result<Vec<String>, Problem> {
        let mut lists = Vec::new();
        for room in rooms {
            let room = IdText::parse(room);
            let room = room.map_err(|error| Problem::bad_id(format!("{error}.")))?;
            lists.extend(self.watch(at, room)?);
        }
        Ok(lists)
    }

    /// Asks for the list of a room that the connection watches.
    fn ask_list(&mut self, at: &At<'_, S::Socket>, room: Id) -> Result<(), Problem> {
        let (asker_conn, seat) = (self.conn_ref(at), self.seat_to_be(at, room));
        let Some(rooms) = &self.rooms else { return Ok(()) };
        let watching = &mut self.watching;
        if !watching.has(at.slot, room) || watching.asked(at.slot, room).is_some() {
            return Ok(());
        }
        let problem = if watching.asks_too_often(at.slot) {
            Problem::too_many(
                "The lists that this connection asked for before are not sent yet. Wait for them \
                 before it asks for another one.",
                RETRY_AFTER_SECONDS,
            )
        } else {
            let (client, ticket) = watching.ask(at.slot, room);
            let asker = Asker { conn: asker_conn, client };
            let polled = self.polled.get(&at.slot);
            let wanted =
                polled.map_or(RoomQuery::List, |polled| RoomQuery::Since(polled.place(room)));
            if rooms.questions.push(Watch { asker, room, wanted, seat, _ticket: ticket }) {
                return Ok(());
            }
            Problem::members_busy(RETRY_AFTER_SECONDS)
        };
        self.forget_watched(at, room);
        Err(problem)
    }

    /// The connection watches `room` no more, if it did.
    pub(super) fn unwatch(&mut self, at: &At<'_, S::Socket>, room: IdText<'_>) {
        if let Some(room) = self.names.lookup(room) {
            self.forget_watched(at, room);
        }
    }

    pub(super) fn forget_watched(&mut self, at: &At<'_, S::Socket>, room: Id) {
        if self.watching.take(at.slot, room) {
            self.unwatch_room(at, room);
        }
    }

    fn unwatch_room(&self, at: &At<'_, S::Socket>, room: Id) {
        if let Some(rooms) = &self.rooms {
            rooms.members.watchers().logout(room, self.conn_ref(at));
            self.names.logout(room);
        }
    }

    /// Which of the rooms that the connection watches `grant` does not grant.
    pub(super) fn watched_denied(&self, at: &At<'_, S::Socket>, grant: &Grant) -> Option<String> {
        let mut texts = self.watched_texts(at.slot).into_iter();
        texts.find(|room| !grant.allows_members(room))
    }

    /// Has the connection told what changes in `room`, and no list.
    pub(super) fn watch_changes(
        &mut self,
        at: &At<'_, S::Socket>,
        room: IdText<'_>,
    ) -> Result<(), IdsFull> {
        let Some(rooms) = &self.rooms else { return Ok(()) };
        let room = self.names.login(room, false)?;
        let me = self.conn_ref(at);
        if self.watching.has(at.slot, room) {
            self.names.logout(room);
            return Ok(());
        }
        rooms.members.watchers().login(room, me);
        self.watching.put(at.slot, room, false);
        Ok(())
    }

    /// Asks who is in a room that the connection watches. `false` where too many ask: it is not
    /// watched any more.
    pub(super) fn ask_state(&mut self, at: &At<'_, S::Socket>, room: Id) -> bool {
        self.ask_list(at, room).is_ok()
    }

    /// Asks for all lists that the connection waits for. The problems with those for which there is
    /// no time are put into the buffer for answers.
    pub(super) fn ask_lists(&mut self, at: &mut At<'_, S::Socket>) {
        for room in self.watching.take_waits(at.slot) {
            let text = self.names.text(room).unwrap_or_default();
            if let Err(problem) = self.ask_list(at, room) {
                if room.is_key() {
                    self.refuse_list(at, &text);
                    continue;
                }
                let wire = at.conn.wire;
                let error = proto::websocket::command::members_error(&text, &problem);
                wire.format().push_message(&mut self.answer, wire.carrier(), &error);
            }
        }
    }

    /// Whether the connection in `slot` is to be told what has come of a room: it watches that, and
    /// has the list that is changed.
    fn hears_of(&mut self, slot: u32, text: &RoomText) -> bool {
        if !self.watching.has(slot, text.room) {
            return false;
        }
        match (self.watching.asked(slot, text.room), &text.answers) {
            (Some(asked), Some(asker)) if asker.is(asked) => {
                self.watching.answered(slot, text.room);
            }
            // It was asked before the connection has watched anew, or its answer comes behind this.
            (Some(_), _) | (None, Some(_)) => return false,
            (None, None) => {}
        }
        true
    }
}

impl<S: Sockets> Shard<S> {
    /// Tells those who watch a room who is there, or what has changed.
    pub(super) fn tell_of_room(&mut self, text: &RoomText) {
        for &target in &text.targets {
            let (key, slot) = (key_of(target), target.slot() as u32);
            if self.conns.find(key).is_none() || !self.core.hears_of(slot, text) {
                continue;
            }
            if self.core.pending_gap.is_some() {
                self.tell_first(target);
            }
            self.serve(slot, |core, at| match text.room.is_key() {
                true => core.hear_of_members(at, text),
                false if at.conn.wire.format() == Format::Poll => core.poll_hears_of(at, text),
                false => core.say(at, DirectMessage::Message(Arc::clone(&text.told.text))),
            });
        }
    }
}
