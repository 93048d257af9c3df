//! The graph in PostgreSQL: how fast it changes, and how fast a new replica takes all of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use postgres::{PostgresConfig, PostgresStore};
use serde_json::{Value, json};

use crate::Options;
use crate::harness::Api;
use crate::programs::{Flood, Spam, account, worst};
use crate::table::Table;
use crate::world::World;

/// Subscriptions in one request where hundreds come together.
const HUNDREDS: usize = 100;

/// Those who send them at each node, one request at a time.
const WRITERS: usize = 4;

/// Users of whom a few hundred listen while a replica is built.
const USERS: u64 = 300;

/// Durable subscriptions: single ones, one after the other, and hundreds from many.
pub(crate) fn subscriptions(options: &Options, table: &mut Table) {
    let mut world = World::new().with_postgres();
    world.start_nodes(&[]);
    let time = Duration::from_secs(options.seconds);
    let mut times = Vec::new();
    let start = Instant::now();
    while start.elapsed() < time {
        let node = &world.nodes[times.len() % world.nodes.len()];
        let asked = Instant::now();
        node.api.subscribe(&format!("s{}", times.len()), "one");
        times.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    table.shown("single ones, one after the other", times.len());
    table.most("  p50", times[times.len() / 2], 5.0, " ms");
    table.shown("  p99", format!("{:.2} ms", times[times.len() * 99 / 100]));
    let start = Instant::now();
    let writers: Vec<_> = (0..WRITERS * world.nodes.len())
        .map(|writer| {
            let api = world.nodes[writer % world.nodes.len()].api.another();
            thread::spawn(move || write(&api, writer, start + time))
        })
        .collect();
    let added: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
    let rate = added as f64 / start.elapsed().as_secs_f64();
    table.least("in hundreds, pairs/s", rate, 20_000.0, "");
    // All nodes are where PostgreSQL is.
    let stored = world.postgres.as_ref().unwrap().sql("select count(*) from encke.subscriptions");
    let stored: u64 = stored.unwrap().parse().unwrap();
    table.oracle("pairs in PostgreSQL", stored, (added + times.len()) as u64);
    for node in &world.nodes {
        let end = Instant::now() + Duration::from_secs(10);
        let here = || node.api.stats()["subscriptions"].as_u64().unwrap();
        while here() != stored && Instant::now() < end {
            sleep(Duration::from_millis(20));
        }
        table.oracle("pairs in the replica of a node", here(), stored);
    }
}

/// Adds hundreds of pairs that nobody has, until it is time; returns how many were taken.
fn write(api: &Api, writer: usize, end: Instant) -> usize {
    let mut added = 0;
    while Instant::now() < end {
        let pair = |n| json!({"subscriber": writer * 10_000_000 + n, "subscribee": n % 1_000});
        let pairs: Vec<Value> = (added..added + HUNDREDS).map(pair).collect();
        let answer = api.post("/subscriptions/add", &json!(pairs)).ok();
        assert_eq!(answer["added"], HUNDREDS);
        added += HUNDREDS;
    }
    added
}

/// A node with an empty replica takes the whole graph, while two others serve.
pub(crate) fn bootstrap(options: &Options, table: &mut Table) {
    let mut world = World::new().with_postgres();
    let url = world.postgres.as_ref().unwrap().url();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(load(&url, options.pairs));
    let start = Instant::now();
    for name in ["a", "b"] {
        let node = world.start_node(name, &[]);
        wait_pairs(&node.api, options.pairs);
        world.nodes.push(node);
    }
    let alone = start.elapsed().as_secs_f64() / 2.0;
    table.shown("pairs", figures::numbers::grouped(options.pairs));
    table.shown("a replica of a node that nobody needs, mean", format!("{alone:.2} s"));
    let floods = Flood::at_each(&world.nodes, USERS, &[]);
    let spams = Spam::at_each(&world.nodes, USERS, 200.0, options.seconds, &[]);
    let start = Instant::now();
    let api = world.nodes[0].api.another();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let writer = thread::spawn(move || {
        let mut times = Vec::new();
        while !stopped.load(Ordering::SeqCst) {
            let asked = Instant::now();
            api.subscribe(&format!("new{}", times.len()), "new");
            times.push(asked.elapsed().as_secs_f64() * 1e3);
            sleep(Duration::from_millis(20));
        }
        times
    });
    let third = world.start_node("c", &[]);
    wait_pairs(&third.api, options.pairs);
    table.most("a replica while the others serve", start.elapsed().as_secs_f64(), 30.0, " s");
    stop.store(true, Ordering::SeqCst);
    let mut times = writer.join().unwrap();
    times.sort_by(f64::total_cmp);
    table.shown("subscriptions meanwhile", times.len());
    table.shown("  p99", format!("{:.2} ms", times[times.len() * 99 / 100]));
    let spams: Vec<Value> = spams.into_iter().map(|spam| spam.finish(options.seconds)).collect();
    sleep(Duration::from_secs(2));
    let floods: Vec<Value> = floods.into_iter().map(Flood::finish).collect();
    table.shown("answers p99 meanwhile", format!("{:.2} ms", worst(&spams, "answer", "p99_ms")));
    account(table, &floods, &spams);
}

/// A random graph into PostgreSQL: some 15 follow each.
async fn load(url: &str, pairs: u64) {
    let store = PostgresStore::connect(PostgresConfig::from_url(url).unwrap()).await.unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let mut load = store.load();
    for n in 0..pairs {
        // Whoever comes again is another, so that no pair comes twice.
        let subscriber = (random.u64(0..1 << 40) << 4) | (n % 15);
        load.push(&subscriber.to_string(), &(n / 15).to_string()).unwrap();
    }
    load.finish().await.unwrap();
}

fn wait_pairs(api: &Api, pairs: u64) {
    let end = Instant::now() + Duration::from_secs(600);
    while api.stats()["subscriptions"].as_u64().unwrap() < pairs {
        assert!(Instant::now() < end, "the replica does not get there");
        sleep(Duration::from_millis(10));
    }
}
