//! What the model remembers of clients that poll, and how it reads what they got.

use std::str;

use crate::receipt::Receipt;
use crate::sim::net::Wire;
use crate::sim::random::Random;
use crate::sim::server::Place;

/// One poll.
pub(super) struct Poll {
    pub(super) ids: Vec<String>,
    pub(super) wait_ms: u64,
    /// Bytes that the client has sent once it has sent this.
    ends_at: usize,
    /// When it was first seen to wait.
    pub(super) since_ms: Option<u64>,
    pub(super) answered_ms: Option<u64>,
    pub(super) overdue: bool,
    /// The events that its answer must hold.
    pub(super) expected: Vec<usize>,
}

/// A whole answer.
pub(in crate::sim) struct Answer {
    pub(super) status: u16,
    /// Whether the connection ends with it.
    pub(super) closes: bool,
    pub(in crate::sim) next: Option<String>,
    pub(in crate::sim) gap: bool,
    pub(in crate::sim) body: String,
}

/// A client and its one connection.
pub(super) struct Client {
    pub(super) place: Place,
    /// Reads all at once.
    pub(super) diligent: bool,
    pub(super) left: bool,
    pub(super) paused: bool,
    /// It has asked its last.
    pub(super) last: bool,
    pub(super) polls: Vec<Poll>,
    pub(super) unsent: Vec<u8>,
    asked_bytes: usize,
    pub(super) answers: Vec<Answer>,
    /// Bytes behind the last whole answer.
    got: Vec<u8>,
}

/// An event, and for whom it was.
pub(super) struct SentEvent {
    pub(super) id: String,
    pub(super) json: String,
    /// Clients and their polls that waited when it was sent.
    pub(super) due: Vec<(usize, usize)>,
    pub(super) receipt: Receipt,
    pub(super) delivered: u32,
}

/// A poll of somebody who goes on after `cursor`.
pub(in crate::sim) fn request(
    ids: &[String],
    cursor: Option<String>,
    random: &mut Random,
) -> Vec<u8> {
    let more: String = ids[1..].iter().map(|id| format!("&id={id}")).collect();
    let after = cursor.map_or(String::new(), |id| format!("&after={id}"));
    let (id, wait) = (&ids[0], [0, 1, 25][random.below(3)]);
    format!("GET /poll/{id}?wait={wait}{more}{after} HTTP/1.1\r\nHost: encke\r\n\r\n").into()
}

impl Client {
    pub(super) fn new(place: Place, diligent: bool) -> Client {
        Client {
            place,
            diligent,
            left: false,
            paused: false,
            last: false,
            polls: Vec::new(),
            unsent: Vec::new(),
            asked_bytes: 0,
            answers: Vec::new(),
            got: Vec::new(),
        }
    }

    /// Puts another request in its sendbox.
    pub(super) fn ask(&mut self, ids: Vec<String>, wait_seconds: u64, last: bool) {
        let more: String = ids[1..].iter().map(|id| format!("&id={id}")).collect();
        let (id, close) = (&ids[0], if last { "Connection: close\r\n" } else { "" });
        let head = format!(
            "GET /poll/{id}?wait={wait_seconds}{more} HTTP/1.1\r\nHost: encke\r\n{close}\r\n"
        );
        self.last = last;
        self.asked_bytes += head.len();
        self.unsent.extend_from_slice(head.as_bytes());
        self.polls.push(Poll {
            ids,
            wait_ms: wait_seconds * 1000,
            ends_at: self.asked_bytes,
            since_ms: None,
            answered_ms: None,
            overdue: false,
            expected: Vec::new(),
        });
    }

    /// Takes in bytes of the server.
    pub(super) fn read(&mut self, bytes: &[u8], now_ms: u64) {
        self.got.extend_from_slice(bytes);
        while let Some((answer, len)) = Answer::read(&self.got) {
            self.got.drain(..len);
            if let Some(poll) = self.polls.get_mut(self.answers.len()) {
                poll.answered_ms = Some(now_ms);
            }
            self.answers.push(answer);
        }
    }

    /// Which of its polls waits, going by what is on its wire.
    pub(super) fn waiting(&self, wire: &Wire) -> Option<usize> {
        if !wire.is_open() || wire.hides {
            return None;
        }
        let read = wire.received;
        let (first, second) = wire.to_client.as_slices();
        let sent = [self.got.as_slice(), first, second].concat();
        let (mut answered, mut rest) = (self.answers.len(), sent.as_slice());
        while let Some((_, len)) = Answer::read(rest) {
            (answered, rest) = (answered + 1, &rest[len..]);
        }
        let waits = |poll: &&Poll| poll.ends_at <= read && poll.wait_ms > 0;
        let poll = self.polls.get(answered).filter(waits);
        (rest.is_empty() && poll.is_some()).then_some(answered)
    }
}

impl Answer {
    /// The answer that `bytes` begin with, and its length, if it is all there.
    pub(in crate::sim) fn read(bytes: &[u8]) -> Option<(Answer, usize)> {
        let text = str::from_utf8(bytes).expect("all of it is text");
        let (head, rest) = text.split_once("\r\n\r\n")?;
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        let len: usize = field("Content-Length: ").expect("a length").parse().unwrap();
        let body = rest.get(..len)?.to_string();
        let status = head["HTTP/1.1 ".len()..][..3].parse().unwrap();
        let closes = field("Connection: ") == Some("close");
        let (next, gap) = (field("Encke-Next: ").map(str::to_string), field("Encke-Gap: "));
        let answer = Answer { status, closes, next, gap: gap == Some("true"), body };
        Some((answer, head.len() + 4 + len))
    }
}
