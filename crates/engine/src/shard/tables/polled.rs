//! What polls have asked of rooms ([`crate::shard::members`]).

use std::sync::Arc;

use hub::{Id, RoomPlace};
use proto::request::MARKED_PLACE_LEN;
use proto::{Request, poll};

use crate::limits::{EXPRESS_BYTES_MAX, WATCHES_PER_CONNECTION_MAX};
use crate::said::ToldText;

/// `&members_after=` and `&after=` with the longest place, as the next poll has them, and how long
/// the place of a room is with the dot between two.
const PLACES_NAME_LEN: usize = 15;
const AFTER_LEN: usize = 7 + MARKED_PLACE_LEN;
const ROOM_PLACE_LEN: usize = 17;

/// How long the head of the next poll is at most, if it differs from this one by its places alone.
pub(in crate::shard) fn next_head_len(request: &Request<'_>) -> usize {
    let has_places = request.members_after.map_or(0, |places| PLACES_NAME_LEN + places.len());
    let has_after = request.cursor.map_or(0, |place| AFTER_LEN - MARKED_PLACE_LEN + place.len());
    let places = PLACES_NAME_LEN + (request.members.len() * ROOM_PLACE_LEN).saturating_sub(1);
    request.head_len + places + AFTER_LEN - has_places - has_after
}

/// What a poll has asked of rooms, and what it is to be told.
#[derive(Debug, Default)]
pub(in crate::shard) struct Polled {
    rooms: Vec<PolledRoom>,
    /// The places that its client has named, of which the first have found their rooms.
    named: Vec<Option<RoomPlace>>,
    told: Vec<Arc<str>>,
    pub(in crate::shard) told_bytes: usize,
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
    pub(in crate::shard) fn of(request: &Request<'_>) -> Polled {
        let places = request.members_after.into_iter().flat_map(|places| places.split('.'));
        let most = request.members.len().min(WATCHES_PER_CONNECTION_MAX);
        let named = places.take(most).map(RoomPlace::parse).collect();
        Polled { named, is_brief: request.wait_seconds == 0, ..Polled::default() }
    }

    /// It has asked for one room more.
    pub(in crate::shard) fn add(&mut self, room: Id) {
        let place = self.named.get(self.rooms.len()).copied().flatten();
        self.rooms.push(PolledRoom { room, place, standing: Standing::Asked });
    }

    /// Where its client stands.
    pub(in crate::shard) fn place(&self, room: Id) -> Option<RoomPlace> {
        self.rooms.iter().find(|polled| polled.room == room)?.place
    }

    /// Hears what is told of a room, unless more than `most` bytes would wait.
    pub(in crate::shard) fn hear(&mut self, room: Id, told: &ToldText, most: usize) {
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
    pub(in crate::shard) fn hear_of_nobody(&mut self, of: &str, list: String) {
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

    /// Whether it waits for what a room is.
    pub(in crate::shard) fn waits(&self) -> bool {
        self.is_any(Standing::Asked)
    }

    /// Whether it is to be answered: it is told something, and waits for nothing else, or is told
    /// so much that others had to wait with it.
    pub(in crate::shard) fn is_told(&self) -> bool {
        let waits = self.waits() && self.told_bytes <= EXPRESS_BYTES_MAX;
        let is_any = self.is_brief || !self.told.is_empty();
        is_any && !waits || self.is_any(Standing::Behind)
    }

    /// The bytes of its messages, and of the comma before the events if there are `events`.
    pub(in crate::shard) fn len(&self, events: bool) -> usize {
        let last = if events { 0 } else { poll::SEPARATOR.len() };
        self.told_bytes.saturating_sub(last)
    }

    /// Appends that.
    pub(in crate::shard) fn push(&self, events: bool, out: &mut Vec<u8>) {
        for (n, text) in self.told.iter().enumerate() {
            out.extend_from_slice(text.as_bytes());
            if events || n + 1 < self.told.len() {
                out.extend_from_slice(poll::SEPARATOR);
            }
        }
    }

    /// The places behind it, as the next poll names them; `None` where none is known.
    pub(in crate::shard) fn places(&self) -> Option<String> {
        let place = |polled: &PolledRoom| polled.place.map(|place| place.to_string());
        let places: Vec<Option<String>> = self.rooms.iter().map(place).collect();
        let is_any = places.iter().any(Option::is_some);
        let places = places.into_iter().map(Option::unwrap_or_default);
        is_any.then(|| places.collect::<Vec<_>>().join("."))
    }
}

#[cfg(test)]
mod tests {
    use proto::request::{Parsed, parse};

    use super::*;

    /// A head of 8 KiB has room for thousands of dots.
    #[test]
    fn places_are_read_for_as_many_rooms_as_are_asked_for() {
        for (rooms, most) in [(1, 1), (3, 3), (200, WATCHES_PER_CONNECTION_MAX)] {
            let (members, dots) = ("&members=a".repeat(rooms), ".".repeat(5_000));
            let head =
                format!("GET /poll/b?x{members}&members_after={dots} HTTP/1.1\r\nHost: a\r\n\r\n");
            let Parsed::Request(request) = parse(head.as_bytes(), 0) else { panic!("{head}") };
            assert_eq!(Polled::of(&request).named.len(), most);
        }
    }
}
