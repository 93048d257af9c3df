//! The directory: who is online where.
//!
//! A striped hash table from id to connections. Workers write it at login and logout, senders read
//! it. An id with one connection, which nearly all are, costs one 16-byte slot (17 with the table's
//! control byte, 20 to 39 at the table's load); an id with several has a [`Crowd`] beside the
//! table, in which a login and a logout are still O(1), so a million connections under one id come
//! and go in a straight line.
//!
//! The table grows stripe by stripe: the longest pause under a lock is the growth of 1/1024 of it.
//!
//! At a million ids each look-up misses the cache two or three times, and a lock between two
//! look-ups keeps the processor from working on both. So a sender's look-ups go sixteen together:
//! first their stripes are locked, as many as are free, then all are looked up at once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;
use smallvec::SmallVec;

use crate::crowd::{Crowd, Crowds};
use crate::id::Id;
use crate::keys::Keys;

const STRIPES: usize = 1024;

/// Look-ups that go together: a typical audience. More would hold more stripes at one time.
const TOGETHER: usize = 16;

/// Where a connection lives: the worker, its slot in the worker's slab, and the slot's generation,
/// so that a reference to a connection that has ended meets nobody else. `shared` says that the
/// connection is logged in under more than one id and may appear twice in an audience.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct ConnRef(u64);

impl ConnRef {
    /// Workers that can be told apart.
    pub const WORKERS_MAX: usize = 1 << 12;
    /// Slots of one worker.
    pub const SLOTS_MAX: usize = 1 << 24;
    /// Generations of one slot, after which they start anew: a reference would have to be on its
    /// way while 134 million connections come and go in one slot.
    pub const GENERATIONS: u32 = 1 << 27;

    /// Packs the parts; each must be below its limit.
    pub fn new(worker: usize, slot: usize, generation: u32) -> ConnRef {
        debug_assert!(worker < Self::WORKERS_MAX && slot < Self::SLOTS_MAX);
        debug_assert!(generation < Self::GENERATIONS);
        ConnRef((worker as u64) << 51 | (slot as u64) << 27 | u64::from(generation))
    }

    /// The reference as a number, for hashing.
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    /// The worker that owns the connection.
    pub fn worker(self) -> usize {
        (self.0 >> 51) as usize
    }

    /// The slot in the worker's slab.
    pub fn slot(self) -> usize {
        (self.0 >> 27) as usize & (Self::SLOTS_MAX - 1)
    }

    /// The generation of the slot.
    pub fn generation(self) -> u32 {
        self.0 as u32 & (Self::GENERATIONS - 1)
    }
}

/// The connections of one id: a reference, or (top bit) the index of a crowd.
#[derive(Clone, Copy)]
struct Place(u64);

const CROWD_BIT: u64 = 1 << 63;

impl Place {
    fn crowd(self) -> Option<usize> {
        (self.0 & CROWD_BIT != 0).then_some((self.0 & !CROWD_BIT) as usize)
    }
}

#[derive(Clone, Copy)]
struct Slot {
    id: Id,
    place: Place,
}

#[derive(Default)]
struct Stripe {
    slots: HashTable<Slot>,
    crowds: Crowds,
}

impl Stripe {
    fn place(&self, hash: u64, id: Id) -> Option<Place> {
        self.slots.find(hash, |slot| slot.id == id).map(|slot| slot.place)
    }

    fn visit(&self, place: Place, visit: &mut impl FnMut(ConnRef)) {
        match place.crowd() {
            None => visit(ConnRef(place.0)),
            Some(index) => self.crowds.look(index).members().iter().copied().for_each(visit),
        }
    }
}

/// On a cache line of its own: the lock and the table's head come with one miss, and two threads in
/// neighbouring stripes do not fight over a line.
#[derive(Default)]
#[repr(align(64))]
struct Locked(Mutex<Stripe>);

const _: () = assert!(size_of::<Locked>() == 64);

/// Ids to connections, shared by all threads.
pub struct Directory {
    keys: Keys,
    stripes: Box<[Locked]>,
}

impl Default for Directory {
    fn default() -> Directory {
        let stripes = (0..STRIPES).map(|_| Locked::default()).collect();
        Directory { keys: Keys::random(), stripes }
    }
}

impl Directory {
    /// Registers `conn` under `id`. Each pair is registered once.
    pub fn login(&self, id: Id, conn: ConnRef) {
        let hash = self.keys.hash(id.to_bits());
        let mut stripe = self.stripe(hash);
        let Stripe { slots, crowds } = &mut *stripe;
        let Some(slot) = slots.find_mut(hash, |slot| slot.id == id) else {
            let slot = Slot { id, place: Place(conn.0) };
            slots.insert_unique(hash, slot, |slot| self.keys.hash(slot.id.to_bits()));
            return;
        };
        match slot.place.crowd() {
            Some(index) => crowds.at(index).insert(conn, &self.keys),
            None => {
                let mut crowd = Crowd::default();
                crowd.insert(ConnRef(slot.place.0), &self.keys);
                crowd.insert(conn, &self.keys);
                slot.place = Place(CROWD_BIT | crowds.add(crowd) as u64);
            }
        }
    }

