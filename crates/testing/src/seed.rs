//! The seed of a test that draws random numbers.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::thread;

/// Names a seed, by which a failure is repeated.
const SEED: &str = "ENCKE_SEED";

/// Names what all seeds of a run are made of, so that it has the same ones each time: `cargo xtask
/// ci` gives the hash of its files. So a change that was found good is not refused by chance, and
/// other changes try other seeds.
const SEEDS: &str = "ENCKE_SEEDS";

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
}
