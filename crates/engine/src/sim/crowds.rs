//! One shard and events for many: written in turns, in the order of posting, and at nobody else's
//! expense.

use std::collections::BTreeMap;

use hub::{IdText, Nobody};

use super::one::{One, STREAM};
use super::server::{Place, config, posted, silent_config};
use super::{Random, each_seed};
use crate::Outgoing;
use crate::limits::{self, work};

/// The numbers that stand in the data of what a client heard.
pub(super) fn heard(one: &mut One, client: Place) -> Vec<usize> {
    let text = one.reads(client);
    let numbers =
        text.lines().filter_map(|line| line.split("\"data\":\"").nth(1)?.split(' ').next());
    numbers.map(|number| number.parse().unwrap()).collect()
}

pub(super) fn stream(ids: &str) -> String {
    format!("GET /stream/{ids} HTTP/1.0\r\n\r\n")
}

/// The application logs a crowd out. A turn ends some of them; who is still to be ended hears
/// nothing more, and the count is that of all.
#[test]
fn crowd_is_logged_out_a_few_a_turn() {
    let mut one = One::start(config());
    let crowd: Vec<Place> = (0..1_000).map(|_| one.client(1 << 20, STREAM)).collect();
    let mut turns = 0;
    for _ in 0..100 {
        one.turn_after(1);
    }
    let logout = |one: &One| posted(&mut one.router.logout(IdText::parse("1").unwrap()), &Nobody);
    let receipt = logout(&one);
    one.send("1", "\"late\"");
    while receipt.ready().is_none() {
        one.turn_after(1);
        turns += 1;
    }
    assert_eq!(receipt.ready(), Some(crowd.len() as u32));
    assert!(turns >= 5, "{turns} turns");
    assert!(crowd.iter().all(|&client| !one.reads(client).contains("late")));
    assert_eq!(one.server.directory.ids_online(), 0);
}

/// An event for a crowd is written to a slice of it a turn, and one for few goes before.
#[test]
fn event_for_a_crowd_is_written_in_slices_and_holds_up_no_other() {
    let mut one = One::start(config());
    let crowd: Vec<Place> = (0..1_000).map(|_| one.client(1 << 20, STREAM)).collect();
    let other = one.client(1 << 20, "GET /stream/2 HTTP/1.0\r\n\r\n");
    while one.turn_after(1) {}
    let heads: Vec<usize> = crowd.iter().map(|&client| one.reads(client).len()).collect();
    assert!(heads.iter().all(|&len| len > 0) && !one.reads(other).is_empty());
    one.send("1", "\"to all\"");
    one.send("2", "\"to one\"");
    let mut heard = 0;
    for turn in 0.. {
        let more = one.turn_after(1);
        assert_eq!(one.reads(other).contains("to one"), turn == 0, "in the first turn");
        let slice = crowd.iter().filter(|&&client| one.reads(client).contains("to all")).count();
        assert!(
            slice <= (limits::BULK_WORK_PER_TURN / work::WRITE) as usize,
            "{slice} in one turn"
        );
        heard += slice;
        if !more {
            break;
        }
    }
    assert_eq!(heard, crowd.len());
}

/// A server that is to end tells a crowd so in turns, and has work until all are told.
#[test]
fn crowd_is_drained_a_few_a_turn_and_to_its_end() {
    let mut one = One::start(config());
    // So many that no slot is empty, the last one neither.
    let crowd: Vec<Place> = (0..1_024).map(|_| one.client(1 << 20, STREAM)).collect();
    while one.turn_after(1) {}
    one.server.mailboxes[0].post_drain(0).unwrap();
    let mut turns = 1;
    while one.turn_after(1) {
        turns += 1;
    }
    assert!(turns >= 5, "{turns} turns");
    assert!(crowd.iter().all(|&client| one.wire(client).server_ended), "nobody is forgotten");
}

