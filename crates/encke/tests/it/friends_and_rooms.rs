//! Friends and rooms on one connection: what comes by a stored subscription, what comes by a room
//! that the connection is logged in under, and what is about both. Each once, in one order.

use std::collections::BTreeSet;
use std::thread;

use serde_json::{Value, json};

use crate::harness::{Server, Socket};
use crate::upgrade::Upgraded;
use crate::upgrade::subscriber::{Kind, STREAMS, Subscriber};

/// Events of each sender in a round.
const EACH: usize = 30;

/// By whom, and the number of it.
type Sent = (String, String);

fn id_of(answer: &Value) -> String {
    answer["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// The events of one sender, in the order in which it sent them: each waits for the answer before.
fn send_all(name: &str, mut send: impl FnMut(Value) -> String) -> Vec<Sent> {
    let about = match name {
        "friend" => json!("zoe"),
        "room" => json!("room:7"),
        _ => json!(["zoe", "room:7"]),
    };
    let texts = (0..EACH).map(|n| format!("{name} {n}"));
    texts.map(|text| (send(json!({ "about": about, "text": text })), text)).collect()
}

/// Friend, room and both at one time: all that they have sent, by its id.
fn talk(server: &Server) -> BTreeSet<Sent> {
    let by_api = |name: &'static str| {
        let api = server.api.another();
        move || send_all(name, |event| id_of(&api.post("/send", &event).ok()))
    };
    let listen = server.listen();
    thread::scope(|scope| {
        let (friend, both) = (scope.spawn(by_api("friend")), scope.spawn(by_api("both")));
        let room = scope.spawn(move || {
            // A client that publishes, and hears nothing of what the others send.
            let mut client = Socket::open(listen, "/stream/eve");
            send_all("room", |event| id_of(&client.ask(json!({ "send": event }))["ok"]))
        });
        [friend, both, room].into_iter().flat_map(|sender| sender.join().unwrap()).collect()
    })
}

/// Each hears all of it once, as the others do.
fn all_hear(subscribers: &mut [Subscriber], sent: &BTreeSet<Sent>) {
    // By their ids, which grow in the order in which they were sent.
    let expected: Vec<&Sent> = sent.iter().collect();
    assert_eq!(expected.len(), 3 * EACH, "each has an id of its own");
    for subscriber in &mut *subscribers {
        for (id, text) in &expected {
            let heard = subscriber.hear();
            let is_it = heard.id.is_empty() || heard.id == *id;
            assert!(is_it && heard.data == **text, "{:?}: {heard:?}, not {text}", subscriber.kind);
        }
        assert_eq!(subscriber.gaps, 0, "{:?}", subscriber.kind);
    }
    // What each sender has sent comes in its order.
    for name in ["friend", "room", "both"] {
        let own = expected.iter().filter_map(|(_, text)| text.strip_prefix(name)?.get(1..));
        assert!(own.eq((0..EACH).map(|n| n.to_string())), "{name}: {expected:?}");
    }
}

#[test]
fn friends_and_rooms_come_over_one_connection_once_and_in_one_order() {
    let server = Upgraded::serve(&[
        "--client-send",
        "--client-send-rate=0",
        "--websocket-deflate",
        "--history-events=1000",
    ]);
    // A friend, and a room that is followed as well as entered: no reason to hear it twice.
    server.api.subscribe("bob", "zoe");
    server.api.subscribe("bob", "room:7");
    let kinds = STREAMS.into_iter().chain([Kind::Poll]);
    let mut subscribers: Vec<Subscriber> =
        kinds.map(|kind| Subscriber::open(server.listen(), kind, &["bob", "room:7"])).collect();
    server.wait_online("bob", subscribers.len() as u64);
    let mut before = String::new();
    for round in 0..2 {
        if round == 1 {
            server.upgrade(&[]);
        }
        let sent = talk(&server);
        assert!(sent.first().is_some_and(|(id, _)| *id > before), "ids grow over an upgrade");
        before = sent.last().map(|(id, _)| id.clone()).unwrap_or_default();
        all_hear(&mut subscribers, &sent);
    }
    // What comes next is the next: nothing comes twice.
    server.api.send("room:7", "end");
    subscribers
        .iter_mut()
        .for_each(|subscriber| assert_eq!(subscriber.data(), "end", "{:?}", subscriber.kind));
    // Who comes back hears both from its place on.
    let mut back = Subscriber::resume(server.listen(), Kind::Sse, &["bob", "room:7"], &before);
    assert_eq!((back.data(), back.gaps), (json!("end"), 0));
}
