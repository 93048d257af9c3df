//! The dictionary of names that are not integers.
//!
//! A name has an entry while somebody is online under it, or while the store knows it ("pinned").
//! Entries of clients that are gone are freed, so clients cannot grow the table without a bound.
//! An id is never given to a second name while a sender could still hold it: ids count up and
//! 2^31 names with equal hash bits would have to come and go in between.
//!
//! The id carries 31 bits of the name's hash, and the table hashes by just these bits. So one table
//! finds an entry by its name and by its id, and no second index exists. The hash is SipHash-2-4
//! under a key of the store's own: nobody outside can choose names that collide.
//!
//! What ids cost for clients is counted here, since every log-in comes by: names as long as clients
//! use them, and what a log-in costs in the directory and in its shard. Past a
//! maximum a connection gets no further ids. Its first one it always gets: connections have a bound
//! of their own, and somebody with many ids must not keep the others out.
//!
//! Cost per entry: 32 bytes, the name, and the room that a hash table leaves free.

#[cfg(test)]
mod tests;

use std::hash::Hasher;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;
use siphasher::sip::SipHasher24;
use thiserror::Error;

use crate::id::{Id, IdText};
use crate::tables;

/// So many that the growth of one stripe is short: of a million log-ins, and of as many log-outs,
/// 99.99 % take less than 81 µs (`cargo bench -p hub` on a machine that had other work).
const STRIPES: usize = 1024;

/// What a name is counted for beside its text: 33 bytes in a table that is half empty at its worst
/// (75), and the allocator's share of the text.
const NAME_BYTES: usize = 96;

/// What a log-in is counted for: 17 bytes in such a table of the directory (39), and 16 in a block
/// of its shard's lists that has just grown.
const LOGIN_BYTES: usize = 56;

/// The maximum unless another one is set: two ids each of a million connections have room.
const BYTES_MAX: usize = 128 << 20;

/// The ids of all connections together are at their maximum. Try again when others have left, or
/// with one id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the ids of all connections together take up {bytes_max} bytes, their maximum here")]
pub struct IdsFull {
    /// How many bytes the ids of all connections may take together.
    pub bytes_max: usize,
}

struct Entry {
    id: Id,
    /// Connections logged in under this name, and others who have acquired it.
    online: u32,
    /// Whether the store refers to the id.
    pinned: bool,
    name: Box<str>,
}

impl Entry {
    /// What it is counted for: what the store keeps is no client's.
    fn bytes(&self) -> usize {
        if self.pinned { 0 } else { NAME_BYTES + self.name.len() }
    }
}

/// Names to ids and back, shared by all threads.
pub struct Names {
    key: [u8; 16],
    counter: AtomicU32,
    /// What clients' ids are counted for now, and at most. Relaxed, both: a bound on memory, good
    /// to within what the workers log in at one moment.
    bytes: AtomicUsize,
    bytes_max: AtomicUsize,
    stripes: Box<[Mutex<HashTable<Entry>>]>,
}

impl Names {
    /// An empty dictionary. `key` must be the one under which stored ids were made.
    pub fn new(key: [u8; 16]) -> Names {
        let stripes = (0..STRIPES).map(|_| Mutex::new(HashTable::new())).collect();
        Names {
            key,
            counter: AtomicU32::new(0),
            bytes: AtomicUsize::new(0),
            bytes_max: AtomicUsize::new(BYTES_MAX),
            stripes,
        }
    }

