//! The directory's tables: ids that come, gather connections and go.

use super::*;

fn id(number: u64) -> Id {
    Id::integer(number).unwrap()
}

/// One whose tables are packed, or not.
fn either(is_packed: bool, stripes: usize) -> Directory {
    match is_packed {
        true => Directory::packed(stripes),
        false => Directory::with_stripes(stripes),
    }
}

fn walked(directory: &Directory, number: u64, most: usize) -> Vec<ConnRef> {
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        after = directory.walk(id(number), after, most, |conn| seen.push(conn));
        if after.is_none() {
            return seen;
        }
        assert_eq!(seen.len() % most, 0, "a slice is full when there are more");
    }
}

#[test]
fn one_id_goes_from_one_connection_to_many_and_back() {
    let directory = Directory::default();
    let mut conns: Vec<ConnRef> = (0..1000).map(|n| ConnRef::new(n % 7, n, 1)).collect();
    for (n, &conn) in conns.iter().enumerate() {
        directory.login(id(1), conn);
        assert_eq!(directory.connections(id(1)), n + 1);
    }
    let mut in_order = conns.clone();
    in_order.sort_unstable();
    for most in [1, 8, 1000, 1001] {
        assert_eq!(walked(&directory, 1, most), in_order);
    }
    let last = conns.pop().unwrap();
    for (n, &conn) in conns.iter().enumerate() {
        directory.logout(id(1), conn);
        directory.logout(id(1), conn);
        assert_eq!(directory.connections(id(1)), 999 - n);
    }
    assert_eq!(walked(&directory, 1, 4), [last]);
    directory.logout(id(1), last);
    assert_eq!((directory.connections(id(1)), directory.ids_online()), (0, 0));
    assert!(walked(&directory, 1, 4).is_empty());
}

/// More than a hundred thousand, which once was the most that an id might have.
#[test]
fn id_has_as_many_connections_as_there_are_and_their_memory_goes_with_them() {
    const CONNS: usize = 200_000;
    let directory = Directory::default();
    let conn = |n: usize| ConnRef::new(n % 7, n / 7, 1);
    // In an order that is nobody's: the factor has none in common with how many there are.
    for n in (0..CONNS).map(|n| n * 7_919 % CONNS) {
        directory.login(id(1), conn(n));
    }
    assert_eq!((directory.connections(id(1)), directory.ids_online()), (CONNS, 1));
    let mut in_order: Vec<ConnRef> = (0..CONNS).map(conn).collect();
    in_order.sort_unstable();
    assert_eq!(walked(&directory, 1, 4_096), in_order);
    // Who goes between two slices is not visited, and all others are.
    let (mut seen, mut after, mut slices) = (Vec::new(), None, 0);
    loop {
        after = directory.walk(id(1), after, 4_096, |conn| seen.push(conn));
        let Some(last) = after else { break };
        slices += 1;
        directory.logout(id(1), last);
        directory.logout(id(1), in_order[in_order.len() - slices]);
    }
    assert_eq!(seen, in_order[..CONNS - slices]);
    for n in (0..CONNS).map(|n| n * 104_729 % CONNS) {
        directory.logout(id(1), conn(n));
    }
    assert_eq!((directory.connections(id(1)), directory.ids_online()), (0, 0));
    assert!(directory.stripes.iter().all(|stripe| lock(stripe).sets.is_empty()));
}

#[test]
fn few_connections_are_visited_and_many_are_left_to_be_walked() {
    let directory = Directory::default();
    for number in 0..=6 {
        (0..number).for_each(|slot| directory.login(id(number), ConnRef::new(1, slot as usize, 0)));
    }
    let (mut large, mut seen) = (Vec::new(), 0);
    let ids: Vec<Id> = (0..=6).map(id).collect();
    directory.visit(&ids, &mut large, |_| seen += 1);
    assert_eq!((large, seen), (vec![id(5), id(6)], 1 + 2 + 3 + 4));
}

#[test]
fn other_generation_is_another_connection() {
    let directory = Directory::default();
    directory.login(id(1), ConnRef::new(0, 3, 8));
    directory.logout(id(1), ConnRef::new(0, 3, 7));
    assert_eq!(directory.connections(id(1)), 1);
}

#[test]
fn table_of_a_stripe_is_freed_when_its_ids_are_gone() {
    let directory = Directory::default();
    let bytes = || -> usize {
        let of_stripe = |stripe| lock(stripe).slots.allocations().into_iter().sum::<usize>();
        directory.stripes.iter().map(of_stripe).sum()
    };
    let conn = |n: u64| ConnRef::new(0, n as usize, 0);
    (0..100_000).for_each(|n| directory.login(id(n), conn(n)));
    assert!((1_700_000..=3_900_000).contains(&bytes()), "{}", bytes());
    (1000..100_000).for_each(|n| directory.logout(id(n), conn(n)));
    assert!(bytes() < 1000 * 300, "{}", bytes());
    (0..1000).for_each(|n| directory.logout(id(n), conn(n)));
    assert_eq!(bytes(), 0);
}

