//! What the memory lacks of a subject, for whoever has an archive to read it from.
//!
//! Cost: a look-up of each subject, under the lock for a slice of them.

use super::{History, State};
use crate::id::Id;

/// A subject of which some events may have been forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lack {
    /// The subject.
    pub subject: Id,
    /// No event about it above this number was forgotten.
    pub up_to: u64,
}

impl<F> History<F> {
    /// Puts those of `subjects` into `lacks` of which an event above the number `after` may have
    /// been forgotten.
    ///
    /// Asked after [`History::since`] it says where the events that were found there begin at the
    /// latest: what was forgotten in between was read, and comes again with what is read below.
    pub fn lacking(&self, subjects: &[Id], after: u64, lacks: &mut Vec<Lack>) {
        let state = self.lock();
        let lack = |&subject: &Id| Lack { subject, up_to: self.lost(&state, subject, after) };
        lacks.extend(subjects.iter().map(lack).filter(|lack| lack.up_to > after));
    }

    /// No event about `subject` above this number was forgotten, as far as that matters for those
    /// above the number `after`.
    pub(super) fn lost(&self, state: &State<F>, subject: Id, after: u64) -> u64 {
        let lost = state.kept.lost_of(subject).max(self.lost_last(state, subject, after));
        lost.max(state.floor)
    }
}
