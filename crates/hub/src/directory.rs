//! The directory: who is online where.
//!
//! A striped hash table from id to connections. Workers write it at login and logout, senders read
//! it. An id with one connection, which nearly all are, costs one 16-byte slot (17 with the table's
//! control byte, 20 to 39 at the table's load; 17 to 32 with [few](slots) in a stripe). An id with
//! several has a [`ConnSet`] beside the table, in 37 bytes and what that needs.
//!
//! No lock is held for long, whatever there is. The table grows and shrinks stripe by stripe, a
//! 5,120th of it at a time, and the connections of one id are walked slice by slice.
//!
//! At a million ids each look-up misses the cache two or three times, and a lock between two
//! look-ups keeps the processor from working on both. So a sender's look-ups go sixteen together:
//! first their stripes are locked, as many as are free, then all are looked up at once.

mod by_hash;
mod slots;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use self::slots::Slots;
use crate::changes::{Changes, LISTS};
use crate::conn_ref::ConnRef;
use crate::conn_set::{ConnSet, ConnSets};
use crate::id::Id;
use crate::id_hash::IdHash;
use crate::keys::Keys;

/// So many that the growth of one stripe is short: at a million ids it moves 224 at most, at 16
/// million 3,584. Of a million log-ins the median takes 0.5 µs, and 99.99 % take less than 35 µs
/// (`cargo bench -p hub` on a machine that had other work).
///
/// A stripe's table doubles past seven eighths of its buckets, and all stripes do at much the same
/// time: past 1.1 million ids, 2.2 and so on. So a million ids take 22 bytes each, and two million
/// too; at 4,096 stripes both had just doubled and took 36.
const STRIPES: usize = 5120;

/// Look-ups that go together: a typical audience. More would hold more stripes at one time.
const TOGETHER: usize = 16;

/// The largest set of connections that is visited with the other ids of a look-up.
const VISITED_AT_ONCE: usize = 4;

/// The connections of one id: a reference, or the mark that there are several.
#[derive(Clone, Copy)]
struct Conns(u64);

impl Conns {
    /// No reference has all bits set.
    const SEVERAL: Conns = Conns(u64::MAX);

    fn one(conn: ConnRef) -> Conns {
        Conns(conn.to_bits())
    }

    /// The connection, unless there are several.
    fn conn(self) -> Option<ConnRef> {
        (self.0 != Conns::SEVERAL.0).then_some(ConnRef::from_bits(self.0))
    }
}

#[derive(Clone, Copy)]
struct Slot {
    id: Id,
    conns: Conns,
}

/// What a look-up finds.
enum Found<'s> {
    One(ConnRef),
    Several(&'s ConnSet),
}

#[derive(Default)]
struct Stripe {
    slots: Slots,
    sets: ConnSets,
}

impl Stripe {
    fn conns(&self, hash: IdHash, id: Id) -> Option<Conns> {
        self.slots.find(hash, id).map(|slot| slot.conns)
    }

    fn at(&self, conns: Conns, id: Id, keys: &Keys) -> Option<Found<'_>> {
        match conns.conn() {
            Some(conn) => Some(Found::One(conn)),
            None => {
                let set = self.sets.of(id, keys);
                debug_assert!(set.is_some(), "an id that has several has a set of them");
                set.map(Found::Several)
            }
        }
    }
}

/// On a cache line of its own: the lock and the table's head come with one miss, and two threads in
/// neighbouring stripes do not fight over a line.
#[derive(Default)]
#[repr(align(64))]
struct Locked(Mutex<Stripe>);

const _: () = assert!(size_of::<Locked>() == 64 && size_of::<Slot>() == 16);

/// Ids to connections, shared by all threads.
pub struct Directory {
    keys: Keys,
    stripes: Box<[Locked]>,
    /// Where it is noted that ids come and go, if it is.
    changes: Option<Changes>,
    /// How many keys are among what is online. Relaxed: only a count.
    keys_online: AtomicUsize,
}

// A stripe must have one list, or changes of one id would lose their order.
const _: () = assert!(STRIPES.is_multiple_of(LISTS));

impl Default for Directory {
    fn default() -> Directory {
        Directory::with_stripes(STRIPES)
    }
}

impl Directory {
    /// One with fewer stripes, each of which costs some memory, for what few threads change.
    pub(crate) fn with_stripes(stripes: usize) -> Directory {
        let stripes = (0..stripes).map(|_| Locked::default()).collect();
        Directory { keys: Keys::random(), stripes, changes: None, keys_online: AtomicUsize::new(0) }
    }

