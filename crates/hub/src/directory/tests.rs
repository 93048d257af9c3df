//! The directory's tables: ids that come, gather connections and go.

use super::*;

fn id(number: u64) -> Id {
    Id::integer(number).unwrap()
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
        directory.stripes.iter().map(|stripe| lock(stripe).slots.allocation_size()).sum()
    };
    let conn = |n: u64| ConnRef::new(0, n as usize, 0);
    (0..100_000).for_each(|n| directory.login(id(n), conn(n)));
    assert!((1_700_000..=3_900_000).contains(&bytes()), "{}", bytes());
    (1000..100_000).for_each(|n| directory.logout(id(n), conn(n)));
    assert!(bytes() < 1000 * 300, "{}", bytes());
    (0..1000).for_each(|n| directory.logout(id(n), conn(n)));
    assert_eq!(bytes(), 0);
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
