//! What three nodes bear while nothing fails.

use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::Options;
use crate::programs::{Flood, Spam, account, sum, worst};
use crate::table::Table;
use crate::world::{SYNC_ALWAYS, World};

const USERS: u64 = 30_000;

/// Events a second of the row "traffic", each with an audience of 16.
const EVENTS: f64 = 1_000.0;

/// What is sent last arrives within this.
const ARRIVAL: Duration = Duration::from_secs(2);

/// 30,000 streams over three nodes, 1,000 events a second, each heard by 16.
pub(crate) fn traffic(options: &Options, table: &mut Table) {
    let mut world = World::new();
    world.load(USERS);
    world.start_nodes(&[]);
    let floods = Flood::at_each(&world.nodes, USERS / 3, &[]);
    let before = world.cpu();
    let spams = Spam::at_each(&world.nodes, USERS, EVENTS, options.seconds, &[]);
    let spams: Vec<Value> = spams.into_iter().map(|spam| spam.finish(options.seconds)).collect();
    let after = world.cpu();
    sleep(ARRIVAL);
    let floods: Vec<Value> = floods.into_iter().map(Flood::finish).collect();
    account(table, &floods, &spams);
    table.shown("latency p50, the worst of three loads", ms(worst(&floods, "latency", "p50_ms")));
    table.most("latency p99", worst(&floods, "latency", "p99_ms"), 25.0, " ms");
    table.shown("latency max", ms(worst(&floods, "latency", "max_ms")));
    table.shown("answers p99", ms(worst(&spams, "answer", "p99_ms")));
    share(table, &spams, before, after);
}

/// Events that few or none hear, at growing rates.
pub(crate) fn rate(options: &Options, table: &mut Table) {
    rates(options, table, World::new, 20_000.0);
}

/// The same, where the log waits for the disk with every record.
pub(crate) fn rate_sync_always(options: &Options, table: &mut Table) {
    rates(options, table, || World::with_settings(SYNC_ALWAYS), 15_000.0);
}

fn rates(options: &Options, table: &mut Table, world: fn() -> World, bound: f64) {
    // Of three users one listens: an event is heard by a third of a stream on the mean.
    for (audience, listeners) in [("nobody", 0), ("one of three", USERS / 3)] {
        let mut world = world();
        world.start_nodes(&[]);
        let floods = match listeners {
            0 => Vec::new(),
            all => Flood::at_each(&world.nodes, all / 3, &[]),
        };
        for factor in [1.05, 1.5, 2.0] {
            let rate = bound * factor;
            let before = world.cpu();
            let spams = Spam::at_each(&world.nodes, USERS, rate, options.seconds, &[]);
            let spams: Vec<Value> =
                spams.into_iter().map(|spam| spam.finish(options.seconds)).collect();
            let after = world.cpu();
            let seconds = spams.iter().map(|spam| spam["seconds"].as_f64().unwrap());
            let took = seconds.fold(0.0, f64::max);
            let answered = sum(&spams, "answered") as f64 / took;
            table.least(&format!("events/s, heard by {audience}"), answered, bound, "");
            table.shown("  asked for", format!("{rate:.0}/s"));
            table.shown("  answers p50", ms(worst(&spams, "answer", "p50_ms")));
            table.shown("  answers p99", ms(worst(&spams, "answer", "p99_ms")));
            table.oracle("  events answered", sum(&spams, "answered"), sum(&spams, "sent"));
            share(table, &spams, before, after);
            if answered < 0.9 * rate {
                break;
            }
        }
        sleep(ARRIVAL);
        let floods: Vec<Value> = floods.into_iter().map(Flood::finish).collect();
        if !floods.is_empty() {
            let faults = ["missing", "doubled", "overtaken", "stale", "closed", "told_gaps"];
            let faults = faults.map(|fault| sum(&floods, fault)).iter().sum();
            table.oracle("lost, doubled, out of order, streams lost, gaps", faults, 0);
        }
    }
}

/// The processor's part, for each event.
fn share(table: &mut Table, spams: &[Value], before: (f64, f64), after: (f64, f64)) {
    let per_event = |seconds: f64| seconds * 1e6 / sum(spams, "sent").max(1) as f64;
    let (nodes, nats) = (per_event(after.0 - before.0), per_event(after.1 - before.1));
    table.shown("  processor per event: each node", format!("{:.1} µs", nodes / 3.0));
    table.shown("  processor per event: NATS", format!("{nats:.1} µs"));
}

fn ms(value: f64) -> String {
    format!("{value:.2} ms")
}
