//! Connection ids, and the one connection that an event leaves out.

use std::collections::BTreeSet;
use std::io::{Read, Write};

use serde_json::{Value, json};

use crate::harness::{Authority, Program, Server, Socket, encke, get, tls_client};
use crate::upgrade::served::Upgraded;
use crate::upgrade::subscriber::{Kind, STREAMS, Subscriber, connect};

/// A stream under `ids`, and the id that its head tells.
fn open<S: Read + Write>(mut socket: S, kind: Kind, ids: &[&str]) -> (Subscriber<S>, String) {
    socket.write_all(kind.request(&kind.path(ids, None)).as_bytes()).unwrap();
    let mut subscriber = Subscriber::asked(socket, kind, ids);
    let head = subscriber.open_head();
    let id = head.field("encke-connection").expect(&head.text).to_owned();
    check_id(&id);
    (subscriber, id)
}

#[track_caller]
fn check_id(id: &str) {
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    assert!(id.len() == 16 && id.bytes().all(is_digit), "{id}");
}

/// One stream of each kind under `7` and `room`, and their ids.
fn one_of_each(server: &Server) -> (Vec<Subscriber>, Vec<String>) {
    let open = |&kind: &Kind| open(connect(server.listen()), kind, &["7", "room"]);
    STREAMS.iter().map(open).unzip()
}

/// Sends without each of `ids` in turn, and at last to all: everybody hears what leaves out others.
#[track_caller]
fn each_is_left_out<S: Read + Write>(
    server: &Server,
    subscribers: &mut [Subscriber<S>],
    ids: &[String],
) {
    let others = subscribers.len() - 1;
    for (n, id) in ids.iter().enumerate() {
        // A text: the classic page shows all else as JSON.
        let text = n.to_string();
        let one = json!({"about": "7", "text": text, "except": id});
        assert_eq!(
            server.api.post("/send", &one).ok()["delivered"],
            others,
            "{:?}",
            subscribers[n].kind
        );
        let several = json!({"about": ["room", "7"], "text": text, "except": id});
        let answer = server.api.post_lines("/send", &several.to_string());
        let answer: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(answer["delivered"], others, "{:?}: {answer}", subscribers[n].kind);
    }
    assert_eq!(server.api.send("7", "end"), subscribers.len() as u64);
    for (n, subscriber) in subscribers.iter_mut().enumerate() {
        for other in (0..ids.len()).filter(|other| *other != n) {
            let text = json!(other.to_string());
            assert_eq!(
                (subscriber.data(), subscriber.data()),
                (text.clone(), text),
                "{:?}",
                subscriber.kind
            );
        }
        assert_eq!(subscriber.data(), "end", "{:?} hears its own", subscriber.kind);
    }
}

#[test]
fn stream_of_every_transport_has_an_id_and_can_be_left_out() {
    let server = Server::start(&["--websocket-deflate"]);
    let (mut subscribers, ids) = one_of_each(&server);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    each_is_left_out(&server, &mut subscribers, &ids);
    let stats = server.api.stats();
    assert_eq!(stats["dropped"], 0, "who is left out is not lost: {stats}");
}

#[test]
fn streams_over_tls_are_left_out_too() {
    let authority = Authority::new();
    let pair = authority.issue("own", &["localhost", "127.0.0.1"]).options();
    let server = Server::start(&["--tls-listen=127.0.0.1:0", &pair[0], &pair[1]]);
    let client = || tls_client(server.tls_listen(), "localhost", &authority.ca());
    let kinds = [Kind::Sse, Kind::WebSocket, Kind::Classic];
    let (mut subscribers, ids): (Vec<_>, Vec<_>) =
        kinds.into_iter().map(|kind| open(client(), kind, &["7", "room"])).unzip();
    each_is_left_out(&server, &mut subscribers, &ids);
}

#[test]
fn ids_stay_over_upgrades() {
    let server = Upgraded::serve(&["--websocket-deflate"]);
    let (mut subscribers, mut ids) = one_of_each(&server);
    for _ in 0..2 {
        server.upgrade(&[]);
        each_is_left_out(&server, &mut subscribers, &ids);
        // Who comes later has an id of its own, and keeps it as well.
        let (subscriber, id) = open(connect(server.listen()), Kind::Ndjson, &["7", "room"]);
        assert!(!ids.contains(&id));
        subscribers.push(subscriber);
        ids.push(id);
    }
    each_is_left_out(&server, &mut subscribers, &ids);
}

