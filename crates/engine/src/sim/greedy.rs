//! One shard against those who fill one of its queues without end: everybody else has a part of
//! each turn all the same.

use hub::Nobody;

use super::budgets::{POLL, websocket};
use super::one::{One, STREAM};
use super::server::{Place, config};
use super::talk::client_frame;
use crate::config::EngineConfig;
use crate::limits::{WORK_PER_CONNECTION, WORK_PER_TURN, work};
use crate::reports::Report;

/// What nobody is to wait for longer, in turns, who is reported behind `before` others. Each of
/// them takes its part of a turn at most.
fn turns_max(before: usize) -> usize {
    let per_turn = WORK_PER_TURN / 4 / WORK_PER_CONNECTION;
    before / per_turn as usize + 2
}

/// Turns until `client` is answered, while `greedy` goes on in each.
fn turns_until(one: &mut One, client: Place, mut greedy: impl FnMut(&mut One)) -> usize {
    for turn in 1..1_000 {
        greedy(one);
        one.turn_after(1);
        if one.reads(client).contains("HTTP/1.1 200") {
            return turn;
        }
    }
    panic!("it is never answered");
}

#[test]
fn who_polls_without_end_and_far_ahead_keeps_nobody_waiting() {
    let mut one = One::start(config());
    let crowd: Vec<Place> = (0..60).map(|_| one.client(1 << 20, &POLL.repeat(300))).collect();
    let go_on = |one: &mut One| {
        for &client in &crowd {
            one.reads(client);
            let ahead = 300 - one.wire(client).to_server.len().div_ceil(POLL.len()).min(300);
            one.wire(client).client_sends(POLL.repeat(ahead).as_bytes());
        }
    };
    for _ in 0..20 {
        go_on(&mut one);
        one.turn_after(1);
    }
    let other = one.server.connect(0, 1 << 20);
    one.wire(other).client_sends(POLL.as_bytes());
    let turns = turns_until(&mut one, other, go_on);
    assert!(turns <= turns_max(crowd.len()), "{turns} turns");
}

#[test]
fn who_is_put_off_is_served_while_others_are_reported_without_end() {
    let mut one = One::start(config());
    let crowd: Vec<Place> = (0..200).map(|_| one.client(1 << 20, STREAM)).collect();
    while one.turn_after(1) {}
    let other = one.client(1 << 20, &POLL.repeat(50));
    let mut answered = one.reads(other).matches("HTTP/1.1 200").count();
    let mut turns = 0;
    while answered < 50 {
        for &client in &crowd {
            // As long as little of it comes at a time it is let be.
            one.wire(client).client_sends(&[b'x'; 1_000]);
        }
        one.turn_after(1);
        answered += one.reads(other).matches("HTTP/1.1 200").count();
        turns += 1;
        assert!(turns <= 50, "{answered} of 50");
    }
}

/// The crowd is reported before it in each turn, and a turn has no time for all of them.
#[test]
fn who_is_reported_behind_a_crowd_that_is_reported_anew_each_turn_has_its_turn() {
    let mut one = One::start(config());
    let crowd: Vec<Place> = (0..2_000).map(|_| one.client(1 << 20, STREAM)).collect();
    while one.turn_after(1) {}
    let other = one.server.connect(0, 1 << 20);
    one.wire(other).client_sends(POLL.as_bytes());
    let turns = turns_until(&mut one, other, |one| {
        crowd.iter().for_each(|&client| one.wire(client).client_sends(b"x"));
    });
    assert!(turns > 1, "a turn has time for all of them");
    assert!(turns <= turns_max(crowd.len()), "{turns} turns");
}

#[test]
fn crowd_whose_time_has_come_keeps_nobody_waiting() {
    let mut one = One::start(config());
    let crowd: Vec<Place> = (0..2_000).map(|_| one.client(1 << 20, STREAM)).collect();
    while one.turn_after(1) {}
    one.turn_after(24_000);
    let other = one.server.connect(0, 1 << 20);
    one.wire(other).client_sends(POLL.as_bytes());
    // All keep-alives are due at once.
    one.server.clock.pass(2_000);
    let turns = turns_until(&mut one, other, |_| {});
    assert!(turns <= 2, "{turns} turns");
    while one.turn_after(1) {}
    assert!(crowd.iter().all(|&client| one.reads(client).ends_with('\n')));
}

