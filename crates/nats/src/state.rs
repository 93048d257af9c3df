//! What is known of the connection and what was counted, for readiness and metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How the connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Whether there is one. A peer that fell silent is noticed after 3 s.
    pub connected: bool,
    /// Where the server listens, as it says itself, `host:port`; that of the one before where there
    /// is none.
    pub server: String,
    /// What that server calls itself.
    pub server_name: String,
    /// The version of NATS that it runs.
    pub server_version: String,
    /// Since when it is so.
    pub since: Instant,
    /// How often a connection was made, the first one too. A different number is another
    /// connection, on which nothing is known of what was under way on the one before.
    pub connects: u64,
    /// The last thing that went wrong since this connection was made: why an attempt at another
    /// one failed, or what the server complained of.
    pub last_error: Option<String>,
}

/// Upper bounds of the buckets of [`Latencies`], in microseconds. An acknowledgement takes 2 ms at
/// the median of a busy server, 12 ms with three replicas, and seconds in an election.
pub const LATENCY_BOUNDS_US: [u64; 15] = [
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

/// How long publishes took from the call to the known outcome, with their repeats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// How many took at most the bound of the same index, and more than the one before it; the last
    /// one is for those above all bounds.
    pub buckets: [u64; LATENCY_BOUNDS_US.len() + 1],
    /// The sum of all.
    pub sum: Duration,
}

/// What was counted since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records that are known to be in the log.
    pub published: u64,
    /// Of those, the ones of which an earlier attempt was in it already.
    pub duplicates: u64,
    /// Attempts that were repeated.
    pub repeats: u64,
    /// Publishes that ended without a known outcome.
    pub unknown: u64,
    /// Publishes that ended refused, or for which there was no server in time.
    pub refused: u64,
    /// Attempts for which a server had no room: its disk is full, or what it may keep there.
    pub no_room: u64,
    /// How long the published ones took.
    pub latencies: Latencies,
    /// Records that followers have handed over.
    pub followed: u64,
    /// Records that are in the log after the last one that a follower has got, as the server said
    /// with that one.
    pub pending: u64,
    /// Times that a follower made its consumer anew.
    pub followers_restarted: u64,
    /// Core messages that came while the queue of their subject was full.
    pub dropped: u64,
    /// Core messages that were not sent since there was no connection.
    pub unsent: u64,
    /// Times that the library dropped a message. It is an error of ours: nothing waits there.
    pub slow_consumer: u64,
}

/// The counters themselves. All are for reading by people: relaxed, and nothing hangs on them.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) published: AtomicU64,
    pub(crate) duplicates: AtomicU64,
    pub(crate) repeats: AtomicU64,
    pub(crate) unknown: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) no_room: AtomicU64,
    pub(crate) followed: AtomicU64,
    pub(crate) pending: AtomicU64,
    pub(crate) followers_restarted: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) unsent: AtomicU64,
    pub(crate) slow_consumer: AtomicU64,
    buckets: [AtomicU64; LATENCY_BOUNDS_US.len() + 1],
    latency_sum_us: AtomicU64,
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn took(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BOUNDS_US.partition_point(|bound| *bound < us);
        count(&self.buckets[bucket]);
        self.latency_sum_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            published: of(&self.published),
            duplicates: of(&self.duplicates),
            repeats: of(&self.repeats),
            unknown: of(&self.unknown),
            refused: of(&self.refused),
            no_room: of(&self.no_room),
            latencies: Latencies {
                buckets: std::array::from_fn(|i| of(&self.buckets[i])),
                sum: Duration::from_micros(of(&self.latency_sum_us)),
            },
            followed: of(&self.followed),
            pending: of(&self.pending),
            followers_restarted: of(&self.followers_restarted),
            dropped: of(&self.dropped),
            unsent: of(&self.unsent),
            slow_consumer: of(&self.slow_consumer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_is_counted_in_the_bucket_whose_bound_it_does_not_pass() {
        let counters = Counters::default();
        for us in [0, 250, 251, 10_000_000, 10_000_001] {
            counters.took(Duration::from_micros(us));
        }
        let latencies = counters.read().latencies;
        assert_eq!(latencies.buckets[..2], [2, 1]);
        assert_eq!(latencies.buckets[14..], [1, 1]);
        assert_eq!(latencies.sum, Duration::from_micros(20_000_502));
    }
}
