//! Who is subscribed: what those who ask for the list can take from others.

use serde_json::{Value, json};
use socket2::SockRef;

use super::subscriptions::{PATH, ids, reader};
use super::{Hub, bearer};
use crate::harness::{Answer, Stream, Wire, get, read_answer, wait_for};

/// Subscriptions whose list is longer than what the kernel takes for a client.
fn many(hub: &Hub) -> Vec<Stream> {
    let query: Vec<String> = (0..300).map(|n| format!("topic=t{n}")).collect();
    let granted = json!({ "subscribe": ["t0"], "payload": "x".repeat(1_500) });
    let token = bearer(&json!({ "mercure": granted }));
    (0..20).map(|_| hub.listen(&query.join("&"), &[&token])).collect()
}

impl Hub {
    /// Asks for the list, and reads no more of it than its head.
    fn slow_reader(&self) -> Wire {
        let mut wire = self.server.connect();
        SockRef::from(wire.socket()).set_recv_buffer_size(4096).unwrap();
        wire.send(get(PATH, &[&reader()]));
        assert_eq!(wire.head().status, 200);
        wire
    }

    /// Asks by another method than `GET`.
    fn ask_list_by(&self, method: &str, path: &str) -> Answer {
        let request = get(path, &[&reader()]).replacen("GET", method, 1);
        read_answer(&mut self.server.ask(request), method).unwrap()
    }
}

#[test]
fn slow_readers_of_the_list_keep_nobody_else_from_it() {
    let hub = Hub::start(&["--mercure-open", "--keepalive=0"]);
    let _streams = many(&hub);
    let _one = hub.listen("topic=one", &[]);
    let slow: Vec<Wire> = (0..8).map(|_| hub.slow_reader()).collect();
    let of_all = || hub.ask_list(PATH, &[&reader()]);
    assert_eq!(of_all().problem(503)["status"], 503);
    // What is short needs no place.
    let of_one = hub.list(&format!("{PATH}/one"));
    let [id] = &ids(&of_one).into_iter().collect::<Vec<_>>()[..] else { panic!("{of_one}") };
    assert_eq!(hub.list(id)["topic"], "one");
    let tag = format!("If-None-Match: {}", of_one["lastEventID"].as_str().unwrap());
    assert_eq!(hub.ask_list(PATH, &[&reader(), &tag]).status(), 304);
    let head = hub.ask_list_by("HEAD", PATH);
    assert_eq!((head.status(), head.head.field("etag")), (200, of_one["lastEventID"].as_str()));
    assert_eq!(hub.ask_list_by("HEAD", &format!("{id}0")).status(), 404);
    // Backends have places of their own.
    let list: Value = hub.server.api.with(&[&reader()]).get(PATH).ok();
    assert_eq!(ids(&list).len(), 20 * 300 + 1);
    drop(slow);
    wait_for("places are free", || of_all().status() == 200);
}

#[test]
fn list_has_no_methods_but_those_that_read_it() {
    let hub = Hub::start(&["--mercure-open"]);
    for path in [PATH, &format!("{PATH}/a")] {
        for method in ["POST", "QUERY", "DELETE"] {
            let answer = hub.ask_list_by(method, path);
            answer.problem(405);
            assert_eq!(answer.head.field("allow"), Some("GET, HEAD, OPTIONS"), "{method}");
        }
        assert_eq!(hub.ask_list_by("HEAD", path).status(), 200);
    }
}
