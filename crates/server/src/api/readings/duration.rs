//! How long sends take, as a histogram: from the moment at which the API has read an event until it
//! knows to how many connections the event was handed.
//!
//! By then each worker has put the event into the outboxes of its connections, which it writes in
//! the same turn; what clients and the network add is not in it. In a stream of events the answers
//! come in the order of the lines, so an event is over only when those before it are: the figure is
//! what the sender sees, never less than the way to the workers. Sends whose sender hung up before
//! the answer are not counted.
//!
//! There are twenty buckets to a decade (the preferred numbers R 20 of ISO 3), so a percentile of
//! any interval can be told to 14 % by whoever subtracts two readings. A send costs two reads of
//! the clock, seven comparisons and two additions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use figures::run::{Bucket, Durations};
use serde::{Deserialize, Serialize};

/// The R 20 series of ISO 3 in hundredths: twenty steps to ten times the first.
const SERIES: [u64; 20] = [
    100, 112, 125, 140, 160, 180, 200, 224, 250, 280, 315, 355, 400, 450, 500, 560, 630, 710, 800,
    900,
];

/// From 10 µs to 10 s.
const DECADES: usize = 6;

/// What the first number of the series stands for in the first decade, in nanoseconds by hundred.
const FIRST_NS_BY_100: u64 = 100;

const BOUNDS: usize = SERIES.len() * DECADES + 1;

/// The upper bounds of all buckets but the last, in nanoseconds. A value at a bound is below it.
const BOUNDS_NS: [u64; BOUNDS] = {
    let mut bounds = [0; BOUNDS];
    let (mut bound, mut decade) = (0, FIRST_NS_BY_100);
    while bound < BOUNDS {
        bounds[bound] = SERIES[bound % SERIES.len()] * decade;
        bound += 1;
        if bound % SERIES.len() == 0 {
            decade *= 10;
        }
    }
    bounds
};

/// Bounds in the series at which a scraper gets a bucket: 1, 2.5 and 5 of each decade.
const SCRAPED: [u64; 3] = [100, 250, 500];

const _: () = {
    // A bound is searched for.
    let mut bound = 1;
    while bound < BOUNDS {
        assert!(BOUNDS_NS[bound - 1] < BOUNDS_NS[bound]);
        bound += 1;
    }
    let mut scraped = 0;
    while scraped < SCRAPED.len() {
        let mut of_series = 0;
        while SERIES[of_series] != SCRAPED[scraped] {
            of_series += 1;
            assert!(of_series < SERIES.len(), "no bucket ends there");
        }
        scraped += 1;
    }
};

/// How long sends took since the start.
///
/// Ordering: relaxed. Each count stands for itself, and readers only report it; a reading made
/// between the two additions has a sum that is one send behind.
#[derive(Debug)]
pub(crate) struct SendDurations {
    /// One for each bound, and one for what is over the last.
    counts: [AtomicU64; BOUNDS + 1],
    sum_ns: AtomicU64,
}

impl Default for SendDurations {
    fn default() -> SendDurations {
        SendDurations {
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            sum_ns: AtomicU64::new(0),
        }
    }
}

impl SendDurations {
    /// Counts a send that was accepted at `accepted` and was over at `over`.
    pub(crate) fn record(&self, accepted: Instant, over: Instant) {
        let ns = over.saturating_duration_since(accepted).as_nanos() as u64;
        let bucket = BOUNDS_NS.partition_point(|&bound| bound < ns);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// For `/stats`.
    pub(crate) fn reading(&self) -> DurationStats {
        let Durations { buckets } = self.since_start();
        DurationStats {
            count: buckets.iter().map(|bucket| bucket.count).sum(),
            sum_seconds: self.sum_seconds(),
            buckets,
        }
    }

    /// For whoever compares two readings.
    pub(crate) fn since_start(&self) -> Durations {
        let counts = self.counts();
        let occupied = counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        let buckets = occupied.map(|(bucket, &count)| Bucket {
            over_seconds: bucket.checked_sub(1).map_or(0.0, |below| seconds(BOUNDS_NS[below])),
            up_to_seconds: BOUNDS_NS.get(bucket).map(|&bound| seconds(bound)),
            count,
        });
        Durations { buckets: buckets.collect() }
    }

    /// For `/metrics`: upper bounds in seconds and how many sends took at most that, and the number
    /// of all.
    pub(crate) fn cumulative(&self) -> (Vec<(f64, u64)>, u64) {
        let (mut buckets, mut sum) = (Vec::new(), 0);
        for (bucket, count) in self.counts().into_iter().enumerate() {
            sum += count;
            let scraped = SCRAPED.contains(&SERIES[bucket % SERIES.len()]);
            if scraped && let Some(&bound) = BOUNDS_NS.get(bucket) {
                buckets.push((seconds(bound), sum));
            }
        }
        debug_assert!(buckets.is_sorted_by(|one, next| one.0 < next.0 && one.1 <= next.1));
        (buckets, sum)
    }

    /// All durations together.
    pub(crate) fn sum_seconds(&self) -> f64 {
        seconds(self.sum_ns.load(Ordering::Relaxed))
    }

    /// For the process that goes on with them.
    pub(crate) fn write(&self) -> WrittenDurations {
        let counts = self.counts().into_iter().enumerate().filter(|&(_, count)| count > 0);
        let bound = |bucket: usize| BOUNDS_NS.get(bucket).copied().unwrap_or(u64::MAX);
        WrittenDurations {
            counts: counts.map(|(bucket, count)| (bound(bucket), count)).collect(),
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
        }
    }

    /// Goes on with those of the process before.
    pub(crate) fn take_over(&self, written: &WrittenDurations) {
        for &(bound, count) in &written.counts {
            let bucket = BOUNDS_NS.partition_point(|&own| own < bound);
            self.counts[bucket].fetch_add(count, Ordering::Relaxed);
        }
        self.sum_ns.fetch_add(written.sum_ns, Ordering::Relaxed);
    }

    fn counts(&self) -> [u64; BOUNDS + 1] {
        std::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed))
    }
}

/// They, as they are written down.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct WrittenDurations {
    /// Upper bounds in nanoseconds, and how many sends took at most that, and more than the bound
    /// before.
    counts: Vec<(u64, u64)>,
    sum_ns: u64,
}

fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}

/// How long sends took, as `/stats` tells it.
#[derive(Debug, Serialize)]
pub(crate) struct DurationStats {
    count: u64,
    sum_seconds: f64,
    /// Those that hold anything, ascending.
    buckets: Vec<Bucket>,
}

#[cfg(test)]
mod tests;
