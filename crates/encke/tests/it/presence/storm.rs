//! Clients connect and reset by the thousand while somebody listens to presence. Nothing grows
//! without a bound, all is told, and a neighbour hears its events as fast as without.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Presence, figure};
use crate::harness::{Server, Stream, Wire, get, wait_for};

/// Ids of a storm.
const IDS: usize = 5_000;

/// Pairs of storms: one that nobody hears of, and one with a listener.
const PAIRS: usize = 3;

/// As much longer an event to a neighbour may take while there is a listener. A busy machine makes
/// one storm ten times as slow as another, but hardly nine in ten of the events of each of three.
const SLOWER_MAX: f64 = 10.0;

/// Has `IDS` ids come and reset at once; returns within what time nine in ten events to a neighbour
/// came meanwhile: a machine with other work makes some of them slow.
fn storm(server: &Server, neighbour: &mut Stream) -> Duration {
    let next = AtomicUsize::new(0);
    let listen = server.listen();
    let mut took = Vec::new();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= IDS {
                        return;
                    }
                    let mut wire = Wire::connect(listen);
                    wire.send(get(&format!("/stream/storm:{n}"), &[]));
                    assert_eq!(wire.head().status, 200);
                    wire.reset();
                }
            });
        }
        while took.is_empty() || next.load(Ordering::Relaxed) < IDS {
            let begun = Instant::now();
            assert_eq!(server.api.send("neighbour", "x"), 1);
            neighbour.data();
            took.push(begun.elapsed());
        }
    });
    took.sort_unstable();
    took[took.len() * 9 / 10]
}

/// A storm with a listener, which hears of each id that it comes and that it goes.
fn heard_storm(server: &Server, neighbour: &mut Stream) -> Duration {
    let mut presence = Presence::open(server);
    let reader = thread::spawn(move || {
        let (mut online, mut offline) = (0, 0);
        while offline < IDS {
            let told = presence.next();
            online += usize::from(told["online"].is_string());
            offline += usize::from(told["offline"].is_string());
        }
        online
    });
    let took = storm(server, neighbour);
    assert_eq!(reader.join().unwrap(), IDS, "each comes, and each goes");
    took
}

#[test]
fn storm_of_resets_is_told_whole_and_hurts_no_neighbour() {
    let server = Server::start(&["--presence-grace=1"]);
    let mut neighbour = server.listener("neighbour");
    let mut slower = f64::MAX;
    for _ in 0..PAIRS {
        let unheard = storm(&server, &mut neighbour);
        server.wait_open(1);
        let before = server.anonymous_bytes();
        let heard = heard_storm(&server, &mut neighbour);
        slower = slower.min(heard.as_secs_f64() / unheard.as_secs_f64());
        let grown = server.anonymous_bytes().saturating_sub(before);
        println!("an event to a neighbour: {unheard:?}, {heard:?} heard; {grown} B more");
        assert!(grown < 8 << 20, "{grown}");
        wait_for("nobody listens", || {
            figure(&server, "encke_presence_listeners{kind=\"api\"}") == 0.0
        });
    }
    assert_eq!(figure(&server, "encke_presence_lost_total"), 0.0);
    wait_for("nothing is kept", || figure(&server, "encke_presence_waiting") == 0.0);
    // The best pair: a worker that waited for whoever tells of presence would be slow each time.
    assert!(slower < SLOWER_MAX, "{slower} times as slow");
}
