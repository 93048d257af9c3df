//! Who is told who is in a room: the control plane's way to connections that watch one.
//!
//! A connection that wants to know is first put among those who watch the room
//! ([`hub::Members::watchers`]), then its worker asks here for the list. The control plane posts
//! what changes to all who watch, and answers with the list, one after the other. A connection that
//! still waits for its list passes all others over. They were posted before it, so they are in it,
//! and one that answers an earlier question may lack what was told in between. What is posted
//! behind the list comes behind it. So the list and what changes it fit each other.
//!
//! A poll asks with the place where its client stands, and is told what has changed since
//! ([`hub::ToldRooms`]), which may be nothing.
//!
//! A worker whose mailbox is full holds up nobody else: see [`Late`].
//!
//! Cost: nothing where nobody watches. For one who does, a place in a directory and some 15 bytes
//! in its shard, and some 200 more while it waits for a list.

mod followed;
mod late;

use std::sync::Arc;

use hub::{Audience, Id, Members, Names, Need, Nobody, RoomPlace};
use smallvec::SmallVec;
use sync::replies::Replies;

use self::followed::FOLLOWED_WAITING_MAX;
pub use self::followed::FollowedAsk;
pub use self::late::{Late, LateTask};
use crate::limits::WATCHES_WAITING_MAX;
use crate::mailbox::{Mail, Mailbox, Reservation};
use crate::questions::{Asker, Question, QuestionBounds, Questions};
use crate::said::{RoomText, Targets, ToldText};

/// A connection that wants to know who is in a room.
#[derive(Debug)]
pub struct Watch {
    pub(crate) asker: Asker,
    pub(crate) room: Id,
    pub(crate) wanted: RoomQuery,
    /// The member that the connection is to be, of a channel that may have so many.
    pub(crate) seat: Option<(Id, u32)>,
    /// Of the connection: as many as there are of it, so many of its questions are not answered.
    pub(crate) _ticket: Arc<()>,
}

/// What of a room is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RoomQuery {
    /// The list.
    List,
    /// By a poll: what has changed since this place, or the list.
    Since(Option<RoomPlace>),
}

impl Question for Watch {}

impl Watch {
    /// Whether it still waits for the list.
    pub fn is_waiting(&self) -> bool {
        self.asker.is_waiting()
    }

    /// The worker of the connection that asks.
    pub(crate) fn worker(&self) -> usize {
        self.asker.conn().worker()
    }

    /// Whether a poll asks, which is to be told what has changed since its [place](Watch::after).
    pub fn is_poll(&self) -> bool {
        self.wanted != RoomQuery::List
    }

    /// Where its client stands, if that is known.
    pub fn after(&self) -> Option<RoomPlace> {
        match self.wanted {
            RoomQuery::List => None,
            RoomQuery::Since(after) => after,
        }
    }

    /// The member of a channel that the connection becomes with the list, and how many the channel
    /// may have. The member's name is kept as long as the connection waits.
    pub fn seat(&self) -> Option<(Id, usize)> {
        self.seat.map(|(sub, most)| (sub, most as usize))
    }

    /// Which room. Its name is kept as long as the connection waits.
    pub fn room(&self) -> Id {
        self.room
    }
}

/// What all workers share of rooms.
pub(crate) struct Rooms {
    pub(crate) members: Arc<Members>,
    pub(crate) questions: Questions<Watch>,
    /// Users whose watchlists are to be read.
    pub(crate) followed: Questions<FollowedAsk>,
}

impl Rooms {
    pub(crate) fn new(members: Members, replies: Arc<Replies>) -> Rooms {
        let bounds = QuestionBounds { questions: WATCHES_WAITING_MAX, bytes: usize::MAX };
        let questions = Questions::for_task(bounds, Arc::clone(&replies));
        let bounds = QuestionBounds { questions: FOLLOWED_WAITING_MAX, bytes: usize::MAX };
        let followed = Questions::for_task(bounds, replies);
        Rooms { members: Arc::new(members), questions, followed }
    }
}

/// The control plane's end: takes what workers ask, and tells those who watch.
#[derive(Clone)]
pub struct Watches {
    mailboxes: Arc<[Arc<Mailbox>]>,
    names: Arc<Names>,
    rooms: Arc<Rooms>,
}

/// What a step of telling came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TellStep {
    /// Many watch, and others may have their turn before the next step.
    More,
    /// All who watch are told, or will be: those of workers that are [`Late`].
    Done,
}

/// A text on its way to all who watch a room.
pub struct Telling<'w> {
    watches: &'w Watches,
    room: Id,
    told: ToldText,
    audience: Audience,
    is_gathered: bool,
    /// It is for those of one worker alone.
    only: Option<usize>,
}

