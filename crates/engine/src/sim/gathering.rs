//! Many small events to streams that are gathered for: fewer writes, and otherwise all as without.

use super::each_seed;
use super::one::One;
use super::random::Random;
use super::server::{Place, silent_config};
use crate::config::EngineConfig;

const ROOM: usize = 1 << 20;

/// How long a pause is, and what a turn may take beside it.
const GATHER_MS: u64 = 40;
const TURN_MS: u64 = 2;

/// How long a run is.
const RUN_MS: u64 = 2_000;

const STREAMS: usize = 6;

/// What a stream has heard, and when something came of it.
#[derive(Default)]
struct Heard {
    text: String,
    /// When it was written to, and how many events it had then.
    writes: Vec<(u64, usize)>,
}

fn one() -> One {
    One::start(EngineConfig { gather_ms: GATHER_MS, ..silent_config() })
}

fn stream(one: &mut One, accept: &str) -> Place {
    let head = format!("GET /stream/1 HTTP/1.0\r\nAccept: {accept}\r\n\r\n");
    let place = one.client(ROOM, &head);
    one.turn_after(0);
    one.reads(place);
    place
}

fn events(text: &str) -> Vec<usize> {
    let data = text.split("\"data\":").skip(1);
    data.map(|rest| rest.split('}').next().unwrap().parse().unwrap()).collect()
}

/// Sends at random for a while, with silences. When each event was sent, and what was heard.
fn run(one: &mut One, places: &[Place], random: &mut Random) -> (Vec<u64>, Vec<Heard>) {
    let mut sent = Vec::new();
    let mut heard: Vec<Heard> = places.iter().map(|_| Heard::default()).collect();
    for ms in 0..RUN_MS {
        let is_silent = ms / 300 % 3 == 2 || ms + 2 * GATHER_MS > RUN_MS;
        for _ in 0..if is_silent { 0 } else { random.below(2) } {
            one.send("1", &sent.len().to_string());
            sent.push(one.server.clock.now_ms());
        }
        let now_ms = one.server.clock.now_ms();
        while one.turn_after(0) {}
        for (heard, &place) in heard.iter_mut().zip(places) {
            let text = one.reads(place);
            if !text.is_empty() {
                heard.text += &text;
                heard.writes.push((now_ms, events(&heard.text).len()));
            }
            let waits = events(&heard.text).len() < sent.len();
            let wakes = one.server.shards[0].next_pause_ends_ms().is_some();
            assert!(wakes || !waits, "nothing would wake the worker");
        }
        one.server.clock.pass(1);
    }
    (sent, heard)
}

#[test]
fn stream_hears_all_in_order_in_fewer_writes_and_nothing_waits_longer_than_a_pause() {
    let (mut writes, mut all) = (0, 0);
    each_seed("stream_hears_all_in_order_in_fewer_writes", 20, |seed| {
        let (mut one, mut random) = (one(), Random::new(seed));
        let accepts = ["text/event-stream", "application/x-ndjson"];
        let places: Vec<Place> =
            (0..STREAMS).map(|nth| stream(&mut one, accepts[nth % 2])).collect();
        let (sent, heard) = run(&mut one, &places, &mut random);
        for heard in heard {
            assert_eq!(events(&heard.text), Vec::from_iter(0..sent.len()));
            for pair in heard.writes.windows(2) {
                let [(before, _), (after, _)] = *pair else { unreachable!("two each") };
                assert!(after - before + TURN_MS >= GATHER_MS, "{before} and {after}");
            }
            let mut had = 0;
            for (at, has) in heard.writes {
                let is_late = |&sent: &u64| at > sent + GATHER_MS + TURN_MS;
                assert!(!sent[had..has].iter().any(is_late), "late at {at}");
                (had, writes, all) = (has, writes + 1, all + has - had);
            }
        }
    });
    assert!(writes * 2 < all, "{writes} writes for {all} events");
}
