//! The hash of ids and references, under keys that clients do not know.

use std::hash::{BuildHasher, RandomState};

/// A folded multiplication under keys drawn at start: clients choose integer ids and must not be
/// able to choose colliding ones. Two multiplications, about a nanosecond.
pub(crate) struct Keys {
    add: u64,
    multiply: u64,
}

impl Keys {
    pub(crate) fn random() -> Keys {
        let random = RandomState::new();
        Keys { add: random.hash_one(0_u8), multiply: random.hash_one(1_u8) | 1 }
    }

    /// Keys that are alike in each run, for tests that count what tables take.
    #[cfg(test)]
    pub(crate) fn fixed() -> Keys {
        Keys { add: 0x243f_6a88_85a3_08d3, multiply: 0x1319_8a2e_0370_7345 }
    }

    /// Under which all have one hash.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn all_alike() -> Keys {
        Keys { add: 0, multiply: 0 }
    }

    pub(crate) fn hash(&self, value: u64) -> u64 {
        let wide = u128::from(value ^ self.add) * u128::from(self.multiply);
        (wide as u64 ^ (wide >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}
