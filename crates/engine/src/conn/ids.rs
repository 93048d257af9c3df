//! The ids that a connection is logged in under, in order: the least in the record, two more in the
//! rare box, and only further ones in an allocation of their own.
//!
//! Cost: to look for an id, a binary search; to put one in or take one out, that and a move of the
//! greater ones, 8 bytes each.

use hub::Id;
use smallvec::SmallVec;

use super::Conn;

/// So many new ids are put in one by one; of more, all are sorted.
pub(crate) const SOME_IDS: usize = 8;

pub(super) type MoreIds = SmallVec<[Id; 2]>;

impl<S> Conn<S> {
    /// The ids, in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> + '_ {
        (self.id != Id::NONE).then_some(self.id).into_iter().chain(self.more_ids().iter().copied())
    }

    /// How many there are.
    pub(crate) fn ids_len(&self) -> usize {
        usize::from(self.id != Id::NONE) + self.more_ids().len()
    }

    /// Whether `id` is one of them.
    pub(crate) fn has_id(&self, id: Id) -> bool {
        self.id == id || self.more_ids().binary_search(&id).is_ok()
    }

    /// Puts ids in that it has not, each once.
    pub(crate) fn put_ids(&mut self, new: &[Id]) {
        for &id in new {
            let more = match self.id {
                Id::NONE => {
                    self.id = id;
                    continue;
                }
                least if id < least => std::mem::replace(&mut self.id, id),
                _ => id,
            };
            let ids = &mut self.rare.get_or_insert_default().more_ids;
            if new.len() > SOME_IDS {
                ids.push(more);
            } else if let Err(place) = ids.binary_search(&more) {
                ids.insert(place, more);
            }
        }
        if new.len() > SOME_IDS
            && let Some(rare) = &mut self.rare
        {
            rare.more_ids.sort_unstable();
        }
    }

    /// Takes an id out. Whether it was there.
    pub(crate) fn take_id(&mut self, id: Id) -> bool {
        let more = self.rare.as_mut().map(|rare| &mut rare.more_ids);
        if self.id == id {
            let next = more.filter(|more| !more.is_empty()).map(|more| more.remove(0));
            self.id = next.unwrap_or(Id::NONE);
        } else {
            let Some(more) = more else { return false };
            let Ok(place) = more.binary_search(&id) else { return false };
            more.remove(place);
            // What was needed for many is not kept for few.
            if more.len() < more.capacity() / 4 {
                more.shrink_to_fit();
            }
        }
        self.tidy();
        true
    }

    /// Takes the greatest id out: whoever takes all of them moves none.
    pub(crate) fn pop_id(&mut self) -> Option<Id> {
        let greatest = self.rare.as_mut().and_then(|rare| rare.more_ids.pop());
        greatest
            .or_else(|| (self.id != Id::NONE).then(|| std::mem::replace(&mut self.id, Id::NONE)))
    }

    fn more_ids(&self) -> &[Id] {
        self.rare.as_ref().map_or(&[], |rare| &rare.more_ids)
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
        let mut id = || Id::integer(random.below(40) as u64).unwrap();
        for round in 0..20_000 {
            if round % 3 == 0 {
                let gone = id();
                assert_eq!(conn.take_id(gone), model.remove(&gone));
            } else {
                let new: BTreeSet<Id> =
                    (0..1 + round % 12).map(|_| id()).filter(|id| !conn.has_id(*id)).collect();
                conn.put_ids(&Vec::from_iter(new.iter().copied()));
                model.extend(new);
            }
            assert!(conn.ids().eq(model.iter().copied()));
            assert_eq!(conn.ids_len(), model.len());
            let any = id();
            assert_eq!(conn.has_id(any), model.contains(&any));
            if round % 100 == 0 {
                while let Some(id) = conn.pop_id() {
                    assert_eq!(model.pop_last(), Some(id));
                }
                assert!(model.is_empty());
                conn.tidy();
                assert!(conn.rare.is_none());
            }
        }
    }
}
