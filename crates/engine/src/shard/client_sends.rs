//! Clients that send events: by a message of a WebSocket, or by `POST /send`.
//!
//! Here it is looked whether a connection may send by now; what it sends, the control plane reads
//! ([`crate::client_sends`]). A request is served once its body has come whole: as long as it has
//! not, its connection keeps the bytes and is in a state of its own, with a time in which it must
//! end. So is one whose event is on its way.

use std::sync::Arc;

use hub::{DisconnectReason, Grant};
use proto::{Carrier, Format, Problem, Request, response};

use super::Shard;
use super::admission::Reply;
use super::core::{At, Core, Lives};
use super::poll::kept_cors;
use super::tokens::Presented;
use crate::client_sends::{ClientSend, ClientSendOutcome, Publisher, SentBy};
use crate::conn::Marks;
use crate::conn::state::State;
use crate::limits::RETRY_AFTER_SECONDS;
use crate::sockets::Sockets;
use crate::wire::Wire;

/// When to try again what comes while everything is written down, in seconds.
pub(super) const UPGRADE_SECONDS: u32 = 1;

impl<S: Sockets> Shard<S> {
    /// Sends of clients are refused from now on, or taken again.
    pub(crate) fn refuse_sends(&mut self, is_so: bool) {
        self.core.refuses_sends = is_so;
    }
}

impl<S: Sockets> Core<S> {
    /// Whether a client with this `grant` may send about anything, as far as its worker knows.
    pub(super) fn may_send(&self, grant: Option<&Grant>) -> bool {
        match self.config.tokens {
            None => self.config.settings.client_sends.without_tokens,
            Some(_) => grant.is_some_and(Grant::sends),
        }
    }

    /// The longest command that is read of a WebSocket's client.
    pub(super) fn command_bytes_max(&self, at: &At<'_, S::Socket>) -> usize {
        let settings = &self.config.settings;
        match self.may_send(at.conn.grant().map(|grant| &**grant)) {
            true => settings.message_bytes_max.max(settings.client_sends.message_bytes_max()),
            false => settings.message_bytes_max,
        }
    }

    /// Asks the control plane to post the `event` of a client. A refusal is the answer; otherwise
    /// it follows.
    pub(super) fn send_for(
        &mut self,
        at: &At<'_, S::Socket>,
        event: &[u8],
        by: SentBy,
        grant: Option<Arc<Grant>>,
    ) -> Result<(), Problem> {
        self.budget.spend_bytes(event.len());
        let asked = self.ask_to_send(at, event, by, grant);
        asked.inspect_err(|problem| {
            self.client_sends.count(ClientSendOutcome::of_status(problem.status));
        })
    }

    fn ask_to_send(
        &mut self,
        at: &At<'_, S::Socket>,
        event: &[u8],
        by: SentBy,
        grant: Option<Arc<Grant>>,
    ) -> Result<(), Problem> {
        if !self.may_send(grant.as_deref()) {
            return Err(match self.config.tokens {
                None => Problem::sends_are_off(),
                Some(_) => Problem::no_send_granted(),
            });
        }
        if self.refuses_sends {
            return Err(Problem::sends_busy(UPGRADE_SECONDS));
        }
        let limits = self.config.settings.client_sends;
        let publisher = self.take_of_rate(at)?;
        let source = self.sources.get(at.slot).map(|key| key.bits());
        let (conn, event) = (self.conn_ref(at), event.into());
        let send = ClientSend { conn, event, by, grant, source, limits };
        if !self.client_sends.questions().push(send) {
            return Err(Problem::sends_busy(RETRY_AFTER_SECONDS));
        }
        self.publishers.set(at.slot, publisher);
        self.unanswered += 1;
        Ok(())
    }

    /// What the connection has spent of its rate after one more send or read, if it may.
    pub(super) fn take_of_rate(&self, at: &At<'_, S::Socket>) -> Result<Publisher, Problem> {
        let limits = &self.config.settings.client_sends;
        self.publishers.get(at.slot).take(limits, self.now).map_err(|again| {
            let seconds = again.retry_ms.div_ceil(1000).max(1);
            let detail = "This connection sends or reads too often. Try again later.";
            Problem::too_many(detail, seconds.min(u64::from(u32::MAX)) as u32)
        })
    }

