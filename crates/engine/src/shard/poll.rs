//! Long polls: connections that carry one request after the other.
//!
//! A poll that waits is a record like a silent stream's: logged in, without a buffer. The first
//! event answers it when the turn's mail is written, together with all others of the turn; without
//! one its time runs out. Then it is logged out, and the connection is silent until the next
//! request. What a client sends too early is put by, within a bound, and read after the answer.
//!
//! Between two polls a client hears nothing, so each one goes on where the one before ended: it is
//! held like a stream that comes back ([`super::resume`]) until it is known what was sent
//! meanwhile. Its answer names the place for the next one.
//!
//! An answered poll's references are dead, as those of a closed connection are: a proxy may carry
//! another client's poll on the same connection next, and must not bring it mail for this one.

use hub::{DisconnectReason, IdText};
use proto::poll::Answer;
use proto::{Cursor, Framing, Request, Transport};

use super::admission::Reply;
use super::{Shard, ticks};
use crate::conn::{Marks, Phase, Queue};
use crate::mailbox::CatchUp;
use crate::outbox::Flushed;
use crate::sockets::Sockets;
use crate::timer::TICK_MS;

impl<S: Sockets> Shard<S> {
    /// Logs a poll in, and asks what has been sent since the place that its client names; without
    /// one since now, which brings what is on its way already. It is held until that is known.
    pub(super) fn begin_poll(
        &mut self,
        slot: u32,
        ids: &[IdText<'_>],
        request: &Request<'_>,
        reply: &Reply<'_>,
    ) {
        // Read before the log-in, see `begin_at`.
        let newest = self.event_ids.last();
        if let Err(refused) = self.login(slot, ids) {
            return self.refuse(slot, &refused.problem(), reply);
        }
        let wait = match request.wait_seconds {
            0 => 0,
            seconds => ticks(u64::from(seconds) * 1000),
        };
        let Some(conn) = self.conns.at(slot) else { return };
        (conn.phase, conn.transport) = (Phase::Streaming, Transport::Poll);
        conn.framing = if request.keep_alive { Framing::Chunked } else { Framing::Close };
        conn.active = self.now + wait;
        conn.marks = Marks::of_poll(request.origin.is_some());
        self.counters.streams_opened[Transport::Poll.index()].add(1);
        self.wheel.start(&mut self.conns, slot, self.now + wait);
        let after = match request.cursor {
            None => Some(newest),
            Some(Cursor::After(number)) => Some(number).filter(|&at| self.event_ids.knows(at)),
            Some(Cursor::Unknown) => None,
        };
        let asked = after.is_some_and(|after| self.ask(slot, after));
        let Some(conn) = self.conns.at(slot) else { return };
        if asked {
            conn.queued = Queue::Held;
            return;
        }
        if request.cursor.is_some() {
            conn.marks = conn.marks.with_gap();
            self.resumes.count(true);
        }
        // Who is told of a gap looks around and asks again from here. Where nothing is remembered
        // every poll would be told so at once, so there it waits.
        if self.rules.config.history.is_on() {
            self.answer_poll(slot, None, Some(newest));
        } else if wait == 0 {
            self.answer_poll(slot, None, None);
        }
    }

    /// It is known what a held poll has missed: it is answered with that, or waits on.
    pub(super) fn catch_up_poll(&mut self, slot: u32, catch_up: CatchUp) {
        let CatchUp { events, gap, up_to, .. } = catch_up;
        self.settled = self.settled.max(up_to);
        let Some(conn) = self.conns.at(slot) else { return };
        conn.catch_up(b"", events, b"");
        conn.queued = Queue::None;
        if gap {
            conn.marks = conn.marks.with_gap();
            self.resumes.count(true);
        }
        if gap || !conn.is_flushed() || conn.active <= self.now {
            self.answer_poll(slot, None, None);
            self.read_on(slot);
        }
    }

    /// The head that a poll's answer would have.
    pub(super) fn describe_poll(&mut self, cors: bool) {
        Answer { cors, ..Answer::default() }.push_head_only(&mut self.answer);
    }

    /// Answers a poll with the events that wait for it, perhaps none, and logs it out. Without a
    /// reason to `end` the connection it stays for the next request, if the client likes.
    ///
    /// The client may go on after the last event in the answer, or where its shard has settled: it
    /// asked from an earlier place, since a poll that waits is one whose catch-up has come. Where
    /// neither is known, the place `at` that the caller names; else it keeps the one it has.
    pub(super) fn answer_poll(
        &mut self,
        slot: u32,
        end: Option<DisconnectReason>,
        at: Option<u64>,
    ) {
        self.leave(slot);
        let held = self.conns.at(slot).is_some_and(|conn| conn.is_held());
        self.let_go(slot);
        self.conns.renew(slot);
        let Some(conn) = self.conns.at(slot) else { return };
        let stays = end.is_none() && conn.framing == Framing::Chunked;
        let idle_seconds = (u64::from(self.rules.poll_idle) * TICK_MS / 1000) as u32;
        let elements = conn.elements();
        let next = elements.last.max(at).max(Some(self.settled));
        let mut head = std::mem::take(&mut self.answer);
        let answer = Answer {
            elements_len: elements.len,
            next: next.filter(|_| self.rules.config.history.is_on() && !held),
            gap: conn.marks.gap(),
            keep_alive_seconds: stays.then_some(idle_seconds),
            cors: conn.marks.cors(),
        };
        answer.push_head(&mut head);
        conn.phase = Phase::Between;
        let sent = conn.send_array(&head, &mut self.io, &self.counters);
        head.clear();
        self.answer = head;
        match sent {
            Flushed::All => conn.active = self.now,
            Flushed::Blocked => conn.blocked = true,
            Flushed::Gone(error) => return self.broken(slot, &error),
        }
        if stays {
            self.wheel.start(&mut self.conns, slot, self.now + self.rules.poll_idle);
        } else {
            self.finish(slot, end.unwrap_or(DisconnectReason::Answered));
        }
    }

    /// Nothing has come for a poll within its time. One that is held is answered when it is known
    /// what it has missed.
    pub(super) fn poll_timed_out(&mut self, slot: u32) {
        if self.conns.at(slot).is_some_and(|conn| conn.is_held()) {
            return self.wheel.start(&mut self.conns, slot, self.now + self.rules.poll_idle);
        }
        self.answer_poll(slot, None, None);
        self.read_on(slot);
    }

    /// No further request has come, or the answer to the last one is not taken.
    pub(super) fn idle_timed_out(&mut self, slot: u32) {
        match self.conns.at(slot).map(|conn| conn.is_flushed()) {
            Some(true) => self.close(slot, DisconnectReason::Idle, false),
            _ => self.close(slot, DisconnectReason::SlowReader, true),
        }
    }

    /// Ends a connection between two polls.
    pub(super) fn end_between(&mut self, slot: u32, reason: DisconnectReason) {
        match self.conns.at(slot).map(|conn| conn.is_flushed()) {
            Some(true) => self.close(slot, reason, false),
            _ => self.finish(slot, reason),
        }
    }
}
