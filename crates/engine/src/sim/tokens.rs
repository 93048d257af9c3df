//! One shard whose streams need tokens: who is let in, as whom, and until when.
//!
//! A token is written out here, `sub=bob;ids=news,room:*;ms=5000`, and is what it says. With `late`
//! in it, it cannot be judged within a turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use hub::{DisconnectReason, Grant, TokenRefusal};

use super::one::One;
use super::random::Random;
use super::server::{Place, config};
use super::talk::{client_frame, server_texts};
use crate::config::EngineConfig;
use crate::limits::VERDICT_TIMEOUT_MS;
use crate::tokens::{Granted, Outcome, Revocation, TokenCheck, TokenConfig};

#[derive(Debug)]
struct ByWord;

impl TokenCheck for ByWord {
    fn check(&self, token: &str) -> Option<Outcome> {
        (!token.contains("late")).then(|| judge(token))
    }
}

fn judge(token: &str) -> Outcome {
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
            "ms" => remaining_ms = Some(value.parse().unwrap()),
            _ => {
                let (prefixes, ids): (Vec<&str>, Vec<&str>) =
                    value.split(',').partition(|id| id.ends_with('*'));
                grant.prefixes =
                    prefixes.iter().map(|id| id.trim_end_matches('*').into()).collect();
                let mut ids: Vec<Box<str>> = ids.into_iter().map(Into::into).collect();
                ids.sort();
                grant.ids = ids.into();
            }
        }
    }
    Ok(Granted { grant: Arc::new(grant), remaining_ms })
}

fn guarded() -> One {
    let check = Arc::new(ByWord);
    let tokens = TokenConfig { check, cookie: "encke_token".into() };
    let one = One::start(EngineConfig { tokens: Some(tokens), ..config() });
    // This thread takes the questions, when a test says so.
    one.server.token_desk.set_judge(std::thread::current());
    one
}

fn request(target: &str, token: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n")
}

fn websocket(target: &str, token: &str) -> String {
    let before = if target.contains('?') { '&' } else { '?' };
    format!(
        "GET {target}{before}token={token} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}

impl One {
    /// Answers the questions that are still wanted, and has the worker take the answers.
    fn judge_all(&mut self) -> usize {
        let mut judged = 0;
        while let Some(question) = self.server.token_desk.take() {
            if question.is_wanted() {
                let outcome = judge(question.token().text());
                self.server.token_desk.post_verdict(question.conn(), outcome).unwrap();
                judged += 1;
            }
        }
        while self.turn_after(1) {}
        judged
    }

    /// What a WebSocket says to a command, without its head or what came before.
    fn says(&mut self, client: Place, command: &str) -> String {
        self.wire(client).client_reads(usize::MAX);
        self.say(client, &client_frame(0x81, command.as_bytes()));
        self.texts(client)
    }

    fn texts(&mut self, client: Place) -> String {
        let read = self.wire(client).client_reads(usize::MAX);
        server_texts(&read).join("\n")
    }
}

/// The status of an answer.
fn status(answer: &str) -> &str {
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
        assert_eq!(one.judge_all(), 1);
        assert_eq!(status(&one.reads(client)), answered, "{says}");
    }
}

/// What comes behind the request that waits is read after it, each with its own token.
#[test]
fn pipelined_polls_are_judged_one_by_one() {
    let mut one = guarded();
    let poll = |token| request("/poll/bob?wait=0&after=0000000000000000", token);
    let says = [poll("late;sub=bob"), poll("sub=bob"), poll("late;sub=bob"), poll("late;bad")];
    let client = one.client(1 << 20, &says.concat());
    let mut answers = String::new();
    for _ in 0..12 {
        one.judge_all();
        one.answer(&hub::Nobody);
        one.turn_after(1);
        answers += &one.reads(client);
    }
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 3, "{answers}");
    assert_eq!(answers.matches("HTTP/1.1 401").count(), 1, "{answers}");
}

#[test]
fn request_is_refused_when_nobody_judges_its_token_in_time() {
    let mut one = guarded();
    let client = one.client(1 << 20, &request("/stream/bob", "late;sub=bob"));
    one.turn_after(VERDICT_TIMEOUT_MS - 1_000);
    assert_eq!(one.reads(client), "");
    one.turn_after(1_200);
    assert_eq!(status(&one.reads(client)), "503");
    assert_eq!(one.judge_all(), 0, "nobody wants it any more");
    one.turn_after(100);
    one.wire(client).client_ends();
    one.server.end();
    one.server.check_nothing_is_left();
}

#[test]
fn client_that_leaves_wants_no_verdict() {
    let mut one = guarded();
    let gone = one.client(1 << 20, &request("/stream/bob", "late;sub=bob"));
    one.wire(gone).client_resets();
    one.server.report_one(gone);
    // Who has its slot now is somebody else.
    let other = one.client(1 << 20, &request("/stream/alice", "late;sub=alice"));
    assert_eq!(one.judge_all(), 1);
    assert_eq!(status(&one.reads(other)), "200");
}

