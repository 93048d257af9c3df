//! The router of a cluster's node: numbers come from its log, what was sent before the node was
//! there is remembered, and what the node has missed for good is told as a gap.

use hub::{Epoch, EventId, NoRoomToKeep};

use super::{Router, Sending, is_for_history, made};
use crate::Outgoing;
use crate::mailbox::Mail;

/// What an attempt to tell all clients of a gap came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapStep {
    /// All workers know it.
    Told,
    /// A send is being posted, or a mailbox is full: nothing is changed, try again a little later.
    Wait,
    /// What is said to be lost was posted here already, or the epoch begins below it: nothing is
    /// changed.
    Behind,
}

/// What an attempt to remember an event came to.
#[derive(Debug)]
pub enum Remembered {
    /// It is, and kept on disk where it is to be.
    Yes,
    /// It is in memory alone, and was to be kept: the disk is full or fails.
    NotKept,
    /// Too many wait for the disk: try again a little later.
    Wait(Box<Outgoing>),
    /// Its id is not above all that is known, or of another epoch: it is not remembered.
    Stale,
}

/// What is changed together with telling all clients of a gap.
enum Lost {
    /// Nothing: events were missed up to here.
    UpToHere,
    /// Events up to this number were missed.
    UpTo(u64),
    /// Another epoch begins.
    Epoch(Epoch),
}

impl Router {
    /// Begins to hand an event to its audience, where the cluster's log has given its number, `id`.
    ///
    /// Numbers must be posted in ascending order, which is the caller's to see to:
    /// [`Sending::gather`] may be called for many sends, in any order, and then [`Sending::post`]
    /// for the one with the least number until it is posted; later ones wait for it.
    /// [`Sending::step`] does both at once.
    pub fn send_numbered(&self, outgoing: Outgoing, id: EventId) -> Sending<'_> {
        debug_assert!(self.event_ids.are_given(), "a server alone gives its numbers out");
        self.begin(outgoing, Some(id))
    }

    /// Remembers an event that was posted elsewhere, or here before a restart, `age_ms` ago, so
    /// that who has missed it hears it.
    ///
    /// For the start of a cluster's node, before clients can connect: it says where [what it reads
    /// of the log begins](Router::forget_up_to), then what stands there, in ascending order.
    #[must_use]
    pub fn remember(&self, outgoing: Outgoing, id: EventId, age_ms: u64) -> Remembered {
        let (room, is_kept) = match self.reserve_for(&outgoing) {
            Ok(room) => (room, true),
            Err(NoRoomToKeep::Queue) => return Remembered::Wait(Box::new(outgoing)),
            Err(NoRoomToKeep::Disk) => (None, false),
        };
        if !self.event_ids.take(id) {
            return Remembered::Stale;
        }
        let (is_remembered, is_followed) = (outgoing.remembered, outgoing.followed);
        let history = self.history.as_ref().filter(|_| is_for_history(&outgoing));
        let begun = history.map(|history| outgoing.draft.subjects(|ids| history.begin(ids)));
        let event = made(outgoing, id);
        if let Some(apps) = self.pusher.as_ref().filter(|_| is_remembered && !is_followed) {
            apps.cached().record_aged(&self.names, &event, age_ms, self.clock.monotonic_ms());
        }
        if let Some(room) = room {
            room.append(&event, self.clock.unix_ms().saturating_sub(age_ms));
        }
        if let (Some(history), Some(begun)) = (history, begun) {
            history.record_aged(begun, event, age_ms, self.clock.monotonic_ms());
        }
        self.event_ids.set_posted(id.number());
        if is_kept { Remembered::Yes } else { Remembered::NotKept }
    }

    /// Calls `done` once the event `number` is on disk, if this node keeps events there, or when
    /// that has failed.
    pub fn when_durable(&self, number: u64, done: hub::WhenDurable) {
        match &self.event_store {
            Some(event_store) => event_store.when_durable(number, done),
            None => done(false),
        }
    }

    /// What was sent up to `number` is not known here, and will not be posted: places before it are
    /// gaps, later ones are not. For the start of a server, before clients can connect.
    pub fn forget_up_to(&self, number: u64) {
        if let Some(history) = &self.history {
            history.forget_up_to(number);
        }
        if let Some(topics) = &self.topics {
            topics.begun_at(number);
        }
        self.event_ids.skip_to(number);
        self.event_ids.set_posted(number);
    }

    /// Tells every stream, of every transport, and every guest that events may be missing up to
    /// here, once and in its order among events; a stream goes on with what is posted from then on.
    /// Who comes back with an older place is told so, too. Workers tell their clients in the course
    /// of many turns, each before its next event.
    pub fn gap_to_all(&self) -> GapStep {
        self.lose(Lost::UpToHere)
    }

    /// Tells a gap when the log no longer has the events up to `number` that this node has not
    /// posted: it goes on behind it.
    pub fn lose_up_to(&self, number: u64) -> GapStep {
        self.lose(Lost::UpTo(number))
    }

    /// Tells a gap when the log is another one: from here on numbers are those of `epoch`, and
    /// places of the one before are unknown. Sends with numbers of the one before are
    /// [stale](super::Step::Stale). [`GapStep::Behind`] when its base is below a number that was
    /// posted here: ids must grow, so the cluster needs an epoch that begins above
    /// [that](hub::EventIds::last).
    pub fn begin_epoch(&self, epoch: Epoch) -> GapStep {
        self.lose(Lost::Epoch(epoch))
    }

    fn lose(&self, lost: Lost) -> GapStep {
        let Some(_turn) = self.posting.take() else { return GapStep::Wait };
        let rooms = self.mailboxes.iter().map(|mailbox| mailbox.reserve(1, 0));
        let Some(mut rooms) = rooms.collect::<Option<Vec<_>>>() else { return GapStep::Wait };
        let changed = match lost {
            Lost::UpToHere => true,
            Lost::UpTo(number) if number < self.event_ids.last() => false,
            Lost::UpTo(number) => {
                self.event_ids.skip_to(number);
                true
            }
            Lost::Epoch(epoch) => self.event_ids.begin(epoch),
        };
        if !changed {
            return GapStep::Behind;
        }
        let up_to = self.event_ids.last();
        if let Some(history) = &self.history {
            history.forget_up_to(up_to);
        }
        if let Some(apps) = &self.pusher {
            apps.cached().forget_all(&self.names);
        }
        self.event_ids.note_gap();
        for room in &mut rooms {
            room.post(Mail::Gap { up_to });
        }
        // Not before: who finds a mailbox empty takes all up to there for heard.
        self.event_ids.set_posted(up_to);
        GapStep::Told
    }
}
