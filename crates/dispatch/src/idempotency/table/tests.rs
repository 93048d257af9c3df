//! The table of keys without a clock: what is claimed, remembered, refused and forgotten.

use super::super::key::OWN;
use super::*;

const TIME: u64 = 300_000;
const APPLICATION: KeyHolder<'static> = KeyHolder::Application("");
const ANSWER: Delivered = Delivered { count: 7, id: *b"2F3y6mQsYKmaB3xZ", at_least: false };

fn seconds(seconds: u64) -> u64 {
    seconds * 1000
}

fn send(table: &mut Table, key: u128, now_ms: u64) {
    assert!(matches!(table.claim(APPLICATION, key, 0, now_ms), Ok(Found::New(_))), "{key} is new");
    let place = table.remember(key, now_ms);
    table.answered(place, ANSWER);
}

#[test]
fn key_is_remembered_for_its_time_from_the_first_and_not_from_a_repeat() {
    let mut table = Table::new(10, TIME);
    send(&mut table, 1, seconds(10));
    for now in [seconds(10), seconds(200), seconds(310) - 1] {
        let Ok(Found::Answered(answer)) = table.claim(APPLICATION, 1, 0, now) else {
            panic!("{now}")
        };
        assert_eq!(answer, ANSWER);
    }
    send(&mut table, 1, seconds(310));
    assert!(matches!(table.claim(APPLICATION, 1, 0, seconds(609)), Ok(Found::Answered(_))));
}

/// More keys are over than one that comes forgets.
#[test]
fn key_that_is_sent_again_after_its_time_is_known_though_the_old_one_is_not_forgotten() {
    let mut table = Table::new(100, TIME);
    // The upper half is what the table goes by.
    let key = |number: u128| number << 64;
    (0..50).for_each(|number| send(&mut table, key(number), seconds(0)));
    send(&mut table, key(40), seconds(300));
    assert!(matches!(table.claim(APPLICATION, key(40), 0, seconds(300)), Ok(Found::Answered(_))));
    assert!(table.brought(key(41), 0, *b"2F3y6mQsYKmaB3xO", seconds(300)));
    assert!(!table.brought(key(41), 0, *b"2F3y6mQsYKmaB3xP", seconds(300)));
    assert_eq!(table.forget(seconds(300), 100), 42);
    assert!(matches!(table.claim(APPLICATION, key(40), 0, seconds(301)), Ok(Found::Answered(_))));
}

#[test]
fn key_with_another_body_is_refused_at_each_step() {
    let mut table = Table::new(10, TIME);
    let Ok(Found::New(_progress)) = table.claim(APPLICATION, 1, 5, seconds(0)) else { panic!() };
    assert_eq!(table.claim(APPLICATION, 1, 6, seconds(0)).unwrap_err(), Refusal::OtherBody);
    let place = table.remember(1, seconds(0));
    assert_eq!(table.claim(APPLICATION, 1, 6, seconds(0)).unwrap_err(), Refusal::OtherBody);
    table.answered(place, ANSWER);
    assert_eq!(table.claim(APPLICATION, 1, 6, seconds(0)).unwrap_err(), Refusal::OtherBody);
}

#[test]
fn full_table_refuses_new_keys_until_the_oldest_is_over_and_keeps_the_rest() {
    let mut table = Table::new(3, TIME);
    (0..2).for_each(|key| send(&mut table, key, seconds(key as u64)));
    let Ok(Found::New(_progress)) = table.claim(APPLICATION, 2, 0, seconds(2)) else { panic!() };
    for (now, retry_after) in [(2, 298), (299, 1)] {
        let refused = table.claim(APPLICATION, 9, 0, seconds(now)).unwrap_err();
        assert_eq!(refused, Refusal::Full { retry_after });
    }
    assert!(matches!(table.claim(APPLICATION, 0, 0, seconds(299)), Ok(Found::Answered(_))));
    send(&mut table, 9, seconds(300));
    assert_eq!(table.len(), 3);
    // A claim that is given up makes room as well.
    assert!(table.claim(APPLICATION, 10, 0, seconds(300)).is_err());
    table.give_up(2, seconds(0));
    send(&mut table, 10, seconds(300));
}

