//! The bytes of the lines of each subject whose rule bounds them; of no other subject.
//!
//! Cost: a look-up with each event of such a subject that comes or goes, 17 bytes a subject and the
//! room that a table leaves free. They are not counted among the bytes of events.

use super::Kept;
use crate::id::Id;

impl<F> Kept<F> {
    /// Counts the line of the newest event of all for `subject`, which has it.
    pub(in crate::history) fn count_newest(&mut self, subject: Id) {
        let line = self.event(self.newest).json().len() as u64;
        let Kept { keys, tally, .. } = self;
        let hash = keys.hash(subject.to_bits());
        match tally.find_mut(hash, |(counted, _)| *counted == subject) {
            Some((_, bytes)) => *bytes += line,
            None => {
                let hash_of = |(counted, _): &(Id, u64)| keys.hash(counted.to_bits());
                tally.insert_unique(hash, (subject, line), hash_of);
            }
        }
    }

    /// The bytes of the lines of `subject`, if they are counted.
    pub(in crate::history) fn counted(&self, subject: Id) -> u64 {
        let hash = self.keys.hash(subject.to_bits());
        self.tally.find(hash, |(counted, _)| *counted == subject).map_or(0, |(_, bytes)| *bytes)
    }

    /// How many subjects have any that are counted.
    #[cfg(test)]
    pub(in crate::history) fn subjects_counted(&self) -> usize {
        self.tally.len()
    }

    /// The only event of `subject` counts as lost: nobody reads it any more.
    pub(in crate::history) fn lose_only(&mut self, subject: Id) {
        let Some(first) = self.first_slot(subject) else { return };
        let first = &mut self.slots[first as usize];
        debug_assert_eq!(first.events(), 1, "what is read begins behind the last one that is lost");
        first.lost = first.number;
    }

    /// The event of a slot is about to leave its subject.
    pub(super) fn uncount(&mut self, slot: u32) {
        if self.tally.is_empty() {
            return;
        }
        let (subject, line) = (self.slots[slot as usize].subject, self.event(slot).json().len());
        let hash = self.keys.hash(subject.to_bits());
        let same = |(counted, _): &(Id, u64)| *counted == subject;
        let Ok(mut counted) = self.tally.find_entry(hash, same) else { return };
        counted.get_mut().1 -= line as u64;
        // No line is empty.
        if counted.get().1 == 0 {
            counted.remove();
        }
    }
}
