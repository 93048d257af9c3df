//! What a node has sent and is not handled yet, in bytes, up to a bound.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

/// Bytes that a batch counts for beside its own: its place in the queue and its allocation.
const BATCH_BYTES: usize = 64;

/// Batches of frames, in the order in which they came.
pub(super) struct Inbox {
    bytes_max: usize,
    waiting: Mutex<WaitingWork>,
    changed: Notify,
    drained: Notify,
}

#[derive(Default)]
struct WaitingWork {
    batches: VecDeque<Bytes>,
    bytes: usize,
    is_closed: bool,
}

impl Inbox {
    pub(super) fn new(bytes_max: usize) -> Inbox {
        Inbox {
            bytes_max,
            waiting: Mutex::default(),
            changed: Notify::new(),
            drained: Notify::new(),
        }
    }

    /// Whether there is room for `batch`. Where nothing waits there always is.
    pub(super) fn has_room(&self, batch: &Bytes) -> bool {
        let waiting = self.lock();
        waiting.bytes == 0 || waiting.bytes + cost(batch) <= self.bytes_max
    }

    /// Waits until there is room for `batch`.
    pub(super) async fn room(&self, batch: &Bytes) {
        loop {
            let drained = self.drained.notified();
            if self.has_room(batch) {
                return;
            }
            drained.await;
        }
    }

    /// Puts `batch` behind the others.
    pub(super) fn push(&self, batch: Bytes) {
        let mut waiting = self.lock();
        waiting.bytes += cost(&batch);
        waiting.batches.push_back(batch);
        drop(waiting);
        self.changed.notify_one();
    }

    /// No more will come.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// The next batch, which still counts until [`Inbox::done`]; `None` when no more will come.
    pub(super) async fn next(&self) -> Option<Bytes> {
        loop {
            {
                let mut waiting = self.lock();
                if let Some(batch) = waiting.batches.pop_front() {
                    return Some(batch);
                }
                if waiting.is_closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    /// Whether a batch waits.
    pub(super) fn has_more(&self) -> bool {
        !self.lock().batches.is_empty()
    }

    /// The batch is handled.
    pub(super) fn done(&self, batch: &Bytes) {
        let mut waiting = self.lock();
        waiting.bytes -= cost(batch);
        debug_assert!(waiting.bytes > 0 || waiting.batches.is_empty(), "what waits is counted");
        drop(waiting);
        self.drained.notify_waiters();
    }

    /// Each change is one step.
    fn lock(&self) -> MutexGuard<'_, WaitingWork> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cost(batch: &Bytes) -> usize {
    BATCH_BYTES + batch.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn batches_come_out_in_their_order_and_count_until_they_are_done() {
        let inbox = Inbox::new(BATCH_BYTES + 5);
        let [long, short] = [Bytes::from_static(b"longer"), Bytes::from_static(b"short")];
        assert!(inbox.has_room(&long), "where nothing waits there is room");
        inbox.push(long.clone());
        assert!(!inbox.has_room(&short));
        assert_eq!(inbox.next().await, Some(long.clone()));
        assert!(!inbox.has_room(&short), "it is being handled");
        inbox.done(&long);
        assert!(inbox.has_room(&short));
        inbox.push(short.clone());
        inbox.close();
        assert_eq!((inbox.next().await, inbox.next().await), (Some(short), None));
    }
}
