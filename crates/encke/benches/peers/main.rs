//! `cargo bench -p encke --bench peers`: the way of one event that is sent over HTTP, Encke beside
//! a bare loop, and beside Nchan and NATS where they are installed, in one table.
//!
//! Each listener has an SSE stream of its own. An event of 100 bytes goes to one of them, chosen at
//! random. Server, crowd and publishers are processes of their own on the same cores, so that the
//! processor time of the server (all its processes) can be told apart. In each round each system in
//! turn is started, brought online, warmed up for half a second, measured and ended. What is
//! printed are figures of this machine at this hour. What to compare is the ratio to the bare loop,
//! the median of those of the rounds. A line as each row ends also says what the instruments took
//! themselves, and what was refused or lost.
//!
//! The rows:
//! - `flat`: 64 publishers, each sends as soon as it is answered;
//! - `paced`: 10,000 events a second over 64 publishers, at even intervals; latencies count from
//!   when an event was due;
//! - `alone`: one caller, who sends as soon as he is answered;
//! - `users`: 10,000 streams, 1,000 events a second, at even intervals.
//!
//! The systems:
//! - `bare`: the least code that could do it, in this program ([`bare`]): as many threads as cores;
//! - `encke`: `encke serve` with its own settings: history, graph, and keep-alives, which alone of
//!   all it sends to silent streams (a write every 20 s each, 500 a second in `users`);
//! - `kept`: the same with `--keep '*=7d'`: each event goes into the log on disk as well;
//! - `nchan`: nginx with Nchan by `nchan.conf`: Debian's packages `nginx` and `libnginx-mod-nchan`;
//!   its answer says that the event is queued, not that it was delivered;
//! - `nats`: `nats-server` with its own settings. Nothing of it is HTTP: publishers and subscribers
//!   speak its protocol on plain TCP, which is less to read and to write. Each `PUB` has a `PING`
//!   behind it, since only the `PONG` says that it was taken.
//!
//! Options, after `--`: `--connections N` (default 15,000), `--seconds N` a row (default 5),
//! `--rounds N` (default 3), `--only bare,encke` and `--rows flat,paced` choose, `--encke PATH`
//! measures another build of it.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its figures")]

mod bare;
mod child;
#[allow(clippy::unwrap_used, dead_code, unused_imports, reason = "a part of what the tests use")]
#[path = "../../tests/it/harness/mod.rs"]
mod harness;
mod http;
mod listeners;
mod nats;
mod publish;
mod rows;
mod systems;
mod table;
mod wire;

use std::path::PathBuf;
use std::time::Duration;

use rows::Row;
use systems::System;
use table::Table;

/// Payload of each event, as JSON: the size that others publish.
const PAYLOAD_BYTES: usize = 100;

/// How long a system and its crowd may take to be there.
const START_MAX: Duration = Duration::from_secs(60);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// What is asked for.
struct Plan {
    connections: u32,
    seconds: f64,
    rounds: u64,
    systems: Vec<System>,
    rows: Vec<Row>,
    encke: PathBuf,
    cores: usize,
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let Some(outcome) = child::play(&arguments) {
        return outcome;
    }
    let mut plan = plan(&arguments)?;
    let mut missing: Vec<(System, String)> = Vec::new();
    plan.systems.retain(|system| {
        missing.extend(system.missing().map(|why| (*system, why.to_owned())));
        system.missing().is_none()
    });
    println!(
        "{} streams, {} cores, events of {PAYLOAD_BYTES} bytes, {} s a row, {} rounds",
        plan.connections, plan.cores, plan.seconds, plan.rounds
    );
    let mut table = Table::default();
    for round in 1..=plan.rounds {
        println!("round {round}");
        for system in plan.systems.clone() {
            match rows::measure(system, &plan, round) {
                Ok(figures) => table.take(system, figures),
                // The others go on.
                Err(error) => {
                    table.forget(system);
                    plan.systems.retain(|other| *other != system);
                    missing.push((system, error.to_string()));
                }
            }
        }
    }
    table.print();
    for (system, why) in &missing {
        println!("not measured: {}: {why}", system.name());
    }
    let failed = |system: System| missing.iter().any(|(of, _)| *of == system);
    match [System::Bare, System::Encke, System::Kept].into_iter().any(failed) {
        true => Err("not all was measured that is always there".into()),
        false => Ok(()),
    }
}

fn plan(arguments: &[String]) -> Outcome<Plan> {
    let mut plan = Plan {
        connections: 15_000,
        seconds: 5.0,
        rounds: 3,
        systems: System::ALL.to_vec(),
        rows: Row::ALL.to_vec(),
        encke: env!("CARGO_BIN_EXE_encke").into(),
        cores: std::thread::available_parallelism()?.get(),
    };
    let mut arguments = arguments.iter();
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{option} takes a value"))?;
        match option.as_str() {
            "--connections" => plan.connections = value.parse()?,
            "--seconds" => plan.seconds = value.parse()?,
            "--rounds" => plan.rounds = value.parse()?,
            "--only" => plan.systems = chosen(value, &System::ALL, |system| system.name())?,
            "--rows" => plan.rows = chosen(value, &Row::ALL, |row| row.name())?,
            "--encke" => plan.encke = value.into(),
            _ => return Err(format!("there is no option {option}").into()),
        }
    }
    Ok(plan)
}

/// Those of `all` that a list of names chooses, in the order of `all`.
fn chosen<T: Copy>(list: &str, all: &[T], name: fn(&T) -> &'static str) -> Outcome<Vec<T>> {
    let names: Vec<&str> = all.iter().map(name).collect();
    if let Some(unknown) = list.split(',').find(|wanted| !names.contains(wanted)) {
        return Err(format!("no {unknown}: choose of {}", names.join(", ")).into());
    }
    Ok(all
        .iter()
        .copied()
        .filter(|one| list.split(',').any(|wanted| wanted == name(one)))
        .collect())
}
