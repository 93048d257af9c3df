//! Updates that stay: who hears them after the server was stopped or killed and started again.

use std::path::Path;

use super::{BOOKS, Hub, listen, publisher, subscriber};
use crate::harness::{Answer, Server, Stream, get};

/// Each update is on disk when its publish is answered.
const KEEP: [&str; 3] = ["--mercure-open", "--keep=https://a.test/*=7d", "--log-sync=always"];

/// A hub with this data, and the key in it.
struct Kept {
    data: tempfile::TempDir,
    server: Server,
    options: Vec<String>,
}

impl Kept {
    fn start(options: &[&str]) -> Kept {
        let data = Hub::key_file();
        let key = Hub::key_option(data.path());
        let all = options.iter().map(|&option| option.to_owned());
        let options: Vec<String> = std::iter::once(key).chain(all).collect();
        let server = start(data.path(), &options);
        Kept { data, server, options }
    }

    /// The server is stopped by this signal, and started again.
    fn restart(self, signal: &str) -> Kept {
        self.server.stop(signal);
        let server = start(self.data.path(), &self.options);
        Kept { server, ..self }
    }

    fn publish(&self, form: &str) -> String {
        let answer = publish(&self.server, form);
        assert_eq!(answer.status(), 200, "{answer:?}");
        answer.body
    }

    fn listen(&self, query: &str, fields: &[&str]) -> Stream {
        listen(&self.server, query, fields)
    }

    /// A stream behind this place, which is no gap.
    fn goes_on(&self, query: &str, place: &str, fields: &[&str]) -> Stream {
        let field = format!("Last-Event-ID: {place}");
        let stream = self.listen(query, &[&[&*field], fields].concat());
        assert_eq!(stream.head.field("last-event-id"), Some(place), "{query}");
        stream
    }
}

fn start(data: &Path, options: &[String]) -> Server {
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    Server::start_in(&data.join("data"), &options)
}

fn publish(server: &Server, form: &str) -> Answer {
    let fields = format!("{}\r\n{}\r\n", super::FORM, publisher());
    server.api.post_with(super::HUB, &fields, form)
}

/// The data of the next updates.
fn data(stream: &mut Stream, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    while found.len() < count {
        let chunk = stream.chunk();
        assert!(!chunk.contains("event: gap"), "{found:?} {chunk}");
        found.extend(
            chunk.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned),
        );
    }
    found
}

fn numbers(of: impl IntoIterator<Item = usize>) -> Vec<String> {
    of.into_iter().map(|number| number.to_string()).collect()
}

#[test]
fn place_and_earliest_reach_over_restarts_by_topic_and_by_pattern() {
    let mut hub = Kept::start(&[&KEEP[..], &["--history-events=3"]].concat());
    let first = hub.publish("topic=https://a.test/books/1&data=0&id=urn:first");
    assert_eq!(first, "urn:first");
    let mut places = Vec::new();
    for n in 1..40 {
        let form =
            format!("topic=https://a.test/books/{}&topic=https://a.test/all&data={n}", n % 2);
        places.push(hub.publish(&form));
        if n % 10 == 0 {
            hub = hub.restart(if n == 20 { "TERM" } else { "KILL" });
        }
    }
    hub = hub.restart("KILL");
    for place in [&*first, &*places[0]] {
        let from = if place == first { 1 } else { 2 };
        let even = (from..40).filter(|n| n % 2 == 0);
        for (query, due) in [
            (BOOKS, numbers(from..40)),
            ("topic=https://a.test/all", numbers(from..40)),
            ("topic=https://a.test/books/0", numbers(even)),
            ("topic=https://a.test/books/0&topic=https://a.test/books/1", numbers(from..40)),
            (
                "topic=https%3A%2F%2Fa.test%2F%7B%2Brest%7D&topic=https://a.test/all",
                numbers(from..40),
            ),
        ] {
            let mut stream = hub.goes_on(query, place, &[]);
            assert_eq!(data(&mut stream, due.len()), due, "{query}");
        }
    }
    let mut all = hub.listen(&format!("{BOOKS}&lastEventID=earliest"), &[]);
    assert_eq!(data(&mut all, 40), numbers(0..40));
    // It goes on live, and nothing comes twice.
    hub.publish("topic=https://a.test/books/1&data=40");
    assert_eq!(data(&mut all, 1), ["40"]);
    assert_eq!(hub.server.api.stats()["resume_gaps"], 0);
}

