//! How many connections to the API there are at one time, and whose turn it is to go when they
//! become many.
//!
//! There are two kinds of permits. The ordinary ones are for everybody. When they are all taken, a
//! few reserved ones are left. In these, probes and scrapers are answered and everybody else is
//! told to come back, so that a monitor does not take a busy API for a dead one. And before they
//! are all taken permits are *scarce*: whoever keeps one without sending anything loses it after a
//! second instead of minutes. Where a process is left by all, since another one has taken over,
//! whoever has no request in progress goes as soon. Requests that are slow have their time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until};

/// Connections at one time. With HTTP/2's windows a hostile client can make each hold up to 1 MiB.
const ORDINARY: usize = 4096;

/// Connections beside them. Each is answered once and closed, or cut when it is silent for
/// [`SCARCE_TIMEOUT`].
const RESERVED: usize = 64;

/// Ordinary permits left below which they are scarce.
const SCARCE_BELOW: usize = ORDINARY / 8;

/// How long a client may keep its permit without sending anything while permits are scarce. Up to
/// as long again is drawn for each: thousands that go at one moment would hold up everybody else
/// for a tenth of a second.
const SCARCE_TIMEOUT: Duration = Duration::from_secs(1);

const _: () = {
    assert!(
        0 < SCARCE_BELOW && SCARCE_BELOW < ORDINARY,
        "permits would always be scarce, or never"
    );
    assert!(RESERVED > 0, "a probe is answered whatever happens");
};

/// All permits.
#[derive(Debug)]
pub struct ConnectionPermits {
    ordinary: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    room: watch::Sender<Room>,
}

/// How many ordinary ones are left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Room {
    Plenty,
    Scarce,
    /// Nobody is let in any more, and all are waited for.
    Leaving,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    /// `None` only while it is dropped.
    permit: Option<OwnedSemaphorePermit>,
    is_reserved: bool,
    permits: Arc<ConnectionPermits>,
}

/// How long a client may be idle, which is shorter while permits are scarce. A scarcity that is
/// over before a waiting client's task has its turn ends nobody: there are permits again.
#[derive(Clone, Debug)]
pub struct IdleLimit(watch::Receiver<Room>);

/// Why a client's time is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expired {
    /// It was idle for as long as it may be.
    Timeout,
    /// It was idle for a moment while permits were scarce, or where all were to leave.
    Scarce,
}

impl ConnectionPermits {
    /// All that there are, none given out.
    pub fn new() -> Arc<ConnectionPermits> {
        Arc::new(ConnectionPermits {
            ordinary: Arc::new(Semaphore::new(ORDINARY)),
            reserved: Arc::new(Semaphore::new(RESERVED)),
            room: watch::Sender::new(Room::Plenty),
        })
    }

    /// The limit on idle clients that goes with how many permits are left.
    pub fn idle_limit(&self) -> IdleLimit {
        IdleLimit(self.room.subscribe())
    }

    /// Waits until there is a permit of any kind. It is a reserved one until
    /// [`Permit::into_ordinary`] is asked.
    pub async fn take(self: &Arc<ConnectionPermits>) -> Permit {
        let permit = Arc::clone(&self.reserved).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        Permit { permit: Some(permit), is_reserved: true, permits: Arc::clone(self) }
    }

    /// Waits until all permits are free, and keeps them so. Connections without a request in
    /// progress are not waited for until they say something.
    pub async fn take_all(&self) {
        self.room.send_replace(Room::Leaving);
        for (permits, all) in [(&self.ordinary, ORDINARY), (&self.reserved, RESERVED)] {
            let permits = permits.acquire_many(all as u32).await;
            permits.expect("the semaphore is never closed").forget();
        }
    }

    /// How many ordinary ones are taken.
    pub fn taken(&self) -> usize {
        ORDINARY - self.ordinary.available_permits().min(ORDINARY)
    }

    fn update_room(&self) {
        let is_scarce = self.ordinary.available_permits() < SCARCE_BELOW;
        self.room.send_if_modified(|room| {
            let now = match room {
                Room::Leaving => Room::Leaving,
                _ if is_scarce => Room::Scarce,
                _ => Room::Plenty,
            };
            std::mem::replace(room, now) != now
        });
    }
}

impl Permit {
    /// An ordinary permit instead, if one is left.
    pub fn into_ordinary(mut self) -> Permit {
        debug_assert!(self.is_reserved && self.permit.is_some(), "each is exchanged once");
        if let Ok(permit) = Arc::clone(&self.permits.ordinary).try_acquire_owned() {
            self.permit = Some(permit);
            self.is_reserved = false;
            self.permits.update_room();
        }
        self
    }

