//! A memory that is handed on, against the one that stays.

use super::*;
use crate::connection_id::LeftOut;
use crate::event::LineForm;

/// A memory of the process that goes on, in which names have other ids.
fn successor(limits: HistoryLimits) -> History<()> {
    let names = Names::new([5; 16]);
    for n in 0..10 {
        names.acquire(about(&format!("successors-{n}")));
    }
    History::new(Arc::new(names), limits)
}

/// Hands on what there is above `after`, in slices, and returns the number to go on from.
fn hand_on(old: &History<()>, successor: &History<()>, mut after: u64, now_ms: u64) -> u64 {
    loop {
        let slice = old.dump(after, 500, now_ms);
        let Some(last) = slice.last() else { return after };
        assert!(slice.iter().map(|event| event.number).is_sorted());
        after = last.number;
        for remembered in slice {
            assert!(successor.take_over(remembered.clone(), now_ms), "{remembered:?}");
            assert!(!successor.take_over(remembered, now_ms), "it came twice");
        }
    }
}

/// Nothing happens between the first slice and the last.
#[test]
fn successor_of_a_memory_at_rest_answers_the_same_now_and_later() {
    by_seed("successor_of_a_memory_at_rest", |seed| {
        let mut run = Run::new(seed);
        let (old, successor) = (history(run.bounds), successor(run.bounds));
        (0..run.below(600)).for_each(|_| run.step(&old));
        while old.expire(run.now_ms) {}
        hand_on(&old, &successor, 0, run.now_ms);
        successor.take_over_evicted(old.evicted_range(), run.now_ms);
        assert_eq!(successor.evicted_range(), old.evicted_range());
        for _ in 0..20 {
            for _ in 0..20 {
                let answers = run.ask(&[&old, &successor]);
                assert_eq!(answers[0], answers[1]);
            }
            let (ours, theirs) = (old.stats(), successor.stats());
            assert_eq!((ours.events, ours.subjects), (theirs.events, theirs.subjects));
            assert!(theirs.bytes <= ours.bytes);
            run.now_ms += run.bounds.age_ms_max / 10;
            while old.expire(run.now_ms) | successor.expire(run.now_ms) {}
        }
    });
}

/// Events come and go all the time, and a subject of which a slice told may be forgotten before the
/// next one. The successor may know more than the one that stays, and goes on where that one stood.
#[test]
fn successor_of_a_busy_memory_is_exact_and_knows_no_less() {
    by_seed("successor_of_a_busy_memory", |seed| {
        let mut run = Run::new(seed);
        let (old, successor) = (history(run.bounds), successor(run.bounds));
        (0..run.below(400)).for_each(|_| run.step(&old));
        let mut after = 0;
        for _ in 0..run.below(100) {
            for remembered in old.dump(after, run.random.usize(..2_000), run.now_ms) {
                after = remembered.number;
                assert!(successor.take_over(remembered, run.now_ms));
            }
            (0..run.below(8)).for_each(|_| run.step(&old));
            if run.below(20) == 0 {
                // Others sleep meanwhile.
                run.now_ms += run.below(300);
            }
        }
        hand_on(&old, &successor, after, run.now_ms);
        if run.random.bool() {
            run.now_ms += run.below(300);
            old.expire(run.now_ms);
        }
        successor.take_over_evicted(old.evicted_range(), run.now_ms);
        while old.expire(run.now_ms) {}
        for _ in 0..100 {
            let answers = run.ask(&[&old, &successor]);
            assert!(answers[1].1 || !answers[0].1, "one who missed nothing is told of a gap");
            assert!(answers[0].0.iter().all(|number| answers[1].0.contains(number)));
        }
        (0..400).for_each(|_| run.step(&successor));
        while successor.expire(u64::MAX) {}
        assert_eq!((successor.names.len(), successor.stats()), (10, HistoryStats::default()));
    });
}

