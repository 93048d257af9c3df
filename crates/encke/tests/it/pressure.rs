//! Much at once: broadcasts past every queue's bound, names that come and go on all sides, many
//! that leave together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;

use crate::harness::{Api, Server, Stream, Wire, get};

#[test]
fn broadcasts_past_the_bounds_of_the_mailboxes_lose_nothing() {
    const LISTENERS: usize = 800;
    const EVENTS: usize = 1000;
    let server = Server::start(&["--max-backlog=64MiB"]);
    let mut streams: Vec<Stream> = (0..LISTENERS).map(|_| server.listener("all")).collect();
    // Two senders, so that what one posts waits behind what the other does.
    thread::scope(|scope| {
        for sender in ["one", "two"] {
            let api = server.api.another();
            scope.spawn(move || {
                let event = |n| format!("{{\"about\":\"all\",\"data\":[\"{sender}\",{n}]}}\n");
                let lines: String = (0..EVENTS / 2).map(event).collect();
                let answers = api.post_lines("/send", &lines).body;
                let good = format!("{{\"delivered\":{LISTENERS},");
                answers.lines().for_each(|answer| assert!(answer.starts_with(&good), "{answer}"));
            });
        }
    });
    for stream in &mut streams {
        let mut next = [0, 0];
        for _ in 0..EVENTS {
            let chunk = stream.chunk();
            let sender = usize::from(chunk.contains("\"two\""));
            assert!(chunk.ends_with(&format!(",{}]}}\n", next[sender])), "{chunk}");
            next[sender] += 1;
        }
        assert_eq!(next, [EVENTS / 2; 2]);
    }
    let stats = server.api.stats();
    assert_eq!((&stats["deliveries"], &stats["dropped"]), (&json!(LISTENERS * EVENTS), &json!(0)));
}

#[test]
fn names_that_come_and_go_on_all_sides_stay_themselves() {
    const NAMES: usize = 12;
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_in(data.path(), &[]);
    let name = |n: usize| format!("name:{}", n % NAMES);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for churner in 0..3 {
            let (listen, done) = (server.listen(), &done);
            scope.spawn(move || {
                let mut visit = churner;
                while !done.load(Ordering::Relaxed) {
                    let path = format!("/stream/{}?id={}", name(visit), name(7 * visit + 1));
                    let stream = Stream::open(listen, &path, "*/*");
                    visit += 1;
                    if visit % 2 == 0 {
                        stream.wire.reset();
                    }
                }
            });
        }
        let changers: Vec<_> = (0..2)
            .map(|changer| {
                let api: Api = server.api.another();
                scope.spawn(move || {
                    for round in 0..400 {
                        // Each changer has its own half of the names; all are there at the end.
                        let own = name(2 * (round % (NAMES / 2)) + changer);
                        let pair = json!([{ "subscriber": own, "subscribee": "star" }]);
                        api.post("/subscriptions/remove", &pair).ok();
                        let added = api.post("/subscriptions/add", &pair).ok();
                        assert_eq!(added, json!({ "added": 1 }));
                    }
                })
            })
            .collect();
        changers.into_iter().for_each(|changer| changer.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    server.wait_open(0);
    assert_eq!(server.api.stats()["ids_online"], 0);
    let check = |server: &Server| {
        let mut names = server.api.ids("/subscribers/star", 5);
        names.sort_unstable();
        let mut expected: Vec<_> = (0..NAMES).map(name).collect();
        expected.sort_unstable();
        assert_eq!(names, expected);
        let mut streams: Vec<_> = (0..NAMES).map(|n| server.listener(&name(n))).collect();
        assert_eq!(server.api.send("star", "all"), NAMES as u64);
        for (n, stream) in streams.iter_mut().enumerate() {
            assert_eq!(stream.data(), "all");
            assert_eq!(server.api.send(&name(n), n), 1);
            assert_eq!(stream.data(), n);
        }
    };
    check(&server);
    server.into_program().kill();
    check(&Server::start_in(data.path(), &[]));
}

#[test]
fn crowd_that_leaves_together_does_not_keep_newcomers_out() {
    let server = Server::start(&[]);
    let sockets = server.worker_sockets();
    for _ in 0..3 {
        let crowd: Vec<Wire> =
            (0..3000).map(|n| server.ask(get(&format!("/stream/{n}?id=all"), &[]))).collect();
        server.wait_online("all", 3000);
        assert_eq!(server.api.send("all", "everybody"), 3000);
        drop(crowd);
        let mut newcomer = server.listener("newcomer");
        assert_eq!(server.api.send("newcomer", "hello"), 1);
        assert_eq!(newcomer.data(), "hello");
        server.wait_online("all", 0);
        server.wait_open(1);
    }
    server.wait_open(0);
    server.api.wait_settled();
    assert_eq!(server.worker_sockets(), sockets);
}
