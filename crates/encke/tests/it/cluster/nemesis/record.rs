//! What was sent, what it was answered, and what each listener heard: the record of a whole run,
//! which is checked at its end ([`check`](super::check)).

use std::sync::Mutex;
use std::time::{Duration, Instant};

use rig::oracle::{Answer, EventId, Expected, event_id};
use serde_json::Value;

use super::plan::Step;
use super::scene::lock;

/// Whom an event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Subject {
    /// Everybody follows it, from the beginning on.
    All,
    /// A listener itself.
    Listener(usize),
    /// Every second listener follows it, or those between.
    Half(usize),
    /// Of a pair that comes in the run, and may go.
    Pair(usize),
}

impl Subject {
    pub(super) fn name(self) -> String {
        match self {
            Subject::All => "all".to_owned(),
            Subject::Listener(listener) => name(listener),
            Subject::Half(half) => format!("half{half}"),
            Subject::Pair(pair) => format!("pair{pair}"),
        }
    }
}

/// The id of a listener.
pub(super) fn name(listener: usize) -> String {
    format!("l{listener}")
}

/// What became of a send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Acked {
        id: EventId,
        delivered: u64,
        at_least: bool,
    },
    /// It was not sent, and never will be.
    NotSent,
    /// It may have been sent, and may still be.
    Unknown(String),
    /// No answer that the protocol knows.
    Wrong(String),
}

#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) subject: Subject,
    pub(super) sender: usize,
    pub(super) node: usize,
    pub(super) asked: Duration,
    /// With its outcome; none until then.
    pub(super) answer: Option<(Duration, Outcome)>,
    /// Of a subject of a pair: whether its listener is to hear it, unless the pair goes later.
    pub(super) expected: Expected,
}

/// A subscription of its own subject.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) listener: usize,
    /// Whether it is there now; `None` is not known.
    pub(super) is_there: Option<bool>,
    /// Whether anybody has asked for its end.
    pub(super) ended: bool,
}

/// What happened to a listener.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    /// A stream opened at a node, from a place on if it told one.
    Opened {
        /// When it was begun to ask for it.
        asked: Duration,
        at: Duration,
        node: usize,
        resumed: bool,
    },
    /// One was asked for, and given up by now.
    Tried {
        asked: Duration,
        at: Duration,
    },
    /// Where it stands.
    Place(EventId),
    Event {
        at: Duration,
        id: EventId,
        number: usize,
    },
    Gap {
        at: Duration,
    },
    Lost {
        at: Duration,
    },
}

/// A node as it was at some time between the question and its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) asked: Duration,
    pub(super) at: Duration,
    pub(super) member: bool,
    /// Whether it sees all nodes as members.
    pub(super) sees_all: bool,
}

#[derive(Default)]
pub(super) struct Open {
    pub(super) events: Vec<Event>,
    pub(super) pairs: Vec<Pair>,
    pub(super) listeners: Vec<Vec<Entry>>,
    pub(super) samples: Vec<Vec<Sample>>,
    /// By how much a pause of ours was longer than it should be, at most: how busy the machine is.
    pub(super) late: Duration,
    /// The faults, with the times that they really had.
    pub(super) done: Vec<Step>,
    /// What is wrong in any case.
    pub(super) faults: Vec<String>,
}

/// The record, for all who write into it.
pub(super) struct Record {
    pub(super) open: Mutex<Open>,
    start: Instant,
}

impl Record {
    pub(super) fn new(listeners: usize, nodes: usize) -> Record {
        let open = Open {
            listeners: vec![Vec::new(); listeners],
            samples: vec![Vec::new(); nodes],
            ..Open::default()
        };
        Record { open: Mutex::new(open), start: Instant::now() }
    }

    /// Time since the beginning.
    pub(super) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Enters an event before it is sent; its number is its payload.
    pub(super) fn send(
        &self,
        sender: usize,
        node: usize,
        subject: Subject,
        expected: Expected,
    ) -> usize {
        let asked = self.now();
        let mut open = lock(&self.open);
        open.events.push(Event { subject, sender, node, asked, answer: None, expected });
        open.events.len() - 1
    }

    pub(super) fn answer(&self, number: usize, outcome: Outcome) {
        let now = self.now();
        lock(&self.open).events[number].answer = Some((now, outcome));
    }

    pub(super) fn enter(&self, listener: usize, entry: Entry) {
        lock(&self.open).listeners[listener].push(entry);
    }

    pub(super) fn fault(&self, what: String) {
        lock(&self.open).faults.push(what);
    }
}

impl Outcome {
    /// As the oracle knows it.
    pub(super) fn answer(&self) -> Answer {
        match *self {
            Outcome::Acked { id, delivered, at_least } => {
                Answer::Acknowledged { id, delivered, at_least }
            }
            Outcome::NotSent => Answer::NotSent,
            Outcome::Unknown(_) | Outcome::Wrong(_) => Answer::Refused,
        }
    }

    /// Of an answer's status and body.
    pub(super) fn of(status: u64, body: &Value) -> Outcome {
        let detail = body["detail"].as_str().unwrap_or_default();
        match status {
            200 => match body["id"].as_str().and_then(event_id) {
                Some(id) => Outcome::Acked {
                    id,
                    delivered: body["delivered"].as_u64().unwrap_or_default(),
                    at_least: body["at_least"] == true,
                },
                None => Outcome::Wrong(body.to_string()),
            },
            503 if detail.contains("Nothing was sent") => Outcome::NotSent,
            503 if detail.contains("may still be sent") => Outcome::Unknown(detail.to_owned()),
            _ => Outcome::Wrong(format!("{status}: {body}")),
        }
    }
}
