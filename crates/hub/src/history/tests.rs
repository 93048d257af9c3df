//! The memory against its bounds, and against a plain list that forgets nothing.

mod handed_over;
mod page;
mod rules;

use super::forgetting::WARM_MS;
use super::*;
use crate::event::{Draft, EventParts, Payload};
use crate::event_id::{EventId, Tag};

fn limits(events_max: usize, age_ms_max: u64, bytes_max: usize) -> HistoryLimits {
    HistoryLimits { events_max, age_ms_max, bytes_max }
}

fn history(limits: HistoryLimits) -> History<()> {
    History::new(Arc::new(Names::new([5; 16])), limits)
}

fn about(text: &str) -> IdText<'_> {
    IdText::parse(text).unwrap()
}

fn record(history: &History<()>, subject: &str, number: u64, now_ms: u64) {
    record_all(history, &[subject], number, now_ms);
}

/// An event about each of `subjects`.
fn event(subjects: &[&str], number: u64) -> Arc<Event<()>> {
    let payload = Payload::Json("1");
    let (about, also) = (subjects[0], &subjects[1..]);
    let parts = EventParts { about, also, name: None, from: None, payload };
    Arc::new(Draft::of(parts).unwrap().numbered(EventId::new(number, Tag::of(0))))
}

fn record_all(history: &History<()>, subjects: &[&str], number: u64, now_ms: u64) {
    let ids: Vec<IdText<'_>> = subjects.iter().map(|subject| about(subject)).collect();
    history.record(history.begin(&ids), event(subjects, number), now_ms);
}

/// The numbers above `after` in order, and whether they are all.
fn since(history: &History<()>, subjects: &[&str], after: u64) -> (Vec<u64>, bool) {
    // As a client does that comes back: under the names' ids of now.
    let ids: Vec<Id> =
        subjects.iter().map(|subject| history.names.acquire(about(subject))).collect();
    let mut events = Vec::new();
    let since = history.since(&ids, after, history.now(), Slice::ALL, &mut events);
    let Since::Read { covered, .. } = since else {
        panic!("a send has not ended");
    };
    ids.into_iter().for_each(|id| history.names.release(id));
    let mut numbers: Vec<u64> = events.iter().map(|event| event.number()).collect();
    numbers.sort();
    // One about several of the subjects is found under each.
    numbers.dedup();
    (numbers, covered)
}

#[test]
fn subject_over_its_bound_says_that_it_lost_its_oldest() {
    let history = history(limits(3, 1_000, usize::MAX));
    (1..=5).for_each(|number| record(&history, "7", number * 10, 0));
    assert_eq!(since(&history, &["7"], 20), (vec![30, 40, 50], true));
    assert_eq!(since(&history, &["7"], 19), (vec![30, 40, 50], false));
    assert_eq!(since(&history, &["7"], 50), (vec![], true));
    assert_eq!(since(&history, &["8"], 0), (vec![], true), "another subject has lost nothing");
}

#[test]
fn aged_events_are_forgotten_and_their_names_freed() {
    let history = history(limits(100, 1_000, usize::MAX));
    record(&history, "bob", 1, 0);
    record(&history, "alice", 2, 600);
    assert!(!history.expire(1_000));
    assert_eq!(since(&history, &["alice", "bob"], 0), (vec![1, 2], true));
    assert!(history.names.lookup(about("bob")).is_some());
    history.expire(1_001);
    assert_eq!(history.names.lookup(about("bob")), None);
    assert_eq!(since(&history, &["bob"], 0), (vec![], false), "under another id");
    assert_eq!(since(&history, &["alice"], 0), (vec![2], true));
    history.expire(2_000);
    assert!(history.names.is_empty());
    assert_eq!(history.stats(), HistoryStats::default());
}

#[test]
fn bytes_bound_all_subjects_together() {
    let one = {
        let history = history(HistoryLimits::default());
        record(&history, "100", 1, 0);
        history.stats().bytes
    };
    let history = history(limits(100, 1_000, 10 * one));
    (100..200).for_each(|subject| record(&history, &subject.to_string(), subject, 0));
    let stats = history.stats();
    // Where room is short, frames go first.
    assert!(stats.bytes <= 10 * one && (11..30).contains(&stats.events), "{stats:?}");
    assert_eq!(stats.subjects, stats.events);
    assert_eq!(since(&history, &["199"], 0), (vec![199], true));
    let oldest = 200 - stats.events as u64;
    assert_eq!(since(&history, &[&oldest.to_string()], 0), (vec![oldest], true));
    assert_eq!(since(&history, &[&(oldest - 1).to_string()], 0), (vec![], false));
}

#[test]
fn place_before_what_is_known_at_all_is_not_covered_whatever_is_remembered() {
    let history = history(HistoryLimits::default());
    record(&history, "7", 10, 0);
    history.forget_up_to(20);
    history.forget_up_to(15);
    record(&history, "7", 21, 0);
    assert_eq!(since(&history, &["7"], 20), (vec![21], true));
    assert_eq!(since(&history, &["8"], 20), (vec![], true));
    assert_eq!(since(&history, &["7"], 19), (vec![21], false));
    assert_eq!(since(&history, &["7"], 9), (vec![21], false), "and nothing of before");
    assert_eq!(since(&history, &["8"], 19), (vec![], false));
}

