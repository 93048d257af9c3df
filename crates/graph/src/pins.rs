//! The names that one transaction needs or lets go.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use heed::types::{Bytes, Str};
use heed::{Database, RoTxn, RwTxn};
use hub::{Id, IdText, Names};

use super::sum::{self, Sums, Table};

/// Keeps the stored names and the pins of [`Names`] equal, whether the transaction succeeds or not.
/// Dropped before [`Pins::settle`], it has failed, and names that are new lose their pin again.
pub(super) struct Pins<'s> {
    names: &'s Names,
    stored: Database<'static, Bytes, Str>,
    touched: HashMap<Id, Pin>,
    /// Another store needs names under the same dictionary: none loses its pin.
    shared: bool,
}

#[derive(Clone, Copy)]
struct Pin {
    /// Stored before the transaction.
    before: bool,
    /// To be stored after it.
    after: bool,
}

impl<'s> Pins<'s> {
    pub(super) fn new(
        names: &'s Names,
        stored: Database<'static, Bytes, Str>,
        shared: bool,
    ) -> Pins<'s> {
        Pins { names, stored, touched: HashMap::new(), shared }
    }

    /// The id of `text`, which is stored from this transaction on.
    pub(super) fn pin(&mut self, text: IdText<'_>, txn: &RoTxn<'_>) -> heed::Result<Id> {
        let id = self.names.pin(text);
        if id.is_name() {
            self.touch(id, txn)?.after = true;
        }
        Ok(id)
    }

    /// The name of `id` is not needed any more.
    pub(super) fn forget(&mut self, id: Id, txn: &RoTxn<'_>) -> heed::Result<()> {
        self.touch(id, txn)?.after = false;
        Ok(())
    }

    fn touch(&mut self, id: Id, txn: &RoTxn<'_>) -> heed::Result<&mut Pin> {
        Ok(match self.touched.entry(id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let before = self.stored.get(txn, &key(id))?.is_some();
                entry.insert(Pin { before, after: before })
            }
        })
    }

    /// Writes what changed, and its part of `sums`. In the order of the keys: a bulk load may bring
    /// a million names.
    pub(super) fn write(&self, txn: &mut RwTxn<'_>, sums: &mut Sums) -> heed::Result<()> {
        let changed = self.touched.iter().filter(|(_, pin)| pin.before != pin.after);
        let mut changed: Vec<(Id, bool)> = changed.map(|(&id, pin)| (id, pin.after)).collect();
        changed.sort_unstable();
        for (id, needed) in changed {
            let name = self.names.text(id).expect("a pinned name has a text");
            let hash = sum::of_name(&key(id), name.as_bytes());
            if needed {
                sums.add(Table::Names, hash);
                self.stored.put(txn, &key(id), &name)?;
            } else {
                sums.remove(Table::Names, hash);
                let was_there = self.stored.delete(txn, &key(id))?;
                debug_assert!(was_there, "its part of the sum was taken away for nothing");
            }
        }
        Ok(())
    }

    /// The transaction is committed.
    pub(super) fn settle(mut self) {
        self.unpin(|pin| !pin.after);
    }

    fn unpin(&mut self, unneeded: impl Fn(Pin) -> bool) {
        for (id, pin) in self.touched.drain() {
            if unneeded(pin) && !self.shared {
                self.names.unpin(id);
            }
        }
    }
}

impl Drop for Pins<'_> {
    fn drop(&mut self) {
        self.unpin(|pin| !pin.before);
    }
}

/// Under which a name is stored.
pub(super) fn key(id: Id) -> [u8; 8] {
    id.to_bits().to_be_bytes()
}
