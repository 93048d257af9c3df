//! The archive over a real disk.

mod slow_disk;
mod topics;
mod watched_disk;

use std::fs::File;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;

use hub::{ConnectionId, EventId, EventParts, LeftOut, Payload, Tag};
use journal::{DiskFile, RealDisk};
use watched_disk::{DiskCall, Watched};

use super::*;

const DAY_MS: u64 = 86_400_000;

fn rules(list: &[(&str, u64, Option<u64>, Option<u64>)]) -> KeepRules {
    let rule = |&(pattern, age_ms, events, bytes): &(&str, u64, Option<u64>, Option<u64>)| {
        KeepRule::new(pattern, age_ms).unwrap().with_bounds(events, bytes).unwrap()
    };
    KeepRules::new(list.iter().map(rule).collect()).unwrap()
}

fn open(dir: &Path, rules: KeepRules) -> (DiskArchive, Found) {
    let config = Config {
        dir: dir.to_owned(),
        bytes_max: 1 << 30,
        segment_bytes: 1 << 20,
        sync: Sync::Group,
    };
    DiskArchive::open(rules, config, Arc::new(RealDisk)).unwrap()
}

fn draft(subjects: &[&str], data: &str) -> Draft {
    let (about, also) = subjects.split_first().unwrap();
    let payload = Payload::Json(data);
    Draft::of(EventParts { about, also, name: None, from: None, payload }).unwrap()
}

/// Whether it is kept; then it is on disk.
fn post(archive: &DiskArchive, draft: Draft, number: u64, at_ms: u64) -> bool {
    let event_store: &dyn EventStore<()> = archive;
    let Some(room) = event_store.reserve(&draft).unwrap() else { return false };
    room.append(&draft.numbered(EventId::new(number, Tag::of(7))), at_ms);
    let (said, hear) = mpsc::sync_channel(1);
    event_store.when_durable(number, Box::new(move |is_durable| said.send(is_durable).unwrap()));
    assert!(hear.recv().unwrap());
    true
}

fn of(after: u64, newest_first: bool, events_max: usize) -> PageOf {
    PageOf { after, before: u64::MAX, newest_first, events_max, bytes_max: 1 << 20 }
}

fn page(archive: &DiskArchive, id: &str, of: PageOf) -> (Vec<u64>, bool, bool) {
    let page: Page<()> = archive.page(id, of).unwrap();
    let numbers = page.events.iter().map(|event| event.number()).collect();
    (numbers, page.has_more, page.covered)
}

#[test]
fn event_is_read_as_it_was_written_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let all = rules(&[("*", DAY_MS, None, None)]);
    let (archive, found) = open(dir.path(), all.clone());
    assert_eq!((found.first, found.last), (None, None));
    let parts = EventParts {
        about: "a\"b",
        also: &["c\\d", "e"],
        name: Some("typing"),
        from: Some("bob"),
        payload: Payload::Text("x\ny"),
    };
    let one = LeftOut::from(ConnectionId::parse("9f86d081884c7d65").unwrap());
    let two = one.and(ConnectionId::of_bits(7).unwrap());
    let left_out = |number, except| {
        draft(&["a\"b"], "1").numbered::<()>(EventId::new(number, Tag::of(2))).leaving_out(except)
    };
    let made: Vec<Event<()>> = vec![
        draft(&["a\"b"], "{\"x\" :1}").numbered(EventId::new(5, Tag::of(1))),
        Draft::of(parts).unwrap().numbered(EventId::new(6, Tag::of(2))),
        left_out(7, one),
        left_out(8, two),
    ];
    for event in &made {
        let draft = draft(&["a\"b", "c\\d", "e"], event.data());
        let room = EventStore::<()>::reserve(&archive, &draft).unwrap().unwrap();
        room.append(event, now_ms());
    }
    archive.let_go().unwrap();
    let (archive, found) = open(dir.path(), all);
    assert_eq!((found.first, found.last), (Some(5), Some(8)));
    let read: Page<()> = archive.page("a\"b", of(0, false, 10)).unwrap();
    assert_eq!(read.events.len(), made.len());
    for (read, made) in read.events.iter().zip(&made) {
        assert_eq!((read.number(), read.json()), (made.number(), made.json()));
        assert_eq!(read.except(), made.except());
    }
    assert_eq!(page(&archive, "e", of(0, false, 10)).0, [6]);
    assert_eq!(page(&archive, "c\\d", of(6, false, 10)), (vec![], false, true));
}

#[test]
fn memory_is_left_the_bounds_of_the_rule_that_counts() {
    let dir = tempfile::tempdir().unwrap();
    let list = [("a1", 50, None, None), ("a*", DAY_MS, Some(5), Some(100))];
    let (archive, _) = open(dir.path(), rules(&list));
    let archive: &dyn Archive<()> = &archive;
    let bounds = |pattern: &str, events_max, bytes_max, age_ms_max| KeptBounds {
        pattern: pattern.to_owned(),
        events_max,
        bytes_max,
        age_ms_max,
    };
    let expected = [bounds("a1", usize::MAX, u64::MAX, 50), bounds("a*", 5, 100, DAY_MS)];
    assert_eq!(archive.bounds(), expected);
    let places = ["a1", "a2", "b", "#t:a1"].map(|id| archive.rule_place(id));
    assert_eq!(places, [Some(0), Some(1), None, None]);
}

