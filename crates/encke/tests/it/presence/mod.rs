//! Who comes and who goes, as streams of the API hear it.

pub(crate) mod receiver;
mod storm;
mod webhook;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use socket2::{Domain, SockAddr, Type};

use crate::harness::{Server, Socket, Stream, Wire, get, wait_for};
use crate::keys::{new_key, revoke, server as server_with_keys, unauthorized};
use crate::upgrade::Upgraded;

/// A stream of the API that hears who comes and who goes.
pub(crate) struct Presence {
    stream: Stream,
    lines: std::vec::IntoIter<String>,
}

impl Presence {
    pub(crate) fn open(server: &Server) -> Presence {
        Presence::of(Stream::open(server.api.address(), "/presence", "*/*"))
    }

    fn of(mut stream: Stream) -> Presence {
        assert_eq!(stream.head.field("content-type"), Some("application/x-ndjson"));
        // From here on it hears all.
        assert_eq!(stream.chunk(), "\n");
        Presence { stream, lines: Vec::new().into_iter() }
    }

    /// The next thing that it is told; `None` at the stream's end.
    fn try_next(&mut self) -> Option<Value> {
        loop {
            if let Some(line) = self.lines.next() {
                return Some(serde_json::from_str(&line).unwrap());
            }
            let chunk = self.stream.chunk();
            if chunk.is_empty() {
                return None;
            }
            let lines: Vec<String> = chunk.lines().map(str::to_owned).collect();
            self.lines = lines.into_iter();
            // A sign of life is an empty line.
            if chunk == "\n" {
                self.lines = Vec::new().into_iter();
            }
        }
    }

    #[track_caller]
    pub(crate) fn next(&mut self) -> Value {
        self.try_next().expect("the stream goes on")
    }
}

/// The figure `name` of `/metrics`, with its labels if it has any.
pub(crate) fn figure(server: &Server, name: &str) -> f64 {
    let metrics = server.api.get("/metrics").body;
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name} is not in {metrics}")).parse().unwrap()
}

#[test]
fn id_with_two_connections_comes_with_the_first_and_goes_after_the_last() {
    let server = Server::start(&["--presence-grace=0.3"]);
    let there = server.listener("there");
    let mut presence = Presence::open(&server);
    let mut sse = Stream::open(server.api.address(), "/presence", "text/event-stream");
    assert_eq!(sse.chunk(), ":\n\n");
    let first = server.listener("a:\"b\"");
    assert_eq!(presence.next(), json!({"online": "a:\"b\""}));
    assert_eq!(sse.chunk(), "data: {\"online\":\"a:\\\"b\\\"\"}\n\n");
    let second = server.stream("/test/a:%22b%22", "*/*");
    server.wait_online("a:\"b\"", 2);
    drop(first);
    server.wait_online("a:\"b\"", 1);
    let third = server.listener("123");
    assert_eq!(presence.next(), json!({"online": "123"}), "nothing of the one that is still there");
    let begun = Instant::now();
    second.wire.reset();
    assert_eq!(presence.next(), json!({"offline": "a:\"b\""}));
    assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
    drop(there);
    assert_eq!(presence.next(), json!({"offline": "there"}), "also of whom it was not told");
    assert_eq!(server.api.logout("123"), 1);
    assert_eq!(presence.next(), json!({"offline": "123"}));
    drop(third);
    assert_eq!(figure(&server, "encke_presence_events_total{state=\"offline\"}"), 3.0);
    assert_eq!(figure(&server, "encke_presence_listeners{kind=\"api\"}"), 2.0);
    drop((presence, sse));
    wait_for("nobody listens any more", || {
        figure(&server, "encke_presence_listeners{kind=\"api\"}") == 0.0
    });
}

#[test]
fn client_that_flaps_within_its_grace_is_nothing() {
    let server = Server::start(&["--presence-grace=60"]);
    let mut presence = Presence::open(&server);
    for round in 0..100 {
        let stream = server.listener("bob");
        server.wait_online("bob", 1);
        if round % 2 == 0 {
            drop(stream)
        } else {
            stream.wire.reset()
        }
        server.wait_online("bob", 0);
    }
    let _last = server.listener("last");
    // All of it may be read at once: then of the two either may be told first.
    let mut told = [presence.next(), presence.next()];
    told.sort_by_key(ToString::to_string);
    assert_eq!(told, [json!({"online": "bob"}), json!({"online": "last"})]);
    // What bob did last may be read after what another did later.
    wait_for("bob waits", || figure(&server, "encke_presence_waiting") == 1.0);
}

#[test]
fn ten_thousand_log_ins_at_once_are_all_told() {
    let server = Server::start(&["--presence-grace=0"]);
    let mut presence = Presence::open(&server);
    let mut socket = Socket::open(server.listen(), "/stream/first");
    assert_eq!(presence.next(), json!({"online": "first"}));
    let mut more: Vec<Socket> =
        (0..9).map(|n| Socket::open(server.listen(), &format!("/stream/more:{n}"))).collect();
    (0..9).for_each(|_| assert!(presence.next()["online"].is_string()));
    more.push(std::mem::replace(&mut socket, Socket::open(server.listen(), "/stream/first")));
    for (n, socket) in more.iter_mut().enumerate() {
        for part in 0..10 {
            let ids: Vec<usize> = (0..100).map(|m| n * 1_000 + part * 100 + m).collect();
            socket.ask(json!({ "login": ids }));
        }
    }
    let told: BTreeSet<String> =
        (0..10_000).map(|_| presence.next()["online"].as_str().unwrap().to_owned()).collect();
    assert_eq!(told, (0..10_000).map(|n: u32| n.to_string()).collect());
    assert_eq!(figure(&server, "encke_presence_lost_total"), 0.0);
}

