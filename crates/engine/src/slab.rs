//! A slab of slots with generations, that grows by chunks and never moves a value.
//!
//! A key names a slot and its generation. The generation goes up each time the slot is given away,
//! so an old key finds nobody. Cost: the value, 4 bytes of generation, 4 bytes that a value of 8
//! bytes' alignment leaves room for, and 4 bytes for each slot that is free.

use hub::ConnRef;

use crate::id_lists::List;

/// Slots of one chunk.
pub(crate) const CHUNK: usize = 1024;

/// A slot: 64 bytes at most, one cache line, for the value that this slab is made for.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    place: Place,
    value: Option<T>,
}

/// What a slot has beside its value.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub(crate) generation: u32,
    /// What the value's owner keeps of it elsewhere; nothing in a slot that is given away.
    pub(crate) list: List,
}

/// Which value: the slot, and the generation in which it was given away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// The place of a value, and the value.
type Found<'s, T> = (&'s mut Place, &'s mut T);

impl Place {
    /// Makes the old keys of the value find nobody, as if it had been put there anew.
    pub(crate) fn renew(&mut self) {
        self.generation = (self.generation + 1) % ConnRef::GENERATIONS;
    }
}

#[derive(Debug)]
pub(crate) struct Slab<T> {
    chunks: Vec<Box<[Slot<T>]>>,
    free: Vec<u32>,
    len: usize,
    max: usize,
}

impl<T> Slab<T> {
    /// A slab that holds at most `max` values.
    pub(crate) fn new(max: usize) -> Slab<T> {
        Slab { chunks: Vec::new(), free: Vec::new(), len: 0, max: max.min(ConnRef::SLOTS_MAX) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The most values that it holds.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Puts `value` in a free slot; gives it back when the slab is full.
    pub(crate) fn insert(&mut self, value: T) -> Result<Key, T> {
        if self.len >= self.max {
            return Err(value);
        }
        if self.free.is_empty() {
            self.grow();
        }
        let slot = self.free.pop().expect("a slab that has just grown has a free slot");
        let found = self.slot_mut(slot);
        found.value = Some(value);
        let generation = found.place.generation;
        self.len += 1;
        Ok(Key { slot, generation })
    }

    /// Takes the value out of `slot`; from now on its old keys find nobody.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<T> {
        let found = self.slot_mut(slot);
        let value = found.value.take()?;
        found.place.renew();
        debug_assert_eq!(found.place.list, List::default(), "its list would be nobody's");
        self.free.push(slot);
        self.len -= 1;
        Some(value)
    }

    /// The value under `key` and its place, if the slot has not been given away since.
    pub(crate) fn find(&mut self, key: Key) -> Option<Found<'_, T>> {
        let chunk = self.chunks.get_mut(key.slot as usize / CHUNK)?;
        let found = &mut chunk[key.slot as usize % CHUNK];
        if found.place.generation != key.generation {
            return None;
        }
        Some((&mut found.place, found.value.as_mut()?))
    }

    /// The value in `slot`, whatever its generation, and its place.
    pub(crate) fn at(&mut self, slot: u32) -> Option<Found<'_, T>> {
        let found = self.slot_mut(slot);
        Some((&mut found.place, found.value.as_mut()?))
    }

    /// The value in `slot`, to look at.
    pub(crate) fn look_at(&self, slot: u32) -> Option<&T> {
        let chunk = self.chunks.get(slot as usize / CHUNK)?;
        chunk[slot as usize % CHUNK].value.as_ref()
    }

    /// One past the highest slot there is.
    pub(crate) fn slots(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    fn slot_mut(&mut self, slot: u32) -> &mut Slot<T> {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    fn grow(&mut self) {
        let first = self.slots();
        let chunk = (0..CHUNK).map(|_| Slot { place: Place::default(), value: None }).collect();
        self.chunks.push(chunk);
        // The lowest slot on top, so that a small server stays in one chunk.
        self.free.extend((first..first + CHUNK as u32).rev());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_key_finds_nobody_in_a_slot_given_away_again() {
        let mut slab = Slab::new(2);
        let first = slab.insert('a').unwrap();
        let second = slab.insert('b').unwrap();
        assert_eq!(slab.insert('c'), Err('c'));
        assert_eq!(slab.remove(first.slot), Some('a'));
        assert_eq!(slab.remove(first.slot), None);
        let third = slab.insert('c').unwrap();
        assert_eq!(third.slot, first.slot);
        let find = |slab: &mut Slab<char>, key| slab.find(key).map(|(_, value)| *value);
        assert_eq!(find(&mut slab, first), None);
        assert_eq!(find(&mut slab, second), Some('b'));
        assert_eq!(find(&mut slab, third), Some('c'));
        slab.at(third.slot).unwrap().0.renew();
        assert_eq!(find(&mut slab, third), None);
        assert_eq!(slab.at(third.slot).map(|(_, value)| *value), Some('c'));
        assert_eq!(find(&mut slab, Key { slot: 1_000_000, generation: 0 }), None);
    }
}
