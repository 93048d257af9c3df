//! Which channels and members backends know of: pure state, told the time.
//!
//! | it | comes | goes | its grace is over |
//! | --- | --- | --- | --- |
//! | is known | | waits for its grace, unless somebody is there | |
//! | is not known | told, and known | known, and waits: it was there before | |
//! | waits for its grace | waits no more | waits on | told gone, unless somebody is there |
//!
//! A channel is told before its members, and gone behind them. Cost of one that is known: some 60
//! bytes, and its names.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// How long one must be gone.
pub(super) const GRACE_MS: u64 = 1000 * pusher::limits::WEBHOOK_GRACE_SECONDS;

/// Graces that were ended early by somebody who has come back, and are passed over, beside those
/// that wait.
const PASSED_OVER: usize = 1024;

/// Those who are known. A subject is a channel, or a member of one.
pub(super) struct Known<S> {
    /// When the grace of each is over, if it waits.
    subjects: HashMap<S, Option<u64>>,
    /// In the order in which they went.
    graces: VecDeque<(u64, S)>,
}

impl<S> Default for Known<S> {
    fn default() -> Known<S> {
        Known { subjects: HashMap::new(), graces: VecDeque::new() }
    }
}

impl<S: Clone + Eq + Hash> Known<S> {
    /// Whether `subject` is known.
    pub(super) fn has(&self, subject: &S) -> bool {
        self.subjects.contains_key(subject)
    }

    /// Puts in `subject`, which is not known. Whoever calls has kept its names, until it is taken
    /// out.
    pub(super) fn insert(&mut self, subject: S) {
        let before = self.subjects.insert(subject, None);
        debug_assert!(before.is_none(), "its names are kept twice");
    }

    /// `subject` is known and has changed: somebody is there at `now_ms`, or nobody is.
    pub(super) fn look(&mut self, subject: &S, is_there: bool, now_ms: u64) {
        let Some(over_ms) = self.subjects.get_mut(subject) else { return };
        if is_there {
            *over_ms = None;
        } else if over_ms.is_none() {
            *over_ms = Some(now_ms + GRACE_MS);
            self.graces.push_back((now_ms + GRACE_MS, subject.clone()));
        }
        if self.graces.len() > 2 * self.subjects.len() + PASSED_OVER {
            let subjects = &self.subjects;
            self.graces.retain(|(over_ms, subject)| subjects.get(subject) == Some(&Some(*over_ms)));
        }
    }

    /// Takes the next one out whose grace is over at `now_ms`.
    pub(super) fn take_over(&mut self, now_ms: u64) -> Option<S> {
        while let Some((over_ms, subject)) = self.graces.pop_front_if(|(over, _)| *over <= now_ms) {
            if self.subjects.get(&subject) == Some(&Some(over_ms)) {
                self.subjects.remove(&subject);
                self.subjects.shrink_to(2 * self.subjects.len());
                return Some(subject);
            }
        }
        None
    }

    /// Takes `subject` out, whatever has become of it.
    pub(super) fn forget(&mut self, subject: &S) {
        self.subjects.remove(subject);
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<S> {
        self.subjects.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: u8 = 7;

    #[test]
    fn one_that_is_back_within_its_grace_was_never_gone() {
        let (mut known, channel) = (Known::default(), CHANNEL);
        known.insert(channel);
        known.look(&channel, false, 0);
        known.look(&channel, false, 100);
        assert_eq!(known.take_over(GRACE_MS - 1), None);
        known.look(&channel, true, GRACE_MS - 1);
        assert_eq!(known.take_over(10 * GRACE_MS), None);
        // The second time it waits anew.
        known.look(&channel, false, 20 * GRACE_MS);
        assert_eq!(known.take_over(21 * GRACE_MS - 1), None);
        assert_eq!(known.take_over(21 * GRACE_MS), Some(channel));
        assert!(!known.has(&channel) && known.take_over(u64::MAX).is_none());
    }

    #[test]
    fn flapping_takes_no_memory() {
        let (mut known, channel) = (Known::default(), CHANNEL);
        known.insert(channel);
        for ms in 0..100_000 {
            known.look(&channel, ms % 2 == 0, ms);
            assert!(known.graces.len() <= 2 + PASSED_OVER);
        }
    }
}
