//! Simulation: whole shards under fake sockets and a fake clock, by seed, against a naive model.
//!
//! There is one thread and no kernel. [`net`] is a network that splits, delays, resets and fills up
//! as the seed says, and [`server`] is what is under test. [`world`] drives clients, senders and
//! shards and knows at each moment who must hear what. [`wire`] reads what a client got, byte by
//! byte, in the plainest way. The clock moves by what shards do, too.
//!
//! Each of them is run twice by each seed: by one server, and by [one version after the
//! other](lives), which take its connections over at random moments. Nobody may see that.
//!
//! In every world a turn keeps to its budget. No stream is silent for longer than its keep-alive
//! and none is kept alive early. What is kept for clients is accounted for, no socket is used after
//! its end, and nothing is left of a client that went.

mod addresses;
mod budgets;
mod channel_texts;
mod channel_users;
mod channels;
mod channels_by_seed;
mod channels_missed;
mod channels_shared;
mod check;
mod client;
mod client_sends;
mod crowds;
mod fan_outs;
mod full_queue;
mod gathering;
mod greedy;
mod handed_out;
mod history_reads;
mod left_out;
mod lives;
mod member_infos;
mod members;
mod net;
mod nodes;
mod one;
mod parked;
mod pauses;
mod pollers;
mod polls;
mod publishers;
pub(crate) mod random;
mod resume;
mod saying;
mod scene;
mod secure;
mod sends;
mod server;
mod subscribers;
mod subscribers_by_seed;
mod subscribers_over_nodes;
mod subscribers_upgraded;
mod talk;
mod token_ends;
mod tokens;
mod unplaced;
mod wall;
mod well_known;
mod wire;
mod world;

pub(crate) use random::Random;

use hub::DisconnectReason;
use world::{Plan, World};

use crate::counters::{Snapshot, WorkerSnapshot};

/// In how many steps another version takes over: each plan is run without that and with it.
const UPGRADES: [usize; 2] = [world::NEVER, 60];

fn ended(figures: &WorkerSnapshot, reason: DisconnectReason) -> u64 {
    figures.closed[reason as usize]
}

/// Runs each seed and checks that what the plan is about has really happened: `happened` of the
/// figures of all runs together.
fn run_seeds(
    name: &str,
    seeds: u64,
    plan: impl Fn() -> Plan,
    happened: impl Fn(&WorkerSnapshot) -> bool,
) {
    for upgrade_one_in in UPGRADES {
        let plan = || Plan { upgrade_one_in, ..plan() };
        run_seeds_of(name, seeds, |seed| World::new(seed, plan()).run(), &happened);
    }
}

/// The same for a world of another kind.
fn run_seeds_of(
    name: &str,
    seeds: u64,
    run: impl Fn(u64) -> WorkerSnapshot,
    happened: impl Fn(&WorkerSnapshot) -> bool,
) {
    let mut figures = Snapshot::default();
    let all = each_seed(name, seeds, |seed| figures.workers.push(run(seed)));
    assert!(!all || happened(&figures.whole()), "{:?}", figures.whole());
}

/// Runs so many seeds, or those that [`testing::simulator_seeds`] says. Whether they are enough for
/// what a test is about.
fn each_seed(name: &str, seeds: u64, mut run: impl FnMut(u64)) -> bool {
    let seeds = testing::simulator_seeds(seeds);
    for seed in seeds.tried {
        let again = AgainOnPanic(format!("ENCKE_SEED={seed} cargo test -p engine {name}"));
        run(seed);
        drop(again);
    }
    seeds.are_enough
}

/// Says how to run a failed seed again.
struct AgainOnPanic(String);

impl Drop for AgainOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("again with: {}", self.0);
        }
    }
}

