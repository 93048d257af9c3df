//! What subjects have lost that are not remembered any more: of each the number of its last event,
//! or a greater one.
//!
//! Subjects are forgotten in the order of their last events, since of all events the oldest goes
//! first. So it is a list that is cut off at its older end. It has two generations of bounded size,
//! and when the younger one is full the older one is forgotten down to its greatest number. Of
//! whoever is not found here nothing above that number was lost.
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
    /// Of each rule the greatest number of the generations that are forgotten.
    floors: Box<[u64]>,
}

#[derive(Default)]
struct Generation {
    /// The lasting bits of each subject's id, and the number.
    lost: HashTable<(u64, u64)>,
    /// Of each rule the greatest number of all, or a greater one.
    last: Box<[u64]>,
}

impl Generation {
    fn of_rules(rules: usize) -> Generation {
        Generation { lost: HashTable::new(), last: vec![0; rules].into() }
    }
}

impl Evicted {
    /// Those of so many rules.
    pub(super) fn new(rules: usize) -> Evicted {
        Evicted::bounded(rules, SUBJECTS_MAX)
    }

    fn bounded(rules: usize, subjects_max: usize) -> Evicted {
        let (young, old) = (Generation::of_rules(rules), Generation::of_rules(rules));
        Evicted { keys: Keys::random(), subjects_max, young, old, floors: vec![0; rules].into() }
    }

    /// `subject`, which is of `rule`, has lost its last event, `number`. Those of one rule come in
    /// ascending order, one of them several times where an event was about several.
    pub(super) fn note(&mut self, subject: Id, number: u64, rule: u16) {
        self.note_bits(subject.lasting_bits(), number);
        let last = &mut self.young.last[usize::from(rule)];
        *last = number.max(*last);
    }

    fn note_bits(&mut self, bits: u64, number: u64) {
        let hash = self.keys.hash(bits);
        if let Some(lost) = self.young.lost.find_mut(hash, |(other, _)| *other == bits) {
            lost.1 = number.max(lost.1);
            return;
        }
        if self.young.lost.len() == self.subjects_max {
            let floors = self.floors.iter_mut().zip(&self.old.last);
            floors.for_each(|(floor, &last)| *floor = last.max(*floor));
            mem::swap(&mut self.young, &mut self.old);
            self.young.lost.clear();
        }
        let keys = &self.keys;
        self.young.lost.insert_unique(hash, (bits, number), |(bits, _)| keys.hash(*bits));
    }

    /// Of each rule the greatest number that was noted.
    pub(super) fn last(&self) -> impl Iterator<Item = u64> {
        self.young.last.iter().zip(&self.old.last).map(|(&young, &old)| young.max(old))
    }

