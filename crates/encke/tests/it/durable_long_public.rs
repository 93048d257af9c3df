//! Requests of unknown length by those who may append: clients of the public port append at their
//! rate, and a request ends with the token or the key that it came with.

use serde_json::json;

use crate::durable_long::{
    CLOSED, LAST, PATH, answer, begin, chunk, create, next, tail, text, wait_text,
};
use crate::harness::{Server, TOKEN_SECRET, Wire, in_seconds, signed, wait_for};
use crate::keys;
use crate::upgrade::Upgraded;

/// A server whose clients append by tokens.
fn guarded(options: &[&str]) -> Vec<String> {
    let key = format!("--token-key={TOKEN_SECRET}");
    [&["--streams", &key], options].concat().into_iter().map(str::to_owned).collect()
}

fn bearer(expires: i64) -> String {
    let encke = json!({ "write": ["run/*"] });
    let token = signed(&json!({ "sub": "bob", "jti": "1", "exp": expires, "encke": encke }));
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn client_of_the_public_port_appends_at_its_rate() {
    let options = guarded(&["--client-send-rate=5", "--client-payload=100"]);
    let server = Server::start(&options.iter().map(String::as_str).collect::<Vec<_>>());
    create(&server.api);
    let bearer = bearer(in_seconds(600));
    let mut writer = begin(server.listen(), &format!("{bearer}{CLOSED}"));
    // More appends than it may make at once, of which none is longer than it may be.
    let piece = "0123456789".repeat(10);
    let all = piece.repeat(15);
    writer.send([&chunk(&all), LAST].concat());
    let answer = answer(&mut writer);
    assert_eq!((answer.status(), answer.head.field("stream-closed")), (204, Some("true")));
    assert_eq!(text(&server.api), all);
    let first = server.api.get(PATH);
    assert_eq!(next(&first), next(&answer));
}

#[test]
fn request_ends_with_its_token() {
    let options = guarded(&["--client-send-rate=0"]);
    let server = Upgraded::serve(&options.iter().map(String::as_str).collect::<Vec<_>>());
    create(&server.api);
    let started = |expires: i64, before: &str| {
        let mut writer = begin(server.listen(), &bearer(expires));
        writer.send(chunk("a"));
        let place = wait_text(&server.api.another(), &format!("{before}a"));
        (place, writer)
    };
    let refused = |writer: &mut Wire, status: u16, place: &str| {
        let answer = answer(writer);
        answer.problem(status);
        assert_eq!(next(&answer), place);
    };
    // The time of a token that is over soon is over while it writes.
    let (_, mut writer) = started(in_seconds(2), "");
    wait_for("it is refused", || writer.try_send(chunk("b")).is_err() || !writer.is_open());
    let ended = answer(&mut writer);
    ended.problem(401);
    let had = text(&server.api);
    assert_eq!(next(&ended), tail(&server.api));
    // The successor does not know who was let in.
    let (place, mut writer) = started(in_seconds(600), &had);
    server.upgrade(&[]);
    writer.send(chunk("b"));
    refused(&mut writer, 503, &place);
    let (place, mut writer) = started(in_seconds(600), &format!("{had}a"));
    server.api.another().post("/tokens/revoke", &json!({ "jti": "1" })).ok();
    writer.send(chunk("b"));
    refused(&mut writer, 401, &place);
}

#[test]
fn key_that_is_revoked_ends_its_request() {
    let (server, data) = keys::server(&["--streams"]);
    let key = keys::new_key(data.path(), &["--scope=send,read"]);
    let other = keys::new_key(data.path(), &["--scope=send,read"]);
    create(&server.api.with_key(&other));
    let mut writer = begin(server.api.address(), &format!("Authorization: Bearer {key}\r\n"));
    writer.send(chunk("one"));
    let place = wait_text(&server.api.with_key(&other), "one");
    keys::revoke(data.path(), &key);
    writer.send(chunk("two"));
    let refused = answer(&mut writer);
    refused.problem(401);
    assert_eq!(next(&refused), place);
}

#[test]
fn token_that_ends_in_between_neither_begins_nor_closes() {
    let options = guarded(&["--client-send-rate=0"]);
    let server = Server::start(&options.iter().map(String::as_str).collect::<Vec<_>>());
    create(&server.api);
    let fields = format!("{}Expect: 100-continue\r\n{CLOSED}", bearer(in_seconds(600)));
    let begin = || {
        let mut writer = begin(server.listen(), &fields);
        // It was let in, and its body is waited for.
        assert_eq!(writer.head().status, 100);
        writer
    };
    let (mut silent, mut closing) = (begin(), begin());
    closing.send(chunk("a"));
    let place = wait_text(&server.api, "a");
    server.api.post("/tokens/revoke", &json!({ "jti": "1" })).ok();
    silent.send([&chunk("b"), LAST].concat());
    answer(&mut silent).problem(401);
    closing.send(LAST);
    let refused = answer(&mut closing);
    assert_eq!(next(&refused), place);
    refused.problem(401);
    let head = server.api.request("HEAD", PATH, None, b"").unwrap();
    assert_eq!((head.head.field("stream-closed"), next(&head)), (None, place));
}
