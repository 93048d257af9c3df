//! What webhooks of one app are to be told of its channels over all nodes of a cluster: pure state,
//! told what the log says and the time.
//!
//! All nodes read the same changes of who is there, in one order, and keep those of which the
//! webhooks may not have been told. One node *reports* them: of the nodes that have the app, the
//! one that has been a member for longest. It says now and then up to which record all was taken.
//! What is kept of up to there is forgotten everywhere. So whoever reports next goes on behind it:
//! what may not have been taken is told once more, in the order in which it happened.
//!
//! | this node | what it knows | what it does |
//! | --- | --- | --- |
//! | reads its first list | who is there, not who was told of | asks others what was not taken |
//! | hears that, or that all up to its list was taken | both | keeps changes |
//! | is to report, and knows both | | tells what it keeps, and all that comes |
//! | is to report, and no other node knows | | tells of all who are there |
//! | loses a part of the log | both, as of before | takes the next list for changes |
//!
//! When the node that reports is another one, all say up to where the one before has told them that
//! all was taken. So whoever reports next repeats nothing that another one knows to be taken. If it
//! is killed in the midst of that, the one behind it repeats all that it may have told.
//!
//! Graces are counted by the clock of the node that reports. So the one before may have told that a
//! channel was vacated which for this one is back in time, also later. The node that begins to
//! report says of such a channel once more that it is occupied.
//!
//! Cost: a subject that is there takes some 60 bytes and its name at each node, and once more at
//! the one that reports. A change that is not taken yet takes some 50 bytes.

mod reporting;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use self::reporting::Reporting;
use super::told::{GRACE_MS, Known};
use crate::subject_rooms::Subject;

/// Changes that are kept, as many as may wait for a webhook. Of more the oldest are taken for told:
/// the list stays true.
const KEPT_MAX: usize = 65_536;

/// Marks that wait; of more the last one stands for those before it.
const MARKS_MAX: usize = 256;

/// Subjects that have come (`true`) or gone, in the order in which webhooks are to be told.
pub(super) type SubjectChanges = Vec<(Subject, bool)>;

/// A subject has come or gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Change {
    /// The record that said so.
    pub(super) sequence: u64,
    /// When this node read it.
    pub(super) at_ms: u64,
    pub(super) subject: Subject,
    pub(super) is_there: bool,
}

/// What one node knows. `M` shows how far webhooks were told.
pub(super) struct Reports<M> {
    there: HashSet<Subject>,
    /// The record at which the list was settled, while it is.
    settled_at: Option<u64>,
    /// Whether there was a list before.
    had_list: bool,
    /// Whether what is not in `kept` is known to have been told.
    is_synced: bool,
    kept: VecDeque<Change>,
    /// Changes that were forgotten, from the beginning.
    forgotten: u64,
    /// The last record that was read, and up to which all is known to have been taken.
    read: u64,
    known_taken: u64,
    /// What the node before this one has not told up to a record.
    handed_over: Option<(u64, Vec<Change>)>,
    reporting: Option<Reporting<M>>,
}

impl<M> Reports<M> {
    /// One that has read nothing.
    pub(super) fn new() -> Reports<M> {
        Reports {
            there: HashSet::new(),
            settled_at: None,
            had_list: false,
            is_synced: false,
            kept: VecDeque::new(),
            forgotten: 0,
            read: 0,
            known_taken: 0,
            handed_over: None,
            reporting: None,
        }
    }

    /// The log was read up to the record `sequence`.
    pub(super) fn read(&mut self, sequence: u64) {
        self.read = sequence;
    }

    /// The list is settled behind the last record that was read.
    pub(super) fn settled(
        &mut self,
        subjects: Vec<Subject>,
        now_ms: u64,
        told: &mut SubjectChanges,
    ) {
        self.settled_at = Some(self.read);
        let list: HashSet<Subject> = subjects.into_iter().collect();
        if !std::mem::replace(&mut self.had_list, true) {
            self.there = list;
            return;
        }
        // Sequences of before may be those of another log.
        let read = self.read;
        self.kept.iter_mut().for_each(|change| change.sequence = read);
        let mut gone: Vec<Subject> = self.there.difference(&list).cloned().collect();
        let mut come: Vec<Subject> = list.difference(&self.there).cloned().collect();
        // Members stand before their channel: they go first, and come behind it.
        gone.sort();
        come.sort_by(|one, other| other.cmp(one));
        gone.into_iter().for_each(|subject| self.changed(subject, false, now_ms, told));
        come.into_iter().for_each(|subject| self.changed(subject, true, now_ms, told));
    }

