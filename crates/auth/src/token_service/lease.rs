//! Until when a node of a cluster may go by the revocations that it knows.

use std::sync::atomic::{AtomicU64, Ordering};

use sys::clock;

/// Until when this server may go by the revocations that it knows. A node of a cluster hears of
/// them by the log: one that has not read it for some time, whatever the reason, lets nobody in
/// until it has. Times are those of the monotonic clock, which goes on while the process does not.
#[derive(Debug)]
pub(super) struct Lease {
    until_ms: AtomicU64,
}

impl Lease {
    /// One that does not end, but for a node of a cluster, which has to hear the others first.
    pub(super) fn new(in_cluster: bool) -> Lease {
        Lease { until_ms: AtomicU64::new(if in_cluster { 0 } else { u64::MAX }) }
    }

    /// It ends at `until_ms`.
    pub(super) fn extend(&self, until_ms: u64) {
        // Release: what was learnt before is seen by who sees this.
        self.until_ms.store(until_ms, Ordering::Release);
    }

    /// What `verify` says, if all of it was said within one and the same lease. A process that was
    /// stopped in the middle of it has looked at what was known before.
    pub(super) fn within<T>(&self, verify: impl FnOnce() -> T) -> Option<T> {
        // Acquire: what was learnt before the lease was given is seen.
        let until_ms = self.until_ms.load(Ordering::Acquire);
        let is_over = || until_ms != u64::MAX && clock::monotonic_ms() >= until_ms;
        if is_over() {
            return None;
        }
        let verified = verify();
        (!is_over()).then_some(verified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_verified_beyond_a_lease_or_across_two_is_not_said() {
        assert_eq!(Lease::new(false).within(|| 1), Some(1));
        let lease = Lease::new(true);
        assert_eq!(lease.within(|| 1), None);
        let give = |ms: u64| lease.extend(clock::monotonic_ms() + ms);
        give(60_000);
        assert_eq!(lease.within(|| 1), Some(1));
        give(20);
        let renewed_too_late = || {
            while clock::monotonic_ms() <= lease.until_ms.load(Ordering::Acquire) {}
            give(60_000);
        };
        assert_eq!(lease.within(renewed_too_late), None);
        assert_eq!(lease.within(|| 1), Some(1));
    }
}
