//! What is in it, beside a map of the standard library, and how much room it leaves free.

use std::collections::BTreeMap;

use super::*;

type Table = BucketTable<(u64, u32), 16>;

/// Fibonacci hashing, folded: enough for numbers that nobody chooses.
fn hash(key: u64) -> u64 {
    let wide = (key ^ 0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    wide ^ wide >> 32
}

fn hash_of((key, _): &(u64, u32)) -> u64 {
    hash(*key)
}

fn bytes(table: &Table) -> usize {
    table.allocations().sum()
}

#[test]
fn table_has_what_a_map_has_whatever_comes_and_goes() {
    let mut random = fastrand::Rng::with_seed(testing::seed());
    let (mut table, mut map) = (Table::default(), BTreeMap::new());
    let mut grows = true;
    for step in 0..60_000_u32 {
        // It grows to some hundreds, goes down to nothing, and so on.
        grows = if map.len() > 700 { false } else { grows || map.is_empty() };
        let key = random.u64(..2_000);
        let is_it = |entry: &(u64, u32)| entry.0 == key;
        if random.u32(..10) < if grows { 7 } else { 3 } {
            match table.find_mut(hash(key), is_it) {
                Some(found) => found.1 = step,
                None => _ = table.insert((key, step), hash_of),
            }
            map.insert(key, step);
        } else {
            let removed = table.remove(hash(key), is_it).map(|(_, value)| value);
            assert_eq!(removed, map.remove(&key), "key {key}, step {step}");
        }
        let found = table.find(hash(key), is_it).map(|&(_, value)| value);
        assert_eq!((found, table.len()), (map.get(&key).copied(), map.len()));
        if step % 500 == 0 {
            let all: BTreeMap<u64, u32> = table.iter().copied().collect();
            assert!(all == map && table.iter().count() == map.len(), "step {step}");
        }
    }
}

#[test]
fn table_leaves_little_room_free_at_every_size_and_all_comes_back() {
    const ENTRY: usize = size_of::<(u64, u32)>();
    let mut table = Table::default();
    for key in 0..20_000 {
        table.insert((key, 0), hash_of);
        let len = table.len();
        let bound = len * ENTRY * 5 / 4 + 100;
        assert!(bytes(&table) <= bound, "{} of {len}", bytes(&table));
        // One more never moves more than a bucket, and none has many times its share.
        let longest = table.buckets.iter().map(Vec::len).max();
        assert!(longest < Some(16 * 5), "{longest:?} in one of {len}");
    }
    for key in 0..20_000 {
        assert_eq!(table.remove(hash(key), |entry| entry.0 == key), Some((key, 0)));
        assert!(bytes(&table) <= 4 * (table.len() + 16) * ENTRY, "{} remain", table.len());
        assert_eq!(table.remove(hash(key), |entry| entry.0 == key), None);
    }
    assert_eq!((table.len(), bytes(&table)), (0, 0));
}

/// Between two slices as many entries come or go as change the number of buckets.
#[test]
fn walk_meets_each_entry_once_that_is_there_all_the_while() {
    let mut random = fastrand::Rng::with_seed(testing::seed());
    for _ in 0..200 {
        let mut table = Table::default();
        let mut there: Vec<u64> = (0..random.u64(..1_500)).collect();
        there.iter().for_each(|&key| _ = table.insert((key, 0), hash_of));
        let (mut stay, mut met) = (BTreeMap::from_iter(there.iter().map(|key| (*key, 0))), 0);
        let (goes, most) = (random.usize(..10), random.usize(1..100));
        let (mut next, mut new) = (Some(0), 10_000);
        while let Some(from) = next {
            let mut seen = 0;
            next = table.walk(from, most, hash_of, |(key, _)| {
                seen += 1;
                met += 1;
                if let Some(times) = stay.get_mut(key) {
                    *times += 1;
                }
            });
            assert!(seen <= most + 64, "a slice and a bucket: {seen}");
            for _ in 0..random.usize(..most + 16) {
                if random.usize(..10) < goes && !there.is_empty() {
                    let key = there.swap_remove(random.usize(..there.len()));
                    table.remove(hash(key), |entry| entry.0 == key).unwrap();
                    stay.remove(&key);
                } else {
                    table.insert((new, 0), hash_of);
                    there.push(new);
                    new += 1;
                }
            }
            assert!(met <= 10_000_000, "a walk ends");
        }
        assert!(stay.values().all(|times| *times == 1), "{goes} {most}");
    }
}
