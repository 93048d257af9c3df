//! The events that are remembered: one list through all of them by age, one through those of each
//! subject.
//!
//! The lists are links in a slab, so an event leaves in O(1) wherever it stands in the list of all.
//! Of its subject it is always the oldest one that leaves. An event about several subjects has a
//! slot for each, side by side in the list of all. The oldest of them has the event itself, and is
//! counted for its bytes. What there is to say of a subject stands with its oldest event, so a
//! subject with one event, as most have, costs a table's place of four bytes. One with many has
//! their slots in a ring ([`rings`]), where a place is found by halves.
//!
//! An event is *warm* when it comes: somebody is being sent it, in a frame as long as itself. A
//! little later its frames are forgotten, unless somebody slow still has them to send. Whoever
//! comes back for it has them made again.

mod aging;
mod cost;
mod of_subject;
mod rings;
mod several;
mod tally;

use std::iter;
use std::sync::Arc;

use hashbrown::HashTable;

pub(super) use self::aging::Aged;
use self::aging::Stamp;
use self::cost::{cold_cost, frame_cost, slot_cost};
use self::rings::Rings;
use crate::event::Event;
use crate::id::Id;
use crate::keys::Keys;

/// No slot.
const NONE: u32 = u32::MAX;

/// The number of no event.
const NO_NUMBER: u64 = u64::MAX;

/// The bit of a subject's count that says that it has a ring.
const HAS_RING: u32 = 1 << 31;

struct KeptSlot<F> {
    /// Gone while the slot is free, and where an older slot of the same event has it.
    event: Option<Arc<Event<F>>>,
    /// The event's number, or [`NO_NUMBER`] while the slot is free.
    number: u64,
    subject: Id,
    stamp: Stamp,
    /// Of a subject's oldest event: the number of the last one that it has lost before; its own if
    /// it is the only one and nobody reads it.
    lost: u64,
    /// Neighbours in the list of all; of free slots, `newer` is the next free one.
    older: u32,
    newer: u32,
    /// The next newer one of the same subject.
    next: u32,
    /// Of a subject's oldest event: the newest one, or which ring has them all.
    last: u32,
    /// Of a subject's oldest event: how many there are, and [`HAS_RING`].
    events: u32,
    /// The bytes that it is counted for.
    cost: u32,
}

impl<F> KeptSlot<F> {
    /// Of a subject's oldest event: how many there are.
    fn events(&self) -> usize {
        (self.events & !HAS_RING) as usize
    }

    const FREE: KeptSlot<F> = KeptSlot {
        event: None,
        number: NO_NUMBER,
        subject: Id::NONE,
        stamp: Stamp::NONE,
        lost: 0,
        older: NONE,
        newer: NONE,
        next: NONE,
        last: NONE,
        events: 0,
        cost: 0,
    };
}

/// An event as it stands in the list of all.
pub(super) struct Listed<'k, F> {
    pub(super) event: &'k Event<F>,
    pub(super) subject: Id,
    pub(super) at_ms: u64,
    /// Of a subject's oldest event: the number of the last one that it has lost before.
    pub(super) lost: u64,
}

pub(super) struct Kept<F> {
    keys: Keys,
    /// The oldest event of each subject.
    subjects: HashTable<u32>,
    slots: Vec<KeptSlot<F>>,
    rings: Rings,
    free: u32,
    oldest: u32,
    newest: u32,
    /// The oldest event that is warm.
    warm: u32,
    /// Of each rule a slot before which none is of it. None where there is one rule.
    aging: Box<[u32]>,
    tally: HashTable<(Id, u64)>,
    len: usize,
    bytes: usize,
}