    /// A subject has come or gone.
    pub(super) fn changed(
        &mut self,
        subject: Subject,
        is_there: bool,
        now_ms: u64,
        told: &mut SubjectChanges,
    ) {
        let is_new = match is_there {
            true => self.there.insert(Arc::clone(&subject)),
            false => self.there.remove(&subject),
        };
        if !is_new {
            return;
        }
        let change = Change { sequence: self.read, at_ms: now_ms, subject, is_there };
        if let Some(reporting) = &mut self.reporting {
            reporting.apply(&change, told);
        }
        if self.is_reporting() || !self.is_synced || self.read > self.known_taken {
            self.kept.push_back(change);
        }
        if self.kept.len() > KEPT_MAX {
            self.forget(1);
        }
    }

    /// The list is not known until it is settled again.
    pub(super) fn lost(&mut self) {
        self.settled_at = None;
        self.handed_over = None;
        self.reporting = None;
        self.known_taken = 0;
    }

    /// Whether it is known who is there.
    pub(super) fn has_list(&self) -> bool {
        self.settled_at.is_some()
    }

    /// Whether this node could report and no other one is needed for it.
    pub(super) fn is_synced(&self) -> bool {
        self.is_synced && self.settled_at.is_some()
    }

    /// The last record that this node has read, if it has a list and does not know what of it was
    /// told: it asks the others for what was not told up to there.
    pub(super) fn asks_up_to(&self) -> Option<u64> {
        self.settled_at.filter(|_| !self.is_synced).map(|_| self.read)
    }

    /// What may not have been told up to the record `at`, for another node that has a list of then.
    pub(super) fn kept_up_to(&self, at: u64) -> Option<impl Iterator<Item = &Change>> {
        let knows = self.is_synced && self.settled_at.is_some_and(|from| from <= at);
        let kept = self.kept.iter().take_while(move |change| change.sequence <= at);
        (knows && self.read >= at).then_some(kept)
    }

    /// Another node has said what may not have been told up to the record `at`.
    pub(super) fn sync(&mut self, at: u64, before: Vec<Change>) {
        if self.is_synced() || self.settled_at.is_none() {
            return;
        }
        self.is_synced = true;
        self.put_before(at, before);
    }

    /// What is kept of up to the record `at` is this.
    fn put_before(&mut self, at: u64, before: Vec<Change>) {
        let kept = self.kept.len();
        self.kept.retain(|change| change.sequence > at);
        self.forgotten += (kept - self.kept.len()) as u64;
        for mut change in before.into_iter().rev() {
            // The time does not go back, whatever the other one's clock says.
            let next_ms = self.kept.front().map_or(u64::MAX, |next| next.at_ms);
            change.at_ms = change.at_ms.min(next_ms);
            self.kept.push_front(change);
        }
    }

    /// The node that reports has said that all up to the record `sequence` was taken.
    pub(super) fn taken_up_to(&mut self, sequence: u64) {
        if self.reporting.is_some() {
            return;
        }
        if self.settled_at.is_some_and(|at| at <= sequence) {
            self.is_synced = true;
        }
        self.known_taken = self.known_taken.max(sequence);
        let taken = self.kept.iter().take_while(|change| change.sequence <= sequence).count();
        self.forget(taken);
    }

    /// What this node, which reports and tells nothing more, has not told: those who wait for their
    /// grace. All else up to the record with it was taken.
    pub(super) fn pending(&self) -> Option<(u64, Vec<&Change>)> {
        let reporting = self.reporting.as_ref()?;
        let last = self.kept.iter().map(|change| (&change.subject, change));
        let last: HashMap<&Subject, &Change> = last.collect();
        let waits = |change: &&Change| {
            let is_last =
                last.get(&change.subject).is_some_and(|last| std::ptr::eq(*last, *change));
            is_last && !change.is_there && change.at_ms + GRACE_MS > reporting.now_ms
        };
        Some((self.read, self.kept.iter().filter(waits).collect()))
    }

    /// The node that has reported has told all up to the record `at` but this, and tells nothing
    /// more.
    pub(super) fn handed_over(&mut self, at: u64, pending: Vec<Change>) {
        if self.reporting.is_none() {
            self.handed_over = Some((at, pending));
        }
    }

    /// Another node goes on with what was handed over: it is old where this one begins later.
    pub(super) fn passed_over(&mut self) {
        self.handed_over = None;
    }