    /// Likewise one that takes less memory, and longer to look up: most of its ids have few.
    pub(crate) fn packed(stripes: usize) -> Directory {
        let stripe = || Stripe { slots: Slots::packed(), sets: ConnSets::default() };
        let stripes = (0..stripes).map(|_| Locked(Mutex::new(stripe()))).collect();
        Directory { stripes, ..Directory::with_stripes(0) }
    }

    /// Likewise with tables that fill up alike in each run.
    #[cfg(test)]
    pub(crate) fn packed_with_fixed_keys(stripes: usize) -> Directory {
        Directory { keys: Keys::fixed(), ..Directory::packed(stripes) }
    }

    /// One of tests, in which all ids have one hash.
    #[cfg(any(test, feature = "testing"))]
    pub fn of_one_hash() -> Directory {
        Directory { keys: Keys::all_alike(), ..Directory::with_stripes(1) }
    }

    /// One that notes in `changes` which ids come and go.
    pub fn noting(changes: Changes) -> Directory {
        Directory { changes: Some(changes), ..Directory::default() }
    }

    /// Which ids come and go, where that is noted.
    pub fn changes(&self) -> Option<&Changes> {
        self.changes.as_ref()
    }

    /// Registers `conn` under `id`. Each pair is registered once.
    pub fn login(&self, id: Id, conn: ConnRef) {
        self.login_within(id, conn, usize::MAX);
    }

    /// Logs in unless `id` has `most` connections, one at least; whether it did. That costs
    /// nothing: a set knows how many it has.
    pub fn login_within(&self, id: Id, conn: ConnRef, most: usize) -> bool {
        debug_assert!(id != Id::NONE && most > 0);
        let hash = self.hash(id);
        let mut stripe = self.stripe(hash);
        let Stripe { slots, sets } = &mut *stripe;
        let Some(slot) = slots.find_mut(hash, id) else {
            let slot = Slot { id, conns: Conns::one(conn) };
            slots.insert(slot, |slot| self.hash(slot.id));
            self.note(hash, id, true);
            return true;
        };
        match slot.conns.conn() {
            None => sets.insert(id, conn, most, &self.keys),
            Some(_) if most <= 1 => false,
            Some(other) => {
                debug_assert_ne!(other, conn, "a connection is registered once under an id");
                sets.add(id, [other, conn], &self.keys);
                slot.conns = Conns::SEVERAL;
                true
            }
        }
    }

    /// Takes `conn` out again; does nothing when the pair is not registered.
    pub fn logout(&self, id: Id, conn: ConnRef) {
        let hash = self.hash(id);
        self.logout_in(&mut self.stripe(hash), hash, id, conn);
    }

    fn logout_in(&self, stripe: &mut Stripe, hash: IdHash, id: Id, conn: ConnRef) {
        let Stripe { slots, sets } = stripe;
        let Some(slot) = slots.find_mut(hash, id) else { return };
        match slot.conns.conn() {
            Some(only) if only == conn => {
                slots.remove(hash, id, |slot| self.hash(slot.id));
                self.note(hash, id, false);
            }
            Some(_) => {}
            None => {
                if let Some(last) = sets.remove(id, conn, &self.keys) {
                    slot.conns = Conns::one(last);
                }
            }
        }
    }

    /// Calls `visit` with the connections of those of `ids` that have at most four, under their
    /// stripes' locks: `visit` only notes it. A connection that has two of the ids is visited
    /// twice. The ids that have more are put into `large`, to be [walked](Directory::walk).
    pub fn visit(&self, ids: &[Id], large: &mut Vec<Id>, mut visit: impl FnMut(ConnRef)) {
        let mut look =
            |stripe: &Stripe, conns: Conns, id: Id| match stripe.at(conns, id, &self.keys) {
                Some(Found::One(conn)) => visit(conn),
                Some(Found::Several(set)) if set.len() > VISITED_AT_ONCE => large.push(id),
                Some(Found::Several(set)) => {
                    set.walk(None, VISITED_AT_ONCE, &mut visit);
                }
                None => {}
            };
        for together in ids.chunks(TOGETHER) {
            match together {
                [id] => self.visit_one(*id, &mut look),
                ids => self.visit_together(ids, &mut look),
            }
        }
    }

    /// With one there is nothing to be done at the same time.
    fn visit_one(&self, id: Id, look: &mut impl FnMut(&Stripe, Conns, Id)) {
        let hash = self.hash(id);
        let stripe = self.stripe(hash);
        if let Some(conns) = stripe.conns(hash, id) {
            look(&stripe, conns, id);
        }
    }

