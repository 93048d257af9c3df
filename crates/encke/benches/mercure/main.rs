//! `cargo bench -p encke --bench mercure`: what subscribers and publishers of the Mercure protocol
//! cost a server, which is the `encke` of the same profile, with its own settings but for a key.
//!
//! The rows:
//! - `idle`: bytes of a silent subscriber: the server's memory (`RssAnon`) between crowds, with a
//!   topic of its own, with one topic for all, and for each of four further ones;
//! - `updates`: 64 publishers, each of which sends as soon as it is answered, over the API port. An
//!   update of 100 bytes goes to one of all subscribers. Beside it `--bench peers`' bare loop, or a
//!   hub that you have started, by `--reference`: then there are first updates of all topics, and
//!   updates of 400 that had one before ([`beside`]). A rate is of updates that were heard;
//! - `patterns`: the same to 10,000 patterns, each with one listener: with a beginning of its own,
//!   and with one for all, which are told apart by what is behind their variable. The processor
//!   time of a match is what an update takes more than one to as many plain topics;
//! - `catchup`: a subscriber comes back to 100,000 updates on one topic, again and again. Each must
//!   be there once and in order, and then what is live;
//! - `attacks`: clients that mean harm ([`attacks`]), from a process that has what the others leave
//!   of the cores: the server's memory before, at most, and after.
//!
//! In the last two rows 20 neighbours hear 200 updates a second, each by a topic: latencies count
//! from when an update was due.
//!
//! The figures are printed as a table of Markdown. One that is past its bound, or an update that is
//! lost, refused or heard twice, makes the exit code 1.
//!
//! Options, after `--`: `--connections N` (default 15,000), `--patterns N` (default 10,000),
//! `--updates N` of the catch-up (default 100,000), `--seconds N` of each measurement (default 4),
//! and `--rows idle,updates` for some rows alone. The hub beside which `updates` measures ours is
//! named by `--reference http://HOST:PORT/.well-known/mercure` and `--reference-key FILE`, with the
//! secret of its tokens. It must let anonymous clients listen. With `--reference-pid PID` its
//! processor time is told, too.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its figures")]

mod attackers;
mod attacks;
#[path = "../peers/bare.rs"]
mod bare;
mod beside;
mod catchup;
mod child;
#[allow(clippy::unwrap_used, dead_code, unused_imports, reason = "a part of what the tests use")]
#[path = "../../tests/it/harness/mod.rs"]
mod harness;
#[path = "../peers/http.rs"]
mod http;
mod hub;
mod idle;
mod neighbour;
#[path = "../peers/publish.rs"]
mod publish;
mod reference;
mod table;
mod updates;
mod wire;

use std::process::ExitCode;
use std::time::Duration;

use reference::{Reference, ReferenceOptions};
use table::Table;

/// Payload of each update: the size that others publish.
const PAYLOAD_BYTES: usize = 100;

/// How long a crowd, or what an attack sets up, may take to be there.
const START_MAX: Duration = Duration::from_secs(60);

/// What may come on top of the time of a measurement: the last answers, the last updates.
const GRACE: Duration = Duration::from_secs(30);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// What is asked for.
struct Plan {
    connections: u32,
    patterns: u32,
    updates: u64,
    seconds: f64,
    rows: String,
    reference: Option<Reference>,
}

fn main() -> Outcome<ExitCode> {
    sys::limits::raise_descriptors()?;
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let Some(outcome) = child::play(&arguments) {
        return outcome.map(|()| ExitCode::SUCCESS);
    }
    let plan = plan(&arguments)?;
    let cores = std::thread::available_parallelism()?.get();
    println!(
        "{} subscribers, {} patterns, {cores} cores, updates of {PAYLOAD_BYTES} bytes, {} s a \
         measurement",
        plan.connections, plan.patterns, plan.seconds
    );
    let mut table = Table::default();
    for row in plan.rows.split(',') {
        match row {
            "idle" => idle::run(&plan, &mut table)?,
            "updates" => updates::run(&plan, &mut table)?,
            "patterns" => updates::run_patterns(&plan, &mut table)?,
            "catchup" => catchup::run(&plan, &mut table)?,
            "attacks" => attacks::run(&plan, &mut table)?,
            _ => return Err(format!("there is no row {row}").into()),
        }
    }
    table.print();
    Ok(if table.is_within() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn plan(arguments: &[String]) -> Outcome<Plan> {
    let mut plan = Plan {
        connections: 15_000,
        patterns: 10_000,
        updates: 100_000,
        seconds: 4.0,
        rows: "idle,updates,patterns,catchup,attacks".into(),
        reference: None,
    };
    let mut reference = ReferenceOptions::default();
    let mut arguments = arguments.iter();
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{option} takes a value"))?;
        match option.as_str() {
            "--connections" => plan.connections = value.parse()?,
            "--patterns" => plan.patterns = value.parse()?,
            "--updates" => plan.updates = value.parse()?,
            "--seconds" => plan.seconds = value.parse()?,
            "--rows" => plan.rows.clone_from(value),
            "--reference" => reference.url = Some(value.clone()),
            "--reference-key" => reference.key = Some(value.clone()),
            "--reference-pid" => reference.pid = Some(value.parse()?),
            _ => return Err(format!("there is no option {option}").into()),
        }
    }
    if plan.connections == 0 || plan.patterns == 0 || plan.updates == 0 {
        return Err("at least one connection, one pattern, one update".into());
    }
    plan.reference = reference.read()?;
    Ok(plan)
}
