//! A connection that another process has written down goes on here.
//!
//! Until it is said that it is ours nothing is sent, read or ended: what is to be done at once is
//! noted, and done in the first turns.

use std::sync::Arc;

use hub::{AddressKey, ConnectionId, DisconnectReason, Id, IdText};
use proto::websocket::{self, Reader, command};
use proto::{Problem, Transport};

use super::Shard;
use super::core::{At, Core, Lives};
use super::tables::trust::Trust;
use crate::conn::ids::Ids;
use crate::conn::state::State;
use crate::conn::{Conn, Marks, Partial};
use crate::counters::Total;
use crate::limits::{RETRY_AFTER_SECONDS, work};
use crate::sockets::Sockets;
use crate::state::{ConnState, More, Phase};
use crate::timer::{TICK_MS, Tick};
use crate::tokens::Session;

/// Why a connection that was written down cannot be taken over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Untaken {
    /// There is no place for it.
    Full,
    /// It is in a written, or has a transport or an id, that this version does not know.
    Unknown,
}

/// What must be understood of a connection before it is taken.
struct Understood {
    state: State,
    transport: Transport,
    partial: Option<Partial>,
}

impl<S: Sockets> Shard<S> {
    /// Keeps a place for a connection of which only a copy of the socket has come. It is nobody's
    /// until it is [taken over](Shard::take_over) or [forgotten](Shard::forget).
    pub(crate) fn expect(&mut self, socket: S::Socket) -> Result<u32, S::Socket> {
        let inserted = self.conns.insert(Conn::new(socket, self.core.now));
        inserted.map(|key| key.slot).map_err(|conn| conn.socket)
    }

    /// Gives the socket of one back that was expected and does not come.
    pub(crate) fn forget(&mut self, slot: u32) -> Option<S::Socket> {
        self.conns.remove(slot).map(|conn| conn.socket)
    }

    /// Goes on with the connection that `written` tells of, which was expected in `slot`.
    pub(crate) fn take_over(&mut self, slot: u32, written: ConnState) -> Result<(), Untaken> {
        let core = &mut self.core;
        let Some(Understood { state, transport, partial }) = core.understand(&written) else {
            return Err(Untaken::Unknown);
        };
        let Some((place, conn)) = self.conns.at(slot) else { return Err(Untaken::Unknown) };
        if !core.connection_limit.take() {
            return Err(Untaken::Full);
        }
        core.counters.opened.add(1);
        conn.take_over(state, transport, written.marks);
        if let Some(partial) = partial {
            conn.new_work().partial = partial;
        }
        let mut at = At { slot, place, conn };
        if core.settle_in(&mut at, written) {
            self.taken_over.push_back(slot);
        }
        Ok(())
    }

    /// It is so many milliseconds after the start, and nothing happens: until connections that come
    /// from another process are ours, no timer of theirs fires.
    pub(crate) fn set_time(&mut self, now_ms: u64) {
        self.core.now = (now_ms / TICK_MS) as Tick;
        if self.conns.len() == 0 {
            self.core.wheel.begin_at(self.core.now);
        }
    }

    /// Counts on from what another process has counted.
    pub(crate) fn count_on(&self, totals: &[Total]) {
        self.core.counters.go_on_from(totals);
    }

    /// All is ours. Something has been reported of `slots`, at which nobody has looked; and the
    /// other process has delivered all that was posted.
    pub(crate) fn begin(&mut self, slots: impl IntoIterator<Item = u32>) {
        self.core.settle(self.core.event_ids.posted());
        self.taken_over.extend(slots);
    }

    /// Does for those who were taken over what could not be done before they were ours, as far as
    /// the turn's budget goes.
    pub(super) fn go_on_taken_over(&mut self) {
        while !self.core.budget.is_spent()
            && let Some(slot) = self.taken_over.pop_front()
        {
            self.core.budget.spend(work::READ);
            self.serve(slot, |core, at| core.go_on_taken_over(at));
        }
    }
}