impl<F> Kept<F> {
    /// Those of so many rules.
    pub(super) fn new(rules: usize) -> Kept<F> {
        Kept {
            keys: Keys::random(),
            subjects: HashTable::new(),
            slots: Vec::new(),
            rings: Rings::default(),
            free: NONE,
            oldest: NONE,
            newest: NONE,
            warm: NONE,
            aging: vec![NONE; if rules > 1 { rules } else { 0 }].into(),
            tally: HashTable::new(),
            len: 0,
            bytes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn subjects(&self) -> usize {
        self.subjects.len()
    }

    pub(super) fn events_of(&self, subject: Id) -> usize {
        self.first(subject).map_or(0, KeptSlot::events)
    }

    /// The subject of the oldest event of all, and the event's number.
    pub(super) fn oldest_number(&self) -> Option<(Id, u64)> {
        let slot = self.slots.get(self.oldest as usize)?;
        Some((slot.subject, slot.number))
    }

    /// The newest event of all.
    pub(super) fn newest(&self) -> Option<&Arc<Event<F>>> {
        (self.newest != NONE).then(|| self.event(self.newest))
    }

    /// The number of the newest event of all; 0 when there is none.
    pub(super) fn newest_number(&self) -> u64 {
        self.number(self.newest).unwrap_or(0)
    }

    /// The number of the newest event of `subject`.
    pub(super) fn newest_of(&self, subject: Id) -> Option<u64> {
        self.number(self.last_slot(self.first(subject)?))
    }

    /// The events above `number` in ascending order, each with its slot. To begin behind the event
    /// in the slot `hint`, if that has this number, costs nothing.
    pub(super) fn above(
        &self,
        number: u64,
        hint: u32,
    ) -> impl Iterator<Item = (u32, Listed<'_, F>)> {
        let mut next = self.first_above(number, hint);
        iter::from_fn(move || {
            let (at, slot) = (next, self.slots.get(next as usize)?);
            next = slot.newer;
            let event = self.event(at);
            Some((
                at,
                Listed { event, subject: slot.subject, at_ms: slot.stamp.at_ms(), lost: slot.lost },
            ))
        })
    }

    fn first_above(&self, number: u64, hint: u32) -> u32 {
        if self.number(hint) == Some(number) {
            return self.slots[hint as usize].newer;
        }
        if self.number(self.oldest).is_none_or(|oldest| oldest > number) {
            return self.oldest;
        }
        let (mut first, mut at) = (NONE, self.newest);
        while self.number(at).is_some_and(|newer| newer > number) {
            (first, at) = (at, self.slots[at as usize].older);
        }
        first
    }

    /// The number of the event in a slot, if there is one.
    fn number(&self, slot: u32) -> Option<u64> {
        let number = self.slots.get(slot as usize)?.number;
        (number != NO_NUMBER).then_some(number)
    }

    /// Adds the newest event, that came `at_ms`, or with the one before it if that came later.
    /// Returns how many its subject has then.
    pub(super) fn push(
        &mut self,
        subject: Id,
        rule: u16,
        event: Arc<Event<F>>,
        at_ms: u64,
    ) -> usize {
        let newest = self.slots.get(self.newest as usize);
        let before_ms = newest.map_or(0, |newest| newest.stamp.at_ms());
        let cost = slot_cost::<F>(subject) + cold_cost(&event) + frame_cost(&event);
        self.len += 1;
        let stamp = Stamp::new(at_ms.max(before_ms), rule);
        let (number, cost) = (event.number(), cost as u32);
        self.add(KeptSlot { event: Some(event), number, subject, stamp, cost, ..KeptSlot::FREE })
    }

    fn add(&mut self, slot: KeptSlot<F>) -> usize {
        self.bytes += slot.cost as usize;
        let subject = slot.subject;
        let slot = self.take_slot(KeptSlot { older: self.newest, ..slot });
        match self.slots.get_mut(self.newest as usize) {
            Some(before) => before.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
        if self.warm == NONE {
            self.warm = slot;
        }
        self.aging.iter_mut().filter(|at| **at == NONE).for_each(|at| *at = slot);
        self.join(subject, slot)
    }

    /// Puts the newest event last among those of its subject. Returns how many that has then.
    fn join(&mut self, subject: Id, slot: u32) -> usize {
        let Kept { keys, subjects, slots, rings, .. } = self;
        let hash = keys.hash(subject.to_bits());
        let of = |first: u32, slots: &[KeptSlot<F>]| slots[first as usize].subject;
        let found = subjects.find(hash, |&first| of(first, slots) == subject).copied();
        let Some(first) = found else {
            subjects.insert_unique(hash, slot, |&first| keys.hash(of(first, slots).to_bits()));
            (slots[slot as usize].last, slots[slot as usize].events) = (slot, 1);
            return 1;
        };
        let KeptSlot { last, events, .. } = slots[first as usize];
        let before = if events & HAS_RING != 0 { rings.push(last, slot) } else { last };
        slots[before as usize].next = slot;
        let head = &mut slots[first as usize];
        head.events += 1;
        if events & HAS_RING == 0 {
            head.last = slot;
            if head.events() == rings::EVENTS_MIN {
                self.make_ring(first);
            }
        }
        self.slots[first as usize].events()
    }

    /// Gives the subject whose oldest event is in the slot `first` a ring.
    fn make_ring(&mut self, first: u32) {
        let slots = &self.slots;
        let next = |&slot: &u32| Some(slots[slot as usize].next).filter(|&next| next != NONE);
        let ring = self.rings.add(iter::successors(Some(first), next));
        let head = &mut self.slots[first as usize];
        (head.last, head.events) = (ring, head.events | HAS_RING);
    }

    /// Takes the oldest event of `subject` out: its number, and whether it was the last one.
    pub(super) fn pop(&mut self, subject: Id) -> Option<(u64, bool)> {
        let Kept { keys, subjects, slots, rings, .. } = self;
        let hash = keys.hash(subject.to_bits());
        let same = |&first: &u32| slots[first as usize].subject == subject;
        let mut found = subjects.find_entry(hash, same).ok()?;
        let slot = *found.get();
        let KeptSlot { next, mut last, mut events, .. } = slots[slot as usize];
        let is_last = events == 1;
        if is_last {
            found.remove();
        } else {
            *found.get_mut() = next;
        }
        events -= 1;
        // A ring goes long before the last event.
        if events & HAS_RING != 0
            && let Some(newest) = rings.pop(last)
        {
            (last, events) = (newest, events & !HAS_RING);
        }
        let number = self.slots[slot as usize].number;
        self.uncount(slot);
        self.hand_on(slot);
        self.bytes -= self.slots[slot as usize].cost as usize;
        self.give_slot_back(slot);
        if let Some(first) = self.slots.get_mut(next as usize) {
            (first.last, first.events, first.lost) = (last, events, number);
        }
        Some((number, is_last))
    }

    /// Takes the events of `subject` up to `number` out, of which its newest one is none: it counts
    /// as having lost that one.
    pub(super) fn lose_up_to(&mut self, subject: Id, number: u64) {
        while let Some(slot) = self.first_slot(subject) {
            if self.number(slot).is_none_or(|first| first > number) {
                let first = &mut self.slots[slot as usize];
                first.lost = first.lost.max(number);
                return;
            }
            self.pop(subject);
        }
    }

    /// Forgets the frames of the next `most` events at most that came up to `until_ms`, and of
    /// younger ones when it is `urgent`. `true` when there may be more.
    pub(super) fn cool(&mut self, until_ms: u64, urgent: bool, most: usize) -> bool {
        let mut seen = 0;
        while seen < most {
            let Some(slot) = self.slots.get_mut(self.warm as usize) else { return false };
            if slot.event.is_none() {
                // An older slot has it, and was looked at.
                self.warm = slot.newer;
                continue;
            }
            seen += 1;
            let is_due = slot.stamp.at_ms() <= until_ms;
            // Whoever else has the event may be about to send its frames.
            let event = slot.event.as_mut().and_then(Arc::get_mut);
            if !is_due && (!urgent || event.is_none()) {
                return false;
            }
            self.warm = slot.newer;
            if let Some(event) = event {
                event.forget_frames();
                let cost = (slot_cost::<F>(slot.subject) + cold_cost(event)) as u32;
                self.bytes -= (slot.cost - cost) as usize;
                slot.cost = cost;
            }
        }
        true
    }

    fn first(&self, subject: Id) -> Option<&KeptSlot<F>> {
        self.slots.get(self.first_slot(subject)? as usize)
    }

    /// Where the oldest event of `subject` is.
    fn first_slot(&self, subject: Id) -> Option<u32> {
        let hash = self.keys.hash(subject.to_bits());
        let of = |first: u32| self.slots[first as usize].subject;
        self.subjects.find(hash, |&first| of(first) == subject).copied()
    }

    fn take_slot(&mut self, slot: KeptSlot<F>) -> u32 {
        let index = self.free;
        match self.slots.get_mut(index as usize) {
            Some(free) => {
                self.free = free.newer;
                *free = slot;
                index
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// Takes the slot out of the list of all, and drops its event if it has it.
    fn give_slot_back(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        (slot.event, slot.number) = (None, NO_NUMBER);
        let (older, newer) = (slot.older, slot.newer);
        if self.warm == index {
            self.warm = newer;
        }
        self.aging.iter_mut().filter(|at| **at == index).for_each(|at| *at = newer);
        slot.newer = self.free;
        self.free = index;
        match self.slots.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
    }
}
