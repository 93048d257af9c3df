//! The nemesis: three nodes on real servers, listeners that come and go on, senders and changes of
//! the graph, and a plan of faults that a seed draws. Every run is checked by the same oracle
//! ([`check`]), and its seed is told with its plan when one of them breaks.
//!
//! The runs here are short and few; `cargo bench --bench nodes -- nemesis --runs 100` has longer
//! ones.

mod checker;
mod listener;
mod plan;
mod record;
mod scene;
mod senders;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use checker::{Sums, check};
use listener::Listener;
use plan::{NODES, Plan};
use record::{Entry, Outcome, Pair, Record, Sample, Subject};
use rig::oracle::Expected;
use scene::{Scene, is_member, lock};
use senders::Sender;
use serde_json::json;

use crate::harness::{Api, DEADLINE};

/// Listeners, spread over the nodes.
const LISTENERS: usize = 9;

/// Those who send, one event after the other; the first sends lines.
const SENDERS: usize = 4;

/// Those who change the graph.
const CHANGERS: usize = 2;

/// How often nodes are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the plan of that seed. `None` where a server is missing; else what it came to and what is
/// wrong.
pub(crate) fn run(seed: u64, length: Duration, options: &[&str]) -> Option<Outcomes> {
    run_plan(Plan::of(seed, length), options)
}

/// Runs the plan of that seed in which stores of NATS go back.
pub(crate) fn run_stores(seed: u64, length: Duration) -> Option<Outcomes> {
    run_plan(Plan::of_stores(seed, length), &[])
}

fn run_plan(plan: Plan, options: &[&str]) -> Option<Outcomes> {
    let seed = plan.seed;
    let scene = Scene::start(plan.nats, options)?;
    scene.wait_well(DEADLINE).unwrap();
    follow(&Api::new(scene.nodes[0].api));
    let record = Record::new(LISTENERS, NODES);
    let [stop, settle, end] = [false; 3].map(AtomicBool::new);
    thread::scope(|scope| {
        let (scene, record) = (&scene, &record);
        for number in 0..LISTENERS {
            let random = fastrand::Rng::with_seed(seed ^ (number as u64) << 16);
            let (settle, stop) = (&settle, &end);
            let listener = Listener { number, scene, record, settle, stop, random };
            scope.spawn(move || listener.stay());
        }
        for node in 0..NODES {
            let end = &end;
            scope.spawn(move || look(scene, record, node, end));
        }
        let sender = |number| Sender::new(number, seed, scene, record, &stop);
        let mut senders = Vec::new();
        for number in 0..SENDERS + CHANGERS {
            let sender = sender(number);
            senders.push(scope.spawn(move || match number {
                0..SENDERS => sender.go_on(),
                _ => sender.change(),
            }));
        }
        // Whatever panics, the others must end: their scope waits for them.
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            play(scene, record, &plan);
            settle.store(true, Ordering::SeqCst);
            scene.wait_well(DEADLINE)
        }));
        stop.store(true, Ordering::SeqCst);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        match played {
            Ok(Ok(())) => {
                last(&sender(SENDERS + CHANGERS), record);
                compare(scene, record);
            }
            Ok(Err(what)) => record.fault(what),
            Err(_) => record.fault("the plan could not be played".to_owned()),
        }
        end.store(true, Ordering::SeqCst);
    });
    let open = lock(&record.open);
    // What took longer than it should was wrong for longer.
    let (sums, wrong) = check(&open, &Plan { steps: open.done.clone(), ..plan.clone() });
    let stderr = scene.stderr();
    let (kinds, plan) = (plan.kinds(), plan.to_string());
    Some(Outcomes { plan, kinds, sums, wrong, stderr })
}

/// What came of a run.
pub(crate) struct Outcomes {
    plan: String,
    kinds: String,
    sums: Sums,
    pub(crate) wrong: Vec<String>,
    stderr: String,
}

impl Outcomes {
    /// A line for people.
    pub(crate) fn line(&self) -> String {
        let Sums { acked, at_least, not_sent, unknown, heard, gaps, streams, pairs, counts } =
            self.sums;
        format!(
            "{acked} acknowledged ({at_least} at_least, {counts} counts checked), {not_sent} not \
             sent, {unknown} unknown; {heard} heard on {streams} streams, {gaps} gaps; {pairs} \
             pairs; {} wrong ({})",
            self.wrong.len(),
            self.kinds
        )
    }

    /// The plan, and what is wrong.
    pub(crate) fn story(&self) -> String {
        let wrong: Vec<_> = self.wrong.iter().take(40).map(|what| format!("  {what}\n")).collect();
        format!("{}wrong:\n{}{}", self.plan, wrong.concat(), self.stderr)
    }
}

/// Whom listeners follow from the beginning on.
fn follow(api: &Api) {
    let pairs: Vec<_> = (0..LISTENERS)
        .flat_map(|listener| {
            [Subject::All, Subject::Half(listener % 2)].map(|subject| {
                json!({"subscriber": record::name(listener), "subscribee": subject.name()})
            })
        })
        .collect();
    api.post("/subscriptions/add", &json!(pairs)).ok();
}