impl<S: Sockets> Core<S> {
    fn understand(&self, written: &ConnState) -> Option<Understood> {
        let more = written.more.as_deref();
        let reason = || {
            let name = more.and_then(|more| more.reason.as_deref());
            DisconnectReason::ALL.iter().find(|reason| Some(reason.as_str()) == name).copied()
        };
        let state = match written.phase {
            Phase::Head => State::Head,
            Phase::Handshake => State::Handshake,
            Phase::Stream => State::Stream,
            Phase::Held => State::Held,
            Phase::Poll => State::Poll,
            Phase::HeldPoll => State::HeldPoll,
            Phase::Between => State::Between,
            Phase::Ending => State::Ending(reason()?),
            Phase::Lingering => State::Lingering(reason()?),
        };
        let transport = match written.transport {
            Some(index) => *Transport::ALL.get(usize::from(index))?,
            None => Transport::Ndjson,
        };
        let partial = match more.and_then(|more| more.partial.as_ref()) {
            Some(partial) => Some(Partial {
                reader: Reader::read_back(&partial.reader, &partial.bytes)?,
                bytes: partial.bytes.to_vec(),
                since: self.tick_from_now(partial.since_ms),
            }),
            None => None,
        };
        let texts = || more.into_iter().flat_map(|more| &more.ids);
        let ids_are_good = texts().all(|id| IdText::of_key(id).is_ok())
            && written.id.is_none_or(|id| Id::integer(id).is_some());
        let has_ids = written.id.is_some() || texts().next().is_some();
        (ids_are_good && (state.is_logged_in() || !has_ids)).then_some(Understood {
            state,
            transport,
            partial,
        })
    }

    /// Puts everything of a connection where it belongs. Whether something is to be done for it as
    /// soon as it is ours.
    fn settle_in(&mut self, at: &mut At<'_, S::Socket>, written: ConnState) -> bool {
        at.conn.active = self.tick_from_now(written.active_ms);
        let first = written.id.and_then(Id::integer).map(IdText::Integer);
        if let Some(id) = written.connection_id.and_then(ConnectionId::of_bits) {
            self.keep_connection_id(at, id);
        }
        let (mut more, state) = (written.more, at.conn.state());
        let subscriber = more.as_mut().and_then(|more| more.subscriber.take());
        let subscriber = subscriber.filter(|_| self.is_subscriber(at));
        let keys = match &subscriber {
            Some(subscriber) => self.listen_again(at, subscriber),
            // What it listens to is not known.
            None if self.is_subscriber(at) => None,
            None => Some(Vec::new()),
        };
        if let Some(keys) = &keys {
            let ids = more.iter().flat_map(|more| &more.ids).chain(keys);
            let texts = ids.filter_map(|id| IdText::of_key(id).ok());
            self.login_again(at, first.into_iter().chain(texts));
        }
        if let Some(mut subscriber) = subscriber {
            self.keep_head(at, &mut subscriber);
            if keys.is_some() {
                self.settle_subscriber(at, subscriber);
            }
        }
        if state.is_logged_in() {
            self.counters.streams_opened[at.conn.wire.transport().index()].add(1);
        }
        let is_to_go_on = more.take().is_some_and(|more| self.settle_more(at, *more));
        self.wait(at);
        is_to_go_on || state.is_held() || keys.is_none()
    }

