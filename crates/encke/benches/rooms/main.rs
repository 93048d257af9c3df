//! `cargo bench -p encke --bench rooms`: what conversations cost a server with its own settings.
//!
//! The rows:
//! - `publish`: WebSocket clients in rooms of ten publish to their rooms. First each of 256
//!   publishes as soon as it is answered: deliveries a second, and the server's processor time for
//!   a send. Then they publish at half of that rate and at even intervals: the 99th percentile from
//!   when an event was due until it was heard. Beside it the same rooms hear what one application
//!   sends by the API;
//! - `members`: 1,000 members of a room all watch it while others come and go. What each one was
//!   told is applied to the list that it got, and must be what is there. With `--kill-every N` the
//!   server is killed that often, and all come back to another one;
//! - `idle`: what a silent member of a room takes of the server's memory (`RssAnon`), and
//!   what it takes where the server keeps no members.
//!
//! Server and clients share the cores; the processor time is the server's alone. A list that does
//! not fit, or an event that is lost, makes the exit code 1.
//!
//! Options, after `--`: `--clients N` (default 10,000), `--members N` (default 1,000),
//! `--changes N` a second (default 100), `--room N` (members of each room of `idle`, default 10),
//! `--seconds N` of each measurement (default 10), `--kill-every SECONDS` (default 0, never), and
//! `--rows publish,members` for some rows alone. Ten minutes with a kill each minute:
//! `--rows members --seconds 600 --kill-every 60`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod crowd;
mod frames;
#[allow(clippy::unwrap_used, dead_code, unused_imports, reason = "a part of what the tests use")]
#[path = "../../tests/it/harness/mod.rs"]
mod harness;
mod idle;
mod members;
mod publish;

use serde_json::{Value, json};

use harness::{TOKEN_SECRET, in_seconds, signed};

/// Clients of one room, where it is not one room for all.
const ROOM: usize = 10;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// What is asked for.
struct Plan {
    clients: usize,
    room: usize,
    members: usize,
    changes: u64,
    seconds: f64,
    kill_every: f64,
    rows: String,
}

fn main() -> Outcome<()> {
    sys::limits::raise_descriptors()?;
    let plan = plan()?;
    let cores = std::thread::available_parallelism()?.get();
    println!("{cores} cores, {} s a measurement", plan.seconds);
    for row in plan.rows.split(',') {
        match row {
            "publish" => publish::run(&plan)?,
            "members" => members::run(&plan)?,
            "idle" => idle::run(&plan)?,
            _ => return Err(format!("there is no row {row}").into()),
        }
    }
    Ok(())
}

fn plan() -> Outcome<Plan> {
    let mut plan = Plan {
        clients: 10_000,
        room: ROOM,
        members: 1_000,
        changes: 100,
        seconds: 10.0,
        kill_every: 0.0,
        rows: "publish,members,idle".into(),
    };
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{option} takes a value"))?;
        match option.as_str() {
            "--clients" => plan.clients = value.parse()?,
            "--room" => plan.room = value.parse::<std::num::NonZeroUsize>()?.get(),
            "--members" => plan.members = value.parse()?,
            "--changes" => plan.changes = value.parse()?,
            "--seconds" => plan.seconds = value.parse()?,
            "--kill-every" => plan.kill_every = value.parse()?,
            "--rows" => plan.rows = value,
            _ => return Err(format!("there is no option {option}").into()),
        }
    }
    Ok(plan)
}

/// The option of a server whose streams need these tokens.
fn token_option() -> String {
    format!("--token-key={TOKEN_SECRET}")
}

/// A token of the user `sub`, whose name is told, who may be in each room and see who else is.
fn token(sub: &str) -> String {
    token_of(sub, &json!({ "info": { "name": sub } }))
}

/// Likewise, with these claims beside.
fn token_of(sub: &str, beside: &Value) -> String {
    let mut encke = json!({ "ids": ["room:*"], "members": ["room:*"] });
    if let (Some(encke), Some(beside)) = (encke.as_object_mut(), beside.as_object()) {
        encke.extend(beside.clone());
    }
    signed(&json!({ "sub": sub, "exp": in_seconds(3_600), "encke": encke }))
}
