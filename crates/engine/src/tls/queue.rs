//! How many clients may be within their handshake, and which of them goes when others come.
//!
//! A client that means well answers within a round trip; one that does not waits until it is ended.
//! So where there are as many as may be, the one that has waited longest makes room for the next. A
//! client that begins many handshakes and ends none shortens their lives and nobody else's. The
//! bounds hold for all workers together, since the kernel's hash may send many to one of them. A
//! few each may have beside, so that nobody's clients go for another worker's.
//!
//! Cost: 16 bytes for each that waits, and for as many again that have gone.

use std::collections::VecDeque;
use std::sync::Arc;

use sync::connection_limit::ConnectionLimit;

use crate::limits;

/// The bounds of all workers together.
#[derive(Clone, Debug)]
pub(crate) struct HandshakeLimits {
    /// Clients whose hello is not whole.
    pub(super) hellos: Arc<ConnectionLimit>,
    /// Clients whose hello is answered.
    pub(super) handshakes: Arc<ConnectionLimit>,
    /// What each worker has beside, of either.
    pub(super) own: usize,
}

impl HandshakeLimits {
    /// Of so many workers that have so many places for connections, on so many cores.
    pub(crate) fn new(workers: usize, connections_max: usize, cores: usize) -> HandshakeLimits {
        let share = connections_max / limits::HANDSHAKES_SHARE;
        let handshakes = (cores * limits::HANDSHAKES_PER_CORE).min(limits::HANDSHAKES_MAX);
        let limit = |most: usize| Arc::new(ConnectionLimit::new(most.min(share)));
        let own = limits::HANDSHAKES_OWN.min(limits::HANDSHAKES_OWN_IN_ALL / workers.max(1));
        HandshakeLimits { hellos: limit(limits::HELLOS_MAX), handshakes: limit(handshakes), own }
    }
}

/// One that waits: the number of its socket, and when it began to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) number: u32,
    /// Another one for everybody, and each time.
    pub(super) stamp: u64,
}

/// Those of one worker that wait for the same.
#[derive(Debug)]
pub(super) struct HandshakeQueue {
    /// In the order in which they came; some have gone meanwhile.
    queue: VecDeque<Waiting>,
    /// How many have not.
    len: usize,
    /// How many of these are counted in what all workers share.
    counted: usize,
    shared: Arc<ConnectionLimit>,
    own: usize,
}

impl HandshakeQueue {
    pub(super) fn new(shared: Arc<ConnectionLimit>, own: usize) -> HandshakeQueue {
        HandshakeQueue { queue: VecDeque::new(), len: 0, counted: 0, shared, own }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether nobody waits, and nothing is counted for nobody.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0 && self.counted == 0
    }

    /// One more. Those that have gone are forgotten where they are most: `waits` says who has not.
    pub(super) fn enter(&mut self, waiting: Waiting, waits: impl Fn(Waiting) -> bool) {
        if self.queue.len() > 2 * self.len + self.own {
            self.queue.retain(|&waiting| waits(waiting));
        }
        self.queue.push_back(waiting);
        self.len += 1;
    }

    /// One of them waits no more.
    pub(super) fn leave(&mut self) {
        self.len -= 1;
        if self.counted > self.len.saturating_sub(self.own) {
            self.counted -= 1;
            self.shared.give_back();
        }
    }

    /// Whether there are more than may be.
    pub(super) fn is_too_large(&mut self) -> bool {
        let shared = self.len.saturating_sub(self.own);
        while self.counted < shared && self.shared.take() {
            self.counted += 1;
        }
        self.counted < shared
    }

    /// Takes the one that has waited longest out of the queue.
    pub(super) fn take_oldest(&mut self, waits: impl Fn(Waiting) -> bool) -> Option<Waiting> {
        while let Some(waiting) = self.queue.pop_front() {
            if waits(waiting) {
                return Some(waiting);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(shared: usize) -> [HandshakeQueue; 2] {
        let limit = Arc::new(ConnectionLimit::new(shared));
        [limit.clone(), limit].map(|limit| HandshakeQueue::new(limit, limits::HANDSHAKES_OWN))
    }

    fn enter(queue: &mut HandshakeQueue, stamp: u64) {
        queue.enter(Waiting { number: stamp as u32, stamp }, |_| true);
    }

    #[test]
    fn crowd_is_too_large_past_its_own_and_what_is_shared() {
        let [mut one, mut other] = queues(3);
        for stamp in 0..limits::HANDSHAKES_OWN as u64 + 3 {
            enter(&mut one, stamp);
            assert!(!one.is_too_large(), "{stamp}");
        }
        for stamp in 0..limits::HANDSHAKES_OWN as u64 {
            enter(&mut other, stamp);
            assert!(!other.is_too_large(), "{stamp}");
        }
        enter(&mut one, 100);
        enter(&mut other, 100);
        assert!(one.is_too_large() && other.is_too_large());
        assert_eq!(one.take_oldest(|waiting| waiting.stamp != 0).unwrap().stamp, 1);
        one.leave();
        assert!(!one.is_too_large() && other.is_too_large());
        one.leave();
        assert!(!other.is_too_large(), "what one gives back the other has");
        while !one.is_empty() {
            one.leave();
        }
        while !other.is_empty() {
            other.leave();
        }
        let free = std::iter::repeat_with(|| one.shared.take()).take_while(|taken| *taken);
        assert_eq!(free.count(), 3, "all is given back");
    }

    #[test]
    fn queue_of_those_who_come_and_go_does_not_grow_behind_one_who_stays() {
        let [mut queue, _] = queues(0);
        enter(&mut queue, 0);
        for stamp in 1..10_000 {
            queue.enter(Waiting { number: 1, stamp }, |waiting| waiting.stamp == 0);
            queue.leave();
        }
        assert!(queue.queue.len() <= 2 * limits::HANDSHAKES_OWN + 3, "{}", queue.queue.len());
        assert_eq!(queue.take_oldest(|waiting| waiting.stamp == 0).unwrap().number, 0);
    }
}
