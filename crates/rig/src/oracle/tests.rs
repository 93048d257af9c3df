//! The oracle against runs in which one thing is wrong.

use super::*;

/// Events by those who are to hear them.
struct Named;

impl Audience for Named {
    type Event = &'static [usize];

    fn expected(&self, event: &Self::Event, listener: usize) -> Expected {
        if event.contains(&listener) { Expected::Must } else { Expected::MustNot }
    }

    fn count(&self, event: &Self::Event) -> u32 {
        event.len() as u32
    }
}

/// Two listeners, and as many events for both as are asked for, acknowledged with ids from 10 on.
struct Run {
    oracle: Oracle<Named>,
    listeners: [Listener; 2],
}

impl Run {
    fn of(events: u64) -> Run {
        let mut oracle = Oracle::new(Named);
        for number in 0..events {
            assert_eq!(oracle.send(&[0, 1]), number);
            let id = EventId::from(10 + number);
            let answer = Answer::Acknowledged { id, delivered: 2, at_least: false };
            assert_eq!(oracle.answer(number, answer), None);
        }
        Run { oracle, listeners: [Listener::remembering(), Listener::remembering()] }
    }

    /// Hears events by number, under their own ids.
    fn hear(&mut self, listener: usize, numbers: &[u64]) -> Vec<Fault> {
        let own = &mut self.listeners[listener];
        let hear =
            |&number: &u64| self.oracle.hear(own, listener, EventId::from(10 + number), number);
        numbers.iter().flat_map(hear).collect()
    }

    /// What is missed, by listener; and the sums: lost, doubled, out of order, strays.
    fn end(mut self) -> (Vec<Missed>, [u64; 4]) {
        let missed = self.oracle.missed(&self.listeners);
        let totals = self.oracle.settle();
        (missed, [totals.lost, totals.doubled, totals.out_of_order, totals.strays])
    }
}

#[test]
fn run_in_which_all_hear_all_in_order_has_no_fault() {
    let mut run = Run::of(3);
    for listener in [0, 1] {
        assert_eq!(run.hear(listener, &[0, 1, 2]), []);
    }
    assert!(run.oracle.is_settled());
    assert_eq!(run.oracle.totals.heard, 6);
    assert_eq!(run.end(), (vec![], [0; 4]));
}

#[test]
fn wrong_delivery_is_found() {
    let mut run = Run::of(1);
    let number = run.oracle.send(&[0]);
    assert_eq!(run.hear(1, &[0, number]), [Fault::Stray]);
    assert_eq!(run.hear(0, &[0, number]), []);
    // What nobody has sent is nobody's.
    assert_eq!(run.hear(0, &[7]), [Fault::NeverSent]);
    assert_eq!(run.end().1, [0, 0, 0, 1]);
    let mut run = Run::of(0);
    let number = run.oracle.send(&[0]);
    run.oracle.answer(number, Answer::NotSent);
    assert_eq!(run.hear(0, &[number]), [Fault::NotSent]);
}

#[test]
fn double_is_found_at_once_later_and_under_another_id() {
    let mut run = Run::of(2);
    assert_eq!(run.hear(0, &[0, 0]), [Fault::Doubled]);
    assert_eq!(run.hear(0, &[1, 0]), [Fault::OutOfOrder, Fault::Doubled]);
    assert_eq!(run.hear(1, &[0, 1]), []);
    let other = run.oracle.hear(&mut Listener::default(), 1, 99, 1);
    assert_eq!(other, [Fault::OtherId(11)]);
    assert_eq!(run.end(), (vec![], [0, 3, 1, 0]));
    // Heard before it was answered.
    let mut oracle = Oracle::new(Named);
    let number = oracle.send(&[0]);
    assert_eq!(oracle.hear(&mut Listener::default(), 0, 5, number), []);
    let answer = Answer::Acknowledged { id: 6, delivered: 1, at_least: false };
    assert_eq!(oracle.answer(number, answer), Some(Fault::OtherId(5)));
    // By counts alone, where nothing is remembered and no order is broken.
    let mut oracle = Oracle::new(Named);
    let number = oracle.send(&[0]);
    for _ in 0..2 {
        oracle.hear(&mut Listener::default(), 0, 5, number);
    }
    assert_eq!(oracle.settle().doubled, 1);
}

