//! The events that are remembered: one list through all of them by age, one through those of each
//! subject.
//!
//! The lists are links in a slab, so an event leaves in O(1) wherever it stands in the list of all:
//! of its subject it is always the oldest one that leaves.

use std::sync::Arc;

use hashbrown::HashTable;

use crate::event::Event;
use crate::id::Id;
use crate::keys::Keys;

/// No slot.
const NONE: u32 = u32::MAX;

/// What an event costs beside its text: itself and its counts, its slot here, its subject's place
/// with the room that a table leaves free, and a name.
const fn overhead<F>() -> usize {
    size_of::<Event<F>>() + 16 + size_of::<Slot<F>>() + 2 * size_of::<Subject>() + 64
}

struct Slot<F> {
    /// Gone while the slot is free.
    event: Option<Arc<Event<F>>>,
    subject: Id,
    at_ms: u64,
    /// Neighbours in the list of all; of free slots, `newer` is the next free one.
    older: u32,
    newer: u32,
    /// The next newer one of the same subject.
    next: u32,
}

struct Subject {
    id: Id,
    events: u32,
    first: u32,
    last: u32,
}

pub(super) struct Kept<F> {
    keys: Keys,
    subjects: HashTable<Subject>,
    slots: Vec<Slot<F>>,
    free: u32,
    oldest: u32,
    newest: u32,
    len: usize,
    bytes: usize,
}

impl<F> Default for Kept<F> {
    fn default() -> Kept<F> {
        Kept {
            keys: Keys::random(),
            subjects: HashTable::new(),
            slots: Vec::new(),
            free: NONE,
            oldest: NONE,
            newest: NONE,
            len: 0,
            bytes: 0,
        }
    }
}

impl<F> Kept<F> {
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
        self.subject(subject).map_or(0, |subject| subject.events as usize)
    }

    /// The subject of the oldest event of all, and when it came.
    pub(super) fn oldest(&self) -> Option<(Id, u64)> {
        let slot = self.slots.get(self.oldest as usize)?;
        Some((slot.subject, slot.at_ms))
    }

    /// Adds the newest event. `true` when it is the only one of its subject.
    pub(super) fn push(&mut self, subject: Id, event: Arc<Event<F>>, at_ms: u64) -> bool {
        self.len += 1;
        self.bytes += cost(&event);
        let slot = self.take_slot(Slot {
            event: Some(event),
            subject,
            at_ms,
            older: self.newest,
            newer: NONE,
            next: NONE,
        });
        match self.slots.get_mut(self.newest as usize) {
            Some(before) => before.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
        let hash = self.keys.hash(subject.to_bits());
        let Some(found) = self.subjects.find_mut(hash, |other| other.id == subject) else {
            let first = Subject { id: subject, events: 1, first: slot, last: slot };
            let keys = &self.keys;
            self.subjects.insert_unique(hash, first, |other| keys.hash(other.id.to_bits()));
            return true;
        };
        self.slots[found.last as usize].next = slot;
        found.last = slot;
        found.events += 1;
        false
    }

    /// Takes the oldest event of `subject` out: its number, and whether it was the last one.
    pub(super) fn pop(&mut self, subject: Id) -> Option<(u64, bool)> {
        let hash = self.keys.hash(subject.to_bits());
        let mut found = self.subjects.find_entry(hash, |other| other.id == subject).ok()?;
        let slot = found.get().first;
        let is_last = found.get().events == 1;
        if is_last {
            found.remove();
        } else {
            found.get_mut().events -= 1;
            found.get_mut().first = self.slots[slot as usize].next;
        }
        let event = self.give_slot_back(slot);
        self.len -= 1;
        self.bytes -= cost(&event);
        Some((event.number(), is_last))
    }

    /// Puts the events of `subject` above the number `after` into `events`.
    pub(super) fn since(&self, subject: Id, after: u64, events: &mut Vec<Arc<Event<F>>>) {
        let Some(subject) = self.subject(subject) else { return };
        if self.event(subject.last).number() <= after {
            return;
        }
        let mut slot = subject.first;
        while slot != NONE {
            let event = self.event(slot);
            if event.number() > after {
                events.push(event.clone());
            }
            slot = self.slots[slot as usize].next;
        }
    }

    fn subject(&self, id: Id) -> Option<&Subject> {
        self.subjects.find(self.keys.hash(id.to_bits()), |subject| subject.id == id)
    }

    fn event(&self, slot: u32) -> &Arc<Event<F>> {
        self.slots[slot as usize].event.as_ref().expect("a listed slot has an event")
    }

    fn take_slot(&mut self, slot: Slot<F>) -> u32 {
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

    /// Takes the slot out of the list of all, and its event out of the slot.
    fn give_slot_back(&mut self, index: u32) -> Arc<Event<F>> {
        let slot = &mut self.slots[index as usize];
        let event = slot.event.take().expect("a listed slot has an event");
        let (older, newer) = (slot.older, slot.newer);
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
        event
    }
}

/// The bytes that an event is counted for: its line, a frame of it, and what is kept around them.
fn cost<F>(event: &Event<F>) -> usize {
    2 * event.json().len() + overhead::<F>()
}
