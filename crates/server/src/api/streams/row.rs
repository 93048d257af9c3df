//! Changes of streams that wait for a thread, and the threads that take them.
//!
//! A thread that is done with one takes the next one at once. So while many wait none is put to
//! sleep and woken for each, and the control plane has no part in it.
//!
//! Cost of a change: an allocation, and the wake of a thread where one is missing.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::spawn_blocking;

/// Requests that change streams at one time, and others: each has a thread that waits for a disk.
pub(super) const DISK_THREADS_MAX: usize = 64;

/// A change, which waits for a disk.
type StreamChange = Box<dyn FnOnce() + Send>;

/// The changes that wait.
#[derive(Default)]
pub(super) struct ChangeRow(Mutex<RowState>);

#[derive(Default)]
struct RowState {
    /// No more of them than requests.
    waiting: VecDeque<StreamChange>,
    /// Each takes changes until there is none.
    threads: usize,
}

impl ChangeRow {
    /// Has `change` done when those before it are begun. It is done also for a client that
    /// goes away.
    pub(super) fn push(self: &Arc<ChangeRow>, change: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        state.waiting.push_back(Box::new(change));
        if state.threads == DISK_THREADS_MAX {
            return;
        }
        state.threads += 1;
        drop(state);
        let row = Arc::clone(self);
        drop(spawn_blocking(move || row.work()));
    }

    /// How many threads take changes.
    #[cfg(test)]
    pub(super) fn threads(&self) -> usize {
        self.state().threads
    }

    fn work(&self) {
        while let Some(change) = self.take() {
            // The caller of one that came to grief hears that it has told nothing.
            let _ = catch_unwind(AssertUnwindSafe(change));
        }
    }

    /// The next one; the thread that asks ends where there is none.
    fn take(&self) -> Option<StreamChange> {
        let mut state = self.state();
        let next = state.waiting.pop_front();
        state.threads -= usize::from(next.is_none());
        next
    }

    fn state(&self) -> MutexGuard<'_, RowState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use testing::DEADLINE;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn changes_that_come_to_grief_take_no_threads_from_others() {
        let row = Arc::<ChangeRow>::default();
        let (done, mut all_done) = mpsc::channel(4 * DISK_THREADS_MAX);
        for number in 0..4 * DISK_THREADS_MAX {
            let done = done.clone();
            row.push(move || {
                assert!(number % 2 == 0, "on purpose");
                done.try_send(number).unwrap();
            });
        }
        drop(done);
        let mut numbers = Vec::new();
        while let Some(number) = timeout(DEADLINE, all_done.recv()).await.unwrap() {
            numbers.push(number);
        }
        numbers.sort_unstable();
        assert_eq!(numbers, Vec::from_iter((0..4 * DISK_THREADS_MAX).step_by(2)));
    }
}
