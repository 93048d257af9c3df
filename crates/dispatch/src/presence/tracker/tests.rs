//! Graces, clients that flap, and the bound.

use super::*;

fn id(number: u64) -> Id {
    Id::integer(number).unwrap()
}

/// What is told of these changes of id 1: `(at, is_online)` each.
fn told(tracker: &mut Tracker, changes: &[(u64, bool)]) -> Vec<Settled> {
    let mut outcomes = Vec::new();
    for &(at_ms, is_online) in changes {
        over(tracker, at_ms, &mut outcomes);
        tracker.note(Change { id: id(1), is_online }, at_ms, &mut outcomes);
    }
    outcomes
}

fn over(tracker: &mut Tracker, now_ms: u64, outcomes: &mut Vec<Settled>) {
    while let Some(outcome) = tracker.next_over(now_ms, |_| false) {
        outcomes.push(outcome);
    }
}

#[test]
fn id_is_online_at_once_and_offline_after_its_grace() {
    let mut tracker = Tracker::new(5_000);
    let mut outcomes = told(&mut tracker, &[(0, true), (100, false)]);
    assert_eq!(outcomes, [Settled::Online(id(1))]);
    over(&mut tracker, 5_099, &mut outcomes);
    assert_eq!((outcomes.len(), tracker.len()), (1, 1));
    over(&mut tracker, 5_100, &mut outcomes);
    assert_eq!((&outcomes[1..], tracker.len()), (&[Settled::Offline(id(1))][..], 0));
}

#[test]
fn client_that_flaps_within_its_grace_is_told_once() {
    let mut tracker = Tracker::new(5_000);
    let flaps: Vec<(u64, bool)> = (0..1_000).map(|n| (n * 4_999, n % 2 == 0)).collect();
    let mut outcomes = told(&mut tracker, &flaps);
    over(&mut tracker, u64::MAX, &mut outcomes);
    // Each change has its outcome, so that each note's name is let go.
    assert_eq!(outcomes.len(), flaps.len());
    outcomes.retain(|outcome| *outcome != Settled::Nothing(id(1)));
    assert_eq!(outcomes, [Settled::Online(id(1)), Settled::Offline(id(1))]);
    assert_eq!((tracker.waiting.capacity(), tracker.queue.len()), (0, 0));
}

#[test]
fn without_a_grace_each_end_is_told() {
    let mut tracker = Tracker::new(0);
    let told = told(&mut tracker, &[(0, true), (0, false), (1, true)]);
    assert_eq!(told, [Settled::Online(id(1)), Settled::Offline(id(1)), Settled::Online(id(1))]);
}

#[test]
fn one_who_is_there_although_its_coming_was_lost_is_not_told_offline() {
    let mut tracker = Tracker::new(5_000);
    assert_eq!(told(&mut tracker, &[(0, false), (1, false)]), [Settled::Nothing(id(1))]);
    assert_eq!(tracker.next_over(5_000, |_| true), None, "a note may be on its way");
    assert_eq!(tracker.next_over(10_000, |_| true), Some(Settled::Nothing(id(1))));
    assert_eq!(tracker.next_over(u64::MAX, |_| true), None);
}

/// Its note is read behind the end of its grace, and it came before.
#[test]
fn one_who_is_back_within_its_grace_is_not_told_online_again() {
    let mut tracker = Tracker::new(5_000);
    assert_eq!(told(&mut tracker, &[(0, false)]), []);
    assert_eq!(tracker.next_over(5_000, |_| true), None);
    assert_eq!(told(&mut tracker, &[(5_050, true)]), [Settled::Nothing(id(1)); 2]);
    assert_eq!(tracker.len(), 0);
}

#[test]
fn of_too_many_who_wait_the_first_is_told_early() {
    let mut tracker = Tracker { graces_max: 3, ..Tracker::new(5_000) };
    let mut outcomes = Vec::new();
    for n in 1..=5 {
        tracker.note(Change { id: id(n), is_online: false }, n, &mut outcomes);
    }
    assert_eq!(outcomes, [Settled::Offline(id(1)), Settled::Offline(id(2))]);
    assert_eq!((tracker.len(), tracker.take_early(), tracker.take_early()), (3, 2, 0));
    assert_eq!(tracker.clear().count(), 3);
    assert_eq!((tracker.len(), tracker.next_over(u64::MAX, |_| false)), (0, None));
}
