//! Simulation: whole clusters in one thread by seed, against the plainest model.
//!
//! [`log`] is a log with the faults that logs have, [`store`] the store of record, and [`host`] a
//! node with the server around it. [`world`] is time, and [`network`] what is on its way.
//! [`acting`] and [`serving`] are what servers do for nodes, senders and clients, and [`rooms`]
//! what they know of who is in a room. [`work`] is what people and faults do, as often as [`plan`]
//! says. [`check`] reads the logs once more and says at the end whether:
//!
//! 1. all nodes have the same sum over the log, the same members and the same graph as the store;
//! 2. each client has heard exactly what the log has for it after its place, growing and once, or
//!    was told a gap;
//! 3. a count without "at least" is exact, and one with it is not too great;
//! 4. who was subscribed before a send hears it, on whichever node;
//! 5. a send is in the log once if its sender was told so, and never more than once;
//! 6. each sender's events are in its order;
//! 7. all senders are answered in time, and nothing is left of anything;
//! 8. whoever has read another log than the others has ended it;
//! 9. each list of a room is who is there on all nodes, the same at each, with what was said last;
//! 10. and all the while, whether a node that may go by what it knows, knows all that was revoked;
//! 11. no number that a host knows to be given is given by it to another event, or by an epoch
//!     that it proposes.

mod acting;
mod check;
mod client;
mod host;
mod log;
mod network;
mod plan;
mod rooms;
mod serving;
mod starting;
mod store;
mod work;
mod world;

use plan::{Figures, Plan};
use world::World;

/// Everything at once, but for what makes logs differ.
const ROUGH: Plan = Plan {
    hosts: 3,
    clients: 8,
    faults_ms: 20_000,
    work_ms: 27_000,
    crash: 200,
    pause: 200,
    pause_ms: 4_000,
    cut: 200,
    cut_all: 1_500,
    forget: 0,
    fork: 0,
    gone: 0,
    put_back: 0,
    store_away: 300,
    changes: 10,
    logouts: 50,
    revocations: 0,
    leave: 0,
    take_name: 0,
    long_changes: 4,
    core_loss: 5,
    publish_loss: 5,
    late: 5,
    log_age_ms: 600_000,
    pace_ms: 25,
    sends: 1,
    rooms: 0,
};

/// Runs so many seeds, or those that [`testing::simulator_seeds`] says, and tells what has happened
/// in all of them, if they are enough for that.
fn run_seeds(name: &str, seeds: u64, plan: Plan) -> Option<Figures> {
    let seeds = testing::simulator_seeds(seeds);
    let (mut all, mut failed) = (Figures::default(), Vec::new());
    for seed in seeds.tried {
        match std::panic::catch_unwind(|| run(seed, plan)) {
            Ok(figures) => all.add(&figures),
            Err(_) => {
                eprintln!("again with: ENCKE_SEED={seed} cargo test -p cluster {name}");
                failed.push(seed);
            }
        }
    }
    println!("{name}: {all:?}");
    assert!(failed.is_empty(), "{name}: seeds {failed:?}");
    // A few seeds need not see everything.
    seeds.are_enough.then(|| {
        all.assert_happened(&plan);
        all
    })
}

/// Faults, then work without them, then time for all answers.
fn run(seed: u64, plan: Plan) -> Figures {
    let mut world = World::new(seed, plan);
    let end_ms = 1_000_000 + plan.work_ms.max(plan.faults_ms + plan.pause_ms);
    world.run_until(end_ms + 14_000);
    world.reconnect();
    world.want_all_rooms();
    world.run_until(end_ms + 20_000);
    world.check()
}

#[test]
fn quiet_cluster_hears_all_and_counts_exactly() {
    let plan = Plan { faults_ms: 0, work_ms: 8_000, changes: 2, ..ROUGH };
    let Some(figures) = run_seeds("quiet_cluster", 20, plan) else { return };
    assert_eq!((figures.not_sent, figures.maybe, figures.epochs), (0, 0, 0), "{figures:?}");
    assert!(figures.at_least * 100 < figures.exact, "{figures:?}");
    let by_itself = figures.needs * 100 < figures.exact && figures.reads * 100 < figures.changes;
    assert!(by_itself, "counts and changes come without being asked for: {figures:?}");
}

#[test]
fn rough_cluster_hears_all_once_or_is_told_a_gap() {
    let Some(figures) = run_seeds("rough_cluster", 80, ROUGH) else { return };
    let happened = [figures.exact, figures.at_least, figures.left, figures.voids, figures.fetched];
    assert!(happened.iter().all(|&count| count > 50), "{figures:?}");
    assert_eq!(figures.epochs, 0, "nothing was wrong with the log: {figures:?}");
}

/// Nodes that drain, and processes that start under the name of one that lives.
#[test]
fn nodes_that_leave_or_lose_their_name_end_and_answer_all() {
    let rough = Plan { log_age_ms: 4_000, pause_ms: 9_000, cut_all: 0, ..ROUGH };
    let plan = Plan { leave: 150, take_name: 3, ..rough };
    let Some(figures) = run_seeds("nodes_that_leave", 40, plan) else { return };
    assert!(figures.ends.len() == 2 && figures.ends.values().all(|&n| n > 15), "{figures:?}");
    assert_eq!(figures.epochs, 0, "nothing was wrong with the log: {figures:?}");
}

