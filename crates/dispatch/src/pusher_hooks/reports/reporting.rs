//! What the node that reports has told, and waits to tell.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::{Change, SubjectChanges};
use crate::pusher_hooks::told::Known;
use crate::subject_rooms::Subject;

/// While this node reports.
pub(super) struct Reporting<M> {
    pub(super) known: Known<Subject>,
    pub(super) now_ms: u64,
    /// What is applied may have been told by another node.
    pub(super) is_beginning: bool,
    /// Those who had gone then, and of whom that node may have told so.
    pub(super) doubtful: HashSet<Subject>,
    /// Changes up to this one, counted from the beginning, wait for no grace any more.
    pub(super) decided: u64,
    /// What shows that all up to a change was taken.
    pub(super) marks: VecDeque<(u64, M)>,
}

impl<M> Reporting<M> {
    /// A subject has come or gone.
    pub(super) fn apply(&mut self, change: &Change, told: &mut SubjectChanges) {
        self.pass(change.at_ms, told);
        let subject = &change.subject;
        if !change.is_there {
            self.known.look(subject, false, self.now_ms);
            if self.is_beginning {
                self.doubtful.insert(Arc::clone(subject));
            }
        } else if self.known.has(subject) {
            self.known.look(subject, true, self.now_ms);
            if self.doubtful.remove(subject) {
                told.push((Arc::clone(subject), true));
            }
        } else {
            self.known.insert(Arc::clone(subject));
            told.push((Arc::clone(subject), true));
        }
    }

    /// Ends the graces that are over.
    pub(super) fn pass(&mut self, now_ms: u64, told: &mut SubjectChanges) {
        self.now_ms = self.now_ms.max(now_ms);
        while let Some(subject) = self.known.take_over(self.now_ms) {
            self.doubtful.remove(&subject);
            told.push((subject, false));
        }
    }
}
