//! What a connection keeps while something of it is under way: input that is not whole, output that
//! is not taken, events that wait for those before them. In a box that goes when nothing is left.

use std::sync::Arc;

use proto::resume::PlaceStyle;
use proto::websocket::Reader;

use super::state::State;
use super::{Conn, Marks};
use crate::Event;
use crate::backlog::Backlog;
use crate::catch_up::CatchUp;
use crate::limits::CLOSE_TO_NOTHING;
use crate::mercure_config::HeldHead;
use crate::past::Past;
use crate::timer::Tick;
use crate::tokens::Outcome;

/// What is under way on one connection.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// A request head that is not complete, or what was sent while a poll waits or a turn's budget
    /// was spent.
    pub(crate) unread: Vec<u8>,
    pub(crate) partial: Partial,
    pub(crate) backlog: Backlog,
    pub(crate) held: HeldEvents,
    pub(crate) token: TokenWork,
    /// Bytes that the request has whose body is to come, its head included.
    pub(crate) whole: usize,
    /// The origin of the page of another server that polls or sends with cookies, until it is
    /// answered.
    pub(crate) origin: Option<Box<str>>,
}

/// A token that is being verified, or was and is not dealt with.
#[derive(Debug, Default)]
pub(crate) struct TokenWork {
    /// As long as this is here somebody wants the result.
    pub(crate) asked: Option<Arc<()>>,
    /// It has come.
    pub(crate) outcome: Option<Outcome>,
    /// It was asked for in another process, and nobody will answer.
    pub(crate) is_lost: bool,
    /// Whoever is to serve its request reads the body: until the result is there, what of it was
    /// not read stays in the kernel.
    pub(crate) leaves_rest: bool,
}

/// What has come of a WebSocket's message that is not whole.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    pub(crate) reader: Reader,
    pub(crate) bytes: Vec<u8>,
    /// When its first byte came.
    pub(crate) since: Tick,
}

/// The events that came while it was not known what the client has missed.
#[derive(Debug, Default)]
pub(crate) struct HeldEvents {
    /// In the order of their numbers.
    pub(crate) events: Vec<Arc<Event>>,
    /// What they count for.
    pub(crate) bytes: usize,
    /// From this number on there was no room for them: they are asked for again.
    pub(crate) dropped_from: Option<u64>,
    /// Up to this number the client has been handed all.
    pub(crate) after: u64,
    /// It was told that some up to this number may be missing.
    pub(crate) gap_up_to: u64,
    /// What it wants of the time before it, as far as it is not told.
    pub(crate) past: Option<Box<Past>>,
    /// It has asked what it has missed, and is not answered: as long as this is here somebody wants
    /// the answer.
    pub(crate) asked: Option<Arc<()>>,
    /// The answer, for which there is no time yet, and what it counts for.
    pub(crate) catch_up: Option<(Box<CatchUp>, usize)>,
    /// The head of its answer, which says what comes of it.
    pub(crate) head: Option<Box<HeldHead>>,
}

impl Work {
    pub(super) fn is_idle(&self) -> bool {
        self.unread.is_empty()
            && self.whole == 0
            && self.partial.reader.is_idle()
            && self.backlog.is_empty()
            && self.held.events.is_empty()
            && self.held.dropped_from.is_none()
            && self.held.after == 0
            && self.held.past.is_none()
            && self.held.asked.is_none()
            && self.held.catch_up.is_none()
            && self.held.head.is_none()
            && self.token.asked.is_none()
            && self.token.outcome.is_none()
            && !self.token.is_lost
            && self.origin.is_none()
    }
}

impl<S> Conn<S> {
    /// Since when a message is not whole; `None` when there is none.
    pub(crate) fn message_since(&self) -> Option<Tick> {
        let partial = &self.work()?.partial;
        (!partial.reader.is_idle()).then_some(partial.since)
    }

    /// How many bytes the request has whose body is to come; 0 where none is.
    pub(crate) fn whole_request(&self) -> usize {
        self.work().map_or(0, |work| work.whole)
    }

    /// The body is there, or nobody waits for it any more.
    pub(crate) fn forget_body(&mut self) {
        if let Some(work) = self.some_work() {
            work.whole = 0;
        }
    }

    /// Whether what its client sends stays in the kernel, while its token is being verified.
    pub(crate) fn leaves_rest(&self) -> bool {
        self.state() == State::Verifying && self.work().is_some_and(|work| work.token.leaves_rest)
    }

    /// Whether it has asked what it has missed, and is not answered.
    pub(crate) fn has_asked(&self) -> bool {
        self.work().is_some_and(|work| work.held.asked.is_some())
    }

    /// Whether its answer has no head yet.
    pub(crate) fn has_held_head(&self) -> bool {
        self.work().is_some_and(|work| work.held.head.is_some())
    }

    /// Whether an event has come meanwhile, kept or not.
    pub(crate) fn has_held(&self) -> bool {
        let held = self.work().map(|work| &work.held);
        held.is_some_and(|held| !held.events.is_empty() || held.dropped_from.is_some())
    }

    /// Nobody wants the answer any more.
    pub(crate) fn ask_no_more(&mut self) {
        if let Some(work) = self.some_work() {
            work.held.asked = None;
            work.token.asked = None;
        }
    }

    /// Up to which number its client has been handed all, where that is noted.
    pub(crate) fn handed_up_to(&self) -> u64 {
        self.work().map_or(0, |work| work.held.after)
    }

    /// Up to which number some may be missing, as its client was told while it catches up.
    pub(crate) fn gap_told(&self) -> u64 {
        self.work().map_or(0, |work| work.held.gap_up_to)
    }

    /// How a stream that begins in the past is told where it stands, and the number behind which
    /// it has begun; `None` once that is told.
    pub(crate) fn past_told(&self) -> Option<(PlaceStyle, u64)> {
        let past = self.work()?.held.past.as_ref()?;
        Some((past.told, past.begun))
    }

    /// The bytes that are kept for it alone, or for which it alone may be to blame: what it has
    /// sent and is not dealt with, what it does not take, and what its token grants.
    pub(crate) fn kept_bytes(&self) -> u32 {
        let granted = self.grant().map_or(0, |grant| grant.bytes(0));
        let under_way = self.work().map_or(0, |work| {
            let backlog = if self.is(Marks::BLOCKED) { work.backlog.bytes() } else { 0 };
            let input = work.unread.capacity() + work.partial.bytes.capacity();
            let missed = work.held.catch_up.as_ref().map_or(0, |(_, bytes)| *bytes);
            let past = work.held.past.as_ref().map_or(0, |past| past.bytes());
            let head = work.held.head.as_ref().map_or(0, |head| head.bytes());
            input + backlog + work.held.bytes + missed + past + head
        });
        let kept = granted + under_way;
        // A few bytes are not worth a look at the account.
        if kept < CLOSE_TO_NOTHING { 0 } else { kept as u32 }
    }
}
