//! Damaged stores: each answers exactly what was stored, or says that it is damaged. None answers
//! anything else, and none ends the process.
//!
//! `ENCKE_DAMAGE_RUNS=2000 cargo test -p graph --test it damage` tries more of them.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::process::Stdio;

use graph::{Graph, GraphOptions, LoadOptions, OpenReason, Page, Pair};
use hub::{Id, IdText};

use super::{child, child_dir, open, pair, seed};

const PAGE: usize = 4096;
const RUNS: u64 = 240;

/// Everybody who may be in the store.
fn people() -> impl Iterator<Item = String> {
    (0..3000).map(|n| if n % 7 == 0 { format!("p{n}") } else { n.to_string() })
}

/// Stores of different histories: their directories, and an older file of each.
fn stores(dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut random = fastrand::Rng::with_seed(1);
    let people: Vec<String> = people().collect();
    let mut pairs = |count: usize| -> Vec<(String, String)> {
        let mut one = || {
            let celebrity = random.usize(..4) == 0;
            let b = random.usize(..if celebrity { 3 } else { people.len() });
            (people[random.usize(..people.len())].clone(), people[b].clone())
        };
        (0..count).map(|_| one()).collect()
    };
    let asked = |pairs: &[(String, String)]| -> Vec<Pair> { pairs.iter().map(pair).collect() };
    let mut stores = Vec::new();
    for kind in ["loaded", "grown", "small"] {
        let store = dir.join(kind);
        let graph = open(&store);
        let count = if kind == "small" { 40 } else { 30_000 };
        let first = pairs(count);
        if kind == "loaded" {
            let text: String = first.iter().map(|(a, b)| format!("{a} {b}\n")).collect();
            let options = LoadOptions::default();
            graph.load("x", &mut text.as_bytes(), 0, options, &mut |_| {}).unwrap();
        } else {
            first.chunks(1000).for_each(|some| {
                graph.add_blocking(asked(some)).unwrap();
            });
        }
        let older = fs::read(store.join("data.mdb")).unwrap();
        graph.add_blocking(asked(&pairs(count / 20))).unwrap();
        graph.remove_blocking(asked(&first[..count / 10])).unwrap();
        graph.add_blocking(asked(&pairs(3))).unwrap();
        stores.push((store, older));
    }
    stores
}

/// One hash of everything that the store can be asked.
fn answers(graph: &Graph) -> Result<u64, String> {
    let mut hasher = DefaultHasher::new();
    graph.subscriptions().hash(&mut hasher);
    for person in people() {
        let Some(id) = graph.names().lookup(IdText::parse(&person).unwrap()) else { continue };
        let mut list = |page: &dyn Fn(Option<Id>) -> Result<Page, graph::ReadError>| {
            let mut after = None;
            loop {
                let page = page(after).map_err(|error| error.to_string())?;
                let texts = page.ids.iter().map(|&id| graph.names().text(id));
                texts.collect::<Vec<_>>().hash(&mut hasher);
                after = page.next;
                if after.is_none() {
                    return Ok::<_, String>(());
                }
            }
        };
        list(&|after| graph.page_followers(id, after, 700))?;
        list(&|after| graph.page_following(id, after, 700))?;
    }
    let stats = graph.stats(&mut |_, _| {}).map_err(|error| error.to_string())?;
    (stats.users, stats.subscriptions, stats.mutual).hash(&mut hasher);
    Ok(hasher.finish())
}

/// Asks for everything, then changes something and takes it back, and asks again.
#[test]
fn child_asks_a_damaged_store() {
    let Some(dir) = child_dir() else { return };
    let told = match Graph::open(&dir, &GraphOptions::default()) {
        Ok(graph) => {
            let new: Vec<Pair> = (0..200).map(|n| pair(&(format!("new{n}"), "0".into()))).collect();
            let changed =
                |answer: Result<u64, graph::WriteError>| answer.map_err(|error| error.to_string());
            answers(&graph).and_then(|before| {
                changed(graph.add_blocking(new.clone()))?;
                changed(graph.remove_blocking(new))?;
                let after = answers(&graph)?;
                Ok(if before == after { format!("answers {before}") } else { "wrong".into() })
            })
        }
        Err(error) => Err(error.to_string()),
    };
    println!("told {}", told.unwrap_or_else(|error| format!("damaged: {error}")));
}

