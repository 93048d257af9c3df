//! Kills at random moments, by seed: see [`killing`](super::killing).
//!
//! `ENCKE_UPGRADE_KILLS=200` is the run of the issue.

use super::killing::Killing;
use crate::harness::seed;

#[test]
fn kills_at_random_moments_leave_all_streams_or_none() {
    let kills = std::env::var("ENCKE_UPGRADE_KILLS").map_or(8, |text| text.parse().unwrap());
    let mut killing = Killing::new(seed());
    for kill in 0..kills {
        if let Err(wrong) = killing.run() {
            panic!("run {kill}: {wrong}\n{}", killing.counts);
        }
    }
    println!("{}", killing.counts);
}
