//! Many small events to streams that are gathered for: fewer writes, and otherwise all as without.

use hub::{HistoryLimits, Nobody};

use super::each_seed;
use super::one::One;
use super::random::Random;
use super::server::{Place, silent_config};
use crate::config::EngineConfig;
use crate::limits::GATHERED_BYTES_MAX;

const ROOM: usize = 1 << 20;

/// How long a pause is, and what a turn may take beside it.
const GATHER_MS: u64 = 40;
const TURN_MS: u64 = 2;

/// How long a run is.
const RUN_MS: u64 = 2_000;

const STREAMS: usize = 6;

/// Bytes of a large event.
const EVENT_BYTES: usize = 3_000;

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

/// Where much has come within a pause it is written before that is over.
#[test]
fn what_is_gathered_is_never_much() {
    each_seed("what_is_gathered", 10, |seed| {
        let mut one = One::start(EngineConfig { gather_ms: 60_000, ..silent_config() });
        let mut random = Random::new(seed);
        let place = stream(&mut one, "application/x-ndjson");
        let (mut sent, mut heard) = (0, 0);
        for _ in 0..200 {
            let bytes = random.below(EVENT_BYTES);
            one.send("1", &format!("\"{}\"", "~".repeat(bytes)));
            sent += bytes;
            while one.turn_after(0) {}
            heard += one.reads(place).matches('~').count();
            let waits = sent - heard;
            assert!(waits <= GATHERED_BYTES_MAX + EVENT_BYTES, "{waits} wait");
        }
        assert!(heard > GATHERED_BYTES_MAX, "{heard} of {sent}");
    });
}

/// A pause is longer than a worker has to come to rest, and each answer to a client that resumes
/// would begin another one.
#[test]
fn worker_comes_to_rest_though_clients_go_on_to_resume() {
    let history = HistoryLimits { events_max: 100, age_ms_max: 60_000, bytes_max: 1 << 20 };
    let config = EngineConfig { gather_ms: 1_000, history, ..silent_config() };
    let mut one = One::start(config);
    let place = stream(&mut one, "application/x-ndjson");
    let send = |one: &mut One, nth: usize| {
        one.send("1", &nth.to_string());
        while one.turn_after(1) {}
    };
    send(&mut one, 0);
    send(&mut one, 1);
    let mut heard = one.reads(place);
    assert_eq!(events(&heard), [0], "the other one waits");
    let seen = heard.split('"').nth(3).unwrap().to_owned();
    one.server.shards[0].gather(false);
    for _ in 0..10 {
        let fields = format!("Accept: application/x-ndjson\r\nLast-Event-ID: {seen}");
        let says = format!("GET /stream/1 HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
        let resumed = one.client(ROOM, &says);
        assert_eq!(one.answer(&Nobody), 1);
        while one.turn_after(1) {}
        assert_eq!(events(&one.reads(resumed)), [1]);
        assert!(one.server.is_at_rest(0), "it can be written down");
        assert_eq!(one.server.shards[0].next_pause_ends_ms(), None);
    }
    heard += &one.reads(place);
    assert_eq!(events(&heard), [0, 1]);
    // Nobody has taken over, and all is as it was.
    one.server.shards[0].gather(true);
    send(&mut one, 2);
    send(&mut one, 3);
    heard += &one.reads(place);
    assert_eq!(events(&heard), [0, 1, 2]);
    one.upgrade(&mut Random::new(1));
    heard += &one.reads(place);
    assert_eq!(events(&heard), [0, 1, 2, 3], "what waited is not lost");
}
