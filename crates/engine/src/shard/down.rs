//! A connection is written down for another process, which goes on with it.
//!
//! Nothing is changed by that: as long as nobody says that it is the other's, this process may go
//! on as if nothing had been. It is done when no mail waits and nobody is to be written to in their
//! turn. So what lies here is what clients have sent, what they do not take, and who they are.

use hub::{DisconnectReason, Id};
use minicbor::bytes::ByteVec;

use super::Shard;
use super::core::{At, Core};
use super::tables::trust::Trust;
use crate::conn::state::State;
use crate::conn::{Conn, Marks, Partial};
use crate::sockets::Sockets;
use crate::state::{ConnState, GrantState, More, PartialState, PastState, Phase};
use crate::timer::{TICK_MS, Tick};

impl<S: Sockets> Shard<S> {
    /// The connection in `slot` as it stands; `None` where there is none, or one that cannot be
    /// written down: rustls is in the midst of its handshake, or it has no place.
    pub(crate) fn write_down(&mut self, slot: u32) -> Option<ConnState> {
        if self.core.unplaced.has(slot) {
            // It has no place there either.
            return None;
        }
        let (place, conn) = self.conns.at(slot)?;
        self.core.write_down(&At { slot, place, conn })
    }

    /// Whether nothing is left to be done here but what waits for clients: no mail that waits for
    /// time, nobody to be ended, told or written to in a later turn.
    pub(crate) fn is_quiet(&self) -> bool {
        self.leaving.is_empty()
            && self.revoked.is_empty()
            && self.parked.is_empty()
            && self.core.pending_gap.is_none()
            && self.core.express.is_empty()
            && self.core.bulk.is_empty()
            // What clients have sent is answered here, or nobody would.
            && self.core.unanswered == 0
    }

    /// Whether all connections are being ended.
    pub(crate) fn is_ending(&self) -> bool {
        self.drain_deadline_ms.is_some() || self.moving.is_some()
    }
}

impl<S: Sockets> Core<S> {
    fn write_down(&self, at: &At<'_, S::Socket>) -> Option<ConnState> {
        let conn = &*at.conn;
        let state = conn.state();
        let (phase, reason) = phase(state)?;
        let has_transport = state.is_logged_in() || matches!(state, State::Between | State::Head);
        let first = conn.first_id().filter(|id| !id.is_name());
        let more = self.write_more(at, reason, first)?;
        Some(ConnState {
            descriptor: 0,
            phase,
            marks: conn.lasting_marks(),
            transport: has_transport.then(|| conn.wire.transport().index() as u8),
            id: first.and_then(Id::as_integer),
            active_ms: self.ms_from_now(conn.active),
            more: (more != More::default()).then(|| Box::new(more)),
            connection_id: has_connection_id(state)
                .then(|| self.connection_id(self.conn_ref(at)).bits()),
        })
    }

    fn write_more(
        &self,
        at: &At<'_, S::Socket>,
        reason: Option<DisconnectReason>,
        written: Option<Id>,
    ) -> Option<More> {
        let (slot, conn) = (at.slot, &*at.conn);
        let state = conn.state();
        let unsent = conn.unsent();
        let messages = unsent.as_ref().map_or(conn.messages, |(_, messages)| *messages);
        let subscriber = self.write_subscriber(at);
        // Its keys are among what it is at the hub.
        let is_written = |id: &Id| subscriber.is_none() || !id.is_key();
        let ids = self.ids(at).filter(|id| Some(*id) != written).filter(is_written);
        let mut more = More {
            reason: reason.map(|reason| reason.as_str().to_owned()),
            ids: ids.map(|id| self.names.text(id).unwrap_or_default()).collect(),
            messages: (messages > 0).then_some(messages),
            expires_ms: (conn.expires < Tick::MAX).then(|| self.ms_from_now(self.ends(conn))),
            grant: conn.grant().map(|grant| GrantState::of(grant)),
            unsent: unsent.map(|(bytes, _)| bytes.into()),
            source: self.sources.get(slot).map(|key| key.bits()),
            trust: match self.trusts.get(slot) {
                Trust::Nothing => None,
                Trust::Fields => Some(1),
                Trust::Header => Some(2),
            },
            secured: self.io.write_down(&conn.socket).ok()?,
            ..More::default()
        };
        if self.config.tokens.is_some() && state.is_logged_in() {
            more.session = Some(self.sessions.get(slot).parts());
            (more.subject, more.info) = self.member_texts(slot, conn.first_id());
            more.watches = self.watched_texts(slot);
        }
        if state.is_logged_in() {
            more.pusher = self.write_channels(slot);
        }
        more.subscriber = subscriber;
        if let Some(work) = conn.work() {
            more.unread = (!work.unread.is_empty()).then(|| work.unread.clone().into());
            more.partial = self.partial(&work.partial);
            let after = work.held.after;
            more.after = (after > 0 || state.is_held()).then_some(after);
            if let Some(past) = &work.held.past {
                more.past = Some(PastState::of(past, after, |id| self.names.text(id)));
                // A version that does not know it goes on where the stream has begun.
                more.after = Some(after.max(past.begun));
            }
            more.asks = work.held.asked.is_some() || work.held.catch_up.is_some();
            more.origin = work.origin.as_deref().map(str::to_owned);
            more.token_asked = state.is_logged_in() && work.token.asked.is_some();
        }
        Some(more)
    }

    fn partial(&self, partial: &Partial) -> Option<PartialState> {
        if partial.reader.is_idle() {
            return None;
        }
        let mut reader = Vec::new();
        partial.reader.write_down(&mut reader);
        Some(PartialState {
            reader: reader.into(),
            bytes: ByteVec::from(partial.bytes.clone()),
            since_ms: self.ms_from_now(partial.since),
        })
    }

    fn ms_from_now(&self, tick: Tick) -> i64 {
        (i64::from(tick) - i64::from(self.now)) * TICK_MS as i64
    }
}

/// Whether a client in this state may have been told what its connection is called.
fn has_connection_id(state: State) -> bool {
    matches!(state, State::Stream | State::Held)
}

fn phase(state: State) -> Option<(Phase, Option<DisconnectReason>)> {
    Some(match state {
        State::Handshake => (Phase::Handshake, None),
        // Its request is read again, and its token verified again.
        State::Head | State::Body | State::Verifying => (Phase::Head, None),
        State::Stream => (Phase::Stream, None),
        State::Held => (Phase::Held, None),
        State::Poll => (Phase::Poll, None),
        State::HeldPoll => (Phase::HeldPoll, None),
        State::Between => (Phase::Between, None),
        State::Ending(reason) => (Phase::Ending, Some(reason)),
        State::Lingering(reason) => (Phase::Lingering, Some(reason)),
        // All of them have been ended, or answered.
        State::Leaving(_) | State::Sending => return None,
    })
}

impl<S> Conn<S> {
    /// Whether it has to be looked at when it has come to another process, although nothing is
    /// reported: something of its client is read and not dealt with.
    pub(super) fn has_input(&self) -> bool {
        let work = self.work();
        self.is(Marks::DEFERRED) || work.is_some_and(|work| !work.unread.is_empty())
    }
}
