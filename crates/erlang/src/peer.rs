//! A connected node, as those who have something to tell it see it.
//!
//! What is sent goes to one buffer, in the order sent, and a task writes it: so several messages
//! leave in one write. The buffer has a bound. Who fills it is told to wait if it can
//! ([`Peer::room`]); if it is filled all the same, the other node takes too little, and the
//! connection ends.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::control::OwnPid;

/// Why the connection to a node ended: one closed list for the log and the metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The other node closed it, or ended.
    Closed,
    /// The system reported an error.
    Broken,
    /// Nothing came for the tick time, not even a tick.
    Silent,
    /// It took too little of what was sent to it.
    Slow,
    /// It says that the connection is a dead one, and has made another.
    Superseded,
    /// We are stopping.
    Stopped,
}

impl End {
    /// Every reason, at its number.
    pub const ALL: [End; 6] =
        [End::Closed, End::Broken, End::Silent, End::Slow, End::Superseded, End::Stopped];

    /// The reason as it stands in logs and metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            End::Closed => "closed",
            End::Broken => "broken",
            End::Silent => "silent",
            End::Slow => "slow",
            End::Superseded => "superseded",
            End::Stopped => "stopped",
        }
    }
}

/// A frame without content: a sign of life.
const TICK: [u8; 4] = [0; 4];

/// Room that an empty buffer keeps for the next messages.
const SPARE_BYTES: usize = 256 << 10;

/// A connected node.
#[derive(Debug)]
pub struct Peer {
    name: Box<str>,
    creation: u32,
    is_published: bool,
    number: u32,
    bytes_max: usize,
    outgoing: Mutex<Outgoing>,
    /// There is something to write.
    filled: Notify,
    /// What was being written is written.
    drained: Notify,
    /// Our last tick may still be answered by one. Relaxed: one tick more or less is no matter.
    awaits_tick: AtomicBool,
    end: watch::Sender<Option<End>>,
}

#[derive(Debug, Default)]
struct Outgoing {
    bytes: Vec<u8>,
    /// Bytes that are being written.
    under_way: usize,
}

impl Peer {
    pub(super) fn new(
        name: Box<str>,
        creation: u32,
        is_published: bool,
        number: u32,
        bytes_max: usize,
    ) -> Peer {
        Peer {
            name,
            creation,
            is_published,
            number,
            bytes_max,
            outgoing: Mutex::default(),
            filled: Notify::new(),
            drained: Notify::new(),
            awaits_tick: AtomicBool::new(false),
            end: watch::Sender::new(None),
        }
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which incarnation of the node it is.
    pub fn creation(&self) -> u32 {
        self.creation
    }

    /// Whether it takes part in global names.
    pub fn is_published(&self) -> bool {
        self.is_published
    }

    /// Tells this connection from all others that were and will be.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Sends what `write` appends, whole frames. `false` when the connection has ended, or ends
    /// because too much waits already.
    pub fn send(&self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        if self.end.borrow().is_some() {
            return false;
        }
        let mut outgoing = self.lock();
        let before = outgoing.bytes.len();
        let was_empty = before == 0;
        write(&mut outgoing.bytes);
        debug_assert!(outgoing.bytes.len() >= before, "a frame is put behind the others");
        let waiting = outgoing.bytes.len() + outgoing.under_way;
        drop(outgoing);
        if waiting > self.bytes_max {
            self.close(End::Slow);
            return false;
        }
        if was_empty {
            self.filled.notify_one();
        }
        true
    }

    /// Bytes that wait to be written.
    pub fn waiting_bytes(&self) -> usize {
        let outgoing = self.lock();
        outgoing.bytes.len() + outgoing.under_way
    }

    /// Waits until there is room for what is due to the node itself: the buffer is at most half
    /// full, or the connection has ended.
    pub async fn room(&self) {
        self.drained_to(self.bytes_max / 2).await;
    }

    /// Waits until there is room for what may be left out: less than requests of the node itself
    /// wait for, and mail, so that these go first.
    pub async fn capacity_for_changes(&self) {
        self.drained_to(self.bytes_max / 4).await;
    }

    /// Waits until there is room for what others send to its processes: up to three quarters, so
    /// that a node that floods itself waits before others do.
    pub async fn room_for_mail(&self) {
        self.drained_to(self.mail_bytes_max()).await;
    }

    /// Whether [`Peer::room_for_mail`] would return at once.
    pub fn has_room_for_mail(&self) -> bool {
        self.waiting_bytes() <= self.mail_bytes_max() || self.end.borrow().is_some()
    }

    fn mail_bytes_max(&self) -> usize {
        self.bytes_max / 4 * 3
    }

    /// Waits until all is written, or the connection has ended.
    pub async fn flushed(&self) {
        self.drained_to(0).await;
    }

    async fn drained_to(&self, bytes: usize) {
        loop {
            let drained = self.drained.notified();
            if self.waiting_bytes() <= bytes {
                return;
            }
            tokio::select! {
                () = drained => {}
                _ = self.ended() => return,
            }
        }
    }

    /// Ends the connection. The first reason is the one that counts.
    pub fn close(&self, reason: End) {
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            *end = end.or(Some(reason));
            is_first
        });
    }

    /// Waits for the end.
    pub async fn ended(&self) -> End {
        let mut end = self.end.subscribe();
        let reason = end.wait_for(Option::is_some).await.ok().and_then(|reason| *reason);
        // The sender is a part of this peer, which is borrowed.
        reason.unwrap_or(End::Stopped)
    }

    /// Whether it has not ended.
    pub fn is_open(&self) -> bool {
        self.end.borrow().is_none()
    }

    /// The node has ticked. Whoever ticks may have a shorter tick time than ours, so it hears from
    /// us about as often as we from it. But a tick that may be the answer to ours is not answered,
    /// or two nodes that do so would tick without end.
    pub(super) fn received_tick(&self) {
        let is_answer = self.awaits_tick.swap(false, Ordering::Relaxed);
        if !is_answer && self.waiting_bytes() == 0 {
            self.tick();
        }
    }

    fn tick(&self) {
        self.send(|out| out.extend(TICK));
    }

    /// Writes what is sent until the connection ends, and a tick when nothing was for `silence`. A
    /// node that takes nothing for `stall_max` is too slow.
    pub(super) async fn write(
        &self,
        mut socket: OwnedWriteHalf,
        silence: Duration,
        stall_max: Duration,
    ) {
        let mut bytes = Vec::new();
        loop {
            if !self.take(&mut bytes) {
                tokio::select! {
                    filled = timeout(silence, self.filled.notified()) => {
                        if filled.is_err() {
                            self.awaits_tick.store(true, Ordering::Relaxed);
                            self.tick();
                        }
                    }
                    _ = self.ended() => return,
                }
                continue;
            }
            let written = tokio::select! {
                written = self.write_all(&mut socket, &bytes, stall_max) => written,
                _ = self.ended() => return,
            };
            if let Err(end) = written {
                self.close(end);
                return;
            }
        }
    }

    /// Writes `bytes`, which count until they are written, piece by piece.
    async fn write_all(
        &self,
        socket: &mut OwnedWriteHalf,
        mut bytes: &[u8],
        stall_max: Duration,
    ) -> Result<(), End> {
        while !bytes.is_empty() {
            debug_assert!(bytes.len() <= self.waiting_bytes(), "room would be made for too much");
            let written = timeout(stall_max, socket.write(bytes)).await.map_err(|_| End::Slow)?;
            let written = written.map_err(|_| End::Broken)?;
            if written == 0 {
                return Err(End::Broken);
            }
            bytes = &bytes[written..];
            self.lock().under_way = bytes.len();
            self.drained.notify_waiters();
        }
        Ok(())
    }

    /// Exchanges the written `bytes` for what was sent meanwhile. `false` when that is nothing.
    fn take(&self, bytes: &mut Vec<u8>) -> bool {
        bytes.clear();
        bytes.shrink_to(SPARE_BYTES);
        let mut outgoing = self.lock();
        std::mem::swap(&mut outgoing.bytes, bytes);
        outgoing.under_way = bytes.len();
        !bytes.is_empty()
    }

    /// Appending to a buffer does not panic.
    fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is said about a process of this node.
