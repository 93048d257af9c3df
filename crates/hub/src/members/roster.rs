//! What others are told of who comes and goes: pure state, told the time.
//!
//! There is one roster. It takes what workers have noted, stripe by stripe:
//!
//! | the member | has connections | has none |
//! | --- | --- | --- |
//! | nobody was told of | joined | is taken out |
//! | others were told of | nothing, or joined once more: with another info | waits for its grace |
//! | waits for its grace | waits no more | waits anew: it was there in between |
//!
//! One that was refused after all has no grace ([`Members::leave_at_once`]).
//!
//! Who waits stands in [`Graces`], which has a bound; past that a member leaves at once. Who polls
//! goes with each answer, and has [`POLL_GRACE_MS`] at least to come back. While ids take up more
//! than they may, only those who poll have that time, and [few](POLL_GRACES_PAST_MAX) of them.

mod graces;
mod listeners;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::graces::Graces;
use self::listeners::Listeners;
use super::lists::Listing;
use super::room::AnyRoom;
use super::{Info, ListLimits, Member, MemberList, Members, Membership, STRIPES, lock};
use crate::id::Id;

/// The shortest grace of one who polls, in milliseconds: a slow network takes as long for an answer
/// and the next request. Without one, two who poll would call each other back at full speed.
const POLL_GRACE_MS: u64 = 2_000;

/// How many who poll wait for their grace while ids take up more than they may: their names, of 255
/// bytes at most, take 17 MiB.
const POLL_GRACES_PAST_MAX: usize = 1 << 14;

/// So many places for notes a stripe keeps.
const NOTED_KEPT: usize = 2;

/// What a member takes up in a list beside its id and its info: `{"id":"","info":},`.
const LISTED_BYTES: usize = 18;

/// Something that those who watch a room are to be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberUpdate {
    /// Which room.
    pub room: Id,
    /// Of whom.
    pub sub: Box<str>,
    /// What has happened.
    pub change: MemberChange,
    /// How many are there now.
    pub count: usize,
    /// How it is told.
    pub manner: Manner,
}

/// What has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemberChange {
    /// A user is there, or its info is another one; with that.
    Joined(Option<Info>),
    /// A user is there no more.
    Left,
}

/// How a change is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// As it is.
    Whole,
    /// By the count alone: too many are there.
    Count,
    /// By a list: there were too many, and are no more.
    List,
}

/// Goes through what has changed.
pub struct Roster {
    members: Arc<Members>,
    grace_ms: u64,
    pub(super) graces: Graces,
    /// Those of polls, where these are longer.
    poll_graces: Graces,
    listeners: Listeners,
    noted: Vec<Membership>,
    early: u64,
}

/// What a member is found to be.
enum Standing {
    /// There is nothing to be told.
    There,
    /// It is there, and others do not know.
    New,
    /// It has gone, and others do not know. Perhaps it `polls`.
    Gone { polls: bool },
}

impl Roster {
    /// Of `members`; who has gone is told to have left after `grace_ms`.
    pub fn new(members: Arc<Members>, grace_ms: u64) -> Roster {
        Roster {
            members,
            grace_ms,
            graces: Graces::default(),
            poll_graces: Graces::default(),
            listeners: Listeners::Watchers(HashSet::new()),
            noted: Vec::new(),
            early: 0,
        }
    }

    /// How many stripes there are to be looked at.
    pub const STRIPES: usize = STRIPES;

    /// Whether something has changed since the last time.
    pub fn is_any_noted(&self) -> bool {
        self.members.is_noted.load(Ordering::Relaxed)
            && self.members.is_noted.swap(false, Ordering::Acquire)
    }

    /// Goes through what has changed in the stripe with the number `stripe`. Appends what is to be
    /// told to `updates`. Whether something had changed.
    pub fn look(&mut self, stripe: usize, now_ms: u64, updates: &mut Vec<MemberUpdate>) -> bool {
        let mut noted = std::mem::take(&mut self.noted);
        let at_once = {
            let mut rooms = lock(&self.members.stripes[stripe]);
            noted.append(&mut rooms.noted);
            if rooms.noted.capacity() > NOTED_KEPT {
                rooms.noted = Vec::new();
            }
            std::mem::take(&mut rooms.at_once)
        };
        let is_any = !noted.is_empty();
        for pair in noted.drain(..) {
            match self.members.find(pair) {
                Standing::There => self.end_grace(pair),
                Standing::New => {
                    self.end_grace(pair);
                    self.members.tell_joined(pair, &self.listeners, updates);
                }
                Standing::Gone { polls }
                    if self.grace_ms == 0 && !polls || at_once.contains(&pair) =>
                {
                    self.end_grace(pair);
                    self.members.tell_left(pair, &self.listeners, updates);
                }
                Standing::Gone { polls } => self.wait(pair, polls, now_ms, updates),
            }
        }
        // What one storm has taken is given back, there and here.
        if noted.capacity() <= 4096 {
            self.noted = noted;
        }
        is_any
    }

