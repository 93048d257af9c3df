//! Seeded random numbers: SplitMix64 (Steele, Lea and Flood, 2014). Eight bytes of state, so every
//! event of a schedule can have a generator of its own and be drawn without those before it.

/// What the state grows by.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A generator.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The generator of `seed`.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The generator of the item `number` of a sequence that `seed` names.
    pub(crate) fn of(seed: u64, number: u64) -> Random {
        Random(mix(mix(seed) ^ number))
    }

    /// The next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        let bits = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        bits
    }

    /// A number below `limit`, which is at least 1.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.below_u64(limit.into()) as u32
    }

    /// A number below `limit`, which is at least 1 (Lemire's multiplication, with a bias below
    /// `limit` in 2^64).
    pub(crate) fn below_u64(&mut self, limit: u64) -> u64 {
        debug_assert!(limit > 0, "nothing is below 0");
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// A number from 0 up to but without 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(STEP);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_splitmix64() {
        // The first outputs for the seed 1234567, as Java's SplittableRandom and others give them.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn draws_stay_in_their_range_and_reach_all_of_it() {
        let mut random = Random::of(1, 2);
        let mut seen = [false; 7];
        for _ in 0..1_000 {
            seen[random.below(7) as usize] = true;
            assert!((0.0..1.0).contains(&random.unit()));
        }
        assert_eq!(seen, [true; 7]);
    }
}
