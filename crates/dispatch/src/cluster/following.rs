//! The log as it is read: one follower of one epoch, and what it has brought that the node has no
//! room for yet.

use std::collections::VecDeque;

use nats::{Followed, Follower, Log};

/// What is taken of a follower at a time.
const TAKEN_MAX: usize = 256;

/// A follower at work.
#[derive(Debug)]
pub(super) struct Following {
    pub(super) log: Log,
    follower: Follower,
    brought: VecDeque<Followed>,
    buffer: Vec<Followed>,
    ended: bool,
}

impl Following {
    /// Reads `log` from the record `from` on.
    pub(super) fn begin(log: Log, from: u64) -> Following {
        let follower = log.follow(from);
        let (brought, buffer) = (VecDeque::new(), Vec::new());
        Following { log, follower, brought, buffer, ended: false }
    }

    /// Waits for more, unless something waits already.
    pub(super) async fn more(&mut self) {
        if !self.brought.is_empty() {
            return;
        }
        if self.ended {
            std::future::pending().await
        }
        if self.follower.next_many(&mut self.buffer, TAKEN_MAX).await == 0 {
            self.ended = true;
        }
        self.brought.extend(self.buffer.drain(..));
    }

    /// The next thing that was brought.
    pub(super) fn take(&mut self) -> Option<Followed> {
        self.brought.pop_front()
    }
}
