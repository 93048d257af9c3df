//! Presence channels: a connection takes a seat as a member, and hears the list before anything
//! else of the channel.
//!
//! A channel is a room ([`hub::Members`]), its members are users by [keys](hub::Key) of their own.
//! Who subscribes is made a member, watches the room, and asks for the list. As long as that has
//! not come the connection is not logged in under the channel's key. So no event comes before the
//! list, and none that is posted behind it is missed.
//!
//! The bound of a channel holds twice: for the members of this server when the seat is taken, and
//! for those of all nodes of a cluster when the list has come, which is where the log says who was
//! first. Nobody is a member for the app's webhooks before that, and who goes before that leaves at
//! once, the first time: a place is kept for a grace after members alone.
//!
//! Cost of a seat: 23 bytes here with that it watches, a watcher's place in a directory
//! ([`crate::watch`]), and a member's place.

use std::sync::Arc;

use hub::{Id, IdText, Info, Key, Members, Space};
use pusher::{App, Member, SubscriptionRefusal, server_frame};

use super::super::core::{At, Core, Lives};
use super::super::tables::seats::Seat;
use crate::channel_notes::ChannelChange;
use crate::channels::channel_name;
use crate::said::{DirectMessage, RoomText};
use crate::sockets::Sockets;

/// The key of a user as a member of channels.
pub(super) fn member_key(user_id: &str) -> String {
    Key { space: Space::Member, app: "", name: user_id }.text()
}

impl<S: Sockets> Core<S> {
    /// Makes the connection a member of a channel, unless it is, and asks for the list: the answer.
    pub(super) fn take_seat(
        &mut self,
        at: &mut At<'_, S::Socket>,
        app: &App,
        key: IdText<'_>,
        member: &Member,
    ) -> Result<(), SubscriptionRefusal> {
        let Some(rooms) = self.rooms.clone() else { return Err(SubscriptionRefusal::TooMany) };
        self.budget.spend_ids(4);
        let known = self.names.lookup(key);
        let is_seated = known.is_some_and(|room| self.watching.seats.find(at.slot, room).is_some());
        if !is_seated {
            let sub = member_key(&member.id);
            let sub = IdText::of_key(&sub).map_err(|_| SubscriptionRefusal::TooMany)?;
            let full = |_| SubscriptionRefusal::TooMany;
            let sub = self.names.login(sub, false).map_err(full)?;
            let room = self.names.login(key, false);
            let room = room.inspect_err(|_| self.names.logout(sub)).map_err(full)?;
            let info = member.info.as_ref().map(|info| Info::new(info.get()));
            let most = app.members_max as usize;
            let is_hasty = self.watching.seats.is_hasty(at.slot);
            let is_unseen = !is_hasty && !rooms.members.knows(room, sub);
            if !rooms.members.join_within(room, sub, info.as_ref(), most) {
                self.names.logout(sub);
                self.names.logout(room);
                return Err(SubscriptionRefusal::Full);
            }
            self.watching.seats.put(at.slot, Seat { room, sub, is_unseen });
        }
        if self.watch(at, key).is_err() {
            self.leave_channel(at, key);
            return Err(SubscriptionRefusal::TooMany);
        }
        Ok(())
    }

    /// The member that the connection becomes once it has the list of `room`, and how many that may
    /// have: others may have been first at other nodes.
    pub(in super::super) fn seat_to_be(
        &mut self,
        at: &At<'_, S::Socket>,
        room: Id,
    ) -> Option<(Id, u32)> {
        let seat = self.watching.seats.find(at.slot, room)?;
        let is_in = self.has_id(at, room);
        self.app(at).filter(|_| !is_in).map(|app| (seat.sub, app.members_max))
    }

    /// The connection is subscribed to the channel no more, and no member of it.
    pub(super) fn leave_channel(&mut self, at: &mut At<'_, S::Socket>, key: IdText<'_>) {
        self.end_channel(at, key, Members::leave);
    }

