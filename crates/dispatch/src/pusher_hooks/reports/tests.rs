//! Nodes that read one log, report in turn and are killed, by seed: what a receiver is told.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// How many messages of the node that reports are lost.
const LOSS: f64 = 0.3;

/// What a receiver is told, of each subject, in its order.
type Receiver = BTreeMap<Subject, Vec<bool>>;

/// A node: what it knows, what it has handed to its webhook and is not taken, and how many were.
struct Node {
    reports: Reports<u64>,
    read: usize,
    queue: VecDeque<(Subject, bool)>,
    handed: u64,
    done: u64,
}

/// A change in the log.
#[derive(Clone)]
enum Entry {
    Change(Subject, bool),
    /// This node is a member no more, or from now on.
    Gone(usize),
    Joined(usize),
}

struct World {
    random: fastrand::Rng,
    now_ms: u64,
    log: Vec<Entry>,
    /// Who is there by the log, at its end.
    there: BTreeSet<Subject>,
    /// Members by the log, growing; nodes by their place.
    members: Vec<usize>,
    nodes: BTreeMap<usize, Node>,
    receiver: Receiver,
    takes: bool,
    /// Changes of each subject as the log has them.
    happened: Receiver,
    kills: usize,
    /// Where the log was lost: until all of before it is told, the node that reports may not be
    /// killed. Who has not read a part of the log does not know what was told of it.
    settles_at: Option<usize>,
}

fn subject(n: usize) -> Subject {
    format!("c{n}~").into()
}

impl World {
    fn new(seed: u64) -> World {
        let mut world = World {
            random: fastrand::Rng::with_seed(seed),
            now_ms: 0,
            log: Vec::new(),
            there: BTreeSet::new(),
            members: Vec::new(),
            nodes: BTreeMap::new(),
            receiver: Receiver::new(),
            takes: true,
            happened: Receiver::new(),
            kills: 0,
            settles_at: None,
        };
        (0..3).for_each(|node| world.join(node));
        world
    }

    fn join(&mut self, node: usize) {
        self.log.push(Entry::Joined(node));
        self.members.push(node);
        let reports = Reports::new();
        let new = Node { reports, read: 0, queue: VecDeque::new(), handed: 0, done: 0 };
        self.nodes.insert(node, new);
    }

    fn change(&mut self) {
        let subject = subject(self.random.usize(0..5));
        let is_there = !self.there.contains(&subject);
        match is_there {
            true => self.there.insert(subject.clone()),
            false => self.there.remove(&subject),
        };
        self.happened.entry(subject.clone()).or_default().push(is_there);
        self.log.push(Entry::Change(subject, is_there));
    }

    /// Who is there, and who the members are, at a place of the log.
    fn at(&self, place: usize) -> (Vec<Subject>, Vec<usize>) {
        let (mut there, mut members) = (BTreeSet::new(), Vec::new());
        for entry in &self.log[..place] {
            match entry {
                Entry::Change(subject, true) => drop(there.insert(subject.clone())),
                Entry::Change(subject, false) => drop(there.remove(subject)),
                Entry::Joined(node) => members.push(*node),
                Entry::Gone(node) => members.retain(|other| other != node),
            }
        }
        (there.into_iter().collect(), members)
    }

    /// A node reads some of the log, and does what follows of it.
    fn read(&mut self, id: usize, most: usize) {
        let now_ms = self.now_ms;
        let mut told = SubjectChanges::new();
        for _ in 0..most {
            let (log, node) = (&self.log, self.nodes.get_mut(&id).unwrap());
            let Some(entry) = log.get(node.read).cloned() else { break };
            node.read += 1;
            node.reports.read(node.read as u64);
            match entry {
                Entry::Joined(other) if other == id => {
                    let list = self.at(self.nodes[&id].read).0;
                    self.nodes.get_mut(&id).unwrap().reports.settled(list, now_ms, &mut told);
                }
                Entry::Change(subject, is_there) if node.reports.has_list() => {
                    node.reports.changed(subject, is_there, now_ms, &mut told);
                }
                Entry::Gone(_) => self.repeat(id),
                _ => {}
            }
        }
        let is_first = {
            let node = &self.nodes[&id];
            node.reports.has_list() && self.at(node.read).1.first() == Some(&id)
        };
        // It waits for what the others repeat.
        let gone = self.log.iter().rposition(|entry| matches!(entry, Entry::Gone(_)));
        let have_read = gone.is_none_or(|gone| self.nodes.values().all(|node| node.read > gone));
        let is_alone = self.nodes.len() == 1 || !self.nodes.values().any(|n| n.reports.is_synced());
        let node = self.nodes.get_mut(&id).unwrap();
        let may_begin = have_read && (node.reports.is_synced() || is_alone);
        if is_first && !node.reports.is_reporting() && may_begin {
            node.reports.begin(now_ms, &mut told);
        }
        node.reports.tick(now_ms, &mut told);
        node.handed += told.len() as u64;
        node.queue.extend(told);
        let handed = node.handed;
        node.reports.handed(|| handed);
    }

