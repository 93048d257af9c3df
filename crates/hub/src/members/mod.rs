//! Who is in a room: which users are logged in under an id, each once, however many connections
//! they have.
//!
//! A user is the subject of a token. Workers write here at login and logout, beside the directory,
//! where streams need tokens. One [`Roster`] on the control plane goes through what they have
//! changed and says what others are to be told. That a user has joined is told at once. That one
//! has left is told once its last connection has been gone for the grace. What was told stands here
//! as well. So the table is the list that others are given, and a change is what makes the list
//! before it the list behind it.
//!
//! No note of a change can be lost. A member that has changed is noted once until it is looked at,
//! and then counts as it is. So there is never more noted than there are members. These are taken
//! out by the roster alone, and keep their names until then.
//!
//! Who watches a room stands in a directory of its own, under the room's id. So nothing that looks
//! for those who are logged in under an id can find one of them.
//!
//! Cost of a member: 37 bytes in a [room] of up to four, 33 at most in a larger one, 27 among
//! many. In a channel of more than three it is 4 bytes less. Its name comes to that, where it is no
//! number and not known anyway. What its token says of it is the token's, as long as the connection
//! keeps that. In a channel nobody else keeps it, and it stands among the [texts](info) of its
//! stripe. A log-in and a log-out cost a lock that is hardly ever taken and one or two look-ups.

mod info;
mod lists;
mod member;
mod room;
mod roster;
mod stripe;
mod table;
#[cfg(test)]
mod tests;
mod told_rooms;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub use self::info::Info;
use self::info::KeptInfo;
use self::member::{Going, Member, Shown};
pub use self::roster::{Manner, MemberChange, MemberUpdate, Roster, leave_out, listed_bytes};
use self::stripe::RoomStripe;
pub use self::told_rooms::{RoomPlace, ToldRooms, ToldSince};
use crate::bucket_table;
use crate::directory::Directory;
use crate::id::Id;
use crate::keys::Keys;
use crate::names::Names;
use crate::texts::Texts;

/// Stripes, so that workers seldom meet at one.
const STRIPES: usize = 256;

/// Those of who watches. Each that has any takes some 100 bytes once: with 256, each of 4,000
/// members took 5 bytes more.
const WATCHER_STRIPES: usize = 64;

/// What the infos of all members together may take up, in bytes.
const INFO_BYTES_MAX: usize = 128 << 20;

/// What a member is counted for with the ids of its connections: 32 bytes in a bucket that is half
/// empty at its worst, and its part of that, or its part of a room of some.
const MEMBER_BYTES: usize = 72;

/// A user, and where it is one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Membership {
    pub(crate) room: Id,
    pub(crate) sub: Id,
}

/// Up to where a list names its members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListLimits {
    /// More members are only counted.
    pub members: usize,
    /// Those of a longer list too, in bytes.
    pub bytes: usize,
}

/// Who is in a room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberList {
    /// How many.
    pub count: usize,
    /// Each of them, by its id, with what is told of it; `None` where there are too many.
    pub members: Option<Vec<ListedMember>>,
}

/// The id of a member, and what is told of it.
pub type ListedMember = (Box<str>, Option<Info>);

/// On a cache line of its own, as the directory's stripes are.
#[derive(Default)]
#[repr(align(64))]
struct LockedRooms(Mutex<RoomStripe>);

/// The members of all ids, shared by all threads.
pub struct Members {
    names: Arc<Names>,
    keys: Keys,
    limits: ListLimits,
    stripes: Box<[LockedRooms]>,
    /// Whether something is noted. Release and acquire: what it says is behind the stripe's lock.
    is_noted: AtomicBool,
    /// Relaxed, both: a bound on memory, and a figure.
    info_bytes: AtomicUsize,
    count: AtomicUsize,
    /// Made for the first who watches.
    watchers: OnceLock<Directory>,
}

impl Members {
    /// None, whose ids are those of `names`.
    pub fn new(names: Arc<Names>, limits: ListLimits) -> Members {
        Members {
            names,
            keys: Keys::random(),
            limits,
            stripes: (0..STRIPES).map(|_| LockedRooms::default()).collect(),
            is_noted: AtomicBool::new(false),
            info_bytes: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            watchers: OnceLock::new(),
        }
    }

    /// The connections that watch, each under the ids of its rooms.
    pub fn watchers(&self) -> &Directory {
        self.watchers.get_or_init(|| Directory::packed(WATCHER_STRIPES))
    }

