//! One listener of the crowd: a descriptor and where its stream stands. It owns no buffer, save for
//! the moment in which a response head or an event is half there.

use std::os::fd::OwnedFd;

use client::{Event, HeadError, Progress, Reply, StreamDecoder, accepts, response_head};
use proto::Transport;
use tls::Handshake;

use crate::flood::coarse_time::CoarseTime;
use crate::flood::cursor::Cursor;
use crate::flood::role::Role;
use crate::flood::tally::{POSITION, Source, Tally};
use crate::flood::task::WEBSOCKET_KEY;
use crate::flood::{Closure, Failure};

/// One listener.
#[derive(Debug, Default)]
pub(super) struct Listener {
    pub(super) socket: Option<OwnedFd>,
    /// Counts the connections of this listener, so that a report about an old one is known as such.
    pub(super) attempt: u32,
    /// When the stream opened, that of polls with the first answer: milliseconds on the monotonic
    /// clock, cut to 32 bits; 0 as long as it never did.
    pub(super) opened_ms: u32,
    pub(super) phase: Phase,
    /// Whether the storm has reset its connection and it is to come back.
    pub(super) returning: bool,
    /// When the storm lets it connect again, until the stream that is resumed has told something.
    pub(super) due: Option<CoarseTime>,
    /// The id that it heard last: where its stream is resumed, or its next poll goes on.
    pub(super) cursor: Option<Cursor>,
    /// Whether the answer that is being read is the last one on its connection.
    closes: bool,
}

/// Which listener bytes have come for, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Its place in its thread.
    pub(super) slot: u32,
    pub(super) role: Role,
    pub(super) transport: Transport,
    pub(super) now_ns: u64,
    /// Whether all connections of the listener are one stream.
    pub(super) resumes: bool,
    /// If the listener has come back and resumes: when its connection was made, in milliseconds on
    /// the monotonic clock, cut to 32 bits.
    pub(super) came_back_ms: Option<u32>,
}

/// How far a listener is.
#[derive(Debug, Default)]
pub(super) enum Phase {
    /// It has no connection.
    #[default]
    Offline,
    /// The connection is being made.
    Connecting,
    /// TLS is agreed on.
    Handshaking(Handshake),
    /// The request is out; what came of the response's head, when it came in pieces.
    #[expect(clippy::box_collection, reason = "8 bytes a listener instead of 24; it is rare")]
    Head(Option<Box<Vec<u8>>>),
    /// The stream is open; of polls an answer is being read.
    Open(StreamDecoder),
    /// The stream is open: a further poll is out; what came of its answer's head.
    #[expect(clippy::box_collection, reason = "as above")]
    Polling(Option<Box<Vec<u8>>>),
    /// The stream is open, and this listener does not read it any more.
    Deaf,
}

/// What bytes of the server did to a listener.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// It goes on.
    On,
    /// Its poll is answered, and the next one is to be sent.
    Answered,
    /// The stream did not open.
    Failed(Failure, String),
    /// The open stream is over.
    Closed(Closure),
}

