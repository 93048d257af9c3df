//! `cargo bench --bench limit`: Encke's data plane beside a bare loop, in one run.
//!
//! The bare loop is the least code that could do the same on this kernel: accept, answer, and
//! `send` the same bytes to the same sockets. Both run as child processes of their own, so that
//! their memory and processor time can be told apart from the load's. Both have the same number of
//! workers, the same load and the same cores. What is printed are figures of this machine at this
//! hour, and their ratio, which is what to compare.
//!
//! With `--tls` the two are Encke's own streams, without TLS and with it (`--tls-max 1.2` for the
//! older version), of events of `--payload BYTES` (default 100).
//!
//! Options, after `--`: `--connections N` (default 10,000), `--rounds N` (default 20), `--transport
//! sse|websocket|poll` (default sse). `--workers N` is by default as many as cores, or as the
//! descriptor limit asks for. `--times N` (default 3) repeats, and the median of each counts.
//! `--ids N` is for as many ids a connection (default 1; the others are nobody else's). Of polls
//! there are connects and idle connections alone: what the bare loop does with events has no place
//! between two polls.
//!
//! `--paced` measures at fixed rates instead, with the friends graph and audiences of 16. It tells
//! what a connect, the idle load and one event a minute for everybody cost. It also finds the
//! highest rate whose 99th percentile stays under 100 ms. `--million` is that with a million
//! connections. `--minute SECONDS` (default 30) is how long the first rate is held, `--only
//! bare|encke` leaves one out. `--sends` measures the sender's side alone, with the history and
//! without it. `--singles` measures single events alone, in rounds of all that are compared;
//! `--against PROGRAM` adds another build of this. `--deflate` measures what it takes to compress
//! an event. `--crowds` compares an id a connection, two ids, and one id of all, or with `--one-id`
//! asks for the last alone.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod bare;
mod child;
mod deflate;
mod encke;
mod paced;
mod rounds;
mod secured;
mod sends;
mod shapes;
mod singles;

use std::path::{Path, PathBuf};
use std::time::Duration;

use child::Child;
use load::{Flood, FloodConfig, Version};
use proto::Transport;
use sys::clock;

/// Payload of each event, as JSON: 100 bytes, the size that others publish.
const DATA: &str = concat!(
    "\"0123456789012345678901234567890123456789012345678",
    "9012345678901234567890123456789012345678901234567\""
);

/// Connections that each event of the paced run goes to: its subject and 15 who follow it.
const AUDIENCE: u64 = 16;

/// All options, those between this program and its children among them.
const OPTIONS: &str = "--against --bench --certificate --connections --crowds --deflate --forget \
                       --graph --ids --million --minute --one-id --only --paced --payload --rounds \
                       --sends --singles --times --tls --tls-max --transport --workers";

/// How long any one step may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Descriptors of a worker's table that the plan leaves free: the kernel spreads clients at random,
/// and the bare loop's worker that gets more than it can hold ends.
const RESERVED: u64 = 800;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

struct Plan {
    connections: u32,
    rounds: u32,
    workers: usize,
    times: usize,
    minute: u64,
    only: Option<String>,
    ids: u64,
    transport: Transport,
    /// Where the certificate is, if TLS is what is measured.
    tls: Option<PathBuf>,
    newest: Version,
    payload: usize,
    /// Nothing is remembered.
    forget: bool,
    /// All of the crowd are logged in under one id.
    one_id: bool,
}

impl Plan {
    /// What is measured: the roles of the children, and their names.
    fn roles(&self) -> [(&'static str, &'static str); 2] {
        match self.tls {
            None => [("child-bare", "bare loop"), ("child-encke", "encke")],
            Some(_) => [("child-encke", "plain"), ("child-tls", "TLS")],
        }
    }

    /// What `measure` finds in each role; nothing in the one that `--only` leaves out.
    fn of_each<T: Default>(&self, measure: impl Fn(&str) -> Outcome<T>) -> Outcome<[T; 2]> {
        let measured = |role: &str| match &self.only {
            Some(only) if !role.ends_with(only.as_str()) => Ok(T::default()),
            _ => measure(role),
        };
        let [(first, _), (second, _)] = self.roles();
        Ok([measured(first)?, measured(second)?])
    }
}