    /// A connection of `sub` has logged in under the id `room`; somebody keeps both names.
    pub fn join(&self, room: Id, sub: Id, info: Option<&Info>) {
        let shown = Shown { info, most: None, by_poll: false };
        self.change(Membership { room, sub }, |member| member.conns += 1, shown);
    }

    /// Likewise a poll. What is told of a member stays as another of its connections has it: two
    /// that poll with tokens that differ would else call each other back at full speed.
    pub fn join_by_poll(&self, room: Id, sub: Id, info: Option<&Info>) {
        let shown = Shown { info, most: None, by_poll: true };
        self.change(Membership { room, sub }, |member| member.conns += 1, shown);
    }

    /// A connection of `sub` has logged in under `room` unless that has `most` members, one at
    /// least, and `sub` is none of them; whether it has. Who has left counts until its grace is
    /// over, as others see it. What is told of a member stays as its first connection had it.
    pub fn join_within(&self, room: Id, sub: Id, info: Option<&Info>, most: usize) -> bool {
        debug_assert!(most > 0, "the first is let in");
        let shown = Shown { info, most: Some(most), by_poll: false };
        self.change(Membership { room, sub }, |member| member.conns += 1, shown)
    }

    /// A connection of `sub` under the id `room` has shown another token.
    pub fn renew(&self, room: Id, sub: Id, info: Option<&Info>) {
        let shown = Shown { info, most: None, by_poll: false };
        self.change(Membership { room, sub }, |_| {}, shown);
    }

    /// Changes a member, new or known, unless there are too many; whether it has.
    fn change(
        &self,
        pair: Membership,
        change: impl FnOnce(&mut Member),
        Shown { info, most, by_poll }: Shown<'_>,
    ) -> bool {
        let Membership { room, sub } = pair;
        debug_assert!(room != Id::NONE && sub != Id::NONE);
        let hash = self.keys.hash(room.to_bits());
        let mut stripe = self.stripe(hash);
        let RoomStripe { rooms, noted, .. } = &mut *stripe;
        let (is_known, len) = match rooms.find(hash, room) {
            None => (false, 0),
            Some((mut found, _)) => (found.member(sub, &self.keys).is_some(), found.len()),
        };
        if !is_known {
            if most.is_some_and(|most| len >= most) {
                return false;
            }
            if len == 0 {
                self.names.acquire_id(room);
            }
            self.begin_member(sub);
            rooms.insert(hash, room, Member::new(sub), &self.keys);
        }
        let Some((mut found, infos)) = rooms.find(hash, room) else { return false };
        let Some((member, kept)) = found.find(sub, &self.keys) else { return false };
        let before = member.conns;
        change(member);
        let is_new = before == 0 && member.conns > 0;
        let keeps_info = is_known && (most.is_some() || by_poll && before > 0);
        let is_renewed = !keeps_info && self.put_info(kept, infos, info);
        if is_renewed {
            member.renew();
        }
        if is_new || is_renewed {
            self.note(noted, member, pair);
        }
        rooms.close_gaps();
        true
    }

    /// One of the connections of `sub` has logged out.
    pub fn leave(&self, room: Id, sub: Id) {
        self.go(room, sub, Going::Away);
    }

    /// Likewise one that polls, and is likely to come back at once.
    pub fn leave_between_polls(&self, room: Id, sub: Id) {
        self.go(room, sub, Going::BetweenPolls);
    }

    /// Likewise one that was not to be there: if it was the last one, `sub` has no grace.
    pub fn leave_at_once(&self, room: Id, sub: Id) {
        self.go(room, sub, Going::AtOnce);
    }

    fn go(&self, room: Id, sub: Id, going: Going) {
        let hash = self.keys.hash(room.to_bits());
        let mut stripe = self.stripe(hash);
        let RoomStripe { rooms, noted, at_once } = &mut *stripe;
        let mut found = rooms.find(hash, room);
        let member = found.as_mut().and_then(|(found, _)| found.member(sub, &self.keys));
        debug_assert!(member.as_ref().is_some_and(|member| member.conns > 0), "it was there");
        let Some(member) = member else { return };
        member.conns = member.conns.saturating_sub(1);
        if member.conns == 0 {
            member.set_polls(going == Going::BetweenPolls);
            self.note(noted, member, Membership { room, sub });
            if going == Going::AtOnce {
                at_once.insert(Membership { room, sub });
            }
        }
    }

