//! `encke listen` when its connection is lost: by the network, by silence, by the server's end.
//! Each event comes once and in order, or a gap is told.

use std::io::Read;
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Api, Program, Relay, Server, Wire, encke, own_ports, wait_for};

const TRANSPORTS: [&str; 3] = ["sse", "websocket", "poll"];

/// `encke listen bob` at `url`.
fn listen(url: &str, options: &[&str]) -> Program {
    Program::spawn(encke(["listen", "bob", "--url", url]).args(options))
}

/// The next line of `encke listen --json`: an event's payload, or `None` for a gap.
#[track_caller]
fn line(listener: &Program) -> Option<u64> {
    let line: Value = serde_json::from_str(&listener.line()).unwrap();
    if line == json!({ "gap": true }) {
        return None;
    }
    assert_eq!(
        (line["about"].as_str(), line["id"].as_str().map(str::len)),
        (Some("bob"), Some(16))
    );
    Some(line["data"].as_u64().unwrap())
}

/// How often `word` begins a line of standard error.
fn told(listener: &Program, word: &str) -> usize {
    listener.stderr().lines().filter(|line| line.starts_with(word)).count()
}

#[test]
fn listener_that_loses_its_network_hears_each_event_once() {
    for transport in TRANSPORTS {
        let server = Server::start(&["--history-events=1000"]);
        let relay = Relay::start(server.listen());
        let options = ["--json", "--silence=2", "--transport", transport];
        let listener = listen(&relay.url(), &options);
        wait_for("it is online", || told(&listener, "online at") == 1);
        let mut numbers = 0_u64..;
        let mut send = |count| {
            for n in (&mut numbers).take(count) {
                server.api.send("bob", n);
            }
        };
        send(20);
        // Once it has heard nothing since its last place, twice in the middle of events.
        assert!((0..20).all(|n| line(&listener) == Some(n)));
        relay.cut();
        send(20);
        assert!((20..40).all(|n| line(&listener) == Some(n)), "{transport}");
        send(20);
        relay.freeze();
        send(20);
        assert!((40..80).all(|n| line(&listener) == Some(n)), "{transport}");
        send(20);
        relay.cut();
        send(20);
        assert!((80..120).all(|n| line(&listener) == Some(n)), "{transport}");
        // Each loss is told once, however many tries it takes.
        wait_for("each loss and return is told", || {
            let (lost, back) = (told(&listener, "offline"), told(&listener, "online again"));
            lost >= 3 && lost == back
        });
        assert!(!listener.stderr().contains("gap"));
    }
}

/// One who hears nothing has a place too: where its stream began.
#[test]
fn listener_that_heard_nothing_yet_loses_nothing() {
    for transport in TRANSPORTS {
        let server = Server::start(&[]);
        let relay = Relay::start(server.listen());
        let listener = listen(&relay.url(), &["--json", "--transport", transport]);
        wait_for("it is online", || told(&listener, "online at") == 1);
        server.wait_online("bob", 1);
        if transport == "websocket" {
            // The answer to where it stands has passed when a later one of the same worker has.
            server.api.send("bob", 0);
            assert_eq!(line(&listener), Some(0));
        }
        relay.cut();
        // That it is offline may be over before anybody looks: that it went is counted.
        wait_for("it has gone", || {
            let closed = &server.api.stats()["connections_closed"];
            closed.as_object().unwrap().values().any(|count| *count != 0)
        });
        server.api.send("bob", 1);
        assert_eq!(line(&listener), Some(1), "{transport}");
    }
}

/// What was sent to `bob`: numbers, one after the other.
struct Sent {
    /// Those that a server answered for.
    answered: Vec<u64>,
    /// The first one that none did.
    refused: u64,
}

fn send_on(api: &Api, stop: &AtomicBool) -> Sent {
    let mut sent = Sent { answered: Vec::new(), refused: u64::MAX };
    for n in 0.. {
        match api.try_post("/send", &json!({ "about": "bob", "data": n })) {
            Ok(answer) if answer.status() == 200 => sent.answered.push(n),
            // It is not there, or starts.
            _ => {
                sent.refused = sent.refused.min(n);
                thread::park_timeout(Duration::from_millis(1));
            }
        }
        if stop.load(Ordering::SeqCst) {
            break;
        }
    }
    sent
}

