//! Clients for whom a worker has no place, and for whose request it waits because they may be of an
//! app: how many, for how long, what they are told, and that they take nobody's place.

use std::net::Ipv4Addr;

use hub::{Bound, DisconnectReason};

use super::channels::{close_code, split_head, upgrade_of, with_apps};
use super::one::{One, STREAM};
use super::server::{Place, silent_config};
use crate::config::EngineConfig;
use crate::limits::{UNPLACED_MAX, UNPLACED_MS, UNPLACED_MS_MIN};
use crate::shard::NoPlace;
use crate::timer::TICK_MS;

const ROOM: usize = 1 << 20;

/// A server with apps and one place, which is taken.
fn full() -> (One, Place) {
    let mut one = with_apps(EngineConfig { connections_max: 1, ..silent_config() });
    let client = one.client(ROOM, STREAM);
    assert!(one.reads(client).starts_with("HTTP/1.1 200"));
    (one, client)
}

/// One for whom there is no place, of whose request `head` has come, if it is waited for.
fn hold(one: &mut One, head: &[u8]) -> Option<Place> {
    let server = &mut one.server;
    let socket = server.nets[0].connect(ROOM);
    let (_, why) = server.shards[0].accept(socket, Ipv4Addr::LOCALHOST.into()).unwrap_err();
    assert!(why == NoPlace::Full && server.shards[0].awaits_rest(head));
    let held = server.shards[0].hold_unplaced(socket, Ipv4Addr::LOCALHOST.into(), Some(head));
    let key = held.ok()?;
    server.nets[0].accepted(socket, key);
    server.shards[0].readable(key.slot, false);
    Some(Place { shard: 0, socket, key })
}

/// What it is told: the status, and the code of a close.
fn told(one: &One, client: Place) -> (String, Option<u16>) {
    let read = one.wire(client).client_reads(usize::MAX);
    let (head, frames) = split_head(&read);
    let is_socket = head.starts_with("HTTP/1.1 101");
    (head[9..12].to_owned(), is_socket.then(|| close_code(&frames)).flatten())
}

/// Takes turns until all that is due is done.
fn do_due(one: &mut One) {
    while one.server.shards[0].next_tick_ms().is_some_and(|at| at <= one.server.clock.now_ms()) {
        one.turn_after(0);
    }
}

fn refused(one: &One) -> u64 {
    one.server.figures().closed[DisconnectReason::Full as usize]
}

#[test]
fn client_of_an_app_whose_request_comes_late_is_closed_with_4100_and_others_are_answered() {
    let (mut one, stream) = full();
    for (request, expected) in [
        (upgrade_of("/app/key", ""), ("101", Some(4100))),
        (upgrade_of("/stream/1", ""), ("503", None)),
        ("GET /app/key HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), ("503", None)),
        (STREAM.to_owned(), ("503", None)),
    ] {
        for split in [0, 3, request.len() - 1] {
            let client = hold(&mut one, &request.as_bytes()[..split]).unwrap();
            assert!(!one.is_closed(client));
            one.say(client, &request.as_bytes()[split..]);
            let (status, code) = told(&one, client);
            assert_eq!((status.as_str(), code), expected, "{request}");
            one.wire(client).client_ends();
            one.server.hear_out(client);
            assert!(one.is_closed(client));
        }
    }
    assert_eq!(refused(&one), 12);
    // The places are as they were.
    assert_eq!(one.server.shards[0].connections(), 1);
    assert!(hold(&mut one, b"").is_some());
    one.wire(stream).client_ends();
    one.server.hear_out(stream);
    assert!(one.server.connect_from(Ipv4Addr::LOCALHOST.into(), 0, ROOM).is_ok());
    assert!(one.server.connect_from(Ipv4Addr::LOCALHOST.into(), 0, ROOM).is_err());
}

#[test]
fn client_that_says_nothing_is_waited_for_for_a_second_and_gives_way_to_another_before() {
    let (mut one, _) = full();
    let mut clients: Vec<Place> =
        (0..UNPLACED_MAX).map(|_| hold(&mut one, b"GET /app").unwrap()).collect();
    assert!(hold(&mut one, b"").is_none(), "it is refused as it comes");
    one.turn_after(UNPLACED_MS_MIN + TICK_MS);
    // Now each one that comes takes the place of the one that came first, who is answered.
    for nth in 0..10 {
        clients.push(hold(&mut one, b"GET").unwrap());
        assert!(one.is_closed(clients[nth]) && !one.is_closed(clients[nth + 1]));
        assert_eq!(told(&one, clients[nth]), ("503".to_owned(), None));
    }
    assert_eq!(one.server.shards[0].connections(), 1 + UNPLACED_MAX);
    one.turn_after(UNPLACED_MS - UNPLACED_MS_MIN - TICK_MS);
    do_due(&mut one);
    assert_eq!(one.server.shards[0].connections(), 11, "those who came later have time");
    // The worker is woken for them.
    let next_ms = one.server.shards[0].next_tick_ms().unwrap();
    one.turn_after(next_ms - one.server.clock.now_ms());
    do_due(&mut one);
    assert_eq!((one.server.shards[0].connections(), refused(&one)), (1, UNPLACED_MAX as u64 + 10));
    assert!(clients.iter().all(|&client| one.is_closed(client)));
}

/// A successor has no place for them either, and would give up.
#[test]
fn client_without_a_place_is_not_written_down() {
    let (mut one, stream) = full();
    let client = hold(&mut one, b"GET").unwrap();
    let shard = &mut one.server.shards[0];
    assert!(shard.write_down(stream.key.slot).is_some());
    assert!(shard.write_down(client.key.slot).is_none());
}

#[test]
fn client_of_an_app_is_told_on_its_websocket_whyever_it_is_not_let_in() {
    let (one, _) = full();
    let head = upgrade_of("/app/key", "");
    let behind_proxy = format!("PROXY TCP4 203.0.113.1 10.0.0.1 1 2\r\n{head}");
    let bounds = [Bound::ConnectionsPerAddress, Bound::ConnectsPerAddress].map(NoPlace::Bound);
    for why in [NoPlace::Full, NoPlace::Moving].into_iter().chain(bounds) {
        for head in [&head, &behind_proxy] {
            let answer = one.server.shards[0].no_place_answer(head.as_bytes(), why, 0);
            let (head, frames) = split_head(&answer);
            assert!(head.starts_with("HTTP/1.1 101"), "{why:?}: {head}");
            assert_eq!(close_code(&frames), Some(4100), "{why:?}");
        }
    }
}

#[test]
fn nobody_is_waited_for_where_no_apps_are_served() {
    let mut one = One::start(EngineConfig { connections_max: 1, ..silent_config() });
    one.client(ROOM, STREAM);
    let server = &mut one.server;
    let socket = server.nets[0].connect(ROOM);
    assert!(server.shards[0].accept(socket, Ipv4Addr::LOCALHOST.into()).is_err());
    assert!(!server.shards[0].awaits_rest(b"GET /app"));
    assert!(server.shards[0].hold_unplaced(socket, Ipv4Addr::LOCALHOST.into(), None).is_err());
}
