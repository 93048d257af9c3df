//! Which appends are told at one time: so many, and one of each stream.
//!
//! To tell an append takes as long as a mailbox is full, and all that while a thread and the writer
//! of its stream are held. Requests about the same stream would only wait for that writer: they
//! wait here, without a place, so that all other streams have theirs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Appends that are told at one time. They may wait for a full mailbox, and leave other requests
/// threads for the disk.
const TELLING_MAX: usize = 32;

/// Requests about one stream at one time, of which one is worked on.
const REQUESTS_MAX: usize = 256;

/// The places of those who may tell appends.
pub(super) struct TellingPlaces {
    all: Semaphore,
    /// No more of them than requests.
    by_path: Mutex<HashMap<Box<str>, PathRequests>>,
}

struct PathRequests {
    count: usize,
    /// For one of them.
    turn: Arc<Semaphore>,
}

/// A place that is taken.
pub(super) struct TellingPlace<'p> {
    _place: SemaphorePermit<'p>,
    _turn: OwnedSemaphorePermit,
    _counted: Counted<'p>,
}

/// A request that is counted at its path.
struct Counted<'p> {
    places: &'p TellingPlaces,
    path: &'p str,
}

impl TellingPlaces {
    pub(super) fn new() -> TellingPlaces {
        TellingPlaces { all: Semaphore::new(TELLING_MAX), by_path: Mutex::default() }
    }

    /// Waits for a place to work on the stream at `path`; `None` where too many do.
    pub(super) async fn take<'p>(&'p self, path: &'p str) -> Option<TellingPlace<'p>> {
        let (counted, turn) = self.count(path)?;
        let turn = turn.acquire_owned().await.expect("it is never closed");
        let place = self.all.acquire().await.expect("it is never closed");
        Some(TellingPlace { _place: place, _turn: turn, _counted: counted })
    }

    /// Whether somebody is at the stream at `path`.
    pub(super) fn is_busy(&self, path: &str) -> bool {
        self.by_path().contains_key(path)
    }

    fn count<'p>(&'p self, path: &'p str) -> Option<(Counted<'p>, Arc<Semaphore>)> {
        let mut by_path = self.by_path();
        let new = || PathRequests { count: 0, turn: Arc::new(Semaphore::new(1)) };
        let requests = by_path.entry(path.into()).or_insert_with(new);
        if requests.count == REQUESTS_MAX {
            return None;
        }
        requests.count += 1;
        Some((Counted { places: self, path }, Arc::clone(&requests.turn)))
    }

    fn by_path(&self) -> MutexGuard<'_, HashMap<Box<str>, PathRequests>> {
        self.by_path.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let mut by_path = self.places.by_path();
        let Some(requests) = by_path.get_mut(self.path) else { return };
        requests.count -= 1;
        if requests.count == 0 {
            by_path.remove(self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;
    use futures_util::future::join_all;

    use super::*;

    #[test]
    fn one_path_has_one_place_and_all_others_have_theirs() {
        let places = TellingPlaces::new();
        let first = places.take("run:1").now_or_never().flatten();
        assert!(first.is_some());
        let mut waiting: Vec<_> =
            (1..REQUESTS_MAX).map(|_| Box::pin(places.take("run:1"))).collect();
        assert!(waiting.iter_mut().all(|request| request.now_or_never().is_none()));
        assert!(matches!(places.take("run:1").now_or_never(), Some(None)), "they are too many");
        let paths: Vec<String> = (2..=TELLING_MAX).map(|n| format!("run:{n}")).collect();
        let others = join_all(paths.iter().map(|path| places.take(path))).now_or_never();
        let others = others.expect("nobody waits for what is done at run:1");
        assert!(others.iter().all(Option::is_some));
        let mut one_more = pin!(places.take("one-more"));
        assert!(one_more.as_mut().now_or_never().is_none(), "all are so many at most");
        drop(others);
        assert!(one_more.now_or_never().flatten().is_some());
        // In the order in which they came, also past who has gone.
        drop((first, waiting.remove(1)));
        let second = waiting.remove(0).now_or_never().flatten();
        assert!(second.is_some() && waiting[0].as_mut().now_or_never().is_none());
        drop(second);
        assert!(waiting.remove(0).now_or_never().flatten().is_some());
        assert!(places.is_busy("run:1"));
        drop(waiting);
        assert!(!places.is_busy("run:1") && places.by_path().is_empty(), "nothing is kept of them");
    }
}
