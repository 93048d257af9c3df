//! `kill -9` at random moments: what was acknowledged is there, what was not is there wholly or not
//! at all, and both directions agree.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::time::{Duration, Instant};

use graph::Graph;
use graph::{LoadOptions, OpenReason, Page};
use hub::{Id, IdText};

use super::{SEED, child, child_dir, open, pair, seed, spawn};

pub(super) type Pairs = BTreeSet<(String, String)>;

const KILLS: u64 = 60;
const THREADS: u64 = 3;

/// One request: add or remove some pairs.
pub(super) struct Operation {
    pub(super) add: bool,
    pub(super) pairs: Vec<(String, String)>,
}

/// The endless list of requests that a thread makes. Threads have subscribers of their own, so that
/// their order among each other does not matter; the subscribees are everybody's.
pub(super) fn operations(seed: u64, thread: u64) -> impl Iterator<Item = Operation> {
    let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(THREADS).wrapping_add(thread));
    let name = |random: &mut fastrand::Rng, kind: &str, count| {
        let number = random.u64(..count);
        if number.is_multiple_of(2) { format!("{number}{kind}") } else { format!("{number}") }
    };
    std::iter::repeat_with(move || {
        let add = random.u64(..3) > 0;
        let pairs = (0..random.usize(1..30))
            .map(|_| {
                let own = 1000 * (thread + 1) + random.u64(..25);
                let own =
                    if own.is_multiple_of(2) { format!("user:{own}") } else { own.to_string() };
                (own, name(&mut random, "th", 40))
            })
            .collect();
        Operation { add, pairs }
    })
}

pub(super) fn apply(pairs: &mut Pairs, operation: &Operation) {
    for pair in &operation.pairs {
        if operation.add {
            pairs.insert(pair.clone());
        } else {
            pairs.remove(pair);
        }
    }
}

#[test]
fn child_changes_until_it_is_killed() {
    let Some(dir) = child_dir() else { return };
    let seed = std::env::var(SEED).unwrap().parse().unwrap();
    let graph = open(&dir);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let graph = &graph;
            scope.spawn(move || {
                for operation in operations(seed, thread) {
                    let pairs = operation.pairs.iter().map(pair).collect();
                    let result = match operation.add {
                        true => graph.add_blocking(pairs),
                        false => graph.remove_blocking(pairs),
                    };
                    result.unwrap();
                    // One write, so that a kill cannot leave half a line.
                    std::io::stdout().write_all(format!("done {thread}\n").as_bytes()).unwrap();
                }
            });
        }
    });
}

#[test]
fn acknowledged_changes_survive_sixty_kills() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let dir = tempfile::tempdir().unwrap();
    let mut models = vec![Pairs::new(); THREADS as usize];
    let mut acknowledged = 0;
    for kill in 0..KILLS {
        let seed = seed.wrapping_add(kill);
        let mut command = child(&[], "crash::child_changes_until_it_is_killed", dir.path());
        let mut child = spawn(command.env(SEED, seed.to_string()));
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut done = vec![0; THREADS as usize];
        for _ in 0..random.u32(..60) {
            count(&mut lines, &mut done);
        }
        spin(Duration::from_micros(random.u64(..3000)));
        child.kill().unwrap();
        child.wait().unwrap();
        while count(&mut lines, &mut done) {}

        let stored = everything(&open(dir.path()));
        for (thread, model) in models.iter_mut().enumerate() {
            let mut operations = operations(seed, thread as u64);
            operations.by_ref().take(done[thread]).for_each(|done| apply(model, &done));
            acknowledged += done[thread];
            let own = |(subscriber, _): &&(String, String)| {
                let digits = subscriber.trim_start_matches("user:");
                digits.parse::<usize>().unwrap() / 1000 == thread + 1
            };
            let own: Pairs = stored.iter().filter(own).cloned().collect();
            if own != *model {
                // The one that was under way is there wholly.
                apply(model, &operations.next().unwrap());
                assert_eq!(own, *model, "thread {thread} after kill {kill}");
            }
        }
    }
    assert!(acknowledged > 0, "the children worked at all");
}

/// Reads one more line of a child; false when there are no more.
fn count(lines: &mut BufReader<ChildStdout>, done: &mut [usize]) -> bool {
    let mut line = String::new();
    while lines.read_line(&mut line).unwrap() > 0 {
        // The first line starts with what the test runner prints.
        if let Some((_, thread)) = line.split_once("done ") {
            done[thread.trim().parse::<usize>().unwrap()] += 1;
            return true;
        }
        line.clear();
    }
    false
}

