//! Long polls: what an answer holds, how long it takes to come, and connections that carry many.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Answer, End, Server, Wire, get, read_answer};

/// A client that polls on a connection that stays.
struct Poller {
    wire: Wire,
}

impl Poller {
    fn connect(address: SocketAddr) -> Poller {
        Poller { wire: Wire::connect(address) }
    }

    /// Asks for `path`, without reading the answer.
    fn ask(&mut self, path: &str) {
        self.wire.send(get(path, &[]));
    }

    fn answer(&mut self) -> Answer {
        read_answer(&mut self.wire, "GET").unwrap()
    }

    /// The payloads of the next answer.
    fn heard(&mut self) -> Vec<Value> {
        let answer = self.answer().ok();
        answer.as_array().unwrap().iter().map(|event| event["data"].clone()).collect()
    }
}

fn poller(server: &Server) -> Poller {
    Poller::connect(server.listen())
}

#[test]
fn event_answers_the_poll_that_waits_and_the_connection_carries_the_next() {
    let server = Server::start(&[]);
    let mut poller = poller(&server);
    for number in 0..3 {
        poller.ask("/poll/123");
        server.wait_online("123", 1);
        let sent = server.api.post("/send", &json!({ "about": 123, "data": number })).ok();
        assert_eq!(sent["delivered"], 1);
        let answer = poller.answer();
        assert_eq!(answer.head.field("content-type"), Some("application/json"));
        assert_eq!(answer.head.field("cache-control"), Some("no-store"));
        assert_eq!(answer.head.field("connection"), None);
        let retry_ms = answer.head.field("encke-retry").unwrap().parse::<u32>().unwrap();
        assert!((1_000..3_000).contains(&retry_ms), "{retry_ms}");
        let event = json!({ "id": sent["id"], "about": "123", "data": number });
        assert_eq!(answer.ok(), json!([event]));
        assert!(answer.body.ends_with("]\n"));
        // It is logged out before it is answered.
        assert_eq!(server.api.connections("123"), 0);
    }
    let stats = server.api.stats();
    assert_eq!((&stats["deliveries"], &stats["connections_opened"]), (&json!(3), &json!(1)));
    assert_eq!(stats["streams_open"]["poll"], 0);
}

#[test]
fn poll_without_an_event_is_answered_empty_after_its_wait() {
    let server = Server::start(&[]);
    let mut poller = poller(&server);
    poller.ask("/poll/1?wait=0");
    assert_eq!(poller.answer().body, "[]\n");
    let begun = Instant::now();
    poller.ask("/poll/1?wait=1");
    assert_eq!(poller.answer().body, "[]\n");
    // Its end may be a tick of the server early.
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
    assert_eq!(server.api.connections("1"), 0);
    // One that waits as long as it may is seen to wait.
    poller.ask("/poll/1?wait=60");
    server.wait_online("1", 1);
    assert_eq!(server.api.stats()["streams_open"]["poll"], 1);
    drop(poller);
    server.wait_online("1", 0);
    assert_eq!(server.api.send("1", "late"), 0);
}

#[test]
fn requests_sent_ahead_are_served_one_after_the_other() {
    let server = Server::start(&[]);
    let mut poller = poller(&server);
    let second = get("/poll/2?wait=0", &[]);
    let (start, rest) = second.split_at(20);
    poller.wire.send(get("/poll/1", &[]) + &get("/poll/1?wait=0", &[]) + start);
    server.wait_online("1", 1);
    poller.wire.send(rest.to_owned() + &get("/poll/3", &[]));
    assert_eq!(server.api.send("1", "first"), 1);
    assert_eq!(poller.heard(), ["first"]);
    assert_eq!(poller.heard(), [Value::Null; 0]);
    assert_eq!(poller.heard(), [Value::Null; 0]);
    server.wait_online("3", 1);
    assert_eq!(server.api.send("3", "third"), 1);
    assert_eq!(poller.heard(), ["third"]);
    // A stream may come last.
    poller.wire.send(get("/stream/4", &[]));
    assert_eq!(poller.wire.head().status, 200);
    assert_eq!(server.api.send("4", 4), 1);
    assert!(String::from_utf8(poller.wire.chunk().unwrap()).unwrap().contains("\"data\":4"));
}

#[test]
fn who_sends_too_much_ahead_is_disconnected() {
    let server = Server::start(&[]);
    let mut poller = poller(&server);
    poller.ask("/poll/1");
    server.wait_online("1", 1);
    poller.wire.send_until_cut_off(get("/poll/1", &[]).repeat(100));
    server.wait_closed("bad_request", 1);
    assert_eq!(server.api.connections("1"), 0);
}

