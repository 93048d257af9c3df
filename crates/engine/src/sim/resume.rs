//! Clients go away at any moment, be it in the middle of an event. They come back with the id of
//! the last one they heard. Beside them many sends are under way at one time.
//!
//! The model knows what was sent, and so what each user must hear after all its connections. That
//! is every event about its subjects once, in the order of their numbers. A notice of a gap says
//! which may be missing: all up to the moment when it was looked up.

mod check;
mod clients;
mod kept;
mod moves;
mod past;
mod upgrades;
pub(super) mod user;
mod world;

use hub::HistoryLimits;

use self::world::Resumers;
use super::each_seed;
use super::server::UNBOUNDED;
use super::world::NEVER;

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
    /// All clients speak TLS.
    tls: bool,
    /// After how many steps, about, another version takes over.
    upgrade_after: usize,
    /// How many of those who have two ids and a WebSocket log in under the second one later; 0 is
    /// none.
    second_id_one_in: usize,
    /// How many want to hear of the time before they came; 0 is none.
    past_one_in: usize,
    /// Of which subjects an archive keeps what is sent, where there is one.
    keeps: Option<Keeps>,
    /// Nobody brings a place that is none of ours.
    none_foreign: bool,
}

/// An archive of a plan.
#[derive(Clone, Copy)]
struct Keeps {
    subject: fn(&str) -> bool,
    /// Events of each.
    events_max: usize,
    /// How often it begins to fail, or ends to.
    fails_one_in: usize,
}

const PLAN: Plan = Plan {
    history: HistoryLimits { events_max: 1_000, age_ms_max: 60_000, bytes_max: 32 << 20 },
    lives: 1,
    backlog_bytes_max: 64 * 1024,
    socket_room: 1 << 20,
    work_per_turn: UNBOUNDED,
    logout_one_in: 1_000_000,
    tls: false,
    upgrade_after: NEVER,
    second_id_one_in: 0,
    past_one_in: 0,
    keeps: None,
    none_foreign: false,
};

/// Each plan is run without another version and with some.
const UPGRADES: [usize; 2] = [NEVER, 400];

/// What the runs of all seeds came to.
#[derive(Default, Debug)]
struct Outcome {
    /// Of all of them, not of one.
    all: bool,
    resumed: u64,
    gaps: u64,
    slow: u64,
    /// Those that came with a place that the server cannot know.
    foreign: u64,
    second_ids: u64,
    /// Streams that began in the past.
    pasts: u64,
    /// What was read of the archive.
    pages: u64,
}

impl Outcome {
    /// Checks that what a test is about has really happened.
    fn expect(&self, happened: bool) {
        assert!(!self.all || happened, "{self:?}");
    }

    /// A run is over.
    fn add(&mut self, world: &mut Resumers) {
        world.count();
        assert!(world.check() as u64 <= world.gaps, "a gap is counted");
        self.resumed += world.resumed;
        self.gaps += world.gaps;
        self.slow += world.slow;
        self.foreign += world.foreign;
        self.second_ids += world.second_ids;
        self.pasts += world.pasts;
        self.pages += world.archive.as_ref().map_or(0, |archive| archive.pages());
    }
}

/// What runs with and without upgrades came to.
fn run(name: &str, seeds: u64, plan: Plan) -> [Outcome; 2] {
    UPGRADES.map(|upgrade_after| run_seeds(name, seeds, Plan { upgrade_after, ..plan }))
}

fn run_seeds(name: &str, seeds: u64, plan: Plan) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.all = each_seed(name, seeds, |seed| {
        let (mut control, mut world) = Resumers::new(seed, plan);
        for _ in 1..plan.lives {
            let left = world.work_and_upgrade(&mut control, 4_000);
            drop(world.work(&control, left, false));
            control = world.restart();
        }
        let left = world.work_and_upgrade(&mut control, 12_000);
        let under_way = world.work(&control, left, true);
        world.end(&control, under_way);
        outcome.add(&mut world);
    });
    outcome
}

#[test]
fn client_that_comes_back_hears_all_it_missed_once_and_in_order() {
    for came in run("client_that_comes_back", 25, PLAN) {
        // One in twenty came with the id of another server.
        came.expect(came.resumed > 1_000 && came.gaps > 0 && came.gaps * 8 < came.resumed);
        assert_eq!((came.gaps, came.slow), (came.foreign, 0), "nobody else is told of a gap");
    }
}

/// Half of them begin in the past, the others are as before.
#[test]
fn stream_that_begins_in_the_past_hears_that_once_and_in_order_and_then_all() {
    for came in run("stream_that_begins_in_the_past", 25, Plan { past_one_in: 2, ..PLAN }) {
        came.expect(came.resumed > 500 && came.pasts > 100);
        assert_eq!((came.gaps, came.slow), (came.foreign, 0), "nobody else is told of a gap");
    }
}

