//! These are the last queries by their ids, in a table that is bounded. It has those that were
//! heard before, so that a query that goes around ends (loops), and those that we asked ourselves.

use std::collections::{HashMap, VecDeque};

/// The last so many ids, with a value each. The oldest one is forgotten for a new one; a query that
/// comes again after that is asked again, which costs one search and no more.
#[derive(Debug)]
pub(crate) struct Recent<V> {
    known: HashMap<String, V>,
    order: VecDeque<String>,
    ids_max: usize,
}

impl<V> Recent<V> {
    /// A table of at most `ids_max` ids.
    pub(crate) fn new(ids_max: usize) -> Recent<V> {
        Recent { known: HashMap::new(), order: VecDeque::new(), ids_max }
    }

    /// Notes `id`, and whether it is new. One that is known keeps its value.
    pub(crate) fn note(&mut self, id: &str, value: V) -> bool {
        if self.known.contains_key(id) {
            return false;
        }
        if self.order.len() >= self.ids_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.known.insert(id.to_owned(), value);
        self.order.push_back(id.to_owned());
        true
    }

    /// The value of `id`, if that was noted and is not forgotten yet.
    pub(crate) fn of(&mut self, id: &str) -> Option<&mut V> {
        self.known.get_mut(id)
    }

    /// How many are known.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_id_is_forgotten_when_there_is_no_room() {
        let mut recent = Recent::new(2);
        assert!(recent.note("a", 1) && recent.note("b", 2) && !recent.note("a", 3));
        assert_eq!(recent.of("a"), Some(&mut 1));
        assert!(recent.note("c", 4));
        let kept = ["a", "b", "c"].map(|id| recent.of(id).copied());
        assert_eq!(kept, [None, Some(2), Some(4)]);
        assert_eq!((recent.len(), recent.order.len()), (2, 2));
    }
}
