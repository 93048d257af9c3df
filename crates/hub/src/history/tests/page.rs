//! Pages of one subject, against the plain list.

use super::*;
use crate::page::PageOf;
use crate::testing::MemoryArchive;

/// All pages of what is asked for, and of each whether it is covered.
fn pages(history: &History<()>, subject: Id, mut of: PageOf) -> (Vec<u64>, Vec<bool>) {
    let (mut numbers, mut covered) = (Vec::new(), Vec::new());
    loop {
        let page = history.page(subject, of);
        let found: Vec<u64> = page.events.iter().map(|event| event.number()).collect();
        let bytes: usize = page.events.iter().map(|event| event.json().len()).sum();
        assert!(found.len() <= of.events_max && (bytes <= of.bytes_max || found.len() == 1));
        covered.push(page.covered);
        numbers.extend(&found);
        if !page.has_more {
            return (numbers, covered);
        }
        let last = *found.last().expect("a page that is not the last one has events");
        *(if of.newest_first { &mut of.before } else { &mut of.after }) = last;
    }
}

/// However large pages are, and from whichever end, they are what a subject's list is between two
/// numbers, and say that they may lack some where some were forgotten.
#[test]
fn pages_from_either_end_are_what_is_remembered_between_two_places() {
    by_seed("pages_from_either_end", |seed| {
        let mut run = Run::new(seed);
        let history = history(run.bounds);
        for _ in 0..40 {
            (0..run.below(60)).for_each(|_| run.step(&history));
            let subject = run.random.usize(..run.subjects.len());
            let text = run.subjects[subject].clone();
            let id = history.names.acquire(about(&text));
            let (after, before) = (run.below(run.number), 1 + run.below(run.number + 5));
            let before = if run.random.bool() { u64::MAX } else { before };
            let of = PageOf {
                after,
                before,
                newest_first: run.random.bool(),
                events_max: 1 + run.random.usize(..9),
                bytes_max: 1 + run.random.usize(..400),
            };
            let (mut found, covered) = pages(&history, id, of);
            if of.newest_first {
                found.reverse();
            }
            let all: Vec<u64> = since(&history, &[&text], after).0;
            let due: Vec<u64> = all.into_iter().filter(|number| *number < before).collect();
            assert_eq!(found, due, "{of:?}");
            let sent = run.sent.iter().filter(|(subjects, _)| subjects.contains(&subject));
            let sent = sent.map(|(_, number)| *number).filter(|&number| number > after);
            let is_whole = sent.filter(|&number| number < before).eq(found.iter().copied());
            let all_covered = covered[0];
            assert!(is_whole || !all_covered, "{of:?} lacks some and does not say so");
            assert_eq!(all_covered, since(&history, &[&text], after).1, "{of:?}");
            let last = run.random.usize(..8);
            let remembered = since(&history, &[&text], 0).0.into_iter();
            let remembered: Vec<u64> = remembered.filter(|&number| number < before).collect();
            let above = history.before_last(id, last, before - 1).unwrap_or(0);
            let is_of_last = remembered.iter().filter(|&&number| number > above).count();
            assert_eq!(is_of_last, last.min(remembered.len()), "the last {last} of {remembered:?}");
            history.names.release(id);
        }
    });
}

/// Thousands of events of one subject, of which each place is found.
#[test]
fn each_place_among_thousands_is_found_while_old_ones_go() {
    let history = history(limits(3_000, u64::MAX, usize::MAX));
    (1..=5_000).for_each(|number| record(&history, "7", number, 0));
    let subject = Id::integer(7).unwrap();
    let of = |after, before, newest_first| {
        let of = PageOf { after, before, newest_first, events_max: 2, bytes_max: usize::MAX };
        let page = history.page(subject, of);
        (page.events.iter().map(|event| event.number()).collect::<Vec<_>>(), page.covered)
    };
    for place in (2_000..4_999).step_by(7) {
        assert_eq!(of(place, u64::MAX, false), (vec![place + 1, place + 2], true));
        let before: Vec<u64> = [place, place - 1].into_iter().filter(|&n| n > 2_000).collect();
        assert_eq!(of(0, place + 1, true), (before, false));
    }
    assert_eq!(history.before_last(subject, 1_000, u64::MAX), Some(4_000));
    assert_eq!(history.before_last(subject, 3_000, u64::MAX), None);
    while history.expire(u64::MAX) {}
    assert_eq!(history.stats().events, 3_000, "of an age without a bound");
}