#[test]
fn private_update_that_is_kept_is_found_by_whoever_is_granted_it() {
    let mut hub = Kept::start(&KEEP);
    let bobs = subscriber(&["https://a.test/users/bob/{+rest}"]);
    let rjs = subscriber(&["https://a.test/users/rj/{+rest}"]);
    let place = hub.publish("topic=https://a.test/books/0&data=0&private=on");
    let both = "topic=https://a.test/books/1&topic=https://a.test/users/bob/books/1";
    hub.publish(&format!("{both}&data=x&private=on"));
    hub.publish("topic=https://a.test/books/1&data=y");
    hub = hub.restart("KILL");
    let asks: [(&[&str], &str, &[&str]); 7] = [
        (&[&bobs], BOOKS, &["x", "y"]),
        (&[&rjs], BOOKS, &["y"]),
        (&[], BOOKS, &["y"]),
        (&[&bobs], "topic=https://a.test/books/1", &["x", "y"]),
        (&[&rjs], "topic=https://a.test/books/1", &["y"]),
        (&[], "topic=https%3A%2F%2Fa.test%2F%7B%2Brest%7D", &["y"]),
        (
            &[&bobs],
            "topic=https://a.test/users/bob/books/1&topic=https://a.test/books/1",
            &["x", "y"],
        ),
    ];
    for (fields, query, due) in asks {
        // The place is a private update's, which none of them may hear.
        let mut stream = hub.goes_on(query, &place, fields);
        assert_eq!(data(&mut stream, due.len()), due, "{query}");
        let mut all = hub.listen(&format!("{query}&lastEventID=earliest"), fields);
        assert_eq!(data(&mut all, due.len()), due, "{query}");
    }
}

/// Of what no rule keeps a restart is a gap, and what is kept is heard in spite of it.
#[test]
fn restart_is_a_gap_for_what_no_rule_keeps() {
    let mut hub = Kept::start(&KEEP);
    let place = hub.publish("topic=https://a.test/books/1&data=0");
    hub.publish("topic=https://b.test/1&data=lost");
    hub.publish("topic=https://a.test/books/1&data=1");
    hub = hub.restart("TERM");
    let behind = format!("Last-Event-ID: {place}");
    for query in ["topic=*", "topic=https%3A%2F%2F%7B%2Brest%7D"] {
        let mut stream = hub.listen(query, &[&behind]);
        assert_eq!(stream.head.field("last-event-id"), Some("earliest"), "{query}");
        assert!(stream.chunk().starts_with("event: gap\n"));
        assert_eq!(data(&mut stream, 1), ["1"], "{query}");
    }
    let mut other = hub.listen("topic=https://b.test/1", &[&behind]);
    assert!(other.chunk().starts_with("event: gap\n"));
    let mut unknown = hub.listen(BOOKS, &["Last-Event-ID: urn:nobody"]);
    assert_eq!(unknown.head.field("last-event-id"), Some("earliest"));
    assert!(unknown.chunk().starts_with("event: gap\n"));
    hub.publish("topic=https://a.test/books/1&data=2");
    assert_eq!(data(&mut unknown, 1), ["2"]);
}

#[test]
fn place_older_than_what_a_rule_leaves_is_a_gap() {
    let options = ["--mercure-open", "--keep=*=1h,5", "--log-sync=always", "--history-events=2"];
    let mut hub = Kept::start(&options);
    let place = hub.publish("topic=https://a.test/books/1&data=0");
    let places: Vec<String> =
        (1..12).map(|n| hub.publish(&format!("topic=https://a.test/books/1&data={n}"))).collect();
    for signal in ["", "KILL"] {
        if !signal.is_empty() {
            hub = hub.restart(signal);
        }
        for query in [BOOKS, "topic=https://a.test/books/1", "topic=*"] {
            let mut late = hub.listen(query, &[&format!("Last-Event-ID: {place}")]);
            assert_eq!(late.head.field("last-event-id"), Some("earliest"), "{query}");
            assert!(late.chunk().starts_with("event: gap\n"));
            assert_eq!(data(&mut late, 5), numbers(7..12), "{query}");
            let mut stream = hub.goes_on(query, &places[5], &[]);
            assert_eq!(data(&mut stream, 5), numbers(7..12), "{query}");
        }
    }
}

