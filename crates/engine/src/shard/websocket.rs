//! WebSockets: what clients say on them, and how they end (RFC 6455).
//!
//! A client's messages are read in place, in the shard's scratch buffer. Only one that has not come
//! whole is kept, in the connection's rare box and within `--max-message`; so a connection that
//! says nothing, or only whole messages, owns no buffer. Answers to what came in one read leave in
//! one write, behind whatever waits, and are held against the bound on the backlog like events: a
//! client that commands and does not read is a slow reader.
//!
//! Who says more than a turn has time for is read on in the next turn, after the others.
//!
//! Where the handshake agreed to compression, events are sent compressed ([`outbox::compress`]) and
//! messages may come so. What is for one connection goes as it is: it is short.
//!
//! Cost: a command is one look at each of its bytes, a parse of its JSON and an answer.

use std::sync::Arc;

use hub::{ConnRef, DisconnectReason, IdText, id_of_number};
use proto::websocket::command::{self, Command};
use proto::websocket::{self, Close, CloseCode, ReadError, Received, Rules};
use proto::websocket::{deflate, handshake};
use proto::{Problem, request::Upgrade};
use smallvec::SmallVec;

use super::{Shard, key_of};
use crate::conn::Marks;
use crate::limits::{COMPRESSION_BYTES_PER_DELIVERY, COMPRESSION_DELIVERIES};
use crate::mailbox::Targets;
use crate::sockets::Sockets;
use crate::{Event, limits, outbox};

/// Ids as a client names them.
type Texts<'t> = SmallVec<[IdText<'t>; 4]>;

impl<S: Sockets> Shard<S> {
    /// Puts the head that agrees to a WebSocket into the buffer for answers, and takes note of what
    /// it agrees to.
    pub(super) fn shake_hands(&mut self, slot: u32, upgrade: &Upgrade<'_>) -> Result<(), Problem> {
        let agreement = handshake::agree(upgrade, self.rules.config.websocket_deflate)?;
        handshake::push_head(&agreement, &mut self.answer);
        if let Some(conn) = self.conns.at(slot) {
            conn.marks = Marks::of_websocket(agreement.deflate);
        }
        Ok(())
    }

    /// Compresses `event` if one of the `targets` agreed to it and nobody has. Returns what that
    /// cost, in deliveries.
    pub(super) fn compress_for(&mut self, event: &Arc<Event>, targets: &Targets) -> usize {
        if !self.rules.config.websocket_deflate {
            return 0;
        }
        let agreed = |&target: &ConnRef| {
            self.conns.find(key_of(target)).is_some_and(|conn| conn.marks.deflate())
        };
        let is_new = targets.iter().any(agreed)
            && outbox::compress(event, self.deflater.get_or_insert_default());
        match is_new {
            true => COMPRESSION_DELIVERIES + event.json().len() / COMPRESSION_BYTES_PER_DELIVERY,
            false => 0,
        }
    }

    /// The first `len` bytes of the scratch buffer are what a client has sent.
    pub(super) fn read_messages(&mut self, slot: u32, len: usize) {
        let mut scratch = std::mem::take(&mut self.scratch);
        self.hear(slot, &mut scratch[..len]);
        self.scratch = scratch;
    }

    /// Does what the messages in `input` say, and keeps the last one if it is not whole.
    pub(super) fn hear(&mut self, slot: u32, mut input: &mut [u8]) {
        let Some(conn) = self.conns.at(slot) else { return };
        let deflate = conn.marks.deflate();
        let rare = conn.rare.as_deref_mut();
        let mut partial = rare.map(|rare| std::mem::take(&mut rare.partial)).unwrap_or_default();
        let rules = Rules { message_bytes_max: self.rules.config.message_bytes_max, deflate };
        loop {
            let end = match partial.reader.next(&mut input, &mut partial.bytes, rules) {
                Ok(Some(received)) => self.received(slot, &received),
                Ok(None) => break,
                Err(error) => Some(self.broken_rule(error)),
            };
            if let Some(reason) = end {
                return self.end_with_answer(slot, reason);
            }
            // A short command may have a long answer.
            if self.answer.len() >= limits::SCRATCH_BYTES {
                self.send_answer(slot);
                if !self.conns.at(slot).is_some_and(|conn| conn.hears_messages()) {
                    return;
                }
            }
        }
        self.send_answer(slot);
        let Some(conn) = self.conns.at(slot) else { return };
        if !partial.reader.is_idle() {
            conn.rare().partial = partial;
        } else {
            conn.tidy();
        }
    }

