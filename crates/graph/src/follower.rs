//! What an open store keeps for a replica beside the pairs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hub::{Id, PairHash, Subscription};

use super::replica_state::LogPlace;

/// Where a pair stands in the order in which it is read: subscribee, subscriber.
pub(super) type PairPlace = (Id, Id);

/// A pair that came or went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved {
    pub(super) place: PairPlace,
    pub(super) hash: PairHash,
    pub(super) added: bool,
}

impl Moved {
    pub(super) fn new(pair: Subscription, hash: PairHash, added: bool) -> Moved {
        Moved { place: (pair.subscribee, pair.subscriber), hash, added }
    }
}

/// Of a store that is a replica.
#[derive(Default)]
pub(super) struct Follower {
    /// How far the log has been followed, when that is not stored yet.
    place: Mutex<Option<LogPlace>>,
    /// What changed since a sum was begun; `None` while nobody sums. Looked at by the writer only,
    /// with the state locked.
    moved: Mutex<Option<Vec<Moved>>>,
    /// Held by the one who sums.
    pub(super) summing: Mutex<()>,
}

impl Follower {
    /// The place that is still to be stored.
    pub(super) fn place(&self) -> MutexGuard<'_, Option<LogPlace>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transaction is committed, with `place` and what `moved` in it.
    pub(super) fn settle(&self, place: Option<LogPlace>, moved: Option<Vec<Moved>>) {
        // The caller may have followed the log further meanwhile.
        self.place().take_if(|newest| Some(*newest) == place);
        if let (Some(all), Some(moved)) = (self.moved().as_mut(), moved) {
            all.extend(moved);
        }
    }

    pub(super) fn moved(&self) -> MutexGuard<'_, Option<Vec<Moved>>> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
