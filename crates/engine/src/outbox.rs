//! What a connection still has to be sent, and the one write per turn that sends it.
//!
//! The usual case has no queue: the turn's one event sits in the record, goes out in one `send` and
//! is gone. Only a second event in the same turn, or a kernel without room, makes a [`Backlog`].
//! Of events it holds pointers to frames that all connections share; no payload is copied. Bytes
//! that are no event (an answer, a reply, the end of the stream) stand between them as they came:
//! never inside an event, and nothing overtakes anything.
//!
//! An event has a frame for each transport, and a compressed one ([`compress`]).

mod array;
mod held;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;

use proto::websocket::deflate::Deflater;
use proto::{Frame, Framing, Transport, classic, ndjson, poll, sse, websocket};
use smallvec::SmallVec;

use crate::conn::{Conn, Marks};
use crate::counters::Counters;
use crate::limits::PARTS_PER_WRITE;
use crate::sockets::Sockets;
use crate::{COMPRESSED_SLOT, Event};

/// Counted for the part of a classic message that is made at each write.
const CLASSIC_PREFIX_BYTES: usize = 24;

/// Counted for a reply beside its bytes: its place in the queue and its allocation. Without it a
/// client could have us keep many times the bound in replies of two bytes.
const REPLY_COST_BYTES: usize = 64;

/// How events look on one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Form {
    transport: Transport,
    framing: Framing,
    /// A WebSocket may be sent the compressed frame.
    deflate: bool,
}

/// Unsent things in their order.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are sent.
    sent: usize,
    /// What the pieces count for, to be held against the bound.
    bytes: usize,
}

/// What is sent whole before the next one begins.
#[derive(Debug)]
enum Piece {
    Event(Arc<Event>),
    /// Bytes of this connection alone.
    Reply(Box<[u8]>),
}

const _: () = assert!(size_of::<Piece>() == 16);

impl Backlog {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// What waits, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn push(&mut self, piece: Piece, form: Form) {
        self.bytes += piece.cost(form);
        self.pieces.push_back(piece);
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
    fn form(&self) -> Form {
        let deflate = self.is(Marks::DEFLATE);
        Form { transport: self.transport, framing: self.framing, deflate }
    }

    /// Puts `event` last and returns the bytes that wait. They may be over the bound: the caller
    /// decides.
    pub(crate) fn push_event(&mut self, event: &Arc<Event>) -> usize {
        if self.is_flushed() {
            self.pending = Some(event.clone());
            return 0;
        }
        let (form, pending) = (self.form(), self.pending.take());
        let backlog = self.backlog();
        for event in pending.into_iter().chain([event.clone()]) {
            backlog.push(Piece::Event(event), form);
        }
        backlog.bytes
    }

    /// Puts bytes that are no event last and returns the bytes that wait, as
    /// [`Conn::push_event`] does.
    pub(crate) fn push_reply(&mut self, bytes: &[u8]) -> usize {
        self.unpend();
        let form = self.form();
        let backlog = self.backlog();
        backlog.push(Piece::Reply(bytes.into()), form);
        backlog.bytes
    }

