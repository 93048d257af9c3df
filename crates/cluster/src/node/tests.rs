//! A node alone, with what it hears and reads put in by hand: what the simulator meets too rarely.

mod leaving;

use std::collections::BTreeSet;

use super::Node;
use crate::change::Change;
use crate::limits::{
    ACK_TIMEOUT_MS, ASK_MS, BEHIND_MAX_MS, CHANGES_WAITING_MAX, FOLLOW_AGAIN_MS, FOUND_AFTER_MS,
    SEQUENCE_MAX, STORE_AGAIN_MS,
};
use crate::message::{Beat, Message, MessageBody, View};
use crate::record::{Body, Head, Join, Order, Record};
use crate::roster::Member;
use crate::{Action, Config, Epoch, GraphPlace, Known, LogFault, LogMark, Published};

const EPOCH: Epoch = Epoch { number: 1, base: 0 };
const KNOWN: Known = Known::Read { epoch: 1, sequence: u64::MAX };

/// A node, the time, and a log that brings what it publishes as the next record, if it is asked to.
struct Driven {
    node: Node,
    now: u64,
    actions: Vec<Action>,
}

impl Driven {
    fn new(name: &str) -> Driven {
        let config =
            Config { name: name.to_owned(), address: String::new(), nonce: 100, proves: false };
        let node = Node::new(0, config, EPOCH, GraphPlace::default(), KNOWN);
        let mut driven = Driven { node, now: 0, actions: Vec::new() };
        driven.take();
        driven.actions.clear();
        driven
    }

    /// Does one thing, and hears its own beats.
    fn does(&mut self, input: impl FnOnce(&mut Node, u64)) {
        input(&mut self.node, self.now);
        self.take();
    }

    fn take(&mut self) {
        while let Some(action) = self.node.next_action() {
            match action {
                Action::Core { bytes, .. } => self.node.core_message(self.now, &bytes),
                action => self.actions.push(action),
            }
        }
    }

    fn hears(&mut self, said: MessageBody) {
        let bytes = Message { epoch: EPOCH.number, said }.encode();
        self.does(|node, now| node.core_message(now, &bytes));
    }

    fn reads(&mut self, sequence: u64, record: &[u8]) {
        self.does(|node, now| node.record(now, EPOCH.number, sequence, record));
    }

    /// Lets so much time pass, in small steps.
    fn waits(&mut self, wait_ms: u64) {
        let until_ms = self.now + wait_ms;
        while self.now < until_ms {
            self.now = self.node.next_deadline().min(until_ms);
            self.does(|node, now| node.tick(now));
        }
    }

    /// The records that it has asked to be published.
    fn published(&self) -> Vec<Record> {
        let record = |action: &Action| match action {
            Action::Publish { record, .. } => Some(Record::decode(record).unwrap()),
            _ => None,
        };
        self.actions.iter().filter_map(record).collect()
    }

    fn asked(&self) -> Vec<u64> {
        let ask = |action: &Action| match action {
            Action::CheckVersion { ask } => Some(*ask),
            _ => None,
        };
        self.actions.iter().filter_map(ask).collect()
    }

    fn follows(&self) -> Vec<Option<u64>> {
        let from = |action: &Action| match action {
            Action::Follow { from, .. } => Some(*from),
            _ => None,
        };
        self.actions.iter().filter_map(from).collect()
    }
}

fn nothing(n: u64) -> Vec<u8> {
    let head = Head { incarnation: 7, batch: n, after: 0, chain: 0 };
    Record { head, body: Body::Order(Order::Logout("x".to_owned())) }.encode()
}

fn beat(read: u64) -> MessageBody {
    MessageBody::Beat(Beat {
        incarnation: 0,
        nonce: 5,
        applied: read,
        read,
        chain: None,
        streams: 0,
    })
}

/// What the member 3 knows behind `at`.
fn view(at: u64) -> MessageBody {
    let (name, address) = ("b".to_owned(), String::new());
    let member = Member { incarnation: 3, name, address, nonce: 5, last_batch: 0 };
    MessageBody::View(View { at, chain: at * 1_000, members: vec![member] })
}