    /// A node tells all others up to where it knows that all was taken.
    fn repeat(&mut self, id: usize) {
        let Some(taken) = self.nodes[&id].reports.taken_as_known() else { return };
        let others = self.nodes.iter_mut().filter(|(other, _)| **other != id);
        others.for_each(|(_, other)| other.reports.taken_up_to(taken));
    }

    /// The receiver takes what a node that reports has for it, and the others may hear of that.
    fn deliver(&mut self, id: usize) {
        let node = self.nodes.get_mut(&id).unwrap();
        if !node.reports.is_reporting() {
            return;
        }
        let most = if self.takes { self.random.usize(0..4) } else { 0 };
        for (subject, is_there) in node.queue.drain(..most.min(node.queue.len())) {
            self.receiver.entry(subject).or_default().push(is_there);
            node.done += 1;
        }
        if self.random.bool() {
            // It was killed before it saw that all was taken.
            let done = node.done;
            node.reports.take(|mark| *mark <= done);
        }
        let Some(taken) = node.reports.taken() else { return };
        let others: Vec<usize> = self.nodes.keys().copied().filter(|other| *other != id).collect();
        for other in others {
            // They hear of the one that they know to report.
            let knows = self.at(self.nodes[&other].read).1.first() == Some(&id);
            if knows && self.random.f64() > LOSS {
                self.nodes.get_mut(&other).unwrap().reports.taken_up_to(taken);
            }
        }
    }

    /// A node that does not know what was told asks another one.
    fn ask(&mut self, id: usize) {
        let Some(at) = self.nodes[&id].reports.asks_up_to() else { return };
        let kept = self.nodes.values().find_map(|other| {
            other.reports.kept_up_to(at).map(|kept| kept.cloned().collect::<Vec<Change>>())
        });
        if let Some(kept) = kept {
            self.nodes.get_mut(&id).unwrap().reports.sync(at, kept);
        }
    }

    fn step(&mut self) {
        self.now_ms += self.random.u64(0..800);
        match self.random.u32(0..20) {
            0..8 => self.change(),
            8 => self.takes = !self.takes,
            9 => self.kill(),
            10 if self.nodes.len() < 4 => self.join(self.log.len() + 10),
            11 => {
                // The log is lost: all begin anew, and none before it has read all there is.
                let (all, now_ms) = (self.log.len(), self.now_ms);
                self.settles_at = Some(all);
                let there: Vec<Subject> = self.there.iter().cloned().collect();
                for node in self.nodes.values_mut() {
                    node.queue.clear();
                    (node.done, node.read) = (node.handed, all);
                    node.reports.lost();
                    node.reports.read(all as u64);
                    node.reports.settled(there.clone(), now_ms, &mut SubjectChanges::new());
                }
            }
            _ => {}
        }
        for id in self.nodes.keys().copied().collect::<Vec<_>>() {
            let most = self.random.usize(0..5);
            self.read(id, most);
            self.deliver(id);
            if self.random.bool() {
                self.ask(id);
            }
        }
    }

    /// The node that reports is killed, if another one knows what it has told.
    fn kill(&mut self) {
        let is_known = |id: &usize| self.nodes[id].reports.is_synced();
        let knowing = self.members.iter().skip(1).filter(|id| is_known(id)).count();
        let reporter = self.members.first().map(|first| &self.nodes[first].reports);
        let first = reporter.filter(|reports| reports.is_reporting()).map(|of| of.kept.front());
        let has_told = |at: usize| {
            first.is_some_and(|first| first.is_none_or(|change| change.sequence > at as u64))
        };
        if self.settles_at.is_some_and(|at| !has_told(at)) {
            return;
        }
        if knowing > 0 {
            let node = self.members.remove(0);
            self.nodes.remove(&node);
            self.log.push(Entry::Gone(node));
            self.kills += 1;
        }
    }

    /// Nothing changes any more, and all is told.
    fn rest(&mut self) {
        self.takes = true;
        for _ in 0..300 {
            self.now_ms += 100;
            for id in self.nodes.keys().copied().collect::<Vec<_>>() {
                self.read(id, usize::MAX);
                self.deliver(id);
                self.ask(id);
            }
        }
    }

    fn check(&self, seed: u64) {
        for (subject, told) in &self.receiver {
            let mut told = told.clone();
            told.dedup();
            assert!(told[0], "{subject} was told to be gone first, seed {seed}");
            let is_there = self.there.contains(subject);
            assert_eq!(told.last(), Some(&is_there), "{subject}, seed {seed}");
        }
        for (subject, happened) in &self.happened {
            assert!(self.receiver.contains_key(subject), "{subject} {happened:?}, seed {seed}");
        }
        for (id, node) in &self.nodes {
            assert!(node.reports.kept.is_empty(), "{id} keeps what was taken, seed {seed}");
        }
    }
}

#[test]
fn what_a_receiver_is_told_alternates_and_ends_with_what_is_so_whichever_nodes_are_killed() {
    let (first, mut kills, mut doubles) = (testing::seed(), 0, 0);
    for seed in first..first + 60 {
        let mut world = World::new(seed);
        for _ in 0..200 {
            world.step();
        }
        world.rest();
        world.check(seed);
        kills += world.kills;
        let told = world.receiver.values();
        doubles +=
            told.map(|told| told.windows(2).filter(|two| two[0] == two[1]).count()).sum::<usize>();
    }
    assert!(kills > 20 && doubles > 0, "{kills} kills, {doubles} doubles: nothing was tried");
}