#[test]
fn crowd_of_all_sorts_hears_what_the_model_says() {
    let plan = || Plan { steps: 1500, ..Plan::default() };
    run_seeds("crowd_of_all_sorts", 60, plan, |figures| {
        let reasons = [
            DisconnectReason::ClientClosed,
            DisconnectReason::ClientReset,
            DisconnectReason::LoggedOut,
        ];
        reasons.iter().all(|&reason| ended(figures, reason) > 100)
    });
}

/// Half of the clients read too slowly for what may wait for them.
fn small_backlogs() -> Plan {
    Plan {
        steps: 1500,
        backlog_bytes_max: 600,
        socket_room: 200,
        slow_one_in: 2,
        slow_bytes: 6,
        leave_one_in: 300,
        ..Plan::default()
    }
}

#[test]
fn small_backlogs_disconnect_slow_readers_and_nobody_else() {
    run_seeds("small_backlogs", 50, small_backlogs, |figures| {
        ended(figures, DisconnectReason::SlowReader) > 100
    });
}

#[test]
fn large_audiences_are_written_in_slices_without_loss() {
    let plan = || Plan {
        steps: 1500,
        clients: 400,
        ids: 3,
        sends_per_step: 20,
        slow_one_in: 20,
        leave_one_in: 300,
        ..Plan::default()
    };
    // Fewer writes than deliveries: events that met in an outbox shared a write.
    run_seeds("large_audiences", 5, plan, |figures| figures.writes < figures.deliveries / 2);
}

#[test]
fn full_mailboxes_make_senders_wait_and_lose_nothing() {
    let plan = || Plan { steps: 800, sends_per_step: 400, clients: 10, ids: 2, ..Plan::default() };
    run_seeds("full_mailboxes", 2, plan, |figures| figures.deliveries > 40_000);
}

#[test]
fn clock_that_jumps_ends_only_what_has_timed_out() {
    let plan = || Plan {
        steps: 1500,
        slow_bytes: 6,
        jump_one_in: 20,
        dawdle_one_in: 4,
        ..Plan::default()
    };
    run_seeds("clock_that_jumps", 80, plan, |figures| {
        ended(figures, DisconnectReason::HeadTimeout) > 100 && figures.keepalives > 100
    });
}

/// Who says more than a turn has time for is put off, and is heard and answered all the same.
#[test]
fn small_budgets_put_clients_off_and_lose_nothing() {
    // So few bytes at a time that reads are what clients spend.
    let plan = || Plan { steps: 1500, work_per_turn: 300, read_bytes: 8, ..Plan::default() };
    run_seeds("small_budgets", 40, plan, |figures| figures.deliveries > 4_000);
}

/// What clients do is dealt with later, a little a turn, while mail goes on: nobody who hears, and
/// nobody who has gone, is taken for another.
#[test]
fn reports_that_wait_for_their_turn_lose_nothing() {
    let plan = || Plan { steps: 1500, reports_per_turn: 1, ..Plan::default() };
    run_seeds("reports_that_wait", 40, plan, |figures| {
        ended(figures, DisconnectReason::ClientReset) > 100 && figures.deliveries > 4_000
    });
}

/// The same crowds through TLS, whose records are cut at every byte.
#[test]
fn crowd_through_tls_hears_what_the_model_says() {
    let plan = || Plan { steps: 1500, tls: true, ..Plan::default() };
    run_seeds("crowd_through_tls", 30, plan, |figures| {
        ended(figures, DisconnectReason::LoggedOut) > 50
    });
}

#[test]
fn small_backlogs_through_tls_disconnect_slow_readers_and_nobody_else() {
    let plan = || Plan { tls: true, ..small_backlogs() };
    run_seeds("small_backlogs_through_tls", 30, plan, |figures| {
        ended(figures, DisconnectReason::SlowReader) > 50
    });
}

#[test]
fn small_budgets_through_tls_put_clients_off_and_lose_nothing() {
    let plan =
        || Plan { steps: 1500, work_per_turn: 300, read_bytes: 8, tls: true, ..Plan::default() };
    run_seeds("small_budgets_through_tls", 20, plan, |figures| figures.deliveries > 2_000);
}