/// A node that is the only member, of a log from its first record on.
fn member() -> Driven {
    let mut driven = Driven::new("a");
    driven.does(|node, now| node.following(now, EPOCH.number, 1, 0));
    let join = driven.published().pop().expect("it joins at once").encode();
    driven.reads(1, &join);
    assert_eq!(driven.node.status().incarnation, Some(1));
    driven.actions.clear();
    driven
}

/// One that follows from the middle of a log on, and knows no view.
fn foreign() -> Driven {
    let mut driven = Driven::new("a");
    driven.does(|node, now| node.following(now, EPOCH.number, 11, 10));
    driven
}

#[test]
fn member_that_others_have_passed_lets_its_follower_begin_anew() {
    let mut driven = member();
    driven.waits(2 * FOLLOW_AGAIN_MS);
    assert_eq!(driven.follows(), []);
    // All up to 5 was trimmed, and the next record is still to come.
    driven.hears(beat(5));
    driven.waits(FOLLOW_AGAIN_MS);
    assert_eq!(driven.follows(), [Some(1)]);
    driven.waits(FOLLOW_AGAIN_MS);
    assert_eq!(driven.follows().len(), 2);
    driven.does(|node, now| node.following(now, EPOCH.number, 6, 5));
    assert!(driven.actions.contains(&Action::Gap { after: EPOCH.behind(5) }));
    assert_eq!((driven.node.read_up_to(), driven.node.status().incarnation), (5, None));
    driven.waits(2 * FOLLOW_AGAIN_MS);
    assert_eq!(driven.follows().len(), 2);
}

#[test]
fn member_that_reads_on_keeps_its_follower() {
    let mut driven = member();
    for sequence in 2..40 {
        driven.hears(beat(sequence + 3));
        driven.waits(FOLLOW_AGAIN_MS - 1);
        driven.reads(sequence, &nothing(sequence));
    }
    assert_eq!(driven.follows(), []);
}

#[test]
fn who_is_always_ahead_of_the_members_waits_for_them_to_come_as_far() {
    let mut driven = foreign();
    // The log has more all the time, and those who tell are a record behind it.
    for last in 11..15 {
        while driven.node.wants_records() && driven.node.read_up_to() < last {
            let next = driven.node.read_up_to() + 1;
            driven.reads(next, &nothing(next));
        }
        driven.hears(view(last - 1));
        driven.waits(ASK_MS);
    }
    assert!(driven.node.status().members > 0, "it was told the view of where it is");
    assert!(driven.node.wants_records());
}

#[test]
fn who_waits_for_members_that_say_nothing_more_reads_on() {
    let mut driven = foreign();
    driven.reads(11, &nothing(11));
    driven.hears(view(10));
    assert!(!driven.node.wants_records());
    driven.waits(FOUND_AFTER_MS);
    assert!(driven.node.wants_records());
}

#[test]
fn members_that_stay_behind_for_long_hold_nobody_up() {
    let mut driven = foreign();
    for _ in 0..BEHIND_MAX_MS / ASK_MS {
        driven.hears(view(9));
        driven.waits(ASK_MS - 1);
        assert_eq!(driven.published(), []);
        driven.waits(1);
    }
    driven.hears(view(9));
    driven.waits(FOUND_AFTER_MS);
    let founds =
        |record: &Record| matches!(&record.body, Body::Join(Join { founding: Some(10), .. }));
    assert!(driven.published().iter().any(founds));
}

