//! The record of a connection: all that a silent one owns.

use std::sync::Arc;

use hub::{DisconnectReason, Id};
use proto::websocket::Reader;
use proto::{Framing, Transport};

use crate::Event;
use crate::outbox::Backlog;
use crate::slab::Slot;
use crate::timer::{Links, Tick, Timed};

/// Where a connection is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Its request head is not complete.
    Head,
    /// It is logged in and hears events; a poll until it has heard some, or long enough.
    Streaming,
    /// Its poll is answered, the answer perhaps not all sent, and no further request has begun.
    Between,
    /// It hears no more; its last bytes are being sent.
    Ending,
    /// Everything is sent and our side is ended; the client has not ended its own yet.
    Lingering,
}

/// The shard's queues of connections that have something to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Queue {
    /// In none.
    None,
    /// In none, and not to be written to: what it has missed is being looked up.
    Held,
    /// Written to before the turn ends.
    Express,
    /// Written to in its slice.
    Bulk,
}

/// One connection, in at most one cache line (with its slot's generation).
#[derive(Debug)]
pub(crate) struct Conn<S> {
    /// The one event to be written in this turn, or what is rare.
    pub(crate) pending: Option<Arc<Event>>,
    pub(crate) rare: Option<Box<Rare>>,
    /// The least of the ids that it is logged in under, or none; more of them are rare.
    id: Id,
    pub(crate) timer: Links,
    /// When we last wrote to it; before that, when it was accepted. Until when a poll waits.
    pub(crate) active: Tick,
    /// Messages of the classic page that are sent; it numbers them. Elements of a poll's array that
    /// are sent; the first has no comma.
    pub(crate) messages: u32,
    pub(crate) socket: S,
    pub(crate) phase: Phase,
    pub(crate) transport: Transport,
    /// How the body ends. A poll's always has a length: under [`Framing::Close`] the connection
    /// ends with it, else it may carry another.
    pub(crate) framing: Framing,
    pub(crate) marks: Marks,
    /// Why it ends, once it does.
    pub(crate) reason: DisconnectReason,
    /// In which of the shard's queues of connections to write to.
    pub(crate) queued: Queue,
    /// The kernel has no room; it will report when it has.
    pub(crate) blocked: bool,
    /// It is in the queue of those whose input waits for the next turn.
    pub(crate) deferred: bool,
}

const _: () = assert!(size_of::<Slot<Conn<std::os::fd::OwnedFd>>>() <= 64);

/// What a transport keeps of its client's request, in the one byte that there is: what the answer
/// to a poll is to say beside its events, and what a WebSocket's handshake agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Marks(u8);

impl Marks {
    const CORS: u8 = 1;
    const GAP: u8 = 2;
    const DEFLATE: u8 = 4;

    /// A poll by a page of another origin, or by somebody else.
    pub(crate) fn of_poll(cors: bool) -> Marks {
        Marks(if cors { Self::CORS } else { 0 })
    }

    /// A WebSocket whose messages may be compressed, or not.
    pub(crate) fn of_websocket(deflate: bool) -> Marks {
        Marks(if deflate { Self::DEFLATE } else { 0 })
    }

    /// The same, of a client that may have missed something.
    pub(crate) fn with_gap(self) -> Marks {
        Marks(self.0 | Self::GAP)
    }

    pub(crate) fn cors(self) -> bool {
        self.0 & Self::CORS != 0
    }

    pub(crate) fn gap(self) -> bool {
        self.0 & Self::GAP != 0
    }

    pub(crate) fn deflate(self) -> bool {
        self.0 & Self::DEFLATE != 0
    }
}

/// What most connections never need.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    /// The ids beside the least, in order.
    more_ids: Vec<Id>,
    /// A request head that is not complete yet.
    pub(crate) head: Vec<u8>,
    pub(crate) partial: Partial,
    pub(crate) backlog: Backlog,
}

/// What has come of a WebSocket's message that is not whole.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    pub(crate) reader: Reader,
    pub(crate) bytes: Vec<u8>,
}

impl<S> Conn<S> {
    pub(crate) fn new(socket: S, now: Tick) -> Conn<S> {
        Conn {
            pending: None,
            rare: None,
            id: Id::NONE,
            timer: Links::STOPPED,
            active: now,
            messages: 0,
            socket,
            phase: Phase::Head,
            transport: Transport::Ndjson,
            framing: Framing::Chunked,
            marks: Marks::default(),
            reason: DisconnectReason::ClientClosed,
            queued: Queue::None,
            blocked: false,
            deferred: false,
        }
    }

    pub(crate) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The ids it is logged in under, in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> + '_ {
        let more = self.rare.iter().flat_map(|rare| rare.more_ids.iter().copied());
        (self.id != Id::NONE).then_some(self.id).into_iter().chain(more)
    }

    /// Takes note of the ids that it is logged in under; they must be in order.
    pub(crate) fn set_ids(&mut self, ids: &[Id]) {
        let (first, more) = ids.split_first().map_or((Id::NONE, ids), |(&id, more)| (id, more));
        self.id = first;
        if !more.is_empty() || self.rare.is_some() {
            self.rare().more_ids = more.to_vec();
            self.tidy();
        }
    }

    /// Whether a request may be served now.
    pub(crate) fn awaits_request(&self) -> bool {
        self.phase == Phase::Head || (self.phase == Phase::Between && self.is_flushed())
    }

    /// Whether what the client sends belongs to requests.
    pub(crate) fn takes_requests(&self) -> bool {
        matches!(self.phase, Phase::Head | Phase::Between) || self.polls()
    }

    /// Whether it is a poll that has not been answered yet.
    pub(crate) fn polls(&self) -> bool {
        self.phase == Phase::Streaming && self.transport == Transport::Poll
    }

    /// Whether its client may send messages.
    pub(crate) fn hears_messages(&self) -> bool {
        self.transport == Transport::WebSocket && self.phase == Phase::Streaming
    }

    /// Whether everything has been given to the kernel.
    pub(crate) fn is_flushed(&self) -> bool {
        self.pending.is_none() && self.rare.as_ref().is_none_or(|rare| rare.backlog.is_empty())
    }

    /// Gives the rare box back when nothing is left in it.
    pub(crate) fn tidy(&mut self) {
        let idle = |rare: &Rare| {
            rare.more_ids.is_empty()
                && rare.head.is_empty()
                && rare.partial.reader.is_idle()
                && rare.backlog.is_empty()
        };
        if self.rare.as_deref().is_some_and(idle) {
            self.rare = None;
        }
    }
}

impl<S> Timed for Conn<S> {
    fn links(&mut self) -> &mut Links {
        &mut self.timer
    }
}
