//! The dictionary of names that are not integers.
//!
//! A name has an entry while somebody is online under it, or while the store knows it ("pinned").
//! Entries of clients that are gone are freed, so clients cannot grow the table without a bound. An
//! id is never given to a second name while a sender could still hold it. Ids count up, and 2^31
//! names with equal hash bits would have to come and go in between.
//!
//! The id carries 31 bits of the name's hash, and the table hashes by just these bits. So one table
//! finds an entry by its name and by its id, and no second index exists. The hash is SipHash-2-4
//! under a key of the store's own: nobody outside can choose names that collide.
//!
//! What ids cost for clients is counted here, since every log-in comes by. That is names as long as
//! clients use them, and what a log-in costs in the directory and in its shard. Past a maximum a
//! connection gets no further ids. Its first one it always gets: connections have a bound of their
//! own, and somebody with many ids must not keep the others out.
//!
//! Cost per entry: 19 bytes, the name with its length, and a thirtieth of both that is free.

mod stripe;
#[cfg(test)]
mod tests;

use std::hash::Hasher;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use siphasher::sip::SipHasher24;
use thiserror::Error;

use self::stripe::{Counted, NamesStripe, Uses, bytes_of};
use crate::id::{Id, IdText};

/// So many that workers seldom meet at one. Each has allocations of its own: with twice as many,
/// each of 4,000 names took 7 bytes more (counted as in `members/tests/bytes.rs`).
const STRIPES: usize = 512;

/// What a log-in is counted for: 17 bytes in such a table of the directory (39), and 16 in a block
/// of its shard's lists that others were taken out of, the most that either takes.
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

/// Names to ids and back, shared by all threads.
pub struct Names {
    key: [u8; 16],
    counter: AtomicU32,
    /// What clients' ids are counted for now, and at most. Relaxed, both: a bound on memory, good
    /// to within what the workers log in at one moment.
    bytes: AtomicUsize,
    bytes_max: AtomicUsize,
    stripes: Box<[Mutex<NamesStripe>]>,
}

impl Names {
    /// An empty dictionary. `key` must be the one under which stored ids were made.
    pub fn new(key: [u8; 16]) -> Names {
        let stripes = (0..STRIPES).map(|_| Mutex::default()).collect();
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
        self.stripe(hash).id(hash, name)
    }

