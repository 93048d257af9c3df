//! Tests of the queue and of what is in flight.

use super::*;

const HEAD: Head = Head { incarnation: 5, batch: 0, after: 9, chain: 1 };

fn event(line: &str) -> Event {
    Event { subject: "1".into(), line: line.into(), ..Event::default() }
}

/// What is to be published now: message ids, and how many events.
fn due(publisher: &mut Publisher, now_ms: u64) -> Vec<(String, usize)> {
    let (mut told, mut out) = (Vec::new(), Vec::new());
    publisher.fill(now_ms, HEAD, false);
    publisher.tick(now_ms, &mut told, &mut out);
    assert_eq!(told, []);
    let events = |record: &[u8]| match Record::decode(record).unwrap().body {
        Body::Events(events) => events.len(),
        _ => 0,
    };
    out.into_iter().map(|(id, record)| (id.0, events(&record))).collect()
}

fn told(publisher: &mut Publisher, now_ms: u64) -> Vec<TicketOutcome> {
    let mut told = Vec::new();
    publisher.tick(now_ms, &mut told, &mut Vec::new());
    told
}

fn id(text: &str) -> MessageId {
    MessageId(text.to_owned())
}

#[test]
fn what_comes_while_a_batch_is_on_its_way_is_the_next_one() {
    let mut publisher = Publisher::default();
    publisher.submit(0, event("a")).unwrap();
    assert_eq!(due(&mut publisher, 0), [("5.1".to_owned(), 1)]);
    (0..3).for_each(|_| _ = publisher.submit(1, event("b")).unwrap());
    assert_eq!(due(&mut publisher, 499), []);
    assert_eq!(due(&mut publisher, 500), [("5.1".to_owned(), 1)], "again, under the same id");
    publisher.published(510, &id("5.1"), Published::At(10));
    assert_eq!(due(&mut publisher, 510), [("5.2".to_owned(), 3)]);
    assert_eq!(publisher.settle(5, 1).unwrap().tickets, [Some(Ticket(1))]);
    assert_eq!(publisher.settle(5, 1), None);
    assert_eq!(publisher.settle(5, 2).unwrap().tickets.len(), 3);
    assert_eq!(publisher.outstanding(), 0);
}

#[test]
fn batch_has_as_many_events_as_a_record_holds_and_an_order_is_alone() {
    let mut publisher = Publisher::default();
    let large = "x".repeat(RECORD_BYTES_MAX / 3);
    (0..3).for_each(|_| _ = publisher.submit(0, event(&large)).unwrap());
    publisher.submit_order(0, Order::Logout("1".into())).unwrap();
    (0..RECORD_EVENTS_MAX + 1).for_each(|_| _ = publisher.submit(0, event("a")).unwrap());
    let mut batches = Vec::new();
    for batch in 1..=5 {
        batches.extend(due(&mut publisher, batch).into_iter().map(|(_, events)| events));
        publisher.published(batch, &id(&format!("5.{batch}")), Published::At(batch));
    }
    assert_eq!(batches, [2, 1, 0, RECORD_EVENTS_MAX, 1]);
    assert_eq!(publisher.queue_bytes, 0);
    let longest = "x".repeat(EVENT_BYTES_MAX);
    assert_eq!(publisher.submit(0, event(&longest)), Err(NotTaken::TooLarge));
}

#[test]
fn senders_are_told_after_ten_seconds_and_the_batch_stays_in_flight() {
    let mut publisher = Publisher::default();
    publisher.submit(0, event("a")).unwrap();
    due(&mut publisher, 0);
    publisher.submit(1, event("b")).unwrap();
    assert_eq!(publisher.deadline(), Some(500));
    assert_eq!(told(&mut publisher, SEND_DEADLINE_MS), [(Ticket(1), Outcome::MayBeSent)]);
    assert_eq!(told(&mut publisher, SEND_DEADLINE_MS + 1), [(Ticket(2), Outcome::NotSent)]);
    assert_eq!(publisher.settle(5, 1).unwrap().tickets, [None]);
}

#[test]
fn what_will_not_count_goes_again_in_its_order_but_for_what_nobody_waits_for() {
    let mut publisher = Publisher::default();
    for (now_ms, line) in [(0, "a"), (1, "b"), (2, "c")] {
        publisher.submit(now_ms, event(line)).unwrap();
        due(&mut publisher, now_ms);
        publisher.published(now_ms, &id(&format!("5.{}", now_ms + 1)), Published::At(now_ms));
    }
    publisher.submit(3, event("d")).unwrap();
    told(&mut publisher, SEND_DEADLINE_MS);
    publisher.requeue(0);
    publisher.fill(0, HEAD, false);
    let tickets = publisher.settle(5, 4).unwrap().tickets;
    assert_eq!(tickets, [Some(Ticket(2)), Some(Ticket(3)), Some(Ticket(4))]);
}

