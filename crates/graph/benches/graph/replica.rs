//! A replica at full size: built from two sorted streams, changed without a sync, copied, summed.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use graph::for_each_line;
use graph::replica::{
    Change, LogPlace, NumberedId, Origin, PairBatch, Replica, ReplicaOptions, Standing, install,
};
use hub::IdText;

use super::{USERS, peak, random_users, read_typical, reset_peak};

/// Changes that are timed, alone and in batches.
const CHANGES: u64 = 50_000;

pub(super) fn run(file: &Path, dir: &Path) {
    println!("\nreplica:");
    let mut edges = edges(file);
    let mut replica = Replica::open(dir, &ReplicaOptions::default()).unwrap();
    rebuild(&mut replica, &mut edges, "", 0);
    let graph = replica.graph().clone();
    println!("  {} MB on disk", graph.disk_bytes().unwrap() / 1_000_000);
    read_typical(&graph, &random_users());
    change(&mut replica);
    sums(&replica);
    copy(&replica, dir);
    let before = graph.subscriptions();
    println!("  with names:");
    rebuild(&mut replica, &mut edges, "user:", 7);
    assert!(graph.subscriptions() < before);
    close(replica, graph, dir);
}

/// (subscriber, subscribee)
type Edges = Vec<(u32, u32)>;

fn edges(file: &Path) -> Edges {
    let mut edges = Edges::new();
    let number = |text: IdText<'_>| match text {
        IdText::Integer(id) => id.to_bits() as u32,
        IdText::Name(_) => 0,
    };
    let mut push = |line: graph::Line<'_>, _| {
        let (a, b) = line.unwrap().unwrap();
        edges.push((number(a), number(b)));
        Ok::<_, std::io::Error>(())
    };
    for_each_line(&mut File::open(file).unwrap(), &mut push).unwrap();
    edges
}

/// Pairs of a batch: 26 bytes each, and a channel of a few batches stays small.
const BATCH_PAIRS: usize = 8192;

/// As PostgreSQL would send them, in batches of text.
fn stream(edges: &Edges, prefix: &str) -> impl Iterator<Item = Result<PairBatch, String>> {
    edges.chunks(BATCH_PAIRS).map(move |edges| {
        let mut batch = PairBatch::default();
        let (mut subscriber, mut subscribee) = (String::new(), String::new());
        for (a, b) in edges {
            use std::fmt::Write;
            subscriber.clear();
            subscribee.clear();
            write!(subscriber, "{prefix}{a}").unwrap();
            write!(subscribee, "{prefix}{b}").unwrap();
            let number = |id: &u32| Some(*id).filter(|_| !prefix.is_empty());
            batch.push_numbered(
                NumberedId { text: &subscriber, number: number(a) },
                NumberedId { text: &subscribee, number: number(b) },
            );
        }
        Ok(batch)
    })
}

/// What this thread has run so far (Documentation/scheduler/sched-stats.rst): on a machine that is
/// busy with other work, the figure to go by.
fn on_cpu() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// The text of the batches is made while they are asked for, which counts.
fn rebuild(replica: &mut Replica, edges: &mut Edges, prefix: &str, version: u64) {
    edges.sort_unstable_by_key(|&(a, b)| (b, a));
    let by_subscribee = edges.clone();
    edges.sort_unstable();
    let resident = reset_peak();
    let (start, cpu) = (Instant::now(), on_cpu());
    let mut second = Duration::ZERO;
    let marked = std::iter::once_with(|| {
        second = on_cpu() - cpu;
        Ok(PairBatch::default())
    });
    let origin = Origin { lineage: 1, version, ..Origin::default() };
    let by_subscriber = marked.chain(stream(edges, prefix));
    replica.rebuild(&origin, stream(&by_subscribee, prefix), by_subscriber).unwrap();
    println!(
        "  rebuilt in {:.2?}, {:.2?} of processor, {second:.2?} of it for the first stream; \
         memory {resident} before, at most {}",
        start.elapsed(),
        on_cpu() - cpu,
        peak()
    );
}

/// Between people who are there.
fn pairs(seed: u64, count: u64) -> Vec<(String, String)> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut id = || random.u32(..USERS).to_string();
    (0..count).map(|_| (id(), id())).collect()
}

fn change(replica: &mut Replica) {
    let mut version = 0;
    for (name, batch) in [("a change of one pair", 1), ("each of 100 in one transaction", 100)] {
        let pairs = pairs(batch, CHANGES);
        let (mut took, cpu) = (Vec::new(), on_cpu());
        for pairs in pairs.chunks(batch as usize) {
            let changes: Vec<Change<'_>> = (version + 1..)
                .zip(pairs.chunks(1))
                .map(|(version, added)| {
                    let at = Some(LogPlace { epoch: 1, sequence: version, record: 0 });
                    Change { version, removed: &[], added, set_hash: None, at }
                })
                .collect();
            let start = Instant::now();
            replica.apply(&changes).unwrap();
            took.push(start.elapsed() / batch as u32);
            version += batch;
        }
        took.sort();
        let at = |share: f64| took[(share * (took.len() - 1) as f64) as usize];
        let mean = took.iter().sum::<Duration>() / took.len() as u32;
        let cpu = (on_cpu() - cpu) / CHANGES as u32;
        let [p50, p99] = [at(0.5), at(0.99)];
        println!("  {name}: mean {mean:.1?}, p50 {p50:.1?}, p99 {p99:.1?}, processor {cpu:.1?}");
    }
}

fn sums(replica: &Replica) {
    let start = Instant::now();
    let sums = replica.graph().bucket_sums().unwrap();
    assert_eq!(sums.total(), sums.state.set_hash);
    println!("  bucket sums in {:.2?}", start.elapsed());
}

fn copy(replica: &Replica, dir: &Path) {
    let other = dir.with_extension("copy");
    fs::create_dir(&other).unwrap();
    let (file, start) = (other.join("copy"), Instant::now());
    replica.graph().copy_to(&mut File::create(&file).unwrap()).unwrap();
    println!("  copied in {:.2?}", start.elapsed());
    let start = Instant::now();
    install(&file, &other).unwrap();
    println!("  copy looked through, synced and installed in {:.2?}", start.elapsed());
}

fn close(replica: Replica, graph: graph::Graph, dir: &Path) {
    let start = Instant::now();
    drop((replica, graph));
    println!("  closed in {:.2?}", start.elapsed());
    let start = Instant::now();
    let replica = Replica::open(dir, &ReplicaOptions::default()).unwrap();
    assert!(matches!(replica.standing(), Standing::Follows(_)));
    println!("  opened in {:.2?}", start.elapsed());
}
