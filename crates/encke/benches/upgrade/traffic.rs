//! Streams of all transports under traffic, and one upgrade after the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Options;
use crate::harness::Server;
use crate::million::{load_graph, wait_online};
use crate::parts::{Sender, Sent, Traffic, Upgraded, WAYS};
use crate::programs::{Flood, Spam, account, sum, worst};
use crate::table::Table;

const STREAMS: u64 = 10_000;
const UPGRADES: u64 = 50;

/// Events a second about streams, as lines of two streams of sends. Requests on connections that
/// are kept, with keys and without, come beside them: they are told to connect again, which `spam`
/// does not do.
const EVENTS: f64 = 1_000.0;

/// The same about polls, which hear what is sent between two of them too.
const POLL_EVENTS: f64 = 100.0;

const TRANSPORTS: [&str; 4] = ["sse", "ndjson", "websocket", "classic"];

/// Between two upgrades.
const PAUSE: Duration = Duration::from_millis(300);

const ARRIVAL: Duration = Duration::from_secs(3);

pub(crate) fn traffic(options: &Options, table: &mut Table) {
    let streams = options.streams.unwrap_or(STREAMS);
    // A fifth of each.
    let part = streams / 5;
    let data = tempfile::tempdir().unwrap();
    load_graph(data.path(), 4 * part);
    let settings =
        ["--max-connections=20000", "--workers=2", "--history-events=2000", "--max-backlog=1MiB"];
    let server = Upgraded::of(Server::start_in(data.path(), &settings), data.path());
    let late = "--late-after=2";
    let flood = |n: usize, transport: &str| {
        let option = format!("--transport={transport}");
        let path = match transport {
            "classic" => "/test/{id}",
            "poll" => "/poll/{id}",
            _ => "/stream/{id}",
        };
        Flood::start_at(&format!("{}{path}", server.url()), n as u64 * part, part, &[&option, late])
    };
    let floods: Vec<Flood> =
        TRANSPORTS.iter().enumerate().map(|(n, transport)| flood(n, transport)).collect();
    let polls = flood(4, "poll");
    wait_online(&server, 5 * part);
    let spam = |seed: &str, rate: f64, users: u64, more: &[&str]| {
        Spam::start(&server, users, rate, 3600, &[&[seed, late], more].concat())
    };
    let spams = ["--seed=1", "--seed=2"].map(|seed| spam(seed, EVENTS / 2.0, 4 * part, &[]));
    let requests = Arc::new(Traffic::default());
    let senders = WAYS.map(|way| {
        let subjects = (0..4 * part).step_by(97).map(|id| id.to_string()).collect();
        let (api, name) = (server.api.address(), format!("{way:?}"));
        let sender = Sender { api, way, name, subjects, pause: Duration::from_millis(5) };
        let requests = Arc::clone(&requests);
        thread::spawn(move || sender.work(&requests))
    });
    let first = format!("--first-id={}", 4 * part);
    let spam_of_polls = spam("--seed=3", POLL_EVENTS, part, &[&first]);
    sleep(PAUSE);
    let (mut times, mut pauses) = (Vec::new(), Vec::new());
    for _ in 0..options.upgrades.unwrap_or(UPGRADES) {
        let begin = Instant::now();
        server.upgrade(&[]);
        times.push(begin.elapsed().as_secs_f64());
        let metrics = server.api.another().get("/metrics").body;
        let name = "encke_upgrade_pause_seconds ";
        let pause = metrics.lines().find_map(|line| line.strip_prefix(name)?.parse::<f64>().ok());
        pauses.extend(pause);
        sleep(PAUSE);
    }
    requests.stop.store(true, Ordering::Relaxed);
    let sent: Vec<Sent> = senders.into_iter().flat_map(|one| one.join().unwrap()).collect();
    let spams: Vec<Value> = spams.into_iter().map(Spam::stop).collect();
    let spam_of_polls = spam_of_polls.stop();
    sleep(ARRIVAL);
    let stats = server.api.stats();
    let floods: Vec<Value> = floods.into_iter().map(Flood::finish).collect();
    let polls = [polls.finish()];
    table.shown("streams", figures::numbers::grouped(5 * part));
    table.shown("upgrades", times.len());
    times.sort_by(f64::total_cmp);
    table.shown("  p50", format!("{:.3} s", times[times.len() / 2]));
    table.shown("  max", format!("{:.3} s", times[times.len() - 1]));
    let longest = pauses.iter().copied().fold(0.0, f64::max);
    table.shown("the longest pause", format!("{:.1} ms", longest * 1e3));
    table.oracle("connections open", stats["connections_open"].as_u64().unwrap(), 5 * part);
    table.oracle("connections that ever came", sum(&[stats], "connections_opened"), 5 * part);
    table.shown("events", figures::numbers::grouped(sum(&spams, "sent")));
    table.shown("latency p50", format!("{:.2} ms", worst(&floods, "latency", "p50_ms")));
    table.shown("latency p99", format!("{:.2} ms", worst(&floods, "latency", "p99_ms")));
    table.shown("latency max", format!("{:.2} ms", worst(&floods, "latency", "max_ms")));
    table.shown("answers max", format!("{:.2} ms", worst(&spams, "answer", "max_ms")));
    let answered = sent.iter().filter(|one| one.answer.is_ok()).count();
    table.oracle("sends by others, answered", answered as u64, sent.len() as u64);
    let longest = sent.iter().map(|one| one.took).max().unwrap_or_default();
    table.shown("  the longest answer", format!("{:.1} ms", longest.as_secs_f64() * 1e3));
    table.oracle("later than 2 s", sum(&floods, "late"), 0);
    account(table, &floods, &spams);
    table.shown("polls hear", figures::numbers::grouped(sum(&polls, "stamped")));
    let sent = sum(std::slice::from_ref(&spam_of_polls), "sent");
    table.oracle("  of what was sent", sum(&polls, "stamped"), sent);
    for fault in ["missing", "doubled", "overtaken", "stale", "told_gaps", "closed", "failed"] {
        table.oracle(&format!("  {fault}"), sum(&polls, fault), 0);
    }
}
