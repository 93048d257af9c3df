//! Long polls: connections that carry one request after the other.
//!
//! A poll that waits is a record like a silent stream's: logged in, without a buffer. The first
//! event answers it when the turn's mail is written, together with all others of the turn. Without
//! one its time runs out. Then it is logged out, and the connection is silent until the next
//! request. What a client sends too early is put by, within a bound, and read after the answer.
//!
//! Between two polls a client hears nothing, so each one goes on where the one before ended. It is
//! held like a stream that comes back ([`super::resume`]) until it is known what was sent
//! meanwhile. Its answer names the place for the next one.
//!
//! What a poll is told of the members of rooms stands before the events ([`super::members`]).
//!
//! An answered poll's references are dead, as those of a closed connection are. A proxy may carry
//! another client's poll on the same connection next, and must not bring it mail for this one.

use hub::{DisconnectReason, IdText};
use proto::poll::Answer;
use proto::resume::PlaceStyle;
use proto::{Carrier, Cors, Format, Request, Transport, request};

use super::admission::Reply;
use super::core::{At, Core, Lives, ticks};
use super::resume::retry_ms;
use super::tables::polled::Polled;
use crate::catch_up::CatchUp;
use crate::conn::Marks;
use crate::conn::state::State;
use crate::limits::POLL_LISTS_MS;
use crate::outbox::Missed;
use crate::sockets::Sockets;
use crate::timer::TICK_MS;
use crate::tokens::Granted;
use crate::wire::Wire;

