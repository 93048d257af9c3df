//! Long polls: connections that carry one request after the other.
//!
//! A poll that waits is a record like a silent stream's: logged in, without a buffer. The first
//! event answers it when the turn's mail is written, together with all others of the turn; without
//! one its time runs out. Then it is logged out, and the connection is silent until the next
//! request. What a client sends too early is put by, within a bound, and read after the answer.
//!
//! An answered poll's references are dead, as those of a closed connection are: a proxy may carry
//! another client's poll on the same connection next, and must not bring it mail for this one.

use hub::{DisconnectReason, IdText};
use proto::poll::Answer;
use proto::{Framing, Request, Transport};

use super::{Shard, ticks};
use crate::conn::Phase;
use crate::outbox::Flushed;
use crate::sockets::Sockets;
use crate::timer::TICK_MS;

impl<S: Sockets> Shard<S> {
    /// Logs a poll in, and answers it at once if it does not wait.
    pub(super) fn begin_poll(&mut self, slot: u32, ids: &[IdText<'_>], request: &Request<'_>) {
        let logged_in = self.login(slot, ids);
        debug_assert!(logged_in.is_ok(), "a head holds fewer ids than a connection may have");
        let Some(conn) = self.conns.at(slot) else { return };
        (conn.phase, conn.transport) = (Phase::Streaming, Transport::Poll);
        conn.framing = if request.keep_alive { Framing::Chunked } else { Framing::Close };
        conn.cors = request.origin.is_some();
        self.counters.streams_opened[Transport::Poll.index()].add(1);
        match request.wait_seconds {
            0 => self.answer_poll(slot, None),
            seconds => {
                let wait = ticks(u64::from(seconds) * 1000);
                self.wheel.start(&mut self.conns, slot, self.now + wait);
            }
        }
    }

    /// The head that a poll's answer would have.
    pub(super) fn describe_poll(&mut self, cors: bool) {
        Answer { cors, ..Answer::default() }.push_head_only(&mut self.answer);
    }

    /// Answers a poll with the events that wait for it, perhaps none, and logs it out. Without a
    /// reason to `end` the connection it stays for the next request, if the client likes.
    pub(super) fn answer_poll(&mut self, slot: u32, end: Option<DisconnectReason>) {
        self.leave(slot);
        self.conns.renew(slot);
        let Some(conn) = self.conns.at(slot) else { return };
        let stays = end.is_none() && conn.framing == Framing::Chunked;
        let idle_seconds = (u64::from(self.rules.poll_idle) * TICK_MS / 1000) as u32;
        let mut head = std::mem::take(&mut self.answer);
        let answer = Answer {
            elements_len: conn.elements().len,
            keep_alive_seconds: stays.then_some(idle_seconds),
            cors: conn.cors,
            ..Answer::default()
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

    /// Nothing has come for a poll within its time.
    pub(super) fn poll_timed_out(&mut self, slot: u32) {
        self.answer_poll(slot, None);
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