#[test]
fn stream_ends_with_its_token_and_says_why() {
    let mut one = guarded();
    let stream = one.client(1 << 20, &request("/stream/bob", "sub=bob;ms=5000"));
    let socket = one.client(1 << 20, &websocket("/stream/bob", "sub=bob;ms=5000"));
    let for_ever = one.client(1 << 20, &request("/stream/bob", "sub=bob"));
    let poll = one.client(1 << 20, &request("/poll/bob?wait=25", "sub=bob;ms=5000"));
    one.answer(&hub::Nobody);
    one.turn_after(4_800);
    for client in [stream, socket, for_ever, poll] {
        one.wire(client).client_reads(usize::MAX);
    }
    let ended = |one: &One, client| one.wire(client).server_ended;
    assert!(!ended(&one, stream) && !ended(&one, socket));
    one.turn_after(400);
    assert!(one.reads(stream).ends_with("0\r\n\r\n") && ended(&one, stream));
    // 3000, as IANA's registry has it.
    let close = one.wire(socket).client_reads(usize::MAX);
    assert_eq!(close, [&[0x88, 15, 0x0b, 0xb8], &b"token_expired"[..]].concat());
    assert!(!ended(&one, for_ever));
    assert_eq!(status(&one.reads(poll)), "200", "it is answered, and asks with another token");
    let expired = one.server.figures().closed[DisconnectReason::TokenExpired as usize];
    one.wire(stream).client_ends();
    one.wire(socket).client_ends();
    one.turn_after(100);
    assert_eq!(
        (expired, one.server.figures().closed[DisconnectReason::TokenExpired as usize]),
        (0, 2)
    );
}

