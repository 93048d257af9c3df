//! What clients had us keep, and is free, goes back to the system.
//!
//! The allocator gives pages back by itself only from the end of what it has: one small piece that
//! lives on there keeps a gigabyte of free ones below it. So when what is counted for clients has
//! become less, the allocator is asked for the rest. A worker that needs memory in that moment
//! waits, so it is asked while there is little to do, and rests the longer the longer it took.

use std::sync::Arc;
use std::time::Duration;

use dispatch::idempotency::IdempotencyKeys;
use engine::Account;
use httpd::permits::ConnectionPermits;
use hub::Names;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

/// How often it is looked at what has gone.
const LOOK: Duration = Duration::from_millis(50);

/// When so much has gone, the allocator is asked at once: 2,000 pages, a millisecond or two.
const MUCH_BYTES: usize = 8 << 20;

/// When so much has gone, it is asked after a while.
const LITTLE_BYTES: usize = 256 << 10;
const LATER: Duration = Duration::from_secs(10);

/// What part of the time asking may take: of what others wait for, less than one in a hundred meets
/// it.
const PART: u32 = 200;

/// What is kept for clients: each counts for itself, so that nobody is waited for.
pub(super) struct Kept {
    /// Their ids.
    pub(super) names: Arc<Names>,
    /// What they have sent in part, and what they do not take.
    pub(super) account: Arc<Account>,
    /// How senders have called their sends.
    pub(super) idempotency: Arc<IdempotencyKeys>,
    /// Their connections to the API, and those of the public port that are served as such, of which
    /// each may have sent a part of a request.
    pub(super) permits: [Arc<ConnectionPermits>; 2],
}

/// What one of these connections counts for: less than half a request takes, and more than a silent
/// one.
const CONNECTION_BYTES: usize = 16 << 10;

impl Kept {
    fn bytes(&self) -> usize {
        let taken: usize = self.permits.iter().map(|permits| permits.taken()).sum();
        let connections = taken * CONNECTION_BYTES;
        self.names.bytes() + self.account.bytes() + self.idempotency.bytes() + connections
    }
}

/// Looks for as long as the runtime lives.
pub(super) async fn give_back(all: Kept) {
    let (mut most, mut asked, mut rest) = (0, Instant::now(), Duration::ZERO);
    loop {
        sleep(LOOK).await;
        let kept = all.bytes();
        most = kept.max(most);
        let enough = if asked.elapsed() >= LATER { LITTLE_BYTES } else { MUCH_BYTES };
        if most - kept < enough || asked.elapsed() < rest {
            continue;
        }
        let began = Instant::now();
        // On a thread of its own: the control plane answers meanwhile. It fails only when all ends.
        let _ = spawn_blocking(sys::allocator::give_back).await;
        (most, asked) = (kept, Instant::now());
        rest = began.elapsed() * PART;
    }
}
