//! `cargo bench --bench pusher`: what clients of Pusher Channels cost a server, which is the
//! `encke` of the same profile.
//!
//! The rows, of which `--rows idle,storm` chooses:
//! - `idle`: bytes of an idle connection, in no channel, in one, and for each of four further
//!   channels: the server's memory (`RssAnon`), between crowds of connections;
//! - `members`: likewise of a member of a presence channel of ten, beside one who subscribes to a
//!   public channel of ten, and beside what is said of the member;
//! - `subscribe`: processor time of a subscription, with a signature and without: one connection
//!   subscribes and leaves, flat out, and the difference is what a signature takes;
//! - `neighbour`: 100 clients of a channel hear 200 events a second, alone and beside 10,000
//!   subscriptions a second with signatures: the 99th percentile from when an event was due;
//! - `broadcast`: many clients in one channel hear one event after the other, and as many of
//!   Encke's own WebSockets: deliveries a second, as they are triggered over HTTP;
//! - `storm`: members of presence channels of ten, who hear a private channel too, are cut off at
//!   once and connect again within a second: until all are subscribed, and whether all lists of
//!   the clients and of the API are exact. A client for which there is no place comes again
//!   after a second, as pusher-js does;
//! - `peers`: bytes, triggers a second and deliveries a second, beside other servers that speak the
//!   protocol. `--soketi FOLDER` and `--sockudo PROGRAM` have them [started](others). One that was
//!   started before is named by `--beside CLIENTS,API,PID` (two addresses and a process). It has an
//!   app with the id `1`, the key `app-1` and the secret `a-secret-of-some-length`.
//!
//! A figure that is past its bound makes the exit code 1.
//!
//! Options, after `--`: `--connections N` (of `idle` and `members`, default 16,000),
//! `--subscriptions N` (default 200,000), `--clients N` (of `broadcast` and `peers`, default
//! 100,000), `--storm N` (default 50,000), `--rounds N` (events of a broadcast, default 20),
//! `--seconds N` (of `neighbour`, and of triggers in `peers`, default 10).

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, reason = "a run that cannot go on should panic")]

mod app;
mod broadcast;
mod clients;
mod crowd;
#[path = "../rooms/frames.rs"]
mod frames;
#[expect(dead_code, unused_imports, reason = "a part of what the tests stand on")]
#[path = "../../tests/it/harness/mod.rs"]
mod harness;
mod idle;
mod members;
mod others;
mod subscriptions;

use std::process::ExitCode;
use std::time::Duration;

use broadcast::Beside;
use others::Other;

/// How long a crowd may take to be there, or to hear an event.
const START_MAX: Duration = Duration::from_secs(120);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// What is asked for.
struct Plan {
    connections: u64,
    subscriptions: u64,
    clients: usize,
    storm: usize,
    rounds: usize,
    seconds: f64,
    rows: String,
    beside: Vec<Beside>,
    others: Vec<Other>,
}

fn main() -> Outcome<ExitCode> {
    sys::limits::raise_descriptors()?;
    let (plan, mut is_within) = (plan()?, true);
    for row in plan.rows.split(',') {
        is_within &= match row {
            "idle" => idle::run(&plan)?,
            "members" => members::bytes(&plan)?,
            "subscribe" => subscriptions::run(&plan)?,
            "neighbour" => subscriptions::beside(&plan)?,
            "broadcast" => broadcast::run(&plan)?,
            "storm" => members::storm(&plan)?,
            "peers" => broadcast::peers(&plan)?,
            _ => return Err(format!("there is no row {row}").into()),
        };
    }
    Ok(if is_within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn plan() -> Outcome<Plan> {
    let mut plan = Plan {
        connections: 16_000,
        subscriptions: 200_000,
        clients: 100_000,
        storm: 50_000,
        rounds: 20,
        seconds: 10.0,
        rows: "idle,members,subscribe,neighbour,broadcast,storm,peers".into(),
        beside: Vec::new(),
        others: Vec::new(),
    };
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{option} takes a value"))?;
        match option.as_str() {
            "--connections" => plan.connections = value.parse()?,
            "--subscriptions" => plan.subscriptions = value.parse()?,
            "--clients" => plan.clients = value.parse()?,
            "--storm" => plan.storm = value.parse()?,
            "--rounds" => plan.rounds = value.parse()?,
            "--seconds" => plan.seconds = value.parse()?,
            "--rows" => plan.rows = value,
            "--beside" => plan.beside.push(beside(&value)?),
            "--soketi" => plan.others.push(Other::Soketi(value.into())),
            "--sockudo" => plan.others.push(Other::Sockudo(value.into())),
            _ => return Err(format!("there is no option {option}").into()),
        }
    }
    if plan.connections == 0 || plan.clients < 10 || plan.storm == 0 || plan.rounds == 0 {
        return Err("at least 1 connection, 10 clients, 1 of a storm and 1 round".into());
    }
    Ok(plan)
}

fn beside(text: &str) -> Outcome<Beside> {
    let parts: Vec<&str> = text.split(',').collect();
    let &[listen, api, pid] = parts.as_slice() else {
        return Err("another server is CLIENTS,API,PID".into());
    };
    Ok(Beside { listen: listen.parse()?, api: api.parse()?, pid: pid.parse()? })
}

/// Prints a figure, and says whether it is within its bound.
fn bounded(name: &str, figure: f64, unit: &str, bound: f64) -> bool {
    let is_within = figure <= bound;
    let past = if is_within { "" } else { ", which it is past" };
    println!("{name}: {figure:.1} {unit} (bound: {bound}{past})");
    is_within
}
