//! Who gives out the numbers of events, and how a place of this run is told from all others.
//!
//! An *epoch* is one run of numbers: those that a server gives out from its start to its end, or,
//! where events are kept on disk, from the first start with that log to the last. What is known of
//! events does not outlive it, so a place of another epoch is one that this server cannot go on
//! from: its client is told of a gap. An epoch is known by its [`Tag`], which is drawn
//! at random, so that a place of another server is known as such whatever the clocks say; and it
//! begins above every number that was given out before it, so that ids grow across restarts.
//!
//! In a cluster an epoch is one run of the log that all its nodes read, so that a place of one node
//! is known at each. There numbers are not given out but [given](EventIds::take), a place may be
//! [ahead](Place::Future) of a node that has not read so far yet, and when the log is another one
//! the epoch is, too, while servers run ([`EventIds::begin`]).
//!
//! Numbers follow the clock: the upper 44 bits are milliseconds since 1970. That is for people who
//! look at ids, and so that an id does not tell every client how many events there are. It is not
//! what makes them grow: that is [`EventIds::next`] while the server runs, and from one run to the
//! next a mark that its owner keeps on disk (see [`Epoch::until`]).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::epochs::Epochs;
use crate::event_id::{EventId, Tag};

/// Numbers of one millisecond.
const CLOCK_SHIFT: u32 = 20;

/// The last time that is believed, in the year 2248: a clock that is wrong by centuries must not
/// use up the numbers.
const CLOCK_MS_MAX: u64 = 1 << 43;

/// Numbers that are reserved at a time: those of 17 minutes.
const RESERVED: u64 = 1 << 40;

/// So many of the reserved ones are not skipped by following the clock, but counted one by one:
/// when more cannot be reserved for a while, because the disk is full, they last for days at a
/// hundred thousand events a second.
const SPARE: u64 = 1 << 36;

const _: () = {
    assert!(SPARE < RESERVED / 2, "more is reserved before the spare ones are used");
    assert!(CLOCK_MS_MAX << CLOCK_SHIFT <= u64::MAX - RESERVED);
};

/// The first number of a millisecond.
fn number_at(now_ms: u64) -> u64 {
    now_ms.min(CLOCK_MS_MAX) << CLOCK_SHIFT
}

/// One run of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epoch {
    /// What tells it from others.
    pub tag: Tag,
    /// The number before its first.
    pub base: u64,
    /// The first number that is not reserved for it. Whoever starts the next epoch must know this
    /// number or a greater one, and begin there.
    pub until: u64,
}

impl Epoch {
    /// The epoch that begins now, `now_ms` being the wall clock's milliseconds since 1970, and in
    /// any case above all numbers below `mark`: up to there those before it were reserved.
    pub fn begin(tag: Tag, mark: u64, now_ms: u64) -> Epoch {
        let base = number_at(now_ms).max(mark);
        Epoch { tag, base, until: base.saturating_add(RESERVED) }
    }
}

/// What a client's place is to this server: up to where the client says that it has heard all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// None of this epoch's: no id, one of another server or cluster, or one of an epoch before.
    Unknown,
    /// All up to this number was given out here.
    Known(u64),
    /// This number is one of the epoch's, and was not given out here yet. Alone a server knows that
    /// it never was; in a cluster the client may have heard it at a node that has read further.
    Future(u64),
    /// None of this epoch's, and above all that was given out here. In a cluster the client may
    /// have heard it at a node that knows of a later epoch already.
    Later(u64),
}

/// Knows the numbers of events, which are unique and grow: gives them out, or takes those that are
/// given.
#[derive(Debug)]
pub struct EventIds {
    epochs: Epochs,
    /// Numbers are given, by the log of a cluster.
    are_given: bool,
    last: AtomicU64,
    /// The last one whose event is in every mailbox that it is for.
    posted: AtomicU64,
    /// The first one that is not reserved.
    until: AtomicU64,
    /// How many gaps all streams were told, or are being told.
    gaps: AtomicU64,
    /// Numbers between which events were lost with a process, both exclusive.
    lost: OnceLock<Box<[(u64, u64)]>>,
}

impl EventIds {
    /// Those of `epoch`, given out here.
    pub fn new(epoch: Epoch) -> EventIds {
        let Epoch { tag, base, until } = epoch;
        let (last, posted) = (AtomicU64::new(base), AtomicU64::new(base));
        let epochs = Epochs::new(tag, base);
        let (until, gaps) = (AtomicU64::new(until), AtomicU64::new(0));
        let lost = OnceLock::new();
        EventIds { epochs, are_given: false, last, posted, until, gaps, lost }
    }

    /// Those of `epoch`, given by a cluster's log.
    pub fn of_cluster(epoch: Epoch) -> EventIds {
        EventIds { are_given: true, ..EventIds::new(epoch) }
    }

    /// Whether numbers are given by a cluster's log.
    pub fn are_given(&self) -> bool {
        self.are_given
    }

