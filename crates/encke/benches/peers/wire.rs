//! What a publisher writes for one event and what it is answered, by system.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use memchr::memmem;
use serde::{Deserialize, Serialize};

use crate::http::{self, Answer};
use crate::nats::{self, PONG};

/// How events go in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Wire {
    /// `POST /send` with the subject and the payload as JSON: Encke's, and the bare loop's.
    Send,
    /// `POST /pub/<subject>` with the payload as the body: Nchan.
    Pub,
    /// `PUB` and a `PING`, whose `PONG` says that the server has taken both: NATS.
    Nats,
}

impl Wire {
    /// A connection that can send events.
    pub(crate) fn connect(self, address: SocketAddr) -> io::Result<OwnedFd> {
        match self {
            Wire::Send | Wire::Pub => http::connect(address),
            Wire::Nats => nats::connect(address, ""),
        }
    }

    /// Appends the bytes that send `payload` about `subject`.
    pub(crate) fn push(self, subject: u64, payload: &[u8], out: &mut Vec<u8>) {
        let len = payload.len();
        let text = std::str::from_utf8(payload).expect("a payload is ASCII");
        let written = match self {
            Wire::Send => {
                let len = len + SEND_BYTES + http::digits(subject);
                write!(
                    out,
                    "POST /send HTTP/1.1\r\n{FIELDS}{len}\r\n\r\n{{\"about\":\"{subject}\",\
                     \"data\":{text}}}"
                )
            }
            Wire::Pub => {
                write!(out, "POST /pub/{subject} HTTP/1.1\r\n{FIELDS}{len}\r\n\r\n{text}")
            }
            Wire::Nats => write!(out, "PUB s.{subject} {len}\r\n{text}\r\nPING\r\n"),
        };
        written.expect("writing to memory does not fail");
    }

    /// The answer that `bytes` begin with; `None` when it is not all there yet.
    pub(crate) fn answer(self, bytes: &[u8]) -> Result<Option<Answer>, String> {
        if self == Wire::Nats {
            // The server's own `PING` may stand before or behind it.
            let is_whole = memmem::find(bytes, PONG).is_some() || bytes.starts_with(b"-ERR");
            let is_good = !bytes.starts_with(b"-ERR");
            return Ok(is_whole.then_some(Answer { is_good, len: bytes.len() }));
        }
        http::answer(bytes)
    }
}

/// What all requests have in common, but for the length.
const FIELDS: &str = "Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ";

/// Bytes of `{"about":"","data":}`.
const SEND_BYTES: usize = 20;