/// Lets the child work on: the moment of the kill must not depend on what it prints.
pub(super) fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// All pairs by their names, having checked that both directions and the count agree.
pub(super) fn everything(graph: &Graph) -> Pairs {
    let numbers = (0..4000).map(|n| n.to_string());
    let names = (0..40).map(|n| format!("{n}th")).chain((1000..4000).map(|n| format!("user:{n}")));
    let ids: Vec<Id> = numbers
        .chain(names)
        .filter_map(|text| graph.names().lookup(IdText::parse(&text).unwrap()))
        .collect();
    let text = |id| graph.names().text(id).unwrap();
    let all = |page: Page| page.ids;
    let (mut forth, mut back) = (Pairs::new(), Pairs::new());
    for &id in &ids {
        let followers = all(graph.page_followers(id, None, usize::MAX).unwrap());
        forth.extend(followers.into_iter().map(|follower| (text(follower), text(id))));
        let following = all(graph.page_following(id, None, usize::MAX).unwrap());
        back.extend(following.into_iter().map(|followed| (text(id), text(followed))));
    }
    assert_eq!(forth, back, "both directions agree");
    assert_eq!(graph.subscriptions(), forth.len() as u64, "the count is exact");
    forth
}

fn friends(dir: &Path) -> PathBuf {
    dir.join("friends.txt")
}

#[test]
fn child_loads_until_it_is_killed() {
    let Some(dir) = child_dir() else { return };
    let graph = open(&dir);
    let mut progress = |progress: graph::Progress| {
        println!("phase {:?}", progress.phase);
    };
    let mut file = File::open(friends(&dir)).unwrap();
    let bytes = file.metadata().unwrap().len();
    graph.load("friends", &mut file, bytes, LoadOptions::default(), &mut progress).unwrap();
}

#[test]
fn load_that_is_killed_leaves_the_store_as_it_was_or_loads_all() {
    let mut random = fastrand::Rng::with_seed(seed());
    let dir = tempfile::tempdir().unwrap();
    let before: Pairs = (0..50).map(|n| (format!("user:{}", 1000 + n), format!("{n}"))).collect();
    assert_eq!(open(dir.path()).add_blocking(before.iter().map(pair).collect()), Ok(50));
    let mut after = before.clone();
    after.extend((0..60_000u32).map(|n| {
        let subscriber = random.u32(1000..4000);
        (subscriber.to_string(), (n % 1000).to_string())
    }));
    let text: String = after.iter().map(|(a, b)| format!("{a} {b}\n")).collect();
    fs::write(friends(dir.path()), text).unwrap();

    let (mut kept, mut loaded) = (0, 0);
    for _ in 0..12 {
        let mut child = spawn(&mut child(&[], "crash::child_loads_until_it_is_killed", dir.path()));
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let phases = random.usize(1..8);
        let mut seen = 0;
        while seen < phases && lines.read_line(&mut line).unwrap() > 0 {
            seen += usize::from(line.contains("phase"));
            line.clear();
        }
        spin(Duration::from_micros(random.u64(..20_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let graph = open(dir.path());
        let stored = everything(&graph);
        if stored == before {
            kept += 1;
        } else {
            assert!(stored == after, "half a load: {} of {}", stored.len(), after.len());
            loaded += 1;
            let rest = after.difference(&before).map(pair).collect();
            graph.remove_blocking(rest).unwrap();
        }
    }
    println!("{kept} times as it was, {loaded} times loaded");
}

#[test]
fn child_holds_the_directory() {
    let Some(dir) = child_dir() else { return };
    let _graph = open(&dir);
    println!("open");
    loop {
        std::thread::park();
    }
}

#[test]
fn directory_in_use_by_another_process_is_free_once_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = spawn(&mut child(&[], "crash::child_holds_the_directory", dir.path()));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().ends_with("open")).unwrap().unwrap();
    let error = Graph::open(dir.path(), &graph::GraphOptions::default()).err().unwrap();
    let expected = format!("another process (pid {}) uses it; stop that one first", child.id());
    assert!(
        matches!(error.reason, OpenReason::InUse { .. }) && error.to_string().contains(&expected)
    );
    child.kill().unwrap();
    child.wait().unwrap();
    open(dir.path());
}
