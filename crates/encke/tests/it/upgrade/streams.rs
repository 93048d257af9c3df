//! Streams of every transport go on: what they hear, what they say, where they resume.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;

use super::served::Upgraded;
use super::subscriber::{Kind, STREAMS, Subscriber};
use crate::harness::{Server, get, wait_for};

/// One of each kind, each under ids of its own and some that it shares.
fn one_of_each(server: &Server) -> Vec<Subscriber> {
    let open = |(n, &kind): (usize, &Kind)| {
        let own = format!("own:{n}");
        Subscriber::open(server.listen(), kind, &[&own, "all", "7"])
    };
    STREAMS.iter().enumerate().map(open).collect()
}

/// Each hears what is about it alone, and what is about all; returns the number of the last event.
#[track_caller]
fn all_hear(server: &Server, subscribers: &mut [Subscriber], round: usize) -> String {
    let send = |about: &str, data: &str| {
        server.api.post("/send", &json!({ "about": about, "data": data })).ok()
    };
    let mut last = String::new();
    for about in ["all", "7"] {
        let text = format!("{about} {round}");
        let answer = send(about, &text);
        assert_eq!(answer["delivered"], subscribers.len(), "{answer}");
        let id = answer["id"].as_str().unwrap().to_owned();
        assert!(id > last, "numbers grow");
        last.clone_from(&id);
        for subscriber in &mut *subscribers {
            let heard = subscriber.hear();
            assert_eq!(heard.data, text, "{:?}", subscriber.kind);
            assert!(heard.id.is_empty() || heard.id == id, "{:?}", subscriber.kind);
        }
    }
    for (n, subscriber) in subscribers.iter_mut().enumerate() {
        let text = format!("own {round}");
        assert_eq!(send(&format!("own:{n}"), &text)["delivered"], 1, "{:?}", subscriber.kind);
        assert_eq!(subscriber.data(), text, "{:?}", subscriber.kind);
        assert!(
            subscriber.heard.is_empty() && subscriber.gaps == 0,
            "{:?} hears no more",
            subscriber.kind
        );
    }
    last
}

#[test]
fn streams_of_every_transport_hear_on_and_numbers_grow() {
    let server = Upgraded::serve(&["--websocket-deflate"]);
    server.api.subscribe("all", "rj");
    let mut subscribers = one_of_each(&server);
    let mut last = all_hear(&server, &mut subscribers, 0);
    // Twice in a row: what has been inherited is handed on.
    for round in 1..=3 {
        let old = server.owner();
        server.upgrade(&[]);
        let next = all_hear(&server, &mut subscribers, round);
        assert!(next > last, "numbers grow over an upgrade: {last}, {next}");
        last = next;
        assert_eq!(server.api.send("rj", "followed"), subscribers.len() as u64);
        subscribers.iter_mut().for_each(|subscriber| assert_eq!(subscriber.data(), "followed"));
        server.wait_ended(old);
    }
    let stats = server.api.stats();
    assert_eq!(stats["connections_open"], subscribers.len(), "{stats}");
    assert_eq!(stats["connections_opened"], subscribers.len(), "{stats}");
    assert_eq!(server.api.logout("all"), subscribers.len() as u64);
    subscribers.iter_mut().for_each(Subscriber::expect_end);
}

#[test]
fn upgrade_goes_forth_to_another_binary_and_back() {
    let server = Upgraded::serve(&["--websocket-deflate"]);
    let mut subscribers = one_of_each(&server);
    let (here, other) = (env!("CARGO_BIN_EXE_encke"), server.data().join("encke-next"));
    std::fs::copy(here, &other).unwrap();
    let runs = |pid: u32| std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    for (round, binary) in
        [other.to_str().unwrap(), here, other.to_str().unwrap()].iter().enumerate()
    {
        server.upgrade(&["--binary", binary]);
        assert_eq!(runs(server.owner()), std::path::Path::new(binary).canonicalize().unwrap());
        all_hear(&server, &mut subscribers, round);
    }
}

#[test]
fn sigusr2_is_an_upgrade() {
    let server = Upgraded::serve(&["--websocket-deflate"]);
    let mut subscribers = one_of_each(&server);
    let old = server.owner();
    server.signal("USR2");
    wait_for("another process serves", || server.owner_if_any().is_some_and(|owner| owner != old));
    server.wait_ended(old);
    all_hear(&server, &mut subscribers, 0);
}