    /// One of the sends of the connection in `slot` is answered.
    pub(super) fn note_answered(&mut self, slot: u32) {
        let publisher = self.publishers.get(slot);
        self.publishers.set(slot, publisher.answered());
    }

    /// Serves a request that sends an event, whose body is `body`, if that is all there.
    pub(super) fn admit_send(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
        body: Option<&[u8]>,
        reply: &Reply<'_>,
    ) -> Lives {
        let bytes_max = self.config.settings.client_sends.message_bytes_max();
        if request.body.len > bytes_max {
            self.client_sends.count(ClientSendOutcome::TooLarge);
            return self.refuse(at, &Problem::body_too_large(bytes_max), reply);
        }
        let Some(body) = body else { return self.await_body(at, request) };
        let granted = match self.look_at_token(at, request) {
            Presented::Open => None,
            Presented::Granted(granted) => Some(granted),
            Presented::Refused(problem) => return self.refuse(at, &problem, reply),
            Presented::Asked => return Ok(()),
        };
        at.conn.begin_request();
        let carrier = if request.keep_alive { Carrier::Chunked } else { Carrier::Close };
        // It is answered as a poll is: once, and then the connection is there for the next request.
        at.conn.wire = Wire::new(Format::Poll, carrier);
        self.keep_cors(at, request, reply);
        at.conn.move_to(State::Sending);
        at.conn.active = self.now;
        self.wait(at);
        let by = SentBy::Request { key: request.body.key.map(Into::into) };
        let sent = self.send_for(at, body, by, granted.map(|granted| granted.grant));
        sent.or_else(|problem| self.answer_request(at, Err(&problem)))
    }

    /// The rest of the body is to come, for which there is a time.
    pub(super) fn await_body(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
    ) -> Lives {
        at.conn.new_work().whole = request.head_len + request.body.len;
        at.conn.move_to(State::Body);
        at.conn.active = self.now;
        self.wait(at);
        if request.body.expects {
            self.answer.extend_from_slice(response::CONTINUE);
        }
        self.send_answer(at)
    }

    /// The body has not come in time.
    pub(super) fn refuse_body(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        self.refuse_plainly(at, &Problem::body_timeout())
    }

    /// Nobody has said in time what became of its event, or made its page.
    pub(super) fn refuse_unanswered(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        let problem = match at.conn.is(Marks::READS) {
            true => Problem::history_busy(RETRY_AFTER_SECONDS),
            false => Problem::send_unanswered(),
        };
        let reply = Reply { head_only: at.conn.is(Marks::HEAD_ONLY), cors: None };
        self.refuse(at, &problem, &reply)
    }

    /// Answers a request that waits for the control plane, after which the connection is there for
    /// the next one, if the client likes.
    pub(super) fn answer_request(
        &mut self,
        at: &mut At<'_, S::Socket>,
        outcome: Result<&str, &Problem>,
    ) -> Lives {
        if let Err(problem) = outcome {
            self.note_refusal(at, problem);
        }
        let origin = at.conn.some_work().and_then(|work| work.origin.take());
        let stays = at.conn.wire.carrier() == Carrier::Chunked;
        let idle_seconds = self.poll_idle_seconds();
        let cors = kept_cors(at.conn.is(Marks::CORS), origin.as_deref());
        let (head_only, waits) = (at.conn.is(Marks::HEAD_ONLY), stays.then_some(idle_seconds));
        response::outcome(outcome, head_only, waits, cors, &mut self.answer);
        at.conn.mark(Marks::HEAD_ONLY, false);
        at.conn.mark(Marks::READS, false);
        at.conn.tidy();
        at.conn.move_to(State::Between);
        at.conn.active = self.now;
        self.put_answer(at)?;
        self.wait(at);
        if stays { Ok(()) } else { self.finish(at, DisconnectReason::Answered) }
    }
}
