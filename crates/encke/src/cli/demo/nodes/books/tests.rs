//! Tests of what the books make of events that are heard by all, by some, again and late.

use super::super::super::friends::Friends;
use super::*;

/// Two users, of whom 0 follows 1, online.
fn books() -> Books {
    let books = Books::new(Audiences::of(&Friends::new(2, 1, false)).unwrap());
    (0..2).for_each(|_| books.open().come(None));
    books
}

/// Sends until an event is about user 1, whom both hear; those before are never answered.
fn send(open: &mut Open) -> u64 {
    loop {
        let (number, subject) = open.send(0);
        if subject == 1 {
            return number;
        }
    }
}

fn acknowledged(id: u128, delivered: u64) -> Answer {
    Answer::Acknowledged { id, delivered, at_least: false }
}

#[test]
fn event_that_all_heard_once_is_in_order() {
    let books = books();
    let mut open = books.open();
    let number = send(&mut open);
    let mut last = [0; 2];
    open.hear(0, &mut last[0], 7, number, 1_000_000);
    assert!(!open.is_settled());
    open.answer(number, acknowledged(7, 2), 2_000_000);
    open.hear(1, &mut last[1], 7, number, 1_000_000);
    let (totals, times) = open.settle();
    assert_eq!((totals.lost, totals.doubled, totals.out_of_order), (0, 0, 0), "{totals:?}");
    assert_eq!((totals.heard, totals.delivered, totals.miscounted), (2, 2, 0), "{totals:?}");
    assert_eq!((times.latency.count, times.answers.count), (2, 1));
}

#[test]
fn event_that_one_did_not_hear_is_lost() {
    let books = books();
    let mut open = books.open();
    let numbers = [send(&mut open), send(&mut open), send(&mut open)];
    open.answer(numbers[0], acknowledged(7, 2), 0);
    open.hear(0, &mut 0, 7, numbers[0], 0);
    // Without an answer it is all or nobody.
    open.answer(numbers[1], Answer::Missing, 0);
    open.answer(numbers[2], Answer::Refused, 0);
    open.hear(1, &mut 7, 8, numbers[1], 0);
    let totals = open.settle().0;
    assert_eq!((totals.lost, totals.heard_without_answer), (2, 0), "{totals:?}");
}

#[test]
fn event_that_comes_again_is_doubled_and_one_that_comes_late_is_told() {
    let books = books();
    let mut open = books.open();
    let numbers = [send(&mut open), send(&mut open)];
    let mut last = [0; 2];
    for (number, id) in numbers.into_iter().zip([7, 8]) {
        open.answer(number, acknowledged(id, 2), 0);
        open.hear(0, &mut last[0], id, number, 0);
    }
    open.hear(0, &mut last[0], 8, numbers[1], 0);
    open.hear(1, &mut last[1], 8, numbers[1], 0);
    open.hear(1, &mut last[1], 7, numbers[0], 0);
    // The same event under another id, and one that is closed.
    open.hear(1, &mut last[1], 9, numbers[1], 0);
    let totals = open.settle().0;
    assert_eq!((totals.lost, totals.doubled, totals.out_of_order), (0, 2, 1), "{totals:?}");
}

#[test]
fn counts_must_be_true_while_nobody_comes_or_goes() {
    let books = books();
    let mut open = books.open();
    let number = send(&mut open);
    open.answer(number, acknowledged(7, 1), 0);
    assert_eq!(open.totals.miscounted, 1);
    let number = send(&mut open);
    open.go();
    open.answer(number, acknowledged(8, 1), 0);
    assert_eq!((open.totals.miscounted, open.online()), (1, 1));
    open.come(Some(Duration::from_secs(1)));
    let number = send(&mut open);
    let answer = Answer::Acknowledged { id: 9, delivered: 1, at_least: true };
    open.answer(number, answer, 0);
    let (totals, times) = open.settle();
    assert_eq!((totals.miscounted, totals.resumed, times.away.count), (1, 1, 1), "{totals:?}");
}

#[test]
fn stranger_who_hears_an_event_is_told() {
    let books = books();
    let mut open = books.open();
    let number = loop {
        let (number, subject) = open.send(0);
        if subject == 0 {
            break number;
        }
    };
    open.hear(1, &mut 0, 7, number, 0);
    assert_eq!(open.totals.strays, 1);
}

#[test]
fn event_that_stays_open_holds_up_nothing() {
    let books = books();
    let mut open = books.open();
    let (number, subject) = open.send(0);
    open.answer(number, Answer::Missing, OPEN_NS);
    assert_eq!((open.events.len(), open.aside.len()), (0, 1));
    for listener in 0..2 {
        if open.audiences.has(subject, listener) {
            open.hear(listener, &mut 0, 7, number, OPEN_NS);
        }
    }
    let totals = open.settle().0;
    assert_eq!((totals.lost, totals.heard_without_answer), (0, 1), "{totals:?}");
}
