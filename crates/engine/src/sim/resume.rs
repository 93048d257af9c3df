//! Clients that go away at any moment, be it in the middle of an event, and come back with the id
//! of the last one they heard; beside them many sends under way at one time.
//!
//! The model knows what was sent, and so what each user must hear after all its connections: every
//! event about its subjects once, in the order of their numbers, but for those of which a notice of
//! a gap said that they may be missing: all up to the moment when it was looked up.

mod check;
mod clients;
mod user;
mod world;

use hub::HistoryLimits;

use self::world::Resumers;
use super::AgainOnPanic;
use super::server::UNBOUNDED;

const IDS: usize = 12;
const USERS: usize = 20;

/// What a run is made of.
#[derive(Clone, Copy)]
struct Plan {
    history: HistoryLimits,
    /// How often the server is started anew.
    lives: usize,
    backlog_bytes_max: usize,
    /// Bytes that the fake kernel takes for a client.
    socket_room: usize,
    work_per_turn: u32,
    /// How often all connections of an id are ended.
    logout_one_in: usize,
}

const PLAN: Plan = Plan {
    history: HistoryLimits { events_max: 1_000, age_ms_max: 60_000, bytes_max: 32 << 20 },
    lives: 1,
    backlog_bytes_max: 64 * 1024,
    socket_room: 1 << 20,
    work_per_turn: UNBOUNDED,
    logout_one_in: 1_000_000,
};

/// What the runs of all seeds came to.
#[derive(Default)]
struct Outcome {
    resumed: u64,
    gaps: u64,
    slow: u64,
}

fn run(name: &str, seeds: u64, plan: Plan) -> Outcome {
    let given = std::env::var("ENCKE_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut outcome = Outcome::default();
    for seed in given.map_or(0..seeds, |seed: u64| seed..seed + 1) {
        let again = AgainOnPanic(format!("ENCKE_SEED={seed} cargo test -p engine {name}"));
        let (mut router, mut world) = Resumers::new(seed, plan);
        for _ in 1..plan.lives {
            drop(world.work(&router, 4_000, false));
            router = world.restart();
        }
        world.run(&router, 12_000);
        world.count();
        assert!(world.check() as u64 <= world.gaps, "a gap is counted");
        outcome.resumed += world.resumed;
        outcome.gaps += world.gaps;
        outcome.slow += world.slow;
        drop(again);
    }
    outcome
}

#[test]
fn client_that_comes_back_hears_all_it_missed_once_and_in_order() {
    let Outcome { resumed, gaps, slow } = run("client_that_comes_back", 50, PLAN);
    // One in twenty came with the id of another server.
    assert!(resumed > 1_000 && gaps > 0 && gaps * 10 < resumed, "{gaps} of {resumed}");
    assert_eq!(slow, 0);
}

#[test]
fn client_that_missed_more_than_is_remembered_is_told_of_a_gap() {
    let history = HistoryLimits { events_max: 2, ..PLAN.history };
    let Outcome { resumed, gaps, .. } =
        run("client_that_missed_more", 40, Plan { history, ..PLAN });
    assert!(resumed > 1_000 && gaps * 10 > resumed, "{gaps} of {resumed}");
}

#[test]
fn client_that_was_away_for_longer_than_is_remembered_is_told_of_a_gap() {
    let history = HistoryLimits { age_ms_max: 100, ..PLAN.history };
    let Outcome { resumed, gaps, .. } = run("client_that_was_away", 20, Plan { history, ..PLAN });
    assert!(resumed > 500 && gaps * 10 > resumed, "{gaps} of {resumed}");
}

#[test]
fn client_of_a_server_that_was_ended_is_told_of_a_gap() {
    let plan = Plan { lives: 3, work_per_turn: 600, ..PLAN };
    let Outcome { resumed, gaps, .. } = run("client_of_a_server_that", 30, plan);
    // Nearly everybody comes back to the second life and to the third.
    let expected = 30 * 2 * USERS as u64 / 2;
    assert!(resumed > gaps && gaps > expected, "{gaps} of {resumed}");
}

/// What clients have missed is more than may wait for them, and more comes meanwhile; some read
/// slowly, some too slowly, some are logged out.
#[test]
fn client_that_catches_up_in_windows_hears_all_once_and_in_order() {
    let plan = Plan {
        backlog_bytes_max: 1_200,
        socket_room: 300,
        work_per_turn: 600,
        logout_one_in: 20,
        ..PLAN
    };
    let Outcome { resumed, gaps, slow } = run("client_that_catches_up", 60, plan);
    assert!(resumed > 1_000 && slow > 100 && gaps * 10 < resumed, "{gaps} of {resumed}, {slow}");
}
