//! Many small events to one stream share a write where the server gathers them.

use std::time::Instant;

use serde_json::json;

use crate::harness::{Server, Socket};

/// How long a pause after a write is.
const GATHER_MS: u64 = 200;

/// Far less than 16 KiB, as they count where they wait: more is written before its time.
const EVENTS: u64 = 30;

#[test]
fn events_of_a_pause_share_a_write_and_each_is_heard_in_order() {
    let server = Server::start(&[&format!("--gather-ms={GATHER_MS}")]);
    let mut ndjson = server.stream("/stream/run:7", "application/x-ndjson");
    let mut socket = Socket::open(server.listen(), "/stream/run:7");
    server.wait_online("run:7", 2);
    let writes = || server.api.stats()["writes"].as_u64().unwrap();
    let (before, begun) = (writes(), Instant::now());
    for n in 0..EVENTS {
        server.api.post("/send", &json!({ "about": "run:7", "data": n })).ok();
    }
    for n in 0..EVENTS {
        assert_eq!((ndjson.data(), socket.data()), (json!(n), json!(n)));
    }
    // The first is written at once, then one write for each pause.
    let pauses = begun.elapsed().as_millis() as u64 / GATHER_MS;
    let written = writes() - before;
    assert!(written <= 2 * (pauses + 2), "{written} writes in {pauses} pauses");
}
