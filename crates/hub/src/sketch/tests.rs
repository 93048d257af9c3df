//! Sketches against plain maps, and the figures that the module gives for their error.

use core::net::Ipv4Addr;
use std::collections::HashMap;
use std::thread;

use testing::seed;

use super::*;

fn key(keys: &AddressKeys, number: u32) -> AddressKey {
    keys.key(Ipv4Addr::from_bits(number).into())
}

fn of(keys: &AddressKeys, text: &str) -> AddressKey {
    keys.key(text.parse().unwrap())
}

#[test]
fn address_is_all_of_ipv4_and_the_first_half_of_ipv6() {
    let keys = AddressKeys::random();
    assert_eq!(of(&keys, "192.0.2.1"), of(&keys, "::ffff:192.0.2.1"));
    assert_ne!(of(&keys, "192.0.2.1"), of(&keys, "192.0.2.2"));
    assert_eq!(of(&keys, "2001:db8::1"), of(&keys, "2001:db8::ffff:0:0:2"));
    assert_ne!(of(&keys, "2001:db8::1"), of(&keys, "2001:db8:0:1::1"));
    assert_ne!(of(&keys, "192.0.2.1"), of(&AddressKeys::random(), "192.0.2.1"));
    let successor = AddressKeys::of_parts(keys.parts());
    assert_eq!(of(&keys, "192.0.2.1"), of(&successor, "192.0.2.1"));
}

/// Both by the test's seed.
fn random_and_keys() -> (fastrand::Rng, AddressKeys) {
    let mut random = fastrand::Rng::with_seed(seed());
    let keys = AddressKeys::of_parts([random.u64(..), random.u64(..)]);
    (random, keys)
}

/// Never too low, and nothing is left in the end.
#[test]
fn counts_are_not_below_what_a_plain_map_says() {
    let (mut random, keys) = random_and_keys();
    let (sketch, mut model) = (CountSketch::default(), HashMap::<u32, u32>::new());
    for _ in 0..200_000 {
        let number = random.u32(..2_000);
        let (key, count) = (key(&keys, number), model.entry(number).or_default());
        if random.bool() {
            let (estimate, most) = (sketch.count(key), random.u32(1..40));
            let added = sketch.add(key, most);
            assert_eq!(added, estimate < most);
            assert!(!added || *count < most, "{count} of {number}, at most {most}");
            *count += u32::from(added);
        } else if *count > 0 {
            sketch.remove(key);
            *count -= 1;
        }
        assert!(sketch.count(key) >= *count);
    }
    assert!(!sketch.is_empty());
    for (number, count) in model {
        (0..count).for_each(|_| sketch.remove(key(&keys, number)));
    }
    assert!(sketch.is_empty());
}

/// The module's figure, and the paper's.
#[test]
fn million_connections_add_little_to_anyones_count() {
    let (mut random, keys) = random_and_keys();
    let sketch = CountSketch::default();
    (0..1_000_000).for_each(|number| assert!(sketch.add(key(&keys, number), u32::MAX)));
    let excess = |number| sketch.count(key(&keys, number));
    let most = (1_000_000..1_100_000).map(excess).max().unwrap();
    assert!((12..=28).contains(&most), "{most}");
    // The same as few addresses with many each: nearly everybody has a cell of their own.
    let sketch = CountSketch::default();
    for number in 0..1_000 {
        (0..1_000).for_each(|_| assert!(sketch.add(key(&keys, number), u32::MAX)));
    }
    let others = (0..100_000).map(|_| random.u32(1_000..));
    let wrong = others.filter(|&number| sketch.count(key(&keys, number)) > 41).count();
    assert!(wrong <= 2, "{wrong} of 100,000");
}

#[test]
fn addresses_pay_for_themselves_alone() {
    let keys = AddressKeys::random();
    let (rates, start) = (RateSketch::new(200, 1), 7_000_000_000);
    let (busy, other) = (key(&keys, 1), key(&keys, 2));
    (0..200).for_each(|_| assert!(rates.take(busy, 1, start)));
    assert!(!rates.take(busy, 1, start));
    assert!(rates.take(other, 200, start));
    // One is paid for each 5 ms, and what was refused costs nothing.
    assert!(!rates.take(busy, 1, start + 4_999_999));
    assert!(rates.take(busy, 1, start + 5_000_000));
    assert!(!rates.take(busy, 1, start + 5_000_000));
    assert!(rates.take(busy, 200, start + 2 * NS_PER_SECOND), "all is paid for");
    let large = RateSketch::new(1 << 20, 4);
    assert!(large.take(busy, 4 << 20, start) && !large.take(busy, 1 << 10, start));
    assert!(!large.take(busy, u64::MAX, start + 100 * NS_PER_SECOND));
}

/// Who passes would pass alone: others may only make it stricter. And in a crowd within what one
/// may do, nobody is held up by the others.
#[test]
fn rates_are_not_below_what_a_plain_map_says() {
    let (mut random, keys) = random_and_keys();
    let (rates, mut model) = (RateSketch::new(100, 1), HashMap::<u32, u64>::new());
    let mut now_ns = 1;
    for _ in 0..300_000 {
        now_ns += random.u64(..200_000);
        let (number, units) = (random.u32(..300), random.u64(1..10));
        let paid_ns = model.entry(number).or_default();
        if rates.take(key(&keys, number), units, now_ns) {
            *paid_ns = (*paid_ns).max(now_ns) + units * NS_PER_SECOND / 100;
            assert!(*paid_ns - now_ns <= NS_PER_SECOND);
        }
    }
    // 10,000 addresses of ten a second each, of which one may have 100.
    let rates = RateSketch::new(100, 1);
    for second in 0..3 {
        for number in 0..100_000 {
            let now_ns = second * NS_PER_SECOND + number * NS_PER_SECOND / 100_000;
            assert!(rates.take(key(&keys, number as u32 % 10_000), 1, now_ns), "{number}");
        }
    }
}

#[test]
fn threads_hold_a_bound_to_within_one_each_and_leave_nothing() {
    const THREADS: u32 = 8;
    let (keys, sketch) = (AddressKeys::random(), CountSketch::default());
    let key = key(&keys, 1);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    if sketch.add(key, 3) {
                        assert!(sketch.count(key) <= 3 + THREADS);
                        sketch.remove(key);
                    }
                }
            });
        }
    });
    assert!(sketch.is_empty());
}