/// A stream of the API that reads nothing until it is asked to, through buffers that hold little.
fn unread(server: &Server) -> Wire {
    let socket = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&SockAddr::from(server.api.address())).unwrap();
    let mut wire = Wire::from(std::net::TcpStream::from(socket));
    wire.send(get("/presence", &[]));
    wire
}

#[test]
fn slow_listener_is_told_and_ended_and_a_quick_one_hears_all_of_a_storm() {
    const IDS: usize = 200;
    const ROUNDS: usize = 150;
    let server = Server::start(&["--presence-grace=0", "--max-message=1MiB"]);
    let mut slow = unread(&server);
    let mut quick = Presence::open(&server);
    let mut socket = Socket::open(server.listen(), "/stream/first");
    quick.next();
    let mut innocent = server.listener("innocent");
    quick.next();
    let ids: Vec<String> = (0..IDS).map(|n| format!("{n:0250}-")).collect();
    let before = server.anonymous_bytes();
    for _ in 0..ROUNDS {
        socket.ask(json!({ "login": ids }));
        socket.ask(json!({ "logout": ids }));
        // All the while the slow one has read nothing, so nobody here waits for it.
        assert_eq!(server.api.send("innocent", "still here?"), 1);
        innocent.data();
        let (mut online, mut offline) = (0, 0);
        while online + offline < 2 * IDS {
            let told = quick.next();
            online += usize::from(told["online"].is_string());
            offline += usize::from(told["offline"].is_string());
        }
        assert_eq!((online, offline), (IDS, IDS));
    }
    // A ring of pieces for all, and the socket's own buffer in the kernel.
    let grown = server.anonymous_bytes().saturating_sub(before);
    println!("{} bytes more", grown);
    assert!(grown < 64 << 20, "{grown}");
    assert_eq!(slow.head().status, 200);
    let mut last = String::new();
    loop {
        let chunk = String::from_utf8(slow.chunk().unwrap()).unwrap();
        if chunk.is_empty() {
            break;
        }
        last = chunk;
    }
    assert_eq!(last, "{\"lost\":true}\n", "the last thing that it hears");
    assert_eq!(figure(&server, "encke_presence_behind_total"), 1.0);
    assert_eq!(figure(&server, "encke_presence_lost_total"), 0.0);
}

#[test]
fn presence_needs_a_key_that_reads_and_ends_with_it() {
    let (server, data) = server_with_keys(&["--presence-grace=0"]);
    let key = new_key(data.path(), &["--scope=read"]);
    unauthorized(&server.api.get("/presence"));
    let other = new_key(data.path(), &["--scope=send,graph"]);
    server.api.with_key(&other).get("/presence").problem(403);
    let mut wire = Wire::connect(server.api.address());
    wire.send(get("/presence", &[&format!("Authorization: Bearer {key}")]));
    assert_eq!(wire.head().status, 200);
    assert_eq!(wire.chunk().unwrap(), b"\n");
    let _bob = server.listener("bob");
    assert_eq!(wire.chunk().unwrap(), b"{\"online\":\"bob\"}\n");
    revoke(data.path(), &key);
    let _zoe = server.listener("zoe");
    assert_eq!(wire.chunk().unwrap(), b"", "it ends before it tells anything more");
}

#[test]
fn there_are_not_too_many_streams_and_places_come_back() {
    let server = Server::start(&[]);
    let mut streams: Vec<Presence> = (0..64).map(|_| Presence::open(&server)).collect();
    let problem = server.api.get("/presence").problem(503);
    assert!(problem["detail"].as_str().unwrap().contains("presence"), "{problem}");
    streams.pop();
    wait_for("a place comes back", || {
        figure(&server, "encke_presence_listeners{kind=\"api\"}") == 63.0
    });
    streams.push(Presence::open(&server));
}

#[test]
fn upgrade_ends_the_stream_and_tells_nobody_anew() {
    let server = Upgraded::serve(&["--presence-grace=0"]);
    let mut presence = Presence::open(&server);
    let bob = server.listener("bob");
    assert_eq!(presence.next(), json!({"online": "bob"}));
    server.upgrade(&[]);
    assert_eq!(presence.try_next(), None, "its server has gone");
    let mut presence = Presence::open(&server);
    let _zoe = server.listener("zoe");
    assert_eq!(presence.next(), json!({"online": "zoe"}), "and nothing of whom was there");
    drop(bob);
    assert_eq!(presence.next(), json!({"offline": "bob"}));
}

#[test]
fn server_that_stops_ends_the_stream() {
    let server = Server::start(&[]);
    let mut presence = Presence::open(&server);
    let _bob = server.listener("bob");
    presence.next();
    assert_eq!(server.stop("TERM").code(), Some(0));
    assert_eq!(presence.try_next(), None);
}
