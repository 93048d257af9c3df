//! The slots of subjects with many events, each in a ring in their order.
//!
//! A place among ten thousand events is found in fourteen steps where a list would be walked from
//! one end, under the lock that senders need. Few events are walked: a ring of theirs would cost
//! more than it saves.
//!
//! Cost: of a subject with many events four bytes an event, and as many that are free. They are
//! not counted among the bytes of events, of which a slot's share has room for them.

use std::collections::VecDeque;

/// So many events are many. In tests a few, so that there are rings.
pub(super) const EVENTS_MIN: usize = if cfg!(test) { 6 } else { 64 };

/// With so few left a ring goes: a subject that has about as many as make one does not have it made
/// again and again.
const EVENTS_LEFT: usize = EVENTS_MIN / 2;

/// All rings there are, each at its place until it goes.
#[derive(Default)]
pub(super) struct Rings {
    rings: Vec<VecDeque<u32>>,
    free: Vec<u32>,
}

impl Rings {
    /// A new ring of these slots; where it is.
    pub(super) fn add(&mut self, slots: impl Iterator<Item = u32>) -> u32 {
        let ring: VecDeque<u32> = slots.collect();
        debug_assert!(ring.len() > EVENTS_LEFT, "it would go at once");
        match self.free.pop() {
            Some(at) => {
                self.rings[at as usize] = ring;
                at
            }
            None => {
                self.rings.push(ring);
                (self.rings.len() - 1) as u32
            }
        }
    }

    pub(super) fn get(&self, at: u32) -> &VecDeque<u32> {
        &self.rings[at as usize]
    }

    /// The newest slot of a ring.
    pub(super) fn last(&self, at: u32) -> u32 {
        *self.get(at).back().expect("a ring goes before it is empty")
    }

    /// Puts `slot` last. The one before it.
    pub(super) fn push(&mut self, at: u32, slot: u32) -> u32 {
        let last = self.last(at);
        self.rings[at as usize].push_back(slot);
        last
    }

    /// Takes the first slot out. The newest one, where the ring goes with that.
    pub(super) fn pop(&mut self, at: u32) -> Option<u32> {
        let ring = &mut self.rings[at as usize];
        ring.pop_front();
        // What a crowd has needed is not kept for ever.
        if ring.len() * 4 < ring.capacity() {
            ring.shrink_to(ring.len() * 2);
        }
        if ring.len() > EVENTS_LEFT {
            return None;
        }
        let last = self.last(at);
        self.rings[at as usize] = VecDeque::new();
        self.free.push(at);
        Some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_goes_with_half_of_what_made_it_and_leaves_no_room_behind() {
        let mut rings = Rings::default();
        let (one, other) = (rings.add(0..6), rings.add(100..106));
        assert_ne!(one, other);
        assert_eq!((rings.push(one, 6), rings.last(one), rings.last(other)), (5, 6, 105));
        let gone: Vec<Option<u32>> = (0..4).map(|_| rings.pop(one)).collect();
        assert_eq!(gone, [None, None, None, Some(6)]);
        assert_eq!(rings.add(200..206), one, "its place is taken again");
        for _ in 0..3 {
            rings.pop(one);
            rings.pop(other);
        }
        assert!(rings.rings.iter().all(|ring| ring.capacity() == 0));
    }

    #[test]
    fn ring_shrinks_with_its_subject() {
        let mut rings = Rings::default();
        let ring = rings.add(0..10_000);
        let most = rings.get(ring).capacity();
        (0..9_900).for_each(|_| assert_eq!(rings.pop(ring), None));
        assert_eq!(
            rings.get(ring).iter().copied().collect::<Vec<_>>(),
            Vec::from_iter(9_900..10_000)
        );
        let room = rings.get(ring).capacity();
        assert!(room * 10 < most, "{room} of {most}");
    }
}