/// Cuts that are longer than senders wait.
#[test]
fn long_cuts_are_told_to_senders_and_nothing_is_sent_twice() {
    let plan = Plan { cut: 300, cut_all: 600, pause_ms: 14_000, work_ms: 36_000, ..ROUGH };
    let Some(figures) = run_seeds("long_cuts", 20, plan) else { return };
    assert!(figures.not_sent > 50 && figures.maybe > 10, "{figures:?}");
    assert_eq!(figures.epochs, 0, "nothing was wrong with the log: {figures:?}");
}

#[test]
fn log_that_lost_its_tail_or_differs_is_ended_and_all_are_told() {
    let plan = Plan { forget: 400, fork: 600, gone: 1_000, crash: 600, ..ROUGH };
    let Some(figures) = run_seeds("log_that_lost", 40, plan) else { return };
    assert!(figures.epochs > 40 && figures.faults.len() >= 6, "{figures:?}");
    assert!(figures.foreign > 40, "{figures:?}");
}

/// Logs that are put back to an older state, or emptied, while nodes are killed that had read them:
/// no number is given to two events, and nothing is missing without a gap.
#[test]
fn log_that_was_put_back_while_nodes_were_killed_is_ended() {
    let plan = Plan { put_back: 300, forget: 1_500, crash: 300, changes: 0, ..ROUGH };
    let Some(figures) = run_seeds("log_that_was_put_back", 60, plan) else { return };
    assert!(figures.epochs > 60, "{figures:?}");
}

#[test]
fn node_that_was_away_for_longer_than_the_log_tells_a_gap() {
    let plan = Plan { log_age_ms: 4_000, pause_ms: 9_000, cut_all: 0, ..ROUGH };
    let Some(figures) = run_seeds("node_that_was_away", 40, plan) else { return };
    assert!(figures.trimmed > 50, "{figures:?}");
    assert_eq!(figures.epochs, 0, "nothing was wrong with the log: {figures:?}");
}

/// Hardly anybody sends, so that the log is mostly empty, and nothing tells a follower that it has
/// missed something.
#[test]
fn idle_nodes_become_members_again_though_the_log_is_empty() {
    let rough = Plan { log_age_ms: 3_000, pause_ms: 9_000, cut_all: 0, ..ROUGH };
    let often = Plan { crash: 20, pause: 12, cut: 20, leave: 20, take_name: 4, ..rough };
    let plan = Plan { pace_ms: 250, sends: 25, changes: 60, logouts: 0, ..often };
    let Some(figures) = run_seeds("idle_nodes", 80, plan) else { return };
    assert!(figures.trimmed > 50, "{figures:?}");
    assert_eq!(figures.epochs, 0, "nothing was wrong with the log: {figures:?}");
}

/// Processes that begin while the store of record is away: with the graph that they have, where
/// the log has all that it lacks.
#[test]
fn node_that_begins_without_the_store_has_what_the_log_says() {
    let plan = Plan { store_away: 60, crash: 100, changes: 4, log_age_ms: 5_000, ..ROUGH };
    let Some(figures) = run_seeds("node_that_begins", 60, plan) else { return };
    assert!(figures.since > 50, "{figures:?}");
    assert_eq!(figures.epochs, 0, "nothing was wrong with the log: {figures:?}");
}

/// Short cuts and pauses, after which nodes go on at once; long ones; and a log that is trimmed.
#[test]
fn who_may_let_anybody_in_knows_what_is_revoked() {
    let rough = Plan { revocations: 4, cut_all: 600, work_ms: 36_000, ..ROUGH };
    let long = Plan { pause_ms: 14_000, cut: 100, ..rough };
    let trimmed = Plan { log_age_ms: 4_000, pause_ms: 9_000, cut_all: 0, leave: 200, ..rough };
    // A proof that is of its reading, not of its making, is found in one of ten long cuts.
    for (plan, seeds, cut_off) in [(rough, 20, false), (long, 80, true), (trimmed, 20, false)] {
        let Some(figures) = run_seeds("who_may_let", seeds, plan) else { continue };
        let Figures { revoked_at_once, revoked_late, unproved, .. } = figures;
        assert!(revoked_at_once.min(revoked_late) > 50, "{figures:?}");
        assert!(!cut_off || unproved > 50, "{figures:?}");
        assert_eq!(figures.epochs, 0, "nothing was wrong with the log: {figures:?}");
    }
}

/// Users come and go in rooms that nodes begin and stop to want, while nodes die, pause and leave,
/// the log is trimmed, loses its tail and is deleted.
#[test]
fn rooms_have_the_same_members_on_all_nodes() {
    let rough = Plan { rooms: 1, crash: 300, ..ROUGH };
    let trimmed = Plan { log_age_ms: 4_000, pause_ms: 9_000, cut_all: 0, leave: 200, ..rough };
    let lost = Plan { forget: 600, gone: 1_000, ..rough };
    for plan in [rough, trimmed, lost] {
        let Some(figures) = run_seeds("rooms_have", 20, plan) else { continue };
        assert!(figures.lists > 200 && figures.room_changes > 1_000, "{figures:?}");
    }
}
