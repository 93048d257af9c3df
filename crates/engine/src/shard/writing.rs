//! What connections are sent: once a turn what waits for them, and answers at once.

use std::io::ErrorKind;

use hub::DisconnectReason;

use super::Shard;
use super::core::{At, Core, End, Lives};
use crate::conn::state::{Input, State};
use crate::conn::{Marks, Queue};
use crate::limits::{self, work};
use crate::outbox::Flushed;
use crate::sockets::Sockets;

impl<S: Sockets> Shard<S> {
    /// Writes once to each connection that got mail, to a slice of them: first to those that got
    /// small mail, then to others unless [these wait](Shard::let_fan_outs_wait). `true` when some
    /// are left for the next turn.
    ///
    /// A slot in a queue may have been given away since; then there is nothing to write, or what
    /// there is may as well be written now.
    pub(crate) fn flush(&mut self) -> bool {
        let write: fn(&mut Core<S>, &mut At<'_, S::Socket>) -> Lives = match self.core.gathering {
            Some(_) => Core::flush_or_gather,
            None => Core::flush,
        };
        self.end_pauses();
        let end = self.core.budget.spent().saturating_add(limits::EXPRESS_WORK_PER_TURN);
        while self.core.budget.spent() < end
            && let Some(slot) = self.core.express.pop_front()
        {
            self.serve(slot, write);
        }
        if self.fan_outs_wait {
            return !self.core.express.is_empty();
        }
        let end = self.core.budget.spent().saturating_add(limits::BULK_WORK_PER_TURN);
        while self.core.budget.spent() < end
            && let Some(slot) = self.core.bulk.pop_front()
        {
            self.serve(slot, write);
        }
        !self.core.express.is_empty() || !self.core.bulk.is_empty()
    }
}

impl<S: Sockets> Core<S> {
    /// Writes what waits for a connection.
    pub(super) fn flush(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        at.conn.set_queued(Queue::None);
        let is_poll = at.conn.state() == State::Poll;
        let has_nothing = at.conn.is_flushed() && !(is_poll && self.is_poll_told(at));
        if at.conn.is(Marks::BLOCKED) || has_nothing {
            return Ok(());
        }
        if is_poll {
            return self.answer_poll(at, None, None);
        }
        let flushed = self.metered(|core| {
            let Core { io, counters, encoded, .. } = core;
            at.conn.flush(io, counters, encoded)
        });
        self.flushed(at, flushed)?;
        self.bound_backlog(at)
    }

    /// Who is offered all and leaves more than it may is too slow. Its last words are not held
    /// against it.
    pub(super) fn bound_backlog(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        let is_over = at.conn.backlog_bytes() > self.config.backlog_bytes_max;
        match is_over && at.conn.state().hears() {
            true => Err(End { reason: DisconnectReason::SlowReader, abort: true }),
            false => Ok(()),
        }
    }

    /// Does a write, and spends what it takes.
    pub(super) fn metered(&mut self, write: impl FnOnce(&mut Self) -> Flushed) -> Flushed {
        let sent = self.counters.bytes_sent.read();
        let flushed = write(self);
        self.budget.spend(self.io.take_work());
        let sent = self.counters.bytes_sent.read() - sent;
        self.budget.spend(work::WRITE);
        self.budget.spend_bytes(sent as usize);
        flushed
    }

    /// A write has come to this.
    pub(super) fn flushed(&mut self, at: &mut At<'_, S::Socket>, flushed: Flushed) -> Lives {
        match flushed {
            Flushed::All => {
                at.conn.active = self.now;
                if !self.channels.missed.is_empty() {
                    self.ask_missed(at);
                    self.put_answer(at)?;
                }
                self.happen(at, Input::Written)
            }
            Flushed::Blocked => {
                // From now on it stands still, or something of it has just moved.
                at.conn.active = self.now;
                at.conn.mark(Marks::BLOCKED, true);
                self.wait(at);
                Ok(())
            }
            // What cannot be sealed cannot be followed by an alert either.
            Flushed::Gone(error) if error.kind() == ErrorKind::InvalidData => {
                Err(End { reason: DisconnectReason::TlsFailed, abort: false })
            }
            Flushed::Gone(error) => self.happen(at, Input::Broken(error.kind())),
        }
    }

    /// The kernel has room again.
    pub(super) fn unblock(&mut self, at: &mut At<'_, S::Socket>) {
        if at.conn.is(Marks::BLOCKED) {
            at.conn.mark(Marks::BLOCKED, false);
            self.queue(at, at.conn.backlog_bytes() > limits::EXPRESS_BYTES_MAX);
            // It waits for something else from now on.
            self.wait(at);
        }
    }

    /// Puts a connection into a queue of those to be written to.
    pub(super) fn queue(&mut self, at: &mut At<'_, S::Socket>, bulk: bool) {
        let queued = at.conn.queued();
        if at.conn.is(Marks::BLOCKED) || queued == Queue::Express || bulk && queued == Queue::Bulk {
            return;
        }
        if bulk {
            at.conn.set_queued(Queue::Bulk);
            self.bulk.push_back(at.slot);
        } else {
            at.conn.set_queued(Queue::Express);
            self.express.push_back(at.slot);
        }
    }

    /// Sends bytes that are no event, after everything that waits for the connection.
    pub(super) fn reply(&mut self, at: &mut At<'_, S::Socket>, bytes: &[u8]) -> Lives {
        if at.conn.is_flushed() {
            let flushed =
                self.metered(|core| at.conn.send_now(bytes, &mut core.io, &core.counters));
            return self.flushed(at, flushed);
        }
        // Where something waits, the connection is queued or the kernel will report.
        let before = at.conn.backlog_bytes();
        let waiting = at.conn.push_reply(bytes);
        self.mind_gathered(at, before, waiting);
        if waiting <= self.config.backlog_bytes_max {
            return Ok(());
        }
        // It may be we who are slow: what waits for its turn to be written is no backlog yet.
        self.flush(at)?;
        self.bound_backlog(at)
    }

    /// Sends what is in the buffer for answers.
    pub(super) fn send_answer(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        if self.answer.is_empty() {
            return Ok(());
        }
        let mut answer = std::mem::take(&mut self.answer);
        let lives = self.reply(at, &answer);
        answer.clear();
        self.answer = answer;
        lives
    }

    /// There was silence for long enough.
    pub(super) fn keep_alive(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        // What waits for its turn to be written breaks the silence by itself.
        if at.conn.is_flushed() && !at.conn.has_held_head() {
            self.counters.keepalives.add(1);
            let (format, carrier) = (at.conn.wire.format(), at.conn.wire.carrier());
            if let Some(id) = self.place_in_keep_alive(at) {
                let mut block = Vec::new();
                format.push_cursor(&mut block, carrier, &id);
                self.reply(at, &block)?;
            } else {
                self.reply(at, format.keep_alive(carrier))?;
            }
        }
        at.conn.active = self.now;
        self.wait(at);
        Ok(())
    }
}
