//! Durations in their buckets.

use super::*;

fn recorded(durations: &[Duration]) -> SendDurations {
    let all = SendDurations::default();
    let start = Instant::now();
    durations.iter().for_each(|&duration| all.record(start, start + duration));
    all
}

#[test]
fn bounds_ascend_in_even_steps_from_10_us_to_10_s() {
    assert_eq!((BOUNDS_NS[0], BOUNDS_NS[BOUNDS - 1]), (10_000, 10_000_000_000));
    for pair in BOUNDS_NS.windows(2) {
        let step = pair[1] as f64 / pair[0] as f64;
        assert!((1.11..1.15).contains(&step), "{pair:?}");
    }
}

#[test]
fn durations_fall_between_the_bounds_of_their_bucket() {
    let durations = [1, 10_000, 10_001, 999_999, 1_000_000, 10_000_000_000, 60_000_000_000];
    for ns in durations {
        let reading = recorded(&[Duration::from_nanos(ns)]).reading();
        let [bucket] = &reading.buckets[..] else { panic!("{reading:?}") };
        let took = ns as f64 / 1e9;
        assert!(bucket.over_seconds < took, "{ns} ns in {bucket:?}");
        assert!(bucket.up_to_seconds.is_none_or(|bound| took <= bound), "{ns} ns: {bucket:?}");
        assert_eq!((reading.count, bucket.count), (1, 1));
        assert!((reading.sum_seconds / took - 1.0).abs() < 1e-6);
    }
}

#[test]
fn scraped_buckets_hold_all_up_to_their_bound() {
    let ms = [1, 2, 3, 4, 100, 20_000].map(Duration::from_millis);
    let (buckets, count) = recorded(&ms).cumulative();
    let bounds: Vec<f64> = buckets.iter().map(|&(bound, _)| bound).collect();
    assert_eq!(bounds[..4], [1e-5, 2.5e-5, 5e-5, 1e-4]);
    assert_eq!((bounds.len(), bounds.last()), (19, Some(&10.0)));
    for (bound, expected) in [(1e-3, 1), (2.5e-3, 2), (5e-3, 4), (0.1, 5), (10.0, 5)] {
        assert!(buckets.contains(&(bound, expected)), "{bound} in {buckets:?}");
    }
    assert_eq!(count, 6);
}

#[test]
fn durations_go_on_in_another_process() {
    let (before, after) = (SendDurations::default(), SendDurations::default());
    let start = Instant::now();
    for ns in [1, 10_000, 123_456, 10_000_000_000, 99_000_000_000] {
        before.record(start, start + Duration::from_nanos(ns));
    }
    after.record(start, start + Duration::from_nanos(123_456));
    after.take_over(&before.write());
    before.record(start, start + Duration::from_nanos(123_456));
    assert_eq!(after.counts(), before.counts());
    assert_eq!(after.sum_seconds(), before.sum_seconds());
}
