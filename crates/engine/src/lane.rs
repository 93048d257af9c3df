//! Lanes: short work for senders on a worker's own thread, between its epoll and its mailbox.
//!
//! A send that goes from a thread that reads it to a thread that delivers it, and back for its
//! answer, costs three wake-ups. Each of them is more than all the rest of it. A lane reads
//! senders' connections in the turn of a worker, so that what it posts to that worker is delivered
//! and answered in the same turn.
//!
//! The engine knows nothing of what is read. A [`Lane`] is given by the control plane, by way of a
//! queue, and talks with it over a [`LaneSocket`]. Descriptors must cross there, since the worker
//! has a table of its own. What a lane must never do is wait, and wake a task of a runtime, whose
//! descriptors have other numbers in this table ([`sync::replies`]).
//!
//! There are as many lanes as cores, however many workers: more would only wake more threads.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use sys::epoll::Epoll;
use sys::passing;

use crate::limits::LANE_MESSAGE_BYTES;
use crate::receipt::{Bell, LaneBell};

/// What a worker does for senders beside its streams.
pub trait Lane: Send {
    /// Something has come on what was registered as `index`, which may be [`LANE_SOCKET`]. When it
    /// `hung_up`, the other side sends no more.
    fn ready(&mut self, turn: &LaneTurn<'_>, index: u32, hung_up: bool);

    /// The end of a turn: all mail is delivered, so what this worker had of a send is counted.
    /// `true` when there is work left that nothing reports.
    fn turned(&mut self, turn: &LaneTurn<'_>) -> bool;

    /// When it wants a turn at the latest, by the monotonic clock.
    fn due_ms(&self) -> Option<u64>;

    /// Whether somebody waits for its answer: then the worker takes no [short
    /// sleep](crate::short_sleep).
    fn is_awaited(&self) -> bool;
}

/// The index of the lane's own socket.
pub const LANE_SOCKET: u32 = u32::MAX;

/// Tokens of lanes stand above those of slots.
const FIRST_TOKEN: u64 = 1 << 32;

/// What a report of epoll is about, if it is about a lane.
pub(crate) fn lane_index(token: u64) -> Option<u32> {
    u32::try_from(token.checked_sub(FIRST_TOKEN)?).ok()
}

/// What a lane may use of its worker within a turn.
pub struct LaneTurn<'w> {
    pub(crate) epoll: &'w Epoll,
    pub(crate) bell: &'w Arc<Bell>,
    /// The monotonic clock at the begin of the turn.
    pub now_ms: u64,
}

impl LaneTurn<'_> {
    /// Reports both sides of `socket` as `index`, edge-triggered, until it is closed.
    pub fn register(&self, socket: &impl AsFd, index: u32) -> io::Result<()> {
        self.epoll.add_stream(socket, FIRST_TOKEN + u64::from(index))
    }

    /// Reports it no more.
    pub fn unregister(&self, socket: &impl AsFd) -> io::Result<()> {
        self.epoll.remove(socket)
    }

    /// Whether a receipt may be complete since it was asked last.
    pub fn is_answered(&self) -> bool {
        self.bell.take_answered()
    }

    /// Where a send's [`Receipt`](crate::Receipt) is to ring.
    pub fn bell(&self) -> LaneBell {
        LaneBell(Arc::clone(self.bell))
    }
}

/// A lane's end of the socket between it and the control plane, open in both tables. Messages, as
/// [`passing::message_pair`] has them.
#[derive(Debug)]
pub struct LaneSocket(OwnedFd);

/// The control plane's end of it, which no worker's table has: in one that number is a client's, so
/// no worker may be the last to drop it.
#[derive(Debug)]
pub struct LaneControl(OwnedFd);

impl LaneSocket {
    pub(crate) fn pair() -> io::Result<(LaneSocket, LaneControl)> {
        let (lane, control) = passing::message_pair(2 * LANE_MESSAGE_BYTES)?;
        Ok((LaneSocket(lane), LaneControl(control)))
    }
}

impl AsFd for LaneSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for LaneControl {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