    /// Whether `sub` has a connection in `room` at this moment.
    pub fn has(&self, room: Id, sub: Id) -> bool {
        let hash = self.keys.hash(room.to_bits());
        let mut stripe = self.stripe(hash);
        let pair = Membership { room, sub };
        stripe.rooms.of_member(hash, pair, &self.keys, |member| member.conns > 0) == Some(true)
    }

    /// Whether `sub` is in `room`, or was until its grace ends.
    pub fn knows(&self, room: Id, sub: Id) -> bool {
        let hash = self.keys.hash(room.to_bits());
        let mut stripe = self.stripe(hash);
        stripe.rooms.of_member(hash, Membership { room, sub }, &self.keys, |_| ()).is_some()
    }

    /// What is told of a member beside its id.
    pub fn info(&self, room: Id, sub: Id) -> Option<Info> {
        let hash = self.keys.hash(room.to_bits());
        let mut stripe = self.stripe(hash);
        let (mut found, infos) = stripe.rooms.find(hash, room)?;
        found.find(sub, &self.keys)?.1.info(infos)
    }

    /// Up to where lists name their members.
    pub fn limits(&self) -> ListLimits {
        self.limits
    }

    /// What somebody else keeps of rooms takes up `bytes` now, and took up `before`: it is counted
    /// with the ids of all connections.
    pub fn account(&self, before: usize, bytes: usize) {
        self.names.charge(bytes);
        self.names.discharge(before);
    }

    /// How many users are members of an id, counted once for each id.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether nobody is a member of anything.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that infos take up.
    pub fn info_bytes(&self) -> usize {
        self.info_bytes.load(Ordering::Relaxed)
    }

    /// Gives a member this info, as far as there is room. Whether it has another one now.
    fn put_info(&self, kept: &mut dyn KeptInfo, infos: &mut Texts, info: Option<&Info>) -> bool {
        let json = kept.json(infos);
        if json == info.map(Info::json) {
            return false;
        }
        let cost = |json: Option<&str>| json.map_or(0, |json| kept.cost(json));
        let (before, after) = (cost(json), cost(info.map(Info::json)));
        let fits = self.info_bytes() - before + after <= INFO_BYTES_MAX;
        let (info, after) = if fits { (info, after) } else { (None, 0) };
        if json.is_none() && info.is_none() {
            return false;
        }
        self.info_bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        kept.put(info, infos);
        true
    }

    fn note(&self, noted: &mut Vec<Membership>, member: &mut Member, pair: Membership) {
        if !std::mem::replace(&mut member.is_noted, true) {
            bucket_table::push(noted, pair);
            self.is_noted.store(true, Ordering::Release);
        }
    }

    /// There is a member more: its name is kept, and it is counted.
    fn begin_member(&self, sub: Id) {
        self.names.acquire_id(sub);
        self.names.charge(MEMBER_BYTES);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a member out of whom nobody knows any more.
    fn remove(&self, stripe: &mut RoomStripe, hash: u64, Membership { room, sub }: Membership) {
        let Some((mut found, infos)) = stripe.rooms.find(hash, room) else { return };
        if let Some((member, kept)) = found.find(sub, &self.keys) {
            debug_assert!(member.conns == 0 && !member.is_told() && !member.is_noted);
            self.put_info(kept, infos, None);
        }
        let is_last = stripe.rooms.remove(hash, Membership { room, sub }, &self.keys);
        self.names.release(sub);
        self.names.discharge(MEMBER_BYTES);
        self.count.fetch_sub(1, Ordering::Relaxed);
        if is_last {
            self.names.release(room);
        }
        stripe.rooms.close_gaps();
    }

    fn stripe(&self, hash: u64) -> MutexGuard<'_, RoomStripe> {
        lock(&self.stripes[stripe_of(hash)])
    }
}

/// The table takes its bits from the low end of the hash; the stripe is named by the middle.
fn stripe_of(hash: u64) -> usize {
    (hash >> 32) as usize % STRIPES
}

/// A poisoned stripe is whole: nothing that can panic runs between two halves of a change.
fn lock(stripe: &LockedRooms) -> MutexGuard<'_, RoomStripe> {
    stripe.0.lock().unwrap_or_else(PoisonError::into_inner)
}
