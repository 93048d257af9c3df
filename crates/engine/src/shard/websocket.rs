//! WebSockets: what clients say on them, and how they end (RFC 6455).
//!
//! A client's messages are read in place, in the shard's scratch buffer. Only one that has not come
//! whole is kept, in the connection's rare box and within `--max-message`. So a connection that
//! says nothing, or only whole messages, owns no buffer. Answers to what came in one read leave in
//! one write, behind whatever waits. They are held against the bound on the backlog like events. A
//! client that commands and does not read is a slow reader.
//!
//! A client that says more than a turn has time for is read on in the next turn, after the others.
//! One that begins a message and does not end it in time is refused.
//!
//! Where the handshake agreed to compression, events are sent compressed
//! ([`crate::form::compress`]) and messages may come so. What is for one connection goes as it
//! is: it is short.
//!
//! An event that a client sends is posted by the control plane ([`super::client_sends`]), and so
//! its answer follows.
//!
//! Cost: a command is one look at each of its bytes, a parse of its JSON and an answer.

use hub::{DisconnectReason, IdText};
use proto::websocket::command::{self, Command, SendText};
use proto::websocket::{self, Close, CloseCode, ReadError, Received, Rules};
use proto::websocket::{deflate, handshake};
use proto::{Problem, request::Upgrade};
use smallvec::SmallVec;

use super::core::{At, Core, Lives};
use super::tokens::Renewal;
use crate::client_sends::SentBy;
use crate::conn::Marks;
use crate::limits::{self, work};
use crate::sockets::Sockets;

/// Ids as a client names them.
type MessageTexts<'t> = SmallVec<[IdText<'t>; 4]>;

impl<S: Sockets> Core<S> {
    /// Puts the head that agrees to a WebSocket into the buffer for answers, and takes note of what
    /// it agrees to.
    pub(super) fn open_websocket(
        &mut self,
        at: &mut At<'_, S::Socket>,
        upgrade: &Upgrade<'_>,
    ) -> Result<(), Problem> {
        let agreement = handshake::agree(upgrade, self.config.websocket_deflate)?;
        handshake::push_head(&agreement, &mut self.answer);
        at.conn.mark(Marks::DEFLATE, agreement.deflate);
        Ok(())
    }

    /// The first `len` bytes of the scratch buffer are what a client has sent.
    pub(super) fn read_messages(&mut self, at: &mut At<'_, S::Socket>, len: usize) -> Lives {
        let mut scratch = std::mem::take(&mut self.scratch);
        let lives = self.hear(at, &mut scratch[..len]);
        self.scratch = scratch;
        lives
    }

    /// Does what the messages in `input` say, and keeps the last one if it is not whole. Where it
    /// is another connection's turn, those that are left wait for the next one.
    pub(super) fn hear(&mut self, at: &mut At<'_, S::Socket>, mut input: &mut [u8]) -> Lives {
        let deflate = at.conn.is(Marks::DEFLATE);
        let work = at.conn.some_work();
        let mut partial = work.map(|work| std::mem::take(&mut work.partial)).unwrap_or_default();
        let mut is_old = !partial.reader.is_idle();
        let rules = Rules { message_bytes_max: self.message_bytes_max(at), deflate };
        let len = input.len();
        loop {
            if (1..len).contains(&input.len()) && self.budget.is_anothers() {
                break;
            }
            let end = match partial.reader.next(&mut input, &mut partial.bytes, rules) {
                Ok(Some(received)) => {
                    // A frame of control between two fragments does not make the message younger.
                    is_old &= received.is_control();
                    self.received(at, &received)
                }
                Ok(None) => break,
                Err(error) => Some(self.broken_rule(error)),
            };
            if let Some(reason) = end {
                return self.end_with_answer(at, reason);
            }
            // A short command may have a long answer.
            if self.answer.len() >= limits::SCRATCH_BYTES {
                self.send_answer(at)?;
            }
        }
        self.send_answer(at)?;
        if !input.is_empty() {
            at.conn.new_work().unread = input.to_vec();
            self.defer(at);
        }
        if partial.reader.is_idle() {
            at.conn.tidy();
            return Ok(());
        }
        if !is_old {
            partial.since = self.now;
        }
        at.conn.new_work().partial = partial;
        if !is_old {
            self.wait(at);
        }
        Ok(())
    }

    /// Takes one message in, and puts its answer into the buffer for answers. A reason ends the
    /// connection.
    fn received(
        &mut self,
        at: &mut At<'_, S::Socket>,
        received: &Received<'_>,
    ) -> Option<DisconnectReason> {
        self.budget.spend(work::MESSAGE);
        match *received {
            Received::Text(text) => self.hear_text(at, text),
            Received::Binary(_) => self.hear_binary(at),
            Received::Compressed { is_text, bytes } => {
                let pieces = bytes.len().div_ceil(work::INFLATE_BYTES) as u32;
                self.budget.spend(work::INFLATE + pieces);
                let (bytes_max, mut out) = (self.message_bytes_max(at), Vec::new());
                let inflated = deflate::inflate(is_text, bytes, bytes_max, &mut out);
                return match inflated {
                    Ok(message) => {
                        self.budget.spend_bytes(message.len());
                        self.received(at, &message)
                    }
                    Err(error) => {
                        // It may have come to the bound before it was refused.
                        self.budget.spend_bytes(bytes_max);
                        Some(self.broken_rule(error))
                    }
                };
            }
            Received::Ping(payload) => websocket::push_pong(&mut self.answer, payload),
            Received::Pong(_) => {}
            Received::Close { code, .. } => {
                websocket::push_close_echo(&mut self.answer, code);
                return Some(DisconnectReason::ClientClosed);
            }
        }
        None
    }