#[test]
fn event_that_was_old_when_it_came_is_forgotten_at_its_age() {
    let history = history(HistoryLimits { age_ms_max: 1_000, ..HistoryLimits::default() });
    let aged = |number, age_ms| {
        let event = Arc::new(Event::new(number, "7", "1").unwrap());
        history.record_aged(history.begin(&[about("7")]), event, age_ms, 5_000);
    };
    history.forget_up_to(1);
    aged(2, 1_500);
    aged(3, 900);
    // Its node's clock says that it is older than the one before it.
    aged(4, 950);
    assert_eq!(since(&history, &["7"], 1), (vec![3, 4], false));
    assert_eq!(since(&history, &["7"], 2), (vec![3, 4], true));
    assert!(!history.expire(5_101));
    assert_eq!(since(&history, &["7"], 2), (vec![], false));
    assert_eq!(since(&history, &["7"], 4), (vec![], true));
}

#[test]
fn send_that_began_before_is_waited_for_and_a_later_one_is_not() {
    let history = history(HistoryLimits::default());
    let early = history.begin(&[about("bob")]);
    let (moment, bob) = (history.now(), early.subjects()[0]);
    let late = history.begin(&[about("bob")]);
    let mut events = Vec::new();
    let other = Id::integer(3).unwrap();
    let mut look = |subjects: &[Id]| history.since(subjects, 0, moment, Slice::ALL, &mut events);
    let read = Since::Read { covered: true, subjects: 1, up_to: u64::MAX };
    assert_eq!(look(&[other, bob]), Since::Pending);
    assert_eq!(look(&[other]), read);
    history.record(early, Arc::new(Event::new(1, "bob", "1").unwrap()), 0);
    assert_eq!(look(&[bob]), read);
    assert_eq!(events.len(), 1);
    history.abandon(late);
    history.expire(1_000_000);
    assert!(history.names.is_empty(), "neither holds the name any more");
}

#[test]
fn slice_has_the_oldest_events_and_says_up_to_where_none_is_left_out() {
    let history = history(HistoryLimits::default());
    for number in 1..=10 {
        record(&history, ["7", "8"][number as usize % 2], number, 0);
    }
    let ids = [7, 8, 9].map(|id| Id::integer(id).unwrap());
    let look = |slice| {
        let mut events = Vec::new();
        let since = history.since(&ids, 1, history.now(), slice, &mut events);
        (since, Vec::from_iter(events.iter().map(|event| event.number())))
    };
    let read = |subjects, up_to| Since::Read { covered: true, subjects, up_to };
    let slice = |per_subject, events| Slice { per_subject, events };
    assert_eq!(look(slice(2, 100)), (read(3, 4), vec![2, 4, 3, 5]));
    assert_eq!(look(slice(100, 5)), (read(1, u64::MAX), vec![2, 4, 6, 8, 10]));
    assert_eq!(look(slice(5, 100)), (read(3, u64::MAX), vec![2, 4, 6, 8, 10, 3, 5, 7, 9]));
}

#[test]
fn frames_are_forgotten_a_second_later_but_those_that_are_still_to_be_sent() {
    let history: History<Arc<()>> =
        History::new(Arc::new(Names::new([5; 16])), HistoryLimits::default());
    let frame = Arc::new(());
    let send = |number, now_ms| {
        let event = Arc::new(Event::new(number, "7", "1").unwrap());
        event.frame(0, |_| frame.clone());
        history.record(history.begin(&[about("7")]), event.clone(), now_ms);
        event
    };
    let slow = send(1, 0);
    drop(send(2, 0));
    assert!(!history.expire(WARM_MS - 1));
    let (warm, held) = (history.stats().bytes, || Arc::strong_count(&frame) - 1);
    assert_eq!(held(), 2);
    assert!(!history.expire(WARM_MS));
    assert_eq!(held(), 1);
    assert!(history.stats().bytes < warm);
    drop(slow);
    drop(send(3, 10_000));
    drop(send(4, 10_000 + WARM_MS));
    assert_eq!(held(), 2, "of the first, which was not looked at again, and of the last");
    while history.expire(u64::MAX) {}
    assert_eq!((history.stats(), held()), (HistoryStats::default(), 0));
}

/// Thousands of events about a few subjects under all bounds at one time. Every answer is either
/// exact or says that it is not, and says so only when something is missing.
#[test]
fn answers_are_exact_or_say_that_they_are_not() {
    by_seed("answers_are_exact", |seed| {
        let mut run = Run::new(seed);
        let history = history(run.bounds);
        (0..1_000).for_each(|_| run.step(&history));
        while history.expire(u64::MAX) {}
        assert!(history.names.is_empty() && history.stats() == HistoryStats::default());
    });
}

