//! Families of metrics, as Prometheus' text format has them.

use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};

pub(super) fn gauge(name: &str, help: &str, value: f64) -> MetricFamily {
    family(name, help, MetricType::GAUGE, vec![gauge_of(value)])
}

pub(super) fn counter(name: &str, help: &str, value: f64) -> MetricFamily {
    family(name, help, MetricType::COUNTER, vec![counter_of(value)])
}

pub(super) fn family(
    name: &str,
    help: &str,
    kind: MetricType,
    metrics: Vec<Metric>,
) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

pub(super) fn metric(labels: &[(&str, &str)], mut metric: Metric) -> Metric {
    let label = |(name, value): &(&str, &str)| {
        let mut label = LabelPair::default();
        label.set_name((*name).to_owned());
        label.set_value((*value).to_owned());
        label
    };
    metric.set_label(labels.iter().map(label).collect());
    metric
}

pub(super) fn gauge_of(value: f64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    Metric::from_gauge(gauge)
}

pub(super) fn counter_of(value: f64) -> Metric {
    let mut counter = Counter::default();
    counter.set_value(value);
    let mut metric = Metric::default();
    metric.set_counter(counter);
    metric
}

/// `buckets` are upper bounds, and how many values are not above them.
pub(super) fn histogram_of(
    buckets: impl IntoIterator<Item = (f64, u64)>,
    count: u64,
    sum: f64,
) -> Metric {
    let bucket = |(bound, below)| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(bound);
        bucket.set_cumulative_count(below);
        bucket
    };
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets.into_iter().map(bucket).collect());
    histogram.set_sample_count(count);
    histogram.set_sample_sum(sum);
    let mut metric = Metric::default();
    metric.set_histogram(histogram);
    metric
}
