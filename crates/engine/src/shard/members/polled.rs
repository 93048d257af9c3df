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

use hub::IdText;
use proto::request::HEAD_BYTES_MAX;
use proto::{Problem, Request};

use super::super::core::{At, Core, Lives};
use super::super::tables::polled::{self, Polled};
use crate::conn::state::State;
use crate::limits::{CLOSE_TO_NOTHING, EXPRESS_BYTES_MAX, WATCHES_PER_CONNECTION_MAX};
use crate::said::RoomText;
use crate::sockets::Sockets;

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
        if request.members.len() > WATCHES_PER_CONNECTION_MAX {
            return Err(Problem::bad_request(format!(
                "A poll is told of at most {WATCHES_PER_CONNECTION_MAX} rooms who is there. Ask \
                 for fewer, or by several polls."
            )));
        }
        // The next one would else be refused by its length, and its client could only begin anew.
        if polled::next_head_len(request) > HEAD_BYTES_MAX {
            return Err(Problem::places_too_long());
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
        Ok(polled.is_some_and(Polled::waits))
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

    /// What the poll in `slot` is to be told of its rooms takes up so much.
    pub(in super::super) fn polled_bytes(&self, slot: u32) -> u32 {
        let polled = if self.polled.is_empty() { None } else { self.polled.get(&slot) };
        let bytes = polled.map_or(0, |polled| polled.told_bytes);
        // A few bytes are not worth a look at the account.
        if bytes < CLOSE_TO_NOTHING { 0 } else { bytes as u32 }
    }
}
