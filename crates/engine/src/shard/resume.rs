//! Where a stream begins: at the newest event, or where its client was when it went away.
//!
//! A client that comes back is logged in and *held*: what comes is put by and nothing is written,
//! until the control plane has said what was missed ([`crate::resume`]).

use hub::{DisconnectReason, id_of_number};
use proto::{Cursor, resume};

use super::Shard;
use crate::conn::Queue;
use crate::limits::HELD_PIECES_MAX;
use crate::mailbox::CatchUp;
use crate::resume::Resume;
use crate::sockets::Sockets;

impl<S: Sockets> Shard<S> {
    /// Puts behind the answer's head where the stream begins that has just been logged in, or asks
    /// what its client has missed since `cursor`.
    ///
    /// `newest` is the last number given out *before* the log-in: the stream hears nothing up to
    /// it, so a client that comes back with it misses nothing and hears nothing twice. Read after
    /// the log-in it could be that of an event which is on its way to this very stream.
    pub(super) fn begin_at(&mut self, slot: u32, cursor: Option<Cursor>, newest: u64) {
        let held = match cursor {
            Some(Cursor::After(number)) if self.event_ids.knows(number) => self.ask(slot, number),
            _ => false,
        };
        let Some(conn) = self.conns.at(slot) else { return };
        if held {
            conn.queued = Queue::Held;
            return;
        }
        if cursor.is_some() {
            self.resumes.count(true);
            resume::push_gap(&mut self.answer, conn.transport, conn.framing);
        }
        let id = id_of_number(newest);
        resume::push_cursor(&mut self.answer, conn.transport, conn.framing, &id);
    }

    /// Whether it could be asked what the client has missed.
    pub(super) fn ask(&mut self, slot: u32, after: u64) -> bool {
        let conn_ref = self.conn_ref(slot);
        let Some(conn) = self.conns.at(slot) else { return false };
        let resume = Resume { conn: conn_ref, ids: conn.ids().collect(), after };
        self.rules.config.history.is_on() && self.resumes.post(resume)
    }

    /// The number up to which all events are posted now, for [`Shard::settle`].
    pub(crate) fn posted(&self) -> u64 {
        self.event_ids.posted()
    }

    /// The mailbox is empty, since all up to `posted` was: that is all taken.
    pub(crate) fn settle(&mut self, posted: u64) {
        self.settled = self.settled.max(posted);
    }

    /// A held stream goes on: with what it has missed, then what has come meanwhile.
    pub(super) fn catch_up(&mut self, catch_up: CatchUp) {
        let key = super::key_of(catch_up.target);
        let Some(conn) = self.conns.find(key).filter(|conn| conn.is_held()) else { return };
        if conn.polls() {
            return self.catch_up_poll(key.slot, catch_up);
        }
        let CatchUp { events, gap, up_to, .. } = catch_up;
        self.resumes.count(gap);
        // No send was under way when it was answered, so all mail up to there came before.
        self.settled = self.settled.max(up_to);
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        if gap {
            resume::push_gap(&mut before, conn.transport, conn.framing);
        }
        let last = events.last().map_or(0, |event| event.number());
        if last < up_to {
            let id = id_of_number(up_to);
            resume::push_cursor(&mut behind, conn.transport, conn.framing, &id);
        }
        conn.catch_up(&before, events, &behind);
        conn.queued = Queue::Express;
        self.express.push(key.slot);
    }

    /// A held connection has one more thing waiting. Whether it lives on.
    pub(super) fn cut_held(&mut self, slot: u32) -> bool {
        let lives = self.conns.at(slot).is_some_and(|conn| conn.pieces() <= HELD_PIECES_MAX);
        if !lives {
            self.close(slot, DisconnectReason::SlowReader, true);
        }
        lives
    }

    /// A held stream ends before its client was told what it has missed: what has come meanwhile
    /// is not told either, or the client would take it for all.
    pub(super) fn let_go(&mut self, slot: u32) {
        let Some(conn) = self.conns.at(slot).filter(|conn| conn.is_held()) else { return };
        conn.drop_events();
        conn.queued = Queue::None;
    }
}
