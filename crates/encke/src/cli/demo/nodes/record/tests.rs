//! Tests of what the record makes of events that are heard by all, by some, again and late.

use super::super::super::friends::Friends;
use super::*;

/// Two users, of whom 0 follows 1, online.
fn record() -> Record {
    let record = Record::new(Audiences::of(&Friends::new(2, 1, false)).unwrap());
    (0..2).for_each(|_| record.open().come(None));
    record
}

/// Sends until an event is about `subject`, whose number is returned; those before are never
/// answered. Both hear what is about user 1.
fn send(open: &mut Open, subject: u32) -> u64 {
    loop {
        let (number, about) = open.send(0);
        if about == subject {
            return number;
        }
    }
}

fn listeners() -> [Listener; 2] {
    [Listener::default(), Listener::default()]
}

fn acknowledged(id: u128, delivered: u64) -> Answer {
    Answer::Acknowledged { id, delivered, at_least: false }
}

#[test]
fn event_that_all_heard_once_is_in_order() {
    let record = record();
    let mut open = record.open();
    let number = send(&mut open, 1);
    let [mut one, mut other] = listeners();
    open.hear(&mut one, 0, (7, number), 1_000_000);
    assert!(!open.is_settled());
    open.answer(number, acknowledged(7, 2), 2_000_000);
    open.hear(&mut other, 1, (7, number), 1_000_000);
    let (totals, times) = open.settle();
    assert_eq!((totals.lost, totals.doubled, totals.out_of_order), (0, 0, 0), "{totals:?}");
    assert_eq!((totals.heard, totals.delivered, totals.miscounted), (2, 2, 0), "{totals:?}");
    assert_eq!((times.latency.count, times.answers.count), (2, 1));
}

#[test]
fn event_that_one_did_not_hear_is_lost() {
    let record = record();
    let mut open = record.open();
    let numbers = [send(&mut open, 1), send(&mut open, 1), send(&mut open, 1)];
    let [mut one, mut other] = listeners();
    open.answer(numbers[0], acknowledged(7, 2), 0);
    open.hear(&mut one, 0, (7, numbers[0]), 0);
    // Without an answer it is all or nobody.
    open.answer(numbers[1], Answer::Missing, 0);
    open.answer(numbers[2], Answer::Refused, 0);
    open.hear(&mut other, 1, (8, numbers[1]), 0);
    let totals = open.settle().0;
    assert_eq!((totals.lost, totals.heard_without_answer), (2, 0), "{totals:?}");
}

#[test]
fn event_that_comes_again_is_doubled_and_one_that_comes_late_is_told() {
    let record = record();
    let mut open = record.open();
    let numbers = [send(&mut open, 1), send(&mut open, 1)];
    let [mut one, mut other] = listeners();
    for (number, id) in numbers.into_iter().zip([7, 8]) {
        open.answer(number, acknowledged(id, 2), 0);
        open.hear(&mut one, 0, (id, number), 0);
    }
    open.hear(&mut one, 0, (8, numbers[1]), 0);
    open.hear(&mut other, 1, (8, numbers[1]), 0);
    open.hear(&mut other, 1, (7, numbers[0]), 0);
    // An event under another id, which is closed.
    open.hear(&mut other, 1, (9, numbers[1]), 0);
    let (totals, times) = open.settle();
    assert_eq!((totals.lost, totals.doubled, totals.out_of_order), (0, 2, 1), "{totals:?}");
    assert_eq!(times.latency.count, 4);
}

#[test]
fn counts_must_be_true_while_nobody_comes_or_goes() {
    let record = record();
    let mut open = record.open();
    let number = send(&mut open, 1);
    open.answer(number, acknowledged(7, 1), 0);
    assert_eq!(open.totals().miscounted, 1);
    let number = send(&mut open, 1);
    open.go();
    open.answer(number, acknowledged(8, 1), 0);
    assert_eq!((open.totals().miscounted, open.online()), (1, 1));
    open.come(Some(Duration::from_secs(1)));
    let number = send(&mut open, 1);
    let answer = Answer::Acknowledged { id: 9, delivered: 1, at_least: true };
    open.answer(number, answer, 0);
    let (totals, times) = open.settle();
    assert_eq!((totals.miscounted, totals.resumed, times.away.count), (1, 1, 1), "{totals:?}");
}

#[test]
fn listener_who_hears_what_it_does_not_follow_is_told() {
    let record = record();
    let mut open = record.open();
    let number = send(&mut open, 0);
    open.hear(&mut Listener::default(), 1, (7, number), 0);
    assert_eq!(open.totals().strays, 1);
}

#[test]
fn event_of_another_sender_is_not_looked_at() {
    let record = record();
    let mut open = record.open();
    open.hear(&mut Listener::default(), 1, (7, u64::MAX), 0);
    assert_eq!(open.settle().0, Totals::default());
}

#[test]
fn gap_is_counted() {
    let record = record();
    let mut open = record.open();
    open.gap(&mut Listener::default());
    assert_eq!(open.totals().gaps, 1);
}

#[test]
fn event_that_stays_open_is_checked_when_it_comes_late() {
    let record = record();
    let mut open = record.open();
    let number = send(&mut open, 1);
    open.answer(number, Answer::Missing, OPEN_NS);
    let [mut one, mut other] = listeners();
    open.hear(&mut one, 0, (7, number), OPEN_NS);
    open.hear(&mut other, 1, (7, number), OPEN_NS);
    let totals = open.settle().0;
    assert_eq!((totals.lost, totals.heard_without_answer), (0, 1), "{totals:?}");
}
