//! Lists of grants that are listened with, each once: tokens that grant the same share one.

use std::collections::HashMap;
use std::sync::Arc;

use mercure::Grants;
use parking_lot::Mutex;

/// The lists that are in use, by what they grant.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    used: HashMap<Arc<Grants>, Used>,
    last: u64,
    /// What all of them take.
    bytes: usize,
}

#[derive(Debug)]
struct Used {
    number: u64,
    /// By how many keys.
    keys: u32,
}

impl Lists {
    /// The number of a list that one more key uses. No number is given twice. `None` where all of
    /// them would take more than `bytes_max`.
    pub(crate) fn take(&mut self, list: &Arc<Grants>, bytes_max: usize) -> Option<u64> {
        if let Some(used) = self.used.get_mut(list) {
            used.keys += 1;
            return Some(used.number);
        }
        let bytes = self.bytes + list.bytes();
        if bytes > bytes_max {
            return None;
        }
        self.bytes = bytes;
        self.last += 1;
        self.used.insert(Arc::clone(list), Used { number: self.last, keys: 1 });
        Some(self.last)
    }

    /// Takes back one [`Lists::take`].
    pub(crate) fn give_back(&mut self, list: &Arc<Grants>) {
        let Some(used) = self.used.get_mut(list) else {
            debug_assert!(false, "a list is given back by whoever took it");
            return;
        };
        used.keys -= 1;
        if used.keys == 0
            && let Some((list, _)) = self.used.remove_entry(list)
        {
            self.bytes -= list.bytes();
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.used.len()
    }
}

/// Lists that come from another process, by the numbers that they had there, until all have come
/// who have one.
#[derive(Debug, Default)]
pub(crate) struct Arriving(Mutex<HashMap<u64, Arc<Grants>>>);

impl Arriving {
    /// The list of this number, if it has come.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<Grants>> {
        self.0.lock().get(&number).cloned()
    }

    /// It comes. Once is enough.
    pub(crate) fn put(&self, number: u64, grants: Grants) {
        self.0.lock().entry(number).or_insert_with(|| Arc::new(grants));
    }

    /// Nobody comes any more who has one.
    pub(crate) fn forget(&self) {
        self.0.lock().clear();
    }
}
