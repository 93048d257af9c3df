//! What a publisher writes for one update, and which topics there are.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use load::form;
use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::harness;
use crate::http::{self, Answer};
use crate::hub::{PATH, all_token};

/// How updates go in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Wire {
    /// `POST /send` with the number of the stream and the payload as JSON: the bare loop's.
    Send,
    /// A form, on the topic with that number.
    Form(Shape),
    /// Likewise, on a plain topic, by who shows this token.
    FormBy(String),
}

/// What topics look like, and who listens to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Shape {
    /// Plain topics.
    Plain,
    /// Patterns that begin differently.
    Scattered,
    /// Patterns that begin alike.
    Alike,
}

impl Shape {
    /// The topic with a number.
    pub(crate) fn topic(self, number: u64) -> String {
        match self {
            Shape::Plain => format!("https://a.test/books/{number}"),
            Shape::Scattered => format!("https://a.test/shelves/{number}/books/1"),
            Shape::Alike => format!("https://a.test/shelves/1/books/{number}"),
        }
    }

    /// What the listener `{id}` asks for, which matches that topic alone. An anonymous client may
    /// take half of all patterns only.
    pub(crate) fn query(self) -> String {
        let selector = match self {
            Shape::Plain => return "topic=https://a.test/books/{id}".to_owned(),
            Shape::Scattered => "https://a.test/shelves/{id}/books/%7Bbook%7D",
            Shape::Alike => "https://a.test/shelves/%7Bshelf%7D/books/{id}",
        };
        format!("topic={selector}&authorization={}", all_token())
    }
}

impl Wire {
    /// A connection that can send updates.
    pub(crate) fn connect(&self, address: SocketAddr) -> io::Result<OwnedFd> {
        http::connect(address)
    }

    /// Appends the bytes that send `payload`, a JSON string, about `subject`.
    pub(crate) fn push(&self, subject: u64, payload: &[u8], out: &mut Vec<u8>) {
        let text = std::str::from_utf8(payload).expect("a payload is ASCII");
        match self {
            Wire::Send => {
                let len = SEND_BYTES + http::digits(subject) + text.len();
                write!(
                    out,
                    "POST /send HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
                     Content-Length: {len}\r\n\r\n{{\"about\":\"{subject}\",\"data\":{text}}}"
                )
                .expect("writing to memory does not fail");
            }
            Wire::Form(shape) => push_form(all_token(), &shape.topic(subject), text, out),
            Wire::FormBy(token) => push_form(token, &Shape::Plain.topic(subject), text, out),
        }
    }

    /// The answer that `bytes` begin with; `None` when it is not all there yet.
    pub(crate) fn answer(&self, bytes: &[u8]) -> Result<Option<Answer>, String> {
        http::answer(bytes)
    }
}

/// Publishes texts on topics, all at one time and in this order: they fit the kernel's buffers.
pub(crate) fn publish_all(wire: &mut harness::Wire, of: &[(String, String)]) -> Outcome<()> {
    publish_all_by(all_token(), wire, of)
}

/// Likewise, by who shows this token.
pub(crate) fn publish_all_by(
    token: &str,
    wire: &mut harness::Wire,
    of: &[(String, String)],
) -> Outcome<()> {
    let mut requests = Vec::new();
    of.iter().for_each(|(topic, data)| push_form(token, topic, data, &mut requests));
    wire.send(&requests);
    for _ in of {
        let head = wire.try_head()?;
        if head.status != 200 {
            return Err(head.text.into());
        }
        wire.take(head.field("content-length").unwrap_or("0").parse()?)?;
    }
    Ok(())
}

/// Appends a request that publishes. The form is escaped, as libraries do it.
fn push_form(token: &str, topic: &str, data: &str, out: &mut Vec<u8>) {
    let body = form::body(&[("topic", topic), ("data", data)]);
    write!(
        out,
        "POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .expect("writing to memory does not fail");
    out.extend(body);
}

/// Bytes of `{"about":"","data":}`.
const SEND_BYTES: usize = 20;
