//! One part of the dictionary: its entries, and their texts one behind the other.

use crate::bucket_table::BucketTable;
use crate::id::Id;
use crate::texts::Texts;

/// What a name is counted for beside its text: 16 bytes in a bucket that is a sixteenth free, and
/// the bucket's own.
const NAME_BYTES: usize = 40;

/// Who uses a name: connections that are logged in under it and others who have acquired it, and,
/// in the first bit, the store.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Uses(u32);

impl Uses {
    const PINNED: u32 = 1 << 31;

    pub(super) fn acquire(&mut self) {
        debug_assert!(self.0 | Uses::PINNED < u32::MAX, "more than there can be connections");
        self.0 += 1;
    }

    pub(super) fn release(&mut self) {
        debug_assert!(self.0 & !Uses::PINNED > 0, "it is released more often than acquired");
        self.0 -= u32::from(self.0 & !Uses::PINNED > 0);
    }

    pub(super) fn pin(&mut self) {
        self.0 |= Uses::PINNED;
    }

    pub(super) fn unpin(&mut self) {
        self.0 &= !Uses::PINNED;
    }

    /// Whether the store refers to the name.
    pub(super) fn is_pinned(self) -> bool {
        self.0 & Uses::PINNED != 0
    }
}

struct Entry {
    id: Id,
    text: u32,
    uses: Uses,
}

const _: () = assert!(size_of::<Entry>() == 16);

impl Entry {
    /// What it is counted for: what the store keeps is no client's.
    fn bytes(&self, texts: &Texts) -> usize {
        if self.uses.is_pinned() { 0 } else { bytes_of(texts.at(self.text)) }
    }

    fn is(&self, hash: u32, name: &str, texts: &Texts) -> bool {
        self.id.name_hash() == hash && texts.at(self.text) == name
    }
}

/// What a client's name is counted for.
pub(super) fn bytes_of(name: &str) -> usize {
    NAME_BYTES + Texts::bytes_of(name)
}

/// What an entry was counted for before a change, and is behind it.
pub(super) struct Counted {
    pub(super) before: usize,
    pub(super) after: usize,
}

/// The names whose hashes share some bits.
#[derive(Default)]
pub(super) struct NamesStripe {
    entries: BucketTable<Entry, 16>,
    texts: Texts,
}

impl NamesStripe {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The id of `name`, whose hash is `hash`.
    pub(super) fn id(&self, hash: u32, name: &str) -> Option<Id> {
        let is_it = |entry: &Entry| entry.is(hash, name, &self.texts);
        self.entries.find(spread(hash), is_it).map(|entry| entry.id)
    }

    /// The name of `id`.
    pub(super) fn text(&self, id: Id) -> Option<&str> {
        let entry = self.entries.find(spread(id.name_hash()), |entry| entry.id == id)?;
        Some(self.texts.at(entry.text))
    }

    /// All names, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Id, Uses, &str)> {
        let texts = &self.texts;
        self.entries.iter().map(|entry| (entry.id, entry.uses, texts.at(entry.text)))
    }

    /// Puts a name in that has no entry, under an id that no other has. What it is counted for.
    pub(super) fn insert(&mut self, id: Id, name: &str, uses: Uses) -> usize {
        debug_assert!(uses != Uses::default(), "nobody would ever free it");
        debug_assert!(self.text(id).is_none(), "one id would have two names");
        let entry = Entry { id, text: self.texts.push(name), uses };
        let bytes = entry.bytes(&self.texts);
        self.entries.insert(entry, hash_of);
        bytes
    }

    /// Changes who uses a name. It is freed where nobody does any more.
    pub(super) fn change(&mut self, id: Id, change: impl FnOnce(&mut Uses)) -> Option<Counted> {
        let hash = spread(id.name_hash());
        let entry = self.entries.find_mut(hash, |entry| entry.id == id)?;
        let before = entry.bytes(&self.texts);
        change(&mut entry.uses);
        if entry.uses != Uses::default() {
            return Some(Counted { before, after: entry.bytes(&self.texts) });
        }
        self.free(hash, id);
        Some(Counted { before, after: 0 })
    }

    fn free(&mut self, hash: u64, id: Id) {
        let Some(entry) = self.entries.remove(hash, |entry| entry.id == id) else { return };
        self.texts.free(entry.text);
        if self.texts.is_loose() {
            let entries = self.entries.iter_mut();
            self.texts.close_gaps(entries.map(|entry| &mut entry.text));
        }
    }

    /// The bytes of its allocations.
    #[cfg(test)]
    pub(crate) fn allocations(&self) -> impl Iterator<Item = usize> {
        self.entries.allocations().chain(self.texts.allocations())
    }
}

fn hash_of(entry: &Entry) -> u64 {
    spread(entry.id.name_hash())
}

/// The 31 hash bits of an id, spread over the 64 that the table wants (Fibonacci hashing, Knuth
/// TAOCP 3, 6.4), the high half folded down because the table uses the low end.
fn spread(hash: u32) -> u64 {
    let wide = u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    wide ^ wide >> 32
}
