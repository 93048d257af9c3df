//! Who hears an event, how often, and what its sender is told.

use std::thread;

use serde_json::{Value, json};

use crate::harness::{Server, Stream};

fn follow(server: &Server, pairs: &[(&str, &str)]) {
    pairs.iter().for_each(|(subscriber, subscribee)| server.api.subscribe(subscriber, subscribee));
}

#[test]
fn subject_and_its_subscribers_hear_and_nobody_else() {
    let server = Server::start(&[]);
    follow(&server, &[("bob", "rj"), ("7", "rj"), ("rj", "carol")]);
    let mut hearing: Vec<_> = ["rj", "bob", "7"].map(|id| server.listener(id)).into();
    let mut others: Vec<_> = ["carol", "8", "Bob"].map(|id| server.listener(id)).into();
    assert_eq!(server.api.send("rj", "to all"), 3);
    for stream in &mut hearing {
        let event = stream.event();
        assert_eq!((&event["about"], &event["data"]), (&json!("rj"), &json!("to all")));
    }
    // What the others hear first is about themselves.
    for (id, stream) in ["carol", "8", "Bob"].into_iter().zip(&mut others) {
        server.api.send(id, "to one");
        assert_eq!(stream.event()["about"], id);
    }
    // A follower of a follower is none: carol's event came to rj and stopped there.
    assert_eq!(hearing[0].event()["about"], "carol");
    assert_eq!(server.api.send("bob", 1), 1);
    assert_eq!(hearing[1].event()["about"], "bob");
}

#[test]
fn event_for_nobody_online_is_delivered_to_0() {
    let server = Server::start(&[]);
    follow(&server, &[("bob", "rj"), ("1", "2")]);
    for about in ["nobody", "12345", "rj", "bob", "1", "2"] {
        assert_eq!(server.api.send(about, 1), 0, "{about}");
        assert_eq!(server.api.connections(about), 0);
        assert_eq!(server.api.logout(about), 0);
    }
    let stats = server.api.stats();
    assert_eq!((&stats["events"], &stats["deliveries"]), (&json!(6), &json!(0)));
}

#[test]
fn connection_whose_ids_match_several_times_hears_once() {
    let server = Server::start(&[]);
    follow(&server, &[("a", "rj"), ("b", "rj"), ("c", "rj"), ("1", "rj")]);
    let mut stream = server.listener("a?id=b&id=c&id=rj&id=1&id=other");
    let mut second = server.listener("b?id=c");
    for n in 0..20 {
        assert_eq!(server.api.send("rj", n), 2);
        assert_eq!((stream.data(), second.data()), (json!(n), json!(n)));
    }
    assert_eq!(server.api.send("other", "x"), 1);
    assert_eq!(stream.data(), "x");
    assert_eq!(server.api.stats()["deliveries"], 41);
}

#[test]
fn id_with_many_connections_hears_on_each_of_them() {
    let server = Server::start(&[]);
    follow(&server, &[("many", "rj")]);
    let mut streams: Vec<_> = (0..200).map(|_| server.listener("many")).collect();
    assert_eq!(server.api.connections("many"), 200);
    assert_eq!(server.api.send("many", 1), 200);
    assert_eq!(server.api.send("rj", 2), 200);
    for stream in &mut streams {
        assert_eq!((stream.data(), stream.data()), (json!(1), json!(2)));
    }
    streams.truncate(50);
    server.wait_online("many", 50);
    assert_eq!(server.api.send("rj", 3), 50);
    for stream in &mut streams {
        assert_eq!(stream.data(), 3);
    }
}

#[test]
fn subscription_holds_from_its_answer_on_and_ends_with_its_removal() {
    let server = Server::start(&[]);
    let mut bob = server.listener("bob");
    let pair = json!([{ "subscriber": "bob", "subscribee": "rj" }]);
    for n in 0..20 {
        assert_eq!(server.api.send("rj", "before"), 0);
        assert_eq!(server.api.post("/subscriptions/add", &pair).ok(), json!({ "added": 1 }));
        assert_eq!(server.api.send("rj", n), 1);
        assert_eq!(bob.data(), n);
        assert_eq!(server.api.post("/subscriptions/remove", &pair).ok(), json!({ "removed": 1 }));
    }
}

#[test]
fn celebrity_is_heard_by_every_follower_online() {
    let server = Server::start(&[]);
    let pairs: String =
        (0..30_000).map(|n| format!("{{\"subscriber\":{n},\"subscribee\":\"star\"}}\n")).collect();
    let added = server.api.post_lines("/subscriptions/add", &pairs).ok();
    assert_eq!(added, json!({ "added": 30_000 }));
    let mut online: Vec<_> =
        (0..30_000).step_by(100).map(|n: u32| server.listener(&n.to_string())).collect();
    let mut star = server.listener("star");
    for n in 0..10 {
        assert_eq!(server.api.send("star", n), 301);
        assert_eq!(star.data(), n);
        online.iter_mut().for_each(|stream| assert_eq!(stream.data(), n));
    }
}

/// Events as a stream's body: number `from..to` of `sender` about `about`.
fn lines(sender: u32, about: &str, numbers: std::ops::Range<u32>) -> String {
    let line = |n| format!("{{\"about\":\"{about}\",\"data\":[{sender},{n}]}}\n");
    numbers.map(line).collect()
}

#[test]
fn events_of_a_sender_reach_a_listener_in_order_without_gap() {
    const EVENTS: u32 = 5_000;
    let server = Server::start(&["--max-backlog=64MiB"]);
    let mut streams: Vec<Stream> = ["text/event-stream", "*/*"]
        .iter()
        .map(|accept| server.stream("/stream/1", accept))
        .chain([server.stream("/test/1", "*/*")])
        .collect();
    streams[2].chunk();
    thread::scope(|scope| {
        let (api, body) = (server.api.another(), lines(0, "1", 0..EVENTS));
        scope.spawn(move || {
            let answers = api.post_lines("/send", &body).body;
            assert_eq!(answers.lines().count(), EVENTS as usize);
            assert!(answers.lines().all(|answer| answer.starts_with("{\"delivered\":3,")));
        });
        for (n, stream) in streams.iter_mut().enumerate() {
            scope.spawn(move || {
                for number in 0..EVENTS {
                    let chunk = stream.chunk();
                    let expected = match n {
                        0 | 1 => format!("\"data\":[0,{number}]}}"),
                        _ => format!("Recvd msg #{}: '[0,{number}]'", number + 1),
                    };
                    assert!(chunk.contains(&expected), "{chunk:?} instead of {expected:?}");
                }
            });
        }
    });
    assert_eq!(server.api.stats()["deliveries"], 3 * EVENTS);
}

#[test]
fn order_holds_for_each_of_many_senders() {
    const SENDERS: u32 = 4;
    const EVENTS: u32 = 400;
    let server = Server::start(&["--max-backlog=64MiB"]);
    follow(&server, &[("bob", "rj")]);
    let mut bob = server.listener("bob");
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let api = server.api.another();
            scope.spawn(move || {
                // Half of them one by one, half as a stream.
                if sender % 2 == 0 {
                    for n in 0..EVENTS {
                        assert_eq!(api.send("rj", json!([sender, n])), 1);
                    }
                } else {
                    api.post_lines("/send", &lines(sender, "rj", 0..EVENTS));
                }
            });
        }
        let mut next = [0; SENDERS as usize];
        for _ in 0..SENDERS * EVENTS {
            let data: Value = bob.data();
            let sender = data[0].as_u64().unwrap() as usize;
            assert_eq!(data[1], next[sender], "of sender {sender}");
            next[sender] += 1;
        }
    });
}