    fn visit_together(&self, ids: &[Id], look: &mut impl FnMut(&Stripe, Conns, Id)) {
        debug_assert!(ids.len() <= TOGETHER, "what is beyond would be looked up nowhere");
        let mut hashes = [IdHash::NONE; TOGETHER];
        let mut held: SmallVec<[Option<MutexGuard<'_, Stripe>>; TOGETHER]> = SmallVec::new();
        for (id, hash) in ids.iter().zip(&mut hashes) {
            *hash = self.hash(*id);
            // Trying never waits, so holding several stripes cannot end in a ring of waiters.
            held.push(self.stripes[self.stripe_of(*hash)].0.try_lock().ok());
        }
        // Plain loads from here on: the misses of all look-ups are under way at one time.
        let mut found = [None; TOGETHER];
        for (((&id, &hash), held), conns) in ids.iter().zip(&hashes).zip(&held).zip(&mut found) {
            let slot = |stripe: &MutexGuard<'_, Stripe>| stripe.conns(hash, id);
            *conns = held.as_ref().and_then(slot);
        }
        for ((conns, held), &id) in found.into_iter().zip(&held).zip(ids) {
            if let (Some(conns), Some(stripe)) = (conns, held.as_ref()) {
                look(stripe, conns, id);
            }
        }
        // A stripe that two ids share, or that another thread holds, is waited for, alone.
        let missed: SmallVec<[usize; TOGETHER]> =
            (0..held.len()).filter(|&index| held[index].is_none()).collect();
        drop(held);
        for index in missed {
            let stripe = self.stripe(hashes[index]);
            if let Some(conns) = stripe.conns(hashes[index], ids[index]) {
                look(&stripe, conns, ids[index]);
            }
        }
    }

    /// Calls `visit` with the next connections of `id`, in order, that stand after `after` (from
    /// the first one when `None`), `most` of them at most, under the stripe's lock. Returns the
    /// last one visited when there are more, to go on from.
    ///
    /// Whoever is logged in from the first call to the last one is visited exactly once, whatever
    /// others come and go between the calls.
    pub fn walk(
        &self,
        id: Id,
        after: Option<ConnRef>,
        most: usize,
        mut visit: impl FnMut(ConnRef),
    ) -> Option<ConnRef> {
        let hash = self.hash(id);
        let stripe = self.stripe(hash);
        let conns = stripe.conns(hash, id)?;
        match stripe.at(conns, id, &self.keys)? {
            Found::Several(set) => set.walk(after, most, &mut visit),
            Found::One(conn) => {
                if after.is_none_or(|after| conn > after) {
                    visit(conn);
                }
                None
            }
        }
    }

    /// How many connections `id` has.
    pub fn connections(&self, id: Id) -> usize {
        let hash = self.hash(id);
        let stripe = self.stripe(hash);
        match stripe.conns(hash, id).and_then(|conns| stripe.at(conns, id, &self.keys)) {
            None => 0,
            Some(Found::One(_)) => 1,
            Some(Found::Several(set)) => set.len(),
        }
    }

    /// How many ids are online, without keys. Walks all stripes: for reports, not for the hot path.
    pub fn ids_online(&self) -> usize {
        let all: usize = self.stripes.iter().map(|stripe| lock(stripe).slots.len()).sum();
        all.saturating_sub(self.keys_online())
    }

    /// How many [keys](crate::Key) are online.
    pub fn keys_online(&self) -> usize {
        self.keys_online.load(Ordering::Relaxed)
    }

    /// To be called under the stripe's lock.
    fn note(&self, hash: IdHash, id: Id, is_online: bool) {
        if id.is_key() {
            // Wraps around for -1, as atomics do.
            let step = if is_online { 1 } else { usize::MAX };
            self.keys_online.fetch_add(step, Ordering::Relaxed);
            // It is no id: nobody hears of it, and it takes no room of ids in the lists.
            return;
        }
        if let Some(changes) = &self.changes {
            changes.note(self.stripe_of(hash), id, is_online);
        }
    }

    /// The bytes of the allocations of its stripes, but for ids with very many connections.
    #[cfg(test)]
    pub(crate) fn allocations(&self) -> impl Iterator<Item = usize> {
        self.stripes.iter().flat_map(|stripe| {
            let stripe = lock(stripe);
            [stripe.sets.allocations(), stripe.slots.allocations()].concat()
        })
    }

    fn stripe(&self, hash: IdHash) -> MutexGuard<'_, Stripe> {
        lock(&self.stripes[self.stripe_of(hash)])
    }

    fn stripe_of(&self, hash: IdHash) -> usize {
        hash.part(self.stripes.len())
    }
}

/// A poisoned stripe is whole: nothing that can panic runs between two halves of a change.
fn lock(stripe: &Locked) -> MutexGuard<'_, Stripe> {
    stripe.0.lock().unwrap_or_else(PoisonError::into_inner)
}
