//! The ids that a connection is logged in under: one of them in the record, the others in a list of
//! its shard ([`IdLists`]).
//!
//! The list has only what the directory finds an id by ([`hub::IdHash`]), 4 bytes. So a caller that
//! asks for the others asks the directory. That is when a connection is logged in or out, is handed
//! over or resumes. It is not when it is delivered to, unless the event is heard in a channel that
//! is shared with an id.

use hub::{ConnRef, Directory, Id, IdHash};
use smallvec::SmallVec;

use super::Conn;
use crate::id_lists::{IdLists, List};

/// As many ids as nearly every connection has.
pub(crate) const SOME_IDS: usize = 8;

/// The ids of a connection, or some of them.
pub(crate) type Ids = SmallVec<[Id; SOME_IDS]>;

/// Where the further ids of a connection are found.
pub(crate) struct Further<'l, L> {
    /// The connection.
    pub(crate) conn: ConnRef,
    pub(crate) lists: L,
    pub(crate) directory: &'l Directory,
}

impl Further<'_, &IdLists> {
    /// All ids of the connection, whose record has `first`, in order.
    pub(crate) fn all(&self, first: Option<Id>, list: List) -> Ids {
        let mut ids: Ids = first.into_iter().collect();
        for same in self.lists.of(list).chunk_by(|one, next| one == next) {
            let note = |id: Id| {
                if Some(id) != first {
                    ids.push(id)
                }
            };
            self.directory.ids_of(self.conn, same[0], note);
        }
        debug_assert_eq!(ids.len(), usize::from(first.is_some()) + self.lists.of(list).len());
        ids.sort_unstable();
        ids
    }

    /// Whether `id`, which is not the one in the record, is in the list.
    pub(crate) fn has(&self, id: Id, list: List) -> bool {
        // Few who ask for what is not there ask the directory, and a connection without a list does
        // not.
        let further = self.lists.of(list);
        !further.is_empty()
            && further.binary_search(&self.directory.hash(id)).is_ok()
            && self.directory.has(id, self.conn)
    }
}

impl<S> Conn<S> {
    /// The id in the record: the first one, or any of those that are left.
    pub(crate) fn first_id(&self) -> Option<Id> {
        (self.id != Id::NONE).then_some(self.id)
    }

    /// Puts `new` in: ids that it has not, and that the directory has.
    pub(crate) fn put_ids(
        &mut self,
        mut new: &[Id],
        further: Further<'_, &mut IdLists>,
        list: &mut List,
    ) {
        if self.id == Id::NONE
            && let Some((&first, rest)) = new.split_first()
        {
            (self.id, new) = (first, rest);
        }
        let mut new: SmallVec<[IdHash; SOME_IDS]> =
            new.iter().map(|&id| further.directory.hash(id)).collect();
        new.sort_unstable();
        further.lists.put(list, &new);
    }

    /// Takes an id out that the directory still has. Whether it was there.
    pub(crate) fn take_id(
        &mut self,
        id: Id,
        further: Further<'_, &mut IdLists>,
        list: &mut List,
    ) -> bool {
        let Further { conn, lists, directory } = further;
        if self.id != id {
            return Further { conn, lists: &*lists, directory }.has(id, *list)
                && lists.take(list, directory.hash(id));
        }
        self.id = Id::NONE;
        if let Some(hash) = lists.pop(list) {
            directory.ids_of(conn, hash, |other| {
                if other != id {
                    self.id = other;
                }
            });
            debug_assert_ne!(self.id, Id::NONE, "what is in the list is in the directory");
        }
        true
    }

    /// Takes all ids out.
    pub(crate) fn forget_ids(&mut self, lists: &mut IdLists, list: &mut List) {
        self.id = Id::NONE;
        lists.clear(list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ids_are_what_an_ordered_set_says() {
        run(&Directory::default());
    }

    /// A list has one hash as many times as the connection has further ids.
    #[test]
    fn ids_of_one_hash_are_what_an_ordered_set_says() {
        run(&Directory::of_one_hash());
    }

    fn run(directory: &Directory) {
        let mut random = crate::sim::Random::of_test();
        let (mut conn, mut model) = (Conn::new((), 0), BTreeSet::new());
        let (mut lists, mut list) = (IdLists::default(), List::default());
        let me = ConnRef::new(1, 2, 3);
        // Others are logged in under the ids too.
        for number in (0..40).step_by(3) {
            directory.login(Id::integer(number).unwrap(), ConnRef::new(1, 3, 3));
        }
        for round in 0..20_000 {
            let mut id = || Id::integer(random.below(40) as u64).unwrap();
            let further = Further { conn: me, lists: &mut lists, directory };
            if round % 3 == 0 {
                let gone = id();
                assert_eq!(conn.take_id(gone, further, &mut list), model.remove(&gone));
                directory.logout(gone, me);
            } else {
                let new: BTreeSet<Id> =
                    (0..round % 12).map(|_| id()).filter(|id| !model.contains(id)).collect();
                new.iter().for_each(|&id| directory.login(id, me));
                conn.put_ids(&Vec::from_iter(new.iter().copied()), further, &mut list);
                model.extend(new);
            }
            let asked = id();
            let further = Further { conn: me, lists: &lists, directory };
            let has = conn.first_id() == Some(asked) || further.has(asked, list);
            assert_eq!(has, model.contains(&asked));
            assert!(further.all(conn.first_id(), list).iter().eq(model.iter()));
            if round % 100 == 0 {
                conn.forget_ids(&mut lists, &mut list);
                std::mem::take(&mut model).iter().for_each(|&id| directory.logout(id, me));
                assert_eq!((conn.first_id(), list), (None, List::default()));
            }
        }
    }
}
