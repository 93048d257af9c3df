//! Streams that are written and read at once, token by token, over upgrades.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Plan;
use crate::ask::Client;
use crate::harness::Server;
use crate::readers::{Heard, Readers};
use crate::served::Upgraded;
use crate::table::Table;
use crate::writers::{Writers, Written};

/// From when a token is due until it is read, at most: the bound to reach.
const P99_MS: f64 = 20.0;

/// What became of writers and readers.
pub(crate) struct Load {
    pub(crate) written: Written,
    pub(crate) heard: Heard,
}

impl Load {
    /// Has all streams written at `api` and read at `listen` as long as `work` takes.
    pub(crate) fn during(
        plan: &Plan,
        api: SocketAddr,
        listen: SocketAddr,
        work: impl FnOnce(),
    ) -> Load {
        let readers = Readers::new(plan.streams, listen);
        let writers = Writers::new(plan, api);
        let (stop, tokens) = (AtomicBool::new(false), OnceLock::new());
        thread::scope(|scope| {
            let heard = scope.spawn(|| readers.work(&tokens));
            let written = scope.spawn(|| writers.work(&stop));
            work();
            // Relaxed: nothing else depends on it.
            stop.store(true, Ordering::Relaxed);
            let written = written.join().unwrap();
            tokens.set(written.tokens.clone()).unwrap();
            Load { written, heard: heard.join().unwrap() }
        })
    }
}

/// Streams by the server; the bare loop has the p99 `floor_ms`, if it was asked for.
pub(crate) fn run(plan: &Plan, table: &mut Table, floor_ms: Option<f64>) {
    let dir = plan.directory();
    let server = Upgraded::of(Server::start_in(dir.path(), &["--streams"]), dir.path());
    let mut client = Client::new(server.api.address());
    for stream in 0..plan.streams {
        assert_eq!(client.ask("PUT", &format!("run:{stream}"), "", ""), 201);
    }
    let mut upgrades = Vec::new();
    let load = Load::during(plan, server.api.address(), server.listen(), || {
        let pause = Duration::from_secs_f64(plan.seconds / (plan.upgrades + 1) as f64);
        for number in 0..=plan.upgrades {
            if number > 0 {
                let begin = Instant::now();
                server.upgrade(&[]);
                upgrades.push(begin.elapsed().as_secs_f64());
            }
            thread::sleep(pause);
        }
    });
    show(plan, table, &load, plan.seconds + upgrades.iter().sum::<f64>());
    let p99_ms = load.heard.latencies.quantiles().p99_ms;
    table.most("    the bound", p99_ms, P99_MS, " ms");
    if let Some(floor_ms) = floor_ms {
        table.shown("    times that of the bare loop", format!("{:.1}", p99_ms / floor_ms));
    }
    table.shown("upgrades", format!("{upgrades:.2?} s"));
    table.shown("appends sent again", load.written.repeats);
    table.shown("readers that came back", load.heard.returns);
}

/// Shows what both have counted within so many seconds.
pub(crate) fn show(plan: &Plan, table: &mut Table, load: &Load, seconds: f64) {
    let Load { written, heard } = load;
    let all: u64 = written.tokens.iter().sum();
    table.shown("streams, each with a writer and a reader", plan.streams);
    table.shown("tokens a second", format!("{:.0}", all as f64 / seconds));
    table.shown("appends a second", format!("{:.0}", written.appends as f64 / seconds));
    let read = heard.latencies.quantiles();
    table.shown(
        "from when a token was due until it was read, p50",
        format!("{:.2} ms", read.p50_ms),
    );
    table.shown("  p99", format!("{:.2} ms", read.p99_ms));
    table.shown("  max", format!("{:.2} ms", read.max_ms));
    table.oracle("tokens read, of those written", heard.tokens, all);
    table.oracle("  skipped", heard.skipped, 0);
    table.oracle("  doubled", heard.doubled, 0);
    table.oracle("  missing at the end", heard.missing, 0);
}
