//! Who comes to a channel that has as many members as it may have, over all nodes.
//!
//! The log says that a user comes before its node can know whether there is a place. One who is
//! past the bound is *held*: nobody is told of it before its node has let it in, or it has stayed
//! for [`HELD_MS`]. One who is refused leaves long before that, and was never there for others.
//!
//! A user whom another node has, which may have been killed, may stand behind such ones. So it
//! waits as long for the place that it had, and is not refused with them.
//!
//! Cost: nothing but for a channel that is full.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cluster::RoomChange;
use engine::Watch;
use hub::MemberUpdate;

use super::Shared;

/// How long one is held: what is refused leaves within some turns of the log.
const HELD_MS: u64 = 1_000;

/// Users who are held, and those who wait.
#[derive(Default)]
pub(super) struct Held {
    /// Those of each channel, with what is told of each, and when that is told at last.
    rooms: HashMap<Box<str>, BTreeMap<Box<str>, HeldUser>>,
    /// Who waits for the place that it had, until when.
    returning: Vec<(u64, Box<str>, Watch)>,
}

struct HeldUser {
    over_ms: u64,
    info: Option<Arc<str>>,
}

impl Held {
    /// Whether nobody is to be told of `sub`.
    pub(super) fn has(&self, room: &str, sub: &str) -> bool {
        self.rooms.get(room).is_some_and(|users| users.contains_key(sub))
    }

    /// How many are held in `room`.
    pub(super) fn len(&self, room: &str) -> usize {
        self.rooms.get(room).map_or(0, BTreeMap::len)
    }

    /// `room` is told anew.
    pub(super) fn forget(&mut self, room: &str) {
        self.rooms.remove(room);
    }

    /// `sub` is held no more, if it was.
    fn release(&mut self, room: &str, sub: &str) -> Option<HeldUser> {
        let users = self.rooms.get_mut(room)?;
        let released = users.remove(sub);
        if users.is_empty() {
            self.rooms.remove(room);
        }
        released
    }
}

impl Shared {
    /// Whether a change is one of a user who is held, or is from now on.
    pub(super) fn is_held(
        &mut self,
        now_ms: u64,
        (room, sub): (&str, &str),
        change: &RoomChange,
    ) -> bool {
        match change {
            RoomChange::Left => self.held.release(room, sub).is_some(),
            RoomChange::Renewed(_) => self.held.has(room, sub),
            RoomChange::Joined(info) => {
                let list = self.rooms.list(room);
                let bound = self.hooks.as_ref().and_then(|hooks| hooks.members_max(room));
                let is_past = list.zip(bound).is_some_and(|(list, most)| list.is_past(sub, most));
                if is_past {
                    let user = HeldUser { over_ms: now_ms + HELD_MS, info: info.clone() };
                    self.held.rooms.entry(room.into()).or_default().insert(sub.into(), user);
                }
                is_past
            }
        }
    }

    /// The member that `watch` becomes has a place: all are told of it who were not.
    pub(in crate::members) fn let_in(&mut self, room: &str, watch: &Watch) -> Option<MemberUpdate> {
        let (sub, _) = watch.seat().filter(|_| watch.is_waiting())?;
        if self.held.len(room) == 0 || self.is_full_for(room, watch) {
            return None;
        }
        let sub = self.names.text(sub)?;
        let HeldUser { info, .. } = self.held.release(room, &sub)?;
        self.told_of(room, sub.as_str().into(), RoomChange::Joined(info))
    }

    /// Those who have been held for long: they are there.
    pub(in crate::members) fn take_over(&mut self, now_ms: u64) -> Vec<MemberUpdate> {
        let mut over = Vec::new();
        for (room, users) in &mut self.held.rooms {
            let is_over = |_: &Box<str>, user: &mut HeldUser| user.over_ms <= now_ms;
            over.extend(users.extract_if(.., is_over).map(|(sub, user)| (room.clone(), sub, user)));
        }
        self.held.rooms.retain(|_, users| !users.is_empty());
        let told = |(room, sub, HeldUser { info, .. }): (Box<str>, Box<str>, HeldUser)| {
            self.told_of(&room, sub, RoomChange::Joined(info))
        };
        over.into_iter().filter_map(told).collect()
    }

    /// The channel is full for `watch`, which waits if its user was there before at another node.
    /// Given back, it is to be refused.
    pub(in crate::members) fn put_off(
        &mut self,
        now_ms: u64,
        room: &str,
        watch: Watch,
    ) -> Option<Watch> {
        let sub = watch.seat().and_then(|(sub, _)| self.names.text(sub));
        let list = self.rooms.list(room);
        if !list.zip(sub).is_some_and(|(list, sub)| list.is_shared(&sub)) {
            return Some(watch);
        }
        self.held.returning.push((now_ms + HELD_MS, room.into(), watch));
        None
    }

    /// Those of them who have a place now, have gone, or have waited for long.
    pub(in crate::members) fn take_returned(&mut self, now_ms: u64) -> Vec<(Box<str>, Watch)> {
        let mut returning = std::mem::take(&mut self.held.returning);
        let is_over = |(over_ms, room, watch): &mut (u64, Box<str>, Watch)| {
            *over_ms <= now_ms || !watch.is_waiting() || !self.is_full_for(room, watch)
        };
        let over = returning.extract_if(.., is_over).map(|(_, room, watch)| (room, watch));
        let over = over.collect();
        self.held.returning = returning;
        over
    }
}
