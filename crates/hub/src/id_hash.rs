//! A part of an id's hash, by which an id is found again.

/// 32 bits of an id's hash under the keys of a [`crate::Directory`]. A connection that is logged in
/// under an id may keep these 4 bytes instead of its 8: with the connection they tell which id it
/// is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub struct IdHash(u32);

impl IdHash {
    /// What stands where there is none: no id has it, and none is greater.
    pub const NONE: IdHash = IdHash(u32::MAX);

    /// The upper half of a hash, in which all bits count.
    pub(crate) fn of(hash: u64) -> IdHash {
        IdHash(((hash >> 32) as u32).min(Self::NONE.0 - 1))
    }

    /// Which of `parts` it falls into: a part of the range instead of a remainder, since a division
    /// takes longer.
    pub(crate) fn part(self, parts: usize) -> usize {
        ((u64::from(self.0) * parts as u64) >> 32) as usize
    }

    /// Its bits spread over 64, for a table that takes its bits from both ends.
    pub(crate) fn spread(self) -> u64 {
        u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// One of tests, which choose what collides.
    #[cfg(any(test, feature = "testing"))]
    pub fn of_bits(bits: u32) -> IdHash {
        IdHash(bits)
    }
}
