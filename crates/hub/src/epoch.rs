//! Who gives out the numbers of events, and how a place of this run is told from all others.
//!
//! An *epoch* is one run of numbers: those that a server gives out from its start to its end. What
//! is remembered of events does not outlive it, so a place of another epoch is one that this server
//! cannot go on from: its client is told of a gap. An epoch is known by its [`Tag`], which is drawn
//! by lot, so that a place of another server is known as such whatever the clocks say; and it
//! begins above every number that was given out before it, so that ids grow across restarts.
//!
//! Numbers follow the clock: the upper 44 bits are milliseconds since 1970. That is for people who
//! look at ids, and so that an id does not tell every client how many events there are. It is not
//! what makes them grow: that is [`EventIds::next`] while the server runs, and from one run to the
//! next a mark that its owner keeps on disk (see [`Epoch::until`]).

use std::sync::atomic::{AtomicU64, Ordering};

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

/// Gives out event numbers: unique, and growing.
#[derive(Debug)]
pub struct EventIds {
    tag: Tag,
    /// The number before the first.
    base: u64,
    last: AtomicU64,
    /// The last one whose event is in every mailbox that it is for.
    posted: AtomicU64,
    /// The first one that is not reserved.
    until: AtomicU64,
}

impl EventIds {
    /// Those of `epoch`.
    pub fn new(epoch: Epoch) -> EventIds {
        let Epoch { tag, base, until } = epoch;
        let (last, posted) = (AtomicU64::new(base), AtomicU64::new(base));
        EventIds { tag, base, last, posted, until: AtomicU64::new(until) }
    }

    /// The next event's. `now_ms` is wall-clock time since 1970; when the clock steps back, when it
    /// runs ahead of what is reserved, or when more than 2^20 events fall into a millisecond,
    /// numbers go on from the last one. Nothing is ever waited for.
    pub fn next(&self, now_ms: u64) -> EventId {
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

    /// The id of the event `number`, or of the place behind it.
    pub fn id(&self, number: u64) -> EventId {
        EventId::new(number, self.tag)
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
        self.posted.store(number, Ordering::Release);
    }

    /// The last number that [`EventIds::set_posted`] was told. Who then finds a mailbox empty has
    /// taken all mail up to it.
    pub fn posted(&self) -> u64 {
        self.posted.load(Ordering::Acquire)
    }

    /// The number of the place that a client says it has heard everything up to; `None` when that
    /// is none of this epoch's: no id, one of another server, or one of this server before it was
    /// started anew.
    pub fn known(&self, place: &[u8]) -> Option<u64> {
        let id = EventId::parse(place).filter(|id| id.tag() == self.tag)?;
        (self.base..=self.last()).contains(&id.number()).then_some(id.number())
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
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_760_000_000_000;

    fn ids() -> EventIds {
        EventIds::new(Epoch::begin(Tag::of(1 << 60), 0, NOW_MS))
    }

    fn known(ids: &EventIds, id: EventId) -> Option<u64> {
        ids.known(id.to_string().as_bytes())
    }

    #[test]
    fn numbers_grow_when_the_clock_does_not() {
        let ids = ids();
        let next = |now_ms| ids.next(now_ms).number();
        let (first, second) = (next(NOW_MS + 1), next(NOW_MS + 1));
        let (back, later) = (next(10), next(NOW_MS + 1_000));
        assert!(first < second && second < back && back < later);
        assert_eq!(first, (NOW_MS + 1) << CLOCK_SHIFT);
        assert_eq!(ids.last(), later);
    }

    #[test]
    fn places_of_this_epoch_are_known_and_no_others() {
        let ids = ids();
        let (base, first) = (ids.last(), ids.next(NOW_MS + 5));
        let last = ids.next(NOW_MS + 7);
        for number in [base, first.number(), first.number() + 1, last.number()] {
            assert_eq!(known(&ids, ids.id(number)), Some(number));
        }
        for number in [0, base - 1, last.number() + 1, u64::MAX] {
            assert_eq!(known(&ids, ids.id(number)), None, "{number}");
        }
        for place in ["", "17", "19aa57c8f4a00001", "0000000000000000", "\u{e9}"] {
            assert_eq!(ids.known(place.as_bytes()), None, "{place}");
        }
    }

    #[test]
    fn place_of_another_server_is_unknown_although_its_number_is_one_of_ours() {
        let ours = ids();
        let other = EventIds::new(Epoch::begin(Tag::of(1 << 61), 0, NOW_MS));
        let place = other.next(NOW_MS + 1);
        ours.next(NOW_MS + 2);
        assert_eq!(known(&other, place), Some(place.number()));
        assert_eq!(known(&ours, ours.id(place.number())), Some(place.number()));
        assert_eq!(known(&ours, place), None);
    }

    #[test]
    fn next_epoch_begins_above_all_numbers_whatever_the_clock_says() {
        let first = Epoch::begin(Tag::of(0), 0, NOW_MS);
        let ids = EventIds::new(first);
        let last = (0..1_000).map(|ms| ids.next(NOW_MS + ms).number()).max();
        for now_ms in [0, NOW_MS - 86_400_000, NOW_MS, NOW_MS + 1, u64::MAX] {
            let second = Epoch::begin(Tag::of(u64::MAX), first.until, now_ms);
            assert!(Some(second.base) > last, "{now_ms}");
            let (earlier, later) = (EventIds::new(first), EventIds::new(second));
            assert_eq!(known(&later, earlier.id(first.base)), None);
            // Even if both had drawn the same tag.
            assert_eq!(known(&later, later.id(first.base)), None);
            assert!(EventIds::new(second).next(now_ms).number() > second.base);
        }
    }

    #[test]
    fn clock_that_runs_ahead_is_followed_as_far_as_numbers_are_reserved() {
        let ids = ids();
        let until = ids.until.load(Ordering::Relaxed);
        assert_eq!(ids.to_reserve(NOW_MS), until);
        // Half a year of silence, or a clock that was set.
        let later_ms = NOW_MS + 180 * 86_400_000;
        assert_eq!(ids.to_reserve(later_ms), until, "who sends nothing writes nothing");
        let ahead: Vec<u64> = (0..1_000).map(|_| ids.next(later_ms).number()).collect();
        assert!(ahead.is_sorted_by(|one, next| next - one == 1));
        assert_eq!(ahead[0], until - SPARE);
        let more = ids.to_reserve(later_ms);
        assert_eq!(more, number_at(later_ms) + RESERVED);
        ids.reserve(more);
        assert_eq!(ids.to_reserve(later_ms), more);
        assert_eq!(ids.next(later_ms).number(), number_at(later_ms));
    }

    #[test]
    fn clock_that_is_wrong_by_centuries_leaves_numbers_for_all_times() {
        let ids = EventIds::new(Epoch::begin(Tag::of(0), 0, u64::MAX));
        let base = ids.last();
        assert!(base <= 1 << 63 && ids.next(u64::MAX).number() > base);
        let last = EventIds::new(Epoch::begin(Tag::of(0), u64::MAX - 9, 0));
        assert_eq!(last.to_reserve(0), u64::MAX, "there are no more");
    }
}
