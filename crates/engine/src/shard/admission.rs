//! From a request head to a stream or a poll, or to an answer that says why not.

use hub::{DisconnectReason, IdText};
use proto::request::{self, Parsed, Refusal, Request};
use proto::{Cursor, Framing, Method, Problem, Route, Transport, classic, response};
use smallvec::SmallVec;

use super::Shard;
use crate::conn::Phase;
use crate::limits;
use crate::sockets::Sockets;

/// An answer that ends the exchange, as far as it depends on the request.
pub(super) struct Reply<'r> {
    head_only: bool,
    cors_origin: Option<&'r str>,
}

impl<S: Sockets> Shard<S> {
    /// The first `len` bytes of the scratch buffer belong to the connection's requests.
    pub(super) fn read_head(&mut self, slot: u32, len: usize) {
        let scratch = std::mem::take(&mut self.scratch);
        let mut unread = self.take_unread(slot);
        if unread.is_empty() {
            let used = self.read_requests(slot, &scratch[..len], 0);
            if used < len {
                self.put_by(slot, scratch[used..len].to_vec());
            }
        } else {
            let seen = unread.len();
            unread.extend_from_slice(&scratch[..len]);
            self.read_gathered(slot, unread, seen);
        }
        self.scratch = scratch;
    }

    /// Goes on with what was sent while a poll waited, now that it is answered.
    pub(super) fn read_on(&mut self, slot: u32) {
        let unread = self.take_unread(slot);
        if !unread.is_empty() {
            self.read_gathered(slot, unread, 0);
        }
    }

    fn take_unread(&mut self, slot: u32) -> Vec<u8> {
        let rare = self.conns.at(slot).and_then(|conn| conn.rare.as_mut());
        rare.map_or(Vec::new(), |rare| std::mem::take(&mut rare.head))
    }

    fn read_gathered(&mut self, slot: u32, mut bytes: Vec<u8>, seen: usize) {
        let used = self.read_requests(slot, &bytes, seen);
        bytes.drain(..used);
        self.put_by(slot, bytes);
    }

    /// Serves the requests that `bytes` begin with: one, or after polls that are answered at once
    /// several. The first `seen` bytes were looked at before. Returns how many are dealt with.
    fn read_requests(&mut self, slot: u32, bytes: &[u8], mut seen: usize) -> usize {
        let mut used = 0;
        while self.conns.at(slot).is_some_and(|conn| conn.awaits_request()) {
            match request::parse(&bytes[used..], seen) {
                Parsed::NeedMore => break,
                Parsed::Request(request) => {
                    (used, seen) = (used + request.head_len, 0);
                    self.admit(slot, &request);
                }
                Parsed::Refused(Refusal { problem, head_only, origin, host }) => {
                    let cors_origin =
                        origin.filter(|origin| self.rules.config.origins.allows(origin, host));
                    self.refuse(slot, &problem, &Reply { head_only, cors_origin });
                }
            }
        }
        used
    }

    /// Keeps bytes that cannot be dealt with yet: half a head, or what was sent while a poll waits.
    /// On an open stream they mean nothing. On a WebSocket they are messages: its client should
    /// have waited (RFC 6455, section 4.1), but to skip them would read the next ones wrong.
    fn put_by(&mut self, slot: u32, mut unread: Vec<u8>) {
        let Some(conn) = self.conns.at(slot) else { return };
        if conn.hears_messages() {
            return self.hear(slot, &mut unread);
        }
        if unread.is_empty() || !conn.takes_requests() {
            return;
        }
        if unread.len() > limits::PIPELINED_BYTES_MAX {
            return self.close(slot, DisconnectReason::BadRequest, true);
        }
        conn.rare().head = unread;
        if conn.phase == Phase::Between && conn.is_flushed() {
            conn.phase = Phase::Head;
            self.wheel.start(&mut self.conns, slot, self.now + self.rules.head_timeout);
        }
    }

