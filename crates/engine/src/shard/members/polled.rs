//! Polls that are told who is in rooms.
//!
//! A poll watches its rooms for as long as it waits, as a stream does, and its user is a member of
//! the ids that it is logged in under for as long, and for the grace behind that. It asks with the
//! places where its client stands ([`hub::RoomPlace`]): what was told since then, or whole lists,
//! answers it at once, and so does what changes while it waits. Its answer has the messages before
//! the events, and the places behind them in its head.
//!
//! What does not fit in one answer is left to the next poll, which stands where it stood.
//!
//! Cost: nothing of a poll without rooms. Else some 100 bytes while it waits, and 32 for each room.

use std::sync::Arc;

use hub::{Id, IdText, RoomPlace};
use proto::{Problem, Request, poll};

use super::super::core::{At, Core, Lives};
use crate::conn::state::State;
use crate::limits::EXPRESS_BYTES_MAX;
use crate::said::{RoomText, ToldText};
use crate::sockets::Sockets;

/// What a poll has asked of rooms, and what it is to be told.
#[derive(Debug, Default)]
pub(in super::super) struct Polled {
    rooms: Vec<PolledRoom>,
    /// The places that its client has named, of which the first have found their rooms.
    named: Vec<Option<RoomPlace>>,
    told: Vec<Arc<str>>,
    told_bytes: usize,
    /// It does not wait for what comes: it is answered once all that it has asked is known.
    is_brief: bool,
}

#[derive(Debug)]
struct PolledRoom {
    /// [`Id::NONE`] where there are no members.
    room: Id,
    place: Option<RoomPlace>,
    standing: Standing,
}

/// What a poll has heard of a room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// Nothing yet.
    Asked,
    /// All.
    Heard,
    /// There was no room for what comes next, so it hears nothing more.
    Behind,
}

impl Polled {
    fn of(request: &Request<'_>) -> Polled {
        let named = request.members_after.into_iter().flat_map(|places| places.split('.'));
        let named = named.map(RoomPlace::parse).collect();
        Polled { named, is_brief: request.wait_seconds == 0, ..Polled::default() }
    }

    /// It has asked for one room more.
    pub(super) fn add(&mut self, room: Id) {
        let place = self.named.get(self.rooms.len()).copied().flatten();
        self.rooms.push(PolledRoom { room, place, standing: Standing::Asked });
    }

    /// Where its client stands.
    pub(super) fn place(&self, room: Id) -> Option<RoomPlace> {
        self.rooms.iter().find(|polled| polled.room == room)?.place
    }

    /// Hears what is told of a room, unless more than `most` bytes would wait.
    fn hear(&mut self, room: Id, told: &ToldText, most: usize) {
        let Some(polled) = self.rooms.iter_mut().find(|polled| polled.room == room) else { return };
        if polled.standing == Standing::Behind {
            return;
        }
        if !told.text.is_empty() {
            if !self.told.is_empty() && self.told_bytes + told.text.len() > most {
                polled.standing = Standing::Behind;
                return;
            }
            self.told_bytes += told.text.len() + poll::SEPARATOR.len();
            self.told.push(Arc::clone(&told.text));
        }
        (polled.place, polled.standing) = (told.place, Standing::Heard);
    }

    /// Hears that nobody is in the room `of`, which has no members.
    fn hear_of_nobody(&mut self, of: &str, list: String) {
        self.add(Id::NONE);
        let nobody = RoomPlace::of_nobody(of);
        let Some(polled) = self.rooms.last_mut() else { return };
        if polled.place != Some(nobody) {
            self.told_bytes += list.len() + poll::SEPARATOR.len();
            self.told.push(list.into());
        }
        (polled.place, polled.standing) = (Some(nobody), Standing::Heard);
    }

    fn is_any(&self, standing: Standing) -> bool {
        self.rooms.iter().any(|polled| polled.standing == standing)
    }

    /// Whether it is to be answered: it is told something, and waits for nothing else, or is told
    /// so much that others had to wait with it.
    fn is_told(&self) -> bool {
        let waits = self.is_any(Standing::Asked) && self.told_bytes <= EXPRESS_BYTES_MAX;
        let is_any = self.is_brief || !self.told.is_empty();
        is_any && !waits || self.is_any(Standing::Behind)
    }

    /// The bytes of its messages, and of the comma before the events if there are `events`.
    pub(in super::super) fn len(&self, events: bool) -> usize {
        let last = if events { 0 } else { poll::SEPARATOR.len() };
        self.told_bytes.saturating_sub(last)
    }

    /// Appends that.
    pub(in super::super) fn push(&self, events: bool, out: &mut Vec<u8>) {
        for (n, text) in self.told.iter().enumerate() {
            out.extend_from_slice(text.as_bytes());
            if events || n + 1 < self.told.len() {
                out.extend_from_slice(poll::SEPARATOR);
            }
        }
    }

    /// The places behind it, as the next poll names them; `None` where none is known.
    pub(in super::super) fn places(&self) -> Option<String> {
        let place = |polled: &PolledRoom| polled.place.map(|place| place.to_string());
        let places: Vec<Option<String>> = self.rooms.iter().map(place).collect();
        let is_any = places.iter().any(Option::is_some);
        let places = places.into_iter().map(Option::unwrap_or_default);
        is_any.then(|| places.collect::<Vec<_>>().join("."))
    }
}

impl<S: Sockets> Core<S> {
    /// Has a poll watch the rooms of its request. Whether it waits for what they are.
    pub(in super::super) fn watch_by_poll(
        &mut self,
        at: &At<'_, S::Socket>,
        request: &Request<'_>,
    ) -> Result<bool, Problem> {
        if request.members.is_empty() {
            return Ok(false);
        }
        self.polled.insert(at.slot, Polled::of(request));
        for of in &request.members {
            let room = IdText::parse(of);
            let room = room.map_err(|error| Problem::bad_id(format!("{error}.")))?;
            let list = self.watch(at, room)?;
            if let Some((polled, list)) = self.polled.get_mut(&at.slot).zip(list) {
                polled.hear_of_nobody(of, list);
            }
        }
        let polled = self.polled.get(&at.slot);
        Ok(polled.is_some_and(|polled| polled.is_any(Standing::Asked)))
    }

    /// Something is told of a room that a poll has asked for.
    pub(super) fn poll_hears_of(&mut self, at: &mut At<'_, S::Socket>, text: &RoomText) -> Lives {
        let most = self.config.backlog_bytes_max;
        if matches!(at.conn.state(), State::Poll | State::HeldPoll)
            && let Some(polled) = self.polled.get_mut(&at.slot)
        {
            polled.hear(text.room, &text.told, most);
            if polled.is_told() {
                let is_much = polled.told_bytes > EXPRESS_BYTES_MAX;
                self.queue(at, is_much);
            }
        }
        Ok(())
    }

    /// Whether a poll is to be answered, since it is told something of its rooms.
    pub(in super::super) fn is_poll_told(&self, at: &At<'_, S::Socket>) -> bool {
        self.polled.get(&at.slot).is_some_and(Polled::is_told)
    }

    /// What the poll in `slot` is told of its rooms, which it watches no more.
    pub(in super::super) fn take_polled(&mut self, slot: u32) -> Option<Polled> {
        if self.polled.is_empty() { None } else { self.polled.remove(&slot) }
    }
}