/// The hub's own updates tell of connections, which have ended with the process.
#[test]
fn who_is_subscribed_is_not_kept() {
    let mut hub = Kept::start(&["--mercure-open", "--keep=*=7d", "--log-sync=always"]);
    let by = subscriber(&["*"]);
    let paths = "topic=/.well-known/mercure/subscriptions%7B/topic%7D%7B/subscriber%7D";
    let mut watch = hub.listen(paths, &[&by]);
    let _one = hub.listen("topic=https://a.test/books/1", &[]);
    assert!(watch.chunk().contains("\"active\":true"));
    let place = hub.publish("topic=https://a.test/books/1&data=0");
    let kept = |hub: &Kept| hub.server.api.stats()["log"]["events"].as_u64();
    assert_eq!(kept(&hub), Some(1), "the update alone");
    hub = hub.restart("TERM");
    let mut again = hub.listen(paths, &[&by, &format!("Last-Event-ID: {place}")]);
    assert!(again.chunk().starts_with("event: gap\n"));
    let mut all = hub.listen("topic=*&lastEventID=earliest", &[&by]);
    assert_eq!(data(&mut all, 1), ["0"]);
    // No stream of the API finds them.
    assert_eq!(hub.server.ask(get("/stream/%23t:a", &[])).head().status, 400);
}

/// One place covers ids and topics, over a restart, too.
#[test]
fn ids_and_topics_are_heard_merged_after_a_restart() {
    let mut hub = Kept::start(&["--mercure-open", "--keep=*=7d", "--log-sync=always"]);
    hub.server.api.subscribe("bob", "rj");
    let by = subscriber(&["encke:bob", "https://a.test/{+rest}"]);
    let place = hub.publish("topic=https://a.test/books/0&data=0");
    for n in 1..60 {
        match n % 3 {
            0 => drop(hub.server.api.send("rj", n)),
            1 => drop(hub.publish(&format!("topic=https://a.test/books/{n}&data={n}&private=on"))),
            _ => drop(hub.publish(&format!("topic=note&data={n}"))),
        }
        if n == 30 {
            hub = hub.restart("KILL");
        }
    }
    hub = hub.restart("TERM");
    let all = "topic=https%3A%2F%2Fa.test%2F%7B%2Brest%7D&topic=note&topic=encke:bob";
    for query in [&*format!("{BOOKS}&topic=note&topic=encke:bob"), all] {
        let mut stream = hub.goes_on(query, &place, &[&by]);
        assert_eq!(data(&mut stream, 59), numbers(1..60), "{query}");
    }
    let of_public = subscriber(&["encke:bob"]);
    let mut stream = hub.goes_on(all, &place, &[&of_public]);
    assert_eq!(data(&mut stream, 39), numbers((1..60).filter(|n| n % 3 != 1)));
}

/// A client of a pattern catches up in many windows, of which many are looks alone.
#[test]
fn pattern_finds_few_among_many_updates() {
    let options = ["--mercure-open", "--keep=*=1h", "--history-events=2"];
    let mut hub = Kept::start(&options);
    let place = hub.publish("topic=https://a.test/books/0&data=0");
    for n in 1..1_500 {
        let topic = if n % 500 == 0 { "books" } else { "other" };
        hub.publish(&format!("topic=https://a.test/{topic}/{n}&data={n}"));
    }
    hub = hub.restart("TERM");
    let mut stream = hub.goes_on(BOOKS, &place, &[]);
    assert_eq!(data(&mut stream, 2), ["500", "1000"]);
    let mut all = hub.goes_on("topic=*", &place, &[]);
    assert_eq!(data(&mut all, 1_499), numbers(1..1_500));
}
