//! Tokens that are revoked at one node are revoked at all, whatever is down meanwhile.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testing::tried_again;

use super::failures::copy;
use super::{World, cluster_stats, wait_members, wait_ready};
use crate::harness::{Server, TOKEN_SECRET, Wire, get, in_seconds, read_answer, signed, wait_for};

/// So long a node may let clients in without having read the log.
const LEASE: Duration = Duration::from_secs(10);

fn guarded(world: &World, name: &str) -> Server {
    world.node(name, &[&format!("--token-key={TOKEN_SECRET}")])
}

fn all<const N: usize>(world: &World) -> [Server; N] {
    let nodes = std::array::from_fn(|n| guarded(world, &format!("n{}", n + 1)));
    nodes.iter().for_each(|node| wait_members(node, N as u64));
    nodes
}

fn token(sub: &str, jti: &str) -> String {
    signed(&json!({ "sub": sub, "jti": jti, "exp": in_seconds(3600), "iat": in_seconds(-5) }))
}

fn connect(node: &Server, token: &str) -> Wire {
    node.ask(get("/stream", &[&format!("Authorization: Bearer {token}")]))
}

fn listen(node: &Server, token: &str) -> Wire {
    let mut wire = connect(node, token);
    let head = wire.head();
    assert_eq!(head.status, 200, "{}", head.text);
    wire
}

fn status(node: &Server, token: &str) -> u16 {
    connect(node, token).head().status
}

fn refusal(node: &Server, token: &str) -> String {
    // First, for a stream that is opened has no end.
    assert_eq!(status(node, token), 401);
    read_answer(&mut connect(node, token), "GET").unwrap().body
}

fn revoke(node: &Server, which: &Value) {
    assert_eq!(node.api.post("/tokens/revoke", which).ok(), json!({ "revoked": true }));
}

/// What comes until the stream ends.
fn rest(stream: &mut Wire) -> String {
    let mut text = String::new();
    wait_for("the stream ends", || {
        let chunk = stream.chunk().unwrap_or_default();
        text += str::from_utf8(&chunk).unwrap();
        chunk.is_empty()
    });
    text
}

/// Where all members obey, a revocation waits for no lease. It does where one was just not heard
/// of, which a machine that stands still for a moment makes of any: then another one is tried, and
/// that is told.
fn check_that_none_waits(node: &Server) {
    for number in 1.. {
        let begin = Instant::now();
        revoke(node, &json!({ "jti": format!("nobody's {number}") }));
        if begin.elapsed() < LEASE {
            return;
        }
        assert!(number < 4, "each revocation waits for a lease");
        tried_again("a revocation waited for a lease, though no member was away");
    }
}