    /// Takes one message in, and puts its answer into the buffer for answers. A reason ends the
    /// connection.
    fn received(&mut self, slot: u32, received: &Received<'_>) -> Option<DisconnectReason> {
        match *received {
            Received::Text(text) => {
                let answer = self.command(slot, text);
                websocket::push_text(&mut self.answer, &answer);
            }
            Received::Binary(_) => {
                let answer = command::error(&command::binary_problem());
                websocket::push_text(&mut self.answer, &answer);
            }
            Received::Compressed { is_text, bytes } => {
                self.heard_bytes += limits::INFLATE_CLIENT_BYTES;
                let (bytes_max, mut out) = (self.rules.config.message_bytes_max, Vec::new());
                return match deflate::inflate(is_text, bytes, bytes_max, &mut out) {
                    Ok(message) => self.received(slot, &message),
                    Err(error) => Some(self.broken_rule(error)),
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

    /// Carries a command out; its answer.
    fn command(&mut self, slot: u32, text: &str) -> String {
        let done = command::parse(text).and_then(|command| {
            match &command {
                Command::Login(ids) => {
                    let ids = id_texts(ids)?;
                    self.login(slot, &ids).map_err(|refused| refused.problem())?;
                }
                Command::Logout(ids) => {
                    let ids = id_texts(ids)?;
                    self.logout(slot, &ids);
                }
                Command::Ping(_) => {}
            }
            Ok(command::ok(&command, self.next(slot).as_deref()))
        });
        done.unwrap_or_else(|problem| command::error(&problem))
    }

    /// The id after which the client may resume, or nothing where nothing is remembered, or as long
    /// as it is still to be told what it has missed. All up to it is in the connection's outbox or
    /// was never for it, and the answer leaves behind that.
    fn next(&mut self, slot: u32) -> Option<String> {
        let is_held = self.conns.at(slot).is_none_or(|conn| conn.is_held());
        (self.rules.config.history.is_on() && !is_held).then(|| id_of_number(self.settled))
    }

    /// Leaves the rest of what the client in `slot` has sent to the next turn.
    pub(super) fn defer(&mut self, slot: u32) {
        let Some(conn) = self.conns.at(slot) else { return };
        if !conn.deferred {
            conn.deferred = true;
            self.deferred.push_back(slot);
        }
    }

    /// Reads on where the turn before had no time, as far as this turn has.
    pub(crate) fn read_deferred(&mut self) {
        for _ in 0..self.deferred.len() {
            if self.heard_bytes >= limits::CLIENT_BYTES_PER_TURN {
                return;
            }
            let Some(slot) = self.deferred.pop_front() else { return };
            // Whoever has the slot now: one that waits for nothing is left alone.
            if let Some(conn) = self.conns.at(slot)
                && conn.deferred
            {
                conn.deferred = false;
                // Its end may have been reported meanwhile, so it is read to its end.
                self.readable(slot, true);
            }
        }
    }

    /// Whether clients wait for their input to be read.
    pub(crate) fn owes_reads(&self) -> bool {
        !self.deferred.is_empty()
    }
}

fn id_texts<'t>(ids: &'t [command::IdText<'_>]) -> Result<Texts<'t>, Problem> {
    let parse = |id: &'t command::IdText<'_>| IdText::parse(&id.0);
    let parsed: Result<Texts<'t>, _> = ids.iter().map(parse).collect();
    parsed.map_err(|error| Problem::bad_id(format!("{error}.")))
}

/// The close frame with which the server ends a connection for `reason`.
pub(super) fn push_farewell(reason: DisconnectReason, out: &mut Vec<u8>) {
    let close = match reason {
        DisconnectReason::LoggedOut => Close::LOGGED_OUT,
        DisconnectReason::SlowReader => Close::SLOW_READER,
        // Nothing else ends a stream in good manners.
        _ => Close::SHUTDOWN,
    };
    websocket::push_close(out, close);
}