#[test]
fn websocket_logs_in_and_out_after_an_upgrade() {
    let server = Upgraded::serve(&["--websocket-deflate"]);
    for kind in [Kind::WebSocket, Kind::Deflated] {
        let mut subscriber = Subscriber::open(server.listen(), kind, &["a", "b"]);
        subscriber.command(&json!({ "login": ["c", 12] }));
        subscriber.command(&json!({ "logout": ["b"] }));
        server.upgrade(&[]);
        for (id, connections) in [("a", 1), ("b", 0), ("c", 1), ("12", 1)] {
            assert_eq!(server.api.connections(id), connections, "{id}");
            assert_eq!(server.api.send(id, id), connections);
            if connections == 1 {
                assert_eq!(subscriber.data(), id);
            }
        }
        let answer = subscriber.command(&json!({ "login": ["b", "d"] }));
        assert_eq!(answer, json!({ "ok": { "login": ["b", "d"] } }));
        let answer = subscriber.command(&json!({ "logout": ["a", "c"] }));
        assert_eq!(answer, json!({ "ok": { "logout": ["a", "c"] } }));
        for (id, connections) in [("a", 0), ("b", 1), ("c", 0), ("d", 1)] {
            assert_eq!(server.api.send(id, id), connections);
            if connections == 1 {
                assert_eq!(subscriber.data(), id);
            }
        }
        assert_eq!(subscriber.command(&json!({ "ping": 1 }))["ok"]["next"], subscriber.place);
        drop(subscriber);
        server.wait_open(0);
        assert_eq!(server.api.stats()["ids_online"], 0);
    }
}

/// What was remembered before an upgrade is told after it, without a gap.
#[test]
fn place_of_before_an_upgrade_resumes_behind_it() {
    let server = Upgraded::serve(&["--websocket-deflate"]);
    server.api.subscribe("bob", "rj");
    let kinds =
        [Kind::Sse, Kind::Ndjson, Kind::WebSocket, Kind::Deflated, Kind::OldSse, Kind::Poll];
    let place = |subscriber: &mut Subscriber| {
        assert_eq!(subscriber.data(), "heard");
        subscriber.place.clone()
    };
    let mut subscribers: Vec<Subscriber> =
        kinds.iter().map(|&kind| Subscriber::open(server.listen(), kind, &["bob"])).collect();
    server.wait_online("bob", kinds.len() as u64);
    assert_eq!(server.api.send("rj", "heard"), kinds.len() as u64);
    subscribers.iter_mut().for_each(|subscriber| subscriber.asks_again = false);
    let places: Vec<String> = subscribers.iter_mut().map(place).collect();
    drop(subscribers);
    server.wait_open(0);
    assert_eq!(server.api.send("bob", "before"), 0);
    server.upgrade(&[]);
    assert_eq!(server.api.send("rj", "after"), 0);
    for (kind, place) in kinds.into_iter().zip(&places) {
        let mut subscriber = Subscriber::resume(server.listen(), kind, &["bob"], place);
        for expected in ["before", "after"] {
            assert_eq!(subscriber.data(), expected, "{kind:?}");
        }
        assert_eq!(subscriber.gaps, 0, "{kind:?}");
    }
    let stats = server.api.stats();
    assert_eq!(stats["resume_gaps"], 0, "{stats}");
}

#[test]
fn key_of_before_an_upgrade_is_known_behind_it() {
    let server = Upgraded::serve(&[]);
    let mut subscriber = Subscriber::open(server.listen(), Kind::Ndjson, &["rj"]);
    let event = json!({ "about": "rj", "data": "once", "key": "k" });
    let first = server.api.post("/send", &event);
    assert_eq!(first.ok()["delivered"], 1);
    server.upgrade(&[]);
    assert_eq!(server.api.post("/send", &event).body, first.body);
    let other = json!({ "about": "rj", "data": "other", "key": "k" });
    assert_eq!(server.api.post("/send", &other).status(), 422);
    assert_eq!(server.api.send("rj", "last"), 1);
    assert_eq!((subscriber.data(), subscriber.data()), (json!("once"), json!("last")));
    let stats = server.api.stats();
    assert_eq!((&stats["events"], &stats["idempotency_keys"]), (&json!(2), &json!(1)), "{stats}");
}