#[test]
fn page_of_what_is_below_the_floor_is_not_covered_and_has_none_of_it() {
    let history = history(HistoryLimits::default());
    record(&history, "7", 10, 0);
    history.forget_up_to(20);
    record(&history, "7", 21, 0);
    let page = |after| {
        let of = PageOf {
            after,
            before: u64::MAX,
            newest_first: true,
            events_max: 9,
            bytes_max: usize::MAX,
        };
        let page = history.page(Id::integer(7).unwrap(), of);
        (page.events.iter().map(|event| event.number()).collect::<Vec<_>>(), page.covered)
    };
    assert_eq!(page(20), (vec![21], true));
    assert_eq!(page(0), (vec![21], false));
    assert_eq!(history.before_last(Id::integer(7).unwrap(), 1, 100), None);
}

/// However much of it the memory has forgotten, with an archive each page is what was sent, and
/// lacks nothing but what the archive has lost.
#[test]
fn pages_of_memory_and_archive_together_are_what_was_sent_between_two_places() {
    by_seed("pages_of_memory_and_archive", |seed| {
        let mut run = Run::new(seed);
        let history = history(run.bounds);
        let archive = MemoryArchive::new(|_| true, 1 + run.random.usize(..60));
        let mut archived = 0;
        for round in 0..40 {
            // What it may have missed was sent before.
            match round {
                0..30 => (0..run.below(60)).for_each(|_| run.step(&history)),
                _ => history.forget_up_to(run.below(run.number)),
            }
            for (subjects, number) in &run.sent[archived..] {
                let texts: Vec<&str> = subjects.iter().map(|&at| &*run.subjects[at]).collect();
                archive.append(&event(&texts, *number));
            }
            archived = run.sent.len();
            let subject = run.random.usize(..run.subjects.len());
            let text = run.subjects[subject].clone();
            let id = history.names.acquire(about(&text));
            let mut of = PageOf {
                after: run.below(run.number),
                before: if run.random.bool() { u64::MAX } else { run.below(run.number + 5) },
                newest_first: run.random.bool(),
                events_max: 1 + run.random.usize(..9),
                bytes_max: 1 + run.random.usize(..400),
            };
            let asked = of;
            let (mut found, mut is_covered) = (Vec::new(), true);
            loop {
                let page = history.page_part(id, of).join(&archive, &text).unwrap();
                let numbers: Vec<u64> = page.events.iter().map(|event| event.number()).collect();
                let bytes: usize = page.events.iter().map(|event| event.json().len()).sum();
                assert!(numbers.len() <= of.events_max && (bytes <= of.bytes_max || bytes < 200));
                found.extend(&numbers);
                is_covered &= page.covered || of.newest_first && page.has_more;
                if !page.has_more {
                    break;
                }
                let last = *numbers.last().expect("a page that is not the last one has events");
                *(if of.newest_first { &mut of.before } else { &mut of.after }) = last;
            }
            if of.newest_first {
                found.reverse();
            }
            let sent = run.sent.iter().filter(|(subjects, _)| subjects.contains(&subject));
            let sent = sent.map(|(_, number)| *number);
            let due: Vec<u64> =
                sent.filter(|&number| number > asked.after && number < asked.before).collect();
            assert!(due.ends_with(&found), "{found:?} of {due:?}, {asked:?}");
            assert!(!is_covered || due == found, "{found:?} of {due:?} is all, {asked:?}");
            history.names.release(id);
        }
    });
}
