//! What connections are sent: once a turn what waits for them, and answers at once.

use hub::DisconnectReason;

use super::Shard;
use super::core::{At, Core, End, Lives};
use crate::conn::life::{Input, Life};
use crate::conn::{Marks, Queue};
use crate::limits::{self, work};
use crate::outbox::Flushed;
use crate::sockets::Sockets;

impl<S: Sockets> Shard<S> {
    /// Writes once to each connection that got mail, to a slice of them: first to those that got
    /// small mail. `true` when some are left for the next turn.
    ///
    /// A slot in a queue may have been given away since; then there is nothing to write, or what
    /// there is may as well be written now.
    pub(crate) fn flush(&mut self) -> bool {
        for _ in 0..limits::EXPRESS_WRITES_PER_TURN {
            let Some(slot) = self.core.express.pop_front() else { break };
            self.serve(slot, |core, at| core.flush(at).map(drop));
        }
        let mut writes = 0;
        while writes < limits::BULK_WRITES_PER_TURN {
            let Some(slot) = self.core.bulk.pop_front() else { break };
            self.serve(slot, |core, at| {
                writes += usize::from(core.flush(at)?);
                Ok(())
            });
        }
        !self.core.express.is_empty() || !self.core.bulk.is_empty()
    }
}

impl<S: Sockets> Core<S> {
    /// Writes what waits for a connection. `false` when there was nothing to write.
    pub(super) fn flush(&mut self, at: &mut At<'_, S::Socket>) -> Result<bool, End> {
        at.conn.queued = Queue::None;
        if at.conn.is(Marks::BLOCKED) || at.conn.is_flushed() {
            return Ok(false);
        }
        if at.conn.life() == Life::Poll {
            self.answer_poll(at, None, None)?;
            return Ok(true);
        }
        let flushed = at.conn.flush(&mut self.io, &self.counters);
        self.flushed(at, flushed)?;
        Ok(true)
    }

    /// A write has come to this.
    pub(super) fn flushed(&mut self, at: &mut At<'_, S::Socket>, flushed: Flushed) -> Lives {
        match flushed {
            Flushed::All => {
                at.conn.active = self.now;
                self.happen(at, Input::Written)
            }
            Flushed::Blocked => {
                // From now on it stands still, or something of it has just moved.
                at.conn.active = self.now;
                at.conn.mark(Marks::BLOCKED, true);
                self.wait(at);
                Ok(())
            }
            Flushed::Gone(error) => self.happen(at, Input::Broken(error.kind())),
        }
    }

    /// The kernel has room again.
    pub(super) fn unblock(&mut self, at: &mut At<'_, S::Socket>) {
        if at.conn.is(Marks::BLOCKED) {
            at.conn.mark(Marks::BLOCKED, false);
            self.queue(at, false);
            // It waits for something else from now on.
            self.wait(at);
        }
    }

    /// Puts a connection into a queue of those to be written to.
    pub(super) fn queue(&mut self, at: &mut At<'_, S::Socket>, bulk: bool) {
        let queued = at.conn.queued;
        if at.conn.is(Marks::BLOCKED) || queued == Queue::Express || bulk && queued == Queue::Bulk {
            return;
        }
        if bulk {
            at.conn.queued = Queue::Bulk;
            self.bulk.push_back(at.slot);
        } else {
            at.conn.queued = Queue::Express;
            self.express.push_back(at.slot);
        }
    }

    /// Sends bytes that are no event, after everything that waits for the connection.
    pub(super) fn reply(&mut self, at: &mut At<'_, S::Socket>, bytes: &[u8]) -> Lives {
        self.budget.spend(work::WRITE);
        if at.conn.is_flushed() {
            let flushed = at.conn.send_now(bytes, &mut self.io, &self.counters);
            return self.flushed(at, flushed);
        }
        // Where something waits, the connection is queued or the kernel will report.
        let waiting = at.conn.push_reply(bytes);
        // Its last words are not held against it.
        if waiting > self.rules.config.backlog_bytes_max && at.conn.life().hears() {
            return self.bound(at);
        }
        Ok(())
    }

    /// The connection has more waiting than it may. It may be we who are slow: what waits for its
    /// turn to be written is no backlog yet.
    pub(super) fn bound(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        self.flush(at)?;
        match at.conn.backlog_bytes() <= self.rules.config.backlog_bytes_max {
            true => Ok(()),
            false => Err(End { reason: DisconnectReason::SlowReader, abort: true }),
        }
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
        if at.conn.is_flushed() {
            self.counters.keepalives.add(1);
            let bytes = at.conn.transport.keep_alive(at.conn.framing);
            self.reply(at, bytes)?;
        }
        at.conn.active = self.now;
        self.wait(at);
        Ok(())
    }
}
