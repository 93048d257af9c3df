//! `cargo bench --bench attacks`: what an innocent client notices of others that mean harm, and
//! what they make the server keep.
//!
//! A hundred listeners hear 500 events a second while one attack after the other is tried, each on
//! a server of its own. The attacker is a process of its own that has what the others leave of the
//! cores (`SCHED_IDLE`). A remote one would take none. What is printed: the listeners' latency and
//! the server's memory (`RssAnon`) before, during and after. Also how long one more client waited
//! at most to be told what it had missed, what part of a core the server took meanwhile, and a
//! worker's longest turn. Latencies are those of each second, and the median of the seconds is
//! printed: a burst of something else on a shared machine spoils one of them. The first rows are no
//! attacks: nothing at all, and busy loops beside the server, one a core, to tell what this machine
//! does to a latency by itself. An event of the innocent that was lost, doubled or refused makes
//! the exit code 1.
//!
//! Rows that begin with `TLS` are against the port for TLS. There 20 more listeners hear 200 events
//! a second and 40 clients a second come anew. A second line has the listeners' latency. A third
//! has how long those who came waited from the connect to the answer's head, before and during.
//!
//! Rows that begin with `Pusher` are by users of an app of Pusher Channels. Attacks on a Mercure
//! hub are rows of `cargo bench --bench mercure`.
//!
//! Rows that begin with `kept` are against a server that keeps an id of 100,000 events on disk, of
//! which the rule keeps 50,000.
//!
//! Options, after `--`: `--seconds N` for each attack (default 10), and names of attacks (default:
//! all).

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, reason = "a run that cannot go on should panic")]

mod clients;
mod disk;
mod due;
#[expect(dead_code, unused_imports, reason = "a part of what the tests stand on")]
#[path = "../../tests/it/harness/mod.rs"]
mod harness;
mod kept;
mod neighbour;
mod pusher;
mod secure;
mod tls;
mod tokens;
mod work;

use std::net::SocketAddr;
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use clients::Target;
use harness::Server;
use neighbour::{Neighbour, Resumer};
use secure::Comers;

/// An attack: returns when the time is up, and what it holds ends with its process.
type Attack = fn(&Target);

const ATTACKS: [(&str, Attack); 44] = [
    ("nothing", |target| target.wait_end()),
    ("busy loops beside", work::busy_loops),
    ("commands on 2,048 ids", work::commands),
    ("polls with 256 ids", work::polls),
    ("resumes with 256 ids", work::resumes),
    ("polls that hang up", work::hung_up),
    ("heads byte by byte", work::slow_heads),
    ("polls far ahead", work::polls_ahead),
    ("commands far ahead", work::commands_ahead),
    ("compressed commands ahead", work::compressed_ahead),
    ("compressed, empty blocks", work::empty_blocks_ahead),
    ("publishes past the rate", work::publishes),
    (PUBLISHES, work::publishes),
    ("pings, answers unread", work::pings),
    ("half messages", kept::half_messages),
    ("log out, resume, trickle", kept::tricklers),
    ("long names", kept::names),
    ("scattered names", kept::scattered_names),
    ("resets of many ids", kept::resets),
    ("12,000 never read", kept::never_readers),
    ("4,096 silent senders", kept::silent_senders),
    ("64 KiB about 100 ids", kept::long_events_about_many),
    ("12,000 keep-alives at once", due::keep_alives),
    ("12,000 time-outs at once", due::time_outs),
    ("12,000 logged out at once", due::logged_out),
    (REVOKED, due::revoked),
    (FOREIGN, work::connects),
    ("10,000 new tokens/s", tokens::new_ones),
    ("10,000 bad tokens/s", tokens::bad_ones),
    ("Pusher, good signatures", pusher::good_signatures),
    ("Pusher, bad signatures", pusher::bad_signatures),
    ("Pusher, subscribe, leave", pusher::subscribe_and_leave),
    ("Pusher, flapping members", pusher::flapping_members),
    ("Pusher, endless channels", pusher::endless_channels),
    ("Pusher, garbage", pusher::garbage),
    ("kept, resumes of 100,000", disk::resumes),
    ("kept, resumes unread", disk::unread_resumes),
    ("kept, pages unread", disk::unread_pages),
    ("TLS, nothing", |target| target.wait_end()),
    ("TLS, some half-open", tls::some_half_open),
    ("TLS, 100,000 half-open", tls::half_open),
    ("TLS, key updates", tls::key_updates),
    ("TLS, records of a byte", tls::small_records),
    ("TLS, slow records", tls::slow_records),
];

/// The attack that this machine's own clients are not allowed to be.
const FOREIGN: &str = "connects past a bound";

/// The attack on a server that bounds nobody's sends.
const PUBLISHES: &str = "publishes without a rate";

/// The attack on a server whose streams need tokens, of which many are revoked.
const REVOKED: &str = "12,000 revoked at once";

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

