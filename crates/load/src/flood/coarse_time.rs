//! When something is due, in as few bytes as a listener can spare.

use std::num::NonZeroU16;

/// A time in two bytes: steps of 5 ms on the monotonic clock, which go round in 5 minutes.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoarseTime(NonZeroU16);

impl CoarseTime {
    const STEP_NS: u64 = 5_000_000;

    pub(super) fn at(now_ns: u64) -> CoarseTime {
        CoarseTime(NonZeroU16::new((now_ns / Self::STEP_NS) as u16).unwrap_or(NonZeroU16::MIN))
    }

    /// The time from this moment to `now_ns`, to a step.
    pub(super) fn until_ns(self, now_ns: u64) -> u64 {
        let steps = CoarseTime::at(now_ns).0.get().wrapping_sub(self.0.get());
        u64::from(steps) * Self::STEP_NS
    }
}