    /// Takes `conn` out again; does nothing when the pair is not registered.
    pub fn logout(&self, id: Id, conn: ConnRef) {
        let hash = self.keys.hash(id.to_bits());
        let mut stripe = self.stripe(hash);
        let Stripe { slots, crowds } = &mut *stripe;
        let Ok(mut found) = slots.find_entry(hash, |slot| slot.id == id) else { return };
        match found.get().place.crowd() {
            None if found.get().place.0 == conn.0 => {
                found.remove();
            }
            None => {}
            Some(index) => {
                crowds.at(index).remove(conn, &self.keys);
                if let [last] = *crowds.at(index).members() {
                    found.get_mut().place = Place(last.0);
                    crowds.give_back(index);
                }
            }
        }
    }

    /// Calls `visit` with every connection of every one of `ids`, under their stripes' locks:
    /// `visit` only notes it. A connection that has two of the ids is visited twice.
    pub fn visit(&self, ids: &[Id], mut visit: impl FnMut(ConnRef)) {
        for together in ids.chunks(TOGETHER) {
            self.visit_together(together, &mut visit);
        }
    }

    fn visit_together(&self, ids: &[Id], visit: &mut impl FnMut(ConnRef)) {
        let mut hashes = [0; TOGETHER];
        let mut held: SmallVec<[Option<MutexGuard<'_, Stripe>>; TOGETHER]> = SmallVec::new();
        for (id, hash) in ids.iter().zip(&mut hashes) {
            *hash = self.keys.hash(id.to_bits());
            // Trying never waits, so holding several stripes cannot end in a ring of waiters.
            held.push(self.stripes[stripe_of(*hash)].0.try_lock().ok());
        }
        // Plain loads from here on: the misses of all look-ups are under way at one time.
        let mut places = [None; TOGETHER];
        for (((&id, &hash), held), place) in ids.iter().zip(&hashes).zip(&held).zip(&mut places) {
            let slot = |stripe: &MutexGuard<'_, Stripe>| stripe.place(hash, id);
            *place = held.as_ref().and_then(slot);
        }
        for (place, held) in places.into_iter().zip(&mut held) {
            if let (Some(place), Some(stripe)) = (place, held.as_ref()) {
                stripe.visit(place, visit);
            }
        }
        // A stripe that two ids share, or that another thread holds, is waited for, alone.
        let missed: SmallVec<[usize; TOGETHER]> =
            (0..held.len()).filter(|&index| held[index].is_none()).collect();
        drop(held);
        for index in missed {
            let stripe = self.stripe(hashes[index]);
            if let Some(place) = stripe.place(hashes[index], ids[index]) {
                stripe.visit(place, visit);
            }
        }
    }

    /// How many connections `id` has.
    pub fn connections(&self, id: Id) -> usize {
        let mut count = 0;
        self.visit(&[id], |_| count += 1);
        count
    }

    /// How many ids are online. Walks all stripes: for reports, not for the hot path.
    pub fn ids_online(&self) -> usize {
        self.stripes.iter().map(|stripe| lock(stripe).slots.len()).sum()
    }

    fn stripe(&self, hash: u64) -> MutexGuard<'_, Stripe> {
        lock(&self.stripes[stripe_of(hash)])
    }
}

/// The table takes its bits from both ends of the hash; the stripe is named by the middle.
fn stripe_of(hash: u64) -> usize {
    (hash >> 32) as usize % STRIPES
}

/// A poisoned stripe is whole: nothing that can panic runs between two halves of a change.
fn lock(stripe: &Locked) -> MutexGuard<'_, Stripe> {
    stripe.0.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> Id {
        Id::integer(number).unwrap()
    }

    fn seen(directory: &Directory, number: u64) -> Vec<ConnRef> {
        let mut seen = Vec::new();
        directory.visit(&[id(number)], |conn| seen.push(conn));
        seen.sort();
        seen
    }

    #[test]
    fn conn_ref_gives_back_its_parts() {
        let top = ConnRef::new(4095, ConnRef::SLOTS_MAX - 1, ConnRef::GENERATIONS - 1);
        assert_eq!(top.0 & CROWD_BIT, 0, "the top bit belongs to crowds");
        assert_eq!((top.worker(), top.slot()), (4095, ConnRef::SLOTS_MAX - 1));
        assert_eq!(top.generation(), ConnRef::GENERATIONS - 1);
        let low = ConnRef::new(0, 5, 9);
        assert_eq!((low.worker(), low.slot(), low.generation()), (0, 5, 9));
        assert!(low < top && low < ConnRef::new(0, 6, 0) && ConnRef::new(0, 6, 0) < top);
    }

    #[test]
    fn one_id_goes_from_one_connection_to_many_and_back() {
        let directory = Directory::default();
        let conns: Vec<ConnRef> = (0..1000).map(|n| ConnRef::new(n % 7, n, 1)).collect();
        for &conn in &conns {
            directory.login(id(1), conn);
        }
        assert_eq!(directory.connections(id(1)), 1000);
        for &conn in &conns[..999] {
            directory.logout(id(1), conn);
            directory.logout(id(1), conn);
        }
        assert_eq!(seen(&directory, 1), [conns[999]]);
        directory.logout(id(1), conns[999]);
        assert_eq!((directory.connections(id(1)), directory.ids_online()), (0, 0));
    }

    #[test]
    fn other_generation_is_another_connection() {
        let directory = Directory::default();
        directory.login(id(1), ConnRef::new(0, 3, 8));
        directory.logout(id(1), ConnRef::new(0, 3, 7));
        assert_eq!(directory.connections(id(1)), 1);
    }
}
