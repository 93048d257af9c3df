//! What moves when a server goes is computed exactly. Every hash between two points of either
//! continuum has one owner before and one after, so shares are sums of arcs and no keys are drawn.
//!
//! `ENCKE_SEED=<seed> cargo test -p ketama` repeats the servers' names.

use std::collections::HashMap;

use fastrand::Rng;
use ketama::{Continuum, Server};

/// Hashes of the circle.
const CIRCLE: f64 = 4_294_967_296.0;

/// Lists of servers in each test.
const LISTS: usize = 20;

fn rng() -> Rng {
    Rng::with_seed(testing::seed())
}

/// `count` servers with the same memory at random addresses.
fn equal_servers(rng: &mut Rng, count: usize) -> Vec<Server> {
    // Their ports keep two of them apart.
    let address = |n| format!("10.{}.{}.{}:{n}", rng.u8(..), rng.u8(..), rng.u8(..));
    (0..count).map(address).map(|address| Server::new(&address, 100).unwrap()).collect()
}

fn without(servers: &[Server], gone: &Server) -> Continuum {
    let left: Vec<Server> = servers.iter().filter(|server| *server != gone).cloned().collect();
    Continuum::new(&left).unwrap()
}

/// The arcs between the points of either continuum: the hash at the end of each, and its length.
fn arcs(one: &Continuum, other: &Continuum) -> Vec<(u32, u32)> {
    let points = one.points().chain(other.points());
    let mut ends: Vec<u32> = points.map(|point| point.hash).collect();
    ends.sort_unstable();
    ends.dedup();
    let before = ends.last().into_iter().chain(&ends);
    // The first arc begins behind the last point, on the other side of zero.
    ends.iter().zip(before).map(|(end, before)| (*end, end.wrapping_sub(*before))).collect()
}

/// The share of the circle that each server has.
fn shares(continuum: &Continuum) -> Vec<f64> {
    let mut shares: HashMap<&str, f64> = HashMap::new();
    for (end, length) in arcs(continuum, continuum) {
        let owner = continuum.point_at(end).server.address();
        *shares.entry(owner).or_default() += f64::from(length) / CIRCLE;
    }
    shares.into_values().collect()
}

/// What moves between two continuums, as a share of the circle: away from `gone`, and of others.
fn moved(before: &Continuum, after: &Continuum, gone: &Server) -> (f64, f64) {
    let (mut of_gone, mut of_others) = (0.0, 0.0);
    for (end, length) in arcs(before, after) {
        let owner = before.point_at(end).server;
        if owner == gone {
            of_gone += f64::from(length) / CIRCLE;
        } else if owner != after.point_at(end).server {
            of_others += f64::from(length) / CIRCLE;
        }
    }
    (of_gone, of_others)
}

#[test]
fn removal_moves_the_keys_of_the_removed_server_only() {
    let mut rng = rng();
    for count in [2, 5, 10, 50, 100] {
        let servers = equal_servers(&mut rng, count);
        let before = Continuum::new(&servers).unwrap();
        let mut sum = 0.0;
        for gone in &servers {
            let (of_gone, of_others) = moved(&before, &without(&servers, gone), gone);
            assert_eq!(of_others, 0.0, "{gone:?} of {count}");
            sum += of_gone;
        }
        assert!((sum - 1.0).abs() < 1e-9, "the shares are all of the circle: {sum}");
    }
}

/// A share is a sum of 160 random arcs, so it spreads by 1/√160 of itself around 1/N: 7.9 %.
#[test]
fn removal_moves_one_nth_within_ten_percent_as_a_rule() {
    let mut rng = rng();
    for count in [10_usize, 50, 100] {
        let mut squares = 0.0;
        for _ in 0..LISTS {
            let servers = equal_servers(&mut rng, count);
            let continuum = Continuum::new(&servers).unwrap();
            let shares = shares(&continuum);
            squares += shares.iter().map(|share| (share * count as f64 - 1.0).powi(2)).sum::<f64>();
        }
        let deviation = (squares / (LISTS * count) as f64).sqrt();
        assert!((0.05..0.10).contains(&deviation), "{count} servers: {deviation}");
    }
}

/// 62 equal servers have 40 digests each, and the 61 that are left 39: single precision.
#[test]
fn removal_that_costs_the_others_a_digest_moves_some_of_theirs() {
    let mut rng = rng();
    let servers = equal_servers(&mut rng, 62);
    let before = Continuum::new(&servers).unwrap();
    let after = without(&servers, &servers[7]);
    assert_eq!((before.points().len(), after.points().len()), (62 * 160, 61 * 156));
    let (of_gone, of_others) = moved(&before, &after, &servers[7]);
    assert!((0.01..0.025).contains(&of_gone), "{of_gone}");
    // One of 40 digests.
    assert!((0.015..0.035).contains(&of_others), "{of_others}");
}
