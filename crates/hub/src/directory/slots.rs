//! The ids of one stripe: a list where they are few, else a hash table; or a packed table.
//!
//! A table of one id has room for three, and as much again for itself. There are thousands of
//! stripes, so with some ten thousand ids online most of them have few.
//!
//! Cost of an id: 16 bytes, and a stripe's part of an allocation, in a list; 20 to 39 in a table.
//! It is 19 in a packed one. A list is read from its begin, a quarter of a kilobyte at most. So is
//! a bucket of a packed table, of some half a kilobyte.

use hashbrown::HashTable;

use super::Slot;
use crate::bucket_table::{self, BucketTable};
use crate::id::Id;
use crate::id_hash::IdHash;
use crate::tables;

/// As many as a table has in 16 buckets: with one more it takes 32.
const FEW_MAX: usize = 14;

/// The table is a list again once it has so few: half as many as make it one, so that nobody who
/// comes and goes moves them each time.
const FEW_AGAIN: usize = FEW_MAX / 2;

/// Each id once.
pub(super) enum Slots {
    Few(Vec<Slot>),
    Many(HashTable<Slot>),
    /// However many there are: it stays so.
    Packed(BucketTable<Slot, 16>),
}

impl Default for Slots {
    fn default() -> Slots {
        Slots::Few(Vec::new())
    }
}

impl Slots {
    /// None, which will be packed.
    pub(super) fn packed() -> Slots {
        Slots::Packed(BucketTable::default())
    }

    /// The slot of `id`, whose hash is `hash`.
    pub(super) fn find(&self, hash: IdHash, id: Id) -> Option<&Slot> {
        match self {
            Slots::Few(slots) => slots.iter().find(|slot| slot.id == id),
            Slots::Many(slots) => slots.find(hash.spread(), |slot| slot.id == id),
            Slots::Packed(slots) => slots.find(hash.spread(), |slot| slot.id == id),
        }
    }

    /// Likewise, to be changed.
    pub(super) fn find_mut(&mut self, hash: IdHash, id: Id) -> Option<&mut Slot> {
        match self {
            Slots::Few(slots) => slots.iter_mut().find(|slot| slot.id == id),
            Slots::Many(slots) => slots.find_mut(hash.spread(), |slot| slot.id == id),
            Slots::Packed(slots) => slots.find_mut(hash.spread(), |slot| slot.id == id),
        }
    }

    /// Shows `visit` all slots of this hash, and some of others.
    pub(super) fn maybe(&self, hash: IdHash, visit: impl FnMut(&Slot)) {
        match self {
            Slots::Few(slots) => slots.iter().for_each(visit),
            Slots::Many(slots) => slots.iter_hash(hash.spread()).for_each(visit),
            Slots::Packed(slots) => slots.bucket(hash.spread()).iter().for_each(visit),
        }
    }

    /// Puts in the slot of an id that has none; `hash_of` is the hash of any.
    pub(super) fn insert(&mut self, slot: Slot, hash_of: impl Fn(&Slot) -> IdHash) {
        match self {
            Slots::Few(slots) if slots.len() < FEW_MAX => bucket_table::push(slots, slot),
            Slots::Few(slots) => {
                let mut many = HashTable::with_capacity(slots.len() + 1);
                let spread = |slot: &Slot| hash_of(slot).spread();
                for slot in slots.drain(..).chain([slot]) {
                    many.insert_unique(spread(&slot), slot, spread);
                }
                *self = Slots::Many(many);
            }
            Slots::Many(slots) => {
                let spread = |slot: &Slot| hash_of(slot).spread();
                slots.insert_unique(spread(&slot), slot, spread);
            }
            Slots::Packed(slots) => {
                slots.insert(slot, |slot| hash_of(slot).spread());
            }
        }
    }

    /// Takes out the slot of `id`, whose hash is `hash`.
    pub(super) fn remove(&mut self, hash: IdHash, id: Id, hash_of: impl Fn(&Slot) -> IdHash) {
        match self {
            Slots::Few(slots) => {
                if let Some(at) = slots.iter().position(|slot| slot.id == id) {
                    slots.swap_remove(at);
                    bucket_table::shrink(slots);
                }
            }
            Slots::Many(slots) => {
                if let Ok(found) = slots.find_entry(hash.spread(), |slot| slot.id == id) {
                    found.remove();
                }
                match slots.len() <= FEW_AGAIN {
                    true => *self = Slots::Few(slots.drain().collect()),
                    false => tables::shrink(slots, |slot| hash_of(slot).spread()),
                }
            }
            Slots::Packed(slots) => {
                slots.remove(hash.spread(), |slot| slot.id == id);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Slots::Few(slots) => slots.len(),
            Slots::Many(slots) => slots.len(),
            Slots::Packed(slots) => slots.len(),
        }
    }

    /// The bytes of its allocations.
    #[cfg(test)]
    pub(super) fn allocations(&self) -> Vec<usize> {
        match self {
            Slots::Few(slots) => vec![slots.capacity() * size_of::<Slot>()],
            Slots::Many(slots) => vec![slots.allocation_size()],
            Slots::Packed(slots) => slots.allocations().collect(),
        }
    }
}