/// The time is that of the one that takes over: each pair is told, none is lost or made up.
#[test]
fn each_pair_that_was_not_taken_is_told_by_the_next_one() {
    let (mut reports, mut told) = (Reports::<u64>::new(), SubjectChanges::new());
    reports.settled(Vec::new(), 0, &mut told);
    reports.taken_up_to(0);
    let mut change = |at: u64, is_there| {
        reports.read(at);
        reports.changed(subject(1), is_there, at, &mut told);
    };
    change(1_000, true);
    change(2_000, false);
    change(4_999, true);
    change(6_000, false);
    change(9_001, true);
    assert!(told.is_empty(), "another one tells");
    reports.begin(20_000, &mut told);
    let told_of: Vec<bool> = told.iter().map(|(_, is_there)| *is_there).collect();
    // It was back after 2,999 ms, of which the other one may have thought otherwise; and after
    // 3,001.
    assert_eq!(told_of, [true, true, false, true]);
    assert_eq!(reports.taken(), Some(999));
    reports.handed(|| 3);
    assert!(!reports.take(|mark| *mark < 3) && reports.take(|mark| *mark == 3));
    assert_eq!(reports.taken(), Some(9_001));
}

#[test]
fn what_waits_for_its_grace_is_not_taken_and_flapping_holds_it_up_no_longer() {
    let (mut reports, mut told) = (Reports::<u64>::new(), SubjectChanges::new());
    reports.settled(Vec::new(), 0, &mut told);
    reports.begin(0, &mut told);
    for second in 1..60 {
        reports.read(second);
        reports.changed(subject(1), second % 2 == 1, 1_000 * second, &mut told);
        reports.tick(1_000 * second, &mut told);
        reports.handed(|| 0);
        reports.take(|_| true);
        assert!(reports.kept.len() <= 4, "{}", reports.kept.len());
    }
    assert_eq!(told.len(), 1, "it was never gone for three seconds");
    assert_eq!(reports.taken(), Some(57), "whoever went then may have to be told");
}

#[test]
fn what_nobody_takes_is_bounded_and_the_list_stays_true() {
    let (mut reports, mut told) = (Reports::<u64>::new(), SubjectChanges::new());
    reports.settled(Vec::new(), 0, &mut told);
    reports.taken_up_to(0);
    for n in 0..2 * KEPT_MAX as u64 + 11 {
        reports.read(n + 1);
        reports.changed(subject(0), n % 2 == 0, 4_000 * n, &mut told);
    }
    assert_eq!(reports.kept.len(), KEPT_MAX);
    reports.begin(u64::MAX / 2, &mut told);
    assert_eq!(told.last(), Some(&(subject(0), true)));
    assert!(told.windows(2).all(|two| two[0].1 != two[1].1), "it alternates");
}

#[test]
fn whoever_goes_on_in_order_tells_nothing_twice() {
    let mut told = SubjectChanges::new();
    let mut nodes = [Reports::<u64>::new(), Reports::<u64>::new()];
    nodes.iter_mut().for_each(|node| node.settled(Vec::new(), 0, &mut told));
    nodes[0].begin(0, &mut told);
    nodes[1].taken_up_to(0);
    let changes = [(1, true, 0), (2, true, 0), (1, false, 10_000), (3, true, 10_500)];
    for (at, (n, is_there, at_ms)) in changes.into_iter().enumerate() {
        for node in &mut nodes {
            node.read(at as u64 + 1);
            node.changed(subject(n), is_there, at_ms, &mut told);
        }
    }
    assert_eq!(told.drain(..).count(), 3);
    nodes[0].handed(|| 3);
    nodes[0].take(|_| true);
    let (at, pending) = nodes[0].pending().unwrap();
    let pending: Vec<Change> = pending.into_iter().cloned().collect();
    assert_eq!((at, pending.len(), &pending[0].subject), (4, 1, &subject(1)));
    let next = &mut nodes[1];
    next.handed_over(at, pending);
    next.read(5);
    next.changed(subject(1), true, 12_000, &mut told);
    next.begin(12_500, &mut told);
    next.tick(20_000, &mut told);
    assert_eq!(told, [], "it was back in time");
    next.read(6);
    next.changed(subject(2), false, 21_000, &mut told);
    next.tick(24_000, &mut told);
    assert_eq!(told, [(subject(2), false)]);
}

#[test]
fn what_was_handed_over_as_of_before_the_list_is_no_ground_to_go_on_from() {
    let (mut reports, mut told) = (Reports::<u64>::new(), SubjectChanges::new());
    reports.read(7);
    // It has come behind the record 5: the one before has not told it.
    reports.settled(vec![subject(1)], 0, &mut told);
    reports.handed_over(5, Vec::new());
    reports.begin(10_000, &mut told);
    assert_eq!(told, [(subject(1), true)]);
}
