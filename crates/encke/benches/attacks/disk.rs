//! Attacks on a server that keeps events on disk, by clients that have no rights there.

use std::thread;

use serde_json::json;

use crate::clients::Target;
use crate::harness::{Api, Wire, get};

/// Events of one id in the log, twice as many as its rule keeps.
const EVENTS: usize = 100_000;

/// The rule: what is over its count is in the log still, and is not answered.
pub(crate) const RULE: &str = "--keep=long*=1d,50000";

/// Clients at a time.
const CLIENTS: usize = 64;

/// An id with many kept events, of which the memory has the last few.
fn fill(target: &Target) {
    let api = Api::new(target.api);
    let line = json!({ "about": "long", "data": "y".repeat(100) }).to_string() + "\n";
    for _ in 0..EVENTS / 500 {
        api.post_lines("/send", &line.repeat(500));
    }
}

/// Clients that resume all that is kept of the id, hear a little of it, and hang up.
pub(crate) fn resumes(target: &Target) {
    fill(target);
    let request = get("/stream/long?after=earliest", &[]);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !target.is_over() {
                    let Ok(mut wire) = Wire::try_connect(target.listen) else { continue };
                    if wire.try_send(&request).is_ok() {
                        // The head, and the beginning of the first window.
                        let _ = wire.take(2_000);
                    }
                }
            });
        }
    });
}

/// Clients that resume all of it, and read nothing.
pub(crate) fn unread_resumes(target: &Target) {
    fill(target);
    let request = get("/stream/long?after=earliest", &[]);
    let open = |_| {
        let mut wire = Wire::connect(target.listen);
        let _ = wire.try_send(&request);
        wire
    };
    let _wires: Vec<Wire> = (0..2048).map(open).collect();
    target.wait_end();
}

/// Callers of the API that ask for one large page after the other, and read none.
pub(crate) fn unread_pages(target: &Target) {
    fill(target);
    let request = get("/events/long?limit=1000&after=earliest", &[]).repeat(20);
    let open = |_| {
        let mut wire = Wire::connect(target.api);
        let _ = wire.try_send(&request);
        wire
    };
    let _wires: Vec<Wire> = (0..256).map(open).collect();
    target.wait_end();
}