    /// Whether it is for probes alone.
    pub fn is_reserved(&self) -> bool {
        self.is_reserved
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permit = None;
        self.permits.update_room();
    }
}

impl IdleLimit {
    /// Waits until a client that has been silent `since` has been so for `timeout`, or for one to
    /// two seconds while permits are scarce.
    pub async fn expired(&mut self, since: Instant, timeout: Duration) -> Expired {
        self.expired_when(|room| *room == Room::Scarce, since, timeout).await
    }

    /// Waits like that for a client that has no request in progress: also where all are to leave.
    pub async fn expired_between(&mut self, since: Instant, timeout: Duration) -> Expired {
        self.expired_when(|room| *room != Room::Plenty, since, timeout).await
    }

    async fn expired_when(
        &mut self,
        is_short: impl FnMut(&Room) -> bool,
        since: Instant,
        timeout: Duration,
    ) -> Expired {
        let scarce = async {
            // Fails when all permits are gone, and the server with them.
            let _ = self.0.wait_for(is_short).await;
            let over = Instant::now().max(since + SCARCE_TIMEOUT);
            sleep_until(over + SCARCE_TIMEOUT.mul_f64(fastrand::f64())).await;
        };
        tokio::select! {
            () = sleep_until(since + timeout) => Expired::Timeout,
            () = scarce => Expired::Scarce,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(300);

    async fn waited(limit: &mut IdleLimit, silent: Duration) -> (Duration, Expired) {
        let before = Instant::now();
        let why = limit.expired(before - silent, TIMEOUT).await;
        (before.elapsed(), why)
    }

    #[tokio::test(start_paused = true)]
    async fn silent_client_goes_after_a_second_once_places_are_scarce() {
        tokio::time::advance(TIMEOUT).await;
        let permits = ConnectionPermits::new();
        let mut limit = permits.idle_limit();
        assert_eq!(waited(&mut limit, Duration::ZERO).await, (TIMEOUT, Expired::Timeout));
        let mut taken = Vec::new();
        for _ in 0..=ORDINARY - SCARCE_BELOW {
            taken.push(permits.take().await.into_ordinary());
        }
        let drawn = SCARCE_TIMEOUT;
        for (silent, least) in [(Duration::ZERO, SCARCE_TIMEOUT), (TIMEOUT / 2, Duration::ZERO)] {
            let mut ends = BTreeSet::new();
            for _ in 0..20 {
                let (end, why) = waited(&mut limit, silent).await;
                assert_eq!(why, Expired::Scarce);
                ends.insert(end);
            }
            assert!(ends.iter().all(|end| (least..=least + drawn).contains(end)), "{ends:?}");
            assert!(ends.len() > 10, "all go at one time: {ends:?}");
        }
        drop(taken.pop());
        assert_eq!(waited(&mut limit, Duration::ZERO).await, (TIMEOUT, Expired::Timeout));
    }

    /// One that has a request in progress, such as a stream of sends, may be as slow as ever.
    #[tokio::test(start_paused = true)]
    async fn who_has_no_request_in_progress_goes_soon_where_all_are_to_leave() {
        let permits = ConnectionPermits::new();
        let mut limit = permits.idle_limit();
        let [one, other] = [permits.take().await.into_ordinary(), permits.take().await];
        let waiting = tokio::spawn({
            let permits = Arc::clone(&permits);
            async move { permits.take_all().await }
        });
        tokio::task::yield_now().await;
        // Whoever gives a permit back meanwhile makes them scarce for nobody.
        drop(one);
        assert_eq!(waited(&mut limit, Duration::ZERO).await, (TIMEOUT, Expired::Timeout));
        let before = Instant::now();
        assert_eq!(limit.expired_between(before, TIMEOUT).await, Expired::Scarce);
        assert!(before.elapsed() <= 2 * SCARCE_TIMEOUT, "{:?}", before.elapsed());
        assert!(!waiting.is_finished());
        drop(other);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn reserved_places_are_left_when_the_ordinary_ones_are_taken() {
        let permits = ConnectionPermits::new();
        let mut taken = Vec::new();
        for _ in 0..ORDINARY + RESERVED {
            taken.push(permits.take().await.into_ordinary());
        }
        let reserved = taken.iter().filter(|permit| permit.is_reserved()).count();
        assert_eq!(reserved, RESERVED);
        taken.clear();
        assert!(!permits.take().await.into_ordinary().is_reserved());
        permits.take_all().await;
    }
}