    /// Sets how much the ids of all connections together may be counted for, in bytes.
    pub fn set_bytes_max(&self, bytes_max: usize) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// What the names that the store does not keep, and all log-ins, are counted for.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether they are counted for more than that, since first ids are let in anyway.
    pub(crate) fn is_over_max(&self) -> bool {
        self.bytes() > self.bytes_max.load(Ordering::Relaxed)
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

    /// The id of `text` for a connection, which must [log it out](Names::logout) in the end. Unless
    /// it `is_first`, the connection's only one, it is refused when all ids together are too many.
    pub fn login(&self, text: IdText<'_>, is_first: bool) -> Result<Id, IdsFull> {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        let needed = LOGIN_BYTES
            + match text {
                IdText::Integer(_) => 0,
                IdText::Name(name) => NAME_BYTES + name.len(),
            };
        if !is_first && self.bytes() + needed > bytes_max {
            return Err(IdsFull { bytes_max });
        }
        self.bytes.fetch_add(LOGIN_BYTES, Ordering::Relaxed);
        Ok(self.acquire(text))
    }

    /// Takes back one [`Names::login`].
    pub fn logout(&self, id: Id) {
        let before = self.bytes.fetch_sub(LOGIN_BYTES, Ordering::Relaxed);
        debug_assert!(
            before >= LOGIN_BYTES,
            "more log-outs than log-ins: ids would be full for ever"
        );
        self.release(id);
    }

    /// Counts bytes that are kept elsewhere for one who is logged in, who must
    /// [give them back](Names::discharge), unless all ids together are too many.
    pub fn charge_within(&self, bytes: usize) -> Result<(), IdsFull> {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        if self.bytes() + bytes > bytes_max {
            return Err(IdsFull { bytes_max });
        }
        self.charge(bytes);
        Ok(())
    }

    /// Counts bytes that are kept elsewhere for log-ins, so that they are bounded with the ids.
    pub fn charge(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes back one [`Names::charge_within`], or what was charged otherwise.
    pub fn discharge(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "more is taken back than was counted");
    }

    /// The id of `text` for somebody who has a bound of his own, such as the history, and must
    /// [`Names::release`] it.
    pub fn acquire(&self, text: IdText<'_>) -> Id {
        self.intern(text, |entry| entry.online += 1)
    }

    /// Acquires the id of a name that somebody keeps.
    pub fn acquire_id(&self, id: Id) {
        debug_assert!(!id.is_name() || self.text(id).is_some(), "somebody keeps it");
        self.change(id, |entry| entry.online += 1);
    }

    /// Takes back one [`Names::acquire`] or [`Names::acquire_id`].
    pub fn release(&self, id: Id) {
        debug_assert!(!id.is_name() || self.text(id).is_some(), "it was kept until now");
        self.change(id, |entry| {
            debug_assert!(entry.online > 0, "it is released more often than acquired");
            entry.online = entry.online.saturating_sub(1);
        });
    }

    /// The id of `text` for the store: it stays until [`Names::unpin`], whoever is online.
    pub fn pin(&self, text: IdText<'_>) -> Id {
        assert!(!text.is_key(), "no key is stored");
        self.intern(text, |entry| entry.pinned = true)
    }

    /// Pins a name that has an entry.
    pub fn pin_id(&self, id: Id) {
        self.change(id, |entry| entry.pinned = true);
    }

    /// The store does not refer to `id` any more (or its transaction failed).
    pub fn unpin(&self, id: Id) {
        self.change(id, |entry| entry.pinned = false);
    }

    /// Puts a stored pair back at start; later names get other ids.
    pub fn restore(&self, id: Id, name: &str) {
        let hash = id.name_hash();
        self.counter.fetch_max(id.name_counter() + 1, Ordering::Relaxed);
        let mut stripe = self.stripe(hash);
        let entry = Entry { id, online: 0, pinned: true, name: name.into() };
        stripe.insert_unique(spread(hash), entry, |entry| spread(entry.id.name_hash()));
    }

    /// Puts a name in that another process has stored under `id`. `false`, and nothing is changed,
    /// when the name has another id here, or the id another name.
    #[must_use]
    pub fn adopt(&self, id: Id, name: &str) -> bool {
        let hash = id.name_hash();
        self.counter.fetch_max(id.name_counter() + 1, Ordering::Relaxed);
        let mut stripe = self.stripe(hash);
        if let Some(entry) = stripe.find_mut(spread(hash), |entry| *entry.name == *name) {
            let same = entry.id == id;
            self.count(entry, |entry| entry.pinned |= same);
            return same;
        }
        let is_free = stripe.find(spread(hash), |entry| entry.id == id).is_none();
        if is_free {
            let entry = Entry { id, online: 0, pinned: true, name: name.into() };
            stripe.insert_unique(spread(hash), entry, |entry| spread(entry.id.name_hash()));
        }
        is_free
    }

    /// All that the store refers to, in no order.
    pub fn pinned(&self) -> Vec<Id> {
        let mut ids = Vec::new();
        for stripe in &self.stripes {
            ids.extend(lock(stripe).iter().filter(|entry| entry.pinned).map(|entry| entry.id));
        }
        ids
    }

    /// Shows all [keys](crate::Key) to `visit`, in no order, also those under which nobody is
    /// logged in any more. It must not ask for names: it is called under a lock.
    pub fn visit_keys(&self, mut visit: impl FnMut(Id, &str)) {
        for stripe in &self.stripes {
            let stripe = lock(stripe);
            let keys = stripe.iter().filter(|entry| entry.id.is_key());
            keys.for_each(|entry| visit(entry.id, &entry.name));
        }
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

    /// How many parts there are to be gone through by [`Names::keys_in`].
    pub const PARTS: usize = STRIPES;

    /// The [keys](crate::Key) of a part, by its number, whose texts begin with `prefix`. Somebody
    /// keeps each now; whether anybody is online under it is not said.
    pub fn keys_in(&self, part: usize, prefix: &str) -> Vec<(Id, String)> {
        let stripe = lock(&self.stripes[part]);
        let keys = stripe.iter().filter(|entry| entry.id.is_key());
        let found = keys.filter(|entry| entry.name.starts_with(prefix));
        found.map(|entry| (entry.id, entry.name.to_string())).collect()
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
            self.count(entry, mark);
            return entry.id;
        }
        let id = self.fresh_id(&stripe, hash, text.is_key());
        let mut entry = Entry { id, online: 0, pinned: false, name: name.into() };
        mark(&mut entry);
        debug_assert!(entry.online > 0 || entry.pinned, "nobody would ever free it");
        self.bytes.fetch_add(entry.bytes(), Ordering::Relaxed);
        stripe.insert_unique(spread(hash), entry, |entry| spread(entry.id.name_hash()));
        id
    }

    /// Ordering: the counter only has to hand out each value once; what it protects is published
    /// by the stripe's lock, so relaxed is enough.
    fn fresh_id(&self, stripe: &HashTable<Entry>, hash: u32, is_key: bool) -> Id {
        debug_assert_eq!(hash >> 31, 0, "an id has 31 bits of it, and is found by those");
        loop {
            let id = Id::name(hash, self.counter.fetch_add(1, Ordering::Relaxed), is_key);
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
            self.count(found.get_mut(), change);
            if found.get().online == 0 && !found.get().pinned {
                let (entry, _) = found.remove();
                let before = self.bytes.fetch_sub(entry.bytes(), Ordering::Relaxed);
                debug_assert!(before >= entry.bytes(), "what is counted was taken back twice");
                tables::shrink(&mut stripe, |entry| spread(entry.id.name_hash()));
            }
        }
    }

    /// Changes an entry, and what it is counted for.
    fn count(&self, entry: &mut Entry, change: impl FnOnce(&mut Entry)) {
        let before = entry.bytes();
        change(entry);
        self.bytes.fetch_add(entry.bytes().wrapping_sub(before), Ordering::Relaxed);
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
