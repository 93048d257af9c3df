//! Channels and members of which a full webhook has refused an event: pure state.
//!
//! Once the webhook has room it is told of each whether it is there *then*. So what it believes in
//! the end is what is so, though changes in between are left out. A webhook that refuses goes on
//! like that until nothing is left to be told; what was refused up to then is *settled* once all
//! of it was taken.
//!
//! Cost: of each that was refused its name and some 50 bytes, up to a bound of one webhook, and to
//! one of all of them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::hook_rooms::{channel_subject, parse_subject};
use crate::subject_rooms::Subject;
use crate::webhook::SharedBytes;

/// As many as events that may wait, and the bytes of their names. Of more nothing is kept.
const REFUSED_MAX: usize = 65_536;
const REFUSED_BYTES_MAX: usize = 4 << 20;

/// What all webhooks together may keep, and what one costs beside its name.
const ALL_REFUSED_BYTES_MAX: usize = 16 << 20;
const REFUSED_COST: usize = 50;

/// Settled places that wait until what stands before them was taken; of more the last one stands
/// for those before it.
const PLACES_MAX: usize = 64;

/// What one webhook has refused.
pub(super) struct Refused {
    subjects: BTreeSet<Subject>,
    /// Of their names.
    bytes: usize,
    all: Arc<SharedBytes>,
    /// How many were refused from the beginning.
    count: u64,
    /// Up to how many all are settled, and how many events must be taken before that is so.
    places: VecDeque<(u64, u64)>,
    settled: u64,
}

impl Refused {
    /// What webhooks share that each have one.
    pub(super) fn shared() -> Arc<SharedBytes> {
        Arc::new(SharedBytes::new(ALL_REFUSED_BYTES_MAX))
    }

    /// One of those who share the room of `all`.
    pub(super) fn sharing(all: Arc<SharedBytes>) -> Refused {
        let (subjects, places) = (BTreeSet::new(), VecDeque::new());
        Refused { subjects, bytes: 0, all, count: 0, places, settled: 0 }
    }

    /// An event about `subject` was refused.
    pub(super) fn note(&mut self, subject: Subject) {
        let len = subject.len();
        if self.subjects.contains(&subject) {
            self.count += 1;
            return;
        }
        let is_within = self.subjects.len() < REFUSED_MAX && self.bytes + len <= REFUSED_BYTES_MAX;
        if is_within && self.all.has_room_for(self.cost()) {
            (self.count, self.bytes) = (self.count + 1, self.bytes + len);
            self.all.take(len + REFUSED_COST);
            self.subjects.insert(subject);
        }
    }

    /// What they count for.
    fn cost(&self) -> usize {
        self.bytes + self.subjects.len() * REFUSED_COST
    }

    /// Whether nothing is to be told.
    pub(super) fn is_empty(&self) -> bool {
        self.subjects.is_empty()
    }

    /// How many were refused from the beginning.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The next one to be told of. Of a channel and its members whoever has gone goes first, so a
    /// channel's members stand before it; `is_there` says who is there, whose channel is first.
    pub(super) fn next(&self, is_there: impl Fn(&Subject) -> bool) -> Option<(Subject, bool)> {
        let first = self.subjects.first()?;
        if !is_there(first) {
            return Some((Arc::clone(first), false));
        }
        let channel = parse_subject(first).map(|(channel, _)| channel_subject(channel));
        let channel = channel.filter(|channel| self.subjects.contains(channel));
        match channel {
            Some(channel) if is_there(&channel) => Some((channel, true)),
            _ => Some((Arc::clone(first), true)),
        }
    }

    /// The webhook was told of `subject` as it is now, by one of the first `events` events, or does
    /// not want to know.
    pub(super) fn told(&mut self, subject: &Subject, events: u64) {
        if !self.subjects.remove(subject) {
            return;
        }
        self.bytes -= subject.len();
        self.all.give_back(subject.len() + REFUSED_COST);
        if self.subjects.is_empty() {
            if self.places.len() >= PLACES_MAX {
                self.places.pop_back();
            }
            self.places.push_back((self.count, events));
        }
    }

