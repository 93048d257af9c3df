//! `cargo bench --bench nodes` tells what three nodes do, and what they do when something fails.
//! The servers are real: nats-server, PostgreSQL and nodes, each on a free port with its files in a
//! temporary directory. They are gone at the end, also when a row panics.
//!
//! A row is a world of its own: `-- traffic "killed node"` runs these two, and without names all
//! rows run, but not the nemesis. What is printed: each figure beside its bound. An oracle that
//! breaks makes the exit code 1: an event lost, doubled or out of order, a stream lost, a change
//! that is not obeyed. A figure past its bound is marked and leaves the exit code alone, since a
//! shared machine may be the reason.
//!
//! Options, after `--`:
//! - `--seconds N`: how long traffic goes on in each row (default 10);
//! - `--away N`: how long PostgreSQL is away (default 10);
//! - `--pairs N`: size of the graph that a replica takes (default 1,000,000);
//! - `nemesis --runs N [--seed S]`: so many runs, each of a plan of faults that its seed names
//!   (`tests/it/cluster/nemesis`); without `--seed` they begin at 1;
//! - `stores --runs N [--seed S]`: likewise, where stores of NATS are put back or wiped while nodes
//!   are killed, stopped or cut off.
//!
//! `ENCKE_NATS_SERVER` names the server where `target/tools/bin` has none. What all rows start is
//! the `encke` of the same profile: `--profile dev` saves a build where no figure counts.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, reason = "a run that cannot go on should panic")]

mod changes;
mod cost;
mod failures;
#[expect(dead_code, unused_imports, reason = "a part of what the tests stand on")]
#[path = "../../tests/it/harness/mod.rs"]
mod harness;
#[allow(dead_code, reason = "its own tests, which no bench runs, need more of it")]
#[path = "../../tests/it/cluster/nemesis/mod.rs"]
mod nemesis;
#[allow(dead_code, reason = "the benchmark of upgrades needs more of it")]
mod programs;
mod table;
mod traffic;
mod world;

use std::process::ExitCode;
use std::time::Duration;

use table::Table;

/// What is asked for.
struct Options {
    seconds: u64,
    away: Duration,
    pairs: u64,
    runs: u64,
    seed: u64,
}

type Row = fn(&Options, &mut Table);

const ROWS: [(&str, Row); 9] = [
    ("traffic", traffic::traffic),
    ("rate", traffic::rate),
    ("rate, sync always", traffic::rate_sync_always),
    ("killed node", failures::killed_node),
    ("nats leader", failures::nats_leader),
    ("postgresql away", failures::postgresql_away),
    ("subscriptions", changes::subscriptions),
    ("cost", cost::cost),
    ("bootstrap", changes::bootstrap),
];

/// The row that is no row.
const NEMESIS: &str = "nemesis";

/// Likewise, where stores of NATS go back.
const STORES: &str = "stores";

/// How long faults go on in a run of the nemesis.
const RUN: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    sys::limits::raise_descriptors().unwrap();
    let mut names: Vec<String> = Vec::new();
    let second = Duration::from_secs(1);
    let mut options =
        Options { seconds: 10, away: 10 * second, pairs: 1_000_000, runs: 3, seed: 1 };
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        let mut number = || -> u64 { arguments.next().unwrap().parse().unwrap() };
        match &*argument {
            "--seconds" => options.seconds = number(),
            "--away" => options.away = Duration::from_secs(number()),
            "--pairs" => options.pairs = number(),
            "--runs" => options.runs = number(),
            "--seed" => options.seed = number(),
            _ => names.push(argument),
        }
    }
    let known = |name: &String| {
        name == NEMESIS || name == STORES || ROWS.iter().any(|(row, _)| row == name)
    };
    let rows = ROWS.map(|(name, _)| name);
    assert!(names.iter().all(known), "rows are {rows:?}, {NEMESIS}, {STORES}");
    let mut table = Table::new();
    for (name, row) in ROWS {
        if names.is_empty() || names.iter().any(|chosen| chosen == name) {
            table.row(name);
            row(&options, &mut table);
        }
    }
    if names.iter().any(|name| name == NEMESIS) {
        table.row(NEMESIS);
        runs(&options, &mut table, |seed| nemesis::run(seed, RUN, &[]));
    }
    if names.iter().any(|name| name == STORES) {
        table.row(STORES);
        runs(&options, &mut table, |seed| nemesis::run_stores(seed, RUN));
    }
    if table.all_hold() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs of the nemesis, one after the other, with a line each.
fn runs(
    options: &Options,
    table: &mut Table,
    one: impl Fn(u64) -> Option<nemesis::Outcomes> + std::panic::RefUnwindSafe,
) {
    let mut failed = Vec::new();
    for seed in options.seed..options.seed + options.runs {
        let run = || one(seed).expect("all servers are installed");
        match std::panic::catch_unwind(run) {
            Ok(outcomes) => {
                println!("  seed {seed}: {}", outcomes.line());
                if !outcomes.wrong.is_empty() {
                    failed.push(seed);
                    println!("{}", outcomes.story());
                }
            }
            Err(_) => {
                failed.push(seed);
                println!("  seed {seed}: the run broke off");
            }
        }
    }
    table.oracle("runs with something wrong", failed.len() as u64, 0);
    if !failed.is_empty() {
        table.shown("their seeds", format!("{failed:?}"));
    }
}