    fn admit(&mut self, slot: u32, request: &Request<'_>) {
        let allows = |origin: &&str| self.rules.config.origins.allows(origin, request.host);
        let cors_origin = request.origin.filter(allows);
        let reply = Reply { head_only: request.method == Method::Head, cors_origin };
        if !self.rules.config.origins.is_called(request.host, request.origin) {
            return self.refuse(slot, &Problem::misdirected(), &reply);
        }
        if request.route == Route::Page && self.rules.config.page.is_none() {
            return self.refuse(slot, &Problem::no_such_path(), &reply);
        }
        if request.method == Method::Options {
            response::preflight(cors_origin, &mut self.answer);
            return self.answered(slot, DisconnectReason::Answered);
        }
        if request.origin.is_some() && cors_origin.is_none() {
            return self.refuse(slot, &Problem::forbidden_origin(), &reply);
        }
        if request.route == Route::Page {
            return self.show_page(slot, request);
        }
        let ids: Result<SmallVec<[IdText<'_>; 4]>, _> =
            request.ids.iter().map(|id| IdText::parse(id)).collect();
        let ids = match ids {
            Ok(ids) => ids,
            Err(error) => {
                return self.refuse(slot, &Problem::bad_id(format!("{error}.")), &reply);
            }
        };
        if request.route == Route::Poll {
            if request.method == Method::Get {
                return self.begin_poll(slot, &ids, request, &reply);
            }
            self.describe_poll(cors_origin.is_some());
            return self.answered(slot, DisconnectReason::Answered);
        }
        if let Some(upgrade) = &request.upgrade {
            return match self.shake_hands(slot, upgrade) {
                Ok(()) => {
                    let how = (Transport::WebSocket, Framing::Close);
                    self.begin(slot, &ids, how, request.cursor, &reply)
                }
                Err(problem) => self.refuse(slot, &problem, &reply),
            };
        }
        let (transport, framing) = (request.transport, request.framing);
        response::stream_head(transport, framing, cors_origin, &mut self.answer);
        if request.method == Method::Head {
            return self.answered(slot, DisconnectReason::Answered);
        }
        if transport == Transport::Classic {
            let first = request.ids.first().map_or("", |id| id);
            classic::welcome(first, framing, &mut self.answer);
        }
        self.begin(slot, &ids, (transport, framing), request.cursor, &reply);
    }

    /// Logs in before the head is sent: who has read the head is online.
    fn begin(
        &mut self,
        slot: u32,
        ids: &[IdText<'_>],
        (transport, framing): (Transport, Framing),
        cursor: Option<Cursor>,
        reply: &Reply<'_>,
    ) {
        let newest = self.event_ids.last();
        if let Err(refused) = self.login(slot, ids) {
            return self.refuse(slot, &refused.problem(), reply);
        }
        let Some(conn) = self.conns.at(slot) else { return };
        (conn.phase, conn.transport, conn.framing) = (Phase::Streaming, transport, framing);
        conn.messages = 0;
        self.counters.streams_opened[transport.index()].add(1);
        match self.rules.keepalive {
            Some(silence) => self.wheel.start(&mut self.conns, slot, self.now + silence),
            None => self.wheel.stop(&mut self.conns, slot),
        }
        self.begin_at(slot, cursor, newest);
        self.send_answer(slot);
    }

    pub(super) fn refuse(&mut self, slot: u32, problem: &Problem, reply: &Reply<'_>) {
        self.answer.clear();
        response::problem(problem, reply.head_only, reply.cors_origin, &mut self.answer);
        self.answered(slot, DisconnectReason::BadRequest);
    }

    pub(super) fn head_timed_out(&mut self, slot: u32) {
        self.answer.clear();
        response::problem(&Problem::head_timeout(), false, None, &mut self.answer);
        self.answered(slot, DisconnectReason::HeadTimeout);
    }

    pub(super) fn answered(&mut self, slot: u32, reason: DisconnectReason) {
        self.send_answer(slot);
        self.finish(slot, reason);
    }

    /// Sends what is in the buffer for answers.
    pub(super) fn send_answer(&mut self, slot: u32) {
        if self.answer.is_empty() {
            return;
        }
        let answer = std::mem::take(&mut self.answer);
        self.reply(slot, &answer);
        self.answer = answer;
        self.answer.clear();
    }
}
