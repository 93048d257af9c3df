//! Lists of grants that are listened with, each once: tokens that grant the same share one.

use std::collections::HashMap;
use std::sync::Arc;

use mercure::Grants;

/// The lists that are in use, by what they grant.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    used: HashMap<Arc<Grants>, Used>,
    last: u64,
}

#[derive(Debug)]
struct Used {
    number: u64,
    /// By how many keys.
    keys: u32,
}

impl Lists {
    /// The number of a list that one more key uses. No number is given twice.
    pub(crate) fn take(&mut self, list: &Arc<Grants>) -> u64 {
        let last = &mut self.last;
        let used = self.used.entry(Arc::clone(list)).or_insert_with(|| {
            *last += 1;
            Used { number: *last, keys: 0 }
        });
        used.keys += 1;
        used.number
    }

    /// Takes back one [`Lists::take`].
    pub(crate) fn give_back(&mut self, list: &Arc<Grants>) {
        let Some(used) = self.used.get_mut(list) else {
            debug_assert!(false, "a list is given back by whoever took it");
            return;
        };
        used.keys -= 1;
        if used.keys == 0 {
            self.used.remove(list);
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.used.len()
    }
}
