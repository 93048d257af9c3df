//! The answer to a poll: all events that wait, as one array.
//!
//! Its usual case is one event in the record: head, event and end go out in one call and nothing is
//! allocated. Else head and end are put around what waits in the backlog.

use std::io::IoSlice;
use std::iter;

use proto::poll;
use smallvec::SmallVec;

use super::{Flushed, send};
use crate::backlog::Piece;
use crate::conn::Conn;
use crate::counters::Counters;
use crate::sockets::Sockets;

/// What an array will hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Elements {
    /// Bytes of all of them.
    pub(crate) len: usize,
    /// The number of the last one.
    pub(crate) last: Option<u64>,
}

impl<S> Conn<S> {
    /// The events that wait, for a poll that has not been answered.
    pub(crate) fn elements(&self) -> Elements {
        let queued = self.work().into_iter().flat_map(|work| work.backlog.events());
        let mut elements = Elements::default();
        let form = self.form();
        for (before, event) in (0..).zip(queued.chain(&self.pending)) {
            elements.len += form.body(event, before).len();
            elements.last = Some(event.number());
        }
        elements
    }

    /// Sends `head`, the events that wait, and the end of the array; what the kernel does not take
    /// becomes the backlog.
    pub(crate) fn send_array<K>(&mut self, head: &[u8], io: &mut K, counters: &Counters) -> Flushed
    where
        K: Sockets<Socket = S>,
    {
        self.messages = 0;
        if self.work().is_some_and(|work| !work.backlog.is_empty()) {
            self.surround(head);
            return self.flush(io, counters, &mut Vec::new());
        }
        let form = self.form();
        let event = self.pending.as_deref().map(|event| form.body(event, 0));
        let parts: SmallVec<[IoSlice<'_>; 3]> =
            iter::once(head).chain(event).chain([poll::ARRAY_END]).map(IoSlice::new).collect();
        let whole: usize = parts.iter().map(|part| part.len()).sum();
        let sent = match send(io, &self.socket, &parts, counters) {
            Ok(sent) => sent,
            Err(error) => return Flushed::Gone(error),
        };
        drop(parts);
        if sent == whole {
            self.pending = None;
            return Flushed::All;
        }
        self.surround(head);
        self.consume(sent);
        Flushed::Blocked
    }

    /// Puts `head` before everything that waits, and the end of the array behind it.
    fn surround(&mut self, head: &[u8]) {
        self.queue_pending();
        let form = self.form();
        let backlog = self.backlog();
        backlog.push_front(Piece::Reply(head.into()), form);
        backlog.push(Piece::Reply(poll::ARRAY_END.into()), form);
    }
}