#[test]
fn token_that_is_revoked_at_one_node_is_good_at_none() {
    let Some(world) = World::new() else { return };
    let [a, b, c] = all(&world);
    let (bad, good) = (token("alice", "bad"), token("alice", "good"));
    let (mut ended, mut stays) = (listen(&b, &bad), listen(&b, &good));
    assert_eq!(a.api.send("alice", 1), 2);
    let begin = Instant::now();
    // Nodes began less than a lease ago: later it takes no wait.
    revoke(&a, &json!({ "jti": "bad" }));
    assert_eq!(a.api.send("alice", 2), 1);
    assert!(rest(&mut ended).contains(r#""data":1"#));
    for node in [&a, &b, &c] {
        assert!(refusal(node, &bad).contains("revoked"));
        assert_eq!(status(node, &good), 200);
        assert_eq!(node.api.stats()["tokens"]["revocations"], 1);
    }
    assert!(String::from_utf8(stays.chunk().unwrap()).unwrap().contains(r#""data":1"#));
    wait_for("nobody has left or begun for a while", || begin.elapsed() > LEASE + LEASE / 10);
    check_that_none_waits(&c);
    revoke(&c, &json!({ "sub": "alice", "before": in_seconds(0) }));
    assert!(rest(&mut stays).contains(r#""data":2"#));
    for node in [&a, &b, &c] {
        assert!(refusal(node, &good).contains("revoked"));
    }
}

#[test]
fn node_that_was_down_or_is_new_knows_what_was_revoked() {
    let Some(mut world) = World::new() else { return };
    let [a, b] = all(&world);
    let (bad, bobs) = (token("alice", "bad"), token("bob", "x"));
    b.into_program().signal("KILL");
    revoke(&a, &json!({ "jti": "bad", "exp": in_seconds(3600) }));
    revoke(&a, &json!({ "sub": "bob" }));
    let (b, c) = (guarded(&world, "n2"), guarded(&world, "n3"));
    for node in [&b, &c] {
        assert!(
            refusal(node, &bad).contains("revoked") && refusal(node, &bobs).contains("revoked")
        );
        assert_eq!(status(node, &token("alice", "other")), 200);
    }
    // All at once; and what the log had is over, and what the nodes had on disk themselves.
    for node in [a, b, c] {
        node.into_program().signal("KILL");
    }
    world.nats.kill();
    fs::remove_dir_all(world.nats.store().join("jetstream/$G/streams/ENCKE_c_1")).unwrap();
    world.nats.restart();
    for name in ["n1", "n2", "n3"] {
        // One that was killed too soon has none.
        let _ = fs::remove_file(world.store(name).join("revoked.json"));
    }
    let a = guarded(&world, "n1");
    assert!(refusal(&a, &bad).contains("revoked") && refusal(&a, &bobs).contains("revoked"));
}

#[test]
fn node_that_stood_still_lets_nobody_in_before_it_knows() {
    let Some(world) = World::new() else { return };
    let [a, b] = all(&world);
    let (bad, good) = (token("alice", "bad"), token("alice", "good"));
    let mut stream = listen(&b, &bad);
    assert_eq!(a.api.send("alice", 1), 1);
    b.signal("STOP");
    let begin = Instant::now();
    revoke(&a, &json!({ "jti": "bad" }));
    // And not for ever: until its lease is over.
    assert!(begin.elapsed() >= LEASE, "{:?}", begin.elapsed());
    a.api.send("alice", 2);
    let mut waiting: Vec<Wire> = (0..20).map(|_| connect(&b, &bad)).collect();
    b.signal("CONT");
    for wire in &mut waiting {
        let status = wire.head().status;
        assert!([401, 503].contains(&status), "{status}");
    }
    let heard = rest(&mut stream);
    let later = heard.contains(r#""data":2"#);
    assert!(heard.contains(r#""data":1"#) && !later, "what was sent afterwards is not for it");
    wait_for("it lets others in", || {
        let status = status(&b, &bad);
        assert!([401, 503].contains(&status), "{status}");
        self::status(&b, &good) == 200
    });
    assert!(refusal(&b, &bad).contains("revoked"));
}

#[test]
fn while_nats_is_away_nothing_is_revoked_and_soon_nobody_is_let_in() {
    let Some(mut world) = World::new() else { return };
    let [a] = all(&world);
    let (first, second) = (token("alice", "first"), token("alice", "second"));
    let _stays = listen(&a, &first);
    world.nats.kill();
    // Its lease goes on for a while.
    assert_eq!(status(&a, &second), 200);
    let refused = a.api.post("/tokens/revoke", &json!({ "jti": "first" })).problem(503);
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("Nothing was revoked") && detail.contains("again"), "{detail}");
    wait_for("nobody is let in", || status(&a, &second) == 503);
    // Who is in stays in.
    a.wait_online("alice", 1);
    world.nats.restart();
    wait_for("it lets clients in", || status(&a, &second) == 200);
    revoke(&a, &json!({ "jti": "first" }));
    assert!(refusal(&a, &first).contains("revoked"));
}

/// What NATS has lost, and what a server knew before it was one of many, comes from the nodes.
#[test]
fn what_nats_does_not_know_it_learns_from_the_nodes() {
    let Some(mut world) = World::new() else { return };
    let (old, new) = (token("alice", "old"), token("alice", "new"));
    let key = format!("--token-key={TOKEN_SECRET}");
    let alone = Server::start_in(&world.store("n1"), &[&key]);
    revoke(&alone, &json!({ "jti": "old" }));
    assert_eq!(alone.stop("TERM").code(), Some(0));
    let a = guarded(&world, "n1");
    let (store, older) = (world.nats.store(), world.stores.path().join("older"));
    world.nats.kill();
    copy(&store, &older);
    world.nats.restart();
    wait_ready(&[&a]);
    revoke(&a, &json!({ "jti": "new" }));
    let b = guarded(&world, "n2");
    assert!(refusal(&b, &old).contains("revoked") && refusal(&b, &new).contains("revoked"));
    world.nats.kill();
    fs::remove_dir_all(&store).unwrap();
    copy(&older, &store);
    world.nats.restart();
    wait_for("another epoch begins", || cluster_stats(&a)["epoch"] == 2);
    wait_for("it lets clients in", || status(&a, &token("alice", "x")) == 200);
    let c = guarded(&world, "n3");
    assert!(refusal(&c, &old).contains("revoked") && refusal(&c, &new).contains("revoked"));
}