#[test]
fn event_is_inherited_byte_for_byte_with_its_age() {
    let limits = HistoryLimits { age_ms_max: 1_000, ..HistoryLimits::default() };
    let (old, successor) = (history(limits), successor(limits));
    let event =
        Draft::new("a\"b\"", "{\"x\":1}").unwrap().numbered(EventId::new(9, Tag::of(u64::MAX)));
    let line = event.json().to_owned();
    old.record(old.begin(&[about("a\"b\"")]), Arc::new(event), 5_000);
    let slice = old.dump(0, 1, 5_300);
    assert_eq!(
        slice,
        [Remembered {
            number: 9,
            line: line.clone(),
            subject: None,
            form: LineForm::Plain,
            except: LeftOut::NOBODY,
            age_ms: 300,
            lost: 0
        }]
    );
    assert!(successor.take_over(slice.into_iter().next().unwrap(), 70_000));
    let subject = successor.names.lookup(about("a\"b\"")).unwrap();
    let mut events = Vec::new();
    successor.since(&[subject], 0, successor.now(), Slice::ALL, &mut events);
    assert_eq!(events.iter().map(|event| event.json()).collect::<Vec<_>>(), [line]);
    successor.expire(70_700);
    assert_eq!(successor.stats().events, 1);
    successor.expire(70_701);
    assert_eq!((successor.stats().events, successor.names.len()), (0, 10));
}

#[test]
fn floor_is_inherited_and_nothing_below_it_is_handed_on() {
    let (old, successor) = (history(HistoryLimits::default()), successor(HistoryLimits::default()));
    record(&old, "7", 10, 0);
    old.forget_up_to(20);
    record(&old, "7", 21, 0);
    hand_on(&old, &successor, 0, 0);
    successor.take_over_evicted(old.evicted_range(), 0);
    assert_eq!(successor.stats().events, 1);
    assert_eq!(since(&successor, &["7"], 20), (vec![21], true));
    assert_eq!(since(&successor, &["8"], 19), (vec![], false));
}

#[test]
fn what_is_no_event_is_not_inherited() {
    let (old, successor) = (history(HistoryLimits::default()), successor(HistoryLimits::default()));
    record(&old, "bob", 10, 0);
    let good = old.dump(0, 1, 0).remove(0);
    let line = good.line.clone();
    for bad in [
        Remembered { number: 11, ..good.clone() },
        Remembered { lost: 10, ..good.clone() },
        Remembered { line: line.replace("about", "data"), ..good.clone() },
        Remembered { line: line.replace("bob", ""), ..good.clone() },
        Remembered { line: String::new(), ..good.clone() },
    ] {
        assert!(!successor.take_over(bad.clone(), 0), "{bad:?}");
    }
    assert_eq!((successor.stats(), successor.names.len()), (HistoryStats::default(), 10));
    assert!(successor.take_over(good, 0));
}

#[test]
fn event_about_several_is_handed_on_for_each_that_has_not_lost_it() {
    let limits = HistoryLimits { events_max: 2, ..HistoryLimits::default() };
    let (old, successor) = (history(limits), successor(limits));
    let send = |number, ids: &[&str]| record_all(&old, ids, number, number);
    send(1, &["a", "7", "b"]);
    send(2, &["7", "b"]);
    // The first one has been forgotten of `b` and of `7`.
    send(3, &["b", "7"]);
    send(4, &["c"]);
    hand_on(&old, &successor, 0, 0);
    successor.take_over_evicted(old.evicted_range(), 0);
    assert_eq!(successor.stats().events, old.stats().events);
    for id in ["a", "b", "7", "c"] {
        assert_eq!(since(&successor, &[id], 0), since(&old, &[id], 0), "{id}");
    }
    assert_eq!(since(&successor, &["7"], 1), (vec![2, 3], true));
}

/// The bound on bytes is met where one event about several ends: what one of its subjects has lost,
/// none has kept.
#[test]
fn successor_of_a_memory_at_its_bound_tells_a_gap_of_each_subject() {
    for bytes_max in (2_000..4_000).step_by(50) {
        let limits = HistoryLimits { bytes_max, ..HistoryLimits::default() };
        let (old, successor) = (history(limits), successor(limits));
        for number in 1..12 {
            let ids = [format!("a{number}"), format!("b{number}"), format!("{number}")];
            record_all(&old, &ids.each_ref().map(|id| &**id), number, 0);
        }
        hand_on(&old, &successor, 0, 0);
        successor.take_over_evicted(old.evicted_range(), 0);
        for number in 1..12 {
            for id in [format!("a{number}"), format!("b{number}"), format!("{number}")] {
                let (heard, covered) = since(&successor, &[&id], 0);
                assert_eq!(covered, heard == [number], "{id} of {bytes_max} bytes");
                assert_eq!(since(&old, &[&id], 0), (heard, covered), "{id}");
            }
        }
    }
}
