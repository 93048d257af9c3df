//! Names that keep their ids while pairs are on their way into a store.

use std::collections::HashSet;
use std::ops::Deref;

use hub::{Id, IdText, Names};

/// Holds names as connections do, each once.
pub(super) struct AcquiredNames<N: Deref<Target = Names>> {
    names: N,
    pub(super) ids: HashSet<Id>,
}

impl<N: Deref<Target = Names>> AcquiredNames<N> {
    pub(super) fn new(names: N) -> AcquiredNames<N> {
        AcquiredNames { names, ids: HashSet::new() }
    }

    /// The id of `text`, which it keeps from now on.
    pub(super) fn hold(&mut self, text: IdText<'_>) -> Id {
        let known = self.names.lookup(text);
        if let Some(id) = known.filter(|id| !id.is_name() || self.ids.contains(id)) {
            return id;
        }
        let id = self.names.acquire(text);
        self.ids.insert(id);
        id
    }
}

impl<N: Deref<Target = Names>> Drop for AcquiredNames<N> {
    fn drop(&mut self) {
        self.ids.iter().for_each(|&id| self.names.release(id));
    }
}
