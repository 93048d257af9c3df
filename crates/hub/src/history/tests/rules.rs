//! Subjects of which more or less is remembered than of others.

use super::*;
use crate::page::PageOf;

fn with_rules(limits: HistoryLimits, rules: &[(&str, usize, u64)]) -> History<()> {
    let rule = |&(pattern, events_max, age_ms_max): &(&str, usize, u64)| {
        HistoryRule::new(pattern, events_max, age_ms_max).unwrap()
    };
    let rules = HistoryRules::new(rules.iter().map(rule).collect()).unwrap();
    History::with_rules(Arc::new(Names::new([5; 16])), limits, rules)
}

/// This memory where what begins as one of these does is kept on disk, so much of it.
fn with_kept(history: History<()>, kept: &[(&'static str, usize, u64)]) -> History<()> {
    with_kept_bytes(history, kept, u64::MAX)
}

/// As [`with_kept`], and of each subject of the first rule so many bytes.
fn with_kept_bytes(
    history: History<()>,
    kept: &[(&'static str, usize, u64)],
    bytes_max: u64,
) -> History<()> {
    let bytes_max = |place: usize| if place == 0 { bytes_max } else { u64::MAX };
    let bounds = kept.iter().enumerate().map(|(place, &(begins, events_max, age_ms_max))| {
        let (pattern, bytes_max) = (format!("{begins}*"), bytes_max(place));
        KeptBounds { pattern, events_max, bytes_max, age_ms_max }
    });
    let begins: Vec<&'static str> = kept.iter().map(|&(begins, ..)| begins).collect();
    let rule_of = move |id: &str| begins.iter().position(|&begins| id.starts_with(begins));
    history.with_kept(bounds.collect(), rule_of)
}

/// Hands all on, at rest.
fn hand_on(old: &History<()>, successor: &History<()>, now_ms: u64) {
    let mut after = 0;
    while let Some(last) = old.dump(after, 500, now_ms).last() {
        for remembered in old.dump(after, 500, now_ms) {
            assert!(successor.take_over(remembered, now_ms));
        }
        after = last.number;
    }
    successor.take_over_evicted(old.evicted_range(), now_ms);
}

#[test]
fn first_rule_that_fits_says_how_many_events_and_for_how_long() {
    let rules = [("room:vip", 1, 900), ("room:*", 4, 5_000), ("room:7", 9, 1)];
    let history = with_rules(limits(2, 1_000, usize::MAX), &rules);
    for number in 0..20 {
        let subject = ["room:vip", "room:7", "bob", "8"][number as usize % 4];
        record(&history, subject, number + 1, number * 10);
    }
    let of = |subject| since(&history, &[subject], 0).0;
    assert_eq!((of("room:vip"), of("room:7")), (vec![17], vec![6, 10, 14, 18]));
    assert_eq!((of("bob"), of("8")), (vec![15, 19], vec![16, 20]));
    while history.expire(1_061) {}
    assert_eq!((of("room:vip"), of("room:7").len()), (vec![], 4), "900 ms after 160");
    assert_eq!((of("bob"), of("8")), (vec![15, 19], vec![16, 20]));
    while history.expire(1_145) {}
    assert_eq!((of("bob"), of("8")), (vec![19], vec![16, 20]), "1,000 ms after 140");
    while history.expire(1_200) {}
    assert_eq!((of("bob"), of("8"), of("room:7").len()), (vec![], vec![], 4));
    assert_eq!(since(&history, &["room:7"], 2), (vec![6, 10, 14, 18], true));
    assert!(!since(&history, &["bob"], 18).1 && since(&history, &["bob"], 19).1);
    while history.expire(5_200) {}
    assert_eq!(history.stats(), HistoryStats::default());
    assert!(history.names.is_empty());
}

#[test]
fn of_what_is_kept_on_disk_the_lesser_of_both_rules_is_remembered() {
    let limits = limits(6, 1_000, usize::MAX);
    let longer = with_kept(history(limits), &[("a", 6, 1_000), ("", usize::MAX, 9_000)]);
    assert!(longer.rules.is_one(), "nothing is kept for less than it is remembered");
    let history = with_rules(limits, &[("room:*", 4, 5_000), ("few:*", 9, 100)]);
    let kept =
        [("room:vip", usize::MAX, 50), ("room:", 3, 9_000), ("few:", 2, 9_000), ("b", 1, 9_000)];
    let history = with_kept(history, &kept);
    for number in 1..=50 {
        let subject = ["room:vip", "room:7", "few:1", "bob", "8"][number as usize % 5];
        record(&history, subject, number, 0);
    }
    let of = |subject| since(&history, &[subject], 0).0;
    assert_eq!((of("room:vip"), of("room:7")), (vec![35, 40, 45, 50], vec![36, 41, 46]));
    assert_eq!((of("few:1"), of("bob")), (vec![42, 47], vec![48]));
    assert_eq!(of("8"), [24, 29, 34, 39, 44, 49]);
    assert!(!since(&history, &["bob"], 42).1 && since(&history, &["bob"], 43).1);
    let left = ["room:vip", "few:1", "bob", "8", "room:7"];
    for (now_ms, gone) in [(50, 0), (51, 1), (100, 1), (101, 2), (1_001, 4), (5_001, 5)] {
        while history.expire(now_ms) {}
        let (over, there) = left.split_at(gone);
        assert!(over.iter().all(|&subject| of(subject).is_empty()), "{over:?} at {now_ms}");
        assert!(there.iter().all(|&subject| !of(subject).is_empty()), "{there:?} at {now_ms}");
    }
    assert!(!since(&history, &["room:vip"], 49).1 && since(&history, &["room:vip"], 50).1);
    assert_eq!(history.stats(), HistoryStats::default());
}

/// The process before was of a version, or had settings, by which memory went by its own rules.
#[test]
fn successor_that_begins_to_heed_what_is_kept_tells_no_gap_but_where_it_keeps_less() {
    let rules = [("log:*", 9, 5_000)];
    let old = with_rules(limits(9, 1_000, usize::MAX), &rules);
    let successor = with_kept(
        with_rules(limits(9, 1_000, usize::MAX), &rules),
        &[("few:", 1, 9_000), ("room:", 9, 9_000)],
    );
    // More than can be listed, and forgotten: others may be among them, but for those of the rule.
    let many = 120_000;
    (1..=many).for_each(|number| record(&old, &format!("u{number}"), number, 0));
    for number in many + 1..=many + 36 {
        let subject = ["log:1", "room:1", "few:1", "8"][number as usize % 4];
        record(&old, subject, number, 1_000 + number - many);
    }
    while old.expire(1_900) {}
    hand_on(&old, &successor, 1_900);
    assert_eq!(since(&old, &["log:1"], 0).0.len(), 9);
    assert!(since(&old, &["log:1"], 0).1 && !since(&old, &["8"], 0).1);
    for subject in ["log:1", "room:1", "8"] {
        for after in (0..=36).map(|n| many + n).chain([0]) {
            let both = [&old, &successor].map(|history| since(history, &[subject], after));
            assert_eq!(both[0], both[1], "{subject} after {after}");
        }
    }
    assert_eq!(since(&successor, &["few:1"], many).0, [many + 34]);
    assert!(!since(&successor, &["few:1"], many + 29).1);
    assert!(since(&successor, &["few:1"], many + 30).1);
}

#[test]
fn event_about_subjects_of_several_rules_is_kept_as_long_as_any_of_them_keeps_it() {
    let history = with_rules(limits(9, 100, usize::MAX), &[("a", 9, 1_000), ("b", 9, 10)]);
    record_all(&history, &["b", "7", "a"], 1, 0);
    for (now_ms, kept) in [(11, &["7", "a"][..]), (101, &["a"]), (1_001, &[])] {
        while history.expire(now_ms) {}
        for subject in ["a", "b", "7"] {
            let expected = if kept.contains(&subject) { (vec![1], true) } else { (vec![], false) };
            assert_eq!(since(&history, &[subject], 0), expected, "{subject} at {now_ms}");
        }
        assert_eq!(history.stats().events, usize::from(!kept.is_empty()));
    }
    assert_eq!(history.stats(), HistoryStats::default());
}

#[test]
fn what_is_full_forgets_the_oldest_event_of_whatever_rule() {
    let history = with_rules(limits(100, 100, 3_000), &[("a", 100, 1_000_000)]);
    for number in 1..100 {
        record(&history, if number % 2 == 0 { "a" } else { "7" }, number, number);
    }
    let stats = history.stats();
    assert!(stats.bytes <= 3_000 && stats.events > 3, "{stats:?}");
    let left = since(&history, &["a", "7"], 0).0;
    assert_eq!(left, Vec::from_iter(100 - stats.events as u64..100));
}

/// Random events under rules and all bounds: what is answered is exact, or says that it is not.
#[test]
fn answers_under_rules_are_exact_or_say_that_they_are_not() {
    by_seed("answers_under_rules", |seed| {
        let mut run = Run::new(seed);
        let rules = [
            ("s1*", 1 + run.below(30) as usize, 1 + run.below(1_000)),
            ("4", 1 + run.below(9) as usize, 1 + run.below(50)),
        ];
        let history = with_rules(run.bounds, &rules);
        (0..1_000).for_each(|_| run.step(&history));
        while history.expire(u64::MAX >> 8) {}
        assert!(history.names.is_empty() && history.stats() == HistoryStats::default());
    });
}

/// An event whose line has so many bytes.
fn event_of_bytes(subjects: &[&str], number: u64, bytes: usize) -> Arc<Event<()>> {
    let empty = event(subjects, number).json().len() + 1;
    let data = format!("\"{}\"", "x".repeat(bytes - empty));
    let (about, also, payload) = (subjects[0], &subjects[1..], Payload::Json(&data));
    let parts = EventParts { about, also, name: None, from: None, payload };
    let event = Draft::of(parts).unwrap().numbered(EventId::new(number, Tag::of(0)));
    assert_eq!(event.json().len(), bytes);
    Arc::new(event)
}

fn record_bytes(history: &History<()>, subjects: &[&str], number: u64, bytes: usize) {
    let ids: Vec<IdText<'_>> = subjects.iter().map(|subject| about(subject)).collect();
    history.record(history.begin(&ids), event_of_bytes(subjects, number, bytes), 0);
}

#[test]
fn bytes_of_a_rule_that_keeps_bound_what_is_remembered_of_each_of_its_subjects() {
    let history = history(limits(9, 1_000, usize::MAX));
    let history = with_kept_bytes(history, &[("a", usize::MAX, 1_000_000)], 300);
    for number in 1..=4 {
        record_bytes(&history, &["a1", "b"], number, 100);
        record_bytes(&history, &["a2"], 10 * number, 101);
    }
    assert_eq!(since(&history, &["a1"], 1), (vec![2, 3, 4], true));
    assert_eq!(since(&history, &["a1"], 0), (vec![2, 3, 4], false));
    assert_eq!(since(&history, &["b"], 0), (vec![1, 2, 3, 4], true), "no rule keeps it");
    assert_eq!(since(&history, &["a2"], 20), (vec![30, 40], true));
    assert_eq!(since(&history, &["a2"], 19), (vec![30, 40], false));
    record_bytes(&history, &["a1"], 50, 250);
    assert_eq!(since(&history, &["a1"], 4), (vec![50], true));
    record_bytes(&history, &["a1"], 51, 301);
    assert_eq!(since(&history, &["a1"], 0), (vec![], false), "one that is over by itself");
    assert_eq!(since(&history, &["a1"], 51), (vec![], true));
    let of = PageOf { after: 0, before: 99, newest_first: true, events_max: 9, bytes_max: 999 };
    let a1 = history.names.lookup(about("a1")).unwrap();
    let page = history.page(a1, of);
    assert!(page.events.is_empty() && !page.covered && !page.has_more);
    assert_eq!(history.before_last(a1, 0, 99), None);
    assert_eq!(since(&history, &["a2"], 19), (vec![30, 40], false), "others go on");
    record_bytes(&history, &["a1"], 52, 300);
    assert_eq!(since(&history, &["a1"], 51), (vec![52], true));
    while history.expire(10_000) {}
    assert_eq!(history.stats(), HistoryStats::default());
    assert!(history.names.is_empty());
}

/// Of each subject the last events are remembered that its rule's bytes have room for, whatever
/// else bounds them, and so it is by a successor.
#[test]
fn bytes_of_a_subject_are_those_of_its_events_whatever_comes_and_goes() {
    by_seed("bytes_of_a_subject", |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let (events_max, bytes_max) = (random.usize(1..12), random.u64(100..1_500));
        let kept = [("s", random.usize(1..12), 1_000), ("t", 3, 1_000)];
        let made =
            || with_kept_bytes(history(limits(events_max, 1_000, 1 << 20)), &kept, bytes_max);
        let (one, successor) = (made(), made());
        let subjects = ["s1", "s2", "s3", "t1", "9"];
        let mut sent: Vec<(Vec<&str>, u64, usize)> = Vec::new();
        for number in 1..=random.u64(1..300) {
            let mut about = subjects.to_vec();
            about.retain(|_| random.u8(..3) == 0);
            if about.is_empty() {
                about.push("s1");
            }
            let bytes = random.usize(90..400);
            record_bytes(&one, &about, number, bytes);
            sent.push((about, number, bytes));
        }
        hand_on(&one, &successor, 0);
        for subject in subjects {
            let of = sent.iter().rev().filter(|(about, ..)| about.contains(&subject));
            let (events_max, bytes_max) = match &subject[..1] {
                "s" => (events_max.min(kept[0].1), bytes_max as usize),
                "t" => (events_max.min(3), usize::MAX),
                _ => (events_max, usize::MAX),
            };
            let mut left = bytes_max;
            let fits = of.take(events_max).take_while(|(.., bytes)| {
                let fits = *bytes <= left;
                left = left.saturating_sub(*bytes);
                fits
            });
            let mut last: Vec<u64> = fits.map(|(_, number, _)| *number).collect();
            last.reverse();
            assert_eq!(since(&one, &[subject], 0).0, last, "{subject}");
            assert_eq!(since(&successor, &[subject], 0).0, last, "{subject} of the successor");
        }
        for history in [&one, &successor] {
            while history.expire(u64::MAX >> 8) {}
            assert!(history.names.is_empty() && history.stats() == HistoryStats::default());
            assert_eq!(history.lock().kept.subjects_counted(), 0);
        }
    });
}

/// One with the same rules answers the same; one with others never says that all is there when
/// something is missing.
#[test]
fn successor_has_its_own_rules_and_tells_what_is_missing() {
    by_seed("successor_has_its_own_rules", |seed| {
        let mut run = Run::new(seed);
        let events_max = 1 + run.below(20) as usize;
        let rules = [("s1*", events_max, 1 + run.below(1_000)), ("s*", 3, 50)];
        let others = [("s*", 1 + run.below(9) as usize, 1 + run.below(2_000))];
        let kept = [("s2", 1 + run.below(9) as usize, 300), ("", usize::MAX, 1 + run.below(500))];
        let is_kept = run.random.bool();
        let made = |rules| match is_kept {
            true => with_kept(with_rules(run.bounds, rules), &kept),
            false => with_rules(run.bounds, rules),
        };
        let (old, same) = (made(&rules[..]), made(&rules[..]));
        let other = match is_kept {
            true => with_rules(run.bounds, &rules),
            false => with_kept(with_rules(run.bounds, &others), &kept[..1]),
        };
        let none = history(run.bounds);
        (0..run.below(600)).for_each(|_| run.step(&old));
        while old.expire(run.now_ms) {}
        for successor in [&same, &other, &none] {
            hand_on(&old, successor, run.now_ms);
        }
        assert_eq!(same.evicted_range(), old.evicted_range());
        for _ in 0..20 {
            let subject = run.random.usize(..run.subjects.len());
            let (text, after) = (run.subjects[subject].clone(), run.below(run.number));
            let sent = run
                .sent
                .iter()
                .filter(|(subjects, number)| subjects.contains(&subject) && *number > after);
            let all: Vec<u64> = sent.map(|(_, number)| *number).collect();
            assert_eq!(since(&same, &[&text], after), since(&old, &[&text], after));
            for successor in [&other, &none] {
                let (found, covered) = since(successor, &[&text], after);
                assert!(found == all || !covered, "{found:?} of {all:?} about {text}");
            }
        }
        (0..300).for_each(|_| run.step(&other));
        while other.expire(u64::MAX >> 8) {}
        assert!(other.names.is_empty() && other.stats() == HistoryStats::default());
    });
}

#[test]
fn rules_that_are_none_are_refused() {
    for (pattern, events_max, age_ms_max, bad) in [
        ("", 1, 1, BadRule::Pattern),
        ("a b*", 1, 1, BadRule::Pattern),
        ("a", 0, 1, BadRule::Bounds),
        ("a", 1, 0, BadRule::Bounds),
        ("a", 1_000_001, 1, BadRule::Bounds),
    ] {
        assert_eq!(HistoryRule::new(pattern, events_max, age_ms_max), Err(bad), "{pattern:?}");
    }
    let rule = HistoryRule::new("*", 1, 1).unwrap();
    assert_eq!(HistoryRules::new(vec![rule.clone(); 33]), Err(BadRule::Many));
    assert_eq!(HistoryRules::new(vec![rule; 32]).unwrap().iter().count(), 32);
}
