//! Tells connections who is in the rooms that they watch, and who comes and goes there.
//!
//! [`hub::Roster`] says what is to be told. Here is what drives it: one task, which looks twenty
//! times a second what has changed, and at once when a worker asks for a list. It tells one thing
//! after the other, so that each list and what is told behind it fit each other
//! ([`engine::Watches`]).
//!
//! In a cluster what the roster says goes into the log instead, and what the log brings back is
//! what is told (`shared.rs`). After an upgrade all who watch are told whole lists. Polls are told
//! what has changed since the one before (`polled.rs`).
//!
//! Cost while nothing changes: a load, twenty times a second. A change that nobody watches costs
//! two look-ups.

mod answers;
mod doubtful;
mod inputs;
mod polled;
mod shared;
mod subjects;
mod texts;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use engine::{Late, LateTask, TellStep, Telling, ToldText, Watches};
use hub::{Id, Manner, MemberList, MemberUpdate, Roster, leave_out};
use tokio::task::yield_now;
use tokio::time::Instant;

use self::doubtful::DoubtfulSeats;
use self::inputs::{Input, Inputs, every};
use self::polled::Polled;
use self::shared::{ListAsker, Shared, room_text};
pub use self::texts::list_text;
use self::texts::{text, whole_text};
use crate::barrier::Barrier;
use crate::cluster::{RoomAsk, RoomFormat, RoomsLink};
use crate::subject_rooms::SubjectRooms;

/// How often it is looked what has changed.
const LOOK: Duration = Duration::from_millis(50);

/// Graces that end in one go.
const OVER_SLICE: usize = 2048;

/// Lists that are answered in one go.
const ANSWERS_SLICE: usize = 64;

/// How often it is tried again where a mailbox is full: it rings nobody when it has room again.
const TRY_AGAIN: Duration = Duration::from_millis(1);

/// Tells for as long as the runtime lives, or until another server goes on, which is known at the
/// `barrier`. Who has gone is told to have left after `grace`. A node of a cluster has a `link` to
/// the others, and `subjects`, where other tasks want to know what is in rooms of theirs.
pub async fn run(
    watches: Watches,
    barrier: Arc<Barrier>,
    grace: Duration,
    link: Option<RoomsLink>,
    subjects: Vec<Arc<SubjectRooms>>,
) {
    let grace_ms = grace.as_millis() as u64;
    let roster = Roster::new(Arc::clone(watches.members()), grace_ms);
    let (mut inputs, say) = Inputs::of(link);
    let names = || Arc::clone(watches.names());
    let shared = say.map(|say| Shared::new(watches.members(), names(), grace_ms, say));
    let shared = shared.map(|shared| shared.with_subjects(subjects));
    let mut teller = RoomTeller {
        watches: &watches,
        roster,
        begun: Instant::now(),
        updates: Vec::new(),
        late: Late::default(),
        list: None,
        polled: Polled::new(names()),
        doubtful: DoubtfulSeats::default(),
        shared,
    };
    let tell = async {
        let (mut looks, mut tries) = (every(LOOK), every(TRY_AGAIN));
        loop {
            let is_look = tokio::select! {
                _ = looks.tick() => true,
                () = poll_fn(|context| watches.questions().poll_any(context)) => true,
                input = inputs.next() => {
                    teller.take(input).await;
                    false
                }
                _ = tries.tick(), if !teller.late.is_empty() => {
                    teller.catch_up().await;
                    false
                }
            };
            if is_look {
                teller.look().await;
                teller.answer_doubtful().await;
                teller.answer_some().await;
            }
            teller.answer_ready().await;
            teller.flush().await;
        }
    };
    tokio::select! {
        () = tell => {}
        () = barrier.moved() => {}
    }
}

struct RoomTeller<'w> {
    watches: &'w Watches,
    roster: Roster,
    begun: Instant,
    updates: Vec<MemberUpdate>,
    /// What workers are to be told whose mailboxes have no room.
    late: Late,
    /// The last list that was made since the last look, unless something has changed: crowds ask
    /// for the same.
    list: Option<(Id, Arc<str>)>,
    /// What was told of rooms that polls ask for.
    polled: Polled,
    /// Who waits for a place in a channel that is full, perhaps.
    doubtful: DoubtfulSeats,
    /// What all nodes of a cluster say.
    shared: Option<Shared>,
}

