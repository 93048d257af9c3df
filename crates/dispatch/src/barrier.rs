//! Who may change something, and when: the barrier that an upgrade closes while it writes
//! everything down for the program that goes on with it.
//!
//! A [`WritePermit`] is held while an event is posted, somebody is logged out, subscriptions change
//! or a token is revoked. It does not matter whether the API asked for it, an Erlang node or this
//! server itself: [`Sender`](crate::posting::Sender) asks to see it. A permit is held from when all
//! that the work takes is there until it is done. It is not held while a client is waited for:
//! neither for its body nor until it has read its answer. So those that are out when the barrier
//! [closes](Barrier::close) come back within milliseconds, and then nothing changes any more. Each
//! event is posted before that, or when the barrier [opens](Barrier::open) again, or by the
//! [successor](Successor) that takes everything.
//!
//! Requests wait at the barrier as they come (`server::passing`) and go to the successor whole. Who
//! was let in before, and has its body only now, waits here and goes there too.
//!
//! Cost of a permit: an atomic addition and a subtraction, no lock and no allocation. Who waits for
//! the barrier has a place in a list, as many as there are requests.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::response::Response;
use httpd::problem::ApiProblem;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout, timeout_at};

use crate::successor::{Successor, upgrade_hangs};

/// Beside the number of permits: no more are given out.
const CLOSED: u64 = 1 << 63;

/// How long anybody waits for the barrier. An upgrade gives up much sooner; this is for the day on
/// which that hangs.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// How often it is looked whether permits have come back of which nobody tells.
const LOOK: Duration = Duration::from_millis(1);

/// The barrier of a server.
#[derive(Debug)]
pub struct Barrier {
    /// How many permits are out, and [`CLOSED`]. One number for both: all see its changes in one
    /// order, so a permit is given out before the barrier closes, and counted, or not at all.
    /// Acquire at a permit: it sees what was done while the barrier was closed. Release at its end:
    /// who sees that none is out sees what they did.
    permits: AtomicU64,
    /// Where those look who have found it closed. It is changed to closed before `permits` is, and
    /// to open after: so nobody finds the one closed and the other open for long.
    stand: watch::Sender<Stand>,
    /// Tells that the last permit has come back.
    last: Notify,
}

/// How the barrier stands.
#[derive(Clone, Debug)]
enum Stand {
    Open,
    Closed,
    Moved(Arc<Successor>),
}

/// The right to change something, until it is dropped.
#[must_use]
#[derive(Debug)]
pub struct WritePermit<'g>(&'g Barrier);

/// A write permit of somebody who must not wake a task, and never waits.
#[must_use]
#[derive(Debug)]
pub struct WritePermitAtOnce<'g>(&'g Barrier);

/// Why there is no permit.
#[derive(Clone, Debug)]
pub enum NoPermit {
    /// This process does nothing any more: ask that one.
    Moved(Arc<Successor>),
    /// The barrier stays closed. Nothing was done.
    TooLong,
}

impl Barrier {
    /// One that is open.
    pub fn new() -> Arc<Barrier> {
        let (permits, stand) = (AtomicU64::new(0), watch::Sender::new(Stand::Open));
        Arc::new(Barrier { permits, stand, last: Notify::new() })
    }

