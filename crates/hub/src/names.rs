//! The dictionary of names that are not integers.
//!
//! A name has an entry while somebody is online under it, or while the store knows it ("pinned").
//! Entries of clients that are gone are freed, so clients cannot grow the table without a bound.
//! An id is never given to a second name while a sender could still hold it: ids count up and
//! 2^32 names with equal hash bits would have to come and go in between.
//!
//! The id carries 31 bits of the name's hash, and the table hashes by just these bits. So one table
//! finds an entry by its name and by its id, and no second index exists. The hash is SipHash-2-4
//! under a key of the store's own: nobody outside can choose names that collide.
//!
//! Cost per entry: 32 bytes, the name, and the room that a hash table leaves free.

use std::hash::Hasher;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;
use siphasher::sip::SipHasher24;

use crate::id::{Id, IdText};

const STRIPES: usize = 64;

struct Entry {
    id: Id,
    /// Connections logged in under this name.
    online: u32,
    /// Whether the store refers to the id.
    pinned: bool,
    name: Box<str>,
}

/// Names to ids and back, shared by all threads.
pub struct Names {
    key: [u8; 16],
    counter: AtomicU32,
    stripes: Box<[Mutex<HashTable<Entry>>]>,
}

impl Names {
    /// An empty dictionary. `key` must be the one under which stored ids were made.
    pub fn new(key: [u8; 16]) -> Names {
        let stripes = (0..STRIPES).map(|_| Mutex::new(HashTable::new())).collect();
        Names { key, counter: AtomicU32::new(0), stripes }
    }

    /// The id of `text`, when it is an integer, online or stored.
    pub fn lookup(&self, text: IdText<'_>) -> Option<Id> {
        let name = match text {
            IdText::Integer(id) => return Some(id),
            IdText::Name(name) => name,
        };
        let hash = self.hash(name);
        self.stripe(hash).find(spread(hash), |entry| *entry.name == *name).map(|entry| entry.id)
    }

    /// The id of `text` for one more connection, which must [`Names::release`] it when it ends.
    pub fn acquire(&self, text: IdText<'_>) -> Id {
        self.intern(text, |entry| entry.online += 1)
    }

    /// One connection under `id` is gone.
    pub fn release(&self, id: Id) {
        self.change(id, |entry| entry.online = entry.online.saturating_sub(1));
    }

    /// The id of `text` for the store: it stays until [`Names::unpin`], whoever is online.
    pub fn pin(&self, text: IdText<'_>) -> Id {
        self.intern(text, |entry| entry.pinned = true)
    }

    /// The store does not refer to `id` any more (or its transaction failed).
    pub fn unpin(&self, id: Id) {
        self.change(id, |entry| entry.pinned = false);
    }

    /// Puts a stored pair back at start; later names get other ids.
    pub fn restore(&self, id: Id, name: &str) {
        let hash = id.name_hash();
        self.counter.fetch_max((id.to_bits() as u32).wrapping_add(1), Ordering::Relaxed);
        let mut stripe = self.stripe(hash);
        let entry = Entry { id, online: 0, pinned: true, name: name.into() };
        stripe.insert_unique(spread(hash), entry, |entry| spread(entry.id.name_hash()));
    }

    /// The text of `id`: the digits of an integer, the name of a name that still has an entry.
    pub fn text(&self, id: Id) -> Option<String> {
        if let Some(number) = id.as_integer() {
            return Some(number.to_string());
        }
        let hash = id.name_hash();
        let stripe = self.stripe(hash);
        stripe.find(spread(hash), |entry| entry.id == id).map(|entry| entry.name.to_string())
    }

    /// How many names have an entry, online or stored.
    pub fn len(&self) -> usize {
        self.stripes.iter().map(|stripe| lock(stripe).len()).sum()
    }

    /// Whether no name has an entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key of the hash, for the store to keep.
    pub fn key(&self) -> [u8; 16] {
        self.key
    }

    fn intern(&self, text: IdText<'_>, mark: impl FnOnce(&mut Entry)) -> Id {
        let name = match text {
            IdText::Integer(id) => return id,
            IdText::Name(name) => name,
        };
        let hash = self.hash(name);
        let mut stripe = self.stripe(hash);
        if let Some(entry) = stripe.find_mut(spread(hash), |entry| *entry.name == *name) {
            mark(entry);
            return entry.id;
        }
        let id = self.fresh_id(&stripe, hash);
        let mut entry = Entry { id, online: 0, pinned: false, name: name.into() };
        mark(&mut entry);
        stripe.insert_unique(spread(hash), entry, |entry| spread(entry.id.name_hash()));
        id
    }

