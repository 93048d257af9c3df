//! An upgrade hands the log over: whoever sends or listens notices nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;

use super::{send, send_durable};
use crate::harness::{Api, Server};
use crate::upgrade::Upgraded;
use crate::upgrade::served::rewriting;

const KEEP: &[&str] = &["--keep=k*=7d", "--history-events=2"];

fn kept(api: &Api) -> Vec<Value> {
    let page = api.get("/events/k1?limit=1000").ok();
    page["events"].as_array().unwrap().iter().map(|event| event["data"].clone()).collect()
}

#[test]
fn what_is_kept_is_there_after_an_upgrade_in_the_middle_of_sends() {
    let server = Upgraded::serve(KEEP);
    let first = send_durable(&server.api, "k1", -1);
    let is_over = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let (api, is_over) = (server.api.another(), &is_over);
        let sends = scope.spawn(move || {
            let mut sent = 0;
            while !is_over.load(Ordering::Relaxed) && sent < 900 {
                send_durable(&api, "k1", sent);
                sent += 1;
            }
            sent
        });
        server.upgrade(&[]);
        is_over.store(true, Ordering::Relaxed);
        sends.join().unwrap()
    });
    let api = server.api.another();
    send_durable(&api, "k1", "last");
    let mut all: Vec<Value> = (-1..sent).map(Value::from).collect();
    all.push("last".into());
    assert_eq!(kept(&api), all);
    let mut back = server.listener(&format!("k1?after={first}"));
    (0..sent).for_each(|nth| assert_eq!(back.data(), nth));
    assert_eq!(api.stats()["resume_gaps"], 0);
    // And the next start goes on, too.
    server.kill_owner();
    let server = Server::start_in(server.data(), KEEP);
    let mut back = server.listener(&format!("k1?after={first}"));
    assert_eq!(back.data(), if sent > 0 { Value::from(0) } else { "last".into() });
    assert_eq!(kept(&server.api), all);
}

/// A client that comes back to `k1` from `place` is told of a gap.
#[track_caller]
fn expect_gap(server: &Upgraded, place: &str) {
    let page = server.api.another().get(&format!("/events/k1?after={place}")).ok();
    assert_eq!(page["gap"], true, "{page}");
}

#[test]
fn upgrade_that_begins_to_keep_claims_nothing_of_before() {
    let server = Upgraded::serve(KEEP);
    let kept_at_first = send_durable(&server.api, "k1", "heard");
    let off = rewriting(&server.data().join("off"), &[("--keep=", "")]);
    server.upgrade(&["--binary", &off]);
    let api = server.api.another();
    let place = send(&api, "k1", "heard");
    (0..5).for_each(|nth| drop(send(&api, "k1", nth)));
    let on = rewriting(&server.data().join("on"), &[("", "--keep=k*=7d")]);
    server.upgrade(&["--binary", &on]);
    expect_gap(&server, &place);
    expect_gap(&server, &kept_at_first);
    let api = server.api.another();
    let later = send_durable(&api, "k1", "later");
    (0..5).for_each(|nth| drop(send_durable(&api, "k1", nth)));
    let mut back = server.listener(&format!("k1?after={later}"));
    (0..5).for_each(|nth| assert_eq!(back.data(), nth));
}
