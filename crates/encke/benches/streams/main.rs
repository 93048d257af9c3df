//! `cargo bench -p encke --bench streams`: durable streams under the load of language models, and
//! at rest, with the real program on free ports.
//!
//! The rows:
//! - `bare`: the floor of the disk: a loop without a server writes the same tokens to as many files
//!   and syncs each (`fdatasync`), on as many threads as the server has for the disk;
//! - `relay`: the floor of the whole way, from a writer's socket to a reader's: a loop that is no
//!   server takes the requests, syncs each group of them once, answers and sends on;
//! - `tokens`: so many streams at once, of which each is appended 100 tokens a second by its writer
//!   and read by one reader (`live=sse`), while the server is upgraded three times: from when a
//!   token was due until it was read, and whether one is lost, doubled or out of order. A writer
//!   that waits for an answer sends all tokens that are due then as one append, and repeats what it
//!   has no answer to;
//! - `idle`: what an open stream that nobody uses takes of the server's memory (`RssAnon`), and
//!   what a closed one takes.
//!
//! Writers, readers and server share the cores and the disk. A lost or doubled token makes the
//! exit code 1; a figure past its bound is marked and leaves it alone.
//!
//! Options, after `--`: `--streams N` (default 1,000), `--seconds N` (default 30), `--rate N`
//! tokens a second of a stream (default 100), `--upgrades N` (default 3), `--idle N` streams of
//! the row `idle` (default 100,000), `--data DIRECTORY` on the disk to measure, and `--rows
//! tokens,idle` for some rows alone.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, reason = "a run that cannot go on should panic")]

mod ask;
mod bare;
#[expect(dead_code, unused_imports, reason = "a part of what the tests stand on")]
#[path = "../../tests/it/harness/mod.rs"]
mod harness;
mod idle;
mod readers;
mod relay;
#[allow(dead_code, reason = "a part of what the tests stand on")]
#[path = "../../tests/it/upgrade/served.rs"]
mod served;
#[allow(dead_code, reason = "of the benchmark of three nodes, which needs more of it")]
#[path = "../nodes/table.rs"]
mod table;
mod tokens;
mod writers;

use std::path::PathBuf;
use std::process::ExitCode;

use table::Table;
use tempfile::TempDir;

/// What is asked for.
struct Plan {
    streams: usize,
    seconds: f64,
    /// Tokens a second of a stream.
    rate: f64,
    upgrades: usize,
    idle: usize,
    data: PathBuf,
    rows: String,
}

impl Plan {
    /// A directory on the disk to measure.
    fn directory(&self) -> TempDir {
        tempfile::tempdir_in(&self.data).unwrap()
    }

    /// When token `number` of stream `stream` is due: those of one stream at even intervals, and
    /// those of all streams, too.
    fn due_ns(&self, start_ns: u64, stream: usize, number: u64) -> u64 {
        let turn = number as f64 + stream as f64 / self.streams as f64;
        start_ns + (turn / self.rate * 1e9) as u64
    }
}

fn main() -> ExitCode {
    sys::limits::raise_descriptors().unwrap();
    let plan = plan();
    let cores = std::thread::available_parallelism().unwrap().get();
    println!("{cores} cores, streams in {}", plan.data.display());
    let mut table = Table::new();
    let mut floor_ms = None;
    for name in plan.rows.split(',') {
        table.row(name);
        match name {
            "bare" => bare::run(&plan, &mut table),
            "relay" => floor_ms = Some(relay::run(&plan, &mut table)),
            "tokens" => tokens::run(&plan, &mut table, floor_ms),
            "idle" => idle::run(&plan, &mut table),
            _ => panic!("there is no row {name}"),
        }
    }
    if table.all_hold() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn plan() -> Plan {
    let mut plan = Plan {
        streams: 1_000,
        seconds: 30.0,
        rate: 100.0,
        upgrades: 3,
        idle: 100_000,
        data: std::env::temp_dir(),
        rows: "bare,relay,tokens,idle".into(),
    };
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(option) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("{option} takes a value"));
        match option.as_str() {
            "--streams" => plan.streams = value.parse().unwrap(),
            "--seconds" => plan.seconds = value.parse().unwrap(),
            "--rate" => plan.rate = value.parse().unwrap(),
            "--upgrades" => plan.upgrades = value.parse().unwrap(),
            "--idle" => plan.idle = value.parse().unwrap(),
            "--data" => plan.data = value.into(),
            "--rows" => plan.rows = value,
            _ => panic!("there is no option {option}"),
        }
    }
    plan
}
