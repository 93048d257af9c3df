//! What an operator is to hear of single clients: who was refused, and who was too slow.
//!
//! Workers leave it here and wait for nobody; the control plane writes the log. A queue that is
//! full takes no more, and what it did not take is counted.
//!
//! Cost: nothing where nobody is refused; then a system call and an entry, while there is room.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;

use crate::limits::NOTICES_MAX;

/// What has happened to a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// It was answered with an error.
    Refused {
        /// The other end of its connection.
        peer: Option<SocketAddr>,
        /// The status of the answer.
        status: u16,
        /// What it was told.
        detail: Cow<'static, str>,
    },
    /// It was closed, because it read too slowly.
    Slow {
        /// The other end of its connection.
        peer: Option<SocketAddr>,
        /// One of the ids that it was logged in under.
        id: Option<String>,
        /// What waited for it, in bytes.
        backlog_bytes: u64,
    },
}

/// What is to be told, and how much of it found no room.
#[derive(Debug)]
pub struct Notices {
    queue: ArrayQueue<Notice>,
    /// Refused, slow. Relaxed: they are only reported.
    left_out: [AtomicU64; 2],
}

impl Default for Notices {
    fn default() -> Notices {
        Notices { queue: ArrayQueue::new(NOTICES_MAX), left_out: Default::default() }
    }
}

impl Notices {
    /// What was noted first and not taken yet.
    pub fn take(&self) -> Option<Notice> {
        self.queue.pop()
    }

    /// How many refused and how many slow clients found no room, since the last call.
    pub fn take_left_out(&self) -> [u64; 2] {
        self.left_out.each_ref().map(|count| count.swap(0, Ordering::Relaxed))
    }

    /// Notes a client that is refused.
    pub(crate) fn refused(&self, notice: impl FnOnce() -> Notice) {
        self.push(0, notice);
    }

    /// Notes a client that was too slow.
    pub(crate) fn slow(&self, notice: impl FnOnce() -> Notice) {
        self.push(1, notice);
    }

    fn push(&self, kind: usize, notice: impl FnOnce() -> Notice) {
        if self.queue.is_full() || self.queue.push(notice()).is_err() {
            self.left_out[kind].fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted_by_kind() {
        let notices = Notices::default();
        let refused = |status| Notice::Refused { peer: None, status, detail: "".into() };
        let slow = || Notice::Slow { peer: None, id: None, backlog_bytes: 1 };
        for _ in 0..NOTICES_MAX {
            notices.refused(|| refused(403));
        }
        notices.refused(|| panic!("nothing is made for which there is no room"));
        notices.slow(slow);
        notices.slow(slow);
        assert_eq!((notices.take_left_out(), notices.take_left_out()), ([1, 2], [0, 0]));
        assert_eq!(notices.take(), Some(refused(403)));
        notices.slow(slow);
        assert_eq!(notices.take_left_out(), [0, 0]);
        assert_eq!(std::iter::from_fn(|| notices.take()).last(), Some(slow()));
    }
}
