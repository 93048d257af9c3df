//! What waits for a connection that cannot be written to at once, in its order.
//!
//! Of events it holds pointers to frames that all connections share; no payload is copied. Bytes
//! that are no event (an answer, a reply, the end of the stream) stand between them as they came:
//! never inside an event, and nothing overtakes anything.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use proto::{Format, classic};
use smallvec::SmallVec;

use crate::Event;
use crate::form::Form;
use crate::limits::PARTS_PER_WRITE;

/// Counted for the part of a classic message that is made at each write.
const CLASSIC_PREFIX_BYTES: usize = 24;

/// Counted for a reply beside its bytes: its place in the queue and its allocation. Without it a
/// client could have us keep many times the bound in replies of two bytes.
const REPLY_COST_BYTES: usize = 64;

/// From this length on that makes no difference.
const LONG_REPLY_BYTES: usize = 4096;

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
pub(crate) enum Piece {
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

    /// Puts `piece` behind all others.
    pub(crate) fn push(&mut self, piece: Piece, form: Form) {
        self.bytes += piece.cost(form);
        self.pieces.push_back(piece);
    }

    /// Puts `piece` before all others, of which nothing is sent.
    pub(crate) fn push_front(&mut self, piece: Piece, form: Form) {
        debug_assert_eq!(self.sent, 0);
        self.bytes += piece.cost(form);
        self.pieces.push_front(piece);
    }

    /// All that waits, in its order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter()
    }

    /// Bytes of the first piece that are sent.
    pub(crate) fn sent(&self) -> usize {
        self.sent
    }

    /// The events that wait.
    pub(crate) fn events(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Event(event) => Some(event),
            Piece::Reply(_) => None,
        })
    }

    /// Takes `sent` bytes off the front, when `messages` have been sent before; returns how many
    /// have been then.
    pub(crate) fn consume(&mut self, sent: usize, form: Form, mut messages: u32) -> u32 {
        self.sent += sent;
        while let Some(piece) = self.pieces.front() {
            let len = piece.len(form, messages);
            if self.sent < len {
                break;
            }
            self.sent -= len;
            self.bytes -= piece.cost(form);
            messages = messages.wrapping_add(u32::from(piece.is_event()));
            self.pieces.pop_front();
        }
        debug_assert!(!self.is_empty() || (self.sent, self.bytes) == (0, 0));
        messages
    }

    /// What one write sends: the rest of the first piece, and more of them.
    pub(crate) fn parts<'b>(
        &'b self,
        prefixes: &'b Prefixes,
        form: Form,
        mut messages: u32,
    ) -> SmallVec<[IoSlice<'b>; PARTS_PER_WRITE]> {
        let mut parts = SmallVec::new();
        let mut prefixes = prefixes.0.iter();
        let mut skip = self.sent;
        let mut push = |bytes: &'b [u8]| {
            let skipped = skip.min(bytes.len());
            skip -= skipped;
            if skipped < bytes.len() {
                parts.push(IoSlice::new(&bytes[skipped..]));
            }
        };
        let two_parts_each = form.format == Format::Classic;
        let most = if two_parts_each { PARTS_PER_WRITE / 2 } else { PARTS_PER_WRITE };
        for piece in self.pieces.iter().take(most) {
            match piece {
                Piece::Reply(bytes) => push(bytes),
                Piece::Event(event) => {
                    if let Some(prefix) = prefixes.next() {
                        push(prefix.as_bytes());
                    }
                    push(form.body(event, messages));
                    messages = messages.wrapping_add(1);
                }
            }
        }
        parts
    }
}

impl Piece {
    pub(crate) fn is_event(&self) -> bool {
        matches!(self, Piece::Event(_))
    }

    /// Appends its bytes on the wire, when `messages` have been sent before it.
    pub(crate) fn write(&self, form: Form, messages: u32, out: &mut Vec<u8>) {
        match self {
            Piece::Reply(bytes) => out.extend_from_slice(bytes),
            Piece::Event(event) => {
                if let Some(prefix) = form.prefix(event, messages) {
                    out.extend_from_slice(prefix.as_bytes());
                }
                out.extend_from_slice(form.body(event, messages));
            }
        }
    }

    /// Its bytes on the wire, when `messages` have been sent before it.
    fn len(&self, form: Form, messages: u32) -> usize {
        match self {
            Piece::Reply(bytes) => bytes.len(),
            Piece::Event(event) => {
                let prefix = form.prefix(event, messages);
                let body = form.body(event, messages);
                prefix.map_or(0, |prefix| prefix.as_bytes().len()) + body.len()
            }
        }
    }

    /// The bytes that it counts for in a backlog.
    fn cost(&self, form: Form) -> usize {
        match self {
            Piece::Reply(bytes) if bytes.len() < LONG_REPLY_BYTES => bytes.len() + REPLY_COST_BYTES,
            Piece::Reply(bytes) => bytes.len(),
            Piece::Event(event) => {
                let is_classic = form.format == Format::Classic;
                let prefix = if is_classic { CLASSIC_PREFIX_BYTES } else { 0 };
                form.frame(event).body().len() + prefix
            }
        }
    }
}

/// The numbered starts of classic messages, one per event that one write may hold.
pub(crate) struct Prefixes(SmallVec<[classic::Prefix; PARTS_PER_WRITE / 2]>);

impl Prefixes {
    pub(crate) fn of(backlog: &Backlog, form: Form, messages: u32) -> Prefixes {
        let pieces = backlog.pieces.iter().take(PARTS_PER_WRITE / 2);
        let events = pieces.filter_map(|piece| match piece {
            Piece::Event(event) => Some(event),
            Piece::Reply(_) => None,
        });
        let numbered = (messages..).zip(events);
        let prefix = |(before, event): (u32, &Arc<Event>)| form.prefix(event, before);
        Prefixes(numbered.map_while(prefix).collect())
    }
}
