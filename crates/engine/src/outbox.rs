//! What a connection still has to be sent, and the one write per turn that sends it.
//!
//! The usual case has no queue: the turn's one event sits in the record, goes out in one `send` and
//! is gone. Only a second event in the same turn, or a kernel without room, makes a [`Backlog`].
//! It holds pointers to frames that all connections share; no payload is copied.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;

use proto::{Frame, Transport, classic, ndjson, sse};
use smallvec::SmallVec;

use crate::Event;
use crate::conn::Conn;
use crate::counters::Counters;
use crate::limits::PARTS_PER_WRITE;
use crate::sockets::Sockets;

/// Counted for the part of a classic message that is made at each write.
const CLASSIC_PREFIX_BYTES: usize = 24;

/// Unsent things in their order: an answer's bytes, events, and the end of the stream.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    answer: Vec<u8>,
    answer_sent: usize,
    events: VecDeque<Arc<Event>>,
    /// Bytes of the first event that are sent.
    event_sent: usize,
    end: &'static [u8],
    /// Unsent bytes, to be held against the bound: the answer's and those of whole events.
    bytes: usize,
}

impl Backlog {
    pub(crate) fn is_empty(&self) -> bool {
        self.answer.is_empty() && self.events.is_empty() && self.end.is_empty()
    }
}

/// How a flush ended.
#[derive(Debug)]
pub(crate) enum Flushed {
    /// The kernel has it all.
    All,
    /// The kernel has no more room; it will report when it has.
    Blocked,
    /// The connection is broken.
    Gone(io::Error),
}

impl<S> Conn<S> {
    /// Puts `event` last and returns the bytes that wait. They may be over the bound: the caller
    /// decides.
    pub(crate) fn push_event(&mut self, event: &Arc<Event>) -> usize {
        if self.is_flushed() {
            self.pending = Some(event.clone());
            return 0;
        }
        let transport = self.transport;
        let pending = self.pending.take();
        let backlog = &mut self.rare().backlog;
        for event in pending.into_iter().chain([event.clone()]) {
            backlog.bytes += cost(&event, transport);
            backlog.events.push_back(event);
        }
        backlog.bytes
    }

    /// Sends the bytes of an answer on a connection for which nothing waits; what the kernel does
    /// not take becomes its backlog.
    pub(crate) fn send_now<K>(&mut self, bytes: &[u8], io: &mut K, counters: &Counters) -> Flushed
    where
        K: Sockets<Socket = S>,
    {
        debug_assert!(self.is_flushed());
        let sent = match send(io, &self.socket, &[IoSlice::new(bytes)], counters) {
            Ok(sent) if sent == bytes.len() => return Flushed::All,
            Ok(sent) => sent,
            Err(error) => return Flushed::Gone(error),
        };
        let backlog = &mut self.rare().backlog;
        backlog.answer = bytes[sent..].to_vec();
        backlog.bytes += backlog.answer.len();
        Flushed::Blocked
    }

    /// Puts the end of the stream last.
    pub(crate) fn push_end(&mut self) {
        let end = self.framing.end();
        if !end.is_empty() {
            self.unpend();
            self.rare().backlog.end = end;
        }
    }

    /// Bytes that wait in the backlog.
    pub(crate) fn backlog_bytes(&self) -> usize {
        self.rare.as_ref().map_or(0, |rare| rare.backlog.bytes)
    }

    /// Writes what waits: one call, or as many as the bound on parts asks for.
    pub(crate) fn flush<K>(&mut self, io: &mut K, counters: &Counters) -> Flushed
    where
        K: Sockets<Socket = S>,
    {
        if self.rare.is_none()
            && self.transport != Transport::Classic
            && let Some(done) = self.flush_pending(io, counters)
        {
            return done;
        }
        self.unpend();
        let flushed = self.flush_backlog(io, counters);
        if matches!(flushed, Flushed::All) {
            self.tidy();
        }
        flushed
    }

    /// The usual case. `None` when something is left for the backlog.
    fn flush_pending<K>(&mut self, io: &mut K, counters: &Counters) -> Option<Flushed>
    where
        K: Sockets<Socket = S>,
    {
        let Some(event) = &self.pending else { return Some(Flushed::All) };
        let bytes = frame(event, self.transport).for_framing(self.framing);
        let sent = match send(io, &self.socket, &[IoSlice::new(bytes)], counters) {
            Ok(sent) => sent,
            Err(error) => return Some(Flushed::Gone(error)),
        };
        if sent == bytes.len() {
            self.pending = None;
            return Some(Flushed::All);
        }
        self.unpend();
        self.rare().backlog.event_sent = sent;
        Some(Flushed::Blocked)
    }

    fn unpend(&mut self) {
        let transport = self.transport;
        if let Some(event) = self.pending.take() {
            let backlog = &mut self.rare().backlog;
            backlog.bytes += cost(&event, transport);
            backlog.events.push_back(event);
        }
    }