impl Peer {
    /// The process of this node with these numbers.
    pub fn pid(&self, id: u32, serial: u32) -> [u32; 3] {
        [id, serial, self.creation]
    }

    /// Sends `payload`, a whole term, to a process of this node.
    pub fn send_to(&self, to: [u32; 3], payload: &[u8]) -> bool {
        self.send(|out| crate::control::send(out, &self.name, to, payload))
    }

    /// Asks to be told, with `reference`, when a process of this node is gone.
    pub fn monitor(&self, from: OwnPid<'_>, to: [u32; 3], reference: [u32; 3]) -> bool {
        self.send(|out| crate::control::monitor(out, from, &self.name, to, reference))
    }

    /// Takes that back.
    pub fn demonitor(&self, from: OwnPid<'_>, to: [u32; 3], reference: [u32; 3]) -> bool {
        self.send(|out| crate::control::demonitor(out, from, &self.name, to, reference))
    }

    /// Links our process with one of this node, which ends when the connection does, unless it
    /// traps exits.
    pub fn link(&self, from: OwnPid<'_>, to: [u32; 3]) -> bool {
        self.send(|out| crate::control::link(out, from, &self.name, to))
    }

    /// Takes that back. The node acknowledges `id`, which nothing is done with: whoever links again
    /// behind it is heard behind it.
    pub fn unlink(&self, id: NonZeroU64, from: OwnPid<'_>, to: [u32; 3]) -> bool {
        self.send(|out| crate::control::unlink(out, id, from, &self.name, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(bytes_max: usize) -> Peer {
        Peer::new("a@h".into(), 7, true, 1, bytes_max)
    }

    #[test]
    fn node_that_takes_too_little_is_ended_for_the_first_reason() {
        let peer = peer(100);
        assert!(peer.send(|out| out.extend([0; 75])) && peer.has_room_for_mail());
        assert!(peer.send(|out| out.extend([0; 25])) && !peer.has_room_for_mail());
        assert!(!peer.send(|out| out.push(0)));
        assert!(peer.has_room_for_mail(), "nobody waits for one that has ended");
        peer.close(End::Closed);
        assert_eq!(*peer.end.borrow(), Some(End::Slow));
        assert!(!peer.send(|_| unreachable!("it has ended")));
    }

    #[test]
    fn what_is_being_written_counts_until_it_is() {
        let peer = peer(100);
        let mut bytes = Vec::new();
        assert!(!peer.take(&mut bytes));
        peer.send(|out| out.extend([1; 60]));
        assert!(peer.take(&mut bytes));
        assert_eq!((bytes.len(), peer.waiting_bytes()), (60, 60));
        assert!(!peer.take(&mut bytes));
        assert_eq!(peer.waiting_bytes(), 0);
    }
}
