//! One shard whose streams need tokens: who is let in, as whom, and until when.
//!
//! A token is written out here, `sub=bob;ids=news,room:*;ms=5000`, and is what it says. With `late`
//! in it, it cannot be verified within a turn.

use std::sync::Arc;

use hub::{Grant, TokenRefusal};
use proto::request::tokens_of;

use super::one::One;
use super::server::{Place, config, silent_config};
use super::talk::{client_frame, server_texts};
use crate::config::EngineConfig;
use crate::limits::TOKEN_TIMEOUT_MS;
use crate::tokens::{Granted, Outcome, TokenCheck, TokenConfig};

#[derive(Debug)]
struct ByWord;

impl TokenCheck for ByWord {
    fn check(&self, shown: &str) -> Option<Outcome> {
        let outcomes = || tokens_of(shown).map(verify);
        let first_good = || outcomes().find(Result::is_ok).or_else(|| outcomes().next());
        if shown.contains("late") { None } else { first_good() }
    }
}

pub(super) fn verify(token: &str) -> Outcome {
    if token.contains("bad") {
        return Err(TokenRefusal::Signature);
    }
    let mut grant = Grant::default();
    let mut remaining_ms = None;
    for (name, value) in token.split(';').filter_map(|part| part.split_once('=')) {
        match name {
            "sub" => grant.subject = Some(value.into()),
            "jti" => grant.token = Some(value.into()),
            "iat" => grant.issued = Some(value.parse().unwrap()),
            "uses" => grant.connections_max = Some(value.parse().unwrap()),
            "most" => grant.ids_max = Some(value.parse().unwrap()),
            "info" => {
                let info = Some(hub::Info::new(value));
                grant.talk.get_or_insert_default().info = info;
            }
            "members" => {
                let ids = hub::IdPatterns::parse(value.split(',').map(Into::into)).unwrap();
                grant.talk.get_or_insert_default().members = ids;
            }
            "history" => {
                let ids = hub::IdPatterns::parse(value.split(',').map(Into::into)).unwrap();
                grant.talk.get_or_insert_default().history = ids;
            }
            "read" | "write" => {
                let paths = hub::IdPatterns::parse_paths(value.split(',').map(Into::into)).unwrap();
                let talk = grant.talk.get_or_insert_default();
                if name == "read" { talk.read = paths } else { talk.write = paths }
            }
            "ms" => remaining_ms = Some(value.parse().unwrap()),
            "send" => {
                let send = hub::IdPatterns::parse(value.split(',').map(Into::into)).unwrap();
                grant.talk = Some(Box::new(hub::TalkGrant { send, ..Default::default() }));
            }
            _ => {
                let ids = value.split(',').map(Into::into);
                grant.ids = hub::IdPatterns::parse(ids).unwrap();
            }
        }
    }
    Ok(Granted { grant: Arc::new(grant), remaining_ms })
}

pub(super) fn guarded() -> One {
    guarded_by(None)
}

/// The same, whose clients speak TLS that is cut by a seed.
pub(super) fn guarded_by(seed: Option<u64>) -> One {
    guarded_of(config(), seed)
}

/// The same, whose streams send no keep-alives.
pub(super) fn silent_guarded() -> One {
    guarded_of(silent_config(), None)
}

pub(super) fn guarded_of(config: EngineConfig, seed: Option<u64>) -> One {
    let check = Arc::new(ByWord);
    let tokens = TokenConfig { check, cookie: "encke_token".into() };
    let config = EngineConfig { tokens: Some(tokens), ..config };
    let one = match seed {
        Some(seed) => One::start_secure(config, seed),
        None => One::start(config),
    };
    // This thread takes the questions, when a test says so.
    one.server.token_queue.set_verifier(std::thread::current());
    one
}

pub(super) fn request(target: &str, token: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n")
}

