//! Attacks on the server's memory, and on the time that it takes to be rid of what it kept.

use std::io::Read;
use std::thread;
use std::time::Duration;

use hub::SUBJECTS_MAX;
use load::{Flood, FloodConfig};
use serde_json::json;

use crate::clients::{IDS, TEXT, Target, command};
use crate::harness::{Api, Socket, Wire, frame};

/// What an event may have as a line, with a default backlog of 64 KiB, less what stands around its
/// parts and is sent with it.
const LINE_BYTES_MAX: usize = 64 * 1024 - 256;

/// WebSockets that send most of a long message each, and no more.
pub(crate) fn half_messages(target: &Target) {
    let message = frame(TEXT, &[b'x'; 4_000]);
    let half = &message[..message.len() - 1];
    let open = |n: usize| {
        let mut wire = Socket::raw(target.listen, &format!("/stream/{n}"));
        let _ = wire.try_send(half);
        wire
    };
    let _wires: Vec<Wire> = (10_000..14_000).map(open).collect();
    target.wait_end();
}

/// Clients that resume a long history, log out, and read a trickle.
pub(crate) fn tricklers(target: &Target) {
    let api = Api::new(target.api);
    let first = api.post("/send", &json!({ "about": "history", "data": 0 })).ok()["id"].take();
    let line = json!({ "about": "history", "data": "y".repeat(1500) }).to_string() + "\n";
    let mut wires = Vec::new();
    while !target.is_over() {
        api.post_lines("/send", &line.repeat(500));
        if wires.len() < 500 {
            let place = first.as_str().unwrap();
            let path = format!("/stream/history?last_event_id={place}");
            let mut wire = Socket::raw(target.listen, &path);
            let _ = wire.try_send(command("logout", "\"history\""));
            wires.push(wire);
        }
        for wire in &wires {
            let _ = wire.socket().read(&mut [0; 100]);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Connections with as many ids as one may have, each a long name that nobody else has. In the end
/// all go at once.
pub(crate) fn names(target: &Target) {
    let open = |n: usize| {
        let mut socket = Socket::open(target.listen, &format!("/stream/n{n}"));
        for from in (1..IDS).step_by(15) {
            if target.is_over() {
                break;
            }
            let name = |k| format!("{n}-{k}-{}", "x".repeat(240));
            let ids: Vec<String> = (from..(from + 15).min(IDS)).map(name).collect();
            // Past the bound of all connections' ids it is refused.
            socket.ask(json!({ "login": ids }));
        }
        socket
    };
    let kept: Vec<Vec<Socket>> = thread::scope(|scope| {
        let some = |first: usize| move || (first..1500).step_by(4).map(open).collect();
        let openers: Vec<_> = (0..4).map(|first| scope.spawn(some(first))).collect();
        openers.into_iter().map(|opener| opener.join().unwrap()).collect()
    });
    target.wait_end();
    drop(kept);
}

/// Connections that name ids by turns, so that what is kept for one lies between what is kept for
/// the other. Then one of each two goes, and the others when they are many.
pub(crate) fn scattered_names(target: &Target) {
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let mut kept = Vec::new();
                for pair in 0.. {
                    if target.is_over() {
                        return;
                    }
                    let open = |n| Socket::open(target.listen, &format!("/stream/s{thread}-{n}"));
                    let mut two = [open(2 * pair), open(2 * pair + 1)];
                    let parts: Vec<usize> = (0..IDS - 1).collect();
                    for parts in parts.chunks(100) {
                        for &part in parts {
                            let id = format!("{thread}-{pair}-{part}-{}", "x".repeat(200));
                            two[part % 2].send(json!({ "login": [id] }).to_string());
                        }
                        // Past the bound of all connections' ids it is refused.
                        parts.iter().for_each(|part| drop(two[part % 2].message()));
                    }
                    let [stays, _goes] = two;
                    kept.push(stays);
                    if kept.len() == 100 {
                        kept.clear();
                    }
                }
            });
        }
    });
}

/// Many connections with many ids that end together, with a reset.
pub(crate) fn resets(target: &Target) {
    while !target.is_over() {
        let open = |n: usize| target.websocket_with_ids(1_000_000 + n * IDS);
        let wires: Vec<Wire> = (0..500).map(open).collect();
        wires.into_iter().for_each(Wire::reset);
    }
}

/// Listeners of one id that never read, and are cut off at about one time.
pub(crate) fn never_readers(target: &Target) {
    let url = format!("http://{}/stream/silent", target.listen);
    let users = 12_000;
    let config = FloodConfig { url, users, slow: 1.0, threads: 1, ..FloodConfig::default() };
    let listeners = Flood::start(config).unwrap();
    listeners.wait_until(Duration::from_secs(30), |totals| totals.open() >= u64::from(users));
    let api = Api::new(target.api);
    let event = json!({ "about": "silent", "data": "y".repeat(15_000) });
    for _ in 0..20 {
        api.post("/send", &event);
        thread::sleep(Duration::from_millis(100));
    }
    target.wait_end();
}

/// Applications that send events as long as they may be, about as many ids as they may be, each of
/// them a name that nobody else has: what is remembered is soon forgotten again, of each id.
pub(crate) fn long_events_about_many(target: &Target) {
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let api = Api::new(target.api);
                for n in 0.. {
                    if target.is_over() {
                        return;
                    }
                    let id = |k| format!("{thread}-{n}-{k}-{}", "x".repeat(200));
                    let about: Vec<String> = (0..SUBJECTS_MAX).map(id).collect();
                    let room = LINE_BYTES_MAX - about.iter().map(|id| id.len() + 3).sum::<usize>();
                    let event = json!({ "about": about, "data": "y".repeat(room) });
                    api.post("/send", &event).ok();
                }
            });
        }
    });
}

/// Senders that have begun a stream of events and say nothing.
pub(crate) fn silent_senders(target: &Target) {
    let open = |_| {
        let mut wire = Wire::connect(target.api);
        let _ = wire.try_send(
            "POST /send HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n\
             Transfer-Encoding: chunked\r\n\r\n",
        );
        wire
    };
    let _wires: Vec<Wire> = (0..4096).map(open).collect();
    target.wait_end();
}
