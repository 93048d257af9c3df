//! What a connection still has to be sent, and the one write per turn that sends it.
//!
//! The usual case has no queue: the turn's one event sits in the record, goes out in one `send` and
//! is gone. Only a second event in the same turn, or a kernel without room, makes a
//! [backlog](crate::backlog).

mod array;
mod held;

use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;

use proto::Format;

pub(crate) use self::held::Missed;
use crate::Event;
use crate::backlog::{Piece, Prefixes};
use crate::conn::{Conn, Marks};
use crate::counters::Counters;
use crate::form::Form;
use crate::sockets::Sockets;

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
        Form { format: self.wire.format(), carrier: self.wire.carrier(), deflate }
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
        backlog.bytes()
    }

    /// Puts bytes that are no event last and returns the bytes that wait, as
    /// [`Conn::push_event`] does.
    pub(crate) fn push_reply(&mut self, bytes: &[u8]) -> usize {
        self.queue_pending();
        let form = self.form();
        let backlog = self.backlog();
        backlog.push(Piece::Reply(bytes.into()), form);
        backlog.bytes()
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

    /// All bytes that wait, from the first that is not sent on, and how many messages will have
    /// been sent with them; `None` when nothing waits.
    pub(crate) fn unsent(&self) -> Option<(Vec<u8>, u32)> {
        let backlog = self.work().map(|work| &work.backlog);
        let pieces = backlog.into_iter().flat_map(|backlog| backlog.pieces());
        let sent = backlog.map_or(0, |backlog| backlog.sent());
        let (form, mut messages, mut bytes) = (self.form(), self.messages, Vec::new());
        for piece in pieces {
            piece.write(form, messages, &mut bytes);
            messages = messages.wrapping_add(u32::from(piece.is_event()));
        }
        if let Some(event) = &self.pending {
            Piece::Event(event.clone()).write(form, messages, &mut bytes);
            messages = messages.wrapping_add(1);
        }
        bytes.drain(..sent);
        (!bytes.is_empty()).then_some((bytes, messages))
    }

    /// Bytes that wait in the backlog.
    pub(crate) fn backlog_bytes(&self) -> usize {
        self.work().map_or(0, |work| work.backlog.bytes())
    }

    /// How many of them are sent: a part of the first piece.
    pub(crate) fn backlog_sent(&self) -> usize {
        self.work().map_or(0, |work| work.backlog.sent())
    }

    /// Writes what waits: one call, or as many as the bound on parts asks for.
    /// `buffer` is for what nobody else is sent.
    pub(crate) fn flush<K>(
        &mut self,
        io: &mut K,
        counters: &Counters,
        buffer: &mut Vec<u8>,
    ) -> Flushed
    where
        K: Sockets<Socket = S>,
    {
        if self.work().is_none()
            && self.wire.format() != Format::Classic
            && let Some(done) = self.flush_pending(io, counters, buffer)
        {
            return done;
        }
        self.queue_pending();
        let flushed = self.flush_backlog(io, counters);
        if matches!(flushed, Flushed::All) {
            self.tidy();
        }
        flushed
    }

    /// The usual case. `None` when something is left for the backlog.
    fn flush_pending<K>(
        &mut self,
        io: &mut K,
        counters: &Counters,
        buffer: &mut Vec<u8>,
    ) -> Option<Flushed>
    where
        K: Sockets<Socket = S>,
    {
        let Some(event) = &self.pending else { return Some(Flushed::All) };
        let form = self.form();
        let bytes = match form.encode_alone(event, buffer) {
            true => buffer.as_slice(),
            false => form.frame(event).for_carrier(form.carrier),
        };
        let sent = match send(io, &self.socket, &[IoSlice::new(bytes)], counters) {
            Ok(sent) => sent,
            Err(error) => return Some(Flushed::Gone(error)),
        };
        if sent == bytes.len() {
            self.pending = None;
            return Some(Flushed::All);
        }
        self.queue_pending();
        self.consume(sent);
        Some(Flushed::Blocked)
    }

    fn queue_pending(&mut self) {
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
            let parts = backlog.parts(&prefixes, form, messages);
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
        self.messages = work.backlog.consume(sent, form, messages);
    }
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