    /// Waits until something may be changed.
    pub async fn enter(&self) -> Result<WritePermit<'_>, NoPermit> {
        loop {
            if let Some(permit) = self.try_enter() {
                return Ok(permit);
            }
            self.wait().await?;
        }
    }

    /// A permit, if there is one now, for somebody who does not wait.
    pub fn try_enter(&self) -> Option<WritePermit<'_>> {
        let before = self.permits.fetch_add(1, Ordering::Acquire);
        let permit = WritePermit(self);
        // Otherwise it is none, and given back as one.
        (before & CLOSED == 0).then_some(permit)
    }

    /// A permit, if there is one now.
    pub fn enter_at_once(&self) -> Option<WritePermitAtOnce<'_>> {
        let before = self.permits.fetch_add(1, Ordering::Acquire);
        let permit = WritePermitAtOnce(self);
        (before & CLOSED == 0).then_some(permit)
    }

    /// Waits until somebody who changes nothing yet may go on. It is not counted.
    pub async fn through(&self) -> Result<(), NoPermit> {
        while self.is_closed() {
            self.wait().await?;
        }
        Ok(())
    }

    /// From now on who comes waits.
    pub fn close(&self) {
        self.stand.send_if_modified(|stand| {
            let closes = matches!(stand, Stand::Open);
            if closes {
                *stand = Stand::Closed;
                self.permits.fetch_or(CLOSED, Ordering::AcqRel);
            }
            closes
        });
    }

    /// Waits until no permit is out, at most for so long; whether that is so. The barrier is
    /// closed.
    pub async fn emptied(&self, most: Duration) -> bool {
        let end = Instant::now() + most;
        loop {
            let mut last = pin!(self.last.notified());
            // Before it is looked, so that it hears of one that comes back between the two.
            last.as_mut().enable();
            if self.permits.load(Ordering::Acquire) & !CLOSED == 0 {
                return true;
            }
            // Who has a permit at once tells nobody that it comes back.
            let look = end.min(Instant::now() + LOOK);
            if timeout_at(look, last).await.is_err() && look == end {
                return false;
            }
        }
    }

    /// All goes on here, as if it had never been closed: the upgrade has failed.
    pub fn open(&self) {
        self.stand.send_if_modified(|stand| {
            let opens = matches!(stand, Stand::Closed);
            if opens {
                self.permits.fetch_and(!CLOSED, Ordering::AcqRel);
                *stand = Stand::Open;
            }
            opens
        });
    }

    /// All goes on at `successor`. There is no way back.
    pub fn move_on(&self, successor: Successor) {
        self.stand.send_modify(|stand| {
            self.permits.fetch_or(CLOSED, Ordering::AcqRel);
            *stand = Stand::Moved(Arc::new(successor));
        });
    }

    /// Who has taken everything, if somebody has.
    pub fn successor(&self) -> Option<Arc<Successor>> {
        match &*self.stand.borrow() {
            Stand::Moved(successor) => Some(Arc::clone(successor)),
            Stand::Open | Stand::Closed => None,
        }
    }

    /// Waits until somebody has taken everything.
    pub async fn moved(&self) {
        let mut stand = self.stand.subscribe();
        // It fails when the barrier is gone, and we have it.
        let _ = stand.wait_for(|stand| matches!(stand, Stand::Moved(_))).await;
    }

    /// Waits until it has been closed for so long at one time.
    pub async fn closed_for(&self, time: Duration) {
        let mut stand = self.stand.subscribe();
        loop {
            // Both fail when the barrier is gone, and we have it.
            let _ = stand.wait_for(|stand| !matches!(stand, Stand::Open)).await;
            let opens = stand.wait_for(|stand| matches!(stand, Stand::Open));
            if timeout(time, opens).await.is_err() {
                return;
            }
        }
    }

    /// Whether it is closed, for now or for ever.
    pub fn is_closed(&self) -> bool {
        // Relaxed: who goes on by this changes nothing without a permit.
        self.permits.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Waits until it may be tried again.
    async fn wait(&self) -> Result<(), NoPermit> {
        let mut stand = self.stand.subscribe();
        let stands = stand.wait_for(|stand| !matches!(stand, Stand::Closed));
        let stands = timeout(WAIT_MAX, stands).await.map_err(|_| NoPermit::TooLong)?;
        match stands.as_deref() {
            Ok(Stand::Moved(successor)) => Err(NoPermit::Moved(Arc::clone(successor))),
            _ => Ok(()),
        }
    }
}

impl NoPermit {
    /// What is answered to a request that may not be answered here.
    pub async fn answer(self, head: Parts, body: Body) -> Result<Response, ApiProblem> {
        match self {
            NoPermit::Moved(successor) => successor.pass_on(head, body).await,
            NoPermit::TooLong => Err(upgrade_hangs()),
        }
    }
}

impl Drop for WritePermit<'_> {
    fn drop(&mut self) {
        let before = self.0.permits.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before & !CLOSED > 0, "more permits came back than were given");
        if before == CLOSED | 1 {
            self.0.last.notify_waiters();
        }
    }
}

impl Drop for WritePermitAtOnce<'_> {
    fn drop(&mut self) {
        let before = self.0.permits.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before & !CLOSED > 0, "more permits came back than were given");
    }
}

#[cfg(test)]
mod tests;