#[test]
fn connection_closes_after_the_answer_where_the_client_wants_it() {
    let server = Server::start(&[]);
    for request in [
        "GET /poll/1?wait=0 HTTP/1.0\r\n\r\n".to_owned(),
        get("/poll/1?wait=0", &["Connection: close"]),
    ] {
        let mut wire = server.ask(request);
        let answer = read_answer(&mut wire, "GET").unwrap();
        assert_eq!(
            (answer.head.field("connection"), answer.body.as_str()),
            (Some("close"), "[]\n")
        );
        assert_eq!(wire.end(), End::Fin);
    }
    server.wait_closed("answered", 2);
}

#[test]
fn client_that_goes_while_it_waits_is_logged_out() {
    let server = Server::start(&[]);
    let [mut gone, mut reset, mut between] = [(); 3].map(|()| poller(&server));
    gone.ask("/poll/1");
    reset.ask("/poll/1");
    between.ask("/poll/1?wait=0");
    between.answer();
    server.wait_online("1", 2);
    drop((gone, between));
    reset.wire.reset();
    server.wait_online("1", 0);
    server.wait_closed("client_closed", 2);
    server.wait_closed("client_reset", 1);
}

#[test]
fn logged_out_and_stopped_polls_are_answered_and_closed() {
    let server = Server::start(&[]);
    let [mut expelled, mut stopped, mut idle] = [(); 3].map(|()| poller(&server));
    expelled.ask("/poll/1");
    stopped.ask("/poll/2");
    idle.ask("/poll/3?wait=0");
    idle.answer();
    server.wait_online("1", 1);
    server.wait_online("2", 1);
    assert_eq!(server.api.logout("1"), 1);
    let answer = expelled.answer();
    assert_eq!((answer.head.field("connection"), answer.body.as_str()), (Some("close"), "[]\n"));
    assert_eq!(expelled.wire.end(), End::Fin);
    server.signal("TERM");
    let answer = stopped.answer();
    assert_eq!((answer.head.field("connection"), answer.body.as_str()), (Some("close"), "[]\n"));
    assert_eq!(stopped.wire.end(), End::Fin);
    assert_eq!(idle.wire.end(), End::Fin);
}

#[test]
fn bad_polls_say_what_to_do() {
    let server = Server::start(&[]);
    for (path, words) in [
        ("/poll/1?wait=61", "from 0 to 60"),
        ("/poll/1?wait=a", "from 0 to 60"),
        ("/poll/1?after=17", "16 letters and digits"),
        ("/poll/a%20b", "white space"),
    ] {
        let mut wire = server.ask(get(path, &[]));
        let problem = read_answer(&mut wire, "GET").unwrap().problem(400);
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
        assert_eq!(wire.end(), End::Fin);
    }
    let head = "HEAD /poll/1 HTTP/1.1\r\nHost: encke.test\r\n\r\n";
    let mut wire = server.ask(head);
    assert_eq!(wire.head().field("content-type"), Some("application/json"));
    assert_eq!(wire.rest(), b"");
}

#[test]
fn page_of_a_listed_origin_may_poll_and_read_the_cursor() {
    let server = Server::start(&["--allow-origin=https://page.test"]);
    let mut wire = server.ask(get("/poll/1?wait=0", &["Origin: https://page.test"]));
    let answer = read_answer(&mut wire, "GET").unwrap();
    assert_eq!(answer.head.field("access-control-allow-origin"), Some("*"));
    let exposed = answer.head.field("access-control-expose-headers").unwrap();
    assert!(exposed.contains("Encke-Next"));
    let mut wire = server.ask(get("/poll/1?wait=0", &["Origin: https://evil.test"]));
    read_answer(&mut wire, "GET").unwrap().problem(403);
}

/// The place for the next poll.
fn next(answer: &Answer) -> String {
    answer.head.field("encke-next").expect("it says where to go on").to_owned()
}