#[test]
fn double_of_an_event_that_is_forgotten_is_found() {
    let mut run = Run::of(2);
    run.hear(0, &[0, 1]);
    run.hear(1, &[0, 1]);
    run.oracle.forget(|_| false);
    assert!(run.oracle.event(1).is_none());
    let faults = run.oracle.hear(&mut Listener::default(), 0, 11, 1);
    assert_eq!(faults, [Fault::Doubled]);
}

#[test]
fn swap_is_found() {
    let mut run = Run::of(3);
    assert_eq!(run.hear(0, &[0, 2, 1]), [Fault::OutOfOrder]);
    assert_eq!(run.hear(1, &[0, 1, 2]), []);
    // All was heard, if not in order.
    assert_eq!(run.end(), (vec![], [0, 0, 1, 0]));
}

#[test]
fn loss_is_found_in_the_middle_and_at_the_end() {
    let mut run = Run::of(3);
    assert_eq!(run.hear(0, &[0, 2]), []);
    assert_eq!(run.hear(1, &[0, 1]), []);
    assert!(!run.oracle.is_settled());
    // Whether the last would still have come, its listener does not know; the counts do.
    assert_eq!(run.end(), (vec![Missed { listener: 0, number: 1 }], [2, 0, 0, 0]));
    let mut run = Run::of(3);
    run.hear(0, &[0, 1, 2]);
    run.hear(1, &[0, 1]);
    run.listeners[1].place(12);
    assert_eq!(run.end().0, [Missed { listener: 1, number: 2 }]);
}

#[test]
fn event_without_an_answer_is_heard_by_all_or_by_nobody() {
    let heard_by = |listeners: &[usize]| {
        let mut run = Run::of(0);
        let number = run.oracle.send(&[0, 1]);
        run.oracle.answer(number, Answer::Missing);
        listeners.iter().for_each(|&listener| assert_eq!(run.hear(listener, &[number]), []));
        let totals = run.oracle.settle();
        (totals.lost, totals.heard_without_answer)
    };
    assert_eq!((heard_by(&[]), heard_by(&[0, 1]), heard_by(&[0])), ((0, 0), (0, 1), (1, 0)));
}

#[test]
fn what_is_behind_a_gap_is_not_missed_and_a_place_is_no_way_back() {
    let mut run = Run::of(4);
    run.hear(0, &[0]);
    run.listeners[0].gap();
    assert_eq!(run.hear(0, &[2, 3]), []);
    run.hear(1, &[0, 1, 2, 3]);
    assert_eq!(run.listeners[1].place(13), Order::Next);
    assert_eq!(run.listeners[1].place(12), Order::Behind);
    assert_eq!(run.end().0, []);
}

#[test]
fn event_that_stays_open_holds_up_nothing() {
    let mut run = Run::of(1);
    let number = run.oracle.send(&[0]);
    run.hear(0, &[0, number]);
    run.oracle.forget(|_| true);
    assert_eq!((run.oracle.first, run.oracle.aside.len()), (2, 2));
    assert_eq!(run.hear(1, &[0]), []);
    assert_eq!(run.end().1, [0; 4]);
}

#[test]
fn sums_of_instruments_tell_losses_and_doubles() {
    let good = Sums { sent: 3, acknowledged: 3, delivered: 6, heard: 6, ..Sums::default() };
    let faults = |sums| Totals::of(sums).faults().map(|(count, _)| count);
    assert_eq!(faults(good), [0; 7]);
    assert_eq!(faults(Sums { heard: 5, ..good })[0], 1);
    assert_eq!(faults(Sums { missing: 1, ..good })[0], 1);
    assert_eq!(faults(Sums { heard: 7, ..good })[1], 1);
    assert_eq!(faults(Sums { heard: 7, at_least: 1, ..good })[1], 0);
    assert_eq!(faults(Sums { out_of_order: 1, ..good })[2], 1);
    assert_eq!(Totals::of(Sums { acknowledged: 1, refused: 1, ..good }).unanswered, 1);
}

#[test]
fn id_is_its_sixteen_characters() {
    let id = event_id("0000000000000007").unwrap();
    assert!(id < event_id("0000000000000008").unwrap());
    assert_eq!((event_id_text(id).as_str(), event_id("7")), ("0000000000000007", None));
}
