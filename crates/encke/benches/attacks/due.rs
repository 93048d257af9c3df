//! Here are many connections that all fall due in one moment. What a worker has to do for them is
//! put off a part at a time, and others wait for no more than such a part.

use std::thread;
use std::time::{Duration, Instant};

use load::{Flood, FloodConfig};
use serde_json::json;

use crate::clients::Target;
use crate::harness::{Api, DEADLINE, Wire, get, in_seconds, signed};

/// Who falls due together.
const CROWD: u32 = 12_000;

/// How long a silent stream, or the rest of a head, is waited for in these attacks.
pub(crate) const OPTIONS: [&str; 2] = ["--keepalive=1", "--head-timeout=2"];

/// Listeners of the id `crowd`, with a `query` behind their path, when all are online; `None` where
/// the time is up before.
fn crowd(target: &Target, query: &str) -> Option<Flood> {
    let url = format!("http://{}/stream/crowd{query}", target.listen);
    let config = FloodConfig { url, users: CROWD, threads: 1, ..FloodConfig::default() };
    let listeners = Flood::start(config).unwrap();
    let all_open = listeners.wait_until(target.left(), |totals| totals.open() == u64::from(CROWD));
    all_open.then_some(listeners)
}

/// Waits until all streams of the crowd have ended.
fn wait_ended(listeners: Flood) {
    assert!(listeners.wait_until(DEADLINE, |totals| totals.open() == 0), "they are not ended");
    listeners.finish().unwrap();
}

/// Listeners who heard something at one time, so that the next keep-alive of all is due at one.
pub(crate) fn keep_alives(target: &Target) {
    let listeners = crowd(target, "");
    Api::new(target.api).send("crowd", 1);
    target.wait_end();
    drop(listeners);
}

/// Heads that are begun at one time and never whole: the same client comes again.
pub(crate) fn time_outs(target: &Target) {
    let head = get("/stream/1?id=1", &[]);
    while !target.is_over() {
        let wires: Vec<Wire> = (0..CROWD)
            .filter_map(|_| {
                let mut wire = Wire::try_connect(target.listen).ok()?;
                wire.try_send(head.trim_end()).ok().map(|()| wire)
            })
            .collect();
        let is_there = |wire: &&Wire| wire.is_open();
        while !target.is_over() && wires.first().as_ref().is_some_and(is_there) {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Listeners of one id whom the application logs out.
pub(crate) fn logged_out(target: &Target) {
    let api = Api::new(target.api);
    while let Some(listeners) = crowd(target, "") {
        api.post("/logout/crowd", &json!(null));
        wait_ended(listeners);
    }
}

/// Listeners with tokens of one subject, of which all are revoked.
pub(crate) fn revoked(target: &Target) {
    let (api, begun) = (Api::new(target.api), Instant::now());
    for round in 0.. {
        let sub = format!("crowd {round}");
        let claims = json!({
            "sub": sub, "exp": in_seconds(3600), "iat": in_seconds(-5), "encke": { "ids": ["*"] },
        });
        let query = format!("?token={}", signed(&claims));
        let Some(listeners) = crowd(target, &query) else {
            return println!("  {:.1} rounds/s", f64::from(round) / begun.elapsed().as_secs_f64());
        };
        api.post("/tokens/revoke", &json!({ "sub": sub })).ok();
        wait_ended(listeners);
    }
}