#[test]
fn clients_leave_a_part_of_the_places_to_applications() {
    let mut table = Table::new(8, TIME);
    let client = KeyHolder::Client { name: "client/bob", counted: None };
    for key in 0..6 {
        assert!(matches!(table.claim(client, key, 0, seconds(0)), Ok(Found::New(_))), "{key}");
        table.remember(key, seconds(0));
    }
    assert!(matches!(table.claim(client, 6, 0, seconds(1)), Err(Refusal::Full { .. })));
    assert!(matches!(table.claim(client, 5, 0, seconds(1)), Ok(Found::UnderWay(_))));
    (6..8).for_each(|key| send(&mut table, key, seconds(1)));
    assert!(matches!(table.claim(APPLICATION, 8, 0, seconds(1)), Err(Refusal::Full { .. })));
}

#[test]
fn client_is_told_when_it_has_a_place_where_applications_have_taken_those_left_to_them() {
    let mut table = Table::new(8, TIME);
    let client = KeyHolder::Client { name: "client/bob", counted: None };
    (0..8).for_each(|key| send(&mut table, key, seconds(10 * key as u64)));
    // Two are past the six of clients, so three must be over.
    for (now, retry_after) in [(100, 220), (319, 1)] {
        let refused = table.claim(client, 9, 0, seconds(now)).unwrap_err();
        assert_eq!(refused, Refusal::Full { retry_after }, "at {now} s");
    }
    table.forget(seconds(320), 10);
    assert!(matches!(table.claim(client, 9, 0, seconds(320)), Ok(Found::New(_))));
    // What a node sends by itself takes no place of a sender, and gives none back.
    let mut table = Table::new(2, TIME);
    assert!(table.brought(u128::from(OWN), 0, ANSWER.id, seconds(0)));
    (2..4).for_each(|key| send(&mut table, key, seconds(100)));
    let refused = table.claim(APPLICATION, 9, 0, seconds(200)).unwrap_err();
    assert_eq!(refused, Refusal::Full { retry_after: 200 });
}

#[test]
fn client_is_told_when_a_key_of_its_own_is_over_whoever_came_before() {
    let mut table = Table::new(128, TIME);
    let of = |name| KeyHolder::Client { name, counted: Some(name) };
    let mut claim = |holder, key, at| match table.claim(holder, key, 0, seconds(at)) {
        Ok(_) => {
            table.remember(key, seconds(at));
            None
        }
        Err(refusal) => Some(refusal),
    };
    assert_eq!((claim(of("carol"), 1, 0), claim(of("bob"), 2, 200)), (None, None));
    assert_eq!(claim(of("bob"), 3, 210), None);
    let refused = Refusal::Share { keys: 2, retry_after: 280 };
    assert_eq!(claim(of("bob"), 4, 220), Some(refused));
}

#[test]
fn client_has_a_share_of_the_places_until_the_time_of_its_keys_is_over() {
    let mut table = Table::new(128, TIME);
    let bob = KeyHolder::Client { name: "client/bob", counted: Some("client/bob") };
    let carol = KeyHolder::Client { name: "client/carol", counted: Some("client/carol") };
    let mut claim = |holder, key, at| match table.claim(holder, key, 0, seconds(at)) {
        Ok(Found::New(_)) => {
            table.remember(key, seconds(at));
            None
        }
        Ok(_) => panic!("{key} is new"),
        Err(refusal) => Some(refusal),
    };
    assert_eq!((claim(bob, 1, 0), claim(bob, 2, 10)), (None, None));
    assert_eq!(claim(bob, 3, 20), Some(Refusal::Share { keys: 2, retry_after: 280 }));
    assert_eq!((claim(carol, 4, 20), claim(APPLICATION, 5, 20)), (None, None));
    assert_eq!(claim(bob, 3, 300), None, "its first one is over");
    assert!(claim(bob, 6, 301).is_some());
    // What is not posted is not counted, and what it has sent before it may repeat.
    assert!(matches!(table.claim(bob, 3, 0, seconds(302)), Ok(Found::UnderWay(_))));
    let Ok(Found::New(_progress)) = table.claim(carol, 7, 0, seconds(302)) else { panic!() };
    assert!(table.claim(carol, 8, 0, seconds(302)).is_err());
    table.give_up(7, seconds(302));
    assert!(table.claim(carol, 8, 0, seconds(302)).is_ok());
}

