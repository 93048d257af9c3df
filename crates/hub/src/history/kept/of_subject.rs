//! The events of one subject, read from a place among them on, to either side.

use std::collections::vec_deque;
use std::iter;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{HAS_RING, Kept, KeptSlot, NONE, rings};
use crate::event::Event;
use crate::id::Id;

/// The slots of one subject between two numbers, in their order.
#[allow(clippy::large_enum_variant, reason = "it stands on the stack, for one look")]
enum Between<'k> {
    Ring(vec_deque::Iter<'k, u32>),
    Few(smallvec::IntoIter<[u32; rings::EVENTS_MIN]>),
}

impl Iterator for Between<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        match self {
            Between::Ring(slots) => slots.next().copied(),
            Between::Few(slots) => slots.next(),
        }
    }
}

impl DoubleEndedIterator for Between<'_> {
    fn next_back(&mut self) -> Option<u32> {
        match self {
            Between::Ring(slots) => slots.next_back().copied(),
            Between::Few(slots) => slots.next_back(),
        }
    }

    /// In one step, however many there are.
    fn nth_back(&mut self, skipped: usize) -> Option<u32> {
        match self {
            Between::Ring(slots) => slots.nth_back(skipped).copied(),
            Between::Few(slots) => slots.nth_back(skipped),
        }
    }
}

impl<F> Kept<F> {
    /// Puts the events of `subject` above the number `after` into `events`, the oldest `most` of
    /// them. Tells the number of the last one that it has lost of late, and the number up to which
    /// none is left out; `None` when none is.
    pub(in crate::history) fn since(
        &self,
        subject: Id,
        after: u64,
        most: usize,
        events: &mut Vec<Arc<Event<F>>>,
    ) -> (u64, Option<u64>) {
        let Some(first) = self.first(subject) else { return (0, None) };
        let has_newer = self.number(self.last_slot(first)) > Some(after);
        if !has_newer {
            return (first.lost, None);
        }
        let mut slots = self.between(subject, after, u64::MAX);
        let before = events.len();
        events.extend(slots.by_ref().take(most).map(|slot| Arc::clone(self.event(slot))));
        let left_out = slots.next().map(|_| events[before..].last().map_or(after, |e| e.number()));
        (first.lost, left_out)
    }

    /// The events of `subject` between the numbers `after` and `before`, neither of them included,
    /// in their order.
    pub(in crate::history) fn events_between(
        &self,
        subject: Id,
        after: u64,
        before: u64,
    ) -> impl DoubleEndedIterator<Item = &Arc<Event<F>>> {
        self.between(subject, after, before).map(|slot| self.event(slot))
    }

    /// The number of the event before the last `most` of `subject` between the numbers `after` and
    /// `before`; `None` where there are no more of them.
    pub(in crate::history) fn before_last(
        &self,
        subject: Id,
        after: u64,
        before: u64,
        most: usize,
    ) -> Option<u64> {
        let slot = self.between(subject, after, before).nth_back(most)?;
        self.number(slot)
    }

    /// The number of the last event that `subject` has lost, as long as it has others.
    pub(in crate::history) fn lost_of(&self, subject: Id) -> u64 {
        self.first(subject).map_or(0, |first| first.lost)
    }

    /// The newest event of the subject whose oldest one is `first`.
    pub(super) fn last_slot(&self, first: &KeptSlot<F>) -> u32 {
        if first.events & HAS_RING == 0 { first.last } else { self.rings.last(first.last) }
    }

    fn between(&self, subject: Id, after: u64, before: u64) -> Between<'_> {
        let number = |slot: u32| self.slots[slot as usize].number;
        let first_slot = self.first_slot(subject);
        let head = first_slot.map(|slot| &self.slots[slot as usize]);
        // Its only one may count as lost.
        let after = head.map_or(after, |head| after.max(head.lost));
        if let Some(head) = head.filter(|head| head.events & HAS_RING != 0) {
            let ring = self.rings.get(head.last);
            let start = ring.partition_point(|&slot| number(slot) <= after);
            let end = ring.partition_point(|&slot| number(slot) < before);
            return Between::Ring(ring.range(start..end.max(start)));
        }
        let next = |&slot: &u32| Some(self.slots[slot as usize].next).filter(|&next| next != NONE);
        let slots = iter::successors(first_slot, next);
        let above = slots.skip_while(|&slot| number(slot) <= after);
        let few: SmallVec<_> = above.take_while(|&slot| number(slot) < before).collect();
        Between::Few(few.into_iter())
    }
}
