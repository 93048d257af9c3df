//! What the control plane says to single connections ([`crate::answers`]).
//!
//! It is put behind what waits for the connection, and written with that at the end of the turn.

use super::core::{At, Core, Lives};
use super::{Shard, key_of};
use crate::conn::act::SaidAct;
use crate::limits::EXPRESS_BYTES_MAX;
use crate::said::{Said, Say};
use crate::sockets::Sockets;

impl<S: Sockets> Shard<S> {
    /// Says something to a connection, which may have gone.
    pub(super) fn say(&mut self, Say { target, said }: Say) {
        if self.core.untold.is_some() {
            self.tell_first(target);
        }
        if self.conns.find(key_of(target)).is_some() {
            self.serve(target.slot() as u32, |core, at| core.say(at, said));
        }
    }
}

impl<S: Sockets> Core<S> {
    fn say(&mut self, at: &mut At<'_, S::Socket>, said: Said) -> Lives {
        match (at.conn.life().on_said(), said) {
            (Some(SaidAct::Tell), Said::Message(text)) => {
                let wire = at.conn.wire;
                wire.format().push_message(&mut self.answer, wire.carrier(), &text);
                self.put_answer(at)
            }
            // It ends, or has no stream.
            (None, _) => Ok(()),
        }
    }

    /// Puts what is in the buffer for answers behind what waits for the connection.
    fn put_answer(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
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