#[test]
fn websocket_goes_on_with_another_token() {
    let mut one = guarded();
    let client = one.client(1 << 20, &websocket("/stream/bob?id=news", "sub=bob;ids=news;ms=5000"));
    let again = |token: &str| format!("{{\"token\":\"{token}\"}}");
    for (token, answered) in [
        ("sub=alice;ids=news,bob", "another subject"),
        ("sub=bob", "does not grant the id news"),
        ("sub=bob;ids=news;most=1", "at most 1 ids"),
        ("bad", "its signature is wrong"),
    ] {
        let answer = one.says(client, &again(token));
        assert!(answer.contains(answered), "{token} {answer}");
        assert!(answer.ends_with("},\"token\":true}"), "it says what it answers: {answer}");
    }
    one.turn_after(3_000);
    assert_eq!(one.says(client, &again("sub=bob;ids=news;ms=9000")), r#"{"ok":{"token":true}}"#);
    one.turn_after(6_000);
    assert!(!one.wire(client).server_ended);
    assert_eq!(one.says(client, &again("late;sub=bob;ids=news;ms=9000")), "");
    assert!(one.says(client, &again("sub=bob;ids=news")).contains("still being looked at"));
    one.judge_all();
    assert_eq!(one.texts(client), r#"{"ok":{"token":true}}"#);
    assert_eq!(one.says(client, &again("late;bad")), "");
    one.judge_all();
    assert!(one.texts(client).ends_with("},\"token\":true}"));
    one.turn_after(6_000);
    assert!(!one.wire(client).server_ended);
    one.turn_after(3_200);
    assert!(one.wire(client).server_ended);
}

#[test]
fn revoked_tokens_end_their_streams_and_no_others() {
    let mut one = guarded();
    let tokens = ["sub=bob;jti=t1;iat=10", "sub=bob;jti=t2;iat=20", "sub=bob", "sub=eve;jti=t3"];
    let clients = tokens.map(|token| one.client(1 << 20, &request("/stream", token)));
    let mut ended_after = |revocation| {
        assert!(one.server.token_desk.revoke(&revocation));
        while one.turn_after(1) {}
        clients.map(|client| one.wire(client).server_ended)
    };
    let bob = |before| Revocation::Subject { subject: "bob".into(), before };
    assert_eq!(
        ended_after(bob(10)),
        [false, false, true, false],
        "it does not say when it was made"
    );
    assert_eq!(ended_after(bob(11)), [true, false, true, false]);
    assert_eq!(ended_after(Revocation::Token("t3".into())), [true, false, true, true]);
    assert_eq!(ended_after(Revocation::Token("t9".into())), [true, false, true, true]);
}

/// A connection without a token is not taken for the one that had its slot before.
#[test]
fn revoked_token_is_forgotten_with_its_stream() {
    let mut one = guarded();
    let gone = one.client(1 << 20, &request("/stream/bob", "sub=bob;jti=t1"));
    one.wire(gone).client_resets();
    one.server.report_one(gone);
    let next = one.client(1 << 20, "GET /stream/b");
    assert_eq!(next.key.slot, gone.key.slot);
    assert!(one.server.token_desk.revoke(&Revocation::Token("t1".into())));
    while one.turn_after(1) {}
    one.say(next, &request("ob", "sub=bob;jti=t2").as_bytes()["GET ".len()..]);
    assert_eq!(status(&one.reads(next)), "200");
}

#[test]
fn token_is_good_for_so_many_connections() {
    let mut one = guarded();
    let says = request("/stream/bob", "sub=bob;jti=t1;uses=2");
    let clients = [0; 3].map(|_| one.client(1 << 20, &says));
    let answers = clients.map(|client| one.reads(client));
    assert_eq!(answers.each_ref().map(|answer| status(answer)), ["200", "200", "429"]);
    assert_eq!(one.server.token_desk.tokens_in_use(), 1);
    one.wire(clients[0]).client_resets();
    one.server.report_one(clients[0]);
    let next = one.client(1 << 20, &says);
    assert_eq!(status(&one.reads(next)), "200");
    // A poll uses it as long as it waits.
    let poll = one.client(1 << 20, &request("/poll/eve", "sub=eve;uses=1"));
    let other = one.client(1 << 20, &request("/poll/eve", "sub=eve;uses=1"));
    assert_eq!(
        (one.reads(poll), status(&one.reads(other)).to_owned()),
        (String::new(), "429".into())
    );
    one.answer(&hub::Nobody);
    one.send("eve", "1");
    one.turn_after(1);
    assert_eq!(status(&one.reads(poll)), "200");
    one.say(poll, request("/poll/eve", "sub=eve;uses=1").as_bytes());
    assert_eq!(one.reads(poll), "");
}

/// Hundreds who come, wait, are let in, say that they are others, renew, reset and are revoked: all
/// hear of whom they may, and nothing is left of them.
#[test]
fn crowd_hears_what_its_tokens_grant_and_leaves_nothing() {
    super::each_seed("crowd_hears_what_its_tokens_grant", 40, |seed| {
        let mut random = Random::new(seed);
        let mut one = guarded();
        one.server.set_work_per_turn([400, 10_000][random.below(2)]);
        let mut clients: BTreeMap<usize, (Place, usize)> = BTreeMap::new();
        for step in 0..600 {
            let who = random.below(12);
            let late = ["", "late;"][random.below(2)];
            let uses = ["", ";uses=2"][random.below(2)];
            let ms = ["", ";ms=700"][random.below(2)];
            let token = format!("{late}sub={who}{uses}{ms};jti=t{who}");
            let asks = if random.below(4) == 0 { random.below(12) } else { who };
            match random.below(8) {
                0..=2 => {
                    let says = match random.below(3) {
                        0 => request(&format!("/stream/{asks}"), &token),
                        1 => request(&format!("/poll/{asks}?wait=1"), &token).repeat(2),
                        _ => websocket(&format!("/stream/{asks}"), &token),
                    };
                    clients.insert(step, (one.client(4_000, &says), who));
                }
                3 => drop(one.judge_all()),
                4 => {
                    for about in 0..12 {
                        one.send(&about.to_string(), "1");
                    }
                    one.answer(&hub::Nobody);
                }
                5 => {
                    let text = format!("t{who}");
                    assert!(one.server.token_desk.revoke(&Revocation::Token(text.into())));
                }
                6 => {
                    let Some((_, (client, who))) = clients.pop_first() else { continue };
                    hears_only(&one.wire(client).client_reads(usize::MAX), who);
                    one.wire(client).client_resets();
                    one.server.report_one(client);
                }
                _ => {
                    if let Some((client, who)) = clients.values().next().copied() {
                        let other = random.below(12);
                        let says = format!("{{\"login\":[\"{other}\"]}}");
                        one.say(client, &client_frame(0x81, says.as_bytes()));
                        let says = format!("{{\"token\":\"late;sub={who};ms=700\"}}");
                        one.say(client, &client_frame(0x81, says.as_bytes()));
                    }
                }
            }
            one.turn_after(random.below(300) as u64);
        }
        for (client, who) in clients.into_values() {
            hears_only(&one.wire(client).client_reads(usize::MAX), who);
            one.wire(client).client_resets();
        }
        one.judge_all();
        one.server.end();
        one.server.check_nothing_is_left();
        assert_eq!(one.server.token_desk.tokens_in_use(), 0);
    });
}

/// Whatever else came, no event is about another.
fn hears_only(bytes: &[u8], who: usize) {
    let text = String::from_utf8_lossy(bytes);
    for about in text.split("\"about\":\"").skip(1) {
        let about = about.split('"').next().unwrap_or_default();
        assert_eq!(about, who.to_string(), "{text}");
    }
}