/// The past comes in windows, while more comes than there is room for.
#[test]
fn past_that_comes_in_windows_is_heard_once_and_in_order() {
    let plan = Plan {
        backlog_bytes_max: 1_200,
        socket_room: 300,
        work_per_turn: 600,
        past_one_in: 1,
        ..PLAN
    };
    for came in run("past_that_comes_in_windows", 30, plan) {
        came.expect(came.pasts > 300 && came.slow > 50 && came.gaps * 10 < came.resumed);
    }
}

/// What was forgotten before a stream has begun is no gap.
#[test]
fn past_of_which_some_is_forgotten_is_heard_as_far_as_it_is_known() {
    let history = HistoryLimits { age_ms_max: 3_000, ..PLAN.history };
    for came in run("past_of_which_some", 15, Plan { past_one_in: 1, history, ..PLAN }) {
        came.expect(came.pasts > 100);
    }
}

#[test]
fn client_that_missed_more_than_is_remembered_is_told_of_a_gap() {
    let history = HistoryLimits { events_max: 2, ..PLAN.history };
    for came in run("client_that_missed_more", 25, Plan { history, ..PLAN }) {
        came.expect(came.resumed > 1_000 && came.gaps * 10 > came.resumed);
    }
}

#[test]
fn client_that_was_away_for_longer_than_is_remembered_is_told_of_a_gap() {
    let history = HistoryLimits { age_ms_max: 100, ..PLAN.history };
    for came in run("client_that_was_away", 20, Plan { history, ..PLAN }) {
        came.expect(came.resumed > 500 && came.gaps * 10 > came.resumed);
    }
}

#[test]
fn client_of_a_server_that_was_ended_is_told_of_a_gap() {
    let (seeds, lives) = (15, 3);
    let plan = Plan { lives, work_per_turn: 600, ..PLAN };
    for came in run("client_of_a_server_that", seeds, plan) {
        // Nearly everybody comes back to the second life and to the third.
        let expected = seeds * 2 * USERS as u64 / 2;
        came.expect(came.resumed > came.gaps && came.gaps > expected);
    }
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
    for came in run("client_that_catches_up", 30, plan) {
        came.expect(came.resumed > 1_000 && came.slow > 100 && came.gaps * 10 < came.resumed);
    }
}

/// Some log in under another id meanwhile: what is about that one from then on they hear as well,
/// however much is put by for them.
#[test]
fn client_that_logs_in_under_another_id_while_it_catches_up_hears_all_of_both() {
    let plan = Plan {
        backlog_bytes_max: 1_200,
        socket_room: 300,
        work_per_turn: 600,
        second_id_one_in: 1,
        ..PLAN
    };
    for came in run("logs_in_under_another_id", 30, plan) {
        came.expect(came.resumed > 1_000 && came.second_ids > 500 && came.slow > 100);
    }
}

/// The same through TLS: what was cut off within a record is missed, and heard after it.
#[test]
fn client_that_comes_back_through_tls_hears_all_it_missed_once_and_in_order() {
    for came in run("comes_back_through_tls", 15, Plan { tls: true, ..PLAN }) {
        came.expect(came.resumed > 500 && came.gaps > 0 && came.gaps * 8 < came.resumed);
        assert_eq!((came.gaps, came.slow), (came.foreign, 0), "nobody else is told of a gap");
    }
}

#[test]
fn client_that_catches_up_through_tls_hears_all_once_and_in_order() {
    let plan = Plan {
        backlog_bytes_max: 1_200,
        socket_room: 300,
        work_per_turn: 600,
        logout_one_in: 20,
        tls: true,
        ..PLAN
    };
    for came in run("catches_up_through_tls", 15, plan) {
        came.expect(came.resumed > 500 && came.slow > 50);
        assert_eq!(came.gaps, came.foreign, "nobody else is told of a gap");
    }
}

/// Of two servers each has its own numbers: a place of one is a gap at the other. Who comes back
/// with a place that it kept of this one hears all that it missed here.
#[test]
fn client_that_moves_between_two_servers_is_told_of_a_gap_and_back_hears_all() {
    for upgrade_after in UPGRADES {
        let mut came = Outcome::default();
        came.all = each_seed("client_that_moves", 25, |seed| {
            for mut world in moves::run(seed, Plan { upgrade_after, ..PLAN }) {
                came.add(&mut world);
            }
        });
        came.expect(came.gaps > 500 && came.resumed > came.gaps + 500);
        assert_eq!((came.gaps, came.slow), (came.foreign, 0), "nobody else is told of a gap");
    }
}