pub(super) fn websocket(target: &str, token: &str) -> String {
    let before = if target.contains('?') { '&' } else { '?' };
    format!(
        "GET {target}{before}token={token} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}

impl One {
    /// Answers the questions that are still wanted, and has the worker take the answers.
    pub(super) fn verify_all(&mut self) -> usize {
        let mut verified = 0;
        while let Some(question) = self.server.token_queue.take() {
            if question.asker().is_waiting() {
                let outcome = verify(question.token().text());
                self.server.token_queue.post_result(question.asker().conn(), outcome).unwrap();
                verified += 1;
            }
        }
        while self.turn_after(1) {}
        verified
    }

    /// What a WebSocket says to a command, without its head or what came before.
    pub(super) fn says(&mut self, client: Place, command: &str) -> String {
        self.wire(client).client_reads(usize::MAX);
        self.say(client, &client_frame(0x81, command.as_bytes()));
        self.texts(client)
    }

    pub(super) fn texts(&mut self, client: Place) -> String {
        let read = self.wire(client).client_reads(usize::MAX);
        server_texts(&read).join("\n")
    }
}

/// The status of an answer.
pub(super) fn status(answer: &str) -> &str {
    answer.strip_prefix("HTTP/1.1 ").map_or("", |rest| &rest[..3])
}

#[test]
fn request_is_served_for_what_its_token_grants() {
    let mut one = guarded();
    let token = "sub=bob;ids=news,room:*";
    for (says, answered) in [
        ("GET /stream/bob HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), "401"),
        (request("/stream/bob", "bad"), "401"),
        (request("/stream/bob", token), "200"),
        (request("/stream/bob?id=news&id=room:7", token), "200"),
        (request("/stream", token), "200"),
        (request("/stream?id=room:7", token), "200"),
        (request("/test/bob", token), "200"),
        (request("/poll/bob?wait=0", token), "200"),
        (request("/stream/alice", token), "403"),
        (request("/stream/bob?id=alice", token), "403"),
        (request("/test?id=alice", token), "403"),
        (request("/poll/alice", token), "403"),
        (request("/stream", "ids=news"), "400"),
        (websocket("/stream/bob", token), "101"),
        (websocket("/stream/alice", token), "403"),
        (request("/stream/bob?token=sub=bob", token), "400"),
        (request("/stream/bob", token).replace("GET", "HEAD"), "200"),
        (request("/stream/alice", token).replace("GET", "HEAD"), "403"),
    ] {
        let client = one.client(1 << 20, &says);
        one.answer(&hub::Nobody);
        one.turn_after(1);
        let answer = one.reads(client);
        assert_eq!(status(&answer), answered, "{says}{answer}");
    }
    let refused = one.client(1 << 20, "GET /stream/bob HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(one.reads(refused).contains("\r\nWWW-Authenticate: Bearer\r\n"));
}

#[test]
fn cookie_counts_where_no_page_of_others_can_have_sent_it() {
    let mut one = guarded();
    for (lines, answered) in [
        ("", "200"),
        ("Sec-Fetch-Site: same-origin\r\n", "200"),
        ("Sec-Fetch-Site: cross-site\r\n", "401"),
        ("Sec-Fetch-Site: same-site\r\n", "401"),
        ("Origin: http://a\r\n", "200"),
        ("Origin: http://evil\r\n", "403"),
    ] {
        let cookie = format!("{lines}Cookie: x=1; encke_token=sub=bob\r\n");
        let says = format!("GET /stream/bob HTTP/1.1\r\nHost: a\r\n{cookie}\r\n");
        let client = one.client(1 << 20, &says);
        let answer = one.reads(client);
        assert_eq!(status(&answer), answered, "{lines}");
        let may_be_read = answer.contains("Access-Control-Allow-Credentials: true\r\n");
        assert_eq!(may_be_read, lines.starts_with("Origin: http://a\r\n"), "{answer}");
    }
}

/// What a page of the server's own polls for with cookies, it may read.
#[test]
fn poll_with_a_cookie_names_its_page() {
    let mut one = guarded();
    let says = "GET /poll/bob?wait=1 HTTP/1.1\r\nHost: a\r\nOrigin: http://a\r\n\
                Cookie: encke_token=sub=bob\r\n\r\n";
    let client = one.client(1 << 20, says);
    one.answer(&hub::Nobody);
    one.send("bob", "1");
    one.turn_after(1);
    let answer = one.reads(client);
    assert!(answer.contains("Access-Control-Allow-Origin: http://a\r\n"), "{answer}");
    assert!(answer.contains("Access-Control-Allow-Credentials: true\r\n"), "{answer}");
}

#[test]
fn websocket_logs_in_as_what_its_token_grants() {
    let mut one = guarded();
    let client = one.client(1 << 20, &websocket("/stream/bob", "sub=bob;ids=news,room:*;most=3"));
    for (command, answered) in [
        (r#"{"login":["news"]}"#, r#"{"ok":{"login":["news"]}}"#),
        (r#"{"login":["alice"]}"#, r#""status":403"#),
        (r#"{"login":["room:1","alice"]}"#, "alice"),
        (r#"{"login":["room:1","room:2"]}"#, "at most 3 ids"),
        (r#"{"login":["room:1"]}"#, r#"{"ok":{"login":["room:1"]}}"#),
    ] {
        let answer = one.says(client, command);
        assert!(answer.contains(answered), "{command} {answer}");
    }
    for (about, heard) in [("bob", true), ("news", true), ("room:1", true), ("alice", false)] {
        one.send(about, "1");
        one.turn_after(10);
        assert_eq!(!one.texts(client).is_empty(), heard, "{about}");
    }
}

#[test]
fn token_that_is_asked_for_is_waited_for() {
    let mut one = guarded();
    for (says, answered) in [
        (request("/stream/bob", "late;sub=bob"), "200"),
        (request("/stream", "late;sub=bob"), "200"),
        (request("/stream/alice", "late;sub=bob"), "403"),
        (request("/stream/bob", "late;bad"), "401"),
        (request("/test/bob", "late;sub=bob"), "200"),
        (websocket("/stream/bob", "late;sub=bob"), "101"),
    ] {
        let client = one.client(1 << 20, &says);
        one.turn_after(1);
        assert_eq!(one.reads(client), "", "{says}");
        assert_eq!(one.verify_all(), 1);
        assert_eq!(status(&one.reads(client)), answered, "{says}");
    }
}

/// What comes behind the request that waits is read after it, each with its own token.
#[test]
fn pipelined_polls_are_verified_one_by_one() {
    let mut one = guarded();
    let poll = |token| request("/poll/bob?wait=0&after=0000000000000000", token);
    let says = [poll("late;sub=bob"), poll("sub=bob"), poll("late;sub=bob"), poll("late;bad")];
    let client = one.client(1 << 20, &says.concat());
    let mut answers = String::new();
    for _ in 0..12 {
        one.verify_all();
        one.answer(&hub::Nobody);
        one.turn_after(1);
        answers += &one.reads(client);
    }
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 3, "{answers}");
    assert_eq!(answers.matches("HTTP/1.1 401").count(), 1, "{answers}");
}

#[test]
fn request_is_refused_when_nobody_verifies_its_token_in_time() {
    let mut one = guarded();
    let client = one.client(1 << 20, &request("/stream/bob", "late;sub=bob"));
    one.turn_after(TOKEN_TIMEOUT_MS - 1_000);
    assert_eq!(one.reads(client), "");
    one.turn_after(1_200);
    assert_eq!(status(&one.reads(client)), "503");
    assert_eq!(one.verify_all(), 0, "nobody wants it any more");
    one.turn_after(100);
    one.wire(client).client_ends();
    one.server.end();
    one.server.check_nothing_is_left();
}

#[test]
fn client_that_leaves_wants_no_result() {
    let mut one = guarded();
    let gone = one.client(1 << 20, &request("/stream/bob", "late;sub=bob"));
    one.wire(gone).client_resets();
    one.server.report_one(gone);
    // Who has its slot now is somebody else.
    let other = one.client(1 << 20, &request("/stream/alice", "late;sub=alice"));
    assert_eq!(one.verify_all(), 1);
    assert_eq!(status(&one.reads(other)), "200");
}

/// As many as a request shows are verified, and each costs its part of the turn.
#[test]
fn each_token_in_cookies_is_paid_for() {
    let answered = |tokens: usize| {
        let mut one = guarded();
        let bad = "Cookie: encke_token=bad\r\n".repeat(tokens - 1);
        let poll = format!(
            "GET /poll/bob?after=0000000000000000 HTTP/1.1\r\nHost: a\r\n{bad}\
             Cookie: encke_token=sub=bob\r\n\r\n"
        );
        let client = one.client(1 << 20, &poll.repeat(100));
        one.reads(client).matches("HTTP/1.1 200").count()
    };
    let [of_one, of_four] = [1, 4].map(answered);
    assert!((1..of_one).contains(&of_four), "{of_one} and {of_four} in a turn");
}
