//! `cargo bench -p encke --bench upgrade -- ROW`: what listeners and senders notice of `encke
//! upgrade`, with the real program on free ports.
//!
//! - `million`: a million streams under an event a minute for everybody, and an upgrade. It tells
//!   the streams closed, how long it takes, how long a listener waits for an event meanwhile, and
//!   the memory of both processes;
//! - `traffic`: 10,000 streams of all transports under 1,000 events a second, and 50 upgrades in a
//!   row: nothing closed, lost, doubled or out of order;
//! - `kills`: 200 kills of the old server, the new one and the starter at random moments, counted
//!   by what came of them.
//!
//! Without a name all rows run. An oracle that breaks makes the exit code 1. A figure past its
//! bound is marked and leaves it alone, as in the other benchmarks.
//!
//! Options, after `--`:
//! - `--streams N`: of the row `million` (default 1,000,000) and of `traffic` (10,000);
//! - `--upgrades N`: of `million` (1) and of `traffic` (50);
//! - `--rows FILE`: what `million` sees over time, for `encke plot`;
//! - `--kills N`, `--seed S`: of `kills` (200, 1).

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, reason = "a run that cannot go on should panic")]

#[expect(dead_code, unused_imports, reason = "a part of what the tests stand on")]
#[path = "../../tests/it/harness/mod.rs"]
mod harness;
mod kills;
mod million;
#[allow(dead_code, reason = "a part of what the tests stand on")]
mod parts;
mod probe;
#[allow(dead_code, reason = "of the benchmark of three nodes, which needs more of it")]
#[path = "../nodes/programs.rs"]
mod programs;
mod rows;
#[allow(dead_code, reason = "of the benchmark of three nodes, which needs more of it")]
#[path = "../nodes/table.rs"]
mod table;
mod traffic;

use std::path::PathBuf;
use std::process::ExitCode;

use table::Table;

/// What is asked for; `None` is what the row has of itself.
#[derive(Default)]
struct Options {
    streams: Option<u64>,
    upgrades: Option<u64>,
    rows: Option<PathBuf>,
    kills: Option<u64>,
    seed: Option<u64>,
}

type Row = fn(&Options, &mut Table);

const ROWS: [(&str, Row); 3] =
    [("million", million::million), ("traffic", traffic::traffic), ("kills", kills::kills)];

fn main() -> ExitCode {
    sys::limits::raise_descriptors().unwrap();
    let mut names: Vec<String> = Vec::new();
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        if argument == "--rows" {
            options.rows = Some(arguments.next().unwrap().into());
            continue;
        }
        let mut number = || -> Option<u64> { Some(arguments.next().unwrap().parse().unwrap()) };
        match &*argument {
            "--streams" => options.streams = number(),
            "--upgrades" => options.upgrades = number(),
            "--kills" => options.kills = number(),
            "--seed" => options.seed = number(),
            _ => names.push(argument),
        }
    }
    let known = |name: &String| ROWS.iter().any(|(row, _)| row == name);
    assert!(names.iter().all(known), "rows are {:?}", ROWS.map(|(name, _)| name));
    let mut table = Table::new();
    for (name, row) in ROWS {
        if names.is_empty() || names.iter().any(|chosen| chosen == name) {
            table.row(name);
            row(&options, &mut table);
        }
    }
    if table.all_hold() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