/// In one stripe, which is a list or a table as they come and go, or a packed one.
#[test]
fn ids_of_a_stripe_are_found_however_many_come_and_go() {
    testing::seeded(20, |rng| {
        let is_packed = rng.bool();
        let directory = either(is_packed, 1);
        let mut online = std::collections::BTreeMap::new();
        for step in 0..4_000_usize {
            // More and more of them, and then fewer.
            let most = 1 + step.min(4_000 - step) as u64 / 40;
            let number = rng.u64(..100);
            let conn = ConnRef::new(0, step, 1);
            match online.get(&number).copied() {
                Some(last) if number >= most || rng.bool() => {
                    directory.logout(id(number), last);
                    online.remove(&number);
                }
                None if number < most => {
                    directory.login(id(number), conn);
                    online.insert(number, conn);
                }
                _ => {}
            }
            assert_eq!(directory.ids_online(), online.len());
            let number = rng.u64(..100);
            let mut seen = Vec::new();
            directory.visit(&[id(number)], &mut Vec::new(), |conn| seen.push(conn));
            let expected: Vec<ConnRef> = online.get(&number).copied().into_iter().collect();
            assert_eq!(seen, expected);
        }
        while online.len() > 3
            && let Some((number, last)) = online.pop_first()
        {
            directory.logout(id(number), last);
        }
        let bytes = directory.allocations().sum::<usize>();
        // A packed one has a list of its buckets beside.
        let most = 32 * online.len() + if is_packed { 48 } else { 0 };
        assert!(bytes <= most, "{bytes} for {}", online.len());
    });
}

/// What a client with a topic of its own takes in these tables, as the allocator rounds it. The
/// name has 29 bytes.
#[test]
fn topic_of_one_listener_takes_75_bytes_at_most_with_its_name() {
    let rounded = |bytes: usize| (bytes + 8).next_multiple_of(16).max(32);
    let (names, directory) = (crate::Names::new([7; 16]), Directory::default());
    let all = || -> usize {
        let own = directory.allocations().filter(|&bytes| bytes > 0);
        own.chain(names.allocations()).map(rounded).sum()
    };
    let listen = |n: usize| {
        let key = format!("#t:https://a.test/books/{n:05}");
        let text = crate::IdText::of_key(&key).unwrap();
        directory.login(names.login(text, true).unwrap(), ConnRef::new(0, n, 1));
    };
    (0..1_000).for_each(listen);
    let (before, mut from) = (all(), 1_000);
    for count in [6_000, 15_000, 30_000, 60_000] {
        (from..1_000 + count).for_each(listen);
        from = 1_000 + count;
        let each = (all() - before) as f64 / count as f64;
        assert!(each <= 75.0, "{each} bytes for each of {count}");
    }
}

#[test]
fn keys_are_counted_apart_from_ids() {
    let (directory, conn) = (Directory::default(), ConnRef::new(0, 1, 1));
    let key = Id::name(5, 7, true);
    directory.login(id(1), conn);
    directory.login(key, conn);
    directory.login(key, ConnRef::new(0, 2, 1));
    assert_eq!((directory.ids_online(), directory.keys_online()), (1, 1));
    directory.logout(key, conn);
    assert_eq!((directory.ids_online(), directory.keys_online()), (1, 1));
    directory.logout(key, ConnRef::new(0, 2, 1));
    assert_eq!((directory.ids_online(), directory.keys_online()), (1, 0));
}

/// Some ids have one connection, some a few, some many; connections have up to all ids.
#[test]
fn ids_are_found_again_by_their_hash_and_the_connection() {
    testing::seeded(10, |rng| {
        let directory = either(rng.bool(), 1 + rng.usize(..3));
        let mut online = std::collections::BTreeSet::new();
        let ids = 1 + rng.u64(..400);
        for step in 0..8_000_usize {
            let (number, conn) = (rng.u64(..ids), ConnRef::new(0, rng.usize(..100), 1));
            let pair = (conn, number);
            assert_eq!(directory.has(id(number), conn), online.contains(&pair));
            let hash = directory.hash(id(number));
            let mut found = Vec::new();
            directory.ids_of(conn, hash, |id| found.push(id));
            let expected: Vec<Id> =
                online.contains(&pair).then_some(id(number)).into_iter().collect();
            assert_eq!(found, expected);
            let is_gone = match step % 3 {
                0 => directory.logout_of_hash(conn, hash).is_some_and(|gone| {
                    assert_eq!(gone, id(number));
                    true
                }),
                _ if online.insert(pair) => {
                    directory.login(id(number), conn);
                    continue;
                }
                _ => false,
            };
            assert_eq!(is_gone, step % 3 == 0 && online.remove(&pair));
        }
        for (conn, number) in online {
            assert_eq!(
                directory.logout_of_hash(conn, directory.hash(id(number))),
                Some(id(number))
            );
        }
        assert_eq!(directory.ids_online(), 0);
    });
}

/// Keys under which all ids have one hash, which no client knows how to choose.
#[test]
fn ids_of_one_hash_are_told_apart_by_their_connections() {
    let directory = Directory::of_one_hash();
    let conn = |n: usize| ConnRef::new(0, n, 1);
    let hash = directory.hash(id(0));
    // More than a bucket has, and each third id has two connections.
    for n in 0..40 {
        assert_eq!(directory.hash(id(n)), hash);
        directory.login(id(n), conn(n as usize / 4));
        if n % 3 == 0 {
            directory.login(id(n), conn(77));
        }
    }
    let ids_of = |n: usize| {
        let mut ids = Vec::new();
        directory.ids_of(conn(n), hash, |id| ids.push(id));
        ids.sort_unstable();
        ids
    };
    for n in 0..10 {
        assert_eq!(ids_of(n), (0..4).map(|of| id(n as u64 * 4 + of)).collect::<Vec<_>>());
    }
    assert_eq!(ids_of(77), (0..14).map(|n| id(n * 3)).collect::<Vec<_>>());
    assert_eq!(ids_of(78), []);
    for left in (0..4).rev() {
        for n in 0..10 {
            let gone = directory.logout_of_hash(conn(n), hash).unwrap();
            assert!(!directory.has(gone, conn(n)));
            assert_eq!(ids_of(n).len(), left);
        }
    }
    assert_eq!((ids_of(77).len(), directory.ids_online()), (14, 14));
    while directory.logout_of_hash(conn(77), hash).is_some() {}
    assert_eq!(directory.ids_online(), 0);
}
