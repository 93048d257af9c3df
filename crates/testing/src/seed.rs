//! The seed of a test that draws random numbers, and how many of them a simulator tries.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::ops::Range;
use std::thread;

/// Names a seed, by which a failure is repeated.
const SEED: &str = "ENCKE_SEED";

/// Names what all seeds of a run are made of, so that it has the same ones each time: `cargo xtask
/// ci` gives the hash of its files. So a change that was found good is not refused by chance, and
/// other changes try other seeds.
const SEEDS: &str = "ENCKE_SEEDS";

/// Multiplies how many seeds a simulator tries: `10`, or `0.1`.
const SIM_RUNS: &str = "ENCKE_SIM_RUNS";

/// What is to happen in all seeds of a simulator's test happens in this part of them, too: so many
/// `cargo xtask ci` tries. A first look after an edit takes fewer, and may miss it.
const ENOUGH: f64 = 0.5;

/// The seeds of one run of a simulator's test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimulatorSeeds {
    /// Each of them is tried.
    pub tried: Range<u64>,
    /// They are so many that in all together happens what the test is about.
    pub are_enough: bool,
}

/// Of a simulator's `seeds`, counted from 0, those of this run: as many times `ENCKE_SIM_RUNS` says
/// so, or the one that `ENCKE_SEED` names. They are the same in each run, so that what each of them
/// finds is known.
///
/// # Panics
/// When one of both is no number.
pub fn simulator_seeds(seeds: u64) -> SimulatorSeeds {
    let given = |name| std::env::var(name).ok();
    let seed = given(SEED).map(|seed| seed.parse().unwrap_or_else(|_| panic!("{SEED}: {seed}?")));
    let times = given(SIM_RUNS)
        .map_or(1.0, |times| times.parse().unwrap_or_else(|_| panic!("{SIM_RUNS}: {times}?")));
    chosen(seeds, seed, times)
}

fn chosen(seeds: u64, seed: Option<u64>, times: f64) -> SimulatorSeeds {
    match seed {
        Some(seed) => SimulatorSeeds { tried: seed..seed + 1, are_enough: false },
        None => {
            let tried = 0..(seeds as f64 * times).ceil() as u64;
            SimulatorSeeds { tried, are_enough: times >= ENOUGH }
        }
    }
}

/// The seed of the calling test: the one that `ENCKE_SEED` names, else one that is made of
/// `ENCKE_SEEDS` and the test's name, else a random one. It is printed, so that the test can be run
/// with it again.
///
/// # Panics
/// When `ENCKE_SEED` is no number.
pub fn seed() -> u64 {
    let given = |name| std::env::var(name).ok();
    let test = thread::current().name().unwrap_or_default().to_owned();
    let seed = match (given(SEED), given(SEEDS)) {
        (Some(seed), _) => seed.parse().unwrap_or_else(|_| panic!("{SEED} is a number")),
        (None, Some(run)) => of(&run, &test),
        (None, None) => RandomState::new().build_hasher().finish(),
    };
    println!("run it again with {SEED}={seed}");
    seed
}

fn of(run: &str, test: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (run, test).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_of_one_run_are_the_same_each_time_and_differ_by_test() {
        assert_eq!(of("5c0ffee", "a"), of("5c0ffee", "a"));
        assert_ne!(of("5c0ffee", "a"), of("5c0ffee", "b"));
        assert_ne!(of("5c0ffee", "a"), of("decade", "a"));
    }

    #[test]
    fn part_of_a_simulators_seeds_is_tried_or_one_of_them() {
        let of = |tried, are_enough| SimulatorSeeds { tried, are_enough };
        assert_eq!(chosen(25, None, 1.0), of(0..25, true));
        assert_eq!(chosen(25, None, 0.5), of(0..13, true));
        assert_eq!(chosen(25, None, 0.1), of(0..3, false));
        assert_eq!(chosen(25, None, 100.0), of(0..2_500, true));
        assert_eq!(chosen(25, Some(7), 0.5), of(7..8, false));
    }
}