impl RoomTeller<'_> {
    /// Looks what has changed, and tells it.
    async fn look(&mut self) {
        // Who has left is in no list any more, also where nobody was to be told.
        self.list = None;
        let now_ms = self.now_ms();
        if self.roster.is_any_noted() {
            for stripe in 0..Roster::STRIPES {
                self.roster.look(stripe, now_ms, &mut self.updates);
                self.tell_updates().await;
            }
        }
        while self.roster.end_graces(now_ms, OVER_SLICE, &mut self.updates) {
            self.tell_updates().await;
            yield_now().await;
        }
        self.tell_updates().await;
        self.forget_polled(now_ms);
    }

    async fn tell_updates(&mut self) {
        if self.updates.is_empty() {
            return;
        }
        self.list = None;
        let mut updates = std::mem::take(&mut self.updates);
        if let Some(shared) = self.shared_by_all() {
            updates.drain(..).for_each(|update| shared.update(update));
        }
        self.tell_all_updates(&mut updates).await;
        self.updates = updates;
    }

    async fn tell_all_updates(&mut self, updates: &mut Vec<MemberUpdate>) {
        leave_out(updates);
        for update in updates.drain(..) {
            // Where nobody watches any more nobody is to be told.
            if let Some(of) = self.watches.name(update.room) {
                let told = match update.manner {
                    Manner::List => self.list_told(update.room, &of),
                    Manner::Whole | Manner::Count => {
                        Some(self.change_told(&update, text(&of, &update)))
                    }
                };
                if let Some(told) = told {
                    self.tell(update.room, told).await;
                }
            }
        }
    }

    /// The lists of all nodes, where it is those that clients are given.
    fn shared_by_all(&mut self) -> Option<&mut Shared> {
        self.shared.as_mut().filter(|shared| shared.format() == RoomFormat::Read)
    }

    /// Takes what the cluster says, or asks.
    async fn take(&mut self, input: Input) {
        let now_ms = self.now_ms();
        self.list = None;
        match input {
            Input::Step(step) => {
                let Some(shared) = &mut self.shared else { return };
                let told = shared.step(now_ms, step, &mut self.roster);
                if told.listens {
                    self.look().await;
                }
                for room in told.whole {
                    self.tell_whole(&room).await;
                }
                let mut updates = told.updates;
                self.tell_all_updates(&mut updates).await;
                for (rooms, step) in told.of_subjects {
                    rooms.tell(step).await;
                }
            }
            Input::Format(format) => {
                if let Some(shared) = &mut self.shared {
                    shared.found(format, &mut self.roster);
                }
            }
            Input::Ask(RoomAsk { room, reply }) => self.ask(&room, ListAsker::Call(reply)).await,
            Input::Look => {
                let Some(shared) = &mut self.shared else { return };
                let over = shared.look(self.watches.members());
                self.watches.questions().done(over, 0);
                self.forget_polled(now_ms);
            }
        }
    }

    /// All who watch are given the whole list.
    async fn tell_whole(&mut self, of: &str) {
        let Some(room) = self.shared.as_ref().and_then(|shared| shared.id(of)) else { return };
        let is_known = self.polled.place(room).is_some();
        if (is_known || self.watches.members().watchers().connections(room) > 0)
            && let Some(list) = self.list_told(room, of)
        {
            self.tell(room, list).await;
        }
    }

    /// Somebody asks for the list of all nodes.
    async fn ask(&mut self, of: &str, waiting: ListAsker) {
        let room = room_text(of).and_then(|of| self.watches.names().lookup(of));
        // Who asks was logged in before: it finds itself in the list.
        if let Some(room) = room
            && self.roster.look_at(room, self.now_ms(), &mut self.updates)
        {
            self.list = None;
            self.tell_updates().await;
        }
        if let Some(shared) = &mut self.shared {
            shared.ask(of, waiting);
        }
    }

    /// Hands on what this node has to say to the others.
    async fn flush(&mut self) {
        let now_ms = self.now_ms();
        if let Some(shared) = &mut self.shared {
            shared.flush(now_ms, &self.roster, self.watches.members()).await;
        }
    }

    async fn tell(&mut self, room: Id, told: ToldText) {
        let telling = self.watches.tell(room, told);
        self.tell_all(telling).await;
    }

    async fn tell_all(&mut self, mut telling: Telling<'_>) {
        while telling.step(&mut self.late) == TellStep::More {
            yield_now().await;
        }
    }

    /// Makes up for a slice of what each worker was not told, as far as its mailbox has room now.
    async fn catch_up(&mut self) {
        self.list = None;
        for worker in self.late.workers() {
            for _ in 0..ANSWERS_SLICE {
                if !self.watches.has_room(worker) {
                    break;
                }
                match self.late.take(worker) {
                    Some(LateTask::Tell(room)) => self.tell_late(worker, room).await,
                    Some(LateTask::Answer(watch)) => self.answer(watch).await,
                    None => break,
                }
            }
            yield_now().await;
        }
    }

    /// All that was told of the room is in its list: nothing is told in between.
    async fn tell_late(&mut self, worker: usize, room: Id) {
        debug_assert!(self.updates.is_empty(), "a list holds more than was told");
        if let Some(of) = self.watches.name(room) {
            let Some(text) = self.list_of(room, &of) else { return };
            let list = ToldText { text, place: self.polled.place(room) };
            let telling = self.watches.tell_late(worker, room, list);
            self.tell_all(telling).await;
        }
    }

    /// The list of a room, behind all that is told before.
    fn list_given(&mut self, of: &str) -> Option<Arc<str>> {
        let room = room_text(of).and_then(|of| self.watches.names().lookup(of));
        if let Some((known, list)) = &self.list
            && Some(*known) == room
        {
            return Some(Arc::clone(list));
        }
        let list = self.list_of(room.unwrap_or(Id::NONE), of)?;
        self.list = room.map(|room| (room, Arc::clone(&list)));
        Some(list)
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Who is in a room, as it is told; `None` where all nodes have not said it yet.
    fn members_of(&self, room: Id, of: &str) -> Option<MemberList> {
        let shared = self.shared.as_ref().filter(|shared| shared.format() == RoomFormat::Read);
        match shared {
            Some(shared) => shared.list(of),
            None => Some(self.roster.list(room)),
        }
    }

    /// What is told as the list of a room.
    fn list_of(&self, room: Id, of: &str) -> Option<Arc<str>> {
        let list = self.members_of(room, of)?;
        Some(whole_text(of, &list))
    }
}
