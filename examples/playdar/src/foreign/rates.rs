//! How much each source may send: a bucket of tokens for each, in a table that is bounded too.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Instant;

/// Sources that are known at one time. A network that makes up more of them than this is served
/// as fast as the buckets of those before fill up again, and no faster.
const SOURCES_MAX: usize = 1024;

/// What a source may send: `burst` at once, and `per_second` of them from then on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) burst: f64,
    pub(crate) per_second: f64,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

/// The buckets of all sources.
#[derive(Debug)]
pub(crate) struct Rates<K> {
    rate: Rate,
    buckets: HashMap<K, Bucket>,
}

impl<K: Eq + Hash> Rates<K> {
    /// Buckets that are full at first.
    pub(crate) fn new(rate: Rate) -> Rates<K> {
        Rates { rate, buckets: HashMap::new() }
    }

    /// Whether `source` may send one more at `now`; if so that is counted.
    pub(crate) fn allow(&mut self, source: K, now: Instant) -> bool {
        let rate = self.rate;
        if !self.buckets.contains_key(&source) && self.buckets.len() >= SOURCES_MAX {
            // A bucket that is full again says nothing that a new one would not say.
            self.buckets.retain(|_, bucket| bucket.fill(rate, now) < rate.burst);
            if self.buckets.len() >= SOURCES_MAX {
                return false;
            }
        }
        let new = Bucket { tokens: rate.burst, filled: now };
        let bucket = self.buckets.entry(source).or_insert(new);
        if bucket.fill(rate, now) < 1.0 {
            return false;
        }
        bucket.tokens -= 1.0;
        true
    }
}

impl Bucket {
    fn fill(&mut self, rate: Rate, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + seconds * rate.per_second).min(rate.burst);
        self.filled = now;
        self.tokens
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RATE: Rate = Rate { burst: 2.0, per_second: 1.0 };

    #[test]
    fn source_beyond_its_burst_waits_for_its_bucket() {
        let (mut rates, now) = (Rates::new(RATE), Instant::now());
        assert!(rates.allow("a", now) && rates.allow("a", now) && !rates.allow("a", now));
        assert!(rates.allow("b", now), "one source's flood costs another one nothing");
        assert!(rates.allow("a", now + Duration::from_secs(1)));
    }

    #[test]
    fn made_up_sources_take_no_more_memory_than_the_table_has() {
        let (mut rates, now) = (Rates::new(RATE), Instant::now());
        let allowed = (0..5_000).filter(|n| rates.allow(*n, now)).count();
        assert_eq!((allowed, rates.buckets.len()), (SOURCES_MAX, SOURCES_MAX));
        let later = now + Duration::from_secs(3);
        assert!(rates.allow(9_999, later), "full buckets make room");
        assert_eq!(rates.buckets.len(), 1);
    }
}