    /// The connection had its ids before: no bound of today's takes them away.
    fn login_again<'t>(
        &mut self,
        at: &mut At<'_, S::Socket>,
        texts: impl Iterator<Item = IdText<'t>>,
    ) {
        let me = self.conn_ref(at);
        let login = texts.filter_map(|text| self.names.login(text, true).ok());
        let mut ids: Ids = login.collect();
        ids.iter().for_each(|&id| self.directory.login(id, me));
        // Names may stand in another order here.
        ids.sort_unstable();
        self.put_ids(at, &ids);
    }

    fn settle_more(&mut self, at: &mut At<'_, S::Socket>, mut more: More) -> bool {
        at.conn.messages = more.messages.unwrap_or_default();
        at.conn.expires = more.expires_ms.map_or(Tick::MAX, |ms| self.tick_from_now(ms));
        if let Some(parts) = more.session {
            self.sessions.set(at.slot, Session::of_parts(parts));
        }
        if let Some(grant) = more.grant {
            let grant = Arc::new(grant.into_grant());
            if grant.connections_max.is_some() {
                self.tokens.uses.take(self.tokens.use_of(&grant), u32::MAX);
            }
            at.conn.keep_grant(Some(grant));
        }
        if let Some(subject) = &more.subject {
            self.join_again(at, subject, more.info.as_deref());
        }
        let is_of_app = more.pusher.is_some();
        if let Some(pusher) = more.pusher {
            more.watches = self.come_to_app(at, pusher);
            self.note_was_there(at);
        }
        self.watch_again(at, &more.watches);
        if let Some(key) = more.source.and_then(AddressKey::of_bits) {
            self.addresses.take_over(key);
            self.sources.set(at.slot, Some(key));
        }
        let trust = match more.trust {
            Some(1) => Trust::Fields,
            Some(2) => Trust::Header,
            _ => Trust::Nothing,
        };
        self.trusts.set(at.slot, trust);
        if let Some(unread) = more.unread {
            at.conn.new_work().unread = unread.into();
        }
        if let Some(after) = more.after {
            at.conn.new_work().held.after = after;
        }
        if let Some(past) = more.past {
            let find = |text: &str| self.names.lookup(IdText::of_key(text).ok()?);
            let held = &mut at.conn.new_work().held;
            held.after = past.after;
            held.past = Some(Box::new(past.into_past(find)));
        }
        if let Some(origin) = more.origin {
            at.conn.new_work().origin = Some(origin.into());
        }
        if let Some(unsent) = more.unsent {
            at.conn.push_reply(&unsent);
        }
        let mut is_to_go_on =
            more.asks || more.token_asked || !more.watches.is_empty() || is_of_app;
        if let Some(secured) = more.secured {
            is_to_go_on |= self.io.take_over(&at.conn.socket, at.slot, secured);
        }
        if more.token_asked {
            at.conn.new_work().token.is_lost = true;
        }
        let kept = at.conn.kept_bytes() + self.io.kept_bytes(&at.conn.socket) as u32;
        // Where there is no room for it, it is ended when it keeps more, or less.
        if self.account.change(0, kept) {
            at.conn.charged = kept;
        }
        is_to_go_on || !at.conn.is_flushed() || at.conn.has_input()
    }

    /// It is ours now.
    fn go_on_taken_over(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        let lost = at.conn.some_work().map(|work| std::mem::take(&mut work.token.is_lost));
        at.conn.tidy();
        if lost == Some(true) && at.conn.state().hears() {
            let answer = command::token_error(&Problem::tokens_busy(RETRY_AFTER_SECONDS));
            websocket::push_text(&mut self.answer, &answer);
            self.send_answer(at)?;
        }
        if self.has_no_place(at) {
            return self.end_stream(at, DisconnectReason::Moved);
        }
        self.say_watchlist(at);
        self.ask_missed(at);
        self.ask_lists(at);
        self.send_answer(at)?;
        match at.conn.state() {
            // With a window that is not written it asks for the next one when it is.
            State::Held if at.conn.is_flushed() => self.ask_on(at)?,
            State::HeldPoll if !at.conn.has_asked() => {
                let after = at.conn.handed_up_to();
                if !self.ask(at, after) {
                    at.conn.mark(Marks::GAP, true);
                    self.resumes.count(true);
                    return self.answer_poll(at, None, Some(after));
                }
            }
            _ => {}
        }
        if !at.conn.is_flushed() {
            self.queue(at, true);
        }
        self.defer(at);
        Ok(())
    }

    /// The tick that is so many milliseconds from now, or was.
    fn tick_from_now(&self, ms: i64) -> Tick {
        let tick = i64::from(self.now) + ms.div_euclid(TICK_MS as i64);
        tick.clamp(0, i64::from(Tick::MAX / 2)) as Tick
    }
}