    /// Goes through what has changed in `room`, and in its stripe, as [`Roster::look`] does.
    pub fn look_at(&mut self, room: Id, now_ms: u64, updates: &mut Vec<MemberUpdate>) -> bool {
        let stripe = super::stripe_of(self.members.keys.hash(room.to_bits()));
        self.look(stripe, now_ms, updates)
    }

    /// Has those leave whose grace is over at `now_ms`, `most` of them. Whether there are more.
    pub fn end_graces(
        &mut self,
        now_ms: u64,
        most: usize,
        updates: &mut Vec<MemberUpdate>,
    ) -> bool {
        for _ in 0..most {
            let over = self.graces.take_over(now_ms);
            let over = over.or_else(|| self.poll_graces.take_over(now_ms));
            let Some(pair) = over else { return false };
            self.members.tell_left(pair, &self.listeners, updates);
        }
        self.graces.is_any_over(now_ms) || self.poll_graces.is_any_over(now_ms)
    }

    /// Who is in a room, as far as others were told: with each of the updates that come behind it,
    /// it is the list that is there then.
    pub fn list(&self, room: Id) -> MemberList {
        let count_of = |room: &dyn AnyRoom| room.counts_alone().then_some(room.told().0);
        self.members.list_of(room, Listing::Infos, count_of, Member::is_told)
    }

    /// How many wait for their grace.
    pub fn waiting(&self) -> usize {
        self.graces.len() + self.poll_graces.len()
    }

    /// How many left without a grace, since too many wait.
    pub fn early(&self) -> u64 {
        self.early
    }

    /// `pair` waits no more, if it did.
    fn end_grace(&mut self, pair: Membership) {
        self.graces.end(pair);
        self.poll_graces.end(pair);
    }

    fn wait(
        &mut self,
        pair: Membership,
        polls: bool,
        now_ms: u64,
        updates: &mut Vec<MemberUpdate>,
    ) {
        // One that waits keeps names, and a connection's first ids are let in past the bound of all
        // ids. So whoever comes and goes under ever new ones past that keeps none, or few.
        let is_past_max = self.members.names.is_over_max();
        // A queue of graces is in the order in which they end.
        let is_of_polls = polls && (is_past_max || self.grace_ms < POLL_GRACE_MS);
        let (graces, others, grace_ms) = match is_of_polls {
            true => (&mut self.poll_graces, &mut self.graces, POLL_GRACE_MS),
            false => (&mut self.graces, &mut self.poll_graces, self.grace_ms),
        };
        others.end(pair);
        let most = match (is_past_max, is_of_polls) {
            (false, _) => usize::MAX,
            (true, true) => POLL_GRACES_PAST_MAX,
            (true, false) => 0,
        };
        if graces.begin(pair, now_ms + grace_ms, most) {
            return;
        }
        graces.end(pair);
        self.early += 1;
        self.members.tell_left(pair, &self.listeners, updates);
    }
}

/// What the roster does in the table.
impl Members {
    /// Looks at a member that was noted.
    fn find(&self, pair: Membership) -> Standing {
        let hash = self.keys.hash(pair.room.to_bits());
        let mut stripe = self.stripe(hash);
        let mut found = stripe.rooms.find(hash, pair.room);
        let member = found.as_mut().and_then(|(found, _)| found.member(pair.sub, &self.keys));
        debug_assert!(member.is_some(), "nobody else takes it out");
        let Some(member) = member else { return Standing::There };
        member.is_noted = false;
        // Who comes back within its grace is told anew then.
        let is_renewed = member.conns > 0 && member.take_renewed();
        match (member.conns > 0, member.is_told()) {
            (true, true) if !is_renewed => Standing::There,
            (true, _) => Standing::New,
            (false, true) => Standing::Gone { polls: member.polls() },
            (false, false) => {
                self.remove(&mut stripe, hash, pair);
                Standing::There
            }
        }
    }

