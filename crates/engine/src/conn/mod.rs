//! The record of a connection: all that a silent one owns.

pub(crate) mod action;
pub(crate) mod ids;
pub(crate) mod state;
mod work;

use std::sync::Arc;

use hub::{Grant, Id};
use proto::{Carrier, Format, Transport};

pub(crate) use work::{HeldEvents, Partial, Work};

use self::action::Action;
use self::state::{Input, State};
use crate::Event;
use crate::backlog::Backlog;
use crate::slab::Slot;
use crate::timer::{Links, Tick};
use crate::wire::Wire;

/// The shard's queues of connections that have something to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Queue {
    /// In none.
    None,
    /// Written to before others.
    Express,
    /// Written to in its slice.
    Bulk,
}

/// One connection, in less than a cache line with its slot's generation and its timer's links.
#[derive(Debug)]
pub(crate) struct Conn<S> {
    /// The one event to be written in this turn, or what is rare.
    pub(crate) pending: Option<Arc<Event>>,
    rare: Option<Box<Rare>>,
    /// One of the ids that it is logged in under, or none; the others stand in its list.
    id: Id,
    /// When its client last took something or was accepted. Until when a poll waits.
    pub(crate) active: Tick,
    /// Messages of the classic page that are sent; it numbers them. Elements of a poll's array that
    /// are sent; the first has no comma.
    pub(crate) messages: u32,
    pub(crate) socket: S,
    /// When the time of its token is over; [`Tick::MAX`] is never.
    pub(crate) expires: Tick,
    /// What it is counted for in the account of all connections, in bytes.
    pub(crate) charged: u32,
    state: State,
    pub(crate) wire: Wire,
    marks: Marks,
}

// With the links of its timer a cache line.
const _: () = {
    let slot = size_of::<Slot<Conn<std::os::fd::OwnedFd>>>();
    assert!(slot + size_of::<Links>() <= 64);
};

/// What is noted of a connection in the one byte that there is: what the answer to a poll is to say
/// beside its events, what a WebSocket's handshake agreed on, and what is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Marks(u8);

impl Marks {
    /// A poll is by a page of another origin, or by somebody else.
    pub(crate) const CORS: Marks = Marks(1);
    /// A stream is told its place in blocks ([`proto::resume::PlaceStyle::InBlock`]). It is no
    /// poll.
    pub(crate) const BLOCKS: Marks = Marks(1);
    /// A poll's client may have missed something.
    pub(crate) const GAP: Marks = Marks(2);
    /// A request that waits for the control plane wants no body (`HEAD`). It is no poll.
    pub(crate) const HEAD_ONLY: Marks = Marks(2);
    /// A request that waits for the control plane reads what was sent. It is no WebSocket.
    pub(crate) const READS: Marks = Marks(4);
    /// A WebSocket's messages may be compressed.
    pub(crate) const DEFLATE: Marks = Marks(4);
    /// The kernel has no room; it will report when it has.
    pub(crate) const BLOCKED: Marks = Marks(8);
    /// It is in the queue of those whose input waits for a later turn.
    pub(crate) const DEFERRED: Marks = Marks(16);
    /// Written down alone: the body ends with the connection ([`Carrier::Close`]), or is none.
    const CLOSE: Marks = Marks(32);
    /// It is in the queue of those that are written to before others.
    const EXPRESS: Marks = Marks(64);
    /// It is in the queue of those that are written to in their slice.
    const BULK: Marks = Marks(128);

    /// What is so wherever the connection is. The numbers are written down, and stay what they are.
    const LASTING: u8 = Self::CORS.0 | Self::GAP.0 | Self::DEFLATE.0;

    /// What belongs to one request, and not to the connection.
    const OF_REQUEST: u8 = Self::CORS.0 | Self::GAP.0 | Self::DEFLATE.0;
}

/// What most connections never need.
#[derive(Debug, Default)]
struct Rare {
    /// What its token grants, where that is asked for again: when a WebSocket logs in further, or a
    /// token counts its connections.
    grant: Option<Arc<Grant>>,
    work: Option<Box<Work>>,
}

impl<S> Conn<S> {
    pub(crate) fn new(socket: S, now: Tick) -> Conn<S> {
        Conn {
            pending: None,
            rare: None,
            id: Id::NONE,
            active: now,
            messages: 0,
            socket,
            expires: Tick::MAX,
            charged: 0,
            state: State::Head,
            wire: Wire::new(Format::Ndjson, Carrier::Chunked),
            marks: Marks::default(),
        }
    }

