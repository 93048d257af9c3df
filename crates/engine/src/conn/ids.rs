//! The ids that a connection is logged in under, in order: the least in the record, the others in a
//! list of its shard ([`IdLists`]).

use hub::Id;

use super::Conn;
use crate::id_lists::{IdLists, List};

impl<S> Conn<S> {
    /// The least of its ids.
    pub(crate) fn least_id(&self) -> Option<Id> {
        (self.id != Id::NONE).then_some(self.id)
    }

    /// Puts `new` in: ids in order that it has not.
    pub(crate) fn put_ids(&mut self, new: &[Id], lists: &mut IdLists, list: &mut List) {
        let Some((&first, greater)) = new.split_first() else { return };
        if first > self.id {
            return lists.put(list, new);
        }
        let before = std::mem::replace(&mut self.id, first);
        if before != Id::NONE {
            lists.put(list, &[before]);
        }
        lists.put(list, greater);
    }

    /// Takes an id out. Whether it was there.
    pub(crate) fn take_id(&mut self, id: Id, lists: &mut IdLists, list: &mut List) -> bool {
        if self.id != id {
            return lists.take(list, id);
        }
        self.id = lists.take_least(list).unwrap_or(Id::NONE);
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
        let mut random = crate::sim::Random::of_test();
        let (mut conn, mut model) = (Conn::new((), 0), BTreeSet::new());
        let (mut lists, mut list) = (IdLists::default(), List::default());
        for round in 0..20_000 {
            let mut id = || Id::integer(random.below(40) as u64).unwrap();
            if round % 3 == 0 {
                let gone = id();
                assert_eq!(conn.take_id(gone, &mut lists, &mut list), model.remove(&gone));
            } else {
                let new: BTreeSet<Id> =
                    (0..round % 12).map(|_| id()).filter(|id| !model.contains(id)).collect();
                conn.put_ids(&Vec::from_iter(new.iter().copied()), &mut lists, &mut list);
                model.extend(new);
            }
            let more = lists.of(list).iter().copied();
            assert!(conn.least_id().into_iter().chain(more).eq(model.iter().copied()));
            if round % 100 == 0 {
                conn.forget_ids(&mut lists, &mut list);
                model.clear();
                assert_eq!((conn.least_id(), list), (None, List::default()));
            }
        }
    }
}