impl Watches {
    pub(crate) fn new(
        mailboxes: Arc<[Arc<Mailbox>]>,
        names: Arc<Names>,
        rooms: Arc<Rooms>,
    ) -> Watches {
        Watches { mailboxes, names, rooms }
    }

    /// Who is in which room.
    pub fn members(&self) -> &Arc<Members> {
        &self.rooms.members
    }

    /// The name of a room, as long as somebody keeps it.
    pub fn name(&self, room: Id) -> Option<String> {
        self.names.text(room)
    }

    /// The names of rooms and users.
    pub fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// What workers ask: each wants the list of a room. Take them with
    /// [`Questions::take_and_count`], and say when they are [done](Questions::done).
    pub fn questions(&self) -> &Questions<Watch> {
        &self.rooms.questions
    }

    /// Users whose watchlists are whom they follow: each is to be answered by
    /// [`DirectMessage::Followed`](crate::DirectMessage::Followed).
    pub fn followed(&self) -> &Questions<FollowedAsk> {
        &self.rooms.followed
    }

    /// Whether the mailbox of `worker` has room for a text.
    pub fn has_room(&self, worker: usize) -> bool {
        self.mailboxes[worker].reserve(1, 1).is_some()
    }

    /// Answers with what is `told` as it stands behind all that was told before. `false` where the
    /// mailbox is full: it is to be [kept](Late::keep) then.
    #[must_use]
    pub fn answer(&self, watch: &Watch, told: &ToldText) -> bool {
        self.answer_with(watch, told.clone(), false)
    }

    /// Answers that the channel has as many members as it may have, over all nodes of a cluster,
    /// without the one that the connection [would be](Watch::seat). `false` as of
    /// [`Watches::answer`].
    #[must_use]
    pub fn refuse(&self, watch: &Watch) -> bool {
        self.answer_with(watch, ToldText::from(Arc::from("")), true)
    }

    fn answer_with(&self, watch: &Watch, told: ToldText, is_full: bool) -> bool {
        let conn = watch.asker.conn();
        let Some(mut room) = self.mailboxes[conn.worker()].reserve(1, 1) else { return false };
        let (targets, answers) = (Targets::from_slice(&[conn]), Some(watch.asker.clone()));
        let text = RoomText { room: watch.room, told, is_full, answers, targets };
        room.post(Mail::Room(Box::new(text)));
        true
    }

    /// Begins to tell all who watch `room` this text, a whole list or what has changed. Texts come
    /// in the order in which they are told, so each is to be done before the next one.
    pub fn tell(&self, room: Id, told: ToldText) -> Telling<'_> {
        let audience = Audience::of([room], false);
        Telling { watches: self, room, told, audience, is_gathered: false, only: None }
    }

    /// Begins to tell those at `worker`, which was late with `room`, this list.
    pub fn tell_late(&self, worker: usize, room: Id, list: ToldText) -> Telling<'_> {
        Telling { only: Some(worker), ..self.tell(room, list) }
    }
}

impl<'w> Telling<'w> {
    /// Does the next piece of work. Call it until it answers [`TellStep::Done`], not after. Workers
    /// whose mailboxes are full are `late` with the room, and what they are late with is left out.
    pub fn step(&mut self, late: &mut Late) -> TellStep {
        if !self.is_gathered {
            // Nobody is asked who follows whom, so nothing fails.
            let watchers = self.watches.members().watchers();
            if self.audience.gather(watchers, &Nobody).unwrap_or(false) {
                return TellStep::More;
            }
            self.is_gathered = true;
        }
        let mut rooms = self.reserve(late);
        while let Some((worker, targets)) = self.audience.take_group() {
            // Groups come from the last worker to the first.
            while rooms.last().is_some_and(|(other, _)| *other > worker) {
                rooms.pop();
            }
            let Some((_, room)) = rooms.last_mut().filter(|(other, _)| *other == worker) else {
                continue;
            };
            let (told, is_full) = (self.told.clone(), false);
            let text = RoomText { room: self.room, told, is_full, answers: None, targets };
            room.post(Mail::Room(Box::new(text)));
        }
        TellStep::Done
    }

    /// Room in the mailboxes of all workers that are to be told, in their order.
    fn reserve(&self, late: &mut Late) -> SmallVec<[(usize, Reservation<'w>); 4]> {
        let mut rooms = SmallVec::new();
        for Need { worker, groups, targets } in self.audience.needs() {
            let is_other = self.only.is_some_and(|only| only != worker);
            if is_other || late.has(worker, self.room) {
                continue;
            }
            match self.watches.mailboxes[worker].reserve(groups, targets) {
                Some(room) => rooms.push((worker, room)),
                None => late.miss(worker, self.room),
            }
        }
        rooms
    }
}