    /// Sends bytes that are no event on a connection for which nothing waits; what the kernel does
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
        self.push_reply(&bytes[sent..]);
        Flushed::Blocked
    }

    /// Bytes that wait in the backlog.
    pub(crate) fn backlog_bytes(&self) -> usize {
        self.work().map_or(0, |work| work.backlog.bytes)
    }

    /// Writes what waits: one call, or as many as the bound on parts asks for.
    pub(crate) fn flush<K>(&mut self, io: &mut K, counters: &Counters) -> Flushed
    where
        K: Sockets<Socket = S>,
    {
        if self.work().is_none()
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
        let bytes = frame(event, self.form()).for_framing(self.framing);
        let sent = match send(io, &self.socket, &[IoSlice::new(bytes)], counters) {
            Ok(sent) => sent,
            Err(error) => return Some(Flushed::Gone(error)),
        };
        if sent == bytes.len() {
            self.pending = None;
            return Some(Flushed::All);
        }
        self.unpend();
        self.backlog().sent = sent;
        Some(Flushed::Blocked)
    }

    fn unpend(&mut self) {
        let form = self.form();
        if let Some(event) = self.pending.take() {
            self.backlog().push(Piece::Event(event), form);
        }
    }

    fn flush_backlog<K>(&mut self, io: &mut K, counters: &Counters) -> Flushed
    where
        K: Sockets<Socket = S>,
    {
        let form = self.form();
        while !self.is_flushed() {
            let messages = self.messages;
            let Some(backlog) = self.work().map(|work| &work.backlog) else { break };
            let prefixes = Prefixes::of(backlog, form, messages);
            let parts = parts(backlog, &prefixes, form, messages);
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
    fn consume(&mut self, sent: usize) {
        let (form, messages) = (self.form(), self.messages);
        let Some(work) = self.some_work() else { return };
        let (backlog, mut messages) = (&mut work.backlog, messages);
        backlog.sent += sent;
        while let Some(piece) = backlog.pieces.front() {
            let len = piece.len(form, messages);
            if backlog.sent < len {
                break;
            }
            backlog.sent -= len;
            backlog.bytes -= piece.cost(form);
            messages = messages.wrapping_add(u32::from(piece.is_event()));
            backlog.pieces.pop_front();
        }
        debug_assert!(!backlog.is_empty() || (backlog.sent, backlog.bytes) == (0, 0));
        self.messages = messages;
    }
}

impl Piece {
    fn is_event(&self) -> bool {
        matches!(self, Piece::Event(_))
    }

    /// Its bytes on the wire, when `messages` have been sent before it.
    fn len(&self, form: Form, messages: u32) -> usize {
        match self {
            Piece::Reply(bytes) => bytes.len(),
            Piece::Event(event) => {
                let prefix = prefix(frame(event, form), form, messages);
                let body = body(event, form, messages);
                prefix.map_or(0, |prefix| prefix.as_bytes().len()) + body.len()
            }
        }
    }

    /// The bytes that it counts for in a backlog.
    fn cost(&self, form: Form) -> usize {
        match self {
            Piece::Reply(bytes) => bytes.len() + REPLY_COST_BYTES,
            Piece::Event(event) => {
                let is_classic = form.transport == Transport::Classic;
                let prefix = if is_classic { CLASSIC_PREFIX_BYTES } else { 0 };
                frame(event, form).body().len() + prefix
            }
        }
    }
}

/// The numbered starts of classic messages, one per event that this write may hold.
struct Prefixes(SmallVec<[classic::Prefix; PARTS_PER_WRITE / 2]>);

impl Prefixes {
    fn of(backlog: &Backlog, form: Form, messages: u32) -> Prefixes {
        let pieces = backlog.pieces.iter().take(PARTS_PER_WRITE / 2);
        let events = pieces.filter_map(|piece| match piece {
            Piece::Event(event) => Some(event),
            Piece::Reply(_) => None,
        });
        let numbered = (messages..).zip(events);
        let prefix = |(before, event): (u32, &Arc<Event>)| prefix(frame(event, form), form, before);
        Prefixes(numbered.map_while(prefix).collect())
    }
}

/// What one write sends: the rest of the first piece, and more of them.
fn parts<'b>(
    backlog: &'b Backlog,
    prefixes: &'b Prefixes,
    form: Form,
    mut messages: u32,
) -> SmallVec<[IoSlice<'b>; PARTS_PER_WRITE]> {
    let mut parts = SmallVec::new();
    let mut prefixes = prefixes.0.iter();
    let mut skip = backlog.sent;
    let mut push = |bytes: &'b [u8]| {
        let skipped = skip.min(bytes.len());
        skip -= skipped;
        if skipped < bytes.len() {
            parts.push(IoSlice::new(&bytes[skipped..]));
        }
    };
    let two_parts_each = form.transport == Transport::Classic;
    let most = if two_parts_each { PARTS_PER_WRITE / 2 } else { PARTS_PER_WRITE };
    for piece in backlog.pieces.iter().take(most) {
        match piece {
            Piece::Reply(bytes) => push(bytes),
            Piece::Event(event) => {
                if let Some(prefix) = prefixes.next() {
                    push(prefix.as_bytes());
                }
                push(body(event, form, messages));
                messages = messages.wrapping_add(1);
            }
        }
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

/// Makes the compressed frame of `event`, unless somebody has; `true` if it is new.
///
/// Whoever hands an event to a connection that agreed to compression calls this before. Where
/// nobody did (an event out of the history), the frame that takes its place is not compressed,
/// which the extension leaves to each message (RFC 7692, section 6).
pub(crate) fn compress(event: &Event, deflater: &mut Deflater) -> bool {
    let mut is_new = false;
    event.frame(COMPRESSED_SLOT, |event| {
        is_new = true;
        deflater.event(event.json())
    });
    is_new
}

/// The event in that form, encoded when nobody has needed it before. Once encoded it stays the
/// same: what a connection has been sent in part must go on as it began.
fn frame(event: &Event, form: Form) -> &Frame {
    let slot = if form.deflate { COMPRESSED_SLOT } else { form.transport.index() };
    event.frame(slot, |event| match form.transport {
        Transport::Sse => sse::event(event.id(), event.json()),
        Transport::Ndjson => ndjson::event(event.json()),
        Transport::Classic => classic::message(event.data()),
        Transport::WebSocket => websocket::event(event.json()),
        Transport::Poll => poll::event(event.json()),
    })
}

/// The bytes of the event on the wire, when `messages` have been sent before it; behind its prefix,
/// if it has one.
fn body(event: &Event, form: Form, messages: u32) -> &[u8] {
    let frame = frame(event, form);
    match form.transport {
        Transport::Poll => poll::element(frame, messages as usize),
        _ => frame.for_framing(form.framing),
    }
}

/// The start of the message after `before` others; only the classic page has one.
fn prefix(tail: &Frame, form: Form, before: u32) -> Option<classic::Prefix> {
    let number = u64::from(before) + 1;
    let is_classic = form.transport == Transport::Classic;
    is_classic.then(|| classic::Prefix::new(number, tail, form.framing))
}
