//! When events are due.

use super::*;
use std::time::Duration;

fn schedule(zipf: Option<f64>) -> Schedule {
    let config = SpamConfig {
        users: 100,
        senders: 10,
        rate: 1_000.0,
        duration: Some(Duration::from_secs(5)),
        zipf,
        ..SpamConfig::default()
    };
    Schedule::new(&config)
}

#[test]
fn events_are_evenly_spaced_and_as_many_as_rate_and_time_say() {
    let schedule = schedule(None);
    assert_eq!(schedule.event(0).unwrap().at_ns, 0);
    assert_eq!(schedule.event(1_500).unwrap().at_ns, 1_500_000_000);
    assert!(schedule.event(4_999).is_some());
    assert_eq!(schedule.event(5_000), None);
}

#[test]
fn shares_are_the_whole_schedule_whatever_their_number() {
    for zipf in [None, Some(1.0)] {
        let schedule = schedule(zipf);
        let whole: Vec<_> = (0..5_000).map(|k| schedule.event(k).unwrap()).collect();
        for connections in [1, 2, 3] {
            let shares = (0..connections).map(|i| Share::new(schedule.clone(), i, connections));
            let mut all: Vec<_> = shares.flatten().collect();
            all.sort_by_key(|planned| planned.at_ns);
            assert_eq!(all, whole, "{connections} connections");
        }
    }
}

#[test]
fn each_subject_has_a_place_of_its_own_on_its_connection() {
    let share = Share::new(schedule(None), 1, 3);
    let own = (0..100).filter(|subject| subject % 3 == 1);
    let places: std::collections::BTreeSet<_> = own.clone().map(|s| share.place(s)).collect();
    assert_eq!(places.len(), own.count());
    assert!(places.into_iter().all(|place| place < share.subjects()));
}