/// Damages `file`, of which `older` is a former version, in one of many ways; says how.
fn damage(random: &mut fastrand::Rng, file: &mut Vec<u8>, older: &[u8]) -> String {
    let pages = file.len() / PAGE;
    let (page, other) = (random.usize(..pages), random.usize(..pages));
    let (at, to) = (page * PAGE, other * PAGE);
    let kind = random.usize(..15);
    match kind {
        0 => (0..random.usize(1..64)).for_each(|_| file[at + random.usize(..PAGE)] = random.u8(..)),
        1 => file[at + random.usize(..PAGE)] ^= 1 << random.usize(..8),
        2 => file[at..at + PAGE].fill(0),
        3 => (0..PAGE).for_each(|n| file.swap(at + n, to + n)),
        4 => file.copy_within(at..at + PAGE, to),
        // The same, but each page says that it is itself.
        5 => (8..PAGE).for_each(|n| file.swap(at + n, to + n)),
        6 => file[at..at + PAGE].fill_with(|| random.u8(..)),
        7 => file[at + 8..at + PAGE].fill_with(|| random.u8(..)),
        8 => file[at + random.usize(..16)] = random.u8(..),
        9 => file[at + 16 + random.usize(..400)] = random.u8(..),
        10 => file[random.usize(..2) * PAGE + random.usize(..152)] = random.u8(..),
        11 => file.truncate(random.usize(..file.len())),
        12 => {
            *file =
                [b"".as_slice(), b"SQLite format 3\0", &vec![7; 40_000]][random.usize(..3)].into()
        }
        // The disk lost one write, or all since then.
        13 if at + PAGE <= older.len() => {
            file[at..at + PAGE].copy_from_slice(&older[at..at + PAGE]);
        }
        13 => file.truncate(at),
        _ => older.clone_into(file),
    }
    format!("damage {kind} at page {page} and {other} of {pages}")
}

#[test]
fn damaged_stores_answer_exactly_or_say_so_and_never_end_the_process() {
    let seed = seed();
    let runs = std::env::var("ENCKE_DAMAGE_RUNS").map_or(RUNS, |runs| runs.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let stores = stores(dir.path());
    let expected: Vec<u64> = stores.iter().map(|(dir, _)| answers(&open(dir)).unwrap()).collect();
    let (mut exact, mut refused) = (0, 0);
    for run in 0..runs {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(run));
        let which = random.usize(..stores.len());
        let (store, older) = &stores[which];
        let damaged = dir.path().join("damaged");
        fs::create_dir_all(&damaged).unwrap();
        fs::copy(store.join("data.state"), damaged.join("data.state")).unwrap();
        let mut file = fs::read(store.join("data.mdb")).unwrap();
        let how = damage(&mut random, &mut file, older);
        let how = format!("{how} of {}, ENCKE_SEED={}", store.display(), seed.wrapping_add(run));
        fs::write(damaged.join("data.mdb"), file).unwrap();

        let check = graph::check(&damaged, &mut |_, _| {});
        let sound = check.as_ref().is_ok_and(|check| check.findings.is_empty());
        let mut asks = child(&[], "damage::child_asks_a_damaged_store", &damaged);
        let output = asks.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{how}: {:?} {text}", output.status);
        let told = text.split_once("told ").map(|(_, told)| told.lines().next().unwrap());
        let told = told.unwrap_or_else(|| panic!("{how}: {text}"));
        if told == format!("answers {}", expected[which]) {
            exact += 1;
        } else {
            assert!(told.starts_with("damaged: "), "{how}: {told}");
            refused += 1;
        }
        assert_eq!(sound, !told.starts_with("damaged: "), "{how}: {check:?}, {told}");
        fs::remove_dir_all(&damaged).unwrap();
    }
    println!(
        "{runs} damaged stores: {exact} answered exactly, {refused} said that they are damaged"
    );
    // Much of a file is not in use: free pages, the room within others.
    assert!(exact > 0 && refused > runs / 4, "the damage hits");
}

#[test]
fn check_lists_what_is_damaged_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = stores(dir.path()).swap_remove(0);
    let path = store.join("data.mdb");
    let whole = graph::check(&store, &mut |_, _| {}).unwrap();
    assert_eq!((whole.findings.len(), whole.disk_bytes > 1 << 19), (0, true));
    assert_eq!(whole.subscriptions, Some(open(&store).subscriptions()));
    let mut file = fs::read(&path).unwrap();
    let leaf = |page: &&mut [u8]| page[10..12] == [2, 0];
    let spoilt = file.chunks_exact_mut(PAGE).filter(leaf).step_by(40).map(|page| {
        page[PAGE - 20] ^= 1;
    });
    assert!(spoilt.count() > 3);
    fs::write(&path, &file).unwrap();
    let check = graph::check(&store, &mut |_, _| {}).unwrap();
    assert!(check.findings_total > 3, "{check:?}");
    assert!(check.findings.iter().any(|text| text.contains("checksum")), "{check:?}");
    assert!(check.findings.iter().all(|text| text.contains("page")), "{check:?}");
    assert_eq!(check.subscriptions, None);
    assert_eq!(fs::read(&path).unwrap(), file);
    let error = Graph::open(&store, &GraphOptions::default()).err().unwrap();
    assert!(matches!(&error.reason, OpenReason::Damaged(what) if *what == check.findings[0]));
}
