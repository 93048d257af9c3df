//! Streams that are written and read at once, token by token, over upgrades.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Plan;
use crate::ask::Client;
use crate::harness::Server;
use crate::readers::Readers;
use crate::served::Upgraded;
use crate::table::Table;
use crate::writers::Writers;

/// From when a token is due until it is read, at most: the bound.
const P99_MS: f64 = 20.0;

pub(crate) fn run(plan: &Plan, table: &mut Table) {
    let dir = plan.directory();
    let server = Upgraded::of(Server::start_in(dir.path(), &["--streams"]), dir.path());
    let mut client = Client::new(server.api.address());
    for stream in 0..plan.streams {
        assert_eq!(client.ask("PUT", &format!("run:{stream}"), "", ""), 201);
    }
    let readers = Readers::new(plan.streams, server.listen());
    let writers = Writers::new(plan, server.api.address());
    let (stop, tokens) = (AtomicBool::new(false), OnceLock::new());
    let mut upgrades = Vec::new();
    let (written, heard) = thread::scope(|scope| {
        let heard = scope.spawn(|| readers.work(&tokens));
        let written = scope.spawn(|| writers.work(&stop));
        let pause = Duration::from_secs_f64(plan.seconds / (plan.upgrades + 1) as f64);
        for number in 0..=plan.upgrades {
            if number > 0 {
                let begin = Instant::now();
                server.upgrade(&[]);
                upgrades.push(begin.elapsed().as_secs_f64());
            }
            thread::sleep(pause);
        }
        // Relaxed: nothing else depends on it.
        stop.store(true, Ordering::Relaxed);
        let written = written.join().unwrap();
        tokens.set(written.tokens.clone()).unwrap();
        (written, heard.join().unwrap())
    });
    let all: u64 = written.tokens.iter().sum();
    let seconds = plan.seconds + upgrades.iter().sum::<f64>();
    table.shown("streams, each with a writer and a reader", plan.streams);
    table.shown("tokens a second", format!("{:.0}", all as f64 / seconds));
    table.shown("appends a second", format!("{:.0}", written.appends as f64 / seconds));
    let read = heard.latencies.quantiles();
    table.shown(
        "from when a token was due until it was read, p50",
        format!("{:.2} ms", read.p50_ms),
    );
    table.most("  p99", read.p99_ms, P99_MS, " ms");
    table.shown("  max", format!("{:.2} ms", read.max_ms));
    table.shown("upgrades", format!("{upgrades:.2?} s"));
    table.shown("appends sent again", written.repeats);
    table.shown("readers that came back", heard.returns);
    table.oracle("tokens read, of those written", heard.tokens, all);
    table.oracle("  skipped", heard.skipped, 0);
    table.oracle("  doubled", heard.doubled, 0);
    table.oracle("  missing at the end", heard.missing, 0);
}
