//! What was told of rooms that polls ask for, so that each poll goes on where the one before ended.
//!
//! Between two polls a client hears nothing, and the next one may come to another worker, another
//! process or another node. So its place says what its list is, and nothing of who told it: a
//! [`RoomPlace`] is a digest of the room's name and of each member with its info. Wherever the same
//! list was told of late, the changes behind it are known, and they are what makes of it the list
//! of now. Elsewhere the list is told anew. Where a list came back to what it was, there is nothing
//! to be told of what happened meanwhile.
//!
//! A room is kept from a poll on, and for [`KEPT_MS`] after the last one, or for as long as one
//! waits if nobody is there. Of a room that is not kept, since there is no room for more, polls are
//! told whole lists, and nothing where theirs is the list of now.
//!
//! Cost: nothing where nobody polls. Of a room some 24 bytes for each member, and what was told
//! of late, [`ROOM_BYTES_MAX`] at most; [`ALL_BYTES_MAX`] for all.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hasher as _;
use std::sync::Arc;

use siphasher::sip::SipHasher24;

use super::{Info, Manner, MemberChange, MemberList, MemberUpdate, Roster};
use crate::id::{Id, IdText};
use crate::names::Names;

/// How long a room is kept after the last poll has asked, in milliseconds: the longest wait of a
/// poll, and as much again.
const KEPT_MS: u64 = 120_000;

/// The changes of one room that are kept. A list is hardly longer.
const ROOM_CHANGES_MAX: usize = 256;
const ROOM_BYTES_MAX: usize = 32 << 10;

/// What all rooms together may take up.
const ALL_BYTES_MAX: usize = 32 << 20;

/// What a room, a member and a change take up beside their texts.
const ROOM_COST: usize = 256;
const MEMBER_COST: usize = 24;
const CHANGE_COST: usize = 48;

/// What a poll puts between two messages.
const SEPARATOR: &str = ",\n";

/// What somebody knows of a room: a digest of its list, or of its count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoomPlace(u64);

impl RoomPlace {
    /// Of one who was told this list of the room `of`.
    pub fn of(of: &str, list: &MemberList) -> RoomPlace {
        Known::of(list).place(seed(of))
    }

    /// Of one who was told that nobody is in the room `of`.
    pub fn of_nobody(of: &str) -> RoomPlace {
        RoomPlace::of(of, &MemberList { count: 0, members: Some(Vec::new()) })
    }

    /// Reads what [`Display`](fmt::Display) writes: 16 digits.
    pub fn parse(text: &str) -> Option<RoomPlace> {
        let is_written = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_written.then(|| u64::from_str_radix(text, 16).ok().map(RoomPlace)).flatten()
    }
}

impl fmt::Display for RoomPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

/// What one is to be told who asks with a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToldSince {
    /// Nothing, or these messages, after which it stands there.
    Changes(Arc<str>, RoomPlace),
    /// The list as it is told now, after which it stands there.
    List(RoomPlace),
}

/// The rooms that polls have asked for of late.
pub struct ToldRooms {
    names: Arc<Names>,
    rooms: HashMap<Id, ToldRoom>,
    bytes: usize,
    nothing: Arc<str>,
}

#[derive(Debug)]
struct ToldRoom {
    seed: u64,
    known: Known,
    /// Where one stands who has heard none of the changes.
    first: RoomPlace,
    /// What was told, and where one stands who has heard it.
    changes: VecDeque<(Arc<str>, RoomPlace)>,
    changes_bytes: usize,
    asked_ms: u64,
}

/// What one knows who has heard everything.
#[derive(Debug)]
enum Known {
    /// Each member with its info, by the hash of its id; and the sum of all.
    Members(HashMap<u64, u64>, u64),
    /// How many there are.
    Count(usize),
}

impl ToldRooms {
    /// None yet; their names are kept in `names`.
    pub fn new(names: Arc<Names>) -> ToldRooms {
        ToldRooms { names, rooms: HashMap::new(), bytes: 0, nothing: "".into() }
    }