impl Listener {
    /// Whether the stream is open.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_) | Phase::Polling(_) | Phase::Deaf)
    }

    /// What the end of the connection means for the open stream: only a body without a length of
    /// its own may end so.
    pub(super) fn end_of_connection(&self) -> Closure {
        match &self.phase {
            Phase::Open(decoder) if decoder.ends_with_connection() => Closure::Ended,
            _ => Closure::Cut,
        }
    }

    /// Reads `bytes`, which have come as `arrival` says.
    pub(super) fn read(&mut self, arrival: Arrival, bytes: &[u8], tally: &mut Tally) -> Outcome {
        match &mut self.phase {
            Phase::Open(decoder) => {
                let Arrival { slot, role, now_ns, resumes, came_back_ms, .. } = arrival;
                let attempt = if resumes { 0 } else { self.attempt };
                let connection = u64::from(attempt) << 32 | u64::from(slot);
                let opened_ms = self.opened_ms;
                let source = Source { role, connection, opened_ms, came_back_ms };
                tally.of(role).body_bytes += bytes.len() as u64;
                let (cursor, due) = (&mut self.cursor, &mut self.due);
                let polls = arrival.transport == Transport::Poll;
                let progress = decoder.feed(bytes, |event| {
                    if resumes {
                        tally.told(due, now_ns);
                    }
                    // An event within a gap that an answer tells would have it told again.
                    if resumes && !(polls && matches!(cursor, Some(Cursor::Place(_)))) {
                        *cursor = id_of(&event).and_then(Cursor::read).or(cursor.take());
                    }
                    tally.event(source, event, now_ns);
                });
                match progress {
                    Ok(Progress::More) => Outcome::On,
                    Ok(Progress::End) if arrival.transport == Transport::Poll && !self.closes => {
                        self.phase = Phase::Polling(None);
                        Outcome::Answered
                    }
                    Ok(Progress::End) => Outcome::Closed(Closure::Ended),
                    Err(_) => Outcome::Closed(Closure::Malformed),
                }
            }
            Phase::Head(partial) | Phase::Polling(partial) => {
                let whole;
                let bytes = match partial.take() {
                    None => bytes,
                    Some(mut earlier) => {
                        earlier.extend_from_slice(bytes);
                        whole = earlier;
                        &whole[..]
                    }
                };
                self.read_head(arrival, bytes, tally)
            }
            Phase::Offline | Phase::Connecting | Phase::Handshaking(_) | Phase::Deaf => Outcome::On,
        }
    }

    /// What the server of a WebSocket is to be answered after a read.
    pub(super) fn take_reply(&mut self) -> Option<Reply> {
        match &mut self.phase {
            Phase::Open(decoder) => decoder.take_reply(),
            _ => None,
        }
    }

    /// Reads `bytes`, everything that came so far.
    fn read_head(&mut self, arrival: Arrival, bytes: &[u8], tally: &mut Tally) -> Outcome {
        let was_open = self.is_open();
        let head = match response_head(bytes) {
            Ok(Some(head)) => head,
            Ok(None) => {
                let partial = Some(Box::new(bytes.to_vec()));
                self.phase = if was_open { Phase::Polling(partial) } else { Phase::Head(partial) };
                return Outcome::On;
            }
            Err(_) if was_open => return Outcome::Closed(Closure::Malformed),
            Err(error @ (HeadError::Malformed | HeadError::TooLong | HeadError::UnknownLength)) => {
                return Outcome::Failed(Failure::Malformed, error.to_string());
            }
        };
        let body = &bytes[head.head_len..];
        let websocket = arrival.transport == Transport::WebSocket;
        let good_status = if websocket { 101 } else { 200 };
        if head.status != good_status && was_open {
            return Outcome::Closed(Closure::Malformed);
        }
        if head.status != good_status {
            // As much of the body as came along and fits into a line.
            let body = String::from_utf8_lossy(&body[..body.len().min(200)]);
            let words = format!("status {}: {}", head.status, body.trim());
            return Outcome::Failed(Failure::Status, words);
        }
        if websocket && !head.websocket_accept.is_some_and(|a| accepts(WEBSOCKET_KEY, a)) {
            let words = "the answer to the WebSocket's key is wrong".to_owned();
            return Outcome::Failed(Failure::Malformed, words);
        }
        tally.of(arrival.role).reached += u64::from(self.opened_ms == 0);
        // A stream that is resumed began when it was opened first.
        if !was_open && (!arrival.resumes || self.cursor.is_none()) {
            self.opened_ms = ((arrival.now_ns / 1_000_000) as u32).max(1);
        }
        let next = head.next.map(str::as_bytes).and_then(Cursor::read);
        if arrival.transport == Transport::Poll {
            self.cursor = next.or(self.cursor.take());
            self.closes = head.closes;
            tally.told(&mut self.due, arrival.now_ns);
            tally.of(arrival.role).told_gaps += u64::from(head.gap);
        } else if arrival.resumes && !head.gap {
            self.cursor = next.or(self.cursor.take());
        }
        self.phase = Phase::Open(StreamDecoder::new(arrival.transport, head.body));
        self.read(arrival, body, tally)
    }
}

/// The id that an event tells: in a line of its own, or in JSON as Encke writes it.
fn id_of<'e>(event: &Event<'e>) -> Option<&'e [u8]> {
    let in_json = |before: &[u8]| {
        let id = event.data.strip_prefix(before)?;
        Some(&id[..memchr::memchr(b'"', id)?])
    };
    event.id.or_else(|| in_json(b"{\"id\":\"")).or_else(|| in_json(POSITION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_is_small() {
        assert!(size_of::<Listener>() <= 80, "{} bytes", size_of::<Listener>());
    }
}
