//! A user of the model: what it asks for, and what it has heard over all its connections.

use std::collections::BTreeSet;

use hub::EventId;
use proto::{Carrier, Transport};

use super::IDS;
use super::past::UserPast;
use crate::sim::polls;
use crate::sim::random::Random;
use crate::sim::scene::{Graph, id_text, request_with};
use crate::sim::server::Place;
use crate::sim::talk::server_texts;
use crate::sim::wire::dechunk;

/// Those on which a client can go on.
const TRANSPORTS: [Transport; 4] =
    [Transport::Sse, Transport::Ndjson, Transport::Poll, Transport::WebSocket];

/// What a user heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sim) enum Heard {
    Event(u64),
    /// Up to this number some may be missing.
    Gap(u64),
    /// The stream stands there.
    Cursor(u64),
}

pub(in crate::sim) struct User {
    pub(in crate::sim) ids: Vec<String>,
    pub(in crate::sim) transport: Transport,
    pub(in crate::sim) carrier: Carrier,
    pub(in crate::sim) online: Option<Connection>,
    /// It is a client of another server now.
    pub(in crate::sim) elsewhere: bool,
    /// The place that it brings from there.
    pub(in crate::sim) brought: Option<String>,
    pub(in crate::sim) heard: Vec<Heard>,
    /// The place that the last answer to its polls has named, as it was.
    pub(in crate::sim) next: Option<String>,
    /// How often a poll was told of a gap of which its place says that it was told before.
    pub(in crate::sim) told_again: usize,
    /// What it wants to hear of before it came.
    pub(in crate::sim) past: Option<UserPast>,
    /// Events that it need not hear: they were on their way when it came without a place to go on.
    pub(in crate::sim) excused: BTreeSet<usize>,
}

pub(in crate::sim) struct Connection {
    pub(in crate::sim) place: Place,
    pub(in crate::sim) got: Vec<u8>,
    /// The newest number when it was known what the client had missed.
    pub(in crate::sim) resumed_at: u64,
    /// Whether it is one whose poll is answered.
    pub(in crate::sim) idle: bool,
    /// Whether it came with a place that the server cannot know, and has heard nothing yet.
    pub(in crate::sim) is_foreign: bool,
    /// Whether it is to log in under the second of its ids later.
    pub(in crate::sim) is_partial: bool,
}

impl User {
    pub(in crate::sim) fn random(random: &mut Random) -> User {
        User {
            ids: (0..1 + random.below(2)).map(|_| id_text(random.below(IDS))).collect(),
            transport: TRANSPORTS[random.below(TRANSPORTS.len())],
            carrier: [Carrier::Chunked, Carrier::Close][random.below(2)],
            online: None,
            elsewhere: false,
            brought: None,
            heard: Vec::new(),
            next: None,
            told_again: 0,
            past: None,
            excused: BTreeSet::new(),
        }
    }

    /// The same user as another server will see it.
    pub(in crate::sim) fn elsewhere(&self) -> User {
        User {
            ids: self.ids.clone(),
            transport: self.transport,
            carrier: self.carrier,
            online: None,
            elsewhere: true,
            brought: None,
            heard: Vec::new(),
            next: None,
            told_again: 0,
            past: None,
            excused: BTreeSet::new(),
        }
    }

    /// Whether it may connect.
    pub(in crate::sim) fn may_come(&self) -> bool {
        self.online.is_none() && !self.elsewhere
    }

    /// Whether it is in the audience of `about`.
    pub(in crate::sim) fn hears(&self, graph: &Graph, about: &String) -> bool {
        hears(graph, &self.ids, about)
    }

    /// What was sent so far and is for the second of its ids alone it need not have heard: it was
    /// not logged in under that one until now.
    pub(in crate::sim) fn excuse_second(&mut self, graph: &Graph, sent: &[(String, Option<u64>)]) {
        let first = &self.ids[..1];
        let others = sent.iter().enumerate().filter(|(_, sent)| !hears(graph, first, &sent.0));
        self.excused.extend(others.map(|(index, _)| index));
    }

    /// From which number on it must have heard all. A WebSocket says where it stands when asked,
    /// and the answer to a first poll only where it ends: what comes before is nobody's loss.
    pub(in crate::sim) fn start(&self) -> Option<u64> {
        if self.past.is_some() {
            return Some(0);
        }
        self.heard.iter().find_map(|heard| match (heard, self.transport) {
            (Heard::Cursor(number), _) => Some(*number),
            (Heard::Event(_), Transport::Sse) => None,
            (Heard::Event(number), _) => Some(number - 1),
            (Heard::Gap(_), _) => None,
        })
    }

    /// The head of the request with which it comes from `place`.
    pub(in crate::sim) fn head(
        &self,
        ids: &[String],
        place: Option<String>,
        random: &mut Random,
    ) -> Vec<u8> {
        if self.transport == Transport::Poll {
            return polls::request(ids, place, random);
        }
        let field = place.map_or(String::new(), |id| format!("Last-Event-ID: {id}\r\n"));
        request_with(ids, self.transport, self.carrier, &field)
    }

    /// What a foreign hears first, behind all `before`, is that something may be missing.
    pub(in crate::sim) fn check_told(&self, before: usize, is_foreign: bool) {
        if let Some(first) = self.heard.get(before).filter(|_| is_foreign) {
            assert!(matches!(first, Heard::Gap(_)), "{first:?} before a gap, {:?}", self.transport);
        }
    }

