//! One shard whose clients read pages of what was sent. Here the control plane answers each with
//! what it was asked for.

use super::one::One;
use super::server::Place;
use super::tokens::{guarded, request, status};
use crate::answers::Answers;
use crate::history_reads::HistoryRead;
use crate::limits::{HISTORY_READS_MAX, SEND_TIMEOUT_MS};
use crate::said::DirectMessage;

const ROOM: usize = 1 << 20;
const TOKEN: &str = "sub=bob;history=room:*";

impl One {
    /// Takes what has come to the control plane.
    fn reads_asked(&self) -> Vec<HistoryRead> {
        std::iter::from_fn(|| self.server.history_reads.take()).collect()
    }

    /// Answers `read` with its id and its query.
    fn answer_read(&self, read: &HistoryRead) {
        let page = format!("{{\"{}\":\"{}\"}}", read.id(), read.query());
        let answers = Answers::new(self.server.mailboxes.clone());
        answers.say(read.conn(), DirectMessage::Page(Box::new(Ok(page.into())))).unwrap();
    }

    /// Answers all that has come, and has the worker take it.
    fn answer_reads(&mut self) -> usize {
        let asked = self.reads_asked();
        asked.iter().for_each(|read| self.answer_read(read));
        while self.turn_after(1) {}
        asked.len()
    }

    /// The status of what a client is answered that says this.
    fn refused(&mut self, says: &str) -> String {
        let client = self.client(ROOM, says);
        let answer = self.reads(client);
        assert!(self.reads_asked().is_empty(), "{says}");
        status(&answer).to_owned()
    }

    fn reader(&mut self, target: &str) -> Place {
        self.client(ROOM, &request(target, TOKEN))
    }
}

#[test]
fn page_is_asked_for_as_it_is_written_and_its_connection_reads_on() {
    let mut one = guarded();
    let client = one.reader("/events/room%3A7?after=x&limit=3");
    assert_eq!(one.reads(client), "");
    let asked = one.reads_asked();
    assert_eq!((asked[0].id(), asked[0].query()), ("room:7", "after=x&limit=3"));
    assert!(asked[0].grant().allows_history("room:7") && asked[0].bytes_max() > 0);
    assert!(!one.server.is_at_rest(0), "a page is under way");
    one.answer_read(&asked[0]);
    while one.turn_after(1) {}
    assert!(one.server.is_at_rest(0));
    let answer = one.reads(client);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\r\nKeep-Alive: "));
    assert!(answer.ends_with("\r\n\r\n{\"room:7\":\"after=x&limit=3\"}\n"), "{answer}");
    // Three in one piece are answered one after the other; of a HEAD the head alone.
    let head = request("/events/room:8", TOKEN).replacen("GET", "HEAD", 1);
    let last = request("/events/room:9", TOKEN).replacen("\r\n", "\r\nConnection: close\r\n", 1);
    one.say(client, [request("/events/room:7", TOKEN), head, last].concat().as_bytes());
    for _ in 0..3 {
        assert_eq!(one.answer_reads(), 1);
    }
    let answers = one.reads(client);
    let bodies: Vec<&str> =
        answers.split("\r\n\r\n").map(|part| part.split("HTTP/1.1").next().unwrap()).collect();
    assert_eq!(bodies, ["", "{\"room:7\":\"\"}\n", "", "{\"room:9\":\"\"}\n"]);
    assert_eq!(answers.matches("Content-Length: 14\r\n").count(), 3, "{answers}");
    assert!(one.wire(client).server_ended);
    one.end(&[client]);
}

