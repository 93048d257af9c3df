//! Tokens: what a stream was let in for goes with it, until when too.

use serde_json::{Value, json};

use super::served::Upgraded;
use super::subscriber::{Kind, Subscriber, connect};
use crate::harness::{TOKEN_SECRET, check_problem, get, in_seconds, signed, token_for};

const KINDS: [Kind; 4] = [Kind::Sse, Kind::Ndjson, Kind::WebSocket, Kind::OldNdjson];

fn guarded() -> Upgraded {
    Upgraded::serve(&[&format!("--token-key={TOKEN_SECRET}")])
}

/// A stream of `ids` by `token`.
fn open(server: &Upgraded, kind: Kind, ids: &[&str], token: &str) -> Subscriber {
    let path = format!("{}&token={token}", kind.path(ids, None));
    Subscriber::ask(connect(server.listen()), kind, ids, &kind.request(&path))
}

fn status(server: &Upgraded, token: &str) -> u16 {
    server.ask(get(&format!("/stream?token={token}"), &[])).head().status
}

#[test]
fn stream_ends_with_its_token_behind_an_upgrade() {
    let server = guarded();
    // Four streams are to be open before it is over, on a busy machine too.
    let exp = in_seconds(12);
    let token = signed(&json!({ "sub": "bob", "exp": exp }));
    let mut subscribers: Vec<Subscriber> =
        KINDS.iter().map(|&kind| open(&server, kind, &["bob"], &token)).collect();
    server.upgrade(&[]);
    if in_seconds(0) < exp - 1 {
        assert_eq!(server.api.send("bob", "still"), subscribers.len() as u64);
        subscribers.iter_mut().for_each(|subscriber| assert_eq!(subscriber.data(), "still"));
    }
    for subscriber in &mut subscribers {
        subscriber.expect_end();
        if subscriber.kind == Kind::WebSocket {
            assert_eq!(subscriber.answer(), json!({ "close": 3000, "reason": "token_expired" }));
        }
    }
    // A worker counts in ticks of 100 ms, and so does each who inherits from it.
    assert!(sys::clock::unix_ms() as i64 > exp * 1000 - 300, "not before its time");
    server.wait_closed("token_expired", KINDS.len() as u64);
    assert_eq!(server.api.connections("bob"), 0);
}

#[test]
fn token_that_is_revoked_behind_an_upgrade_ends_its_streams() {
    let server = guarded();
    let claims = |jti: &str, iat: i64| {
        signed(&json!({ "sub": "bob", "jti": jti, "iat": iat, "exp": in_seconds(600) }))
    };
    // Between them, however long it takes until it is said.
    let before = in_seconds(1);
    let [one, two, new] =
        [("t1", -100), ("t2", -50), ("t3", 5)].map(|(jti, since)| claims(jti, in_seconds(since)));
    let mut subscribers =
        [&one, &two, &new].map(|token| KINDS.map(|kind| open(&server, kind, &["bob"], token)));
    let revoked_before = claims("t0", in_seconds(-10));
    let revoke = |body: Value| server.api.post("/tokens/revoke", &body).ok();
    revoke(json!({ "jti": "t0" }));
    server.upgrade(&[]);
    assert_eq!(status(&server, &revoked_before), 401, "what was revoked stays so");
    assert_eq!(server.api.send("bob", "all"), 3 * KINDS.len() as u64);
    subscribers.iter_mut().flatten().for_each(|subscriber| assert_eq!(subscriber.data(), "all"));
    revoke(json!({ "jti": "t1" }));
    subscribers[0].iter_mut().for_each(Subscriber::expect_end);
    assert_eq!(server.api.send("bob", "two are left"), 2 * KINDS.len() as u64);
    server.upgrade(&[]);
    revoke(json!({ "sub": "bob", "before": before }));
    subscribers[1].iter_mut().for_each(|subscriber| {
        assert_eq!(subscriber.data(), "two are left");
        subscriber.expect_end();
    });
    server.wait_closed("token_revoked", 2 * KINDS.len() as u64);
    assert_eq!(server.api.send("bob", "made later"), KINDS.len() as u64);
    for subscriber in &mut subscribers[2] {
        assert_eq!(
            (subscriber.data(), subscriber.data()),
            (json!("two are left"), json!("made later"))
        );
    }
}

#[test]
fn token_stays_good_for_as_many_connections_as_it_says() {
    let server = guarded();
    let bounds = json!({ "ids": ["*"], "max_ids": 2, "max_connections": 2 });
    let token =
        signed(&json!({ "sub": "bob", "jti": "a", "exp": in_seconds(60), "encke": bounds }));
    let first = open(&server, Kind::Ndjson, &["bob"], &token);
    let mut socket = open(&server, Kind::WebSocket, &["bob"], &token);
    for _ in 0..2 {
        assert_eq!(status(&server, &token), 429);
        server.upgrade(&[]);
    }
    assert_eq!(status(&server, &token), 429);
    // What it grants is verified behind the upgrade as before.
    check_problem(&socket.command(&json!({ "login": ["a", "b"] }))["error"], 403);
    assert_eq!(socket.command(&json!({ "login": ["a"] }))["ok"]["login"], json!(["a"]));
    check_problem(&socket.command(&json!({ "login": ["c"] }))["error"], 403);
    drop(first);
    server.wait_open(1);
    assert_eq!(status(&server, &token), 200);
}

#[test]
fn websocket_logs_in_and_renews_under_its_grant() {
    let server = guarded();
    let grant = json!({ "ids": ["news", "room:*"] });
    // It is to be good still behind an upgrade, on a busy machine too.
    let token = signed(&json!({ "sub": "bob", "exp": in_seconds(12), "encke": grant }));
    let mut socket = open(&server, Kind::WebSocket, &["bob"], &token);
    let mut other = open(&server, Kind::Ndjson, &["bob"], &token);
    server.upgrade(&[]);
    assert_eq!(
        socket.command(&json!({ "login": ["room:7", "news"] })),
        json!({ "ok": { "login": ["room:7", "news"] } })
    );
    check_problem(&socket.command(&json!({ "login": ["alice"] }))["error"], 403);
    check_problem(&socket.command(&json!({ "token": token_for("alice") }))["error"], 401);
    let grant = json!({ "ids": ["alice", "news", "room:*"] });
    let longer = json!({ "sub": "bob", "exp": in_seconds(600), "encke": grant });
    assert_eq!(
        socket.command(&json!({ "token": signed(&longer) })),
        json!({ "ok": { "token": true } })
    );
    server.upgrade(&[]);
    // The new one's time and grant hold.
    other.expect_end();
    assert_eq!(server.api.send("bob", "still here"), 1);
    assert_eq!(socket.data(), "still here");
    assert_eq!(socket.command(&json!({ "login": ["alice"] }))["ok"]["login"], json!(["alice"]));
    assert_eq!(server.api.send("alice", 1), 1);
    assert_eq!(socket.data(), 1);
}
