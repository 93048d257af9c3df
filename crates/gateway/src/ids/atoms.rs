//! Which atoms go to nodes.
//!
//! A node keeps every atom that it ever read, of a million or so in its whole life, and a foreign
//! node may name an id `{x1,1}`, then `{x2,1}`. So an atom goes to nodes if one of them has said it
//! in an id, or as long as there are few others. An id with one of the rest in it goes as a binary
//! of its text, which is the same id.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

/// Atoms that nodes have said, of which we know: 16 MiB at most, since an atom has 255 characters.
const HEARD_MAX: usize = 16_384;

/// Atoms that nobody but browsers and the API have said and that go to nodes nevertheless: a
/// hundredth of what a node has room for.
const OTHERS_MAX: usize = 10_000;

/// Those of this process, whatever nodes it is connected with.
static ATOMS: RwLock<Option<Atoms>> = RwLock::new(None);

/// Atoms that may go to nodes.
#[derive(Default)]
struct Atoms {
    known: HashSet<Box<str>>,
    others: usize,
}

/// A node has said `atom`.
pub(super) fn heard(atom: &str) {
    if !is_known(atom) {
        change(|atoms| atoms.hear(atom));
    }
}

/// Whether `atom` may go to nodes.
pub(super) fn may_go(atom: &str) -> bool {
    is_known(atom) || change(|atoms| atoms.admit(atom))
}

fn is_known(atom: &str) -> bool {
    let atoms = ATOMS.read().unwrap_or_else(PoisonError::into_inner);
    atoms.as_ref().is_some_and(|atoms| atoms.known.contains(atom))
}

fn change<T>(change: impl FnOnce(&mut Atoms) -> T) -> T {
    change(ATOMS.write().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

impl Atoms {
    fn hear(&mut self, atom: &str) {
        if self.known.len() - self.others < HEARD_MAX {
            self.known.insert(atom.into());
        }
    }

    fn admit(&mut self, atom: &str) -> bool {
        if self.known.contains(atom) {
            return true;
        }
        let has_room = self.others < OTHERS_MAX;
        if has_room {
            self.known.insert(atom.into());
            self.others += 1;
            debug_assert!(self.known.len() <= HEARD_MAX + OTHERS_MAX, "nobody frees an atom");
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_atoms_end_and_those_of_nodes_go_on() {
        let mut atoms = Atoms::default();
        atoms.hear("photo");
        assert!((0..OTHERS_MAX).all(|n| atoms.admit(&format!("x{n}"))));
        assert!(!atoms.admit("one_more") && atoms.admit("x7") && atoms.admit("photo"));
        atoms.hear("one_more");
        assert!(atoms.admit("one_more"));
        (0..2 * HEARD_MAX).for_each(|n| atoms.hear(&format!("y{n}")));
        assert_eq!(atoms.known.len(), HEARD_MAX + OTHERS_MAX);
    }
}
