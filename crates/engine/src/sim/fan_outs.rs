//! A shard whose large audiences wait for other workers' serves everybody else meanwhile, and loses
//! nothing and no order by it.

use std::collections::BTreeMap;

use hub::Nobody;

use super::crowds::{heard, stream};
use super::one::One;
use super::server::{Place, posted, silent_config};
use super::{Random, each_seed};
use crate::Outgoing;
use crate::limits::PARKED_MAILS_MAX;

const ROOM: usize = 1 << 22;

/// Users under id 1, and clients who have read their heads.
fn users(one: &mut One, size: usize, others: &[&str]) -> (Vec<Place>, Vec<Place>) {
    let users: Vec<Place> = (0..size).map(|_| one.client(ROOM, &stream("1"))).collect();
    let others: Vec<Place> =
        others.iter().map(|others| one.client(ROOM, &stream(others))).collect();
    while one.turn_after(1) {}
    for &client in users.iter().chain(&others) {
        assert!(!one.reads(client).is_empty(), "the head");
    }
    (users, others)
}

fn let_wait(one: &mut One, wait: bool) {
    one.server.shards[0].let_fan_outs_wait(wait);
}

/// What is small goes on, unless it is for one of the users: that one hears both in order. A shard
/// that may do nothing else sleeps.
#[test]
fn large_audience_that_waits_keeps_nobody_else_waiting() {
    let mut one = One::start(silent_config());
    let (users, others) = users(&mut one, 1_000, &["2", "1?id=3"]);
    let_wait(&mut one, true);
    let event = Outgoing::new("1", "\"1 \"").unwrap();
    let to_all = posted(&mut one.router.send(event), &Nobody);
    one.send("2", "\"2 \"");
    one.send("3", "\"3 \"");
    assert!(!one.turn_after(1), "it may sleep");
    assert!(one.server.shards[0].has_fan_outs() && one.server.shards[0].takes_mail());
    assert_eq!((heard(&mut one, others[0]), heard(&mut one, others[1])), (vec![2], vec![]));
    assert_eq!((heard(&mut one, users[0]), to_all.ready()), (vec![], None));
    one.send("2", "\"4 \"");
    one.turn_after(1);
    assert_eq!(heard(&mut one, others[0]), [4]);
    // It waits again between the hand-over and the writes.
    let_wait(&mut one, false);
    assert!(one.turn_after(1));
    assert_eq!(to_all.ready(), Some(1_001));
    let_wait(&mut one, true);
    assert!(!one.turn_after(1), "it may sleep");
    let had = users.iter().filter(|&&client| !heard(&mut one, client).is_empty()).count();
    assert!(had < users.len() / 10, "{had} have it after a turn");
    let_wait(&mut one, false);
    while one.turn_after(1) {}
    let has = users.iter().filter(|&&client| heard(&mut one, client) == [1]).count();
    assert_eq!(had + has, users.len());
    assert_eq!(heard(&mut one, others[1]), [1, 3], "in the order of posting");
    assert!(!one.server.shards[0].has_fan_outs());
}

/// Of large events only so many wait in the shard, and more in the mailbox, whose bound the sender
/// meets. All are heard in their order.
#[test]
fn large_events_that_wait_are_bounded_and_come_in_order() {
    let mut one = One::start(silent_config());
    let (users, others) = users(&mut one, 100, &["2"]);
    let_wait(&mut one, true);
    let events = PARKED_MAILS_MAX + 3;
    (1..=events).for_each(|n| one.send("1", &format!("\"{n} \"")));
    one.send("2", "\"0 \"");
    assert!(!one.turn_after(1), "it may sleep");
    assert!(!one.server.shards[0].takes_mail());
    assert_eq!(one.server.mailboxes[0].len(), 4, "three large ones, and what is behind them");
    assert!(!one.turn_after(1) && heard(&mut one, others[0]).is_empty());
    let_wait(&mut one, false);
    while one.turn_after(1) {}
    for &client in &users {
        assert!(heard(&mut one, client).into_iter().eq(1..=events));
    }
    assert_eq!(heard(&mut one, others[0]), [0]);
}

/// Whenever large audiences may have their turn and whenever not: each client hears all of its own
/// events, in the order in which they were sent, and those who are in no large audience at once.
#[test]
fn turns_at_large_audiences_change_no_order() {
    each_seed("fan-outs", 30, |seed| {
        let mut random = Random::new(seed);
        let mut one = One::start(silent_config());
        // Everybody has the first id, and one of few more.
        let ids: Vec<usize> = (0..150).map(|_| 2 + random.below(30)).collect();
        let texts: Vec<String> = ids.iter().map(|id| format!("1?id={id}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).chain(["100"]).collect();
        let (_, clients) = users(&mut one, 0, &texts);
        let (members, alone) = (&clients[..ids.len()], clients[ids.len()]);
        let mut expected: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut got = vec![Vec::new(); ids.len()];
        let (mut sent, mut alone_heard) = (0, 0);
        for n in 1..=60 {
            let about = if random.below(3) == 0 { 1 } else { 2 + random.below(30) };
            one.send(&about.to_string(), &format!("\"{n} {}\"", "x".repeat(random.below(30_000))));
            for (client, &id) in ids.iter().enumerate() {
                if about == 1 || about == id {
                    expected.entry(client).or_default().push(n);
                }
            }
            for _ in 0..random.below(3) {
                let wait = random.below(3) > 0;
                let_wait(&mut one, wait);
                one.send("100", "\"1000 \"");
                sent += 1;
                // Users who wait keep no shard awake.
                while one.turn_after(random.below(2) as u64) && wait {}
                alone_heard += heard(&mut one, alone).len();
                let takes_mail = one.server.shards[0].takes_mail();
                assert!(alone_heard == sent || !takes_mail || !wait, "{alone_heard} of {sent}");
                for (got, &client) in got.iter_mut().zip(members) {
                    got.extend(heard(&mut one, client));
                }
            }
        }
        let_wait(&mut one, false);
        while one.turn_after(1) {}
        assert_eq!(alone_heard + heard(&mut one, alone).len(), sent);
        for (client, mut got) in got.into_iter().enumerate() {
            got.extend(heard(&mut one, members[client]));
            assert_eq!(got, expected.remove(&client).unwrap_or_default());
        }
    });
}