    /// Somebody polls `room` with a place `after`, or without one. `list` makes the list as it is
    /// told now, behind all that was told before; `None` where there is none yet. Who polls may
    /// have gone meanwhile, and the room's name with it.
    pub fn ask(
        &mut self,
        (room, of): (Id, &str),
        after: Option<RoomPlace>,
        now_ms: u64,
        roster: &mut Roster,
        list: impl FnOnce() -> Option<MemberList>,
    ) -> Option<ToldSince> {
        if let Some(told) = self.rooms.get_mut(&room) {
            told.asked_ms = now_ms;
            return Some(told.since(after, &self.nothing));
        }
        let told = ToldRoom::new(of, &list()?, now_ms);
        let since = told.since(after, &self.nothing);
        let bytes = told.bytes();
        let has_room = self.bytes + bytes <= ALL_BYTES_MAX && !self.names.is_over_max();
        if has_room && self.keep_name(room, of) {
            self.bytes += bytes;
            roster.follow(room);
            self.rooms.insert(room, told);
        }
        Some(since)
    }

    /// Keeps the name of `room`, unless its last user has gone meanwhile: then it has no id any
    /// more, or another one.
    fn keep_name(&self, room: Id, of: &str) -> bool {
        let Ok(text) = IdText::of_key(of) else { return false };
        let kept = self.names.acquire(text);
        if kept != room {
            self.names.release(kept);
        }
        kept == room
    }

    /// All who watch are told this change by `text`. Where they stand then, if that is known.
    pub fn changed(&mut self, update: &MemberUpdate, text: &Arc<str>) -> Option<RoomPlace> {
        let has_room = self.bytes <= ALL_BYTES_MAX;
        let told = self.rooms.get_mut(&update.room)?;
        let before = told.bytes();
        told.change(update, text, has_room);
        let place = told.known.place(told.seed);
        self.bytes = self.bytes + told.bytes() - before;
        Some(place)
    }

    /// All who watch `room` are told this list. Where they stand then, if that is known.
    pub fn listed(&mut self, room: Id, list: &MemberList) -> Option<RoomPlace> {
        let told = self.rooms.get_mut(&room)?;
        let before = told.bytes();
        told.known = Known::of(list);
        told.begin_here();
        self.bytes = self.bytes + told.bytes() - before;
        Some(told.first)
    }

    /// Where those stand who have heard all that was told of `room`, if that is known.
    pub fn place(&self, room: Id) -> Option<RoomPlace> {
        self.rooms.get(&room).map(|told| told.known.place(told.seed))
    }

    /// Keeps of all rooms those alone that somebody has asked for of late, and that `stay`. A room
    /// in which nobody is stays as long as somebody watches it: between two polls there is nothing
    /// that a list does not tell as shortly.
    pub fn forget(&mut self, now_ms: u64, roster: &mut Roster, stay: impl Fn(Id) -> bool) {
        let (names, bytes) = (&self.names, &mut self.bytes);
        self.rooms.retain(|&room, told| {
            let is_of_use = !told.known.is_of_nobody() || roster.is_watched(room);
            let stays = now_ms < told.asked_ms + KEPT_MS && is_of_use && stay(room);
            if !stays {
                *bytes -= told.bytes();
                roster.follow_no_more(room);
                names.release(room);
            }
            stays
        });
    }

    /// What they take up, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rooms.is_empty()
    }
}

impl ToldRoom {
    fn new(of: &str, list: &MemberList, asked_ms: u64) -> ToldRoom {
        let (seed, known) = (seed(of), Known::of(list));
        let first = known.place(seed);
        ToldRoom { seed, known, first, changes: VecDeque::new(), changes_bytes: 0, asked_ms }
    }