/// Lets everything go wrong in its time, and mends it; enters when that was.
fn play(scene: &Scene, record: &Record, plan: &Plan) {
    let mut times: Vec<(Duration, bool, usize)> = Vec::new();
    for (number, step) in plan.steps.iter().enumerate() {
        times.push((step.from, true, number));
        times.push((step.until, false, number));
    }
    times.sort_unstable();
    lock(&record.open).done = plan.steps.clone();
    for (at, begins, number) in times {
        thread::sleep(at.saturating_sub(record.now()));
        let fault = plan.steps[number].fault;
        if begins {
            // What is to be checked by it must not be before it.
            lock(&record.open).done[number].from = record.now();
            lock(&record.open).done[number].until = Duration::MAX;
            scene.begin(fault);
        } else {
            scene.end(fault);
            lock(&record.open).done[number].until = record.now();
        }
    }
}

/// Looks at a node again and again.
fn look(scene: &Scene, record: &Record, node: usize, end: &AtomicBool) {
    while !end.load(Ordering::SeqCst) {
        let asked = record.now();
        let stats = scene.nodes[node].stats().unwrap_or_default();
        let (member, sees_all) = (is_member(&stats), stats["cluster"]["members"] == NODES);
        let at = record.now();
        lock(&record.open).samples[node].push(Sample { asked, at, member, sees_all });
        thread::sleep(LOOK);
        let late = (record.now() - at).saturating_sub(LOOK);
        let mut open = lock(&record.open);
        open.late = open.late.max(late);
    }
}

/// Sends an event to everybody by each node, and waits until all have heard it: so that every
/// listener has heard what was before.
fn last(sender: &Sender<'_>, record: &Record) {
    let start = Instant::now();
    for node in 0..NODES {
        while !sender.send(node, Subject::All, Expected::Must) {
            if start.elapsed() > DEADLINE {
                return record.fault(format!("node {node} takes no event though all is well"));
            }
            thread::sleep(LOOK);
        }
    }
    let id = {
        let open = lock(&record.open);
        let ids = open.events.iter().filter_map(|event| match event.answer {
            Some((_, Outcome::Acked { id, .. })) => Some(id),
            _ => None,
        });
        ids.max().expect("some were acknowledged")
    };
    let start = Instant::now();
    let has_heard = |entries: &Vec<Entry>| {
        let is_it = |entry: &Entry| matches!(entry, Entry::Event { id: heard, .. } if *heard == id);
        entries.iter().rev().any(is_it)
    };
    loop {
        let waiting: Vec<usize> = {
            let open = lock(&record.open);
            (0..LISTENERS).filter(|&listener| !has_heard(&open.listeners[listener])).collect()
        };
        if waiting.is_empty() {
            return;
        }
        if start.elapsed() > DEADLINE {
            return record.fault(format!("listeners {waiting:?} never hear the last event"));
        }
        thread::sleep(LOOK);
    }
}

/// The graph is what was acknowledged, and the same at all nodes and in PostgreSQL.
fn compare(scene: &Scene, record: &Record) {
    let pairs = lock(&record.open).pairs.clone();
    let stored: u64 =
        scene.sql("select count(*) from encke.subscriptions").parse().expect("a number");
    for (n, node) in scene.nodes.iter().enumerate() {
        let Ok(stats) = node.stats() else { continue };
        if stats["subscriptions"] != stored {
            let here = &stats["subscriptions"];
            record.fault(format!("node {n} has {here} subscriptions, PostgreSQL {stored}"));
        }
        let api = Api::new(node.api);
        for (pair, Pair { listener, is_there, .. }) in pairs.iter().enumerate() {
            let subject = Subject::Pair(pair).name();
            let Some(is_there) = is_there else { continue };
            let here: BTreeSet<String> =
                api.ids(&format!("/subscribers/{subject}"), 100).into_iter().collect();
            if here.contains(&record::name(*listener)) != *is_there {
                record.fault(format!("at node {n} {subject} has {here:?}, {is_there}"));
            }
        }
    }
}

/// Three plans that have most of what can go wrong between them.
#[test]
fn nothing_that_was_acknowledged_is_lost_whatever_goes_wrong() {
    let mut counts = 0;
    for seed in [1, 2, 3] {
        let Some(outcomes) = run(seed, Duration::from_secs(12), &[]) else { return };
        println!("seed {seed}: {}", outcomes.line());
        assert!(outcomes.wrong.is_empty(), "{}", outcomes.story());
        counts += outcomes.sums.counts;
    }
    assert!(counts > 0, "no count could be compared with the streams that stood");
}

/// Of three servers some have an older store, or none any more. `cargo bench --bench nodes --
/// stores` has other plans, in which the log is lost with them.
#[test]
fn stores_of_nats_that_go_back_give_no_id_to_two_events() {
    for seed in [2, 6] {
        let Some(outcomes) = run_stores(seed, Duration::from_secs(8)) else { return };
        println!("seed {seed}: {}", outcomes.line());
        assert!(outcomes.wrong.is_empty(), "{}", outcomes.story());
    }
}

#[test]
fn what_nodes_forget_is_seen() {
    // Whether somebody comes back and has missed something in the few seconds of a run is chance.
    for seed in 1..=5 {
        let Some(outcomes) = run(seed, Duration::from_secs(3), &["--history-bytes=0"]) else {
            return;
        };
        if outcomes.wrong.iter().any(|what| what.contains("is told a gap")) {
            return;
        }
    }
    panic!("it is not seen");
}
