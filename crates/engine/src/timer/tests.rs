//! The wheel of time-outs, beside a naive one.

use super::*;
use std::collections::BTreeMap;

/// Random starts, stops and waits against an ordered map from owner to time.
#[test]
fn wheel_fires_what_a_sorted_list_fires() {
    let mut random = crate::sim::Random::of_test();
    let (mut wheel, mut model) = (Wheel::new(), BTreeMap::new());
    let mut now = 0;
    for _ in 0..20_000 {
        let owner = 20 * random.below(100) as u32;
        match random.below(4) {
            0 | 1 => {
                let at = now + 1 + random.below(900) as u32;
                wheel.start(owner, at);
                model.insert(owner, at);
            }
            2 => {
                wheel.stop(owner);
                model.remove(&owner);
            }
            _ => {
                assert_eq!(wheel.next(), model.values().min().copied());
                now += random.below(40) as u32;
                let mut fired = Vec::new();
                while let Some(owner) = wheel.fire(now) {
                    fired.push(owner);
                }
                let mut due: Vec<u32> =
                    model.extract_if(.., |_, at| *at <= now).map(|(owner, _)| owner).collect();
                fired.sort_unstable();
                due.sort_unstable();
                assert_eq!(fired, due, "at tick {now}");
            }
        }
    }
}

#[test]
fn far_timer_is_cut_to_the_wheel_and_a_late_clock_fires_all() {
    let mut wheel = Wheel::new();
    wheel.start(7, 1_000_000);
    assert_eq!(wheel.fire(SLOTS - 2), None);
    assert_eq!(wheel.fire(SLOTS - 1), Some(7));
    wheel.start(7, SLOTS + 5);
    assert_eq!(wheel.fire(50 * SLOTS), Some(7));
    assert_eq!(wheel.next(), None);
}