    /// From now on this node reports. What it keeps is told.
    pub(super) fn begin(&mut self, now_ms: u64, told: &mut SubjectChanges) {
        // What has changed between a record and a list of later is not kept.
        let from = self.settled_at.unwrap_or_default();
        let handed_over = self.handed_over.take();
        let handed_over = handed_over.filter(|(at, _)| (from..=self.read).contains(at));
        let is_exact = handed_over.is_some();
        if let Some((at, pending)) = handed_over {
            self.put_before(at, pending);
            self.is_synced = true;
        }
        if !std::mem::replace(&mut self.is_synced, true) {
            // Nobody knows what was told: all who were there at first are.
            let sequence = self.settled_at.unwrap_or_default();
            let mut first: Vec<Subject> = self.base().into_iter().collect();
            first.sort();
            for subject in first {
                let change = Change { sequence, at_ms: 0, subject, is_there: true };
                self.kept.push_front(change);
            }
        }
        let mut known = Known::default();
        self.base().into_iter().for_each(|subject| known.insert(subject));
        let (decided, marks) = (self.forgotten, VecDeque::new());
        let (is_beginning, doubtful) = (!is_exact, HashSet::new());
        let mut reporting = Reporting { known, now_ms: 0, is_beginning, doubtful, decided, marks };
        self.kept.iter().for_each(|change| reporting.apply(change, told));
        reporting.pass(now_ms, told);
        reporting.is_beginning = false;
        self.reporting = Some(reporting);
    }

    /// Whether this node reports.
    pub(super) fn is_reporting(&self) -> bool {
        self.reporting.is_some()
    }

    /// From now on it does not. What was not taken it keeps.
    pub(super) fn end(&mut self) {
        self.reporting = None;
    }

    /// Time passes.
    pub(super) fn tick(&mut self, now_ms: u64, told: &mut SubjectChanges) {
        if let Some(reporting) = &mut self.reporting {
            reporting.pass(now_ms, told);
        }
    }

    /// All that was told until now has been handed to the webhooks, as `mark` shows. It is made
    /// only where there is something new. What a full queue has refused is in the mark, too.
    pub(super) fn handed(&mut self, mark: impl FnOnce() -> M) {
        let Some(Reporting { now_ms, decided, marks, .. }) = &mut self.reporting else { return };
        let before = *decided;
        let rest = self.kept.iter().skip((before - self.forgotten) as usize);
        // Whoever has gone was told of, or has come back, once its grace is over.
        let is_decided = |change: &&Change| change.is_there || change.at_ms + GRACE_MS <= *now_ms;
        *decided += rest.take_while(is_decided).count() as u64;
        if *decided == before {
            return;
        }
        if marks.len() >= MARKS_MAX {
            marks.pop_back();
        }
        marks.push_back((*decided, mark()));
    }

    /// Forgets what the webhooks have taken, as far as marks show it. Whether there was something.
    pub(super) fn take(&mut self, is_taken: impl Fn(&M) -> bool) -> bool {
        let Some(Reporting { marks, .. }) = &mut self.reporting else { return false };
        let mut up_to = self.forgotten;
        while let Some((decided, _)) = marks.pop_front_if(|(_, mark)| is_taken(mark)) {
            up_to = up_to.max(decided);
        }
        let taken = (up_to - self.forgotten) as usize;
        self.forget(taken);
        taken > 0
    }

    /// Up to which record all was taken, if this node reports.
    pub(super) fn taken(&self) -> Option<u64> {
        self.reporting.as_ref()?;
        self.taken_as_known()
    }

    /// Up to which record all was taken, as far as this node knows.
    pub(super) fn taken_as_known(&self) -> Option<u64> {
        if !self.is_synced() {
            return None;
        }
        let first = self.kept.front().map(|change| change.sequence.saturating_sub(1));
        Some(first.unwrap_or(self.read))
    }

    /// Whether this node, if it reports, has told last that `subject` is there.
    pub(super) fn knows(&self, subject: &Subject) -> bool {
        self.reporting.as_ref().is_some_and(|reporting| reporting.known.has(subject))
    }

    /// Those who are there.
    pub(super) fn there(&self) -> impl Iterator<Item = &Subject> {
        self.there.iter()
    }

    /// Those who were there before what is kept has changed that.
    fn base(&self) -> HashSet<Subject> {
        let mut first: HashMap<&Subject, bool> = HashMap::new();
        for change in &self.kept {
            first.entry(&change.subject).or_insert(change.is_there);
        }
        let is_unchanged = |subject: &&Subject| !first.contains_key(*subject);
        let mut base: HashSet<Subject> = self.there.iter().filter(is_unchanged).cloned().collect();
        let gone = first.iter().filter(|(_, is_there)| !**is_there);
        base.extend(gone.map(|(subject, _)| Subject::clone(subject)));
        base
    }

    fn forget(&mut self, changes: usize) {
        self.kept.drain(..changes);
        self.forgotten += changes as u64;
        if let Some(reporting) = &mut self.reporting {
            reporting.decided = reporting.decided.max(self.forgotten);
        }
        if self.kept.is_empty() {
            self.kept = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests;