    fn since(&self, after: Option<RoomPlace>, nothing: &Arc<str>) -> ToldSince {
        let now = self.known.place(self.seed);
        let Some(after) = after else { return ToldSince::List(now) };
        if after == now {
            return ToldSince::Changes(Arc::clone(nothing), now);
        }
        // The last time that it stood there: what came before that made nothing of nothing.
        let heard = self.changes.iter().rposition(|(_, place)| *place == after);
        let heard = heard.map(|at| at + 1).or((after == self.first).then_some(0));
        let Some(heard) = heard else { return ToldSince::List(now) };
        let texts: Vec<&str> = self.changes.range(heard..).map(|(text, _)| &**text).collect();
        ToldSince::Changes(texts.join(SEPARATOR).into(), now)
    }

    fn change(&mut self, update: &MemberUpdate, text: &Arc<str>, has_room: bool) {
        let MemberUpdate { sub, change, count, manner, .. } = update;
        let Known::Members(members, sum) = &mut self.known else {
            self.known = Known::Count(*count);
            return self.begin_here();
        };
        if *manner != Manner::Whole {
            self.known = Known::Count(*count);
            return self.begin_here();
        }
        let id = hash_of(&[sub.as_bytes()]);
        let (before, now) = match change {
            MemberChange::Joined(info) => {
                let now = member_hash(sub, info.as_ref());
                (members.insert(id, now), now)
            }
            MemberChange::Left => (members.remove(&id), 0),
        };
        *sum = sum.wrapping_add(now).wrapping_sub(before.unwrap_or_default());
        let place = self.known.place(self.seed);
        self.changes_bytes += text.len() + CHANGE_COST;
        self.changes.push_back((Arc::clone(text), place));
        if !has_room {
            return self.begin_here();
        }
        while self.changes.len() > ROOM_CHANGES_MAX || self.changes_bytes > ROOM_BYTES_MAX {
            let Some((text, place)) = self.changes.pop_front() else { break };
            self.changes_bytes -= text.len() + CHANGE_COST;
            self.first = place;
        }
    }

    /// No change is known that came before.
    fn begin_here(&mut self) {
        self.first = self.known.place(self.seed);
        self.changes = VecDeque::new();
        self.changes_bytes = 0;
    }

    fn bytes(&self) -> usize {
        let members = match &self.known {
            Known::Members(members, _) => members.capacity() * MEMBER_COST,
            Known::Count(_) => 0,
        };
        ROOM_COST + members + self.changes_bytes
    }
}

impl Known {
    fn of(list: &MemberList) -> Known {
        let Some(members) = &list.members else { return Known::Count(list.count) };
        let hashes = members
            .iter()
            .map(|(id, info)| (hash_of(&[id.as_bytes()]), member_hash(id, info.as_ref())));
        let hashes: HashMap<u64, u64> = hashes.collect();
        let sum = hashes.values().fold(0, |sum: u64, hash| sum.wrapping_add(*hash));
        Known::Members(hashes, sum)
    }

    fn is_of_nobody(&self) -> bool {
        matches!(self, Known::Members(members, _) if members.is_empty())
    }

    fn place(&self, seed: u64) -> RoomPlace {
        RoomPlace(match self {
            Known::Members(_, sum) => seed.wrapping_add(*sum),
            Known::Count(count) => hash_of(&[&seed.to_le_bytes(), &(*count as u64).to_le_bytes()]),
        })
    }
}

fn seed(of: &str) -> u64 {
    hash_of(&[b"room", of.as_bytes()])
}

fn member_hash(id: &str, info: Option<&Info>) -> u64 {
    match info {
        Some(info) => hash_of(&[id.as_bytes(), info.json().as_bytes()]),
        None => hash_of(&[id.as_bytes()]),
    }
}

/// By a fixed key, so that all nodes come to the same, whatever built them.
fn hash_of(parts: &[&[u8]]) -> u64 {
    let mut hasher = SipHasher24::new();
    for part in parts {
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part);
    }
    hasher.finish()
}