    /// What an `EventSource` gives as its last event id.
    pub(in crate::sim) fn cursor(&self) -> Option<u64> {
        self.heard.iter().rev().find_map(|heard| match heard {
            Heard::Event(number) | Heard::Cursor(number) => Some(*number),
            Heard::Gap(_) => None,
        })
    }

    /// The place behind the event `number` as a poll was told it.
    pub(in crate::sim) fn told_place(&self, number: u64) -> Option<String> {
        let is_it = |place: &&String| self::number(&place[..16]) == number;
        self.next.as_ref().filter(is_it).cloned()
    }

    /// Takes note of the answers that have come whole.
    pub(in crate::sim) fn hear_answers(&mut self) {
        let Some(connection) = &mut self.online else { return };
        while let Some((answer, len)) = polls::Answer::read(&connection.got) {
            connection.got.drain(..len);
            connection.idle = true;
            let read = |place: &String| {
                let (id, gap_up_to) = EventId::parse_place(place.as_bytes()).expect("a place");
                (id.number(), gap_up_to)
            };
            let next = answer.next.as_ref().map(read);
            if answer.gap {
                let (number, gap_up_to) = next.expect("a gap has an end");
                self.heard.push(Heard::Gap(number.max(gap_up_to)));
                let known = self.next.as_ref().map_or(0, |place| read(place).1);
                self.told_again += usize::from(known > 0 && number.max(gap_up_to) <= known);
            }
            self.next = answer.next.or(self.next.take());
            let ids = answer.body.split("{\"id\":\"").skip(1).map(|event| &event[..16]);
            self.heard.extend(ids.map(|id| Heard::Event(number(id))));
            self.heard.extend(next.map(|(number, _)| Heard::Cursor(number)));
        }
    }

    /// Takes note of all that is whole in what one connection has got.
    pub(in crate::sim) fn hear(&mut self, got: &[u8], resumed_at: u64) {
        if self.transport == Transport::WebSocket {
            return self.hear_messages(got, resumed_at);
        }
        let text = str::from_utf8(got).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return };
        self.hear_head(head);
        let body = match self.carrier {
            Carrier::Chunked => dechunk(body),
            _ => body.to_string(),
        };
        let end = if self.transport == Transport::Sse { "\n\n" } else { "\n" };
        let mut blocks: Vec<&str> = body.split(end).collect();
        // What stands behind the last end is cut.
        blocks.pop();
        for block in blocks {
            let id = block.strip_prefix("id: ");
            let heard = match (self.transport, id) {
                (Transport::Sse, Some(id)) if id.contains("\ndata: ") => {
                    Heard::Event(number(&id[..16]))
                }
                (Transport::Sse, Some(id)) => Heard::Cursor(number(&id[..16])),
                _ if block == "event: gap\ndata: {}" || block == "{\"gap\":true}" => {
                    Heard::Gap(resumed_at)
                }
                (Transport::Sse, None) => {
                    let id = block.strip_prefix("event: gap\nid: ").expect("a gap");
                    self.heard.push(Heard::Gap(resumed_at));
                    Heard::Cursor(number(id.strip_suffix("\ndata: {}").expect("a gap's end")))
                }
                _ => Heard::Event(number(&block["{\"id\":\"".len()..][..16])),
            };
            self.heard.push(heard);
        }
    }

    /// The head says where the stream begins. Who was told of a gap there, and not yet in the
    /// stream, must come back with the place of before.
    fn hear_head(&mut self, head: &str) {
        let field = |name| head.lines().find_map(|line| line.strip_prefix(name));
        if let (Some(next), None) = (field("Encke-Next: "), field("Encke-Gap: ")) {
            self.heard.push(Heard::Cursor(number(next)));
        }
    }

    /// The same on a WebSocket. Its model goes by what it is answered when it pings, which may be a
    /// place before that of its head.
    fn hear_messages(&mut self, got: &[u8], resumed_at: u64) {
        let Some(head) = got.windows(4).position(|four| four == b"\r\n\r\n") else { return };
        for text in server_texts(&got[head + 4..]) {
            let id = |before: &str| text.strip_prefix(before).map(|rest| &rest[..16]);
            let heard = match (id("{\"id\":\""), id("{\"ok\":{\"ping\":1,\"next\":\"")) {
                (Some(id), _) => Heard::Event(number(id)),
                (None, Some(next)) => Heard::Cursor(number(next)),
                (None, None) if text == "{\"gap\":true}" => Heard::Gap(resumed_at),
                (None, None) if text.starts_with("{\"ok\":{\"login\":[") => continue,
                // Not as long as it is not known what was missed.
                (None, None) => {
                    assert_eq!(text, "{\"ok\":{\"ping\":1}}");
                    continue;
                }
            };
            self.heard.push(heard);
        }
    }
}

/// Whether who is logged in under `ids` is in the audience of `about`.
fn hears(graph: &Graph, ids: &[String], about: &String) -> bool {
    let followers = graph.followers.get(about);
    ids.iter().any(|id| id == about || followers.is_some_and(|all| all.contains(id)))
}

fn number(id: &str) -> u64 {
    EventId::parse(id.as_bytes()).expect("an id of ours").number()
}
