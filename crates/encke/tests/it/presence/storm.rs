//! Clients that connect and reset by the thousand while somebody listens to presence: nothing grows
//! without a bound, all is told, and a neighbour hears its events as fast as without.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Presence, figure};
use crate::harness::{Server, Stream, Wire, get, wait_for};

/// Ids of a storm.
const IDS: usize = 20_000;

/// Has `IDS` ids come and reset at once; returns what events to a neighbour took meanwhile, sorted.
fn storm(server: &Server, neighbour: &mut Stream) -> Vec<Duration> {
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
        while next.load(Ordering::Relaxed) < IDS {
            let begun = Instant::now();
            assert_eq!(server.api.send("neighbour", "x"), 1);
            neighbour.data();
            took.push(begun.elapsed());
        }
    });
    took.sort_unstable();
    took
}

fn p99(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() * 99 / 100]
}

#[test]
fn storm_of_resets_is_told_whole_and_hurts_no_neighbour() {
    let server = Server::start(&["--presence-grace=1"]);
    let mut neighbour = server.listener("neighbour");
    let unheard = storm(&server, &mut neighbour);
    server.wait_open(1);
    let before = server.anonymous_bytes();
    let mut presence = Presence::open(&server);
    let reader = thread::spawn(move || {
        let (mut online, mut offline) = (0, 0);
        while offline < IDS {
            let told = presence.next();
            online += usize::from(told["online"].is_string());
            offline += usize::from(told["offline"].is_string());
        }
        online
    });
    let heard = storm(&server, &mut neighbour);
    let grown = server.anonymous_bytes().saturating_sub(before);
    assert_eq!(reader.join().unwrap(), IDS, "each comes, and each goes");
    assert_eq!(figure(&server, "encke_presence_lost_total"), 0.0);
    wait_for("nothing is kept", || figure(&server, "encke_presence_waiting") == 0.0);
    let (without, with) = (p99(&unheard), p99(&heard));
    println!("neighbour's p99: {without:?} without a listener, {with:?} with one; {grown} B more");
    assert!(grown < 32 << 20, "{grown}");
    // Both ends and the builds of others share the machine: a worker that waited would take longer.
    assert!(with < 4 * without + Duration::from_millis(50), "{with:?} after {without:?}");
}
