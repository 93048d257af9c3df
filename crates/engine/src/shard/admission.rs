//! From a request head to a stream, or to an answer that says why not.

use hub::{DisconnectReason, IdText};
use proto::request::{self, Parsed, Refusal, Request};
use proto::{Framing, Method, Problem, Route, Transport, classic, response};
use smallvec::SmallVec;

use super::Shard;
use crate::config::EngineConfig;
use crate::conn::Phase;
use crate::sockets::Sockets;

/// An answer that ends the exchange, as far as it depends on the request.
struct Reply<'r> {
    head_only: bool,
    cors_origin: Option<&'r str>,
}

impl<S: Sockets> Shard<S> {
    /// The first `len` bytes of the scratch buffer belong to the connection's request head.
    pub(super) fn read_head(&mut self, slot: u32, len: usize) {
        let scratch = std::mem::take(&mut self.scratch);
        self.gather_head(slot, &scratch[..len]);
        self.scratch = scratch;
    }

    fn gather_head(&mut self, slot: u32, bytes: &[u8]) {
        let Some(conn) = self.conns.at(slot) else { return };
        let mut gathered =
            conn.rare.as_mut().map_or(Vec::new(), |rare| std::mem::take(&mut rare.head));
        let seen = gathered.len();
        let head = if seen == 0 {
            bytes
        } else {
            gathered.extend_from_slice(bytes);
            &gathered
        };
        match request::parse(head, seen) {
            Parsed::NeedMore if seen == 0 => conn.rare().head = bytes.to_vec(),
            Parsed::NeedMore => conn.rare().head = gathered,
            Parsed::Request(request) => self.admit(slot, &request),
            Parsed::Refused(Refusal { problem, head_only, origin, host }) => {
                let cors_origin =
                    origin.filter(|origin| self.rules.config.origins.allows(origin, host));
                self.refuse(slot, &problem, &Reply { head_only, cors_origin });
            }
        }
    }

    fn admit(&mut self, slot: u32, request: &Request<'_>) {
        let allows = |origin: &&str| self.rules.config.origins.allows(origin, request.host);
        let cors_origin = request.origin.filter(allows);
        let reply = Reply { head_only: request.method == Method::Head, cors_origin };
        if let Some(problem) = not_built(request, &self.rules.config) {
            return self.refuse(slot, &problem, &reply);
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
        let (transport, framing) = (request.transport, request.framing);
        response::stream_head(transport, framing, cors_origin, &mut self.answer);
        if request.method == Method::Head {
            return self.answered(slot, DisconnectReason::Answered);
        }
        if transport == Transport::Classic {
            let first = request.ids.first().map_or("", |id| id);
            classic::welcome(first, framing, &mut self.answer);
        }
        self.begin(slot, &ids, transport, framing);
    }

    /// Logs in before the head is sent: who has read the head is online.
    fn begin(&mut self, slot: u32, ids: &[IdText<'_>], transport: Transport, framing: Framing) {
        let logged_in = self.login(slot, ids);
        debug_assert!(logged_in.is_ok(), "a head holds fewer ids than a connection may have");
        let Some(conn) = self.conns.at(slot) else { return };
        (conn.phase, conn.transport, conn.framing) = (Phase::Streaming, transport, framing);
        self.counters.streams_opened[transport.index()].add(1);
        match self.rules.keepalive {
            Some(silence) => self.wheel.start(&mut self.conns, slot, self.now + silence),
            None => self.wheel.stop(&mut self.conns, slot),
        }
        self.send_answer(slot);
    }

    fn refuse(&mut self, slot: u32, problem: &Problem, reply: &Reply<'_>) {
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

    fn send_answer(&mut self, slot: u32) {
        let answer = std::mem::take(&mut self.answer);
        self.reply(slot, &answer);
        self.answer = answer;
        self.answer.clear();
    }
}

/// What a request can ask for that this version does not have.
fn not_built(request: &Request<'_>, config: &EngineConfig) -> Option<Problem> {
    match request.route {
        Route::Page => config.page.is_none().then(Problem::no_such_path),
        Route::Poll => Some(Problem::poll_not_implemented()),
        Route::Stream | Route::Classic => {
            request.upgrade.is_some().then(Problem::websocket_not_implemented)
        }
    }
}