#[test]
fn nobody_reads_what_its_token_does_not_grant() {
    let mut one = guarded();
    for (says, answered) in [
        ("GET /events/room:7 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), "401"),
        (request("/events/room:7", "bad"), "401"),
        (request("/events/bob", TOKEN), "403"),
        (request("/events/room:7", "sub=bob;ids=room:*"), "403"),
        (request("/events/", TOKEN), "400"),
        (request("/events", TOKEN), "404"),
        (request("/events/room:7", TOKEN).replacen("GET", "POST", 1), "405"),
        (
            request("/events/room:7", TOKEN).replacen("\r\n", "\r\nOrigin: http://evil\r\n", 1),
            "403",
        ),
    ] {
        assert_eq!(one.refused(&says), answered, "{says}");
    }
    let own = request("/events/room:7", TOKEN).replacen("\r\n", "\r\nOrigin: http://a\r\n", 1);
    let own = one.client(ROOM, &own);
    assert_eq!(one.answer_reads(), 1);
    assert!(one.reads(own).contains("\r\nAccess-Control-Allow-Origin: "));
    one.end(&[own]);
    let mut one = One::start(super::server::config());
    assert_eq!(one.refused(&request("/events/room:7", "")), "404", "nobody grants anything");
    assert_eq!(one.refused("OPTIONS /events/room:7 HTTP/1.1\r\nHost: a\r\n\r\n"), "404");
}

#[test]
fn reads_have_a_rate_of_their_connection_and_a_bound_for_all() {
    let mut one = guarded();
    let client = one.reader("/events/room:7");
    let mut answered = 0;
    while one.answer_reads() == 1 {
        answered += 1;
        one.reads(client);
        one.say(client, request("/events/room:7", TOKEN).as_bytes());
    }
    let answer = one.reads(client);
    assert!(answered >= 20 && status(&answer) == "429", "{answered} and then {answer}");
    let mut one = guarded();
    let mut clients: Vec<Place> =
        (0..HISTORY_READS_MAX).map(|_| one.reader("/events/room:7")).collect();
    assert_eq!(one.refused_busy(), "503");
    let asked = one.reads_asked();
    assert_eq!((asked.len(), &*one.refused_busy()), (HISTORY_READS_MAX, "503"));
    // Until a worker has the answers they count.
    asked.iter().for_each(|read| one.answer_read(read));
    while one.turn_after(1) {}
    assert!(clients.iter().all(|&client| status(&one.reads(client)) == "200"));
    let more = one.reader("/events/room:7");
    assert_eq!(one.answer_reads(), 1);
    clients.push(more);
    one.end(&clients);
}

impl One {
    fn refused_busy(&mut self) -> String {
        let client = self.reader("/events/room:7");
        while self.turn_after(1) {}
        let answer = self.reads(client);
        self.wire(client).client_ends();
        while self.turn_after(1) {}
        status(&answer).to_owned()
    }
}

#[test]
fn read_that_nobody_answers_is_told_so_and_a_head_has_no_body() {
    let mut one = guarded();
    let gone = one.reader("/events/room:1");
    let waits = one.reader("/events/room:2");
    let head = request("/events/room:3", TOKEN).replacen("GET", "HEAD", 1);
    let head = one.client(ROOM, &head);
    let asked = one.reads_asked();
    one.wire(gone).client_ends();
    one.turn_after(SEND_TIMEOUT_MS + 200);
    let answer = one.reads(waits);
    assert!(status(&answer) == "503" && answer.contains("errors#busy"), "{answer}");
    let answer = one.reads(head);
    assert!(status(&answer) == "503" && answer.ends_with("\r\n\r\n"), "{answer}");
    asked.iter().for_each(|read| one.answer_read(read));
    while one.turn_after(1) {}
    assert_eq!((one.reads(waits), one.reads(head)), (String::new(), String::new()));
    one.end(&[waits, head]);
}

/// Reads are refused while all is written down for another process, and taken by that one.
#[test]
fn upgrade_waits_for_pages_and_refuses_further_ones() {
    let mut one = guarded();
    let client = one.reader("/events/room:7");
    assert_eq!(one.answer_reads(), 1);
    one.server.shards[0].refuse_sends(true);
    one.reads(client);
    one.say(client, request("/events/room:7", TOKEN).as_bytes());
    while one.turn_after(1) {}
    let refused = one.reads(client);
    assert!(status(&refused) == "503" && refused.contains("Retry-After: 1"), "{refused}");
    assert!(one.server.is_at_rest(0));
    let mut one = one.upgraded();
    one.turn_after(1);
    let client = one.server.find(client);
    one.say(client, request("/events/room:8", TOKEN).as_bytes());
    while one.server.turn(0) {}
    assert_eq!(one.reads_asked()[0].id(), "room:8");
}