    /// Of each rule: of what is not listed nothing above this number was lost.
    pub(super) fn floors(&self) -> &[u64] {
        &self.floors
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

    /// Takes over another one's list and, of each rule, its floor and the greatest number in the
    /// list, beside what was noted here.
    pub(super) fn take_over(&mut self, rules: &[(u64, u64)], list: &[(u64, u64)]) {
        let mut whole = Evicted::bounded(self.floors.len(), self.subjects_max);
        let last: Vec<u64> =
            self.last().zip(rules).map(|(own, &(_, last))| own.max(last)).collect();
        for (floor, (own, (theirs, _))) in
            whole.floors.iter_mut().zip(self.floors.iter().zip(rules))
        {
            *floor = *own.max(theirs);
        }
        let least = whole.floors.iter().min().copied().unwrap_or(0);
        let mut all: Vec<(u64, u64)> =
            self.list().into_iter().chain(list.iter().copied()).collect();
        all.sort_unstable_by_key(|&(bits, number)| (number, bits));
        for (bits, number) in all.into_iter().filter(|&(_, number)| number > least) {
            whole.note_bits(bits, number);
            // Of which rule it is, is not known here.
            for (noted, &last) in whole.young.last.iter_mut().zip(&last) {
                *noted = number.min(last).max(*noted);
            }
        }
        *self = whole;
    }

    /// The number of the last event that `subject` has lost, or a greater one, if it is listed.
    pub(super) fn listed(&self, subject: Id) -> Option<u64> {
        let bits = subject.lasting_bits();
        let hash = self.keys.hash(bits);
        let find = |generation: &Generation| {
            let lost = generation.lost.find(hash, |(other, _)| *other == bits)?;
            Some(lost.1)
        };
        // What came out of its order may be greater in the older one.
        find(&self.young).max(find(&self.old))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> Id {
        Id::integer(number).unwrap()
    }

    /// No event of `subject`, which is of `rule`, above this number was lost.
    fn newest(evicted: &Evicted, subject: u64, rule: u16) -> u64 {
        evicted.listed(id(subject)).unwrap_or(evicted.floors()[usize::from(rule)])
    }

    #[test]
    fn newest_is_never_below_what_was_lost_and_exact_for_the_last() {
        let mut evicted = Evicted::bounded(1, 50);
        for number in 1..1_500 {
            evicted.note(id(number % 250), number, 0);
            let newest = |lost: u64| newest(&evicted, lost % 250, 0);
            assert!((1..=number).all(|lost| newest(lost) >= lost));
            assert!((1..=number).rev().take(50).all(|lost| newest(lost) == lost));
        }
        assert_eq!(newest(&evicted, 250, 0), 1_400, "not further up than it must be");
    }

    #[test]
    fn few_subjects_are_known_for_ever() {
        let mut evicted = Evicted::bounded(1, 100);
        (1..1_000).for_each(|number| evicted.note(id(number % 100), number, 0));
        assert_eq!((newest(&evicted, 99, 0), newest(&evicted, 100, 0)), (999, 0));
    }

    /// Subjects of the second rule are forgotten long after those of the first.
    #[test]
    fn floor_of_a_rule_is_not_raised_by_what_others_lose() {
        let mut evicted = Evicted::bounded(2, 50);
        for number in 1_000..3_000 {
            evicted.note(id(number % 250), number, 0);
            if number % 10 == 0 {
                evicted.note(id(1_000 + number), number / 10, 1);
            }
            let least = newest(&evicted, 9_999, 1);
            assert!(least <= number / 10, "{least} when {number} is lost of others");
            let lost = (1_000..=number).filter(|lost| lost % 10 == 0);
            assert!(lost.clone().all(|lost| newest(&evicted, 1_000 + lost, 1) >= lost / 10));
        }
        assert!(newest(&evicted, 9_999, 0) > 2_000 && newest(&evicted, 9_999, 1) > 200);
        let mut successor = Evicted::bounded(2, 50);
        let rules: Vec<(u64, u64)> = evicted.floors().iter().copied().zip(evicted.last()).collect();
        successor.take_over(&rules, &evicted.list());
        assert_eq!(successor.floors(), evicted.floors());
        assert!(successor.last().eq(evicted.last()));
    }

    #[test]
    fn successor_knows_of_each_subject_what_this_one_knows() {
        let mut evicted = Evicted::bounded(1, 50);
        let hand_over = |evicted: &Evicted, successor: &mut Evicted| {
            let rules: Vec<(u64, u64)> =
                evicted.floors().iter().copied().zip(evicted.last()).collect();
            successor.take_over(&rules, &evicted.list());
        };
        for number in 1..1_500 {
            evicted.note(id(number * number % 250), number, 0);
            let mut successor = Evicted::bounded(1, 50);
            hand_over(&evicted, &mut successor);
            assert!(
                (0..250).all(|subject| {
                    newest(&successor, subject, 0) == newest(&evicted, subject, 0)
                })
            );
            assert!(successor.last().eq(evicted.last()));
        }
        let mut successor = Evicted::bounded(1, 50);
        successor.note(id(1), 1, 0);
        successor.note(id(2), 2_000, 0);
        hand_over(&evicted, &mut successor);
        assert_eq!(
            (newest(&successor, 1, 0), newest(&successor, 2, 0)),
            (newest(&evicted, 1, 0), 2_000)
        );
        (2_001..2_200).for_each(|number| successor.note(id(number), number, 0));
        assert!(
            (0..250)
                .all(|subject| { newest(&successor, subject, 0) >= newest(&evicted, subject, 0) })
        );
    }
}
