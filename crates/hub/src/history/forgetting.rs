//! What is forgotten, and by which rule.

use super::kept::Aged;
use super::{History, State};
use crate::id::Id;

/// How long an event keeps its frames, unless room is short: those who are to be sent it have it
/// then, but for slow ones.
pub(super) const WARM_MS: u64 = 1_000;

impl<F> History<F> {
    /// Forgets the oldest events until the others have room.
    pub(super) fn forget_beyond(&self, state: &mut State<F>) {
        while state.kept.bytes() > self.bytes_max && self.forget_oldest(state) > 0 {}
    }

    /// Counts the newest event of all for `subject`, which has it, if its rule bounds the bytes of
    /// its lines, and forgets its oldest that are over. One that is over by itself stays until the
    /// next one comes or it is too old, so that last events are forgotten in their order. Nobody
    /// reads it meanwhile.
    pub(super) fn bound_bytes(&self, state: &mut State<F>, subject: Id, rule: u16) {
        let bytes_max = self.rules.bytes_max(rule);
        if bytes_max == u64::MAX {
            return;
        }
        state.kept.count_newest(subject);
        while state.kept.counted(subject) > bytes_max {
            if state.kept.events_of(subject) == 1 {
                return state.kept.lose_only(subject);
            }
            self.forget(state, subject);
        }
    }

    /// Forgets what is too old, at most so many events by each rule. `true` when there is more.
    pub(super) fn forget_aged(&self, state: &mut State<F>, now_ms: u64, most: usize) -> bool {
        let mut is_more = false;
        for (rule, bounds) in self.rules.bounds().iter().enumerate() {
            let is_aged = |at_ms: u64| now_ms.saturating_sub(at_ms) > bounds.age_ms_max;
            let aged = |state: &mut State<F>| state.kept.next_aged(rule as u16, is_aged);
            is_more |= (0..most).all(|_| match aged(state) {
                Aged::Of(subject) => {
                    self.forget(state, subject);
                    true
                }
                Aged::OfAnotherRule => true,
                Aged::None => false,
            });
        }
        is_more
    }

    /// The number of the rule for `subject`, or of its pair of them.
    pub(super) fn rule_of(&self, state: &State<F>, subject: Id) -> u16 {
        if self.rules.is_one() {
            return 0;
        }
        state.kept.rule_of(subject).unwrap_or_else(|| {
            let text = self.names.text(subject);
            text.map_or(0, |text| self.rules.pair_of(&text))
        })
    }

    /// No event of `subject` above this number was lost with its last one, as far as that matters
    /// for those above `claimed`.
    pub(super) fn lost_last(&self, state: &State<F>, subject: Id, claimed: u64) -> u64 {
        let evicted = &state.evicted;
        if let Some(lost) = evicted.listed(subject) {
            return lost;
        }
        match evicted.floors().iter().max() {
            // Where one is lower, that may be the subject's.
            Some(&floor) if floor > claimed && !self.rules.is_one() => {
                evicted.floors()[usize::from(self.rule_of(state, subject))]
            }
            floor => floor.copied().unwrap_or(0),
        }
    }

    /// Forgets the oldest event of all, of each of its subjects: what is forgotten so is forgotten
    /// in ascending order. Of how many subjects that was.
    fn forget_oldest(&self, state: &mut State<F>) -> usize {
        let Some((_, oldest)) = state.kept.oldest_number() else { return 0 };
        let mut subjects = 0;
        while let Some((subject, number)) = state.kept.oldest_number()
            && number == oldest
        {
            self.forget(state, subject);
            subjects += 1;
        }
        subjects
    }

    /// Forgets the oldest event of `subject`.
    pub(super) fn forget(&self, state: &mut State<F>, subject: Id) {
        let rule = self.rule_of(state, subject);
        if let Some((number, true)) = state.kept.pop(subject) {
            state.evicted.note(subject, number, rule);
            self.names.release(subject);
        }
    }
}

/// Forgets the frames of the next `most` events that have had their time, or of the next ones that
/// nobody is being sent any more when it is `urgent`. `true` when there may be more.
pub(super) fn cool<F>(state: &mut State<F>, now_ms: u64, urgent: bool, most: usize) -> bool {
    let until_ms = now_ms.checked_sub(WARM_MS);
    (urgent || until_ms.is_some()) && state.kept.cool(until_ms.unwrap_or(0), urgent, most)
}
