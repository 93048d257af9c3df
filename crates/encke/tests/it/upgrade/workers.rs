//! A successor with other limits: more workers or fewer, other bounds, and each stream finds its
//! place.

use std::fs;

use serde_json::Value;

use super::failures::Kept;
use super::served::{Upgraded, rewriting};
use super::subscriber::{STREAMS, Subscriber};
use crate::harness::Server;

/// Streams under ids of their own, some dozens on each worker.
const STREAMS_MIN: usize = 240;

fn workers(stats: &Value) -> Vec<u64> {
    let workers = stats["workers"].as_array().unwrap();
    workers.iter().map(|worker| worker["connections_open"].as_u64().unwrap()).collect()
}

#[track_caller]
fn all_hear(server: &Upgraded, subscribers: &mut [Subscriber], text: &str) {
    assert_eq!(server.api.send("all", text), subscribers.len() as u64);
    for (n, subscriber) in subscribers.iter_mut().enumerate() {
        assert_eq!(server.api.send(&format!("own:{n}"), n.to_string()), 1);
        assert_eq!(subscriber.data(), text);
        assert_eq!(subscriber.data(), n.to_string());
    }
}

#[test]
fn workers_may_be_more_or_fewer() {
    let server = Upgraded::serve(&["--workers=4", "--websocket-deflate"]);
    let mut subscribers: Vec<Subscriber> = STREAMS
        .iter()
        .cycle()
        .take(STREAMS_MIN)
        .enumerate()
        .map(|(n, &kind)| Subscriber::open(server.listen(), kind, &[&format!("own:{n}"), "all"]))
        .collect();
    let mut before = 4;
    for wanted in [2, 4, 1, 3] {
        let (from, to) = ("--workers=", format!("--workers={wanted}"));
        let program = rewriting(&server.data().join(format!("with-{wanted}")), &[(from, &to)]);
        server.upgrade(&["--binary", &program]);
        let stats = server.api.stats();
        let open = workers(&stats);
        assert_eq!((open.len(), open.iter().sum::<u64>()), (wanted, STREAMS_MIN as u64), "{stats}");
        // Nobody is left with all of them.
        let most = *open.iter().max().unwrap();
        let even = STREAMS_MIN.div_ceil(before.min(wanted));
        assert!(most <= 2 * even as u64, "{open:?} of {before} workers before");
        all_hear(&server, &mut subscribers, &format!("{wanted} workers"));
        before = wanted;
    }
    // Newcomers go to all of them.
    let more: Vec<Subscriber> =
        (0..90).map(|_| Subscriber::open(server.listen(), STREAMS[0], &["newcomer"])).collect();
    assert_eq!(server.api.send("newcomer", "welcome"), 90);
    drop((subscribers, more));
    let stats = server.wait_open(0);
    assert!(workers(&stats).iter().all(|&open| open == 0), "{stats}");
}

#[test]
fn bounds_may_change_where_the_streams_still_fit() {
    let server = Upgraded::serve(&["--max-connections=100", "--max-backlog=64KiB"]);
    let mut subscribers: Vec<Subscriber> = (0..40)
        .map(|n| Subscriber::open(server.listen(), STREAMS[n % 4], &[&format!("own:{n}"), "all"]))
        .collect();
    // `Deflated` is not among the first four.
    for bound in ["--max-connections=60", "--max-connections=1000", "--max-connections=50"] {
        let program = rewriting(&server.data().join("bound"), &[("--max-connections=", bound)]);
        server.upgrade(&["--binary", &program]);
        all_hear(&server, &mut subscribers, bound);
    }
    // The bound is the new one: there are ten places left.
    let more: Vec<Subscriber> =
        (0..10).map(|_| Subscriber::open(server.listen(), STREAMS[1], &["more"])).collect();
    let mut full = server.ask(crate::harness::get("/stream/more", &[]));
    assert_eq!(full.head().status, 503);
    drop(more);
    server.wait_open(40);
    let less = rewriting(&server.data().join("less"), &[("--max-backlog=", "--max-backlog=8KiB")]);
    assert!(server.refused(&["--binary", &less]).contains("--max-backlog"));
    let changes = [("--max-backlog=", "--max-backlog=128KiB"), ("", "--keepalive=0.2")];
    let program = rewriting(&server.data().join("changes"), &changes);
    server.upgrade(&["--binary", &program]);
    for subscriber in &mut subscribers {
        while subscriber.keep_alives == 0 {
            subscriber.read().unwrap();
        }
    }
    all_hear(&server, &mut subscribers, "with keep-alives");
}

#[test]
fn path_of_the_data_may_be_longer_than_that_of_a_socket() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("x".repeat(100)).join("y".repeat(100));
    fs::create_dir_all(&data).unwrap();
    let mut kept = Kept::of(Upgraded::of(Server::start_in(&data, &["--websocket-deflate"]), &data));
    kept.server.upgrade(&[]);
    kept.check();
}
