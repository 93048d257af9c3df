//! Two nodes of a cluster that read one log, and users that move between them at any moment.
//!
//! The log is a list of events with their numbers. Each node begins sends ahead, gathers their
//! audiences in any order and posts them in the log's, at its own pace. So a user brings places
//! that a node has posted long ago, or has not come to. Now and then a node loses a piece of the
//! log, or is started anew and reads the last of it again. Or the log ends, and an epoch begins
//! that the nodes notice one after the other.
//!
//! The model knows the log and nothing of the nodes. A user must have heard, over all its
//! connections, each event of the log about its subjects. It heard them once, in the order of their
//! numbers. Events of which a gap said that they may be missing are no part of that. After a gap
//! numbers may go back.

mod check;
mod crowds;
mod node;
mod visits;
mod world;

use hub::HistoryLimits;

use self::world::Cluster;
use super::each_seed;
use super::server::UNBOUNDED;

const IDS: usize = 12;
const USERS: usize = 20;
const NODES: usize = 2;

/// What a run is made of.
#[derive(Clone, Copy)]
struct Plan {
    history: HistoryLimits,
    backlog_bytes_max: usize,
    /// Bytes that the fake kernel takes for a client.
    socket_room: usize,
    work_per_turn: u32,
    /// What passes in a step, in milliseconds, while a node stands still.
    stall_ms: u64,
    /// In how many steps an epoch begins, a node loses a piece of the log, and is started anew.
    epoch_one_in: usize,
    loss_one_in: usize,
    restart_one_in: usize,
    /// All clients speak TLS.
    tls: bool,
}

const NEVER: usize = 100_000_000;

const PLAN: Plan = Plan {
    history: HistoryLimits { events_max: 10_000, age_ms_max: 10_000_000, bytes_max: 32 << 20 },
    backlog_bytes_max: 64 * 1024,
    socket_room: 1 << 20,
    work_per_turn: UNBOUNDED,
    stall_ms: 1,
    epoch_one_in: NEVER,
    loss_one_in: NEVER,
    restart_one_in: NEVER,
    tls: false,
};

/// What the runs of all seeds came to.
#[derive(Default, Debug)]
struct Outcome {
    /// Of all of them, not of one.
    all: bool,
    resumed: u64,
    /// Gaps that were told to those who came back, and in mid-stream.
    resume_gaps: u64,
    gaps: u64,
    /// Clients that came with a place which their node had not come to.
    ahead: u64,
    /// Those that came with a place of another server or of an epoch before.
    foreign: u64,
    /// And those whose place is of no epoch of the log, but above all that their node knew.
    made_up: u64,
    /// Audiences that were gathered anew, and posts that met a full mailbox.
    renewed: u64,
    full: u64,
    slow: u64,
}

impl Outcome {
    /// Checks that what a test is about has really happened.
    fn expect(&self, happened: bool) {
        assert!(!self.all || happened, "{self:?}");
    }

    /// Who has come with a place of another server is told of a gap, unless it goes before: nobody
    /// else.
    fn expect_gaps_of_strange_places(&self) {
        let told = self.foreign..=self.foreign + self.made_up;
        assert!(told.contains(&self.resume_gaps) && self.gaps == 0, "{self:?}");
    }
}

fn run(name: &str, seeds: u64, plan: Plan) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.all = each_seed(name, seeds, |seed| {
        let mut cluster = Cluster::new(seed, plan);
        cluster.work();
        cluster.end();
        cluster.add_to(&mut outcome);
    });
    outcome
}

#[test]
fn user_that_moves_between_nodes_hears_all_once_and_in_order() {
    let came = run("user_that_moves_between_nodes", 25, PLAN);
    came.expect(came.resumed > 1_000 && came.ahead > 200 && came.renewed > 100 && came.full > 100);
    came.expect_gaps_of_strange_places();
}

#[test]
fn user_that_moves_between_nodes_by_tls_hears_all_once_and_in_order() {
    let came = run("user_that_moves_between_nodes_by_tls", 10, Plan { tls: true, ..PLAN });
    came.expect(came.resumed > 400 && came.ahead > 80);
    came.expect_gaps_of_strange_places();
}

#[test]
fn node_that_lags_for_too_long_tells_a_gap() {
    let came = run("node_that_lags", 20, Plan { stall_ms: 60, ..PLAN });
    came.expect(came.ahead > 200 && came.resume_gaps > came.foreign + 20);
}

#[test]
fn node_that_is_started_anew_knows_what_it_has_read_again() {
    let came = run("node_that_is_started_anew", 20, Plan { restart_one_in: 1_500, ..PLAN });
    // Only who has missed more than is read again.
    came.expect(came.resumed > 1_000 && came.resume_gaps < came.foreign + came.resumed / 10);
}

/// Gaps in mid-stream, with readers that have windows and events waiting for them.
fn disasters() -> Plan {
    Plan {
        epoch_one_in: 1_500,
        loss_one_in: 400,
        restart_one_in: 4_000,
        stall_ms: 10,
        backlog_bytes_max: 2_000,
        socket_room: 300,
        work_per_turn: 600,
        ..PLAN
    }
}

#[test]
fn gap_in_mid_stream_is_told_once_and_before_what_was_posted_behind_it() {
    let came = run("gap_in_mid_stream", 40, disasters());
    came.expect(came.gaps > 1_000 && came.resumed > 1_000);
}

#[test]
fn gap_in_mid_stream_by_tls_is_told_once_and_before_what_was_posted_behind_it() {
    let came = run("gap_in_mid_stream_by_tls", 15, Plan { tls: true, ..disasters() });
    came.expect(came.gaps > 300 && came.resumed > 300);
}