    fn end_channel(
        &mut self,
        at: &mut At<'_, S::Socket>,
        key: IdText<'_>,
        leave: fn(&Members, Id, Id),
    ) {
        let Some(id) = self.names.lookup(key) else { return };
        let (seat, is_in) = (self.watching.seats.find(at.slot, id), self.has_id(at, id));
        let notes = self.note_leaving(at, id, (is_in, seat));
        let text = key.to_string();
        self.leave_graph(at, &text);
        self.channels.missed.forget(at.slot, &text);
        self.channels.fresh.forget_channel(at.slot, &text);
        self.logout(at, &[key]);
        self.leave_seat(at, id, leave);
        self.put_notes(notes);
        // Others may have waited for what was asked for this one.
        self.ask_missed(at);
    }

    /// The connection is no member of the channel any more, and hears nothing of its members.
    fn leave_seat(&mut self, at: &At<'_, S::Socket>, room: Id, leave: fn(&Members, Id, Id)) {
        let Some(seat) = self.watching.seats.take(at.slot, room) else { return };
        if let Some(rooms) = &self.rooms {
            let leave = if seat.is_unseen { Members::leave_at_once } else { leave };
            leave(&rooms.members, seat.room, seat.sub);
        }
        self.forget_watched(at, room);
        self.names.logout(seat.sub);
        self.names.logout(seat.room);
    }

    /// The connection leaves all its seats. That it watches those channels is forgotten with all
    /// else that it watches.
    pub(super) fn leave_seats(&mut self, at: &At<'_, S::Socket>) {
        let seats = self.watching.seats.take_all(at.slot);
        self.budget.spend_ids(seats.len());
        for Seat { room, sub, is_unseen } in seats {
            if let Some(rooms) = &self.rooms {
                match is_unseen {
                    true => rooms.members.leave_at_once(room, sub),
                    false => rooms.members.leave(room, sub),
                }
            }
            self.names.logout(sub);
            self.names.logout(room);
        }
    }

    /// The list of a presence channel has come, or a change of it. With the list the connection is
    /// logged in: events of the channel come behind it.
    pub(in super::super) fn hear_of_members(
        &mut self,
        at: &mut At<'_, S::Socket>,
        text: &RoomText,
    ) -> Lives {
        // What is watched keeps the name, as does a seat.
        let key = text.answers.as_ref().and_then(|_| self.names.text(text.room));
        let is_user = |key: &Key<'_>| key.space == Space::SignedIn;
        let key = key.filter(|key| !Key::parse(key).as_ref().is_some_and(is_user));
        if let (Some(key), true) = (&key, text.is_full) {
            self.refuse_seat(at, key, SubscriptionRefusal::Full);
            return self.put_answer(at);
        }
        if let (Some(key), true) = (key, at.conn.state().hears()) {
            let (key_text, newest) = (IdText::of_key(&key), self.event_ids.last());
            let login = key_text.map(|key| self.login(at, &[key], None).ok());
            let Ok(Some(new)) = login else {
                self.refuse_list(at, &key);
                return self.put_answer(at);
            };
            if new > 0 {
                self.watching.seats.let_in(at.slot, text.room);
                let seat = self.watching.seats.find(at.slot, text.room);
                let member = seat.map(|seat| (text.room, seat.sub));
                for of in member.into_iter().chain([(text.room, Id::NONE)]) {
                    self.note(at, of, ChannelChange::Came);
                }
            }
            if let (Ok(key), true) = (key_text, new > 0) {
                self.say(at, DirectMessage::Message(Arc::clone(&text.told.text)))?;
                self.say_behind_success(at, key, newest);
                return self.put_answer(at);
            }
        }
        self.say(at, DirectMessage::Message(Arc::clone(&text.told.text)))
    }

    /// The connection cannot be told who is in a channel, so it is not in there.
    pub(in super::super) fn refuse_list(&mut self, at: &mut At<'_, S::Socket>, key: &str) {
        self.refuse_seat(at, key, SubscriptionRefusal::TooMany);
    }

    /// The connection is let go of that has taken a seat, and is told why.
    fn refuse_seat(&mut self, at: &mut At<'_, S::Socket>, key: &str, refused: SubscriptionRefusal) {
        let Some(channel) = channel_name(key) else { return };
        if let Ok(text) = IdText::of_key(key) {
            self.end_channel(at, text, Members::leave_at_once);
        }
        self.say_frame(&server_frame::subscription_error(&channel, refused));
    }
}
