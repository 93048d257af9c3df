//! The figures of the stored graph at full size: a million users, 15 friends each.
//!
//! `cargo bench -p graph --bench graph [-- DIR]` makes the graph, loads it one way and both ways
//! into fresh stores below DIR (the system's directory for temporary files by default) and reads
//! from them. About a minute, 2 GB of disk, 1 GB of memory. With `--replica` only what concerns
//! replicas.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails should stop")]

mod replica;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use graph::Graph;
use graph::{GraphOptions, LoadOptions, Pair};
use hub::{Audience, ConnRef, Directory, Followers, Id};
use load::graph_model::BarabasiAlbert;

const USERS: u32 = 1_000_000;
const READS: u32 = 1_000_000;
const WORKERS: usize = 2;

fn main() {
    let below = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let below = below.map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = tempfile::tempdir_in(below).unwrap();
    let file = dir.path().join("friends.txt");

    let model = BarabasiAlbert { users: USERS, edges_per_user: 15, seed: 1 };
    let start = Instant::now();
    model.generate(&mut File::create(&file).unwrap(), &mut |_, _| {}).unwrap();
    let bytes = fs::metadata(&file).unwrap().len();
    println!(
        "generate: {} edges, {} MB in {:.2?}",
        model.edges(),
        bytes / 1_000_000,
        start.elapsed()
    );

    let only_replica = std::env::args().any(|argument| argument == "--replica");
    for both in [false, true].into_iter().filter(|_| !only_replica) {
        let store = dir.path().join(format!("both-{both}"));
        println!("\nload{}:", if both { " --both" } else { "" });
        load(&file, &store, both);
        let graph = reopen(&store);
        let users = random_users();
        read_typical(&graph, &users);
        gather_typical(&graph, &users);
        read_largest(&graph);
        stats(&graph);
        change(&graph);
    }
    replica::run(&file, &dir.path().join("replica"));
}

fn load(file: &Path, store: &Path, both: bool) {
    let graph = Graph::open(store, &GraphOptions::default()).unwrap();
    let start = Instant::now();
    let mut phases: Vec<(String, Duration)> = Vec::new();
    let options = LoadOptions { both, ..LoadOptions::default() };
    let mut file = File::open(file).unwrap();
    let bytes = file.metadata().unwrap().len();
    let report = graph.load("friends", &mut file, bytes, options, &mut |progress| {
        let phase = format!("{:?}", progress.phase);
        if phases.last().is_none_or(|(last, _)| *last != phase) {
            phases.push((phase, start.elapsed()));
        }
    });
    println!("  {} subscriptions in {:.2?}", report.unwrap().added, start.elapsed());
    for (phase, at) in phases {
        println!("    {phase} from {at:.2?}");
    }
    println!("  {} MB on disk, peak memory {}", graph.disk_bytes().unwrap() / 1_000_000, peak());
}

/// Opening looks at the whole file first; here it is in the page cache.
fn reopen(store: &Path) -> Graph {
    let start = Instant::now();
    let check = graph::check(store, &mut |_, _| {}).unwrap();
    println!("  check in {:.2?}: {} findings", start.elapsed(), check.findings_total);
    let start = Instant::now();
    let graph = Graph::open(store, &GraphOptions::default()).unwrap();
    println!("  open in {:.2?}", start.elapsed());
    graph
}

/// The most that this process ever had resident, the kernel's `VmHWM`.
fn peak() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
}

/// What is resident now; from here on [`peak`] counts anew (proc_pid_clear_refs(5)).
fn reset_peak() -> String {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    peak()
}

fn random_users() -> Vec<Id> {
    let mut random = fastrand::Rng::with_seed(7);
    (0..READS).map(|_| Id::from_bits(random.u64(..u64::from(USERS)))).collect()
}

fn read_typical(graph: &Graph, users: &[Id]) {
    let mut found = 0u64;
    // The first round touches the pages, so that the second one is not about the disk.
    for round in ["first", "then"] {
        let start = Instant::now();
        for &user in users {
            graph.slice(user, None, &mut |_| found += 1).unwrap();
        }
        println!("  followers of a random user: {round} {:?}", start.elapsed() / READS);
    }
    println!("    {} on average", found as f64 / f64::from(2 * READS));
}

/// The whole audience, as a sender needs it: read, looked up among a share of the users that are
/// online, and grouped by worker.
fn gather_typical(graph: &Graph, users: &[Id]) {
    for online_percent in [1, 10, 100] {
        let directory = Directory::default();
        for user in (0..USERS).filter(|user| user % 100 < online_percent) {
            let conn = ConnRef::new(user as usize % WORKERS, user as usize / WORKERS, 0);
            directory.login(Id::from_bits(u64::from(user)), conn);
        }
        let (mut found, start) = (0, Instant::now());
        for &user in users {
            let mut audience = Audience::of([user], true);
            while audience.gather(&directory, graph).unwrap() {}
            while let Some((_, connections)) = audience.take_group() {
                found += connections.len();
            }
        }
        println!(
            "  audience of a random user, {online_percent} % online: found and grouped in {:?}, \
             {:.1} connections",
            start.elapsed() / READS,
            found as f64 / f64::from(READS)
        );
    }
}

fn read_largest(graph: &Graph) {
    let followers = |id: Id| {
        let (mut found, mut after) = (0, None);
        loop {
            after = graph.slice(id, after, &mut |_| found += 1).unwrap();
            if after.is_none() {
                return found;
            }
        }
    };
    let largest = (0..1000).map(Id::from_bits).max_by_key(|&id| followers(id));
    let start = Instant::now();
    let found = followers(largest.unwrap());
    println!(
        "  followers of the largest of the first 1000: {found} of them in {:?}",
        start.elapsed()
    );
}

fn stats(graph: &Graph) {
    let start = Instant::now();
    let degrees = graph.stats(&mut |_, _| {}).unwrap().degrees;
    println!(
        "  stats in {:.2?}: {} users, mean degree {:.3}",
        start.elapsed(),
        degrees.users(),
        degrees.mean()
    );
    let quantiles = [0.5, 0.9, 0.99].map(|share| degrees.quantile(share));
    println!("    degree min {}, p50 p90 p99 {quantiles:?}, max {}", degrees.min(), degrees.max());
    let least = degrees.counts[0].1 as f64 / degrees.users() as f64;
    println!("    share with the least degree {least:.4}");
    for xmin in [30, 50, 100] {
        let law = degrees.power_law(xmin).unwrap();
        println!("    exponent {:.3} ± {:.3} from degree {xmin} on", law.exponent, law.error);
    }
}

fn change(graph: &Graph) {
    let pair = |n: u32| Pair::parse(&format!("{}", 2_000_000 + n), &format!("{n}")).unwrap();
    let start = Instant::now();
    for n in 0..1000 {
        graph.add_blocking(vec![pair(n)]).unwrap();
    }
    println!("  one durable subscription: {:?}", start.elapsed() / 1000);
    let start = Instant::now();
    graph.add_blocking((1000..101_000).map(pair).collect()).unwrap();
    println!("  100,000 in one request: {:?}", start.elapsed());
}
