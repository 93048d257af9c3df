//! Streams of the hub whose server is replaced: each goes on with all that it was let in for.

use std::io::{IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use serde_json::{Value, json};
use sys::passing;

use super::{BOOKS, Hub, bearer, subscriber};
use crate::harness::{Authority, Program, Stream, TOKEN_SECRET, encke, get, in_seconds, wait_for};
use crate::upgrade::Upgraded;
use crate::upgrade::served::rewriting;
use crate::upgrade::tls::{VERSIONS, client};

#[test]
fn places_of_before_an_upgrade_are_good_behind_it() {
    let hub = Hub::start_upgraded(&["--mercure-open", "--history-events=3"]);
    let first = hub.publish("topic=https://a.test/books/1&data=1").0;
    hub.publish("topic=https://a.test/books/2&data=2&id=urn:2");
    hub.publish("topic=other&data=3&id=urn:3");
    // What a topic has lost is no gap for others.
    (0..9).for_each(|data| drop(hub.publish(&format!("topic=busy&data={data}"))));
    for round in 0..2 {
        hub.server.upgrade(&[]);
        for (query, place, heard) in [
            (BOOKS, &*first, &["2"][..]),
            ("topic=https://a.test/books/2", &first, &["2"]),
            (BOOKS, "urn:2", &[]),
            ("topic=other", "urn:2", &["3"]),
            ("match_urlpattern=https://a.test/books/:id", &first, &["2"]),
        ] {
            let mut stream = hub.listen(query, &[&format!("Last-Event-ID: {place}")]);
            let v1 = query.starts_with("match");
            let field = if v1 { "mercure-last-event-id" } else { "last-event-id" };
            assert_eq!(stream.head.field(field), Some(place), "{query} {round}");
            for data in heard {
                assert!(stream.chunk().ends_with(&format!("data: {data}\n\n")), "{query} {place}");
            }
        }
        let mut late = hub.listen("topic=busy", &[&format!("Last-Event-ID: {first}")]);
        assert_eq!(late.head.field("last-event-id"), Some("earliest"));
        assert!(late.chunk().starts_with("event: gap\n"));
        let mut unknown = hub.listen("topic=*", &["Last-Event-ID: urn:nobody"]);
        assert!(unknown.chunk().starts_with("event: gap\n"));
    }
}

#[test]
fn token_that_is_revoked_or_ends_behind_an_upgrade_ends_its_streams() {
    let own = format!("--token-key={TOKEN_SECRET}");
    let hub = Hub::start_upgraded(&[&own]);
    let of = |claims: Value| {
        let mut token = json!({ "mercure": { "subscribe": ["{word}"] } });
        token.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        bearer(&token)
    };
    let exp = in_seconds(6);
    let tokens = [
        of(json!({ "jti": "1", "sub": "bob" })),
        of(json!({ "jti": "2", "sub": "bob" })),
        of(json!({ "jti": "3", "sub": "rj" })),
        of(json!({ "jti": "4", "sub": "eve", "exp": exp })),
    ];
    let mut streams = tokens.each_ref().map(|token| hub.listen("topic=%7Bword%7D", &[token]));
    hub.server.upgrade(&[]);
    assert!(hub.publish_private("topic=a&data=1") >= 3);
    let revoke = |body: Value| hub.server.api.post("/tokens/revoke", &body).ok();
    revoke(json!({ "jti": "1" }));
    assert_eq!(ends_behind(&mut streams[0]), 1);
    revoke(json!({ "sub": "bob" }));
    assert_eq!(ends_behind(&mut streams[1]), 1);
    assert!(ends_behind(&mut streams[3]) <= 1);
    assert!(sys::clock::unix_ms() as i64 > exp * 1_000 - 300, "not before its time");
    assert_eq!(hub.publish_private("topic=a&data=2"), 1);
    for data in ["1", "2"] {
        assert!(streams[2].chunk().ends_with(&format!("data: {data}\n\n")));
    }
}

/// How many updates come before the end.
fn ends_behind(stream: &mut Stream) -> usize {
    std::iter::from_fn(|| Some(stream.chunk()).filter(|chunk| !chunk.is_empty())).count()
}

impl Hub<Upgraded> {
    /// How many have heard what was published in private.
    fn publish_private(&self, form: &str) -> u64 {
        // Its publisher needs a token that is not revoked.
        self.publish(&format!("{form}&private=on")).1
    }
}

#[test]
fn streams_over_tls_hear_on() {
    let authority = Authority::new();
    let pair = authority.issue("own", &["localhost"]).options();
    let options = ["--mercure-open", "--tls-listen=127.0.0.1:0", &*pair[0], &*pair[1]];
    let hub = Hub::start_upgraded(&options);
    let mut streams = VERSIONS.map(|version| {
        let mut socket = client(&authority, hub.server.tls_listen(), version);
        socket.write_all(get(&format!("{}?{BOOKS}", super::HUB), &[]).as_bytes()).unwrap();
        (socket, String::new())
    });
    for round in 0..3 {
        let wanted = format!("data: round {round}\n\n");
        wait_for("both listen", || hub.server.api.stats()["mercure"]["subscribers"] == 2);
        hub.publish(&format!("topic=https://a.test/books/1&data=round+{round}"));
        for (socket, text) in &mut streams {
            while !text.contains(&wanted) {
                let mut piece = [0; 4_096];
                let read = socket.read(&mut piece).unwrap();
                assert!(read > 0, "it goes on: {text}");
                text.push_str(str::from_utf8(&piece[..read]).unwrap());
            }
            assert_eq!(text.matches("data: round").count(), round + 1, "{text}");
        }
        hub.server.upgrade(&[]);
    }
}

#[test]
fn stream_that_new_settings_do_not_let_in_ends() {
    let hub = Hub::start_upgraded(&["--mercure-open"]);
    let mut anonymous = hub.listen("topic=a", &[]);
    let mut bob = hub.listen("topic=a", &[&subscriber(&["a"])]);
    let closed = rewriting(&hub.server.data().join("closed"), &[("--mercure-open", "")]);
    hub.server.upgrade(&["--binary", &closed]);
    anonymous.expect_last_chunk();
    assert_eq!(hub.publish("topic=a&data=1").1, 1);
    assert!(bob.chunk().ends_with("data: 1\n\n"));
    let none = rewriting(&hub.server.data().join("none"), &[("--mercure-", "")]);
    hub.server.upgrade(&["--binary", &none]);
    bob.expect_last_chunk();
    assert_eq!(hub.status("topic=a", &[]), 404);
}

/// Stands between a server and its successor, as one that knows no streams of the hub: what the
/// successor says of its versions is an older one's.
fn pass_as_older(asked: &UnixListener, serving: &UnixStream) {
    let (successor, _) = asked.accept().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut last, mut is_said) = ([0; 4], false);
            relay(&successor, serving, |byte| {
                last = [last[1], last[2], last[3], byte];
                // It says 4 twice.
                let is_last = !is_said && last == *b",4,5";
                is_said |= is_last;
                if is_last { b'4' } else { byte }
            })
        });
        relay(serving, &successor, |byte| byte);
    });
}