    /// Whether the first `count` that were refused are settled, now that so many events were taken.
    pub(super) fn is_settled(&mut self, count: u64, taken: u64) -> bool {
        while let Some((up_to, _)) = self.places.pop_front_if(|(_, events)| *events <= taken) {
            self.settled = up_to;
        }
        count <= self.settled
    }
}

impl Drop for Refused {
    fn drop(&mut self) {
        self.all.give_back(self.cost());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook_rooms::member_subject;

    fn empty() -> Refused {
        Refused::sharing(Refused::shared())
    }

    #[test]
    fn members_go_before_their_channel_and_come_behind_it() {
        let of = |there: &'static [&'static str]| {
            let mut refused = empty();
            for subject in ["b~", "a/eve", "a~", "a/bob"] {
                refused.note(subject.into());
            }
            let is_there = |subject: &Subject| there.contains(&&**subject);
            let mut told = Vec::new();
            while let Some((subject, is_there)) = refused.next(is_there) {
                refused.told(&subject, 0);
                told.push(format!("{}{subject}", if is_there { '+' } else { '-' }));
            }
            told.join(" ")
        };
        assert_eq!(of(&[]), "-a/bob -a/eve -a~ -b~");
        assert_eq!(of(&["a~", "a/bob", "b~"]), "+a~ +a/bob -a/eve +b~");
        assert_eq!(of(&["a~", "a/eve"]), "-a/bob +a~ +a/eve -b~");
    }

    #[test]
    fn what_was_refused_is_settled_when_all_of_it_was_told_and_taken() {
        let mut refused = empty();
        assert!(refused.is_settled(0, 0));
        for subject in ["a~", "b~", "a~"] {
            refused.note(subject.into());
        }
        assert_eq!(refused.count(), 3);
        refused.told(&"a~".into(), 7);
        assert!(!refused.is_settled(1, 100), "b is not told");
        refused.note("c~".into());
        refused.told(&"b~".into(), 8);
        refused.told(&"c~".into(), 9);
        assert!(!refused.is_settled(3, 8) && refused.is_settled(4, 9));
        refused.note("a~".into());
        assert!(refused.is_settled(4, 9) && !refused.is_settled(5, 9));
    }

    #[test]
    fn what_is_kept_of_it_is_bounded_in_number_and_in_bytes() {
        let mut refused = empty();
        (0..2 * REFUSED_MAX).for_each(|n| refused.note(channel_subject(&n.to_string())));
        assert_eq!((refused.subjects.len(), refused.count()), (REFUSED_MAX, REFUSED_MAX as u64));
        let mut refused = empty();
        let long = "x".repeat(200);
        (0..REFUSED_MAX).for_each(|n| refused.note(member_subject(&long, &n.to_string())));
        assert!((REFUSED_BYTES_MAX - 300..=REFUSED_BYTES_MAX).contains(&refused.bytes));
        while let Some((subject, _)) = refused.next(|_| true) {
            refused.told(&subject, 0);
        }
        assert_eq!((refused.bytes, refused.places.len()), (0, 1));
    }

    #[test]
    fn webhooks_that_refuse_much_leave_room_for_others_and_give_all_back() {
        let all = Arc::new(SharedBytes::new(1_000));
        let [mut much, mut other] = [0; 2].map(|_| Refused::sharing(Arc::clone(&all)));
        (0..100).for_each(|n| much.note(format!("{n:049}~").into()));
        assert_eq!(much.subjects.len(), 5, "half of a room for ten");
        other.note("a~".into());
        assert!(!other.is_empty(), "there is room for another webhook");
        let first = much.next(|_| true).unwrap().0;
        much.told(&first, 0);
        drop((much, other));
        assert!(all.has_room_for(999), "all is given back");
    }
}