/// However many subjects an event has, its line and its frame are counted once, and nothing is left
/// when it is forgotten of the last of them.
#[test]
fn event_about_several_is_counted_once_and_cooled_and_forgotten_whole() {
    let history = history(limits(2, 100_000, usize::MAX));
    let subjects: Vec<String> = (0..100).map(|subject| format!("s{subject}")).collect();
    let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
    let line = event(&subjects, 1).json().len();
    record_all(&history, &subjects, 1, 0);
    let warm = history.stats();
    assert_eq!((warm.events, warm.subjects), (1, 100));
    assert!(warm.bytes < 2 * line + 100 * 300, "{warm:?} for a line of {line}");
    while history.expire(2 * WARM_MS) {}
    let cold = history.stats();
    assert!(warm.bytes - cold.bytes >= line, "its frame: {warm:?}, then {cold:?}");
    // All but one subject lose it to later events, the one that has it first.
    for number in 2..4 {
        record_all(&history, &subjects[..99], number, 2 * WARM_MS);
    }
    assert_eq!(since(&history, &["s99"], 0), (vec![1], true));
    assert_eq!(since(&history, &["s0"], 0), (vec![2, 3], false));
    assert_eq!(history.stats().events, 3);
    while history.expire(300_000) {}
    assert_eq!(history.stats(), HistoryStats::default());
    assert!(history.names.is_empty());
    for subject in ["s0", "s99"] {
        assert!(!since(&history, &[subject], 0).1, "{subject}");
    }
}

fn by_seed(test: &str, run: impl Fn(u64)) {
    let given = std::env::var("ENCKE_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    for seed in given.map_or(0..100, |seed| seed..seed + 1) {
        eprintln!("again with: ENCKE_SEED={seed} cargo test -p hub {test}");
        run(seed);
    }
}

/// Random events, and the plain list of all that were sent.
struct Run {
    random: fastrand::Rng,
    bounds: HistoryLimits,
    subjects: Vec<String>,
    /// Which subjects, and the number.
    sent: Vec<(Vec<usize>, u64)>,
    now_ms: u64,
    number: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut below = |bound: u64| random.u64(..bound);
        let bounds = limits(1 + below(20) as usize, 1 + below(500), 1_000 + below(40_000) as usize);
        let name = |n: u64| if n.is_multiple_of(2) { n.to_string() } else { format!("s{n}") };
        let subjects = (0..1 + below(12)).map(name).collect();
        Run { random, bounds, subjects, sent: Vec::new(), now_ms: 0, number: 1 }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.u64(..bound)
    }

    fn step(&mut self, history: &History<()>) {
        self.now_ms += self.below(10);
        let subject = self.random.usize(..self.subjects.len());
        match self.below(20) {
            0 => while history.expire(self.now_ms) {},
            1 => history.abandon(history.begin(&[about(&self.subjects[subject])])),
            2..5 => drop(self.ask(&[history])),
            _ => {
                self.number += 1 + self.below(3);
                let mut subjects = vec![subject];
                while self.below(3) == 0 {
                    let another = self.random.usize(..self.subjects.len());
                    if !subjects.contains(&another) {
                        subjects.push(another);
                    }
                }
                let texts: Vec<&str> = subjects.iter().map(|&at| &*self.subjects[at]).collect();
                record_all(history, &texts, self.number, self.now_ms);
                self.sent.push((subjects, self.number));
            }
        }
        assert!(history.stats().bytes <= self.bounds.bytes_max);
    }

    /// Asks all of them for the same, holds each answer against the list, and returns them.
    fn ask(&mut self, histories: &[&History<()>]) -> Vec<(Vec<u64>, bool)> {
        let asked: Vec<usize> = (0..self.subjects.len()).filter(|_| self.random.bool()).collect();
        let after = self.below(self.number);
        let due = |(subjects, number): &&(Vec<usize>, u64)| {
            *number > after && subjects.iter().any(|subject| asked.contains(subject))
        };
        let all: Vec<u64> = self.sent.iter().filter(due).map(|(_, number)| *number).collect();
        let subjects: Vec<&str> = asked.iter().map(|&at| self.subjects[at].as_str()).collect();
        let answer = |history: &&History<()>| {
            let (found, covered) = since(history, &subjects, after);
            assert!(found == all || !covered, "{found:?} of {all:?} after {after}");
            // Each has what was sent about it, or one is told of a gap though another may have it.
            let has_all = |&subject: &usize| {
                let of = |(subjects, number): &&(Vec<usize>, u64)| {
                    *number > after && subjects.contains(&subject)
                };
                let all: Vec<u64> =
                    self.sent.iter().filter(of).map(|(_, number)| *number).collect();
                since(history, &[&self.subjects[subject]], after).0 == all
            };
            assert_eq!(asked.iter().all(has_all), covered, "{found:?} of {all:?} after {after}");
            assert!(found.iter().all(|number| all.contains(number)));
            (found, covered)
        };
        histories.iter().map(answer).collect()
    }
}
