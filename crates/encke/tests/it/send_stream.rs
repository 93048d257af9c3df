//! `POST /send` with a stream of events: answers in order, line by line, while the body still
//! comes, and no memory that grows with it.

use std::io::{ErrorKind, Write};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{DEADLINE, Program, Server, Wire, check_problem};

/// A stream of events under way.
struct Sender {
    wire: Wire,
    /// Answers that are read and not yet taken.
    answers: Vec<u8>,
}

impl Sender {
    /// Sends the head, and reads the answer's, which must not wait for the body.
    fn open(server: &Server) -> Sender {
        let mut wire = Wire::connect(server.api.address());
        wire.send(
            "POST /send HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n\
             Transfer-Encoding: chunked\r\n\r\n",
        );
        Sender { wire, answers: Vec::new() }
    }

    fn send(&mut self, text: &str) {
        self.wire.send(format!("{:x}\r\n{text}\r\n", text.len()));
    }

    fn head(&mut self) {
        let head = self.wire.head();
        assert_eq!(head.status, 200);
        assert_eq!(head.field("content-type"), Some("application/x-ndjson"));
    }

    /// The next line of the answer; `None` at its end.
    fn answer(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.answers) {
                let line: Vec<u8> = self.answers.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let chunk = self.wire.chunk().unwrap();
            if chunk.is_empty() {
                assert!(self.answers.is_empty(), "the last line has an end");
                return None;
            }
            self.answers.extend(chunk);
        }
    }
}

#[test]
fn each_line_is_answered_while_the_body_still_comes() {
    let server = Server::start(&[]);
    let mut listener = server.listener("1");
    let mut sender = Sender::open(&server);
    sender.send("{\"about\":1,\"data\":0}\n");
    sender.head();
    let mut ids = vec![sender.answer().unwrap()["id"].take()];
    for n in 1..100 {
        sender.send(&format!("{{\"about\":1,\"data\":{n}}}\n"));
        let mut answer = sender.answer().unwrap();
        assert_eq!(answer["delivered"], 1);
        ids.push(answer["id"].take());
    }
    sender.send("");
    assert_eq!(sender.answer(), None);
    for (n, id) in ids.into_iter().enumerate() {
        let event = listener.event();
        assert_eq!((&event["data"], &event["id"]), (&json!(n), &id));
    }
}

#[test]
fn bad_lines_answer_their_problem_and_the_rest_go_on() {
    let server = Server::start(&[]);
    let mut listener = server.listener("1");
    let long = format!("{{\"about\":1,\"data\":\"{}\"}}", "x".repeat(70_000));
    let longest = format!("{{\"about\":1,\"data\":\"{}\"}}", "x".repeat(3 << 20));
    let lines = [
        ("{\"about\":1,\"data\":\"a\"}", 200),
        ("nonsense", 400),
        ("", 0),
        ("{\"about\":\"a b\",\"data\":1}", 400),
        ("   \t ", 0),
        ("{\"about\":1,\"data\":\"b\"}\r", 200),
        (long.as_str(), 413),
        (longest.as_str(), 413),
        ("{\"about\":1,\"data\":\"c\"", 400),
        ("{\"about\":1,\"data\":\"d\"} {}", 400),
        ("[{\"about\":1,\"data\":\"e\"}]", 400),
        ("{\"about\":\"nobody\",\"data\":1}", 200),
        ("{\"about\":1,\"data\":\"last, without a line end\"}", 200),
    ];
    let body = lines.map(|(line, _)| line).join("\n");
    let answer = server.api.post_lines("/send", &body);
    assert_eq!(answer.status(), 200);
    let answers: Vec<Value> =
        answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected: Vec<_> = (1..).zip(lines).filter(|(_, (_, status))| *status > 0).collect();
    assert_eq!(answers.len(), expected.len(), "{answers:?}");
    for (answer, (number, (line, status))) in answers.iter().zip(expected) {
        if status == 200 {
            let delivered = u64::from(!line.contains("nobody"));
            assert_eq!(answer["delivered"], delivered, "line {number}");
        } else {
            check_problem(answer, status);
            assert_eq!(answer["line"], number);
        }
    }
    for data in ["a", "b", "last, without a line end"] {
        assert_eq!(listener.data(), data);
    }
    assert_eq!(server.api.stats()["events"], 4);
}