#[test]
fn who_asks_for_it_is_told_the_id_in_a_first_message() {
    let server = Server::start(&[]);
    let path = "/stream/1?next=1";
    let mut ndjson = server.stream(path, "application/x-ndjson");
    let id = ndjson.head.field("encke-connection").unwrap().to_owned();
    assert_eq!(ndjson.event()["connection"], id);
    let mut sse = server.stream(path, "text/event-stream");
    let id = sse.head.field("encke-connection").unwrap().to_owned();
    let block = sse.chunk();
    let (_, data) = block.trim_end().split_once("\ndata: ").expect(&block);
    assert_eq!(serde_json::from_str::<Value>(data).unwrap()["connection"], id);
    let told = Socket::open(server.listen(), path).json();
    check_id(told["connection"].as_str().unwrap());
    // Also one that comes back and is caught up first.
    let place = json!(told["next"]).as_str().unwrap().to_owned();
    server.api.send("1", "missed");
    let path = format!("{path}&last_event_id={place}");
    let mut again = Socket::open(server.listen(), &path);
    check_id(again.json()["connection"].as_str().unwrap());
    assert_eq!(again.data(), "missed");
}

#[test]
fn only_streams_have_ids_and_pages_may_read_them() {
    let server = Server::start(&["--allow-origin=https://page.example"]);
    let mut polled = server.ask(get("/poll/1?wait=0", &[]));
    assert_eq!(polled.head().field("encke-connection"), None);
    let mut head = server.ask("HEAD /stream/1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(head.head().field("encke-connection"), None);
    let origin = "Origin: https://page.example";
    for path in ["/stream/1", "/test/1"] {
        let head = server.ask(get(path, &[origin, "Accept: */*"])).head();
        let exposed = head.field("access-control-expose-headers").expect(&head.text);
        assert!(exposed.contains("Encke-Connection"), "{}", head.text);
        check_id(head.field("encke-connection").expect(&head.text));
    }
}

#[test]
fn what_is_no_connections_id_leaves_out_nobody_and_what_is_no_text_is_refused() {
    let server = Server::start(&[]);
    let mut stream = server.listener("7");
    let id = stream.head.field("encke-connection").unwrap().to_owned();
    for unknown in ["", "nobody", "0000000000000000", "9f86d081884c7d65", &id.to_uppercase()] {
        let is_its = unknown == id;
        let event = json!({"about": "7", "data": unknown, "except": unknown});
        assert_eq!(server.api.post("/send", &event).ok()["delivered"], u64::from(!is_its));
        if !is_its {
            assert_eq!(stream.data(), *unknown);
        }
    }
    for wrong in [json!(null), json!(7), json!([id]), json!({"id": id}), json!(true)] {
        let event = json!({"about": "7", "data": 1, "except": wrong});
        let problem = server.api.post("/send", &event).problem(400);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("\"except\""), "{wrong}: {detail}");
    }
    server.api.post("/send", &json!({"about": "7", "data": 1, "from": "rj"})).problem(400);
}

#[test]
fn repeat_with_a_key_may_come_from_another_connection() {
    let server = Server::start(&[]);
    let (mut bob, mut rj) = (server.listener("7"), server.listener("7"));
    let ids = [&bob, &rj].map(|stream| stream.head.field("encke-connection").unwrap().to_owned());
    let send = |id: &str| {
        let event = json!({"about": "7", "data": 1, "except": id, "key": "k"});
        server.api.post("/send", &event).ok()
    };
    assert_eq!(send(&ids[0]), send(&ids[1]), "posted once, and answered the same");
    assert_eq!(server.api.send("7", 2), 2);
    assert_eq!((bob.data(), rj.data(), rj.data()), (json!(2), json!(1), json!(2)));
}

#[test]
fn client_that_comes_back_is_another_connection() {
    let server = Server::start(&[]);
    let stream = server.listener("7");
    let id = stream.head.field("encke-connection").unwrap().to_owned();
    let place = stream.cursor.clone().unwrap();
    let event = json!({"about": "7", "data": "its own", "except": id});
    assert_eq!(server.api.post("/send", &event).ok()["delivered"], 0);
    stream.wire.reset();
    let path = format!("/stream/7?last_event_id={place}");
    let mut again = server.stream(&path, "application/x-ndjson");
    assert_ne!(again.head.field("encke-connection"), Some(&*id));
    assert_eq!(again.data(), "its own");
}

#[test]
fn command_leaves_one_out() {
    let server = Server::start(&[]);
    let (mut bob, mut rj) = (server.listener("7"), server.listener("7"));
    let id = bob.head.field("encke-connection").unwrap().to_owned();
    let api = server.api_url();
    let sent = Program::run(&mut encke(["send", "7", "1", "--except", &id, "--api", &api]));
    assert_eq!((sent.code(), &*sent.stdout), (Some(0), "delivered to 1 connection\n"), "{sent:?}");
    server.api.send("7", 2);
    assert_eq!((bob.data(), rj.data(), rj.data()), (json!(2), json!(1), json!(2)));
}