    /// It is the one that another process has written down.
    pub(crate) fn take_over(&mut self, state: State, transport: Transport, marks: u8) {
        self.wire = Wire::of(transport, marks & Marks::CLOSE.0 != 0);
        (self.state, self.marks) = (state, Marks(marks & Marks::LASTING));
    }

    /// What is noted of it beside where it waits.
    pub(crate) fn lasting_marks(&self) -> u8 {
        let closes = self.wire.carrier() != Carrier::Chunked;
        self.marks.0 & Marks::LASTING | if closes { Marks::CLOSE.0 } else { 0 }
    }

    /// Where it is.
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// It is somewhere else now.
    pub(crate) fn move_to(&mut self, next: State) {
        debug_assert!(self.state.may_move_to(next), "{:?} to {next:?}", self.state);
        self.state = next;
    }

    /// What is to be done now that `input` has happened.
    pub(crate) fn on(&self, input: Input) -> Action {
        self.state.on(input, self.is(Marks::BLOCKED))
    }

    /// Whether that is noted.
    pub(crate) fn is(&self, mark: Marks) -> bool {
        self.marks.0 & mark.0 != 0
    }

    /// Notes that, or that it is not so.
    pub(crate) fn mark(&mut self, mark: Marks, is_so: bool) {
        self.marks.0 = if is_so { self.marks.0 | mark.0 } else { self.marks.0 & !mark.0 };
    }

    /// In which of the shard's queues of connections to write to it is.
    pub(crate) fn queued(&self) -> Queue {
        match (self.is(Marks::EXPRESS), self.is(Marks::BULK)) {
            (true, _) => Queue::Express,
            (false, true) => Queue::Bulk,
            (false, false) => Queue::None,
        }
    }

    pub(crate) fn set_queued(&mut self, queue: Queue) {
        self.mark(Marks::EXPRESS, queue == Queue::Express);
        self.mark(Marks::BULK, queue == Queue::Bulk);
    }

    /// Forgets what was noted of the request before.
    pub(crate) fn begin_request(&mut self) {
        self.marks.0 &= !Marks::OF_REQUEST;
        self.messages = 0;
    }

    /// Whether a request may be served now.
    pub(crate) fn awaits_request(&self) -> bool {
        matches!(self.state, State::Head | State::Body)
            || (self.state == State::Between && self.is_flushed())
    }

    /// Whether everything has been given to the kernel.
    pub(crate) fn is_flushed(&self) -> bool {
        self.pending.is_none() && self.work().is_none_or(|work| work.backlog.is_empty())
    }

    /// What its token grants, where that is kept.
    pub(crate) fn grant(&self) -> Option<&Arc<Grant>> {
        self.rare.as_ref()?.grant.as_ref()
    }

    /// Keeps that, or no more; what was kept before.
    pub(crate) fn keep_grant(&mut self, grant: Option<Arc<Grant>>) -> Option<Arc<Grant>> {
        match grant {
            None => self.rare.as_mut()?.grant.take(),
            grant => std::mem::replace(&mut self.rare.get_or_insert_default().grant, grant),
        }
    }

    /// What is under way, if anything is.
    pub(crate) fn work(&self) -> Option<&Work> {
        self.rare.as_ref()?.work.as_deref()
    }

    /// What it has to do, to change it.
    pub(crate) fn some_work(&mut self) -> Option<&mut Work> {
        self.rare.as_mut()?.work.as_deref_mut()
    }

    /// What is under way, from now on if nothing was.
    pub(crate) fn new_work(&mut self) -> &mut Work {
        self.rare.get_or_insert_default().work.get_or_insert_default()
    }

    /// What waits to be written, from now on if nothing did.
    pub(crate) fn backlog(&mut self) -> &mut Backlog {
        &mut self.new_work().backlog
    }

    /// Forgets what waits to be written, and what is under way.
    pub(crate) fn forget_all(&mut self) {
        self.pending = None;
        self.mark(Marks::BLOCKED, false);
        if let Some(rare) = &mut self.rare {
            rare.work = None;
        }
        self.tidy();
    }

    /// Gives the boxes back in which nothing is left: an idle connection owns no buffer.
    pub(crate) fn tidy(&mut self) {
        let Some(rare) = &mut self.rare else { return };
        rare.work.take_if(|work| work.is_idle());
        self.rare.take_if(|rare| rare.work.is_none() && rare.grant.is_none());
    }
}
