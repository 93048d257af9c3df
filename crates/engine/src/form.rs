//! How an event looks on a connection: the frame of its format, encoded once for all, and what a
//! connection that numbers its messages puts before it.

use std::sync::Arc;

use proto::websocket::deflate::Deflater;
use proto::{Carrier, Format, Frame, classic, poll, sse};

use crate::{COMPRESSED_SLOT, Event, channels, mercure_config};

/// Who has an event that one connection is to be sent: this one, the history, and its sender, if
/// that is not done, with what it waits for.
const HOLDERS_OF_ONE: usize = 4;

/// Longer events are encoded for all: the buffer for one stays, and is a worker's.
const ALONE_BYTES_MAX: usize = 4096;

/// How events look on one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Form {
    pub(crate) format: Format,
    pub(crate) carrier: Carrier,
    /// A WebSocket may be sent the compressed frame.
    pub(crate) deflate: bool,
}

impl Form {
    /// The event in that form, encoded when nobody has needed it before. Once encoded it stays the
    /// same: what a connection has been sent in part must go on as it began.
    pub(crate) fn frame(self, event: &Event) -> &Frame {
        let slot = if self.deflate { COMPRESSED_SLOT } else { self.format.index() };
        event.frame(slot, |event| match self.format {
            Format::Pusher => channels::frame(event),
            Format::Mercure => mercure_config::frame(event),
            format => format.event(event.id(), event.json(), event.data()),
        })
    }

    /// Puts the bytes of the event into `buffer` when it is for this connection alone, as far as
    /// one can see, and is not encoded: a frame would be made for nobody else, and kept as long as
    /// the event is warm. `false`, and nothing is done, when it is to be had of its frame.
    ///
    /// It is a guess, and either answer is right: the bytes are the same ones.
    pub(crate) fn encode_alone(self, event: &Arc<Event>, buffer: &mut Vec<u8>) -> bool {
        let is_alone = self.format == Format::Sse
            && Arc::strong_count(event) <= HOLDERS_OF_ONE
            && event.json().len() <= ALONE_BYTES_MAX
            && event.made_frame(self.format.index()).is_none();
        if is_alone {
            buffer.clear();
            sse::push_event(event.id(), event.json(), self.carrier, buffer);
        }
        is_alone
    }

    /// The bytes of the event on the wire, when `messages` have been sent before it; behind its
    /// prefix, if it has one.
    pub(crate) fn body(self, event: &Event, messages: u32) -> &[u8] {
        let frame = self.frame(event);
        match self.format {
            Format::Poll => poll::element(frame, messages as usize),
            _ => frame.for_carrier(self.carrier),
        }
    }

    /// The start of the message after `before` others; only the classic page has one.
    pub(crate) fn prefix(self, event: &Event, before: u32) -> Option<classic::Prefix> {
        let number = u64::from(before) + 1;
        let is_classic = self.format == Format::Classic;
        is_classic.then(|| classic::Prefix::new(number, self.frame(event), self.carrier))
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
