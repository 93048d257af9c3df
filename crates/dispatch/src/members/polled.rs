//! Polls ask for rooms with the place where their clients stand, and are told what came behind it.
//!
//! What was told is kept in [`hub::ToldRooms`] as long as polls ask for the room: each change and
//! each list that is told goes through here. Nothing is done where nobody polls.

use std::sync::Arc;

use engine::{ToldText, Watch};
use hub::{Id, MemberUpdate, Names, RoomPlace, ToldRooms, ToldSince};

use super::RoomTeller;
use super::shared::Shared;
use super::texts::whole_text;

/// How often it is looked for rooms that nobody polls any more, in milliseconds.
const FORGET_EVERY_MS: u64 = 5_000;

/// What was told of rooms that polls ask for.
pub(super) struct Polled {
    told: ToldRooms,
    /// What they are counted for.
    counted: usize,
    forget_ms: u64,
}

impl Polled {
    pub(super) fn new(names: Arc<Names>) -> Polled {
        Polled { told: ToldRooms::new(names), counted: 0, forget_ms: 0 }
    }

    /// Where those stand who have heard all that was told of `room`, if that is known.
    pub(super) fn place(&self, room: Id) -> Option<RoomPlace> {
        self.told.place(room)
    }
}

impl RoomTeller<'_> {
    /// What a poll is told; `None` where there is no list yet.
    pub(super) fn told_since(&mut self, of: &str, watch: &Watch) -> Option<ToldText> {
        let (room, now_ms) = (watch.room(), self.now_ms());
        if self.shared.as_ref().is_some_and(|shared| !shared.has_list(of)) {
            return None;
        }
        let is_new = self.polled.place(room).is_none();
        // What is said of it by its place is never newer than what is told of it below.
        let list = if is_new { self.members_of(room, of) } else { None };
        self.list.take_if(|_| is_new);
        let told = &mut self.polled.told;
        match told.ask((room, of), watch.after(), now_ms, &mut self.roster, || list)? {
            ToldSince::Changes(text, place) => Some(ToldText { text, place: Some(place) }),
            ToldSince::List(place) => {
                Some(ToldText { text: self.list_given(of)?, place: Some(place) })
            }
        }
    }

    /// A change, as all who watch are told it.
    pub(super) fn change_told(&mut self, update: &MemberUpdate, text: Arc<str>) -> ToldText {
        let place = self.polled.told.changed(update, &text);
        ToldText { text, place }
    }

    /// The list of a room, as all who watch are told it.
    pub(super) fn list_told(&mut self, room: Id, of: &str) -> Option<ToldText> {
        let list = self.members_of(room, of)?;
        let place = self.polled.told.listed(room, &list);
        Some(ToldText { text: whole_text(of, &list), place })
    }

    /// Forgets rooms that nobody polls any more, and says anew what all of them take up.
    pub(super) fn forget_polled(&mut self, now_ms: u64) {
        let Polled { told, counted, forget_ms } = &mut self.polled;
        if told.is_empty() && *counted == 0 || now_ms < *forget_ms {
            return;
        }
        *forget_ms = now_ms + FORGET_EVERY_MS;
        let shared = self.shared.as_ref();
        // What changes in a room that this node does not want is not known here.
        let is_wanted =
            |shared: &Shared, room| shared.has_list(&self.watches.name(room).unwrap_or_default());
        let stays = |room| shared.is_none_or(|shared| is_wanted(shared, room));
        told.forget(now_ms, &mut self.roster, stays);
        let bytes = told.bytes();
        self.watches.members().account(std::mem::replace(counted, bytes), bytes);
    }
}