fn main() -> Outcome<()> {
    let limit = sys::limits::raise_descriptors()?;
    let arguments: Vec<String> = std::env::args().collect();
    refuse_unknown(&arguments)?;
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    let text = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1))
    };
    let value = |name: &str, default: u64| text(name).map_or(Ok(default), |text| text.parse());
    let connections = value("--connections", if flag("--million") { 1_000_000 } else { 10_000 })?;
    let cores = std::thread::available_parallelism()?.get() as u64;
    let workers = cores.max(connections.div_ceil(limit.soft.saturating_sub(RESERVED).max(1)));
    let certificate = if flag("--tls") { Some(tempfile::tempdir()?) } else { None };
    if let Some(dir) = &certificate {
        secured::make(dir.path())?;
    }
    let given = text("--certificate").map(PathBuf::from);
    let plan = Plan {
        tls: given.or_else(|| certificate.as_ref().map(|dir| dir.path().to_owned())),
        newest: match text("--tls-max").map_or("1.3", String::as_str) {
            "1.3" => Version::Tls13,
            "1.2" => Version::Tls12,
            other => return Err(format!("--tls-max: 1.2 or 1.3, not {other}").into()),
        },
        payload: value("--payload", DATA.len() as u64)? as usize,
        connections: u32::try_from(connections)?,
        rounds: value("--rounds", 20)? as u32,
        workers: value("--workers", workers)? as usize,
        times: value("--times", 3)? as usize,
        minute: value("--minute", 30)?,
        only: text("--only").cloned(),
        ids: value("--ids", 1)?,
        forget: flag("--forget"),
        one_id: flag("--one-id"),
        transport: match text("--transport").map_or("sse", String::as_str) {
            "sse" => Transport::Sse,
            "websocket" => Transport::WebSocket,
            "poll" => Transport::Poll,
            other => return Err(format!("--transport: sse, websocket or poll, not {other}").into()),
        },
    };
    let graph = text("--graph").map(Path::new);
    match arguments.get(1).map(String::as_str) {
        Some("child-bare") => {
            return child::serve(bare::Bare::start(plan.workers, plan.transport)?);
        }
        Some("child-encke") => {
            return child::serve(encke::Encke::start(&plan, graph, None)?);
        }
        Some("child-tls") => {
            let tls = plan.tls.as_deref().map(secured::port).transpose()?;
            return child::serve(encke::Encke::start(&plan, graph, tls)?);
        }
        _ => {}
    }
    let Plan { connections, workers, transport, payload, .. } = plan;
    if plan.tls.is_none() && payload != DATA.len() {
        return Err("--payload goes with --tls".into());
    }
    println!(
        "{connections} connections, {workers} workers, {cores} cores, events of {payload} bytes, \
         {}",
        transport.as_str()
    );
    if flag("--sends") {
        return sends::run();
    }
    if flag("--singles") {
        return singles::run(&plan, text("--against").map(Path::new));
    }
    if flag("--deflate") {
        return deflate::run();
    }
    if flag("--crowds") {
        return shapes::run(&plan);
    }
    match flag("--paced") || flag("--million") {
        true if transport == Transport::Poll => Err("fixed rates are for streams".into()),
        true => paced::run(&plan),
        false => rounds::run(&plan),
    }
}

/// A word that nobody looks at would leave another measurement to be taken for the one asked for.
fn refuse_unknown(arguments: &[String]) -> Outcome<()> {
    let is_known = |argument: &&String| OPTIONS.split(' ').any(|option| option == *argument);
    match arguments.iter().filter(|word| word.starts_with("--")).find(|word| !is_known(word)) {
        Some(unknown) => Err(format!("there is no option {unknown}").into()),
        None => Ok(()),
    }
}

/// A crowd of `users` on its way to `child`, on the plan's transport; 0 threads is as many as the
/// descriptor limit asks for.
fn start_listeners(
    child: &Child,
    plan: &Plan,
    users: u32,
    first_id: u64,
    threads: u32,
) -> Outcome<Flood> {
    let transport = plan.transport;
    let path = if transport == Transport::Poll { "poll" } else { "stream" };
    let dir = plan.tls.as_deref().filter(|_| child.is_tls);
    let trust = dir.map(|dir| secured::trust(dir, plan.newest)).transpose()?;
    let base = if child.is_tls { "https://localhost" } else { "http://127.0.0.1" };
    let mut url = format!("{base}:{}/{path}/{{id}}", child.port);
    for n in 1..plan.ids {
        let separator = if n == 1 { '?' } else { '&' };
        url.push_str(&format!("{separator}id={n}-{{id}}"));
    }
    let listeners =
        FloodConfig { url, trust, transport, users, first_id, threads, ..FloodConfig::default() };
    Ok(Flood::start(listeners)?)
}

fn await_online(listeners: &Flood, users: u64) -> Outcome<()> {
    if listeners.wait_until(TIMEOUT, |totals| totals.open() >= users) {
        return Ok(());
    }
    let open = std::cell::Cell::new(0);
    listeners.wait_until(Duration::ZERO, |totals| {
        open.set(totals.open());
        false
    });
    Err(format!("only {} of {users} listeners are online", open.get()).into())
}

fn per_second(count: u64, started_ns: u64) -> f64 {
    count as f64 * 1e9 / (clock::monotonic_ns() - started_ns) as f64
}

fn heading(plan: &Plan) {
    let [(_, first), (_, second)] = plan.roles();
    println!("\n{:<48} {first:>12} {second:>12} {:>8}", "", "ratio");
}

fn line(name: &str, first: f64, second: f64) {
    println!("{name:<48} {first:>12.1} {second:>12.1} {:>8.2}", second / first);
}