#[test]
fn stream_without_events_has_no_answers() {
    let server = Server::start(&[]);
    for body in ["", "\n", "\r\n\n  \n"] {
        let answer = server.api.post_lines("/send", body);
        assert_eq!((answer.status(), answer.body.as_str()), (200, ""));
    }
}

#[test]
fn events_that_come_byte_by_byte_are_put_together() {
    let server = Server::start(&[]);
    let mut sender = Sender::open(&server);
    for byte in "{\"about\":1,\"data\":\"é\"}\n{\"about\":2,\"data\":2}\n".bytes() {
        sender.wire.send([b"1\r\n", &[byte][..], b"\r\n"].concat());
    }
    sender.send("");
    sender.head();
    assert_eq!(sender.answer().unwrap()["delivered"], 0);
    assert_eq!(sender.answer().unwrap()["delivered"], 0);
    assert_eq!(sender.answer(), None);
}

#[test]
fn memory_does_not_grow_with_the_body() {
    const EVENTS: usize = 50_000;
    let server = Server::start(&[]);
    let program: &Program = &server;
    let event = format!("{{\"about\":1,\"data\":\"{}\"}}\n", "x".repeat(4000));
    let mut sender = Sender::open(&server);
    let mut body = Wire::from(sender.wire.socket().try_clone().unwrap());
    let before = program.anonymous_bytes();
    let highest = thread::scope(|scope| {
        scope.spawn(move || {
            let block = event.repeat(50);
            let block = format!("{:x}\r\n{block}\r\n", block.len());
            (0..EVENTS / 50).for_each(|_| body.send(&block));
            body.send("0\r\n\r\n");
        });
        sender.head();
        let (mut answers, mut highest) = (0, 0);
        while let Some(answer) = sender.answer() {
            assert_eq!(answer["delivered"], 0);
            answers += 1;
            if answers % 1000 == 0 {
                highest = program.anonymous_bytes().max(highest);
            }
        }
        assert_eq!(answers, EVENTS);
        highest
    });
    let growth = highest.saturating_sub(before);
    assert!(growth < 24 << 20, "{growth} bytes more for a body of 200 MB");
}

#[test]
fn sender_that_reads_no_answers_is_not_read_either() {
    let server = Server::start(&[]);
    let before = server.anonymous_bytes();
    let mut sender = Sender::open(&server);
    let block = "{\"about\":1,\"data\":1}\n".repeat(3000);
    let block = format!("{:x}\r\n{block}\r\n", block.len());
    // Full when nothing more goes in for a while.
    sender.wire.socket().set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let (mut blocks, mut rest) = (0, block.as_bytes());
    loop {
        match sender.wire.socket().write(rest) {
            Ok(len) => rest = &rest[len..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
                break;
            }
        }
        if rest.is_empty() {
            (blocks, rest) = (blocks + 1, block.as_bytes());
            assert!(blocks < 10_000, "600 MB are read though nobody reads their answers");
        }
    }
    let growth = server.anonymous_bytes().saturating_sub(before);
    assert!(growth < 24 << 20, "{growth} bytes for answers that nobody reads");
    // Others are served meanwhile, and once it reads it is, too.
    assert_eq!(server.api.send("1", 1), 0);
    sender.wire.socket().set_write_timeout(Some(DEADLINE)).unwrap();
    let mut body = Wire::from(sender.wire.socket().try_clone().unwrap());
    thread::scope(|scope| {
        scope.spawn(|| body.send([rest, b"0\r\n\r\n"].concat()));
        sender.head();
        let mut answers = 0;
        while sender.answer().is_some() {
            answers += 1;
        }
        assert_eq!(answers, (blocks + 1) * 3000);
    });
}

#[test]
fn sender_that_breaks_off_leaves_what_it_sent_delivered() {
    let server = Server::start(&[]);
    let mut listener = server.listener("1");
    for reset in [false, true] {
        let mut sender = Sender::open(&server);
        sender.send("{\"about\":1,\"data\":\"whole\"}\n{\"about\":1,\"data\":\"half");
        assert_eq!(listener.data(), "whole");
        if reset {
            sender.wire.reset();
        }
    }
    assert_eq!(server.api.send("1", "after"), 1);
    assert_eq!(listener.data(), "after");
}