#[test]
fn page_goes_on_in_both_directions_and_keeps_its_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let (archive, _) = open(dir.path(), rules(&[("a*", DAY_MS, None, None)]));
    for number in 1..=600 {
        assert!(post(&archive, draft(&["a1"], "1"), 2 * number, now_ms()));
        assert!(!post(&archive, draft(&["b"], "1"), 2 * number + 1, now_ms()));
    }
    let archive = &archive;
    let numbers = |from: u64, to: u64| (from..=to).map(|n| 2 * n).collect::<Vec<u64>>();
    assert_eq!(page(archive, "a1", of(0, false, 600)), (numbers(1, 600), false, true));
    assert_eq!(page(archive, "a1", of(100, false, 300)), (numbers(51, 350), true, true));
    let newest: Vec<u64> = numbers(301, 600).into_iter().rev().collect();
    assert_eq!(page(archive, "a1", of(0, true, 300)), (newest, true, true));
    let newest: Vec<u64> = numbers(301, 600).into_iter().rev().collect();
    assert_eq!(page(archive, "a1", of(600, true, 300)), (newest, false, true));
    let between = PageOf { before: 9, ..of(4, false, 10) };
    assert_eq!(page(archive, "a1", between), (vec![6, 8], false, true));
    let line = 57;
    let few = PageOf { bytes_max: 3 * line, ..of(0, false, 10) };
    let (numbers, has_more, covered) = page(archive, "a1", few);
    assert!((1..=3).contains(&numbers.len()) && has_more && covered, "{numbers:?}");
    let none = PageOf { bytes_max: 1, ..of(0, false, 10) };
    assert_eq!(page(archive, "a1", none), (vec![2], true, true), "the first one has room");
    assert!(!page(archive, "b", of(0, false, 10)).2, "nothing is known of it");
}

#[test]
fn rule_bounds_what_is_answered_of_a_subject() {
    let dir = tempfile::tempdir().unwrap();
    let list =
        [("n", DAY_MS, Some(3), None), ("b", DAY_MS, None, Some(120)), ("*", 1000, None, None)];
    let (archive, _) = open(dir.path(), rules(&list));
    let now = now_ms();
    for number in 1..=5 {
        post(&archive, draft(&["n"], "1"), 10 * number, now);
        post(&archive, draft(&["b"], "1"), 10 * number + 1, now);
    }
    let archive = &archive;
    assert_eq!(page(archive, "n", of(0, false, 9)), (vec![30, 40, 50], false, false));
    assert_eq!(page(archive, "n", of(20, false, 9)), (vec![30, 40, 50], false, true));
    assert_eq!(page(archive, "n", of(0, true, 2)), (vec![50, 40], true, false));
    assert_eq!(page(archive, "b", of(0, false, 9)), (vec![41, 51], false, false));
    post(archive, draft(&["n"], "1"), 60, now);
    assert_eq!(page(archive, "n", of(20, false, 9)), (vec![40, 50, 60], false, false));
    // Of several subjects an event is kept as long as any of them says, and answered by each rule.
    post(archive, draft(&["old", "n"], "1"), 70, now - 5000);
    post(archive, draft(&["old"], "1"), 80, now);
    assert_eq!(page(archive, "n", of(50, false, 9)), (vec![60, 70], false, true));
    assert_eq!(page(archive, "old", of(0, false, 9)), (vec![80], false, false));
    assert_eq!(page(archive, "old", of(0, true, 9)), (vec![80], false, false));
    assert_eq!(page(archive, "old", of(70, true, 9)), (vec![80], false, true));
}

/// An archive of small segments, and how often its disk was read.
fn open_counted(dir: &Path, rules: KeepRules) -> (DiskArchive, Arc<AtomicUsize>) {
    let config = Config {
        dir: dir.to_owned(),
        bytes_max: 1 << 30,
        segment_bytes: 1 << 16,
        sync: Sync::Group,
    };
    let reads = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&reads);
    let disk = Watched::new(move |call| {
        if call == DiskCall::Read {
            counted.fetch_add(1, Relaxed);
        }
    });
    (DiskArchive::open(rules, config, Arc::new(disk)).unwrap().0, reads)
}

/// Keeps an event about each of the ids in turn, and waits for the last one alone.
fn post_in_turn(archive: &DiskArchive, ids: &[&str], numbers: RangeInclusive<u64>, at_ms: u64) {
    let last = *numbers.end();
    for number in numbers {
        let draft = draft(&[ids[number as usize % ids.len()]], "1");
        if number == last {
            assert!(post(archive, draft, number, at_ms));
            return;
        }
        let room = EventStore::<()>::reserve(archive, &draft).unwrap().unwrap();
        room.append(&draft.numbered::<()>(EventId::new(number, Tag::of(7))), at_ms);
    }
}