    fn broken_rule(&mut self, error: ReadError) -> DisconnectReason {
        let close = error.close();
        websocket::push_close(&mut self.answer, close);
        match close.code {
            CloseCode::TooBig => DisconnectReason::MessageTooLarge,
            _ => DisconnectReason::ProtocolError,
        }
    }

    /// A message has not come whole in its time.
    pub(super) fn refuse_message(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        websocket::push_close(&mut self.answer, Close::MESSAGE_TIMEOUT);
        self.end_with_answer(at, DisconnectReason::MessageTimeout)
    }

    /// Carries a command out; its answer. `None` when a token has to be looked at first.
    pub(super) fn command(&mut self, at: &mut At<'_, S::Socket>, text: &str) -> Option<String> {
        let done = command::parse(text).and_then(|command| {
            match &command {
                Command::Login(ids) => {
                    self.may_login(at, ids)?;
                    let (ids, ids_max) = (id_texts(ids)?, at.conn.grant().and_then(|g| g.ids_max));
                    self.login(at, &ids, ids_max).map_err(|refused| refused.problem())?;
                }
                Command::Token(token) => match self.renew(at, token.text()) {
                    Renewal::Asked => return Ok(None),
                    Renewal::Done(Ok(())) => {}
                    Renewal::Done(Err(problem)) => {
                        return Ok(Some(command::token_error(&problem)));
                    }
                },
                Command::Logout(ids) => {
                    let ids = id_texts(ids)?;
                    self.logout(at, &ids);
                }
                Command::Members(room) => return Ok(self.watch_for(at, room)),
                Command::Unwatch(room) => self.unwatch(at, id_text(room)?),
                Command::Ping(_) => {}
                Command::Send(send) => return Ok(self.send_text(at, *send)),
            }
            Ok(Some(command::ok(&command, self.next(at).as_deref())))
        });
        done.unwrap_or_else(|problem| Some(command::error(&problem)))
    }

    /// Has an event sent; its answer, if that does not follow.
    fn send_text(&mut self, at: &At<'_, S::Socket>, send: SendText<'_>) -> Option<String> {
        let own = Some(self.connection_id(self.conn_ref(at)));
        let by = SentBy::Message { reference: send.reference.map(Into::into), own };
        let grant = at.conn.grant().cloned();
        let refused = self.send_for(at, send.event.as_bytes(), by, grant).err()?;
        Some(command::send_error(&refused, send.reference))
    }

    /// Has the connection watch a room. The answer, unless that follows.
    fn watch_for(&mut self, at: &At<'_, S::Socket>, room: &command::IdText<'_>) -> Option<String> {
        let granted = match self.config.tokens {
            None => Ok(()),
            Some(_) if at.conn.grant().is_some_and(|grant| grant.allows_members(&room.0)) => Ok(()),
            Some(_) => {
                self.counters.ids_not_granted.add(1);
                Err(Problem::members_not_granted(&room.0))
            }
        };
        let watched = granted.and_then(|()| self.watch(at, id_text(room)?));
        watched.unwrap_or_else(|problem| Some(command::members_error(&room.0, &problem)))
    }

    /// Whether the connection's token grants these ids, where one is needed.
    fn may_login(
        &mut self,
        at: &At<'_, S::Socket>,
        ids: &[command::IdText<'_>],
    ) -> Result<(), Problem> {
        if self.config.tokens.is_none() {
            return Ok(());
        }
        self.budget.spend_ids(ids.len());
        let allows = |id: &&command::IdText<'_>| at.conn.grant().is_some_and(|g| g.allows(&id.0));
        match ids.iter().find(|id| !allows(id)) {
            None => Ok(()),
            Some(denied) => {
                self.counters.ids_not_granted.add(1);
                Err(Problem::not_granted(&denied.0))
            }
        }
    }

    /// The id after which the client may resume, or nothing where nothing is remembered, or as long
    /// as it is still to be told what it has missed, or that it has. All up to it is in the
    /// connection's outbox or was never for it, and the answer leaves behind that. As long as mail
    /// waits some may have later events, and others not: then it is not told.
    pub(super) fn next(&self, at: &At<'_, S::Socket>) -> Option<String> {
        let is_told = !at.conn.state().is_held() && !self.has_pending_gap(at.slot);
        let is_settled = is_told && self.latest <= self.settled;
        let is_known = self.config.history.is_on() && is_settled;
        is_known.then(|| self.event_ids.id(self.settled).to_string())
    }
}

fn id_text<'t>(id: &'t command::IdText<'_>) -> Result<IdText<'t>, Problem> {
    IdText::parse(&id.0).map_err(|error| Problem::bad_id(format!("{error}.")))
}

fn id_texts<'t>(ids: &'t [command::IdText<'_>]) -> Result<MessageTexts<'t>, Problem> {
    ids.iter().map(id_text).collect()
}

/// The close frame with which the server ends a connection for `reason`.
pub(super) fn push_end(reason: DisconnectReason, out: &mut Vec<u8>) {
    let close = match reason {
        DisconnectReason::LoggedOut => Close::LOGGED_OUT,
        DisconnectReason::Moved => Close::MOVED,
        DisconnectReason::SlowReader => Close::SLOW_READER,
        DisconnectReason::TokenExpired => Close::TOKEN_EXPIRED,
        DisconnectReason::TokenRevoked => Close::TOKEN_REVOKED,
        // Nothing else ends a stream gracefully.
        _ => Close::SHUTDOWN,
    };
    websocket::push_close(out, close);
}
