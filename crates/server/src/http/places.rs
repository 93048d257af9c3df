//! How many connections to the API there are at one time, and whose turn it is to go when they
//! become many.
//!
//! There are two kinds of places. The ordinary ones are for everybody. When they are all taken, a
//! few reserved ones are left, in which probes and scrapers are answered and everybody else is told
//! to come back, so that a monitor does not take a busy API for a dead one. And before they are all
//! taken places are *scarce*: whoever keeps one without sending anything loses it after a second
//! instead of minutes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until};

/// Connections at one time. With HTTP/2's windows a hostile client can make each hold up to 1 MiB.
const ORDINARY: usize = 4096;

/// Connections beside them. Each is answered once and closed, or cut when it is silent for
/// [`SCARCE_TIMEOUT`].
const RESERVED: usize = 64;

/// Ordinary places left below which they are scarce.
const SCARCE_BELOW: usize = ORDINARY / 8;

/// How long a client may keep its place without sending anything while places are scarce. Up to as
/// long again is drawn for each: thousands that go at one moment would hold up everybody else for a
/// tenth of a second.
const SCARCE_TIMEOUT: Duration = Duration::from_secs(1);

/// All places.
#[derive(Debug)]
pub(crate) struct Places {
    ordinary: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    scarce: watch::Sender<bool>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    /// `None` only while it is dropped.
    permit: Option<OwnedSemaphorePermit>,
    is_reserved: bool,
    places: Arc<Places>,
}

/// How long a client may be idle, which is shorter while places are scarce.
#[derive(Clone, Debug)]
pub(crate) struct IdleLimit(watch::Receiver<bool>);

impl Places {
    pub(crate) fn new() -> Arc<Places> {
        Arc::new(Places {
            ordinary: Arc::new(Semaphore::new(ORDINARY)),
            reserved: Arc::new(Semaphore::new(RESERVED)),
            scarce: watch::Sender::new(false),
        })
    }

    /// The limit on idle clients that goes with how many places are left.
    pub(crate) fn idle_limit(&self) -> IdleLimit {
        IdleLimit(self.scarce.subscribe())
    }

    /// Waits until there is a place of any kind. It is a reserved one until
    /// [`Place::into_ordinary`] is asked.
    pub(super) async fn take(self: &Arc<Places>) -> Place {
        let permit = Arc::clone(&self.reserved).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        Place { permit: Some(permit), is_reserved: true, places: Arc::clone(self) }
    }

    /// Waits until all places are free, and keeps them so.
    pub(super) async fn take_all(&self) {
        for (places, all) in [(&self.ordinary, ORDINARY), (&self.reserved, RESERVED)] {
            let permits = places.acquire_many(all as u32).await;
            permits.expect("the semaphore is never closed").forget();
        }
    }

    fn update_scarce(&self) {
        let scarce = self.ordinary.available_permits() < SCARCE_BELOW;
        self.scarce.send_if_modified(|was| std::mem::replace(was, scarce) != scarce);
    }
}

impl Place {
    /// An ordinary place instead, if one is left.
    pub(super) fn into_ordinary(mut self) -> Place {
        if let Ok(permit) = Arc::clone(&self.places.ordinary).try_acquire_owned() {
            self.permit = Some(permit);
            self.is_reserved = false;
            self.places.update_scarce();
        }
        self
    }

    /// Whether it is for probes alone.
    pub(super) fn is_reserved(&self) -> bool {
        self.is_reserved
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.permit = None;
        self.places.update_scarce();
    }
}

impl IdleLimit {
    /// Waits until a client that has been silent `since` has been so for `timeout`, or for one to
    /// two seconds while places are scarce.
    pub(crate) async fn expired(&mut self, since: Instant, timeout: Duration) {
        let scarce = async {
            // Fails when all places are gone, and the server with them.
            let _ = self.0.wait_for(|scarce| *scarce).await;
            let over = Instant::now().max(since + SCARCE_TIMEOUT);
            sleep_until(over + SCARCE_TIMEOUT.mul_f64(fastrand::f64())).await;
        };
        tokio::select! {
            () = sleep_until(since + timeout) => {}
            () = scarce => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(300);

    async fn waited(limit: &mut IdleLimit, silent: Duration) -> Duration {
        let before = Instant::now();
        limit.expired(before - silent, TIMEOUT).await;
        before.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn silent_client_goes_after_a_second_once_places_are_scarce() {
        tokio::time::advance(TIMEOUT).await;
        let places = Places::new();
        let mut limit = places.idle_limit();
        assert_eq!(waited(&mut limit, Duration::ZERO).await, TIMEOUT);
        let mut taken = Vec::new();
        for _ in 0..=ORDINARY - SCARCE_BELOW {
            taken.push(places.take().await.into_ordinary());
        }
        let drawn = SCARCE_TIMEOUT;
        for (silent, least) in [(Duration::ZERO, SCARCE_TIMEOUT), (TIMEOUT / 2, Duration::ZERO)] {
            let mut ends = BTreeSet::new();
            for _ in 0..20 {
                ends.insert(waited(&mut limit, silent).await);
            }
            assert!(ends.iter().all(|end| (least..=least + drawn).contains(end)), "{ends:?}");
            assert!(ends.len() > 10, "all go at one time: {ends:?}");
        }
        drop(taken.pop());
        assert_eq!(waited(&mut limit, Duration::ZERO).await, TIMEOUT);
    }

    #[tokio::test]
    async fn reserved_places_are_left_when_the_ordinary_ones_are_taken() {
        let places = Places::new();
        let mut taken = Vec::new();
        for _ in 0..ORDINARY + RESERVED {
            taken.push(places.take().await.into_ordinary());
        }
        let reserved = taken.iter().filter(|place| place.is_reserved()).count();
        assert_eq!(reserved, RESERVED);
        taken.clear();
        assert!(!places.take().await.into_ordinary().is_reserved());
        places.take_all().await;
    }
}
