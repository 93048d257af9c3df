//! Clients connect and reset by the thousand while somebody listens to presence. Nothing grows
//! without a bound, all is told, and a neighbour hears its events meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::{Presence, figure};
use crate::harness::{Server, Stream, Wire, get, wait_for};

/// Ids of a storm.
const IDS: usize = 5_000;

/// Pairs of storms: one that nobody hears of, and one with a listener.
const PAIRS: usize = 2;

/// Has `IDS` ids come and reset at once. A neighbour hears each event that it is sent meanwhile.
fn storm(server: &Server, neighbour: &mut Stream) {
    let next = AtomicUsize::new(0);
    let listen = server.listen();
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
        for event in 0.. {
            assert_eq!(server.api.send("neighbour", event), 1);
            assert_eq!(neighbour.data(), event);
            if next.load(Ordering::Relaxed) >= IDS {
                return;
            }
        }
    });
}

/// A storm with a listener, which hears of each id that it comes and that it goes.
fn heard_storm(server: &Server, neighbour: &mut Stream) {
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
    storm(server, neighbour);
    assert_eq!(reader.join().unwrap(), IDS, "each comes, and each goes");
}

#[test]
fn storm_of_resets_is_told_whole_and_a_neighbour_hears_on() {
    let server = Server::start(&["--presence-grace=1"]);
    let mut neighbour = server.listener("neighbour");
    for _ in 0..PAIRS {
        storm(&server, &mut neighbour);
        server.wait_open(1);
        let before = server.anonymous_bytes();
        heard_storm(&server, &mut neighbour);
        let grown = server.anonymous_bytes().saturating_sub(before);
        println!("{grown} B more");
        assert!(grown < 8 << 20, "{grown}");
        wait_for("nobody listens", || {
            figure(&server, "encke_presence_listeners{kind=\"api\"}") == 0.0
        });
    }
    assert_eq!(figure(&server, "encke_presence_lost_total"), 0.0);
    wait_for("nothing is kept", || figure(&server, "encke_presence_waiting") == 0.0);
}
