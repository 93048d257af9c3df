//! Tokens of streams: who is let in, as whom, until when, and what it tells those who are not.

use std::path::Path;

use serde_json::{Value, json};
use tungstenite::protocol::frame::coding::CloseCode;

use crate::harness::{
    Head, Program, Server, Signer, Socket, TOKEN_SECRET, Wire, check_problem, encke, get,
    in_seconds, read_answer, signed, token_for, wait_for,
};

/// A server whose streams need tokens, signed with a secret that everybody knows.
pub(crate) fn guarded() -> Server {
    Server::start(&[&format!("--token-key={TOKEN_SECRET}")])
}

fn guarded_in(data: &Path) -> Server {
    Server::start_in(data, &[&format!("--token-key={TOKEN_SECRET}")])
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

fn head(server: &Server, path: &str, fields: &[&str]) -> Head {
    server.ask(get(path, fields)).head()
}

fn status(server: &Server, path: &str, token: &str) -> u16 {
    head(server, path, &[&bearer(token)]).status
}

/// A stream of NDJSON that is let in.
fn listen(server: &Server, path: &str, token: &str) -> Wire {
    let mut wire = server.ask(get(path, &[&bearer(token)]));
    let head = wire.head();
    assert_eq!(head.status, 200, "{}", head.text);
    wire
}

#[test]
fn token_opens_what_it_grants_in_every_transport() {
    let server = guarded();
    let ids = json!(["news", "room:*"]);
    let token = signed(&json!({ "sub": "bob", "exp": in_seconds(60), "encke": { "ids": ids } }));
    let (upgrade, poll) = (&Socket::FIELDS, "/poll/bob?wait=0");
    let websocket = |path: &str| {
        let fields: Vec<&str> = upgrade.to_vec();
        head(&server, path, &[&fields[..], &[&bearer(&token)]].concat()).status
    };
    for path in ["/stream/bob", "/stream", "/stream?id=room:7", "/test/news", poll] {
        assert_eq!(status(&server, path, &token), 200, "{path}");
    }
    for path in ["/stream/alice", "/stream?id=alice", "/test?id=alice", "/poll/bob?id=alice"] {
        assert_eq!(status(&server, path, &token), 403, "{path}");
    }
    assert_eq!((websocket("/stream/bob"), websocket("/stream/alice")), (101, 403));
    // What is let in is heard; those above are gone first.
    server.wait_open(0);
    let mut stream = listen(&server, "/stream", &token);
    assert_eq!(server.api.send("bob", 1), 1);
    let line = String::from_utf8(stream.chunk().unwrap()).unwrap();
    assert!(line.contains(r#""about":"bob""#), "{line}");
    assert_eq!(server.api.send("alice", 1), 0);
}

#[test]
fn token_is_taken_from_each_place_that_a_client_has() {
    let server = guarded();
    let token = token_for("bob");
    let own = format!("Origin: {}", server.url());
    let host = format!("Host: {}", server.listen());
    let of_page = |fields: &[&str]| {
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        server.ask(format!("GET /stream/bob HTTP/1.1\r\n{host}\r\n{fields}\r\n")).head()
    };
    assert_eq!(head(&server, &format!("/stream/bob?token={token}"), &[]).status, 200);
    let cookie = format!("Cookie: theme=dark; encke_token={token}");
    let answered = of_page(&[&own, &cookie]);
    assert_eq!(answered.status, 200);
    assert_eq!(answered.field("access-control-allow-credentials"), Some("true"));
    assert_eq!(of_page(&[&cookie, "Sec-Fetch-Site: cross-site"]).status, 401);
    assert_eq!(of_page(&[&cookie, "Origin: https://evil.test"]).status, 403);
    // A browser's WebSocket may set nothing but its sub-protocols.
    let offer = format!("Sec-WebSocket-Protocol: encke, encke.bearer.{token}");
    let answered = head(&server, "/stream/bob", &[&Socket::FIELDS[..], &[&offer]].concat());
    assert_eq!((answered.status, answered.field("sec-websocket-protocol")), (101, Some("encke")));
    let both = head(&server, &format!("/stream/bob?token={token}"), &[&bearer(&token)]);
    assert_eq!(both.status, 400);
}

#[test]
fn refusal_says_what_to_do() {
    let server = guarded();
    let good = json!({ "sub": "bob", "exp": in_seconds(60) });
    let (late, endless) =
        (json!({ "sub": "bob", "exp": in_seconds(-60) }), json!({ "sub": "bob" }));
    let foreign = Signer::new("other").signed(&good);
    for (token, says) in [
        (signed(&late), "it has expired"),
        (signed(&endless), "it has no expiry"),
        (foreign, "algorithm"),
        ("x".into(), "not a JSON Web Token"),
        (signed(&good).replace('.', ".e"), "refused"),
    ] {
        let answer =
            read_answer(&mut server.ask(get("/stream/bob", &[&bearer(&token)])), "GET").unwrap();
        check_problem(&answer.json(), 401);
        assert!(answer.body.contains(says), "{says}: {}", answer.body);
        assert!(!answer.body.contains(&token) || token == "x");
    }
    let mut wire = server.ask(get("/stream/bob", &[]));
    let head = wire.head();
    assert_eq!((head.status, head.field("www-authenticate")), (401, Some("Bearer")));
    let stats = server.api.stats();
    let refusals = &stats["tokens"]["refusals"];
    assert_eq!((&refusals["missing"], &refusals["expired"]), (&json!(1), &json!(1)), "{refusals}");
}

/// The key's type says which algorithm it is for, and a signature waits for its turn.
#[test]
fn signatures_are_verified_beside_the_workers() {
    let dir = tempfile::tempdir().unwrap();
    let (signer, path) = (Signer::new("k1"), dir.path().join("key.pem"));
    signer.write_pem(&path);
    let server = Server::start(&[&format!("--token-key={}", path.display())]);
    let claims = json!({ "sub": "bob", "exp": in_seconds(60) });
    let token = signer.signed(&claims);
    for _ in 0..3 {
        assert_eq!(status(&server, "/stream", &token), 200);
    }
    assert_eq!(status(&server, "/stream/alice", &token), 403);
    assert_eq!(status(&server, "/stream", &Signer::new("k1").signed(&claims)), 401);
    assert_eq!(status(&server, "/stream", &signed(&claims)), 401, "a secret is none of its keys");
    assert_eq!(server.api.stats()["tokens"]["remembered"], 1);
}

#[test]
fn set_of_keys_changes_while_the_server_runs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jwks.json");
    let write = |signers: &[&Signer]| {
        let keys: Vec<Value> = signers.iter().map(|signer| signer.jwk()).collect();
        std::fs::write(dir.path().join("new"), json!({ "keys": keys }).to_string()).unwrap();
        std::fs::rename(dir.path().join("new"), &path).unwrap();
    };
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    write(&[&old]);
    let server = Server::start(&[&format!("--token-jwks={}", path.display())]);
    let claims = json!({ "sub": "bob", "exp": in_seconds(600) });
    let (by_old, by_new) = (old.signed(&claims), new.signed(&claims));
    let held = listen(&server, "/stream", &by_old);
    assert_eq!(status(&server, "/stream", &by_new), 401);
    write(&[&new]);
    wait_for("the new key is known", || status(&server, "/stream", &by_new) == 200);
    assert_eq!(status(&server, "/stream", &by_old), 401, "its key is gone");
    // A file that is none leaves what is known.
    std::fs::write(&path, "none").unwrap();
    wait_for("it was looked at", || {
        server.api.stats()["tokens"]["jwks_failures"].as_u64().unwrap() > 0
    });
    assert_eq!(status(&server, "/stream", &by_new), 200);
    assert!(held.is_open(), "who is in stays in");
}

/// A key that is rotated by a file, taken back, and one that cannot be used.
#[test]
fn key_files_change_while_the_server_runs_and_streams_stay() {
    let dir = tempfile::tempdir().unwrap();
    let [first, second] = ["first.pem", "second.pem"].map(|name| dir.path().join(name));
    let (old, new, other) = (Signer::new("old"), Signer::new("new"), Signer::new("other"));
    let replace = |signer: &Signer, path: &Path| {
        let aside = dir.path().join("aside");
        signer.write_pem(&aside);
        std::fs::rename(aside, path).unwrap();
    };
    replace(&old, &first);
    replace(&other, &second);
    let options = [&first, &second].map(|path| format!("--token-key={}", path.display()));
    let server = Server::start(&[&options[0], &options[1]]);
    let claims = json!({ "sub": "bob", "exp": in_seconds(600) });
    let [by_old, by_new, by_other] = [&old, &new, &other].map(|signer| signer.signed(&claims));
    let statuses = || [&by_old, &by_new, &by_other].map(|token| status(&server, "/stream", token));
    let mut held = listen(&server, "/stream", &by_old);
    let mut socket = Socket::open(server.listen(), &format!("/stream?token={by_old}"));
    let reloads = |outcome: &str| {
        let name = format!("encke_token_key_reloads_total{{outcome=\"{outcome}\"}} ");
        super::tls_api::metric(&server, &name)
    };
    assert_eq!(statuses(), [200, 401, 200]);
    replace(&new, &first);
    wait_for("the new key is known", || status(&server, "/stream", &by_new) == 200);
    assert_eq!(statuses(), [401, 200, 200], "a key that is gone is good no more");
    wait_for("both files are counted", || (reloads("ok"), reloads("failed")) == (2, 0));
    // What cannot be used is refused, and hinders no other file.
    std::fs::write(&second, "short").unwrap();
    wait_for("it is refused", || reloads("failed") == 1);
    assert!(server.stderr().contains("second.pem"), "{}", server.stderr());
    assert!(!server.stderr().contains("short\n"));
    assert_eq!(statuses(), [401, 200, 200]);
    replace(&old, &first);
    server.signal("HUP");
    wait_for("it is read at once", || status(&server, "/stream", &by_old) == 200);
    assert_eq!(statuses(), [200, 401, 200]);
    assert!(held.is_open(), "who is in stays in");
    // Each sees the place, then the event.
    assert!(server.api.send("bob", "all the while") >= 2);
    let line = String::from_utf8(held.chunk().unwrap()).unwrap();
    assert!(line.contains("all the while"), "{line}");
    assert_eq!(socket.data(), "all the while");
    // To go on it takes a token that is good now.
    let answer = socket.ask(json!({ "token": by_new }));
    check_problem(&answer["error"], 401);
}

#[test]
fn streams_end_with_their_token() {
    let server = guarded();
    let token = signed(&json!({ "sub": "bob", "exp": in_seconds(2) }));
    let mut stream = listen(&server, "/stream", &token);
    let mut socket = Socket::open(server.listen(), &format!("/stream?token={token}"));
    assert_eq!(socket.end(), (CloseCode::Iana(3000), "token_expired".into()));
    while !stream.chunk().unwrap().is_empty() {}
    server.wait_closed("token_expired", 2);
    // It is over by now, but for what clocks may differ.
    let over = signed(&json!({ "sub": "bob", "exp": in_seconds(-11) }));
    assert_eq!(status(&server, "/stream", &over), 401);
}

#[test]
fn revoked_token_ends_its_streams_and_stays_revoked() {
    let data = tempfile::tempdir().unwrap();
    let mut server = guarded_in(data.path());
    let claims = |sub: &str, jti: &str, iat: i64| {
        let exp = in_seconds(600);
        json!({ "sub": sub, "jti": jti, "iat": iat, "exp": exp })
    };
    // Between those of the tokens, however long it takes until it is said.
    let before = in_seconds(1);
    let one = signed(&claims("bob", "t1", in_seconds(-100)));
    let two = signed(&claims("bob", "t2", in_seconds(-50)));
    let new = signed(&claims("bob", "t3", in_seconds(5)));
    let mut streams = [&one, &two, &new].map(|token| listen(&server, "/stream", token));
    let revoke = |server: &Server, body: Value| server.api.post("/tokens/revoke", &body).ok();
    assert_eq!(revoke(&server, json!({ "jti": "t1" })), json!({ "revoked": true }));
    while !streams[0].chunk().unwrap().is_empty() {}
    assert_eq!((status(&server, "/stream", &one), status(&server, "/stream", &two)), (401, 200));
    revoke(&server, json!({ "sub": "bob", "before": before }));
    while !streams[1].chunk().unwrap().is_empty() {}
    server.wait_closed("token_revoked", 2);
    assert!(streams[2].is_open(), "it was made later");
    assert_eq!(status(&server, "/stream", &new), 200);
    // Without a time all that there are, also those of a clock that is ahead by the leeway.
    revoke(&server, json!({ "sub": "bob" }));
    while !streams[2].chunk().unwrap().is_empty() {}
    // What was answered is on disk.
    server.signal("KILL");
    drop(server.into_program().finish());
    server = guarded_in(data.path());
    for token in [&one, &two, &new] {
        assert_eq!(status(&server, "/stream", token), 401);
    }
    assert_eq!(server.api.stats()["tokens"]["revocations"], 2);
    let twice = json!({ "jti": "a", "sub": "b" });
    for body in [json!({}), json!({ "jti": "" }), twice, json!({ "sub": "a b" }), json!([1])] {
        check_problem(&server.api.post("/tokens/revoke", &body).json(), 400);
    }
}

#[test]
fn without_a_word_about_it_streams_are_for_this_machine_alone() {
    let data = tempfile::tempdir().unwrap();
    let serve = |options: &[&str]| {
        let data = format!("--data={}", data.path().display());
        let fixed = ["serve", "--listen=0.0.0.0:0", "--api=127.0.0.1:0", "--json", &data];
        encke(fixed.iter().chain(options).copied())
    };
    let refused = Program::run(&mut serve(&[]));
    assert_eq!(refused.code(), Some(1));
    for what in ["--token-key", "--open", "127.0.0.1"] {
        assert!(refused.stderr.contains(what), "{what}: {}", refused.stderr);
    }
    let key = format!("--token-key={TOKEN_SECRET}");
    for option in ["--open", &key] {
        let server = Server::of(Program::spawn(&mut serve(&[option])));
        let expected = if option == "--open" { 200 } else { 401 };
        assert_eq!(head(&server, "/stream/bob", &[]).status, expected, "{option}");
    }
    let both = Program::run(&mut serve(&["--open", &key]));
    assert_ne!(both.code(), Some(0), "{}", both.stderr);
    let printed = data.path().join("printed");
    std::fs::write(&printed, "your-super-secret-jwt-token-with-at-least-32-characters-long\n")
        .unwrap();
    let printed = format!("--token-key={}", printed.display());
    let known = Program::run(&mut serve(&[&printed]));
    assert_eq!(known.code(), Some(1));
    assert!(known.stderr.contains("everybody knows its secret"), "{}", known.stderr);
    let here = ["serve", "--listen=127.0.0.1:0", "--api=127.0.0.1:0", "--json", &printed];
    let server = Server::of(Program::spawn(encke(here).arg("--data").arg(data.path())));
    assert_eq!(head(&server, "/stream/bob", &[]).status, 401, "for this machine it will do");
}

#[test]
fn no_token_is_told_to_anybody() {
    let server = guarded();
    let token = token_for("bob");
    let late = signed(&json!({ "sub": "bob", "exp": in_seconds(-60) }));
    let mut told = String::new();
    for token in [&token, &late] {
        let signature = token.rsplit('.').next().unwrap();
        let forged = token.replace(signature, &signature.to_ascii_lowercase());
        for token in [token, &forged] {
            told += &head(&server, &format!("/stream/bob?token={token}"), &[]).text;
            told += &head(&server, "/stream/alice", &[&bearer(token)]).text;
        }
    }
    told += &server.api.get("/metrics").body;
    told += &server.api.stats().to_string();
    let ended = server.stop("TERM");
    told += &ended.stderr;
    told += &ended.stdout;
    for token in [token, late] {
        for part in token.split('.').skip(1) {
            assert!(!told.contains(part), "{part}");
        }
    }
}

/// The dashboard listens by a token of the server's own.
#[test]
fn dashboard_hears_its_figures() {
    let server = guarded();
    let facts = server.api.get("/dashboard.json").ok();
    let (id, token) = (facts["id"].as_str().unwrap(), facts["token"].as_str().unwrap());
    let mut stream = listen(&server, &format!("/stream/{id}"), token);
    assert!(!stream.chunk().unwrap().is_empty());
    assert_eq!(status(&server, "/stream/bob", token), 403);
}