    /// The next event's. `now_ms` is wall-clock time since 1970; when the clock steps back, when it
    /// runs ahead of what is reserved, or when more than 2^20 events fall into a millisecond,
    /// numbers go on from the last one. Nothing is ever waited for.
    pub fn next(&self, now_ms: u64) -> EventId {
        debug_assert!(!self.are_given, "a cluster's log gives the numbers");
        // Ordering: an older bound is as good, and of the numbers only their uniqueness matters;
        // nothing is published by them.
        let followed = self.until.load(Ordering::Relaxed).saturating_sub(SPARE);
        let floor = number_at(now_ms).min(followed);
        let step = |last: u64| Some(floor.max(last + 1));
        let number = match self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
            Ok(last) | Err(last) => floor.max(last + 1),
        };
        self.id(number)
    }

    /// The next event has the number that is given with `id`. `false` when that is none of this
    /// epoch's, or not above all that were given before. Said by whoever has the turn to post.
    #[must_use]
    pub fn take(&self, id: EventId) -> bool {
        debug_assert!(self.are_given, "this server gives the numbers itself");
        let is_next = self.epochs.latest().0 == id.tag() && id.number() > self.last();
        if is_next {
            self.last.store(id.number(), Ordering::Relaxed);
        }
        is_next
    }

    /// All up to `number` counts as given: what of it was not will not be. Said by whoever has the
    /// turn to post.
    pub fn skip_to(&self, number: u64) {
        self.last.fetch_max(number, Ordering::Relaxed);
    }

    /// `epoch` begins while the server runs, and places of the one before are unknown from now on.
    /// `false`, and nothing is changed, when its base is below a number that was given before: ids
    /// must grow. Said by whoever has the turn to post.
    #[must_use]
    pub fn begin(&self, epoch: Epoch) -> bool {
        debug_assert!(self.are_given, "alone a server has one epoch");
        let Epoch { tag, base, until } = epoch;
        if base < self.last() {
            return false;
        }
        self.epochs.begin(tag, base);
        self.until.store(until, Ordering::Relaxed);
        self.skip_to(base);
        true
    }

    /// All up to `last` was given out, and posted, by the process that this one goes on for: in the
    /// same epoch, before the first number is given out here.
    pub fn take_over(&self, last: u64) {
        self.skip_to(last);
        self.set_posted(last);
    }

    /// Events between these numbers, both exclusive, may have been sent by a process before this
    /// one, and are not known to anybody: a place there is unknown. Said once, before there are
    /// clients.
    pub fn set_lost(&self, lost: Vec<(u64, u64)>) {
        let was_said = self.lost.set(lost.into()).is_err();
        debug_assert!(!was_said, "it is said once");
    }

    fn is_lost(&self, number: u64) -> bool {
        let mut lost = self.lost.get().into_iter().flatten();
        lost.any(|&(after, before)| after < number && number < before)
    }

    /// The latest epoch, with all numbers that are reserved by now.
    pub fn epoch(&self) -> Epoch {
        let (tag, base) = self.epochs.latest();
        Epoch { tag, base, until: self.until.load(Ordering::Relaxed) }
    }

    /// The id of the event `number`, or of the place behind it.
    pub fn id(&self, number: u64) -> EventId {
        EventId::new(number, self.epochs.tag_of(number))
    }

    /// The greatest number given out; before the first one the epoch's base.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// The event `number`, and with it all before it, is in every mailbox that it is for. Said by
    /// whoever has its turn to post.
    ///
    /// Ordering: releases the posting of the mails, for who then looks into a mailbox.
    pub fn set_posted(&self, number: u64) {
        debug_assert!(number <= self.last(), "what is posted was given a number before");
        debug_assert!(number >= self.posted(), "events are posted in the order of their numbers");
        self.posted.store(number, Ordering::Release);
    }

    /// The last number that [`EventIds::set_posted`] was told. Who then finds a mailbox empty has
    /// taken all mail up to it.
    pub fn posted(&self) -> u64 {
        self.posted.load(Ordering::Acquire)
    }

    /// Another gap is about to be told to all streams, up to the last number and in its epoch. Said
    /// by whoever has the turn to post, before it posts that.
    ///
    /// Ordering: releases the number and the epoch, for who then looks how many gaps there were.
    pub fn note_gap(&self) {
        self.gaps.fetch_add(1, Ordering::Release);
    }

    /// Where a stream begins that is logged in after this was read: how many gaps were told by
    /// then, and the last number, which is not before any of them.
    pub fn begin_stream(&self) -> (u64, u64) {
        let gaps = self.gaps.load(Ordering::Acquire);
        (gaps, self.last())
    }

    /// What the place is that a client says it has heard everything up to.
    pub fn known(&self, place: &[u8]) -> Place {
        let (tag, base) = self.epochs.latest();
        let Some((id, _)) = EventId::parse_place(place) else { return Place::Unknown };
        match id.number() {
            number if id.tag() != tag => match number > self.last() {
                true => Place::Later(number),
                false => Place::Unknown,
            },
            number if number < base || self.is_lost(number) => Place::Unknown,
            number if number <= self.last() => Place::Known(number),
            number => Place::Future(number),
        }
    }

    /// The number below which all should be reserved by now: as many as are, as long as these are
    /// enough.
    pub fn to_reserve(&self, now_ms: u64) -> u64 {
        let (last, until) = (self.last(), self.until.load(Ordering::Relaxed));
        if until.saturating_sub(last) >= RESERVED / 2 {
            return until;
        }
        last.max(number_at(now_ms)).saturating_add(RESERVED).max(until)
    }

    /// All numbers below `until` are reserved.
    pub fn reserve(&self, until: u64) {
        self.until.fetch_max(until, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