    fn flush_backlog<K>(&mut self, io: &mut K, counters: &Counters) -> Flushed
    where
        K: Sockets<Socket = S>,
    {
        while !self.is_flushed() {
            let Some(backlog) = self.rare.as_deref_mut().map(|rare| &mut rare.backlog) else {
                break;
            };
            let prefixes = Prefixes::of(backlog, self.transport, self.framing, self.messages);
            let parts = parts(backlog, &prefixes, self.transport, self.framing);
            let whole: usize = parts.iter().map(|part| part.len()).sum();
            let sent = match send(io, &self.socket, &parts, counters) {
                Ok(sent) => sent,
                Err(error) => return Flushed::Gone(error),
            };
            drop(parts);
            drop(prefixes);
            self.consume(sent);
            if sent < whole {
                return Flushed::Blocked;
            }
        }
        Flushed::All
    }

    /// Takes `sent` bytes off the front of the backlog.
    fn consume(&mut self, mut sent: usize) {
        let (transport, framing) = (self.transport, self.framing);
        let Some(backlog) = self.rare.as_deref_mut().map(|rare| &mut rare.backlog) else { return };
        let answer = sent.min(backlog.answer.len() - backlog.answer_sent);
        backlog.answer_sent += answer;
        backlog.bytes -= answer;
        sent -= answer;
        if backlog.answer_sent == backlog.answer.len() {
            (backlog.answer, backlog.answer_sent) = (Vec::new(), 0);
        }
        while let Some(event) = backlog.events.front() {
            let tail = frame(event, transport);
            let prefix = prefix(tail, transport, framing, self.messages);
            let len = prefix.as_ref().map_or(0, |prefix| prefix.as_bytes().len())
                + tail.for_framing(framing).len();
            if backlog.event_sent + sent < len {
                backlog.event_sent += sent;
                return;
            }
            sent -= len - backlog.event_sent;
            backlog.event_sent = 0;
            backlog.bytes -= cost(event, transport);
            backlog.events.pop_front();
            self.messages = self.messages.wrapping_add(1);
        }
        backlog.end = &backlog.end[sent..];
    }
}

/// The numbered starts of classic messages, one per event that this write may hold.
struct Prefixes(SmallVec<[classic::Prefix; PARTS_PER_WRITE / 2]>);

impl Prefixes {
    fn of(
        backlog: &Backlog,
        transport: Transport,
        framing: proto::Framing,
        messages: u32,
    ) -> Prefixes {
        let events = backlog.events.iter().take(PARTS_PER_WRITE / 2);
        let numbered = (messages..).zip(events);
        Prefixes(
            numbered
                .map_while(|(before, event)| {
                    prefix(frame(event, transport), transport, framing, before)
                })
                .collect(),
        )
    }
}

/// What one write sends: the rest of the answer, events, and the end if everything before it fits.
fn parts<'b>(
    backlog: &'b Backlog,
    prefixes: &'b Prefixes,
    transport: Transport,
    framing: proto::Framing,
) -> SmallVec<[IoSlice<'b>; PARTS_PER_WRITE]> {
    let mut parts = SmallVec::new();
    let answer = &backlog.answer[backlog.answer_sent..];
    if !answer.is_empty() {
        parts.push(IoSlice::new(answer));
    }
    let mut skip = backlog.event_sent;
    let mut push = |parts: &mut SmallVec<_>, bytes: &'b [u8]| {
        let skipped = skip.min(bytes.len());
        skip -= skipped;
        if skipped < bytes.len() {
            parts.push(IoSlice::new(&bytes[skipped..]));
        }
    };
    // An event needs two parts at most, and the end one.
    let mut whole = true;
    for (index, event) in backlog.events.iter().enumerate() {
        let numbered = transport != Transport::Classic || index < prefixes.0.len();
        if parts.len() + 3 > PARTS_PER_WRITE || !numbered {
            whole = false;
            break;
        }
        if let Some(prefix) = prefixes.0.get(index) {
            push(&mut parts, prefix.as_bytes());
        }
        push(&mut parts, frame(event, transport).for_framing(framing));
    }
    if whole && !backlog.end.is_empty() {
        parts.push(IoSlice::new(backlog.end));
    }
    parts
}

/// One call; no room is 0 bytes.
fn send<K: Sockets>(
    io: &mut K,
    socket: &K::Socket,
    parts: &[IoSlice<'_>],
    counters: &Counters,
) -> io::Result<usize> {
    counters.writes.add(1);
    loop {
        match io.send(socket, parts) {
            Ok(sent) => {
                counters.bytes_sent.add(sent as u64);
                return Ok(sent);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The event as `transport` sends it, encoded when nobody has needed it before.
fn frame(event: &Event, transport: Transport) -> &Frame {
    event.frame(transport.index(), |event| match transport {
        Transport::Sse => sse::event(event.id(), event.json()),
        Transport::Ndjson => ndjson::event(event.json()),
        Transport::Classic => classic::message(event.data()),
    })
}

/// The start of the message after `before` others; only the classic page has one.
fn prefix(
    tail: &Frame,
    transport: Transport,
    framing: proto::Framing,
    before: u32,
) -> Option<classic::Prefix> {
    let number = u64::from(before) + 1;
    (transport == Transport::Classic).then(|| classic::Prefix::new(number, tail, framing))
}

/// The bytes that an event counts for in a backlog.
fn cost(event: &Event, transport: Transport) -> usize {
    let prefix = if transport == Transport::Classic { CLASSIC_PREFIX_BYTES } else { 0 };
    frame(event, transport).body().len() + prefix
}