    /// The id of `text` for a connection, which must [log it out](Names::logout) in the end. Unless
    /// it `is_first`, the connection's only one, it is refused when all ids together are too many.
    pub fn login(&self, text: IdText<'_>, is_first: bool) -> Result<Id, IdsFull> {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        let needed = LOGIN_BYTES
            + match text {
                IdText::Integer(_) => 0,
                IdText::Name(name) => bytes_of(name),
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
        self.intern(text, Uses::acquire)
    }

    /// Acquires the id of a name that somebody keeps.
    pub fn acquire_id(&self, id: Id) {
        debug_assert!(!id.is_name() || self.text(id).is_some(), "somebody keeps it");
        self.change(id, Uses::acquire);
    }

    /// Takes back one [`Names::acquire`] or [`Names::acquire_id`].
    pub fn release(&self, id: Id) {
        debug_assert!(!id.is_name() || self.text(id).is_some(), "it was kept until now");
        self.change(id, Uses::release);
    }

    /// The id of `text` for the store: it stays until [`Names::unpin`], whoever is online.
    pub fn pin(&self, text: IdText<'_>) -> Id {
        assert!(!text.is_key(), "no key is stored");
        self.intern(text, Uses::pin)
    }

    /// Pins a name that has an entry.
    pub fn pin_id(&self, id: Id) {
        self.change(id, Uses::pin);
    }

    /// The store does not refer to `id` any more (or its transaction failed).
    pub fn unpin(&self, id: Id) {
        self.change(id, Uses::unpin);
    }

    /// Puts a stored pair back at start; later names get other ids.
    pub fn restore(&self, id: Id, name: &str) {
        let hash = id.name_hash();
        self.counter.fetch_max(id.name_counter() + 1, Ordering::Relaxed);
        self.insert(&mut self.stripe(hash), id, name, Uses::pin);
    }

    /// Puts a name in that another process has stored under `id`. `false`, and nothing is changed,
    /// when the name has another id here, or the id another name.
    #[must_use]
    pub fn adopt(&self, id: Id, name: &str) -> bool {
        let hash = id.name_hash();
        self.counter.fetch_max(id.name_counter() + 1, Ordering::Relaxed);
        let mut stripe = self.stripe(hash);
        match stripe.id(hash, name) {
            Some(known) if known == id => self.count(stripe.change(id, Uses::pin)),
            Some(_) => return false,
            None if stripe.text(id).is_some() => return false,
            None => self.insert(&mut stripe, id, name, Uses::pin),
        }
        true
    }

    /// All that the store refers to, in no order.
    pub fn pinned(&self) -> Vec<Id> {
        let mut ids = Vec::new();
        for stripe in &self.stripes {
            let stripe = lock(stripe);
            ids.extend(stripe.iter().filter(|(_, uses, _)| uses.is_pinned()).map(|(id, ..)| id));
        }
        ids
    }

    /// Shows all [keys](crate::Key) to `visit`, in no order, also those under which nobody is
    /// logged in any more. It must not ask for names: it is called under a lock.
    pub fn visit_keys(&self, mut visit: impl FnMut(Id, &str)) {
        for stripe in &self.stripes {
            let stripe = lock(stripe);
            let keys = stripe.iter().filter(|(id, ..)| id.is_key());
            keys.for_each(|(id, _, name)| visit(id, name));
        }
    }

    /// The text of `id`: the digits of an integer, the name of a name that still has an entry.
    pub fn text(&self, id: Id) -> Option<String> {
        if let Some(number) = id.as_integer() {
            return Some(number.to_string());
        }
        self.stripe(id.name_hash()).text(id).map(str::to_owned)
    }

    /// How many parts there are to be gone through by [`Names::keys_in`].
    pub const PARTS: usize = STRIPES;

    /// The [keys](crate::Key) of a part, by its number, whose texts begin with `prefix`. Somebody
    /// keeps each now; whether anybody is online under it is not said.
    pub fn keys_in(&self, part: usize, prefix: &str) -> Vec<(Id, String)> {
        let stripe = lock(&self.stripes[part]);
        let keys = stripe.iter().filter(|(id, ..)| id.is_key());
        let found = keys.filter(|(.., name)| name.starts_with(prefix));
        found.map(|(id, _, name)| (id, name.to_owned())).collect()
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

    /// The bytes of its allocations.
    #[cfg(test)]
    pub(crate) fn allocations(&self) -> Vec<usize> {
        self.stripes
            .iter()
            .flat_map(|stripe| lock(stripe).allocations().collect::<Vec<_>>())
            .collect()
    }

    fn intern(&self, text: IdText<'_>, mark: fn(&mut Uses)) -> Id {
        let name = match text {
            IdText::Integer(id) => return id,
            IdText::Name(name) => name,
        };
        let hash = self.hash(name);
        let mut stripe = self.stripe(hash);
        if let Some(id) = stripe.id(hash, name) {
            self.count(stripe.change(id, mark));
            return id;
        }
        let id = self.fresh_id(&stripe, hash, text.is_key());
        self.insert(&mut stripe, id, name, mark);
        id
    }

    /// Puts a new name in, marked as used.
    fn insert(&self, stripe: &mut NamesStripe, id: Id, name: &str, mark: fn(&mut Uses)) {
        let mut uses = Uses::default();
        mark(&mut uses);
        let bytes = stripe.insert(id, name, uses);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Ordering: the counter only has to hand out each value once; what it protects is published
    /// by the stripe's lock, so relaxed is enough.
    fn fresh_id(&self, stripe: &NamesStripe, hash: u32, is_key: bool) -> Id {
        debug_assert_eq!(hash >> 31, 0, "an id has 31 bits of it, and is found by those");
        loop {
            let id = Id::name(hash, self.counter.fetch_add(1, Ordering::Relaxed), is_key);
            if id != Id::NONE && stripe.text(id).is_none() {
                return id;
            }
        }
    }

    fn change(&self, id: Id, change: fn(&mut Uses)) {
        if id.is_name() {
            self.count(self.stripe(id.name_hash()).change(id, change));
        }
    }

    /// Counts an entry for what it is now.
    fn count(&self, counted: Option<Counted>) {
        let Some(Counted { before, after }) = counted else { return };
        let counted = self.bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        debug_assert!(counted >= before, "what is counted was taken back twice");
    }

    fn hash(&self, name: &str) -> u32 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(name.as_bytes());
        (hasher.finish() >> 33) as u32
    }

    fn stripe(&self, hash: u32) -> MutexGuard<'_, NamesStripe> {
        lock(&self.stripes[hash as usize % STRIPES])
    }
}

/// A panic under the lock would leave the table whole: each change is one insert or remove.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
