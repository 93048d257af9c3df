//! Gathering on the way out: a stream that was written to has a pause, and what comes for it
//! meanwhile goes out in one write when that is over.
//!
//! So the first event after a silence is written at once, and of many small ones that follow each
//! other as many as come within the pause share a write. Only the writes are fewer: every event has
//! its place, its id and its frame as without. What waits counts as what waits for any connection,
//! and where it becomes much it is written before its time. Only streams that hear what is sent now
//! are gathered for: polls are answered, and who catches up reads on.
//!
//! All pauses are of one length, so they end in the order in which they began. A slot that is given
//! away in a pause has the rest of it.
//!
//! Cost: 12 bytes for each pause and a byte for each slot, where it is switched on; else a look at
//! a pointer for each turn.

use super::Shard;
use super::core::{At, Core, Lives};
use crate::conn::Marks;
use crate::conn::state::State;
use crate::limits::GATHERED_BYTES_MAX;
use crate::sockets::Sockets;

impl<S: Sockets> Shard<S> {
    /// Has those written to whose pause is over.
    pub(super) fn end_pauses(&mut self) {
        let now_ms = self.core.now_ns / 1_000_000;
        let next = |core: &mut Core<S>| core.gathering.as_mut()?.take_over(now_ms);
        while let Some(slot) = next(&mut self.core) {
            self.serve(slot, |core, at| {
                if !at.conn.is_flushed() && !at.conn.is(Marks::BLOCKED) {
                    core.express.push_back(at.slot);
                }
                Ok(())
            });
        }
    }

    /// Pauses are over from now on, and who waited for the end of one is queued; or they begin
    /// again. Where all is written down nothing may wait for time, and answers to clients that come
    /// back would go on to begin pauses.
    pub(crate) fn gather(&mut self, is_so: bool) {
        let Some(gathering) = &mut self.core.gathering else { return };
        gathering.rests = !is_so;
        if !is_so {
            self.end_pauses();
        }
    }

    /// When the next pause ends, in milliseconds since the engine's start.
    pub(crate) fn next_pause_ends_ms(&self) -> Option<u64> {
        self.core.gathering.as_ref()?.next_ms()
    }
}

impl<S: Sockets> Core<S> {
    /// Writes what waits for a connection, or leaves it until its pause is over. It stays what it
    /// is in the queue, so that nothing queues it meanwhile.
    pub(super) fn flush_or_gather(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        let is_stream = at.conn.state() == State::Stream;
        let gathering = self.gathering.as_ref().filter(|gathering| is_stream && !gathering.rests);
        let Some(gathering) = gathering else { return self.flush(at) };
        let waits = !at.conn.is_flushed() && !at.conn.is(Marks::BLOCKED);
        let is_little = at.conn.backlog_bytes() <= GATHERED_BYTES_MAX;
        if waits && is_little && gathering.paused.get(at.slot) {
            return Ok(());
        }
        self.flush(at)?;
        if waits && let Some(gathering) = &mut self.gathering {
            let end_ms = self.now_ns / 1_000_000 + gathering.length_ms;
            if !gathering.paused.set(at.slot, true) {
                gathering.pauses.push_back((end_ms, at.slot));
            }
        }
        Ok(())
    }
}
