//! How many connections to the API there are at one time, and whose turn it is to go when they
//! become many.
//!
//! There are two kinds of places. The ordinary ones are for everybody. When they are all taken, a
//! few reserved ones are left, in which probes and scrapers are answered and everybody else is told
//! to come back, so that a monitor does not take a busy API for a dead one. And before they are all
//! taken there is a *crowd*: whoever keeps a place without a word loses it after a second instead
//! of minutes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until};

/// Connections at one time. With HTTP/2's windows a hostile client can make each hold up to 1 MiB.
const ORDINARY: usize = 4096;

/// Connections beside them. Each is answered once and closed, or cut when it is silent for
/// [`CROWD_PATIENCE`].
const RESERVED: usize = 64;

/// Ordinary places left below which there is a crowd.
const CROWDED_BELOW: usize = ORDINARY / 8;

/// How long a client may keep its place in a crowd without a word. Up to as long again is drawn for
/// each: thousands that go at one moment would hold up everybody else for a tenth of a second.
const CROWD_PATIENCE: Duration = Duration::from_secs(1);

/// All places.
#[derive(Debug)]
pub(crate) struct Places {
    ordinary: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    crowd: watch::Sender<bool>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    /// `None` only while it is dropped.
    permit: Option<OwnedSemaphorePermit>,
    is_reserved: bool,
    places: Arc<Places>,
}

/// Knows whether there is a crowd.
#[derive(Clone, Debug)]
pub(crate) struct Crowd(watch::Receiver<bool>);

impl Places {
    pub(crate) fn new() -> Arc<Places> {
        Arc::new(Places {
            ordinary: Arc::new(Semaphore::new(ORDINARY)),
            reserved: Arc::new(Semaphore::new(RESERVED)),
            crowd: watch::Sender::new(false),
        })
    }

    pub(crate) fn crowd(&self) -> Crowd {
        Crowd(self.crowd.subscribe())
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

    fn notice_crowd(&self) {
        let crowded = self.ordinary.available_permits() < CROWDED_BELOW;
        self.crowd.send_if_modified(|was| std::mem::replace(was, crowded) != crowded);
    }
}

impl Place {
    /// An ordinary place instead, if one is left.
    pub(super) fn into_ordinary(mut self) -> Place {
        if let Ok(permit) = Arc::clone(&self.places.ordinary).try_acquire_owned() {
            self.permit = Some(permit);
            self.is_reserved = false;
            self.places.notice_crowd();
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
        self.places.notice_crowd();
    }
}

impl Crowd {
    /// Waits until a client that has been silent `since` has been so for `patience`, or for one to
    /// two seconds in a crowd.
    pub(crate) async fn out_of_patience(&mut self, since: Instant, patience: Duration) {
        let crowded = async {
            // Fails when all places are gone, and the server with them.
            let _ = self.0.wait_for(|crowded| *crowded).await;
            let over = Instant::now().max(since + CROWD_PATIENCE);
            sleep_until(over + CROWD_PATIENCE.mul_f64(fastrand::f64())).await;
        };
        tokio::select! {
            () = sleep_until(since + patience) => {}
            () = crowded => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(300);

    async fn waited(crowd: &mut Crowd, silent: Duration) -> Duration {
        let before = Instant::now();
        crowd.out_of_patience(before - silent, PATIENCE).await;
        before.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn silent_client_goes_after_a_second_once_there_is_a_crowd() {
        tokio::time::advance(PATIENCE).await;
        let places = Places::new();
        let mut crowd = places.crowd();
        assert_eq!(waited(&mut crowd, Duration::ZERO).await, PATIENCE);
        let mut taken = Vec::new();
        for _ in 0..=ORDINARY - CROWDED_BELOW {
            taken.push(places.take().await.into_ordinary());
        }
        let drawn = CROWD_PATIENCE;
        for (silent, least) in [(Duration::ZERO, CROWD_PATIENCE), (PATIENCE / 2, Duration::ZERO)] {
            let mut ends = BTreeSet::new();
            for _ in 0..20 {
                ends.insert(waited(&mut crowd, silent).await);
            }
            assert!(ends.iter().all(|end| (least..=least + drawn).contains(end)), "{ends:?}");
            assert!(ends.len() > 10, "all go at one time: {ends:?}");
        }
        drop(taken.pop());
        assert_eq!(waited(&mut crowd, Duration::ZERO).await, PATIENCE);
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