/// Of all kinds of what is due one begins: a crowd of time-outs does not hold up a drain.
#[test]
fn kinds_of_what_is_due_take_turns() {
    let mut one = One::start(config());
    let crowd: Vec<Place> = (0..2_000).map(|_| one.client(1 << 20, STREAM)).collect();
    while one.turn_after(1) {}
    one.server.clock.pass(25_000);
    one.server.shards[0].move_all(0);
    for _ in 0..8 {
        one.turn_after(1);
    }
    let ended = crowd.iter().filter(|&&client| one.wire(client).server_ended).count();
    assert!(ended > 0, "all turns were of keep-alives");
    while one.turn_after(1) {}
    assert!(crowd.iter().all(|&client| one.wire(client).server_ended));
}

/// A report that waits goes with its connection, and none is kept of one that is closed: who gets
/// the slot next is not told of it.
#[test]
fn report_of_one_that_is_closed_is_nobodys() {
    let mut one = One::start(config());
    let gone = one.client(1 << 20, STREAM);
    let slot = gone.key.slot;
    let shard = &mut one.server.shards[0];
    let report = Report { slot, readable: true, writable: true, hung_up: true };
    shard.put_off(report);
    assert!(shard.has_put_off());
    shard.give_up(slot);
    assert!(!shard.has_put_off(), "it is of the next one");
    shard.put_off(report);
    assert!(!shard.has_put_off(), "it would be of the next one");
    let next = one.client(1 << 20, &POLL.repeat(2));
    assert_eq!(next.key.slot, slot);
    while one.turn_after(1) {}
    assert_eq!(one.reads(next).matches("HTTP/1.1 200").count(), 2);
}

/// Four blocks with the tables that are fixed and nothing else (RFC 1951, section 3.2.6).
const EMPTY_BLOCKS: &[u8] = b"\x02\x08\x20\x80\x00";

/// A text as a block that is stored (RFC 1951, section 3.2.4), without the last four bytes of the
/// message (RFC 7692, section 7.2.1).
fn stored(text: &[u8]) -> Vec<u8> {
    let len = text.len() as u16;
    let head = [&[0][..], &len.to_le_bytes(), &(!len).to_le_bytes()].concat();
    [&head[..], text, &[0]].concat()
}

#[test]
fn messages_of_one_read_are_taken_a_few_a_turn() {
    let config = EngineConfig { websocket_deflate: true, ..config() };
    let deflate = "\r\nSec-WebSocket-Extensions: permessage-deflate\r\nHost";
    let head = websocket("1").replace("\r\nHost", deflate);
    let ping = b"{\"ping\":1}";
    let plain = (client_frame(0x81, ping), work::MESSAGE);
    let inflated = |payload: &[u8]| {
        let pieces = payload.len() / work::INFLATE_BYTES;
        (client_frame(0xc1, payload), work::INFLATE + pieces as u32 + work::MESSAGE)
    };
    // A ping behind blocks that are empty: a message's costs are not those of its text alone.
    let empty = [&EMPTY_BLOCKS.repeat(50), &stored(ping)[..]].concat();
    for (frame, cost) in [plain, inflated(&stored(ping)), inflated(&empty)] {
        for upgraded in [false, true] {
            let mut one = One::start(config.clone());
            let client = one.client(1 << 20, &head);
            one.answer(&Nobody);
            while one.turn_after(1) {}
            one.wire(client).client_reads(usize::MAX);
            let asked = 400;
            one.wire(client).client_sends(&frame.repeat(asked));
            let mut one = if upgraded { one.upgraded() } else { one };
            let (mut answered, mut turns) = (0, 0);
            while answered < asked {
                one.turn_after(1);
                let read = one.wire(client).client_reads(usize::MAX);
                let answers = read.windows(6).filter(|six| six == b"\"ping\"").count();
                let most = (WORK_PER_CONNECTION / cost + 1) as usize;
                assert!(answers <= most, "{answers} in one turn");
                answered += answers;
                turns += 1;
                assert!(turns <= 2 * asked, "{answered} of {asked}");
            }
        }
    }
}
