//! A million streams change hands.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use figures::numbers::{bytes, grouped};

use crate::Options;
use crate::harness::{Program, Server, encke};
use crate::parts::{Upgraded, servers_on};
use crate::probe::Probe;
use crate::programs::{Flood, Spam, account};
use crate::rows::Rows;
use crate::table::Table;

const STREAMS: u64 = 1_000_000;

/// Those who hear an event: the user and 15 others, on the mean.
const AUDIENCE: f64 = 16.0;

/// Streams beside the crowd.
const ROOM: u64 = 10_000;

/// How long they may take to come.
const OPENING_MAX: Duration = Duration::from_secs(300);

/// Traffic before the first upgrade, and behind each.
const QUIET: Duration = Duration::from_secs(10);

/// What is sent last arrives within this.
const ARRIVAL: Duration = Duration::from_secs(3);

/// A crowd under an event a minute for everybody, and upgrades.
pub(crate) fn million(options: &Options, table: &mut Table) {
    let streams = options.streams.unwrap_or(STREAMS);
    let data = tempfile::tempdir().unwrap();
    load_graph(data.path(), streams);
    let places = format!("--max-connections={}", streams + ROOM);
    let settings = [&*places, "--workers=0", "--keepalive=300"];
    let server = Upgraded::of(Server::start_in(data.path(), &settings), data.path());
    // An event that a listener waits for longer than this is late.
    let late = "--late-after=2";
    let begin = Instant::now();
    let flood = Flood::start(&server, 0, streams, &[late]);
    wait_online(&server, streams);
    table.shown("streams", grouped(streams));
    table.shown("they came in", format!("{:.1} s", begin.elapsed().as_secs_f64()));
    let upgrades = options.upgrades.unwrap_or(1);
    let rate = streams as f64 / 60.0 / AUDIENCE;
    // It is told when to end: how long upgrades take is not known before.
    let spam = Spam::start(&server, streams, rate, 3600, &[late]);
    let probe = Probe::start(&server);
    let file = options.rows.as_deref();
    let rows = file.map(|file| Rows::start(&server, data.path(), probe.heard(), file));
    sleep(QUIET);
    for _ in 0..upgrades {
        upgrade(&server, data.path(), table);
    }
    rows.into_iter().for_each(Rows::finish);
    let probed = probe.finish();
    let spam = spam.stop();
    sleep(ARRIVAL);
    let stats = server.api.stats();
    let floods = [flood.finish_within(OPENING_MAX)];
    let longest = probed.events.longest.as_secs_f64();
    table.most("the longest that a listener waits for an event", longest, 2.0, " s");
    table.shown("  events to the probes", grouped(probed.events.count));
    table.oracle("  events lost or doubled", probed.wrong, 0);
    let longest = probed.answers.longest.as_secs_f64();
    table.most("the longest that a sender waits for an answer", longest, 2.0, " s");
    let listeners = &floods[0]["latency"];
    table.shown("latency of the crowd, p50", format!("{} ms", listeners["p50_ms"]));
    table.shown("  p99", format!("{} ms", listeners["p99_ms"]));
    table.shown("  max", format!("{} ms", listeners["max_ms"]));
    table.oracle("  later than 2 s", floods[0]["late"].as_u64().unwrap(), 0);
    let opened = stats["connections_opened"].as_u64().unwrap();
    table.oracle("streams that came, in all", opened, streams + 8);
    account(table, &floods, &[spam]);
}

/// One, and what it took.
fn upgrade(server: &Upgraded, data: &Path, table: &mut Table) {
    let one = resident(server.owner());
    let memory = Memory::watch(data);
    let begin = Instant::now();
    let said = server.upgrade(&[]);
    let took = begin.elapsed().as_secs_f64();
    let at_end = memory.so_far();
    table.most("an upgrade", took, 10.0, " s");
    let metrics = server.api.another().get("/metrics").body;
    for name in ["encke_upgrade_seconds", "encke_upgrade_pause_seconds", "encke_upgrade_streams"] {
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        table.shown(&format!("  {name}"), value.unwrap_or("not told"));
    }
    for line in said.stdout.lines().chain(said.stderr.lines()) {
        table.shown("  told", line);
    }
    // The successor touches the graph's pages again, and the old one's end may be behind.
    sleep(QUIET);
    let peak = memory.finish();
    table.shown("  memory of one before", bytes(one.total));
    table.shown("  memory of both until it was done", bytes(at_end.total));
    table.shown("  memory of both at the peak", bytes(peak.total));
    table.most("  ratio", peak.total as f64 / one.total as f64, 2.2, "");
    let anonymous = peak.anonymous as f64 / one.anonymous as f64;
    table.shown("  ratio without the store's pages", format!("{anonymous:.2}"));
}

fn resident(pid: u32) -> sys::process::Resident {
    sys::process::resident_of(pid).unwrap()
}

/// What all servers on a data directory have together.
pub(crate) fn resident_on(data: &Path) -> sys::process::Resident {
    let mut sum = sys::process::Resident::default();
    // One that ends at this moment has nothing.
    let all = servers_on(data).into_iter();
    for one in all.filter_map(|pid| sys::process::resident_of(pid).ok()) {
        sum.total += one.total;
        sum.anonymous += one.anonymous;
    }
    sum
}

/// The most that all servers on a data directory had together.
struct Memory {
    stop: Arc<AtomicBool>,
    peak: Arc<Mutex<sys::process::Resident>>,
    watcher: JoinHandle<()>,
}

impl Memory {
    fn watch(data: &Path) -> Memory {
        let stop = Arc::new(AtomicBool::new(false));
        let peak = Arc::default();
        let (stopped, data): (_, PathBuf) = (Arc::clone(&stop), data.to_owned());
        let highest: Arc<Mutex<sys::process::Resident>> = Arc::clone(&peak);
        let watcher = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let sum = resident_on(&data);
                let mut peak = highest.lock().unwrap();
                peak.total = peak.total.max(sum.total);
                peak.anonymous = peak.anonymous.max(sum.anonymous);
                drop(peak);
                sleep(Duration::from_millis(20));
            }
        });
        Memory { stop, peak, watcher }
    }

    fn so_far(&self) -> sys::process::Resident {
        *self.peak.lock().unwrap()
    }

    fn finish(self) -> sys::process::Resident {
        self.stop.store(true, Ordering::Relaxed);
        self.watcher.join().unwrap();
        *self.peak.lock().unwrap()
    }
}

/// A friends graph of so many users with 15 edges each.
pub(crate) fn load_graph(data: &Path, users: u64) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("friends");
    let users = format!("--users={users}");
    let generate = ["graph", "generate", "--edges-per-user=15", "--seed=1", &users, "-o"];
    run(encke(generate).arg(&file));
    run(encke(["graph", "load"]).arg(&file).arg("--data").arg(data));
}

/// Runs a command that must do what it says, however long that takes.
fn run(command: &mut std::process::Command) {
    let mut program = Program::spawn(command);
    while !program.has_ended() {
        sleep(Duration::from_millis(20));
    }
    let finished = program.finish();
    assert_eq!(finished.code(), Some(0), "{finished:?}");
}

pub(crate) fn wait_online(server: &Server, streams: u64) {
    let end = Instant::now() + OPENING_MAX;
    while server.api.stats()["connections_open"].as_u64().unwrap() < streams {
        assert!(Instant::now() < end, "{streams} streams do not open");
        sleep(Duration::from_millis(200));
    }
}