#[test]
fn what_is_sent_between_two_polls_is_in_the_second() {
    let server = Server::start(&[]);
    server.api.subscribe("alice", "rj");
    let mut poller = poller(&server);
    poller.ask("/poll/alice?wait=0");
    let first = poller.answer();
    assert_eq!(first.body, "[]\n");
    for (number, about) in ["alice", "rj", "bob", "rj"].into_iter().enumerate() {
        assert_eq!(server.api.send(about, number), 0);
    }
    poller.ask(&format!("/poll/alice?after={}", next(&first)));
    let second = poller.answer();
    let events = second.ok();
    let heard: Vec<_> = events.as_array().unwrap().iter().map(|event| &event["data"]).collect();
    assert_eq!(heard, [0, 1, 3]);
    assert_eq!(events[2]["id"], next(&second));
    assert_eq!(second.head.field("encke-gap"), None);
    // Asked again in the same place it answers the same, asked in the next one it waits.
    poller.ask(&format!("/poll/alice?after={}", next(&first)));
    assert_eq!(poller.answer().ok(), events);
    poller.ask(&format!("/poll/alice?wait=1&after={}", next(&second)));
    let third = poller.answer();
    assert_eq!((third.body.as_str(), third.head.field("encke-gap")), ("[]\n", None));
    assert!(next(&third) >= next(&second));
}

/// Of one id more is forgotten than the first answers reach: the cursor says of which gap it was
/// told.
#[test]
fn poll_that_catches_up_in_several_answers_is_told_of_the_gap_once() {
    let server = Server::start(&["--history-events=2000"]);
    let mut poller = poller(&server);
    poller.ask("/poll/a?wait=0");
    let begin = next(&poller.answer());
    let about = |n: u64| if (1_000..1_500).contains(&n) || n > 4_500 { "b" } else { "a" };
    let event = |n: u64| format!("{{\"about\":\"{}\",\"data\":{n}}}\n", about(n));
    server.api.post_lines("/send", &(0..5_000).map(event).collect::<String>());
    let (mut place, mut gaps, mut polls, mut heard) = (begin.clone(), 0, 0, Vec::new());
    while heard.last() != Some(&4_999) {
        poller.ask(&format!("/poll/a?id=b&wait=1&after={place}"));
        let answer = poller.answer();
        polls += 1;
        gaps += u32::from(answer.head.field("encke-gap").is_some());
        place = next(&answer);
        let events = answer.ok();
        let numbers = events.as_array().unwrap().iter().map(|event| event["data"].as_u64());
        heard.extend(numbers.map(Option::unwrap));
    }
    assert!(polls > 2 && gaps == 1, "{gaps} gaps in {polls} polls");
    assert!(heard.is_sorted_by(|one, next| one < next) && heard.len() == 2_999, "{}", heard.len());
    let query = format!("/stream/a?id=b&last_event_id={begin}");
    let mut stream = server.stream(&query, "application/x-ndjson");
    assert_eq!(stream.event(), json!({ "gap": true }));
    assert_eq!(Vec::from_iter(heard.iter().map(|_| stream.data())), heard);
}

#[test]
fn server_that_remembers_nothing_promises_nothing() {
    let server = Server::start(&["--history-bytes=0"]);
    let mut poller = poller(&server);
    poller.ask("/poll/1?wait=0");
    assert_eq!(poller.answer().head.field("encke-next"), None);
    poller.ask("/poll/1?wait=0&after=0000000000000001");
    let answer = poller.answer();
    assert_eq!(answer.head.field("encke-gap"), Some("true"));
    assert_eq!(answer.head.field("encke-next"), None);
}

/// Twenty clients poll while 5,000 events are sent, a fifth of them in the middle of nothing: on a
/// new connection each time.
#[test]
fn clients_that_poll_under_a_stream_of_events_hear_each_once() {
    const EVENTS: u64 = 2_000;
    let server = Server::start(&["--history-events=10000"]);
    let listen = server.listen();
    let clients: Vec<_> = (0..6)
        .map(|client| {
            let mut poller = poller(&server);
            poller.ask("/poll/news?wait=0");
            let mut after = next(&poller.answer());
            std::thread::spawn(move || {
                let mut heard = Vec::new();
                while heard.len() < EVENTS as usize {
                    if client % 3 == 0 {
                        poller = Poller::connect(listen);
                    }
                    poller.ask(&format!("/poll/news?wait=5&after={after}"));
                    let answer = poller.answer();
                    assert_eq!(answer.head.field("encke-gap"), None);
                    after = next(&answer);
                    let events = answer.ok();
                    heard.extend(
                        events
                            .as_array()
                            .unwrap()
                            .iter()
                            .map(|event| event["data"].as_u64().expect("a number was sent")),
                    );
                }
                heard
            })
        })
        .collect();
    for hundred in 0..EVENTS / 100 {
        let lines: String = (hundred * 100..hundred * 100 + 100)
            .map(|number| format!("{{\"about\":\"news\",\"data\":{number}}}\n"))
            .collect();
        assert_eq!(server.api.post_lines("/send", &lines).status(), 200);
    }
    for client in clients {
        assert!(client.join().unwrap().into_iter().eq(0..EVENTS), "each once, in order");
    }
}