#[test]
fn answer_that_comes_after_its_time_meets_no_other_key() {
    let mut table = Table::new(10, TIME);
    let Ok(Found::New(_progress)) = table.claim(APPLICATION, 1, 0, seconds(0)) else { panic!() };
    let late = table.remember(1, seconds(0));
    assert_eq!(table.forget(seconds(300), 10), 1);
    let Ok(Found::New(_progress)) = table.claim(APPLICATION, 2, 0, seconds(300)) else { panic!() };
    table.remember(2, seconds(300));
    table.answered(late, ANSWER);
    assert!(matches!(table.claim(APPLICATION, 2, 0, seconds(301)), Ok(Found::UnderWay(_))));
}

#[test]
fn first_event_that_the_log_brings_is_the_one_of_its_key_whatever_is_known_here() {
    const OURS: EventId = *b"2F3y6mQsYKmaB3xO";
    const OTHER: EventId = *b"2F3y6mQsYKmaB3xP";
    let known = |table: &mut Table, key| match table.claim(APPLICATION, key, 0, seconds(1)) {
        Ok(Found::Answered(Delivered { id, count: 0, at_least: true })) => id,
        other => panic!("{other:?}"),
    };
    let mut table = Table::new(10, TIME);
    // Nothing is.
    assert!(table.brought(1, 0, OTHER, seconds(0)) && !table.brought(1, 0, OURS, seconds(0)));
    assert_eq!(known(&mut table, 1), OTHER);
    assert_eq!(table.claim(APPLICATION, 1, 9, seconds(1)).unwrap_err(), Refusal::OtherBody);
    // It is being sent here.
    let Ok(Found::New(_progress)) = table.claim(APPLICATION, 2, 0, seconds(0)) else { panic!() };
    assert_eq!(table.first_of(2), None);
    assert!(table.brought(2, 0, OTHER, seconds(0)) && !table.brought(2, 0, OURS, seconds(0)));
    assert_eq!(table.first_of(2), Some((OTHER, 0)));
    table.give_up(2, seconds(0));
    assert_eq!(known(&mut table, 2), OTHER);
    // It was posted here, and is not counted yet.
    let Ok(Found::New(progress)) = table.claim(APPLICATION, 3, 0, seconds(0)) else { panic!() };
    assert!(table.brought(3, 0, OURS, seconds(0)));
    table.remember(3, seconds(0));
    progress.send_replace(Progress::Posted(OURS));
    assert!(!table.brought(3, 0, OTHER, seconds(0)));
    // Nobody knew whether the log has it.
    let Ok(Found::New(progress)) = table.claim(APPLICATION, 4, 0, seconds(0)) else { panic!() };
    table.remember(4, seconds(0));
    progress.send_replace(Progress::Unknown);
    assert!(table.brought(4, 0, OURS, seconds(0)) && !table.brought(4, 0, OTHER, seconds(0)));
    assert_eq!(known(&mut table, 4), OURS);
    // Its time is over.
    assert!(!table.brought(1, 0, OURS, seconds(299)) && table.brought(1, 0, OURS, seconds(300)));
}

#[test]
fn what_the_log_brings_is_bounded_and_posted_all_the_same() {
    let mut table = Table::new(3, TIME);
    for key in 0..10 {
        assert!(table.brought(key, 0, ANSWER.id, seconds(0)));
    }
    assert_eq!(table.len(), 6);
    assert!(matches!(table.claim(APPLICATION, 20, 0, seconds(0)), Err(Refusal::Full { .. })));
}

#[test]
fn memory_grows_with_use_and_is_given_back() {
    const KEYS: usize = 100_000;
    let mut table = Table::new(KEYS, TIME);
    assert_eq!(table.bytes(), 0);
    (0..KEYS).for_each(|key| send(&mut table, spread(key), seconds(0)));
    assert!(table.claim(APPLICATION, spread(KEYS), 0, seconds(0)).is_err());
    for key in 0..KEYS {
        assert!(matches!(
            table.claim(APPLICATION, spread(key), 0, seconds(299)),
            Ok(Found::Answered(_))
        ));
    }
    let full = table.bytes();
    assert!(full < KEYS * 90, "{full} bytes for {KEYS} keys");
    let mut forgotten = 0;
    while table.len() > 0 {
        forgotten += table.forget(seconds(300), 1000);
        assert_eq!(table.len(), KEYS - forgotten);
    }
    assert!(table.bytes() < 64 << 10, "{} bytes for nothing", table.bytes());
}

/// A hash for each number, as far apart as those of keys are.
fn spread(number: usize) -> u128 {
    (number as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}
