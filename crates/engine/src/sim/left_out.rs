//! Connections that an event leaves out, by the ids that their heads have told them.

use hub::{ConnectionId, HistoryLimits, LeftOut, Nobody};

use super::one::One;
use super::random::Random;
use super::server::{Place, config, posted};
use crate::Outgoing;
use crate::config::EngineConfig;

const ROOM: usize = 1 << 20;

const HISTORY: HistoryLimits =
    HistoryLimits { events_max: 100, age_ms_max: 60_000, bytes_max: 1 << 20 };

/// A server that remembers.
fn one() -> One {
    One::start(EngineConfig { history: HISTORY, ..config() })
}

/// A client that says this, and what its connection is called by the head of the answer.
fn client(one: &mut One, says: &str) -> (Place, ConnectionId) {
    let client = one.client(ROOM, says);
    let head = one.reads(client);
    let id = head.lines().find_map(|line| line.strip_prefix("Encke-Connection: "));
    (client, ConnectionId::parse(id.expect(&head)).expect(&head))
}

/// Sends to all but one or two; to how many that was.
fn send(one: &mut One, text: &str, except: impl Into<LeftOut>) -> u32 {
    let outgoing = Outgoing::new("1", &format!("\"{text}\"")).unwrap();
    let outgoing = Outgoing { except: except.into(), ..outgoing };
    let receipt = posted(&mut one.router.send(outgoing), &Nobody);
    while one.turn_after(1) {}
    receipt.ready().unwrap()
}

const NDJSON: &str = "GET /stream/1 HTTP/1.0\r\nAccept: application/x-ndjson\r\n\r\n";

#[test]
fn one_connection_is_left_out_and_not_counted() {
    let mut one = one();
    let [(bob, bobs), (rj, rjs)] = [client(&mut one, NDJSON), client(&mut one, NDJSON)];
    assert_ne!(bobs, rjs);
    assert_eq!(send(&mut one, "to rj", bobs), 1);
    assert_eq!(send(&mut one, "to bob", rjs), 1);
    assert!(one.reads(rj).contains("to rj") && !one.reads(bob).contains("to rj"));
    let nobodys = ConnectionId::of_bits(bobs.bits() ^ 1).unwrap();
    assert_eq!(send(&mut one, "to all", nobodys), 2);
    let (to_bob, to_rj) = (one.reads(bob), one.reads(rj));
    assert!(!to_rj.contains("to bob") && to_rj.contains("to all"), "{to_rj}");
    assert!(to_bob.contains("to all"), "{to_bob}");
}

#[test]
fn two_connections_are_left_out_wherever_they_are() {
    let mut one = one();
    let clients: Vec<_> = (0..4).map(|_| client(&mut one, NDJSON)).collect();
    let mut random = Random::new(1);
    for round in 0..3 {
        for (place, (_, first)) in clients.iter().enumerate() {
            let second = clients[(place + 1) % clients.len()].1;
            let text = format!("{round} without {place}");
            assert_eq!(send(&mut one, &text, LeftOut::from(*first).and(second)), 2);
        }
        one.upgrade(&mut random);
    }
    for (place, (client, _)) in clients.iter().enumerate() {
        let before = (place + clients.len() - 1) % clients.len();
        let client = one.server.find(*client);
        let heard = one.reads(client);
        for round in 0..3 {
            for text in 0..clients.len() {
                let hears = text != place && text != before;
                let has = heard.contains(&format!("{round} without {text}"));
                assert_eq!(has, hears, "{place}: {heard}");
            }
        }
    }
}

#[test]
fn id_stays_over_upgrades_and_ends_with_its_connection() {
    let mut one = one();
    let (bob, id) = client(&mut one, NDJSON);
    let (other, _) = client(&mut one, NDJSON);
    let mut random = Random::new(1);
    for _ in 0..3 {
        one.upgrade(&mut random);
        let bob = one.server.find(bob);
        assert_eq!(one.server.shards[0].connection_id(bob.key.slot), Some(id));
        assert_eq!(send(&mut one, "not to bob", id), 1);
    }
    let slot = one.server.find(bob).key.slot;
    one.wire(bob).client_resets();
    while one.turn_after(1) {}
    // Slots are given away anew: who comes next may have bob's, and is not bob.
    let mut places = Vec::new();
    while places.iter().all(|place: &Place| place.key.slot != slot) {
        places.push(client(&mut one, NDJSON).0);
    }
    assert_eq!(send(&mut one, "to all", id), 1 + places.len() as u32);
    assert!(one.reads(other).contains("to all"));
    assert!(places.into_iter().all(|place| one.reads(place).contains("to all")));
}

/// It has come back, and is not caught up with what is sent while it is held.
#[test]
fn held_connection_is_left_out_of_what_it_is_caught_up_with() {
    for websocket in [false, true] {
        let mut one = one();
        let (first, _) = client(&mut one, NDJSON);
        one.send("1", "\"seen\"");
        while one.turn_after(1) {}
        let seen = one.reads(first);
        let place = seen.split('"').nth(3).unwrap();
        one.send("1", "\"missed\"");
        let socket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                      Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let fields = if websocket { socket } else { "Accept: text/event-stream\r\n" };
        let head =
            format!("GET /stream/1 HTTP/1.1\r\nHost: a\r\n{fields}Last-Event-ID: {place}\r\n\r\n");
        let again = one.client(ROOM, &head);
        let id = one.server.shards[0].connection_id(again.key.slot).unwrap();
        assert_eq!(send(&mut one, "its own", id), 1);
        assert_eq!(one.answer(&Nobody), 1);
        while one.turn_after(1) {}
        let got = one.wire(again).client_reads(usize::MAX);
        let got = String::from_utf8_lossy(&got);
        assert!(got.contains(&format!("Encke-Connection: {id}\r\n")), "{got}");
        assert!(got.contains("missed") && !got.contains("its own"), "{got}");
    }
}