#[test]
fn who_moves_to_another_epoch_before_it_was_a_member_waits_for_the_graph_of_that_time() {
    let mut driven = foreign();
    let next = Epoch { number: 2, base: 1 << 40 };
    driven.does(|node, now| node.epoch(now, next));
    driven.does(|node, now| node.following(now, 2, 1, 0));
    driven.waits(5_000);
    assert_eq!(driven.published(), []);
    let asked = driven.asked();
    assert!(asked.len() > 5, "it asks until there is an answer");
    // What was asked in the epoch before, or is told without a question, may be too old.
    for early in [0, 1] {
        driven.does(|node, now| node.latest_version(now, early, 0));
    }
    assert_eq!(driven.published(), []);
    let last = *asked.last().unwrap();
    driven.does(|node, now| node.latest_version(now, last, 0));
    assert_eq!(driven.published().len(), 1);
    driven.waits(3 * STORE_AGAIN_MS);
    assert_eq!(driven.asked(), asked);
}

#[test]
fn acknowledgement_at_a_place_that_no_log_comes_to_is_none() {
    let mut driven = Driven::new("a");
    driven.does(|node, now| node.following(now, EPOCH.number, 1, 0));
    let id = |action: &Action| match action {
        Action::Publish { id, .. } => Some(id.clone()),
        _ => None,
    };
    let id = driven.actions.iter().find_map(id).expect("it joins at once");
    let above = driven.node.above();
    let acked =
        |at: u64| move |node: &mut Node, now| node.published(now, 1, &id, Published::At(at));
    driven.does(acked.clone()(SEQUENCE_MAX + 1));
    assert_eq!(driven.node.above(), above);
    driven.does(acked(1));
    assert!(driven.node.above() > above);
}

/// What an earlier process had read of a log.
const WAS_AT: LogMark = LogMark { epoch: 1, sequence: 50, hash: 7 };

/// Why a log is given up, and above which number the next one is to begin.
fn proposed(driven: &Driven) -> Vec<(LogFault, u64)> {
    let of = |action: &Action| match action {
        Action::ProposeEpoch { above, fault, .. } => Some((*fault, *above)),
        _ => None,
    };
    driven.actions.iter().filter_map(of).collect()
}

#[test]
fn log_that_ends_before_what_was_read_of_it_is_given_up_before_anything_is_read() {
    for (head, faults) in [(48, 1), (49, 1), (50, 0), (51, 0)] {
        let mut driven = Driven::new("a");
        driven.node.was_at(WAS_AT);
        driven.does(|node, now| node.following(now, 1, 40, head));
        let given_up = vec![(LogFault::HeadBehind, EPOCH.behind(50)); faults];
        assert_eq!(proposed(&driven), given_up, "{head}");
    }
}

#[test]
fn log_that_is_given_up_before_it_is_compared_is_left_above_all_that_was_read_of_it() {
    let mut driven = Driven::new("a");
    driven.node.was_at(WAS_AT);
    driven.does(|node, now| node.stream_gone(now, 1));
    assert_eq!(proposed(&driven), [(LogFault::Gone, EPOCH.behind(50))]);
    // Another node has proposed one that begins too low.
    let low = Epoch { number: 2, base: EPOCH.behind(50) };
    driven.does(|node, now| node.epoch(now, low));
    let last = proposed(&driven).pop();
    assert!(matches!(last, Some((LogFault::BaseTooLow, above)) if above >= low.base), "{last:?}");
}