    fn tell_joined(
        &self,
        pair: Membership,
        listeners: &Listeners,
        updates: &mut Vec<MemberUpdate>,
    ) {
        let hash = self.keys.hash(pair.room.to_bits());
        let mut stripe = self.stripe(hash);
        let Some((mut room, infos)) = stripe.rooms.find(hash, pair.room) else { return };
        let Some((_, kept)) = room.find(pair.sub, &self.keys) else { return };
        let (info, text) = (kept.info(infos), self.text(pair.sub));
        let bytes = listed_bytes(&text, info.as_ref().map(Info::json));
        let told = self.told(&mut *room, pair, u16::try_from(bytes).unwrap_or(u16::MAX));
        if listeners.has(self, pair.room) {
            updates.push(update_of(pair.room, text, MemberChange::Joined(info), told));
        }
    }

    /// Unless it has come back meanwhile, which is noted then.
    fn tell_left(&self, pair: Membership, listeners: &Listeners, updates: &mut Vec<MemberUpdate>) {
        let hash = self.keys.hash(pair.room.to_bits());
        let mut stripe = self.stripe(hash);
        let Some((mut room, _)) = stripe.rooms.find(hash, pair.room) else { return };
        let Some(member) = room.member(pair.sub, &self.keys) else { return };
        if member.conns > 0 || !member.is_told() {
            return;
        }
        let (text, is_noted) = (self.text(pair.sub), member.is_noted);
        let told = self.told(&mut *room, pair, 0);
        if !is_noted {
            self.remove(&mut stripe, hash, pair);
        }
        if listeners.has(self, pair.room) {
            updates.push(update_of(pair.room, text, MemberChange::Left, told));
        }
    }

    /// Others are told of a member that it takes up so many bytes of a list. How many are there
    /// then, and how that is told.
    fn told(&self, found: &mut dyn AnyRoom, pair: Membership, bytes: u16) -> (usize, Manner) {
        found.set_told(pair.sub, bytes, &self.keys);
        let ((count, bytes), counted) = (found.told(), found.counts_alone());
        // All members of a channel, which has a bound, are told of.
        let manner = match pair.room.is_key() {
            true => Manner::Whole,
            false => self.limits.manner(counted, count, bytes),
        };
        found.set_counts_alone(manner == Manner::Count);
        (count, manner)
    }

    fn text(&self, sub: Id) -> Box<str> {
        self.names.text(sub).unwrap_or_default().into()
    }
}

impl ListLimits {
    /// How a change is told of a room in which there are `count` users now, who take up so many
    /// [bytes](listed_bytes), and of which only the count was told before if it was `counted`.
    pub fn manner(self, counted: bool, count: usize, bytes: usize) -> Manner {
        // Where a room goes back and forth over its bound, lists are not sent each time.
        let part = if counted { 7 } else { 8 };
        let is_within = count * 8 <= self.members * part && bytes * 8 <= self.bytes * part;
        // One alone is always told of.
        match (counted, count > 1 && !is_within) {
            (_, true) => Manner::Count,
            (true, false) => Manner::List,
            (false, false) => Manner::Whole,
        }
    }
}

fn update_of(room: Id, sub: Box<str>, change: MemberChange, told: (usize, Manner)) -> MemberUpdate {
    let (count, manner) = told;
    MemberUpdate { room, sub, change, count, manner }
}

/// Leaves out what those who are told the rest need not hear: of a room that is too large all
/// counts but the last, and all that happened beside a list, which is of the end of it.
pub fn leave_out(updates: &mut Vec<MemberUpdate>) {
    let (mut lists, mut counts) = (HashMap::new(), HashMap::new());
    for (at, MemberUpdate { room, manner, .. }) in updates.iter().enumerate() {
        match manner {
            Manner::Whole => {}
            Manner::Count => drop(counts.insert(*room, at)),
            Manner::List => drop(lists.insert(*room, at)),
        }
    }
    let mut at = 0;
    updates.retain(|MemberUpdate { room, manner, .. }| {
        let here = at;
        at += 1;
        match lists.get(room) {
            Some(&list) => here == list,
            None => *manner != Manner::Count || counts.get(room) == Some(&here),
        }
    });
}

/// What a member takes up in a list, with its info, one JSON value.
pub fn listed_bytes(id: &str, info: Option<&str>) -> usize {
    let escapes = id.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
    LISTED_BYTES + id.len() + escapes + info.map_or(0, str::len)
}
