//! What the control plane says to single connections ([`crate::answers`]).
//!
//! It is put behind what waits for the connection, and written with that at the end of the turn.

use std::sync::Arc;

use hub::ConnRef;

use super::core::{At, Core, Lives};
use super::{Shard, key_of};
use crate::conn::action::DirectMessageAction;
use crate::limits::EXPRESS_BYTES_MAX;
use crate::receipt::Stub;
use crate::said::{DirectMessage, Say};
use crate::sockets::Sockets;

impl<S: Sockets> Shard<S> {
    /// Says something to a connection, which may have gone.
    pub(super) fn say(&mut self, Say { target, said }: Say) {
        if self.core.pending_gap.is_some() {
            self.tell_first(target);
        }
        let is_answer = matches!(said, DirectMessage::Sent(_) | DirectMessage::Page(_));
        if let DirectMessage::Page(_) = said {
            self.core.history_reads.answered();
        }
        self.core.unanswered -= usize::from(is_answer);
        if self.conns.find(key_of(target)).is_some() {
            if is_answer {
                self.core.note_answered(target.slot() as u32);
            }
            self.serve(target.slot() as u32, |core, at| core.say(at, said));
        }
    }
}

impl<S: Sockets> Shard<S> {
    /// Says something to these connections, some of which may have gone.
    pub(super) fn tell_all(&mut self, text: &Arc<str>, targets: &[ConnRef], mut stub: Stub) {
        for &target in targets {
            if self.core.pending_gap.is_some() {
                self.tell_first(target);
            }
            if self.conns.find(key_of(target)).is_none() {
                continue;
            }
            stub.count_one();
            self.serve(target.slot() as u32, |core, at| {
                core.say(at, DirectMessage::Message(Arc::clone(text)))
            });
        }
    }
}

impl<S: Sockets> Core<S> {
    pub(super) fn say(&mut self, at: &mut At<'_, S::Socket>, said: DirectMessage) -> Lives {
        match (at.conn.state().on_said(), said) {
            (Some(DirectMessageAction::Tell), DirectMessage::Message(text)) => {
                let wire = at.conn.wire;
                wire.format().push_message(&mut self.answer, wire.carrier(), &text);
                self.put_answer(at)
            }
            (Some(DirectMessageAction::Tell), DirectMessage::Sent(answered)) => {
                self.say_sent(at, *answered)
            }
            (Some(DirectMessageAction::Answer), DirectMessage::Sent(answered)) => {
                self.answer_request(at, answered.outcome.as_deref())
            }
            (Some(DirectMessageAction::Answer), DirectMessage::Page(page)) => {
                self.answer_request(at, (*page).as_deref())
            }
            (Some(DirectMessageAction::Tell), DirectMessage::Followed(followed)) => {
                self.take_followed(at, *followed);
                self.put_answer(at)
            }
            // A stream has asked for none.
            (Some(DirectMessageAction::Tell), DirectMessage::Page(_)) => Ok(()),
            // A request has no stream.
            (
                Some(DirectMessageAction::Answer),
                DirectMessage::Message(_) | DirectMessage::Followed(_),
            ) => Ok(()),
            // It ends.
            (None, _) => Ok(()),
        }
    }

    /// Puts what is in the buffer for answers behind what waits for the connection.
    pub(super) fn put_answer(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        if self.answer.is_empty() {
            return Ok(());
        }
        let waiting = at.conn.push_reply(&self.answer);
        self.answer.clear();
        if waiting <= self.config.backlog_bytes_max {
            self.queue(at, waiting > EXPRESS_BYTES_MAX);
            return Ok(());
        }
        // It may be we who are slow: what waits for its turn to be written is no backlog yet.
        self.flush(at)?;
        self.bound_backlog(at)
    }
}
