//! What subjects have lost that are not remembered any more: of each the number of its last event,
//! or a greater one.
//!
//! Subjects are forgotten in the order of their last events, since of all events the oldest goes
//! first. So it is a list that is cut off at its older end: two generations of bounded size, and
//! when the younger one is full the older one is forgotten down to its greatest number. Of whoever
//! is not found here nothing above that number was lost.
//!
//! A name that nobody needs is freed, and comes back with another id. What both ids have in common
//! is the name's hash, so that is what is kept. Names of one hash (31 bits) are mistaken for each
//! other, which can only make a number greater.
//!
//! Cost: 17 bytes a subject and the room that a table leaves free, 2.2 MB when both are full.

use std::mem;

use hashbrown::HashTable;

use crate::id::Id;
use crate::keys::Keys;

/// Subjects of one generation: as many as a table of 2^16 places takes.
const SUBJECTS_MAX: usize = (1 << 16) / 8 * 7;

pub(super) struct Evicted {
    keys: Keys,
    subjects_max: usize,
    young: Generation,
    old: Generation,
    /// The greatest number of the generations that are forgotten.
    floor: u64,
}

#[derive(Default)]
struct Generation {
    /// The lasting bits of each subject's id, and the number.
    lost: HashTable<(u64, u64)>,
    /// The greatest number of all.
    last: u64,
}

impl Default for Evicted {
    fn default() -> Evicted {
        Evicted::new(SUBJECTS_MAX)
    }
}

impl Evicted {
    fn new(subjects_max: usize) -> Evicted {
        let (young, old) = (Generation::default(), Generation::default());
        Evicted { keys: Keys::random(), subjects_max, young, old, floor: 0 }
    }

    /// `subject` has lost its last event, `number`. Numbers come in ascending order, one of them
    /// several times where an event was about several.
    pub(super) fn note(&mut self, subject: Id, number: u64) {
        self.note_bits(subject.lasting_bits(), number);
    }

    fn note_bits(&mut self, bits: u64, number: u64) {
        debug_assert!(number >= self.young.last, "the oldest of all events goes first");
        let hash = self.keys.hash(bits);
        if let Some(lost) = self.young.lost.find_mut(hash, |(other, _)| *other == bits) {
            lost.1 = number;
        } else {
            if self.young.lost.len() == self.subjects_max {
                self.floor = self.floor.max(self.old.last);
                mem::swap(&mut self.young, &mut self.old);
                self.young.lost.clear();
            }
            let keys = &self.keys;
            self.young.lost.insert_unique(hash, (bits, number), |(bits, _)| keys.hash(*bits));
        }
        self.young.last = number;
    }

    /// The number that was noted last.
    pub(super) fn last(&self) -> u64 {
        self.young.last
    }

    /// Of what is not listed nothing above this number was lost.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// Each subject's lasting bits, and its number, in the order of the numbers.
    pub(super) fn list(&self) -> Vec<(u64, u64)> {
        let is_known = |bits: u64| {
            self.young.lost.find(self.keys.hash(bits), |(other, _)| *other == bits).is_some()
        };
        let old = self.old.lost.iter().filter(|(bits, _)| !is_known(*bits));
        let mut list: Vec<(u64, u64)> = old.chain(&self.young.lost).copied().collect();
        list.sort_unstable_by_key(|&(bits, number)| (number, bits));
        list
    }

    /// Takes over another one's floor and list, of which all is older than what was noted here, or
    /// stands for the same losses.
    pub(super) fn take_over(&mut self, floor: u64, list: &[(u64, u64)]) {
        let last = list.last().map_or(0, |&(_, number)| number).max(floor);
        let own = self.list().into_iter().filter(|&(_, number)| number >= last);
        let floor = if self.floor > last { self.floor } else { floor };
        let mut whole = Evicted { floor, ..Evicted::new(self.subjects_max) };
        let theirs = list.iter().copied().filter(|&(_, number)| number > floor);
        theirs.chain(own).for_each(|(bits, number)| whole.note_bits(bits, number));
        *self = whole;
    }

    /// No event of `subject` above this number was lost.
    pub(super) fn newest(&self, subject: Id) -> u64 {
        let bits = subject.lasting_bits();
        let hash = self.keys.hash(bits);
        let find = |generation: &Generation| {
            let lost = generation.lost.find(hash, |(other, _)| *other == bits)?;
            Some(lost.1)
        };
        find(&self.young).or_else(|| find(&self.old)).unwrap_or(self.floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> Id {
        Id::integer(number).unwrap()
    }

    #[test]
    fn newest_is_never_below_what_was_lost_and_exact_for_the_last() {
        let mut evicted = Evicted::new(50);
        for number in 1..1_500 {
            evicted.note(id(number % 250), number);
            let newest = |lost: u64| evicted.newest(id(lost % 250));
            assert!((1..=number).all(|lost| newest(lost) >= lost));
            assert!((1..=number).rev().take(50).all(|lost| newest(lost) == lost));
        }
        assert_eq!(evicted.newest(id(250)), 1_400, "not further up than it must be");
    }

    #[test]
    fn few_subjects_are_known_for_ever() {
        let mut evicted = Evicted::new(100);
        (1..1_000).for_each(|number| evicted.note(id(number % 100), number));
        assert_eq!((evicted.newest(id(99)), evicted.newest(id(100))), (999, 0));
    }

    #[test]
    fn successor_knows_of_each_subject_what_this_one_knows() {
        let mut evicted = Evicted::new(50);
        for number in 1..1_500 {
            evicted.note(id(number * number % 250), number);
            let mut successor = Evicted::new(50);
            successor.take_over(evicted.floor(), &evicted.list());
            assert!(
                (0..250)
                    .all(|subject| successor.newest(id(subject)) == evicted.newest(id(subject)))
            );
            assert_eq!(successor.last(), evicted.last());
        }
        let mut successor = Evicted::new(50);
        successor.note(id(1), 1);
        successor.note(id(2), 2_000);
        successor.take_over(evicted.floor(), &evicted.list());
        assert_eq!(
            (successor.newest(id(1)), successor.newest(id(2))),
            (evicted.newest(id(1)), 2_000)
        );
        (2_001..2_200).for_each(|number| successor.note(id(number), number));
        assert!(
            (0..250).all(|subject| successor.newest(id(subject)) >= evicted.newest(id(subject)))
        );
    }
}
