//! Values beside those of a slab, by slot, for what is not true of every connection. It costs
//! nothing as long as no connection has any.
//!
//! Cost: chunks of the slab's size, made when the first slot of theirs has a value, and kept.

use crate::slab::CHUNK;

/// A value for each slot; the default one where nothing was set.
#[derive(Debug, Default)]
pub(crate) struct Column<T> {
    chunks: Vec<Option<Box<[T]>>>,
}

impl<T: Copy + Default + PartialEq> Column<T> {
    /// The value at `slot`.
    pub(crate) fn get(&self, slot: u32) -> T {
        let chunk = self.chunks.get(slot as usize / CHUNK).and_then(Option::as_ref);
        chunk.map_or_else(T::default, |chunk| chunk[slot as usize % CHUNK])
    }

    /// Puts `value` there and returns the one before.
    pub(crate) fn set(&mut self, slot: u32, value: T) -> T {
        let (number, place) = (slot as usize / CHUNK, slot as usize % CHUNK);
        if number >= self.chunks.len() {
            if value == T::default() {
                return value;
            }
            self.chunks.resize_with(number + 1, || None);
        }
        let chunk = &mut self.chunks[number];
        if chunk.is_none() && value == T::default() {
            return value;
        }
        let chunk = chunk.get_or_insert_with(|| vec![T::default(); CHUNK].into());
        std::mem::replace(&mut chunk[place], value)
    }

    /// Takes the value away.
    pub(crate) fn take(&mut self, slot: u32) -> T {
        self.set(slot, T::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_its_slots_and_what_is_not_set_takes_no_room() {
        let mut column = Column::default();
        assert_eq!((column.get(5), column.take(5), column.set(9_000, 0)), (0, 0, 0));
        assert!(column.chunks.is_empty());
        assert_eq!(column.set(3 * CHUNK as u32 + 1, 7), 0);
        assert_eq!(column.chunks.iter().flatten().count(), 1);
        assert_eq!((column.get(3 * CHUNK as u32 + 1), column.get(3 * CHUNK as u32)), (7, 0));
        assert_eq!((column.take(3 * CHUNK as u32 + 1), column.get(3 * CHUNK as u32 + 1)), (7, 0));
    }
}