/// A batch that went back to the queue because it was not read before a leave, and which the log
/// says later to have had before that leave, was read otherwise by all others: they have it twice.
#[test]
fn batch_that_the_log_had_before_it_went_back_is_missed() {
    for (at, missed) in [(6, true), (7, true), (8, false)] {
        let mut publisher = Publisher::default();
        publisher.submit(0, event("a")).unwrap();
        due(&mut publisher, 0);
        publisher.requeue(7);
        publisher.published(1, &id("5.9"), Published::At(1));
        assert!(!publisher.misses(7), "that is no batch of ours");
        publisher.published(1, &id("5.1"), Published::At(at));
        assert_eq!(publisher.misses(7), missed, "at {at}");
        publisher.abandon(&mut Vec::new());
        assert!(!publisher.misses(7), "another log has begun");
    }
}

#[test]
fn full_queue_takes_nothing_more() {
    let mut publisher = Publisher::default();
    let large = "x".repeat(EVENT_BYTES_MAX - 100);
    let taken = (0..QUEUE_BYTES_MAX).take_while(|_| publisher.submit(0, event(&large)).is_ok());
    assert_eq!(taken.count(), QUEUE_BYTES_MAX / (EVENT_BYTES_MAX - 86));
    assert_eq!(publisher.submit_order(0, Order::Logout(large)), Err(NotTaken::Full));
}

#[test]
fn who_proves_makes_a_batch_without_events_where_nothing_else_is_in_flight() {
    let mut publisher = Publisher::default();
    publisher.fill(0, HEAD, true);
    publisher.fill(PROVE_MS, HEAD, true);
    assert_eq!((publisher.outstanding(), publisher.prove_deadline()), (1, None));
    assert_eq!(publisher.settle(5, 1), Some(Settled { made_ms: 0, tickets: Vec::new() }));
    assert_eq!(publisher.prove_deadline(), Some(PROVE_MS));
    publisher.fill(PROVE_MS - 1, HEAD, true);
    assert_eq!(publisher.outstanding(), 0);
    publisher.submit(PROVE_MS - 1, event("a")).unwrap();
    publisher.fill(PROVE_MS - 1, HEAD, true);
    assert_eq!(publisher.settle(5, 2).unwrap().made_ms, PROVE_MS - 1, "any batch is a proof");
    // What is in flight at its leave proves nothing, and the next one is made at once.
    publisher.fill(2 * PROVE_MS, HEAD, true);
    publisher.requeue(0);
    assert_eq!((publisher.queued(), publisher.prove_deadline()), (0, Some(0)));
}

#[test]
fn rooms_take_turns_with_events_and_are_forgotten_with_the_place() {
    let mut publisher = Publisher::default();
    let rooms = || vec![RoomNote::Want("7".into())];
    publisher.submit(0, event("a")).unwrap();
    publisher.submit(0, event("b")).unwrap();
    assert!(publisher.submit_rooms(rooms()));
    assert!(!publisher.submit_rooms(rooms()), "one at a time");
    assert_eq!(due(&mut publisher, 0), [("5.1".to_owned(), 0)], "what is said of rooms");
    assert!(publisher.submit_rooms(rooms()));
    publisher.published(1, &id("5.1"), Published::At(10));
    assert_eq!(due(&mut publisher, 1), [("5.2".to_owned(), 2)], "then the events");
    publisher.published(2, &id("5.2"), Published::At(11));
    assert_eq!(due(&mut publisher, 2), [("5.3".to_owned(), 0)]);
    assert_eq!(publisher.settle(5, 1), Some(Settled { made_ms: 0, tickets: Vec::new() }));
    assert!(publisher.submit_rooms(rooms()));
    publisher.requeue(9);
    assert_eq!((publisher.queued(), publisher.outstanding()), (2, 0), "the events wait again");
    assert_eq!(due(&mut publisher, 3), [("5.4".to_owned(), 2)]);
    publisher.published(4, &id("5.4"), Published::At(20));
    assert_eq!(due(&mut publisher, 4), [], "nothing of rooms is left");
}
