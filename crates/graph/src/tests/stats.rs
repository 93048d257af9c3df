//! Numbers of the whole graph against those of a naive count.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

fn neighbours(pairs: &BTreeSet<(u64, u64)>) -> BTreeMap<u64, BTreeSet<u64>> {
    let mut neighbours = BTreeMap::<u64, BTreeSet<u64>>::new();
    for &(a, b) in pairs {
        neighbours.entry(a).or_default().insert(b);
        neighbours.entry(b).or_default().insert(a);
    }
    neighbours
}

#[test]
fn degrees_are_the_same_loaded_one_way_and_both_ways() {
    let mut random = fastrand::Rng::with_seed(seed());
    // An older user below a newer one, as a graph generator writes them; 0 is a hub.
    let pairs: BTreeSet<(u64, u64)> = (1..2000)
        .flat_map(|newer| [(0, newer), (random.u64(..newer), newer), (random.u64(..newer), newer)])
        .collect();
    let text: String = pairs.iter().map(|(a, b)| format!("{a} {b}\n")).collect();
    let neighbours = neighbours(&pairs);
    let mut counts = BTreeMap::new();
    for friends in neighbours.values() {
        *counts.entry(friends.len() as u64).or_default() += 1;
    }
    for both in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let graph = open(dir.path());
        let options = LoadOptions { both, skip_malformed: false };
        graph.load("x", &mut text.as_bytes(), 0, options, &mut |_| {}).unwrap();
        let stats = graph.stats(&mut |_, _| {}).unwrap();
        assert_eq!(stats.users, neighbours.len() as u64);
        assert_eq!(stats.degrees.counts, counts.clone().into_iter().collect::<Vec<_>>());
        let pairs = pairs.len() as u64;
        let expected = if both { (2 * pairs, pairs) } else { (pairs, 0) };
        assert_eq!((stats.subscriptions, stats.mutual), expected);
        assert_eq!(stats.subscriptions, graph.subscriptions());
    }
}

#[test]
fn graph_without_pairs_has_empty_stats() {
    let dir = tempfile::tempdir().unwrap();
    let stats = open(dir.path()).stats(&mut |_, _| {}).unwrap();
    assert_eq!((stats.users, stats.subscriptions, stats.mutual), (0, 0, 0));
    assert_eq!(stats.degrees.counts, []);
}

#[test]
fn whoever_follows_themselves_is_no_mutual_pair() {
    let dir = tempfile::tempdir().unwrap();
    let graph = open(dir.path());
    graph
        .add_blocking(vec![pair("1", "1"), pair("1", "2"), pair("2", "1"), pair("x", "1")])
        .unwrap();
    let stats = graph.stats(&mut |_, _| {}).unwrap();
    assert_eq!((stats.users, stats.subscriptions, stats.mutual), (3, 4, 1));
}
