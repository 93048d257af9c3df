//! Names that keep their ids while pairs are on their way into a store.

use std::collections::HashSet;

use hub::{Id, IdText, Names};

/// Holds names as connections do, each once.
pub(super) struct Held<'s> {
    names: &'s Names,
    pub(super) ids: HashSet<Id>,
}

impl<'s> Held<'s> {
    pub(super) fn new(names: &'s Names) -> Held<'s> {
        Held { names, ids: HashSet::new() }
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

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.ids.iter().for_each(|&id| self.names.release(id));
    }
}
