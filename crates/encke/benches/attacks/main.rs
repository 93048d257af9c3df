//! `cargo bench --bench attacks`: what an innocent client notices of others that mean harm, and
//! what they make the server keep.
//!
//! A hundred listeners hear 500 events a second while one attack after the other is tried on a
//! server of its own, from a process of its own that has what the others leave of the cores
//! (`SCHED_IDLE`): a remote one would take none. What is printed: the listeners' latency and the
//! server's memory (`RssAnon`) before, during and after; how long one more client waited at most to
//! be told what it had missed; what part of a core the server took meanwhile, and a worker's
//! longest turn. Latencies are those of each second, and the median of the seconds is printed: a
//! burst of something else on a shared machine spoils one of them. The first rows are no attacks:
//! nothing at all, and busy loops beside the server, one a core, to tell what this machine does to
//! a latency by itself. An event of the innocent that was lost, doubled or refused makes the exit
//! code 1.
//!
//! Options, after `--`: `--seconds N` for each attack (default 10), and names of attacks (default:
//! all).

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, reason = "a run that cannot go on should panic")]

mod clients;
#[expect(dead_code, unused_imports, reason = "a part of what the tests stand on")]
#[path = "../../tests/it/harness/mod.rs"]
mod harness;
mod kept;
mod neighbour;
mod tokens;
mod work;

use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use clients::Target;
use harness::Server;
use neighbour::{Neighbour, Resumer};

/// An attack: returns when the time is up, and what it holds ends with its process.
type Attack = fn(&Target);

const ATTACKS: [(&str, Attack); 18] = [
    ("nothing", |target| target.wait_end()),
    ("busy loops beside", work::busy_loops),
    ("commands on 2,048 ids", work::commands),
    ("polls with 256 ids", work::polls),
    ("resumes with 256 ids", work::resumes),
    ("polls that hang up", work::hung_up),
    ("heads byte by byte", work::slow_heads),
    ("pings, answers unread", work::pings),
    ("half messages", kept::half_messages),
    ("log out, resume, trickle", kept::tricklers),
    ("long names", kept::names),
    ("scattered names", kept::scattered_names),
    ("resets of many ids", kept::resets),
    ("12,000 never read", kept::never_readers),
    ("4,096 silent senders", kept::silent_senders),
    (STRANGER, work::connects),
    ("10,000 new tokens/s", tokens::new_ones),
    ("10,000 bad tokens/s", tokens::bad_ones),
];

/// The attack that this machine's own clients are not allowed to be.
const STRANGER: &str = "connects past a bound";

/// Before an attack, and after it.
const QUIET: Duration = Duration::from_secs(5);

/// How often the server's memory is looked at.
const LOOK: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    sys::limits::raise_descriptors().unwrap();
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [role, name, rest @ ..] = &arguments[..]
        && role == "attack"
    {
        let (_, attack) = ATTACKS.iter().find(|(known, _)| known == name).unwrap();
        attack(&Target::of(rest));
        return ExitCode::SUCCESS;
    }
    let mut names = Vec::new();
    let mut seconds = 10;
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--seconds" => seconds = arguments.next().unwrap().parse().unwrap(),
            _ => names.push(argument),
        }
    }
    println!(
        "{:<26} {:>17} {:>17} {:>17} {:>22} {:>8} {:>7} {:>8}",
        "", "before", "during", "after", "memory", "longest", "server", "longest"
    );
    println!(
        "{:<26} {:>53} {:>22} {:>8} {:>7} {:>8}",
        "",
        "p50 / p99 {max} of the latency in ms",
        "MB before/most/after",
        "resume",
        "% core",
        "turn"
    );
    let chosen = |name: &&str| names.is_empty() || names.iter().any(|chosen| chosen == name);
    let mut all_heard = true;
    for (name, _) in ATTACKS.iter().filter(|(name, _)| chosen(name)) {
        all_heard &= run(name, seconds);
    }
    if all_heard { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One attack on a new server. Whether the innocent heard everything once.
fn run(name: &str, seconds: u64) -> bool {
    // A stranger comes from another address than loopback.
    let listen = if name == STRANGER { "--listen=0.0.0.0:0" } else { "--listen=127.0.0.1:0" };
    let mut options = vec!["--max-connections=16000".to_owned(), "--allow-origin=*".to_owned()];
    options.push(listen.to_owned());
    let door = name.ends_with("tokens/s").then(tokens::Door::make);
    match &door {
        Some(door) => options.extend(door.options()),
        None => options.push("--open".to_owned()),
    }
    let server = Server::start(&Vec::from_iter(options.iter().map(String::as_str)));
    let query = door.as_ref().map_or(String::new(), tokens::Door::query);
    let mut neighbour = Neighbour::start(&server, &query);
    let before = server.anonymous_bytes();
    let first = neighbour.hear(QUIET);
    let resumer = Resumer::start(&server, &query);
    let (cpu, started) = (cpu_seconds(&server), Instant::now());
    let key = door.as_ref().map_or(String::new(), tokens::Door::signing_key);
    let mut attack = start(name, &server, seconds, &key);
    let mut most = 0;
    // Its connections end with it, and that is a part of it.
    let mut status = None;
    let during = neighbour.hear_while(|| {
        most = most.max(server.anonymous_bytes());
        status = attack.try_wait().unwrap();
        status.is_none()
    });
    let cpu = (cpu_seconds(&server) - cpu) / started.elapsed().as_secs_f64() * 100.0;
    assert!(status.unwrap().success(), "the attack could not be tried");
    let resume_ms = resumer.finish().as_secs_f64() * 1e3;
    let heard = [first, during, neighbour.hear(QUIET)];
    let after = server.anonymous_bytes();
    let stats = server.api.stats();
    let longest_ms = stats["turn_seconds_longest"].as_f64().unwrap() * 1e3;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let [first, second, third] = heard.map(|heard| heard.to_string());
    println!(
        "{name:<26} {first:>17} {second:>17} {third:>17} {:>6.1} / {:>5.1} / {:>5.1} \
         {resume_ms:>5.0} ms {cpu:>5.0} % {longest_ms:>5.1} ms",
        mb(before),
        mb(most),
        mb(after)
    );
    neighbour.finish()
}

fn cpu_seconds(server: &Server) -> f64 {
    server.api.stats()["cpu_seconds"].as_f64().unwrap()
}

fn start(name: &str, server: &Server, seconds: u64, key: &str) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("chrt");
    command.args(["--idle", "0"]).arg(program).args(["attack", name]);
    command.args([server.listen(), server.api.address()].map(|address| address.to_string()));
    command.arg(seconds.to_string()).arg(key).spawn().unwrap()
}