#[test]
fn killed_server_that_is_back_is_followed_with_a_gap_that_is_told() {
    for transport in TRANSPORTS {
        let data = tempfile::tempdir().unwrap();
        let history = "--history-events=1000000";
        let ports = own_ports();
        let start = || Server::start_in(data.path(), &[history, &ports[0], &ports[1]]);
        let server = start();
        let listener = listen(&server.url(), &["--json", "--transport", transport]);
        wait_for("it is online", || told(&listener, "online at") == 1);
        let (api, stop) = (server.api.another(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let sender = thread::spawn(move || send_on(&api, &stopped));

        let mut lines: Vec<Option<u64>> = (0..50).map(|_| line(&listener)).collect();
        server.into_program().kill();
        let server = start();
        while lines.last() != Some(&None) {
            lines.push(line(&listener));
        }
        let gap = lines.len() - 1;
        lines.extend((0..50).map(|_| line(&listener)));
        stop.store(true, Ordering::SeqCst);
        let sent = sender.join().unwrap();
        while lines.last() != Some(&sent.answered.last().copied()) {
            lines.push(line(&listener));
        }

        assert_eq!(lines.iter().filter(|line| line.is_none()).count(), 1, "{transport}: one gap");
        let heard: Vec<u64> = lines.iter().copied().flatten().collect();
        assert!(heard.is_sorted_by(|a, b| a < b), "{transport}: once and in order");
        let hole = lines[gap - 1].unwrap()..lines[gap + 1].unwrap();
        let is_missing = |n: &&u64| heard.binary_search(n).is_err();
        let missing: Vec<&u64> = sent.answered.iter().filter(is_missing).collect();
        assert!(missing.iter().all(|n| hole.contains(n)), "{transport}: a hole that is not told");
        // What is sent between two polls is gone with the server that remembered it; on a stream
        // the last one at most, which was answered as the server died.
        let before = missing.iter().filter(|&&&n| n < sent.refused).count();
        assert!(before <= 1 || transport == "poll", "{transport}: {before} of before the end");
        let said = ["online at", "offline: ", "online again"].map(|word| told(&listener, word));
        assert_eq!(said, [1, 1, 1], "{}", listener.stderr());
        drop(server);
    }
}

#[test]
fn gap_is_told_people_on_standard_error() {
    let (data, [port, _]) = (tempfile::tempdir().unwrap(), own_ports());
    let server = Server::start_in(data.path(), &[&port]);
    let listener = listen(&server.url(), &[]);
    server.wait_online("bob", 1);
    server.api.send("bob", 1);
    assert_eq!(listener.line(), "bob  1");
    server.stop("TERM");
    let server = Server::start_in(data.path(), &[&port]);
    server.wait_online("bob", 1);
    server.api.send("bob", 2);
    assert_eq!(listener.line(), "bob  2");
    assert_eq!(told(&listener, "gap: "), 1, "{}", listener.stderr());
}

/// A server of one connection after the other: reads the head of a request and sends `answer`.
struct Answers(TcpListener);

impl Answers {
    fn new() -> (Answers, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        (Answers(listener), url)
    }

    fn next(&self, answer: &str) -> (String, Wire) {
        let mut wire = Wire::from(self.0.accept().unwrap().0);
        let head = wire.take_through(b"\r\n\r\n").unwrap();
        wire.send(answer);
        (String::from_utf8(head).unwrap(), wire)
    }
}

const SSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

#[test]
fn silent_server_is_left_and_asked_again_from_the_last_place() {
    let (answers, url) = Answers::new();
    let listener = listen(&url, &["--silence=2", "--count=3"]);
    let (head, mut silent) = answers.next(&format!("{SSE}id: 7\ndata: 1\n\n"));
    assert!(!head.to_lowercase().contains("last-event-id"), "{head}");
    // Comments are a sign of life, as long as they come: far more often than is needed, so that a
    // busy machine is no silence.
    let begun = Instant::now();
    wait_for("more than the silence", || {
        silent.send(":\n\n");
        assert!(silent.is_open(), "{}", listener.stderr());
        begun.elapsed() > Duration::from_secs(3)
    });
    silent.end();
    let (head, mut silent) = answers.next(&format!("{SSE}id: 8\ndata: 2\n\n"));
    assert!(head.to_lowercase().contains("last-event-id: 7\r\n"), "{head}");
    silent.end();
    let (head, _wire) = answers.next(&format!("{SSE}data: 3\n\n"));
    assert!(head.to_lowercase().contains("last-event-id: 8\r\n"), "{head}");
    let finished = listener.finish();
    assert_eq!((finished.code(), &*finished.stdout), (Some(0), "1\n2\n3\n"), "{finished:?}");
    let silences = finished.stderr.matches("nothing came for 2s").count();
    assert_eq!(silences, 2, "{finished:?}");
    assert!(!finished.stderr.contains("gap"), "{finished:?}");
}

#[test]
fn server_that_tells_no_places_cannot_be_resumed_without_a_gap() {
    let (answers, url) = Answers::new();
    let listener = listen(&url, &["--count=2", "--json"]);
    drop(answers.next(&format!("{SSE}data: 1\n\n")));
    let _wire = answers.next(&format!("{SSE}data: 2\n\n"));
    let finished = listener.finish();
    assert_eq!(finished.stdout, "1\n{\"gap\":true}\n2\n", "{finished:?}");
}

/// Of a server that is another one than Encke.
#[test]
fn event_of_any_form_does_not_steer_the_terminal() {
    let event = "hello \u{1b}]0;owned\u{7} \u{1b}[2J";
    for (options, printed) in
        [(&[][..], r"hello \u{1b}]0;owned\u{7} \u{1b}[2J"), (&["--json"], event)]
    {
        let (answers, url) = Answers::new();
        let listener = listen(&url, &[options, &["--count=1"]].concat());
        let _wire = answers.next(&format!("{SSE}data: {event}\n\n"));
        let finished = listener.finish();
        assert_eq!(finished.stdout, format!("{printed}\n"), "{finished:?}");
    }
}

/// A waiting poll is answered at once with a gap in mid-stream, and that is no end of anything.
#[test]
fn gap_that_answers_a_poll_at_once_is_no_end() {
    let (answers, url) = Answers::new();
    let listener = listen(&url, &["--transport=poll", "--count=1", "--json"]);
    let answer = |fields: &str, body: &str| {
        let length = body.len();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
        format!("{head}Content-Length: {length}\r\n{fields}\r\n{body}")
    };
    let (_, mut wire) = answers.next(&answer("Encke-Next: 7\r\n", "[]"));
    for (asks_after, fields, body) in [
        ("after=7", "Encke-Next: 8\r\nEncke-Gap: true\r\n", "[]"),
        ("after=8", "Encke-Next: 9\r\n", "[1]"),
    ] {
        let head = String::from_utf8(wire.take_through(b"\r\n\r\n").unwrap()).unwrap();
        assert!(head.contains(asks_after), "{head}");
        wire.send(answer(fields, body));
    }
    let finished = listener.finish();
    assert_eq!(finished.stdout, "{\"gap\":true}\n1\n", "{finished:?}");
    assert!(!finished.stderr.contains("offline"), "{finished:?}");
}

#[test]
fn full_server_is_asked_again_after_the_time_that_it_names() {
    let (answers, url) = Answers::new();
    let listener = listen(&url, &["--count=1"]);
    let start = Instant::now();
    drop(
        answers.next(
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n",
        ),
    );
    drop(answers.next("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"));
    assert!(start.elapsed() >= Duration::from_secs(2));
    let _wire = answers.next(&format!("{SSE}data: 1\n\n"));
    let finished = listener.finish();
    assert_eq!((finished.code(), &*finished.stdout), (Some(0), "1\n"), "{finished:?}");
    let lines: Vec<_> = finished.stderr.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("offline: "), "{lines:?}");
    assert!(lines[1].starts_with("online at "), "{lines:?}");
}

#[test]
fn refusal_is_final_also_of_a_listener_that_comes_back() {
    for (status, phrase) in
        [(401, "Unauthorized"), (403, "Forbidden"), (404, "Not Found"), (421, "Misdirected")]
    {
        for was_online in [false, true] {
            let (answers, url) = Answers::new();
            let listener = listen(&url, &[]);
            if was_online {
                drop(answers.next(&format!("{SSE}id: 7\ndata: 1\n\n")));
            }
            let body = r#"{"detail":"Do so and so."}"#;
            let length = body.len();
            let head = format!("HTTP/1.1 {status} {phrase}\r\nContent-Length: {length}\r\n\r\n");
            let _wire = answers.next(&(head + body));
            let finished = listener.finish();
            assert_eq!(finished.code(), Some(1), "{finished:?}");
            let last = finished.stderr.lines().last().unwrap();
            assert!(last.starts_with("encke: ") && last.ends_with("Do so and so."), "{last}");
            assert!(last.contains(&status.to_string()), "{last}");
        }
    }
}

#[test]
fn logout_is_final_where_it_is_told() {
    let server = Server::start(&[]);
    let listener = listen(&server.url(), &["--transport=websocket"]);
    server.wait_online("bob", 1);
    server.api.send("bob", "the last one");
    server.api.logout("bob");
    let finished = listener.finish();
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    assert_eq!(finished.stdout, "bob  \"the last one\"\n");
    assert!(finished.stderr.contains("logged these ids out"), "{finished:?}");
}

#[test]
fn interrupt_ends_a_listener_whose_output_nobody_reads() {
    let server = Server::start(&[]);
    let mut command = encke(["listen", "bob", "--url", &server.url()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    server.wait_online("bob", 1);
    for _ in 0..200 {
        server.api.send("bob", "x".repeat(1000));
    }
    // It has written all that the pipe holds, 16 pages, and waits for its reader.
    let io = format!("/proc/{}/io", child.id());
    wait_for("the pipe is full", || {
        let io = std::fs::read_to_string(&io).unwrap();
        let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap();
        written.parse::<u64>().unwrap() > 45_000
    });
    testing::signal(child.id(), "INT");
    wait_for("it ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    child.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap();
}