#[test]
fn page_of_a_long_subject_with_bounds_reads_itself_and_little_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let list = [("n", DAY_MS, Some(9_000), None), ("b", DAY_MS, None, Some(47 * 9_000))];
    let (archive, reads) = open_counted(dir.path(), rules(&list));
    post_in_turn(&archive, &["n", "b"], 1..=20_000, now_ms());
    let segments = archive.stats().unwrap().segments;
    assert!(segments > 5, "{segments}");
    for (id, first) in [("n", 2_002), ("b", 1_611)] {
        reads.store(0, Relaxed);
        let (numbers, has_more, _) = page(&archive, id, of(0, false, 10));
        assert_eq!((numbers[0], numbers.len(), has_more), (first, 10, true));
        let reads = reads.load(Relaxed);
        assert!(reads < 150 + 4 * segments, "{id}: {reads} reads of {segments} segments");
    }
}

#[test]
fn page_behind_many_that_have_expired_reads_few_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let (archive, reads) =
        open_counted(dir.path(), rules(&[("n", DAY_MS, None, None), ("*", 60_000, None, None)]));
    let now = now_ms();
    // Those of `n` live on in the same segments.
    post_in_turn(&archive, &["n", "old"], 1..=20_000, now - 70_000);
    post_in_turn(&archive, &["n", "old"], 20_001..=20_020, now);
    let fresh: Vec<u64> = (20_001..=20_019).step_by(2).collect();
    let newest: Vec<u64> = fresh.iter().rev().copied().collect();
    for (newest_first, expected) in [(false, fresh), (true, newest)] {
        reads.store(0, Relaxed);
        let (numbers, has_more, covered) = page(&archive, "old", of(5, newest_first, 100));
        assert_eq!((numbers, has_more, covered), (expected, false, false));
        let reads = reads.load(Relaxed);
        assert!(reads < 3_000, "{reads} reads, newest first: {newest_first}");
    }
    assert_eq!(
        page(&archive, "old", of(19_999, false, 3)),
        (vec![20_001, 20_003, 20_005], true, true)
    );
}

#[test]
fn log_that_was_let_go_of_keeps_nothing_until_it_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let all = rules(&[("a", DAY_MS, None, None)]);
    let (archive, _) = open(dir.path(), all.clone());
    post(&archive, draft(&["a"], "1"), 1, now_ms());
    archive.let_go().unwrap();
    let refused = EventStore::<()>::reserve(&archive, &draft(&["a"], "1"));
    assert_eq!(refused.err(), Some(NoRoomToKeep::Disk));
    assert!(EventStore::<()>::reserve(&archive, &draft(&["b"], "1")).unwrap().is_none());
    assert!(Archive::<()>::page(&archive, "a", of(0, false, 1)).is_err());
    let (other, _) = open(dir.path(), all);
    assert!(archive.take_back().is_err(), "another has it");
    post(&other, draft(&["a"], "1"), 2, now_ms());
    other.let_go().unwrap();
    archive.take_back().unwrap();
    post(&archive, draft(&["a"], "1"), 3, now_ms());
    assert_eq!(page(&archive, "a", of(1, false, 9)), (vec![2, 3], false, true));
}

#[test]
fn event_of_a_hundred_bytes_takes_less_than_160_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let (archive, _) = open(dir.path(), rules(&[("*", DAY_MS, None, None)]));
    let data = format!("\"{}\"", "x".repeat(98));
    for number in 1..=1000 {
        post(&archive, draft(&[&format!("user{:04}", number % 50)], &data), number, now_ms());
    }
    let bytes = archive.stats().unwrap().bytes;
    assert!(bytes <= 160 * 1000, "{bytes}");
}

#[test]
fn rule_that_keeps_nothing_is_refused() {
    assert_eq!(KeepRule::new("a b", 1).err(), Some(BadKeepRule::Pattern));
    assert_eq!(KeepRule::new("a*", 0).err(), Some(BadKeepRule::Bounds));
    let rule = KeepRule::new("a*", 1).unwrap();
    assert_eq!(rule.pattern(), "a*");
    assert!(rule.clone().with_bounds(Some(0), None).is_err());
    assert!(rule.clone().with_bounds(None, Some(0)).is_err());
    assert_eq!(KeepRules::new(vec![rule; 33]).err(), Some(BadKeepRule::Many));
}

#[test]
fn what_was_sent_before_a_rule_was_there_is_not_claimed() {
    let dir = tempfile::tempdir().unwrap();
    let list = [("a1", DAY_MS, None, None), ("a*", DAY_MS, None, None), ("b", DAY_MS, None, None)];
    let (archive, _) = open(dir.path(), rules(&list));
    archive.set_since(vec![500, 100, 300], 1_000);
    let covered = |id: &str, after: u64| page(&archive, id, of(after, false, 9)).2;
    assert!(covered("a1", 100), "another rule has kept it before");
    assert!(!covered("a1", 99));
    assert!(covered("a2", 100) && !covered("a2", 99));
    assert!(covered("b", 300) && !covered("b", 299));
}
