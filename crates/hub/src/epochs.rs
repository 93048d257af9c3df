//! The epochs of late, for many who look and one at a time who begins another.
//!
//! An epoch is two numbers, its tag and its base, which no processor reads at once. So there is a
//! ring of the last few. A reader takes the one that is the latest, which the next ones to begin
//! leave alone. It looks again if so many have begun meanwhile that it was written over. Nobody
//! waits for anybody, and a server that never begins a second one pays two loads.
//!
//! Ordering: sequentially consistent throughout, so that whoever has read something of a later
//! epoch from a place finds that epoch counted when it looks again. Those are plain loads on x86,
//! and an epoch begins when a cluster has lost its log.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::event_id::Tag;

/// As many are kept.
const KEPT: u64 = 4;

#[derive(Debug)]
pub(crate) struct Epochs {
    /// The number of the latest.
    latest: AtomicU64,
    ring: [(AtomicU64, AtomicU64); KEPT as usize],
}

impl Epochs {
    pub(crate) fn new(tag: Tag, base: u64) -> Epochs {
        let place = |_| (AtomicU64::new(tag.to_bits()), AtomicU64::new(base));
        Epochs { latest: AtomicU64::new(0), ring: array::from_fn(place) }
    }

    /// Another epoch begins. Said by one at a time.
    pub(crate) fn begin(&self, tag: Tag, base: u64) {
        debug_assert!(base >= self.latest().1, "the epoch of a number is found by its base");
        let next = self.latest.load(SeqCst) + 1;
        let (its_tag, its_base) = &self.ring[(next % KEPT) as usize];
        its_tag.store(tag.to_bits(), SeqCst);
        its_base.store(base, SeqCst);
        self.latest.store(next, SeqCst);
    }

    /// The tag of the latest, and its base.
    pub(crate) fn latest(&self) -> (Tag, u64) {
        loop {
            if let Some(latest) = self.read(self.latest.load(SeqCst)) {
                return latest;
            }
        }
    }

    /// The tag of the epoch that `number` is of: of the oldest that is kept, where it is of an
    /// older one, which all are unknown.
    pub(crate) fn tag_of(&self, number: u64) -> Tag {
        let (mut tag, mut base) = self.latest();
        let mut nth = self.latest.load(SeqCst);
        while number < base
            && nth > 0
            && let Some(before) = self.read(nth - 1)
        {
            nth -= 1;
            (tag, base) = before;
        }
        tag
    }

    /// The epoch `nth`; `None` when it may have been written over.
    fn read(&self, nth: u64) -> Option<(Tag, u64)> {
        let (tag, base) = &self.ring[(nth % KEPT) as usize];
        let found = (Tag::from_bits(tag.load(SeqCst)), base.load(SeqCst));
        // The one that is beginning now is not counted yet.
        (self.latest.load(SeqCst) < nth + KEPT - 1).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    fn tag(nth: u64) -> Tag {
        Tag::of(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[test]
    fn who_looks_while_epochs_begin_sees_whole_ones_that_grow() {
        let (epochs, done) = (Epochs::new(tag(0), 0), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut before = 0;
                    while !done.load(SeqCst) {
                        let (its_tag, nth) = epochs.latest();
                        assert!(its_tag == tag(nth) && nth >= before);
                        before = nth;
                    }
                });
            }
            (1..200_000).for_each(|nth| epochs.begin(tag(nth), nth));
            done.store(true, SeqCst);
        });
        assert_eq!(epochs.latest(), (tag(199_999), 199_999));
    }

    #[test]
    fn number_has_the_tag_of_its_epoch() {
        let epochs = Epochs::new(tag(0), 100);
        assert_eq!((epochs.tag_of(5), epochs.tag_of(500)), (tag(0), tag(0)));
        (1..3).for_each(|nth| epochs.begin(tag(nth), 100 + 100 * nth));
        for (number, nth) in [(99, 0), (100, 0), (199, 0), (200, 1), (299, 1), (300, 2), (900, 2)] {
            assert_eq!(epochs.tag_of(number), tag(nth), "{number}");
        }
    }
}
