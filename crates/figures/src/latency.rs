//! Latencies: an HDR histogram from a microsecond to an hour, three digits exact, and the five
//! figures that reports show of it. 90 KB each, a few nanoseconds a value.

use std::fmt::{self, Display};

use hdrhistogram::Histogram;
use serde::Serialize;

const LOWEST_NS: u64 = 1_000;
const HIGHEST_NS: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;

/// A collection of latencies.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u32>,
}

impl Default for Latencies {
    fn default() -> Latencies {
        let histogram = Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, DIGITS);
        Latencies { histogram: histogram.expect("the bounds are constants that fit") }
    }
}

impl Latencies {
    /// Adds one latency. Below a microsecond counts as one, over an hour as an hour.
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram).expect("all histograms have the same bounds");
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.histogram.reset();
    }

    /// The figures for a report.
    pub fn quantiles(&self) -> Quantiles {
        let ms = |ns: u64| (ns / 1_000) as f64 / 1_000.0;
        let at = |quantile| ms(self.histogram.value_at_quantile(quantile));
        Quantiles {
            count: self.histogram.len(),
            p50_ms: at(0.50),
            p90_ms: at(0.90),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: ms(self.histogram.max()),
        }
    }
}

/// What a report shows of many latencies, in milliseconds. All zero when there were none.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Quantiles {
    /// How many latencies there were.
    pub count: u64,
    /// Half were at most this.
    pub p50_ms: f64,
    /// Nine in ten.
    pub p90_ms: f64,
    /// 99 in 100.
    pub p99_ms: f64,
    /// 999 in 1,000.
    pub p999_ms: f64,
    /// All.
    pub max_ms: f64,
}

impl Display for Quantiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quantiles { p50_ms, p90_ms, p99_ms, p999_ms, max_ms, .. } = self;
        write!(
            f,
            "p50 {p50_ms:.2}  p90 {p90_ms:.2}  p99 {p99_ms:.2}  p99.9 {p999_ms:.2}  \
             max {max_ms:.2} ms"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_what_was_recorded() {
        let (mut latencies, mut more) = (Latencies::default(), Latencies::default());
        assert_eq!(latencies.quantiles(), Quantiles::default());
        (1..=500).for_each(|ms| latencies.record(ms * 1_000_000));
        (501..=1_000).for_each(|ms| more.record(ms * 1_000_000));
        latencies.add(&more);
        let quantiles = latencies.quantiles();
        assert_eq!(quantiles.count, 1_000);
        for (found, expected) in [
            (quantiles.p50_ms, 500.0),
            (quantiles.p90_ms, 900.0),
            (quantiles.p99_ms, 990.0),
            (quantiles.p999_ms, 999.0),
            (quantiles.max_ms, 1_000.0),
        ] {
            assert!((found / expected - 1.0).abs() < 0.002, "{found} for {expected}");
        }
    }

    #[test]
    fn any_latency_can_be_recorded() {
        let mut latencies = Latencies::default();
        latencies.record(0);
        latencies.record(u64::MAX);
        assert_eq!(latencies.quantiles().count, 2);
        latencies.clear();
        assert_eq!(latencies.quantiles().count, 0);
    }
}
