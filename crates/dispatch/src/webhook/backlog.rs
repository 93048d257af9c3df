//! What waits for a webhook: events as JSON, in their order, within bounds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Events of one batch, at most.
pub(crate) const BATCH_MAX: usize = 500;

/// The bytes of one batch past which nothing more is put into it.
const BATCH_BYTES_MAX: usize = 256 * 1024;

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

impl Default for Bounds {
    /// With 1,000 events a second a receiver may be away for a minute; of ids with 100 bytes as
    /// many bytes.
    fn default() -> Bounds {
        Bounds { events: 65_536, bytes: 8 << 20 }
    }
}

/// What several queues may have together. One that has much leaves room for the others: it may
/// take no more than is free.
#[derive(Debug)]
pub(crate) struct SharedBytes {
    /// Relaxed: a bound on memory.
    used: AtomicUsize,
    most: usize,
}

impl SharedBytes {
    pub(crate) fn new(most: usize) -> SharedBytes {
        SharedBytes { used: AtomicUsize::new(0), most }
    }

    /// Whether one that has `own` bytes may have more.
    pub(crate) fn has_room_for(&self, own: usize) -> bool {
        own < self.most.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    /// One of them has so many bytes more.
    pub(crate) fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// One of them has so many bytes less.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What waits.
pub(crate) struct Backlog {
    waiting: VecDeque<Box<[u8]>>,
    bytes: usize,
    bounds: Bounds,
    shared: Option<Arc<SharedBytes>>,
}

impl Backlog {
    pub(crate) fn new(bounds: Bounds) -> Backlog {
        Backlog { waiting: VecDeque::new(), bytes: 0, bounds, shared: None }
    }

    /// One of several with a bound for all of them.
    pub(crate) fn sharing(shared: Arc<SharedBytes>) -> Backlog {
        let mut backlog = Backlog::new(Bounds::default());
        backlog.shared = Some(shared);
        backlog
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a batch would be full.
    pub(crate) fn has_batch(&self) -> bool {
        self.waiting.len() >= BATCH_MAX || self.bytes >= BATCH_BYTES_MAX
    }

    /// Puts an event behind what waits, if there is room for it.
    pub(crate) fn push(&mut self, json: Box<[u8]>) -> bool {
        let is_full = self.waiting.len() >= self.bounds.events || self.bytes >= self.bounds.bytes;
        let has_room = self.shared.as_ref().is_none_or(|all| all.has_room_for(self.bytes));
        let is_taken = !is_full && has_room;
        if is_taken {
            self.push_anyway(json);
        }
        is_taken
    }

    /// Whether half of what may wait has room, by its own bounds and by those of all.
    pub(crate) fn is_half_empty(&self) -> bool {
        let Bounds { events, bytes } = self.bounds;
        let has_room = self.waiting.len() <= events / 2 && self.bytes <= bytes / 2;
        has_room && self.shared.as_ref().is_none_or(|all| all.has_room_for(self.bytes))
    }

    /// Puts one behind what waits that is needed to understand the others.
    pub(crate) fn push_anyway(&mut self, json: Box<[u8]>) {
        self.bytes += json.len();
        if let Some(all) = &self.shared {
            all.take(json.len());
        }
        self.waiting.push_back(json);
    }

    /// The body of the next batch, of at most `most` events, between `head` and `tail`. Also how
    /// many it has.
    pub(crate) fn batch(&self, most: usize, head: &[u8], tail: &[u8]) -> (Vec<u8>, usize) {
        let (mut body, mut count) = (head.to_vec(), 0);
        for json in self.waiting.iter().take(most.min(BATCH_MAX)) {
            if count > 0 {
                if body.len() >= BATCH_BYTES_MAX {
                    break;
                }
                body.push(b',');
            }
            body.extend_from_slice(json);
            count += 1;
        }
        body.extend_from_slice(tail);
        (body, count)
    }

    /// The first `count` are taken.
    pub(crate) fn remove(&mut self, count: usize) {
        debug_assert!(count <= self.waiting.len().min(BATCH_MAX), "more than a batch was taken");
        let bytes = self.waiting.drain(..count).map(|json| json.len()).sum::<usize>();
        self.give_back(bytes);
        debug_assert_eq!(self.waiting.is_empty(), self.bytes == 0);
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
    }

    fn give_back(&mut self, bytes: usize) {
        self.bytes -= bytes;
        if let Some(all) = &self.shared {
            all.give_back(bytes);
        }
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(bytes: usize) -> Box<[u8]> {
        vec![b'1'; bytes].into()
    }

    #[test]
    fn full_backlog_leaves_room_for_another_and_gives_all_back() {
        let shared = Arc::new(SharedBytes::new(1_000));
        let mut slow = Backlog::sharing(Arc::clone(&shared));
        let mut other = Backlog::sharing(Arc::clone(&shared));
        while slow.push(json(100)) {}
        assert_eq!(slow.len(), 5, "as much as it leaves");
        assert!(other.push(json(100)) && !slow.push(json(100)));
        slow.remove(5);
        drop(other);
        assert_eq!(shared.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn batch_ends_where_it_is_long() {
        let mut backlog = Backlog::new(Bounds::default());
        for _ in 0..3 {
            assert!(backlog.push(json(BATCH_BYTES_MAX - 10)));
        }
        assert!(backlog.has_batch());
        let (body, count) = backlog.batch(BATCH_MAX, b"[", b"]");
        assert_eq!((body.len(), count), (2 * BATCH_BYTES_MAX - 17, 2));
    }
}
