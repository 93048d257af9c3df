//! Mail that waits in its shard for want of time, and what must not overtake it.

use hub::Nobody;

use super::one::One;
use super::server::{Place, silent_config};
use crate::config::EngineConfig;

const ROOM: usize = 1 << 20;

/// An answer that is told before an event that waits would have the client hear that twice: once
/// with what it has missed, and once more when it is handed over.
#[test]
fn answer_to_a_client_that_comes_back_waits_behind_the_event_that_waits() {
    let mut one = One::start(EngineConfig { backlog_bytes_max: 2_000, ..silent_config() });
    one.send("1", "0");
    let place = one.server.event_ids.id(one.server.event_ids.last());
    // More than a turn has time for whose backlog is full.
    let both = "GET /stream/1?id=2 HTTP/1.0\r\n\r\n";
    let crowd: Vec<Place> = (0..200).map(|_| one.client(ROOM, both)).collect();
    while one.turn_after(1) {}
    crowd.iter().for_each(|&client| _ = one.reads(client));
    let head = format!("GET /stream/1?last_event_id={place} HTTP/1.0\r\n\r\n");
    let back = one.client(ROOM, &head);
    let long = format!("\"{}\"", "x".repeat(1_000));
    (0..4).for_each(|_| one.send("2", &long));
    one.send("1", "\"live\"");
    assert_eq!(one.answer(&Nobody), 1);
    one.turn_after(1);
    let mut heard = one.reads(back);
    assert!(!heard.contains("live"), "what waits is not overtaken: {heard}");
    while one.turn_after(1) {
        heard += &one.reads(back);
    }
    heard += &one.reads(back);
    assert_eq!(heard.matches("\"live\"").count(), 1, "{heard}");
    for client in crowd {
        let heard = one.reads(client);
        assert_eq!((heard.matches("\"live\"").count(), heard.matches(&long).count()), (1, 4));
    }
}