#[test]
fn polls_are_answered_wherever_an_upgrade_meets_them() {
    let server = Upgraded::serve(&[]);
    let mut waiting = Subscriber::open(server.listen(), Kind::Poll, &["w", "all"]);
    let mut between = Subscriber::open(server.listen(), Kind::Poll, &["b", "all"]);
    between.asks_again = false;
    server.wait_online("all", 2);
    assert_eq!(server.api.send("b", 1), 1);
    assert_eq!(between.data(), 1);
    // One whose wait is over soon is answered empty in its time.
    let request = get("/poll/s?wait=10", &[]);
    let mut short =
        Subscriber::ask(super::subscriber::connect(server.listen()), Kind::Poll, &["s"], &request);
    short.asks_again = false;
    server.wait_online("s", 1);
    server.upgrade(&[]);
    // On a busy machine its wait may be over by now.
    let polls = server.api.stats()["streams_open"]["poll"].as_u64().unwrap();
    assert!((1..=2).contains(&polls), "{polls}");
    assert_eq!(server.api.connections("b"), 0);
    assert_eq!(server.api.send("b", "between"), 0);
    between.ask_again();
    assert_eq!(between.data(), "between");
    between.asks_again = true;
    between.ask_again();
    server.wait_online("all", 2);
    assert_eq!(server.api.send("all", "both"), 2);
    for subscriber in [&mut waiting, &mut between] {
        assert_eq!((subscriber.data(), subscriber.gaps), (json!("both"), 0));
    }
    while short.place.is_empty() {
        short.read().unwrap();
    }
    assert!(short.heard.is_empty());
    assert_eq!(server.api.stats()["connections_opened"], 3);
}

#[test]
fn silent_streams_go_on_to_send_their_keep_alives() {
    let server = Upgraded::serve(&["--keepalive=0.2", "--websocket-deflate"]);
    let mut subscribers = one_of_each(&server);
    for _ in 0..2 {
        for subscriber in &mut subscribers {
            let wanted = subscriber.keep_alives + 3;
            while subscriber.keep_alives < wanted {
                subscriber.read().unwrap();
            }
        }
        server.upgrade(&[]);
    }
    all_hear(&server, &mut subscribers, 0);
}

/// Clients that leave around an upgrade are logged out, by FIN and by reset.
#[test]
fn who_leaves_while_an_upgrade_goes_on_is_gone_behind_it() {
    let server = Upgraded::serve(&["--websocket-deflate"]);
    for round in 0..3 {
        let subscribers: Vec<Vec<Subscriber>> = (0..20).map(|_| one_of_each(&server)).collect();
        let count = subscribers.iter().map(Vec::len).sum::<usize>() as u64;
        server.wait_open(count);
        thread::scope(|scope| {
            let leaving = scope.spawn(move || {
                for (n, subscriber) in subscribers.into_iter().flatten().enumerate() {
                    if n % 2 == round % 2 {
                        socket2::SockRef::from(&subscriber.socket)
                            .set_linger(Some(std::time::Duration::ZERO))
                            .unwrap();
                    }
                    drop(subscriber);
                    thread::park_timeout(std::time::Duration::from_millis(3));
                }
            });
            server.upgrade(&[]);
            leaving.join().unwrap();
        });
        server.wait_open(0);
        assert_eq!(server.api.stats()["ids_online"], 0);
        server.api.wait_settled();
    }
}

/// Whoever connects is served, by the old process or the new one.
#[test]
fn nobody_who_connects_during_an_upgrade_is_turned_away() {
    let server = Upgraded::serve(&["--websocket-deflate"]);
    let (stop, listen) = (AtomicBool::new(false), server.listen());
    thread::scope(|scope| {
        let newcomers: Vec<_> = (0..4)
            .map(|n| {
                let stop = &stop;
                scope.spawn(move || {
                    let mut subscribers = Vec::new();
                    for kind in STREAMS.iter().cycle().skip(n) {
                        subscribers.push(Subscriber::open(listen, *kind, &["new"]));
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        thread::park_timeout(std::time::Duration::from_millis(2));
                    }
                    subscribers
                })
            })
            .collect();
        (0..5).for_each(|_| drop(server.upgrade(&[])));
        stop.store(true, Ordering::Relaxed);
        let mut subscribers: Vec<Subscriber> =
            newcomers.into_iter().flat_map(|newcomer| newcomer.join().unwrap()).collect();
        assert!(subscribers.len() > 100, "{} came", subscribers.len());
        assert_eq!(server.api.send("new", "welcome"), subscribers.len() as u64);
        subscribers.iter_mut().for_each(|subscriber| assert_eq!(subscriber.data(), "welcome"));
        let stats = server.api.stats();
        assert_eq!(stats["connections_open"], subscribers.len(), "{stats}");
    });
}

/// A server that has inherited ends as any other.
#[test]
fn successor_ends_in_order() {
    let server = Upgraded::serve(&["--websocket-deflate"]);
    let mut subscribers = one_of_each(&server);
    server.upgrade(&[]);
    testing::signal(server.owner(), "TERM");
    subscribers.iter_mut().for_each(Subscriber::expect_end);
    wait_for("it has ended", || server.processes().is_empty());
    // And what it leaves is a store that another one opens.
    drop(Server::start_in(server.data(), &[]));
}