/// The clients of a node that ends are sent away evenly over the time; until then they hear events
/// and count. Many free slots, as after a greater crowd, change nothing.
#[test]
fn crowd_is_moved_evenly_over_the_time() {
    const OVER_MS: u64 = 1_000;
    let mut one = One::start(silent_config());
    let crowd: Vec<Place> = (0..1_000).map(|_| one.client(1 << 20, STREAM)).collect();
    while one.turn_after(1) {}
    // Half of the slots are free, in the first half of them most.
    let (gone, crowd): (Vec<_>, Vec<_>) =
        crowd.into_iter().enumerate().partition(|(n, _)| n % 8 != 0 && *n < 571);
    gone.iter().for_each(|&(_, client)| one.wire(client).client_ends());
    gone.iter().for_each(|&(_, client)| one.server.hear_out(client));
    while one.turn_after(1) {}
    one.server.shards[0].move_all(OVER_MS);
    let left = |one: &One| crowd.iter().filter(|(_, to)| !one.wire(*to).server_ended).count();
    let (mut before, share) = (crowd.len(), crowd.len() / 10);
    for tenth in 1..=10 {
        for _ in 0..OVER_MS / 10 {
            one.turn_after(1);
        }
        let now = left(&one);
        let ended = before - now;
        assert!(ended.abs_diff(share) <= 6, "{ended} in tenth {tenth} of {}", crowd.len());
        let event = Outgoing::new("1", "\"on\"").unwrap();
        let receipt = posted(&mut one.router.send(event), &Nobody);
        while one.turn_after(0) {}
        assert_eq!(receipt.ready(), Some(now as u32), "who is left hears, and counts");
        before = now;
    }
    // The last ones are ended in turns of their own.
    while one.turn_after(1) {}
    assert_eq!((left(&one), one.server.directory.ids_online()), (0, 0), "nobody is forgotten");
    assert!(!one.server.shards[0].is_busy());
}

/// A crowd has more to be sent than a turn can write. What comes for others meanwhile goes before
/// it, what comes for one of it goes behind, and no turn is a long one.
#[test]
fn crowd_with_full_backlogs_holds_up_nobody_else() {
    let mut one = One::start(silent_config());
    let crowd: Vec<Place> = (0..200).map(|_| one.client(1 << 20, STREAM)).collect();
    let (member, other) =
        (one.client(1 << 20, &stream("1?id=3")), one.client(1 << 20, &stream("2")));
    while one.turn_after(1) {}
    for &client in crowd.iter().chain([&member, &other]) {
        assert!(!one.reads(client).is_empty(), "the head");
    }
    let data = "x".repeat(one.server.backlog_bytes_max / 4);
    let events = 12;
    (1..=events).for_each(|n| one.send("1", &format!("\"{n} {data}\"")));
    one.send("2", "\"100 for one\"");
    one.send("3", "\"101 for a member\"");
    one.server.mailboxes[0].post_drain(7).unwrap();
    let mut at_once = None;
    let (mut turns, mut of_member) = (0, Vec::new());
    let mut of_crowd = vec![Vec::new(); crowd.len()];
    loop {
        // Each turn sees that it is not too long.
        let more = one.turn_after(1);
        assert_eq!(one.server.shards[0].drain_deadline_ms(), Some(7), "it holds at once");
        at_once = at_once.or_else(|| (!heard(&mut one, other).is_empty()).then_some(turns));
        of_member.extend(heard(&mut one, member));
        for (&client, of_client) in crowd.iter().zip(&mut of_crowd) {
            of_client.extend(heard(&mut one, client));
        }
        turns += 1;
        if !more {
            break;
        }
    }
    assert!(turns > 100, "{turns} turns");
    assert!(at_once.unwrap() <= 1, "after {at_once:?} turns");
    assert!(of_crowd.iter().all(|of_client| of_client.iter().copied().eq(1..=events)));
    assert!(of_member.into_iter().eq((1..=events).chain([101])), "in order");
}

/// Clients with ids in common hear events of all sizes: each hears all of its own, in the order in
/// which they were sent, whatever overtakes whatever.
#[test]
fn what_overtakes_is_for_others() {
    each_seed("overtaking", 30, |seed| {
        let mut random = Random::new(seed);
        let mut one = One::start(silent_config());
        let mut expected: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        // Everybody has the first id, and one of few more.
        let clients: Vec<(Place, usize)> = (0..150)
            .map(|_| {
                let id = 2 + random.below(30);
                (one.client(1 << 22, &stream(&format!("1?id={id}"))), id)
            })
            .collect();
        while one.turn_after(1) {}
        let mut got: Vec<Vec<usize>> = vec![Vec::new(); clients.len()];
        for n in 1..=60 {
            let about = if random.below(3) == 0 { 1 } else { 2 + random.below(30) };
            let data = "x".repeat(random.below(30_000));
            one.send(&about.to_string(), &format!("\"{n} {data}\""));
            for (client, &(_, id)) in clients.iter().enumerate() {
                if about == 1 || about == id {
                    expected.entry(client).or_default().push(n);
                }
            }
            for _ in 0..random.below(3) {
                one.turn_after(random.below(2) as u64);
                for (client, &(place, _)) in clients.iter().enumerate() {
                    got[client].extend(heard(&mut one, place));
                }
            }
        }
        while one.turn_after(1) {
            for (client, &(place, _)) in clients.iter().enumerate() {
                got[client].extend(heard(&mut one, place));
            }
        }
        for (client, &(place, _)) in clients.iter().enumerate() {
            got[client].extend(heard(&mut one, place));
            assert_eq!(got[client], expected.remove(&client).unwrap_or_default());
        }
    });
}
