//! Of which channels the number of subscribers is to be told, and when: pure state, told the time.
//!
//! A change is told at once; of a channel with many subscribers every few seconds at most. Cost of
//! a channel whose number was told: some 40 bytes, and its name.

use std::collections::HashMap;

use hub::Id;
use pusher::limits::{COUNT_AT_ONCE_MAX, COUNT_INTERVAL_SECONDS};

#[derive(Clone, Copy, Default)]
struct Number {
    told: u64,
    told_at_ms: Option<u64>,
    /// It has changed, perhaps, since it was told.
    is_changed: bool,
    /// It was looked at, and is not told before.
    early_until_ms: u64,
}

/// The numbers that were told.
#[derive(Default)]
pub(super) struct ReportedCounts {
    numbers: HashMap<Id, Number>,
    /// Those that have changed.
    changed: Vec<Id>,
}

impl ReportedCounts {
    /// Subscribers of `channel` have come or gone. Whether it was not known: then whoever calls has
    /// kept its name, until that is [given back](ReportedCounts::due).
    pub(super) fn note(&mut self, channel: Id) -> bool {
        let is_new = !self.numbers.contains_key(&channel);
        let number = self.numbers.entry(channel).or_default();
        if !std::mem::replace(&mut number.is_changed, true) {
            self.changed.push(channel);
        }
        is_new
    }

    /// Those whose number may be told now, as many as `most`.
    pub(super) fn ready(&self, now_ms: u64, most: usize) -> Vec<Id> {
        let is_ready = |channel: &&Id| {
            self.numbers.get(channel).is_some_and(|number| now_ms >= number.early_until_ms)
        };
        self.changed.iter().filter(is_ready).take(most).copied().collect()
    }

    /// Puts each channel whose number is to be told now, and the number, into `due`, and the
    /// channels that nobody hears any more into `gone`. One whose `count` is not known now waits.
    pub(super) fn due(
        &mut self,
        now_ms: u64,
        count: impl Fn(Id) -> Option<u64>,
        due: &mut Vec<(Id, u64)>,
        gone: &mut Vec<Id>,
    ) {
        let numbers = &mut self.numbers;
        self.changed.retain(|&channel| {
            let Some(number) = numbers.get_mut(&channel) else { return false };
            let Some(now) = count(channel) else { return true };
            let interval_ms = 1000 * COUNT_INTERVAL_SECONDS;
            let is_early = now > COUNT_AT_ONCE_MAX
                && number.told_at_ms.is_some_and(|at_ms| now_ms < at_ms + interval_ms);
            if now != number.told {
                if is_early {
                    let at_ms = number.told_at_ms.unwrap_or_default();
                    number.early_until_ms = at_ms + interval_ms;
                    return true;
                }
                due.push((channel, now));
                (number.told, number.told_at_ms) = (now, Some(now_ms));
            }
            number.is_changed = false;
            if now == 0 {
                numbers.remove(&channel);
                gone.push(channel);
            }
            false
        });
        numbers.shrink_to(2 * numbers.len());
    }

    /// The number of `channel` could not be told: it is to be told later.
    pub(super) fn is_pending(&mut self, channel: Id) {
        let Some(number) = self.numbers.get_mut(&channel) else { return };
        (number.told, number.told_at_ms) = (u64::MAX, None);
        if !std::mem::replace(&mut number.is_changed, true) {
            self.changed.push(channel);
        }
    }

    /// All channels whose number was told, or is to be told.
    pub(super) fn all(&self) -> Vec<Id> {
        self.numbers.keys().copied().collect()
    }

    /// The number of `channel` is told no more. Whoever calls gives its name back.
    pub(super) fn forget(&mut self, channel: Id) {
        self.numbers.remove(&channel);
    }

    /// All may have changed.
    pub(super) fn note_all(&mut self) {
        for (&channel, number) in &mut self.numbers {
            if !std::mem::replace(&mut number.is_changed, true) {
                self.changed.push(channel);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(counted: &mut ReportedCounts, now_ms: u64, now: u64) -> (Vec<u64>, usize) {
        let (mut due, mut gone) = (Vec::new(), Vec::new());
        counted.due(now_ms, |_| Some(now), &mut due, &mut gone);
        (due.into_iter().map(|(_, number)| number).collect(), gone.len())
    }

    #[test]
    fn change_is_told_once_and_that_of_a_crowd_every_five_seconds() {
        let (mut counted, id) = (ReportedCounts::default(), Id::integer(1).unwrap());
        assert!(counted.note(id) && !counted.note(id));
        assert_eq!(told(&mut counted, 0, 1), (vec![1], 0));
        assert_eq!(told(&mut counted, 50, 2), (vec![], 0), "nobody has noted that");
        counted.note(id);
        assert_eq!(told(&mut counted, 100, 101), (vec![], 0), "a crowd");
        assert_eq!(told(&mut counted, 4_999, 150), (vec![], 0));
        assert_eq!(told(&mut counted, 5_000, 160), (vec![160], 0));
        counted.note(id);
        assert_eq!(told(&mut counted, 5_050, 100), (vec![100], 0), "it is none any more");
        counted.note(id);
        assert_eq!(told(&mut counted, 5_100, 100), (vec![], 0), "somebody came for who went");
        counted.note(id);
        assert_eq!(told(&mut counted, 5_200, 0), (vec![0], 1));
        assert!(counted.note(id), "it is forgotten");
    }

    #[test]
    fn number_that_is_not_known_waits_and_that_of_a_crowd_is_not_asked_for_early() {
        let (mut counted, id) = (ReportedCounts::default(), Id::integer(1).unwrap());
        counted.note(id);
        counted.note(Id::integer(2).unwrap());
        assert_eq!(counted.ready(0, 9).len(), 2);
        assert_eq!(counted.ready(0, 1), [id]);
        let (mut due, mut gone) = (Vec::new(), Vec::new());
        let known = |channel| (channel == id).then_some(200);
        counted.due(0, known, &mut due, &mut gone);
        assert_eq!((&*due, gone.len()), (&[(id, 200)][..], 0));
        assert_eq!(counted.ready(50, 9), [Id::integer(2).unwrap()]);
        counted.note(id);
        assert_eq!(counted.ready(50, 9).len(), 2);
        counted.due(50, |channel| (channel == id).then_some(201), &mut due, &mut gone);
        assert_eq!(
            (due.len(), counted.ready(4_999, 9).len(), counted.ready(5_000, 9).len()),
            (1, 1, 2)
        );
    }

    #[test]
    fn what_cannot_be_told_is_told_later() {
        let (mut counted, id) = (ReportedCounts::default(), Id::integer(1).unwrap());
        counted.note(id);
        assert_eq!(told(&mut counted, 0, 3), (vec![3], 0));
        counted.is_pending(id);
        assert_eq!(told(&mut counted, 50, 3), (vec![3], 0));
    }
}