    /// Ordering: the counter only has to hand out each value once; what it protects is published
    /// by the stripe's lock, so relaxed is enough.
    fn fresh_id(&self, stripe: &HashTable<Entry>, hash: u32) -> Id {
        loop {
            let id = Id::name(hash, self.counter.fetch_add(1, Ordering::Relaxed));
            let is_free = stripe.find(spread(hash), |entry| entry.id == id).is_none();
            if is_free && id != Id::NONE {
                return id;
            }
        }
    }

    fn change(&self, id: Id, change: impl FnOnce(&mut Entry)) {
        if !id.is_name() {
            return;
        }
        let hash = id.name_hash();
        let mut stripe = self.stripe(hash);
        if let Ok(mut found) = stripe.find_entry(spread(hash), |entry| entry.id == id) {
            change(found.get_mut());
            if found.get().online == 0 && !found.get().pinned {
                found.remove();
            }
        }
    }

    fn hash(&self, name: &str) -> u32 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(name.as_bytes());
        (hasher.finish() >> 33) as u32
    }

    fn stripe(&self, hash: u32) -> MutexGuard<'_, HashTable<Entry>> {
        lock(&self.stripes[hash as usize % STRIPES])
    }
}

/// The 31 hash bits of an id, spread over the 64 that the table wants (Fibonacci hashing, Knuth
/// TAOCP 3, 6.4), the high half folded down because the table uses both ends.
fn spread(hash: u32) -> u64 {
    let wide = u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    wide ^ wide >> 32
}

/// A panic under the lock would leave the table whole: each change is one insert or remove.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> IdText<'_> {
        IdText::parse(text).unwrap()
    }

    #[test]
    fn name_online_twice_keeps_one_id_until_the_second_release() {
        let names = Names::new([7; 16]);
        let id = names.acquire(name("alice"));
        assert_eq!(names.acquire(name("alice")), id);
        names.release(id);
        assert_eq!(names.lookup(name("alice")), Some(id));
        assert_eq!(names.text(id).as_deref(), Some("alice"));
        names.release(id);
        assert_eq!(names.lookup(name("alice")), None);
        assert_eq!(names.len(), 0);
        assert_ne!(names.acquire(name("alice")), id, "an id is not given out again");
    }

    #[test]
    fn pinned_name_outlives_its_connections() {
        let names = Names::new([7; 16]);
        let id = names.acquire(name("bob"));
        assert_eq!(names.pin(name("bob")), id);
        names.release(id);
        assert_eq!(names.lookup(name("bob")), Some(id));
        names.unpin(id);
        assert!(names.is_empty());
    }

    #[test]
    fn restored_names_keep_their_ids_and_new_ones_get_others() {
        let stored = Names::new([3; 16]);
        let pairs: Vec<(Id, String)> =
            (0..1000).map(|n| format!("user-{n}")).map(|s| (stored.pin(name(&s)), s)).collect();
        let names = Names::new(stored.key());
        for (id, text) in &pairs {
            names.restore(*id, text);
        }
        for (id, text) in &pairs {
            assert_eq!(names.lookup(name(text)), Some(*id));
            assert_eq!(names.text(*id).as_ref(), Some(text));
        }
        let fresh = names.acquire(name("newcomer"));
        assert!(pairs.iter().all(|(id, _)| *id != fresh));
    }

    /// The one name in 2^31 whose hash bits are all ones, when the counter comes to its end.
    #[test]
    fn no_name_gets_the_id_that_means_none() {
        let names = Names::new([1; 16]);
        names.counter.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(Id::name(u32::MAX, u32::MAX), Id::NONE);
        assert_eq!(names.fresh_id(&HashTable::new(), u32::MAX), Id::name(u32::MAX, 0));
    }

    #[test]
    fn integers_never_enter_the_table() {
        let names = Names::new([1; 16]);
        let id = names.acquire(name("123"));
        assert_eq!(id.as_integer(), Some(123));
        names.release(id);
        assert_eq!(names.lookup(name("456")), Id::integer(456));
        assert!(names.is_empty());
    }
}