/// What a server of that attack has beside its plain port.
enum Setup {
    Open,
    Tokens(tokens::Setup),
    Tls(Box<tls::Setup>),
    Pusher(pusher::Setup),
}

impl Setup {
    fn of(name: &str) -> Setup {
        match name {
            REVOKED => Setup::Tokens(tokens::Setup::make()),
            _ if name.ends_with("tokens/s") => Setup::Tokens(tokens::Setup::make()),
            _ if name.starts_with("TLS") => Setup::Tls(Box::new(tls::Setup::make())),
            _ if name.starts_with("Pusher") => Setup::Pusher(pusher::Setup::make()),
            _ => Setup::Open,
        }
    }

    fn options(&self) -> Vec<String> {
        let open = || "--open".to_owned();
        match self {
            Setup::Open => vec![open()],
            Setup::Tokens(setup) => setup.options().into(),
            Setup::Tls(setup) => setup.options().into_iter().chain([open()]).collect(),
            Setup::Pusher(setup) => vec![open(), setup.option()],
        }
    }

    /// What the innocent put behind their paths.
    fn query(&self) -> String {
        match self {
            Setup::Tokens(setup) => setup.query(),
            Setup::Open | Setup::Tls(_) | Setup::Pusher(_) => String::new(),
        }
    }

    /// The file that attackers need, and whom to attack.
    fn target(&self, server: &Server) -> (String, SocketAddr) {
        match self {
            Setup::Open | Setup::Pusher(_) => (String::new(), server.listen()),
            Setup::Tokens(setup) => (setup.signing_key(), server.listen()),
            Setup::Tls(setup) => (setup.ca(), server.tls_listen()),
        }
    }
}

/// What the server of an attack is told.
fn options(name: &str, setup: &Setup) -> Vec<String> {
    // A foreign client comes from another address than loopback.
    let listen = if name == FOREIGN { "--listen=0.0.0.0:0" } else { "--listen=127.0.0.1:0" };
    let mut options = vec!["--max-connections=16000", "--allow-origin=*", listen];
    if name.starts_with("compressed") {
        options.push("--websocket-deflate");
    }
    if name.starts_with("publishes") {
        options.push("--client-send");
    }
    if name == PUBLISHES {
        options.push("--client-send-rate=0");
    }
    if name.starts_with("kept") {
        options.push(disk::RULE);
    }
    if name.ends_with("at once") {
        options.extend(due::OPTIONS);
    }
    options.into_iter().map(str::to_owned).chain(setup.options()).collect()
}

/// One attack on a new server. Whether the innocent heard everything once.
fn run(name: &str, seconds: u64) -> bool {
    let setup = Setup::of(name);
    let options = options(name, &setup);
    let server = Server::start(&Vec::from_iter(options.iter().map(String::as_str)));
    let query = setup.query();
    let (file, address) = setup.target(&server);
    let secure = matches!(setup, Setup::Tls(_)).then_some(&*file);
    let mut neighbour = Neighbour::start(&server, &query, secure);
    let before = server.anonymous_bytes();
    let comers = || secure.map(|ca| Comers::start(address, ca));
    let came_before = comers();
    let first = neighbour.hear(QUIET);
    let came_before = came_before.map(Comers::finish);
    let resumer = Resumer::start(&server, &query);
    let (cpu, started) = (cpu_seconds(&server), Instant::now());
    let mut attack = start(name, address, &server, seconds, &file);
    let comers = comers();
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
    let came_during = comers.map(Comers::finish);
    let heard = [first, during, neighbour.hear(QUIET)];
    let after = server.anonymous_bytes();
    let stats = server.api.stats();
    let longest_ms = stats["turn_seconds_longest"].as_f64().unwrap() * 1e3;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let [first, second, third] = heard.each_ref().map(|heard| heard.plain.to_string());
    println!(
        "{name:<26} {first:>17} {second:>17} {third:>17} {:>6.1} / {:>5.1} / {:>5.1} \
         {resume_ms:>5.0} ms {cpu:>5.0} % {longest_ms:>5.1} ms",
        mb(before),
        mb(most),
        mb(after)
    );
    if let (Some(before), Some(during)) = (came_before, came_during) {
        let [first, second, third] = heard.map(|heard| heard.secure.to_string());
        println!("{:<26} {first:>17} {second:>17} {third:>17}", "  over TLS");
        println!("  come anew: {before}; during: {during}");
    }
    neighbour.finish()
}

fn cpu_seconds(server: &Server) -> f64 {
    server.api.stats()["cpu_seconds"].as_f64().unwrap()
}

fn start(name: &str, address: SocketAddr, server: &Server, seconds: u64, file: &str) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("chrt");
    command.args(["--idle", "0"]).arg(program).args(["attack", name]);
    command.args([address, server.api.address()].map(|address| address.to_string()));
    command.arg(seconds.to_string()).arg(file).spawn().unwrap()
}
