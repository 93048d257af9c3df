//! The continuum against what is known of libketama.

use super::*;

fn server(address: &str, memory: u64) -> Server {
    Server::new(address, memory).unwrap()
}

#[test]
fn shares_are_those_of_single_precision() {
    // libketama itself makes 9,516 points of 61 such servers and 9,920 of 62.
    let of_equal = |n: usize| digests(100, 100 * n as u64, n);
    let fewer: Vec<usize> = (1..=1024).filter(|&n| of_equal(n) != 40).collect();
    assert_eq!(fewer, [61, 122, 237, 244, 474, 488, 933, 948, 951, 953, 976]);
    assert!(fewer.into_iter().all(|n| of_equal(n) == 39));
}

#[test]
fn servers_that_make_no_continuum_are_refused() {
    let error = |servers: &[Server]| Continuum::new(servers).unwrap_err();
    assert_eq!(error(&[]), ContinuumError::NoServer);
    let many = vec![server("a", 1); SERVERS_MAX + 1];
    assert_eq!(error(&many), ContinuumError::TooManyServers(SERVERS_MAX + 1));
    let much = [server("a", u64::MAX), server("b", 1)];
    assert_eq!(error(&much), ContinuumError::TooMuchMemory);
}

#[test]
fn one_server_has_every_key_whatever_its_memory() {
    for memory in [1, 600, u64::MAX] {
        let continuum = Continuum::new(&[server("a:1", memory)]).unwrap();
        assert_eq!(continuum.points().len(), 160);
        for hash in [0, 1, u32::MAX / 2, u32::MAX] {
            assert_eq!(continuum.point_at(hash).server.address(), "a:1");
        }
    }
}

#[test]
fn digests_of_all_servers_are_40_each_at_most_wherever_the_memory_is() {
    assert_eq!(digests(u64::MAX, u64::MAX, SERVERS_MAX), 40 * SERVERS_MAX as u32);
    assert_eq!(digests(1, u64::MAX, SERVERS_MAX), 0);
}

#[test]
fn hash_at_a_point_lands_on_it_and_past_the_last_on_the_first() {
    let continuum = Continuum::new(&[server("a:1", 1), server("b:1", 2)]).unwrap();
    let points: Vec<Point<'_>> = continuum.points().collect();
    assert!(points.is_sorted_by_key(|point| point.hash));
    for pair in points.windows(2) {
        assert_eq!(continuum.point_at(pair[0].hash).hash, pair[0].hash);
        assert_eq!(continuum.point_at(pair[0].hash + 1).hash, pair[1].hash);
    }
    let (first, last) = (points[0], points[points.len() - 1]);
    assert_eq!(continuum.point_at(last.hash), last);
    assert_eq!(continuum.point_at(last.hash + 1), first);
    assert_eq!(continuum.point_at(0), first);
}

#[test]
fn server_with_next_to_no_memory_has_no_point_and_is_named() {
    let servers = [server("a:1", 1000), server("b:1", 1), server("c:1", 1000)];
    let continuum = Continuum::new(&servers).unwrap();
    let without: Vec<&Server> = continuum.servers_without_points().collect();
    assert_eq!(without, [&servers[1]]);
    assert!(continuum.points().all(|point| point.server.address() != "b:1"));
}

#[test]
fn server_that_stands_twice_has_its_points_twice() {
    let continuum = Continuum::new(&[server("a:1", 1), server("a:1", 1)]).unwrap();
    assert_eq!(continuum.points().len(), 320);
    let hashes: Vec<u32> = continuum.points().map(|point| point.hash).collect();
    assert!(hashes.as_chunks::<2>().0.iter().all(|[one, other]| one == other));
}
