//! Percentiles of an interval, out of two readings of a histogram that only grows.

use serde::{Deserialize, Serialize};

use crate::latency::Quantiles;

/// How long things took since the start of their counting.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
pub struct Durations {
    /// Those that hold anything, ascending.
    pub buckets: Vec<Bucket>,
}

/// How many took so long.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize, Serialize)]
pub struct Bucket {
    /// Longer than this.
    pub over_seconds: f64,
    /// At most this; `None` for the last, which has no bound.
    pub up_to_seconds: Option<f64>,
    /// How many intervals there are.
    pub count: u64,
}

impl Durations {
    /// The quantiles of what was added since the reading `before`. Within a bucket values count as
    /// evenly spread, so the error is at most the bucket's width; the maximum is the upper bound of
    /// the last bucket that was added to.
    pub fn since(&self, before: &Durations) -> Quantiles {
        let added: Vec<Bucket> = self
            .buckets
            .iter()
            .map(|bucket| {
                let same = |old: &&Bucket| old.over_seconds == bucket.over_seconds;
                let old = before.buckets.iter().find(same).map_or(0, |old| old.count);
                Bucket { count: bucket.count.saturating_sub(old), ..*bucket }
            })
            .filter(|bucket| bucket.count > 0)
            .collect();
        let count = added.iter().map(|bucket| bucket.count).sum();
        let at = |quantile| 1e3 * seconds_at(&added, quantile * count as f64);
        Quantiles {
            count,
            p50_ms: at(0.50),
            p90_ms: at(0.90),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: at(1.0),
        }
    }
}

/// The value that `rank` of all are at most.
fn seconds_at(buckets: &[Bucket], rank: f64) -> f64 {
    debug_assert!(buckets.iter().all(|bucket| bucket.count > 0), "an empty one has no width");
    let mut below = 0.0;
    for bucket in buckets {
        let count = bucket.count as f64;
        if below + count >= rank {
            let width = bucket.up_to_seconds.unwrap_or(bucket.over_seconds) - bucket.over_seconds;
            return bucket.over_seconds + width * ((rank - below) / count).clamp(0.0, 1.0);
        }
        below += count;
    }
    buckets.last().map_or(0.0, |bucket| bucket.up_to_seconds.unwrap_or(bucket.over_seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations(buckets: &[(f64, f64, u64)]) -> Durations {
        let bucket = |&(over_seconds, up_to, count): &(f64, f64, u64)| Bucket {
            over_seconds,
            up_to_seconds: up_to.is_finite().then_some(up_to),
            count,
        };
        Durations { buckets: buckets.iter().map(bucket).collect() }
    }

    #[test]
    fn quantiles_are_those_of_what_was_added() {
        let before = durations(&[(0.001, 0.002, 1_000), (0.009, 0.010, 5)]);
        let now = durations(&[(0.001, 0.002, 1_050), (0.004, 0.005, 50), (0.009, 0.010, 5)]);
        let quantiles = now.since(&before);
        assert_eq!(quantiles.count, 100);
        for (found, expected) in
            [(quantiles.p50_ms, 2.0), (quantiles.p90_ms, 4.8), (quantiles.max_ms, 5.0)]
        {
            assert!((found - expected).abs() < 1e-9, "{found} for {expected}");
        }
        assert_eq!(now.since(&now), Quantiles::default());
    }

    #[test]
    fn what_has_no_bound_counts_as_just_over_the_last_one() {
        let now = durations(&[(10.0, f64::INFINITY, 3)]);
        assert_eq!(now.since(&Durations::default()).p50_ms, 10_000.0);
    }
}
