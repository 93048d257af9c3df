//! Whose turn it is to change a stream, or to read its file for the first time: one request about
//! each stream at a time.
//!
//! Requests about the same stream would only wait for its writer, and each hold a thread for the
//! disk meanwhile. They wait here, without a thread, so that all other streams have theirs. To tell
//! an append takes as long as a mailbox is full, so there is a bound on those that are told, too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Appends that are told at one time. They may wait for a full mailbox, and leave other requests
/// threads for the disk.
pub(super) const TELLING_MAX: usize = 32;

/// Requests about one stream whose appends are told at one time, of which one is worked on.
pub(super) const TOLD_REQUESTS_MAX: usize = 256;

/// The turns of those who want the same of streams.
#[derive(Default)]
pub(super) struct PathTurns {
    /// No more of them than requests.
    by_path: Mutex<HashMap<Box<str>, PathRequests>>,
}

struct PathRequests {
    count: usize,
    /// For one of them.
    turn: Arc<Semaphore>,
}

/// A turn that has come.
pub(super) struct PathTurn {
    _turn: OwnedSemaphorePermit,
    counted: Counted,
}

/// A request that is counted at its path.
struct Counted {
    turns: Arc<PathTurns>,
    path: Box<str>,
}

impl PathTurn {
    /// The path of the stream.
    pub(super) fn path(&self) -> &str {
        &self.counted.path
    }
}

impl PathTurns {
    /// Waits for a turn to work on the stream at `path`. `None` where `requests_max` do or wait.
    pub(super) async fn take(
        self: &Arc<PathTurns>,
        path: &str,
        requests_max: usize,
    ) -> Option<PathTurn> {
        let (counted, turn) = self.count(path, requests_max)?;
        let turn = turn.acquire_owned().await.expect("it is never closed");
        Some(PathTurn { _turn: turn, counted })
    }

    /// A turn, if nobody works on the stream at `path` or waits to.
    pub(super) fn take_if_free(self: &Arc<PathTurns>, path: &str) -> Option<PathTurn> {
        let (counted, turn) = self.count(path, 1)?;
        let turn = turn.try_acquire_owned().ok()?;
        Some(PathTurn { _turn: turn, counted })
    }

    /// How many requests are at the stream at `path`, or wait.
    pub(super) fn requests(&self, path: &str) -> usize {
        self.by_path().get(path).map_or(0, |requests| requests.count)
    }

    fn count(
        self: &Arc<PathTurns>,
        path: &str,
        requests_max: usize,
    ) -> Option<(Counted, Arc<Semaphore>)> {
        let mut by_path = self.by_path();
        let new = || PathRequests { count: 0, turn: Arc::new(Semaphore::new(1)) };
        let requests = by_path.entry(path.into()).or_insert_with(new);
        if requests.count >= requests_max {
            return None;
        }
        requests.count += 1;
        let counted = Counted { turns: Arc::clone(self), path: path.into() };
        Some((counted, Arc::clone(&requests.turn)))
    }

    fn by_path(&self) -> MutexGuard<'_, HashMap<Box<str>, PathRequests>> {
        self.by_path.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut by_path = self.turns.by_path();
        let Some(requests) = by_path.get_mut(&self.path) else { return };
        requests.count -= 1;
        if requests.count == 0 {
            by_path.remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn one_path_has_one_turn_at_a_time_and_all_others_have_theirs() {
        let turns = Arc::<PathTurns>::default();
        let take = |path: &'static str| turns.take(path, TOLD_REQUESTS_MAX);
        let first = turns.take_if_free("run:1");
        assert!(first.is_some() && turns.take_if_free("run:1").is_none());
        let mut waiting: Vec<_> = (1..TOLD_REQUESTS_MAX).map(|_| Box::pin(take("run:1"))).collect();
        assert!(waiting.iter_mut().all(|request| request.now_or_never().is_none()));
        assert!(matches!(take("run:1").now_or_never(), Some(None)), "they are too many");
        assert_eq!(turns.requests("run:1"), TOLD_REQUESTS_MAX);
        let other = take("run:2").now_or_never().flatten();
        assert!(other.is_some(), "nobody waits for what is done at run:1");
        // In the order in which they came, also past who has gone.
        drop((first, waiting.remove(1)));
        let second = waiting.remove(0).now_or_never().flatten();
        assert!(second.is_some() && waiting[0].as_mut().now_or_never().is_none());
        drop(second);
        assert!(waiting.remove(0).now_or_never().flatten().is_some());
        assert!(turns.requests("run:1") > 0);
        assert!(turns.take_if_free("run:1").is_none(), "others wait");
        drop((waiting, other));
        assert!(turns.by_path().is_empty(), "nothing is kept of them");
    }
}