impl<S: Sockets> Core<S> {
    /// Logs a poll in, and asks what has been sent since the place that its client names; without
    /// one since now, which brings what is on its way already. It is held until that is known.
    pub(super) fn begin_poll(
        &mut self,
        at: &mut At<'_, S::Socket>,
        ids: &[IdText<'_>],
        request: &Request<'_>,
        granted: Option<Granted>,
        reply: &Reply<'_>,
    ) -> Lives {
        // Its body has a length: the connection ends with it, or it may carry another answer.
        let carrier = if request.keep_alive { Carrier::Chunked } else { Carrier::Close };
        // Before the log-in: a member that polls comes and goes as one.
        at.conn.wire = Wire::new(Format::Poll, carrier);
        // Read before the log-in, see `begin_at`.
        let (gaps, newest) = self.event_ids.begin_stream();
        if let Err(problem) = self.login_with(at, ids, granted) {
            return self.refuse(at, &problem, reply);
        }
        // As of a stream, what changes from now on comes behind the list, or is in it.
        let waits_for_lists = match self.watch_by_poll(at, request) {
            Ok(waits) => waits,
            Err(problem) => {
                self.log_out_of_all(at);
                return self.refuse(at, &problem, reply);
            }
        };
        let wait = match request.wait_seconds {
            0 if waits_for_lists => ticks(POLL_LISTS_MS),
            0 => 0,
            seconds => ticks(u64::from(seconds) * 1000),
        };
        self.keep_cors(at, request, reply);
        self.counters.streams_opened[Transport::Poll.index()].add(1);
        self.note_begun(at.slot, gaps);
        let asked = match (request.cursor, request.past) {
            (Some(place), _) => self.ask_from(at, place),
            (None, request::Past::Nothing) => self.ask(at, newest),
            (None, past) => self.ask_past(at, past, newest, PlaceStyle::InHead),
        };
        let is_refused = request.cursor.is_some()
            || request.past != request::Past::Nothing && self.config.history.is_on();
        at.conn.move_to(if asked { State::HeldPoll } else { State::Poll });
        // The next poll shows its token anew.
        at.conn.active = self.now + wait;
        self.wait(at);
        if asked {
            return Ok(());
        }
        if is_refused {
            at.conn.mark(Marks::GAP, true);
            self.resumes.count(true);
        }
        // Who is told of a gap looks around and asks again from here. Where nothing is remembered
        // every poll would be told so at once, so there it waits.
        if self.config.history.is_on() {
            return self.answer_poll(at, None, Some(newest));
        }
        if wait == 0 || self.is_poll_told(at) {
            return self.answer_poll(at, None, None);
        }
        Ok(())
    }

    /// Keeps what the answer to a request is to say of the page that asks.
    pub(super) fn keep_cors(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
        reply: &Reply<'_>,
    ) {
        at.conn.mark(Marks::CORS, reply.cors.is_some());
        // A browser that sent cookies wants its page's origin in the answer, any other one takes
        // any name for it: then it is not kept for the time of the wait.
        let cors = reply.cors.filter(|cors| cors.credentials && request.bearer.has_cookies());
        if let Some(cors) = cors {
            at.conn.new_work().origin = Some(cors.origin.into());
        }
    }

    /// How long the next request on a connection may be waited for, as clients are told.
    pub(super) fn poll_idle_seconds(&self) -> u32 {
        (u64::from(self.poll_idle()) * TICK_MS / 1000) as u32
    }

    /// It is known what a held poll has missed: it is answered with that, or waits on.
    pub(super) fn catch_up_poll(&mut self, at: &mut At<'_, S::Socket>, catch_up: CatchUp) -> Lives {
        let CatchUp { heard, events, gap, gap_up_to, up_to, whole, floors, .. } = catch_up;
        let missed = Missed { heard, events, gap_up_to, up_to, whole, floors };
        let end = at.conn.catch_up(b"", missed);
        at.conn.move_to(State::Poll);
        if gap {
            at.conn.mark(Marks::GAP, true);
            self.resumes.count(true);
        }
        if end.is_some() {
            // The next poll asks for the rest.
            return self.answer_poll(at, None, end);
        }
        self.settle(up_to);
        if self.settled < up_to {
            // Mail for others waits: this one goes on from here nevertheless.
            at.conn.new_work().held.after = up_to;
        }
        if gap || !at.conn.is_flushed() || self.is_due(at.conn) || self.is_poll_told(at) {
            return self.answer_poll(at, None, None);
        }
        Ok(())
    }

    /// The head that a poll's answer would have.
    pub(super) fn describe_poll(&mut self, cors: Option<Cors<'_>>) {
        Answer { cors, ..Answer::default() }.push_head_only(&mut self.answer);
    }

    /// Answers a poll with the events that wait for it, perhaps none, and logs it out. Without a
    /// reason to `end` the connection it stays for the next request, if the client likes.
    ///
    /// The client goes on where the caller says, else after the last event in the answer, or where
    /// its shard has settled: it asked from an earlier place, since a poll that waits is one whose
    /// catch-up has come. As long as that has not come it keeps the place that it has.
    pub(super) fn answer_poll(
        &mut self,
        at: &mut At<'_, S::Socket>,
        end: Option<DisconnectReason>,
        next: Option<u64>,
    ) -> Lives {
        let (is_asked, after) = (at.conn.has_asked(), at.conn.handed_up_to());
        // Each poll until then would else be told of the gap.
        let gap_up_to = at.conn.gap_told();
        self.put_gap_of_poll(at);
        let polled = self.take_polled(at.slot);
        self.leave(at);
        at.renew();
        let conn = &mut at.conn;
        conn.take_held();
        let origin = conn.some_work().and_then(|work| work.origin.take());
        let stays = end.is_none() && conn.wire.carrier() == Carrier::Chunked;
        let idle_seconds = self.poll_idle_seconds();
        let elements = conn.elements();
        let next = next.or(elements.last.max(Some(self.settled)).max(Some(after)));
        let next = next.filter(|_| self.config.history.is_on() && !is_asked);
        let next = next.map(|number| self.event_ids.id(number).place(gap_up_to));
        let has_events = elements.len > 0;
        let polled_len = polled.as_ref().map_or(0, |polled| polled.len(has_events));
        let places = polled.as_ref().and_then(Polled::places);
        let mut head = std::mem::take(&mut self.answer);
        let answer = Answer {
            elements_len: elements.len + polled_len,
            members: places.as_deref(),
            next: next.as_deref(),
            gap: conn.is(Marks::GAP),
            retry_ms: Some(retry_ms(at.slot, self.config.workers as u32)),
            keep_alive_seconds: stays.then_some(idle_seconds),
            cors: kept_cors(conn.is(Marks::CORS), origin.as_deref()),
        };
        answer.push_head(&mut head);
        if let Some(polled) = polled {
            polled.push(has_events, &mut head);
        }
        conn.move_to(State::Between);
        conn.active = self.now;
        let sent = self.metered(|core| conn.send_array(&head, &mut core.io, &core.counters));
        head.clear();
        self.answer = head;
        self.wait(at);
        self.flushed(at, sent)?;
        match end {
            _ if stays => Ok(()),
            end => self.finish(at, end.unwrap_or(DisconnectReason::Answered)),
        }
    }
}

/// What the answer to a page says that was asked for with cookies by one of `origin`, or without.
pub(super) fn kept_cors(is_page: bool, origin: Option<&str>) -> Option<Cors<'_>> {
    let named = origin.map(|origin| Cors { origin, credentials: true });
    is_page.then(|| named.unwrap_or(Cors::ANY))
}
