//! Connections that a worker's lane has given back are leased again, once the control plane has
//! answered what the lane did not take.

use serde_json::json;

use crate::harness::{End, Server, Wire, wait_for};
use crate::lanes::{all_at_once, answer, at_once, event, request};

#[test]
fn half_a_request_is_waited_for_elsewhere_and_goes_on_there() {
    // With a second lane, one that begins to rest would look like one that gives it back.
    let server = Server::start(&["--workers=1"]);
    let text = event("rj", "in halves");
    let _subscriber = server.listener("rj");
    // What lies with a worker is among its descriptors.
    let without = server.worker_sockets();
    let mut wire = Wire::connect(server.api.address());
    // A worker that has just waited for a disk takes none for a second.
    wait_for("it is leased", || {
        wire.send(event("nobody", "first"));
        answer(&mut wire).ok();
        server.worker_sockets() > without
    });
    let before = at_once(&server);
    wire.send(&text[..30]);
    wait_for("it is given back", || server.worker_sockets() == without);
    wire.send(&text[30..]);
    assert_eq!(answer(&mut wire).ok()["delivered"], 1);
    assert_eq!(at_once(&server), before);
    is_leased_again(&server, &mut wire);
}

/// Waits until a send of a connection is accepted in a worker's turn again.
fn is_leased_again(server: &Server, wire: &mut Wire) {
    let before = at_once(server);
    wait_for("it is leased again", || {
        wire.send(event("nobody", "x"));
        answer(wire).ok();
        at_once(server) > before
    });
}

/// One in four of its requests is not for lanes: most of the others are answered there, however
/// often it was given back.
#[test]
fn connection_that_is_given_back_again_and_again_has_most_of_its_sends_in_lanes() {
    all_at_once(30, || {
        let server = Server::start(&["--workers=1"]);
        let mut wire = Wire::connect(server.api.address());
        for key in 0..40 {
            let body = json!({ "about": "nobody", "data": key }).to_string();
            let once = request(&format!("Idempotency-Key: \"{key}\"\r\n"), &body);
            for text in [event("nobody", "a"), event("nobody", "b"), event("nobody", "c"), once] {
                wire.send(text);
                answer(&mut wire).ok();
            }
        }
        // What its first sends meet does not count.
        at_once(&server).min(30)
    });
}

#[test]
fn connection_is_leased_again_behind_what_is_not_for_lanes() {
    let server = Server::start(&[]);
    let _subscriber = server.listener("rj");
    let mut wire = Wire::connect(server.api.address());
    wire.send(event("nobody", "first"));
    answer(&mut wire).ok();
    let once = |key: usize| {
        let body = json!({ "about": "rj", "data": key }).to_string();
        request(&format!("Idempotency-Key: \"{key}\"\r\n"), &body)
    };
    let other = "GET /connections/rj HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for key in 0..3 {
        // Some of each kind, one by one and together.
        wire.send(once(key));
        assert_eq!(answer(&mut wire).ok()["delivered"], 1);
        wire.send([other, &once(key + 3), other].concat());
        assert_eq!(answer(&mut wire).ok()["connections"], 1);
        assert_eq!(answer(&mut wire).ok()["delivered"], 1);
        assert_eq!(answer(&mut wire).ok()["connections"], 1);
        is_leased_again(&server, &mut wire);
    }
    // What it says last is answered, and then it is over.
    wire.send([event("rj", "last"), other.replace("Host", "Connection: close\r\nHost")].concat());
    assert_eq!(answer(&mut wire).ok()["delivered"], 1);
    assert_eq!(answer(&mut wire).ok()["connections"], 1);
    assert_eq!(wire.end(), End::Fin);
}