/// The store of record was put back: what comes behind a version that is another one waits for the
/// graph that is made anew, and so does the answer to whoever has changed it.
#[test]
fn nothing_comes_out_behind_a_version_of_another_history() {
    let mut driven = member();
    let place = |version, hash| GraphPlace { version, hash };
    driven.does(|node, now| node.graph(now, place(5, 500)));
    driven.does(|node, now| node.graph(now, place(6, 600)));
    driven.actions.clear();
    let change = |version, hash| Change { version, hash, ..Change::default() };
    driven.does(|node, now| node.change(now, change(5, 501)));
    let part = driven.published().pop().expect("it is published").encode();
    driven.reads(2, &part);
    let logout = Order::Logout("x".to_owned());
    driven.does(|node, now| assert!(node.submit_order(now, logout).is_ok()));
    let order = driven.published().pop().expect("it is published").encode();
    driven.reads(3, &order);
    let applied = |driven: &Driven| {
        let is = |action: &Action| matches!(action, Action::ChangeApplied { .. });
        driven.actions.iter().filter(|action| is(action)).count()
    };
    let obeyed = |driven: &Driven| {
        driven.actions.iter().filter(|action| matches!(action, Action::Obey { .. })).count()
    };
    assert!(driven.actions.contains(&Action::RebuildGraph));
    assert!(!driven.actions.iter().any(|action| matches!(action, Action::Apply(_))));
    // A change of the old history was on its way to the replica.
    driven.does(|node, now| node.graph(now, place(7, 700)));
    assert_eq!((applied(&driven), obeyed(&driven)), (0, 0));
    driven.waits(2 * STORE_AGAIN_MS);
    assert!(driven.actions.contains(&Action::ReadChanges), "it is asked for until it is there");
    driven.does(|node, now| node.graph_renewed(now, place(5, 501)));
    assert!(driven.actions.contains(&Action::ChangeApplied { version: 5, hash: 501 }));
    assert_eq!((applied(&driven), obeyed(&driven)), (1, 1), "{:?}", driven.actions);
}

/// The change that leads to `version`.
fn change(version: u64) -> Change {
    let added = vec![(version.to_string(), "x".to_owned())];
    Change { version, hash: version, added, removed: Vec::new() }
}

/// Which changes it asks to be published from now on, and their records.
fn waiting(driven: &mut Driven) -> (BTreeSet<u64>, Vec<Record>) {
    driven.actions.clear();
    // Each is published again once in this time.
    driven.waits(ACK_TIMEOUT_MS);
    let records = driven.published();
    let version = |record: &Record| match &record.body {
        Body::Graph(part) => Some(part.change.version),
        _ => None,
    };
    (records.iter().filter_map(version).collect(), records)
}

fn applied(driven: &Driven) -> Vec<u64> {
    let version = |action: &Action| match action {
        Action::ChangeApplied { version, .. } => Some(*version),
        _ => None,
    };
    driven.actions.iter().filter_map(version).collect()
}

/// The store of record works and the log does not. What has no place waits in the store of record,
/// also when the replica has gone on by that.
#[test]
fn changes_that_wait_for_the_log_are_bounded() {
    const CHANGES: u64 = 2_000;
    let all: Vec<u64> = (1..=CHANGES_WAITING_MAX as u64).collect();
    let mut driven = member();
    for version in 1..=CHANGES {
        driven.does(|node, now| node.change(now, change(version)));
    }
    assert!(waiting(&mut driven).0.into_iter().eq(all.iter().copied()));
    assert!(driven.actions.contains(&Action::ReadChanges), "the others are asked for");
    let read = GraphPlace { version: CHANGES, hash: CHANGES };
    driven.does(|node, now| node.graph(now, read));
    driven.does(|node, now| node.change(now, change(CHANGES + 1)));
    let (versions, records) = waiting(&mut driven);
    assert!(versions.into_iter().eq(all.iter().copied()));
    // The log is back, and has places again.
    assert_eq!(records.len(), all.len());
    for (sequence, record) in (2..).zip(&records) {
        driven.reads(sequence, &record.encode());
    }
    assert_eq!(applied(&driven), all);
    let again = CHANGES / 2;
    driven.does(|node, now| node.change(now, change(again)));
    let (versions, mut records) = waiting(&mut driven);
    assert!(versions.into_iter().eq([again]), "who waits for one has it told again");
    driven.reads(2 + all.len() as u64, &records.pop().unwrap().encode());
    assert_eq!(applied(&driven), [again]);
    assert_eq!(waiting(&mut driven).1, []);
}

/// The first of all may come last, from a node that has crashed.
#[test]
fn change_that_all_others_wait_for_has_a_place_among_them() {
    let mut driven = member();
    let last = CHANGES_WAITING_MAX as u64 + 1;
    for version in (2..=last + 1).chain([1]) {
        driven.does(|node, now| node.change(now, change(version)));
    }
    assert!(waiting(&mut driven).0.into_iter().eq(1..=last));
}
