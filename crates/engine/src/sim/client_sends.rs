//! One shard whose clients send: by messages of a WebSocket, and by requests. Here the control
//! plane answers each with its number, in the order in which they came to it.

use super::one::One;
use super::server::{Place, config, silent_config};
use super::talk::client_frame;
use super::tokens::{guarded, status, websocket};
use crate::answers::Answers;
use crate::client_sends::{ClientSend, ClientSendLimits, ClientSendOutcome, SentBy};
use crate::config::EngineConfig;
use crate::limits::{CLIENT_SENDS_PER_CONNECTION_MAX, SEND_TIMEOUT_MS};
use crate::said::{Answered, DirectMessage};

const ROOM: usize = 1 << 20;

/// A server that lets everybody send, `per_second`.
fn open(per_second: u32) -> One {
    let mut config: EngineConfig = silent_config();
    config.settings.client_sends =
        ClientSendLimits { without_tokens: true, per_second, payload_bytes_max: 10 * 1024 };
    One::start(config)
}

fn post(target: &str, lines: &str, body: &str) -> String {
    format!(
        "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n{lines}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

impl One {
    /// Takes what has come to the control plane.
    fn sent(&self) -> Vec<ClientSend> {
        std::iter::from_fn(|| self.server.client_sends.questions().take()).collect()
    }

    /// Answers `send`.
    fn answer_one(&self, send: &ClientSend, answer: &str) {
        let reference = match send.by() {
            SentBy::Message { reference, .. } => reference.clone(),
            SentBy::Request { .. } | SentBy::Channel(_) => None,
        };
        let answered = Answered { outcome: Ok(answer.into()), reference };
        let answers = Answers::new(self.server.mailboxes.clone());
        answers.say(send.conn(), DirectMessage::Sent(Box::new(answered))).unwrap();
    }

    /// Answers all that has come, each with its number among them, and has the worker take it.
    fn answer_all(&mut self) -> usize {
        let sent = self.sent();
        for (number, send) in sent.iter().enumerate() {
            self.answer_one(send, &format!("{{\"delivered\":{number}}}"));
        }
        while self.turn_after(1) {}
        sent.len()
    }

    fn opened(&mut self, target: &str, token: &str) -> Place {
        let client = self.client(ROOM, &websocket(target, token));
        self.wire(client).client_reads(usize::MAX);
        client
    }

    fn outcome(&self, outcome: ClientSendOutcome) -> u64 {
        self.server.client_sends.outcomes()[outcome as usize].1
    }
}

#[test]
fn send_of_a_websocket_is_asked_as_it_is_written_and_answered_with_its_reference() {
    let mut one = open(10);
    let client = one.opened("/stream/1", "");
    assert_eq!(one.says(client, r#"{"send":{"about": 1,"data":2},"ref":"a"}"#), "");
    assert_eq!(one.says(client, r#"{"ping":1}"#).matches("ping").count(), 1);
    assert_eq!(one.says(client, r#"{"ref":7,"send":[]}"#), "");
    let sent = one.sent();
    assert_eq!(sent[0].event(), br#"{"about": 1,"data":2}"#);
    assert!(sent[0].grant().is_none() && sent[0].conn() == sent[1].conn());
    // Whoever posts them may be done with the second one first.
    one.answer_one(&sent[1], "{\"delivered\":1}");
    one.answer_one(&sent[0], "{\"delivered\":0}");
    while one.turn_after(1) {}
    let answers = "{\"ok\":{\"delivered\":1},\"ref\":7}\n{\"ok\":{\"delivered\":0},\"ref\":\"a\"}";
    assert_eq!(one.texts(client), answers);
    one.end(&[client]);
}

#[test]
fn who_sends_too_often_is_told_when_it_may_again_and_its_stream_stays() {
    let mut one = open(10);
    let client = one.opened("/stream/1", "");
    for number in 0..20 {
        assert_eq!(one.says(client, &format!("{{\"send\":{{}},\"ref\":{number}}}")), "");
    }
    let refused = one.says(client, r#"{"send":{},"ref":20}"#);
    assert!(
        refused.contains("\"status\":429") && refused.contains("\"retry_after\":1"),
        "{refused}"
    );
    assert!(refused.ends_with("\"ref\":20}"), "{refused}");
    assert_eq!((one.answer_all(), one.outcome(ClientSendOutcome::TooMany)), (20, 1));
    one.texts(client);
    one.turn_after(200);
    for expected in ["", "", "429"] {
        let said = one.says(client, r#"{"send":{}}"#);
        assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{said}");
    }
    one.send("1", "2");
    while one.turn_after(1) {}
    assert!(one.texts(client).contains("\"data\":2"));
    one.answer_all();
    one.end(&[client]);
}

#[test]
fn sends_that_are_not_answered_have_a_bound_for_one_connection() {
    let mut one = open(0);
    let client = one.opened("/stream/1", "");
    let frame = client_frame(0x81, br#"{"send":{},"ref":1}"#);
    let most = CLIENT_SENDS_PER_CONNECTION_MAX as usize;
    one.say(client, &frame.repeat(most + 3));
    while one.turn_after(1) {}
    assert_eq!(one.texts(client).matches("\"status\":429").count(), 3);
    assert_eq!(one.answer_all(), most);
    assert_eq!(one.texts(client).matches("\"ok\"").count(), most);
    one.end(&[client]);
}

#[test]
fn nobody_sends_where_it_is_off_or_the_token_grants_nothing() {
    let mut one = One::start(config());
    let client = one.opened("/stream/1", "");
    let refused = one.says(client, r#"{"send":{},"ref":1}"#);
    assert!(refused.contains("403") && refused.contains("--client-send"), "{refused}");
    let sender = one.client(ROOM, &post("/send", "", "{}"));
    while one.turn_after(1) {}
    let answer = one.reads(sender);
    assert!(status(&answer) == "403" && answer.contains("--client-send"), "{answer}");
    assert!(one.sent().is_empty());
    assert_eq!(one.outcome(ClientSendOutcome::Denied), 2);
    let mut one = guarded();
    let client = one.opened("/stream/bob", "sub=bob");
    let refused = one.says(client, r#"{"send":{},"ref":1}"#);
    assert!(refused.contains("403") && refused.contains("encke.send"), "{refused}");
    // From the answer to a new token on that one counts.
    assert_eq!(one.says(client, r#"{"token":"sub=bob;send=room:*"}"#), r#"{"ok":{"token":true}}"#);
    assert_eq!(one.says(client, r#"{"send":{},"ref":1}"#), "");
    let sent = one.sent();
    assert!(sent[0].grant().unwrap().allows_send("room:7"));
    let missing = one.client(ROOM, &post("/send", "", "{}"));
    assert_eq!(status(&one.reads(missing)), "401");
}

#[test]
fn request_is_answered_and_its_connection_is_there_for_the_next_one() {
    let mut one = open(10);
    let client = one.client(ROOM, &post("/send", "Idempotency-Key: \"k\"\r\n", "{\"about\":1}"));
    assert_eq!(one.reads(client), "");
    let sent = one.sent();
    assert_eq!(sent[0].by(), &SentBy::Request { key: Some("\"k\"".into()) });
    assert_eq!(sent[0].event(), b"{\"about\":1}");
    one.answer_one(&sent[0], "{\"delivered\":3}");
    while one.turn_after(1) {}
    let answer = one.reads(client);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\r\nKeep-Alive: "));
    assert!(answer.ends_with("\r\n\r\n{\"delivered\":3}\n"), "{answer}");
    // The next one comes byte by byte, and another one right behind it.
    for byte in [post("/send", "", "[1]"), post("/send", "", "[2]")].concat().bytes() {
        one.say(client, &[byte]);
    }
    assert_eq!(one.answer_all(), 1);
    assert_eq!(one.answer_all(), 1);
    assert_eq!(one.reads(client).matches("HTTP/1.1 200 OK").count(), 2);
    one.say(client, post("/send", "Connection: close\r\n", "[3]").as_bytes());
    assert_eq!(one.answer_all(), 1);
    assert!(one.wire(client).server_ended && one.reads(client).contains("Connection: close"));
    one.end(&[client]);
}

#[test]
fn body_must_come_in_time_and_keeps_no_more_than_it_may() {
    let mut one = open(10);
    let late = one.client(ROOM, &post("/send", "Expect: 100-continue\r\n", "xx")[..]);
    one.answer_all();
    one.reads(late);
    let whole = post("/send", "Expect: 100-continue\r\n", &"x".repeat(1_000));
    let slow = one.client(ROOM, &whole[..whole.len() - 1]);
    assert_eq!(one.reads(slow), "HTTP/1.1 100 Continue\r\n\r\n");
    assert!(one.server.account.bytes() > 0, "it is counted");
    one.turn_after(9_000);
    assert_eq!(one.reads(slow), "");
    one.turn_after(1_200);
    assert_eq!(status(&one.reads(slow)), "408");
    let long = "POST /send HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
                Content-Length: 999999999999\r\n\r\n";
    let long = one.client(ROOM, long);
    assert_eq!(status(&one.reads(long)), "413");
    assert_eq!(one.outcome(ClientSendOutcome::TooLarge), 1);
    one.end(&[late, slow, long]);
}

#[test]
fn request_that_nobody_answers_is_told_so_and_who_goes_is_answered_by_nobody() {
    let mut one = open(10);
    let gone = one.client(ROOM, &post("/send", "", "1"));
    let waits = one.client(ROOM, &post("/send", "", "2"));
    let sent = one.sent();
    one.wire(gone).client_ends();
    one.turn_after(SEND_TIMEOUT_MS + 200);
    assert_eq!(status(&one.reads(waits)), "503");
    for send in &sent {
        one.answer_one(send, "{}");
    }
    while one.turn_after(1) {}
    assert_eq!(one.reads(waits), "");
    one.end(&[waits]);
}

#[test]
fn page_of_another_origin_sends_only_where_it_is_let_in() {
    let mut one = open(10);
    let strange = one.client(ROOM, &post("/send", "Origin: https://evil.test\r\n", "1"));
    assert_eq!(status(&one.reads(strange)), "403");
    let own = one.client(ROOM, &post("/send", "Origin: http://a\r\n", "1"));
    assert_eq!(one.answer_all(), 1);
    let answer = one.reads(own);
    assert!(answer.contains("\r\nAccess-Control-Allow-Origin: *\r\n"), "{answer}");
    one.end(&[strange, own]);
}

/// While a send is under way nothing is written down for another process; a body that is not whole
/// goes along.
#[test]
fn upgrade_waits_for_what_was_sent_and_takes_half_a_body_along() {
    let mut one = open(10);
    let client = one.opened("/stream/1", "");
    assert_eq!(one.says(client, r#"{"send":{},"ref":1}"#), "");
    let whole = post("/send", "", "{\"about\":1}");
    let half = one.client(ROOM, &whole[..whole.len() - 3]);
    while one.turn_after(1) {}
    assert!(!one.server.is_at_rest(0), "a send is under way");
    assert_eq!(one.answer_all(), 1);
    assert!(one.server.is_at_rest(0));
    one.server.shards[0].refuse_sends(true);
    let refused = one.says(client, r#"{"send":{},"ref":2}"#);
    assert!(refused.contains("503") && one.server.is_at_rest(0), "{refused}");
    let mut one = one.upgraded();
    one.turn_after(1);
    let half = one.server.find(half);
    one.say(half, &whole.as_bytes()[whole.len() - 3..]);
    while one.server.turn(0) {}
    let sent = one.sent();
    assert_eq!(sent[0].event(), b"{\"about\":1}");
}