/// Passes on a byte at a time: descriptors come with one byte, and go on with the same.
fn relay(from: &UnixStream, to: &UnixStream, mut change: impl FnMut(u8) -> u8) {
    loop {
        let (mut byte, mut descriptors) = ([0], Vec::new());
        if passing::receive(from, &mut byte, &mut descriptors).unwrap_or(0) == 0 {
            let _ = to.shutdown(std::net::Shutdown::Write);
            return;
        }
        let passed: Vec<_> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
        passing::send(to, &[IoSlice::new(&[change(byte[0])])], &passed).unwrap();
    }
}

#[test]
fn version_that_knows_no_streams_of_the_hub_gets_none_and_their_clients_come_back() {
    let hub = Hub::start_upgraded(&["--mercure-open"]);
    let mut streams =
        [BOOKS, "topic=https://a.test/books/1"].map(|query| (query, hub.listen(query, &[])));
    let mut plain = hub.server.listener("bob");
    let (id, _) = hub.publish("topic=https://a.test/books/1&data=1");
    for (_, stream) in &mut streams {
        assert_eq!(stream.chunk(), format!("id: {id}\ndata: 1\n\n"));
    }
    hub.publish("topic=other&data=0");
    let socket = hub.server.data().join("upgrade.sock");
    let serving = UnixStream::connect(&socket).unwrap();
    std::fs::remove_file(&socket).unwrap();
    let asked = UnixListener::bind(&socket).unwrap();
    let old = hub.server.owner();
    let key = Hub::key_option(hub._files.path());
    let options =
        ["serve", "--take-over", "--json", "--mercure-open", &key, "--listen=127.0.0.1:0"];
    let mut command = encke(options.into_iter().chain(["--api=127.0.0.1:0"]));
    let successor = Program::spawn(command.arg("--data").arg(hub.server.data()));
    thread::scope(|scope| {
        scope.spawn(|| pass_as_older(&asked, &serving));
        wait_for("it serves", || hub.server.owner_if_any() == Some(successor.pid()));
        hub.server.wait_ended(old);
    });
    let (_, _) = hub.publish("topic=https://a.test/books/2&data=2");
    for (query, mut stream) in streams {
        stream.end();
        // What was published before is not known by topic there: a gap is told for patterns.
        let mut stream = hub.listen(query, &[&format!("Last-Event-ID: {id}")]);
        let is_pattern = query == BOOKS;
        let place = if is_pattern { "earliest" } else { &*id };
        assert_eq!(stream.head.field("last-event-id"), Some(place), "{query}");
        assert_eq!(is_pattern && stream.chunk().starts_with("event: gap\n"), is_pattern);
    }
    assert_eq!(hub.server.api.send("bob", 1), 1);
    assert_eq!(plain.data(), 1);
}
