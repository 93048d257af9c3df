//! Ids that have several connections.
//!
//! Two connections of an id, such as two pages of one person, stand in the [table] itself, in 37
//! bytes. In a table of open addressing they took 38 to 75, and came in 0.23 instead of 0.29 µs
//! (the median of both). Some connections stand in a list of their own, and as many as there may be
//! in [`Runs`]. Among a million, one comes in 0.1 µs and goes in 0.3 µs (the medians of `cargo
//! bench -p hub`). Growth never moves more than a kilobyte, and what is freed goes back run by run.
//! The order is what a walk needs that stops and goes on: it knows only the last connection that it
//! has seen. So a connection that is there from its begin to its end is seen exactly once, whatever
//! else comes and goes. Two others were tried. A vector with an index from connection to position
//! was O(1), but copied itself and its index whenever it grew, all of it under the stripe's lock. A
//! tree of single connections took 21 bytes for each, and twice as long.
//!
//! [table]: crate::bucket_table

mod runs;

use self::runs::{RUN_MAX, Runs};
use crate::bucket_table::BucketTable;
use crate::conn_ref::ConnRef;
use crate::id::Id;
use crate::keys::Keys;

/// The connections of the ids of one stripe that have several, by id. A stripe without any has just
/// an empty pointer.
#[derive(Default)]
pub(crate) struct ConnSets(Option<Box<BucketTable<SetEntry, 8>>>);

struct SetEntry {
    id: Id,
    set: ConnSet,
}

/// The connections of an id that has several.
pub(crate) enum ConnSet {
    /// Two, in order.
    Pair([ConnRef; 2]),
    /// Three or some more, in order.
    Some(Box<[ConnRef]>),
    /// Many.
    Many(Box<Runs>),
}

const _: () = assert!(size_of::<SetEntry>() == 32 && SOME_MAX <= RUN_MAX);

/// So many are not in a list of exactly their length any more: each that came or went would copy
/// half a kilobyte.
const SOME_MAX: usize = 64;

impl ConnSets {
    /// `id`, which has no set yet, has these two connections from now on.
    pub(crate) fn add(&mut self, id: Id, mut pair: [ConnRef; 2], keys: &Keys) {
        debug_assert_ne!(pair[0], pair[1], "a connection is registered once under an id");
        pair.sort_unstable();
        let entry = SetEntry { id, set: ConnSet::Pair(pair) };
        debug_assert!(self.of(id, keys).is_none(), "the set that it has would be lost");
        let table = self.0.get_or_insert_default();
        table.insert(entry, |entry| keys.hash(entry.id.to_bits()));
    }

    /// The bytes of its allocations, but for sets of many.
    #[cfg(test)]
    pub(crate) fn allocations(&self) -> Vec<usize> {
        let Some(table) = &self.0 else { return Vec::new() };
        let set = |entry: &SetEntry| match &entry.set {
            ConnSet::Some(conns) => size_of_val(&**conns),
            ConnSet::Pair(_) | ConnSet::Many(_) => 0,
        };
        table.iter().map(set).chain([size_of_val(&**table)]).chain(table.allocations()).collect()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The set of `id`, which has one.
    pub(crate) fn of(&self, id: Id, keys: &Keys) -> Option<&ConnSet> {
        let entry = self.0.as_ref()?.find(keys.hash(id.to_bits()), |entry| entry.id == id)?;
        Some(&entry.set)
    }

    /// `id`, which has a set, has one more connection, unless it has `most`; whether it has.
    pub(crate) fn insert(&mut self, id: Id, conn: ConnRef, most: usize, keys: &Keys) -> bool {
        debug_assert!(self.of(id, keys).is_some(), "an id that has several has a set of them");
        let Some(table) = &mut self.0 else { return false };
        let found = table.find_mut(keys.hash(id.to_bits()), |entry| entry.id == id);
        let Some(entry) = found.filter(|entry| entry.set.len() < most) else { return false };
        entry.set.insert(conn);
        true
    }

    /// Takes `conn` out of the set of `id`. When only one is left it is no set any more: that
    /// one is returned.
    pub(crate) fn remove(&mut self, id: Id, conn: ConnRef, keys: &Keys) -> Option<ConnRef> {
        debug_assert!(self.of(id, keys).is_some(), "an id that has several has a set of them");
        let table = self.0.as_mut()?;
        let hash = keys.hash(id.to_bits());
        let left = table.find_mut(hash, |entry| entry.id == id)?.set.remove(conn)?;
        table.remove(hash, |entry| entry.id == id);
        if table.is_empty() {
            self.0 = None;
        }
        Some(left)
    }
}

impl ConnSet {
    pub(crate) fn len(&self) -> usize {
        match self {
            ConnSet::Pair(pair) => pair.len(),
            ConnSet::Some(conns) => conns.len(),
            ConnSet::Many(runs) => runs.len(),
        }
    }

    pub(crate) fn contains(&self, conn: ConnRef) -> bool {
        match self {
            ConnSet::Pair(pair) => pair.contains(&conn),
            ConnSet::Some(conns) => conns.binary_search(&conn).is_ok(),
            ConnSet::Many(runs) => runs.contains(conn),
        }
    }

    /// Visits, in order, at most `most` connections that stand after `after`. The last one visited
    /// when there are more.
    pub(crate) fn walk(
        &self,
        after: Option<ConnRef>,
        most: usize,
        visit: &mut impl FnMut(ConnRef),
    ) -> Option<ConnRef> {
        let is_behind = |conn: &ConnRef| after.is_none_or(|after| *conn > after);
        let rest = |conns: &[ConnRef]| conns.partition_point(|conn| !is_behind(conn));
        match self {
            ConnSet::Pair(pair) => visit_most(pair[rest(pair)..].iter().copied(), most, visit),
            ConnSet::Some(conns) => visit_most(conns[rest(conns)..].iter().copied(), most, visit),
            ConnSet::Many(runs) => {
                visit_most(runs.from(after).skip_while(|conn| !is_behind(conn)), most, visit)
            }
        }
    }

    fn insert(&mut self, conn: ConnRef) {
        match self {
            ConnSet::Pair([first, second]) => {
                debug_assert!(conn != *first && conn != *second);
                let mut conns = [*first, *second, conn];
                conns.sort_unstable();
                *self = ConnSet::Some(Box::new(conns));
            }
            ConnSet::Some(conns) => {
                let place = conns.binary_search(&conn);
                debug_assert!(place.is_err(), "a connection is registered once under an id");
                let Err(place) = place else { return };
                let mut conns = std::mem::take(conns).into_vec();
                conns.reserve_exact(1);
                conns.insert(place, conn);
                *self = match conns.len() {
                    SOME_MAX.. => ConnSet::Many(Box::new(Runs::of(conns))),
                    _ => ConnSet::Some(conns.into()),
                };
            }
            ConnSet::Many(runs) => {
                let is_new = runs.insert(conn);
                debug_assert!(is_new, "a connection is registered once under an id");
            }
        }
    }

    /// Takes `conn` out. The other one when there is only one left.
    fn remove(&mut self, conn: ConnRef) -> Option<ConnRef> {
        match self {
            ConnSet::Pair([first, second]) if conn == *first => return Some(*second),
            ConnSet::Pair([first, second]) if conn == *second => return Some(*first),
            ConnSet::Pair(_) => {}
            ConnSet::Some(conns) => {
                debug_assert!(conns.len() > 2, "two stand in the table itself");
                let place = conns.binary_search(&conn).ok()?;
                let mut conns = std::mem::take(conns).into_vec();
                conns.remove(place);
                *self = match conns[..] {
                    [first, second] => ConnSet::Pair([first, second]),
                    _ => ConnSet::Some(conns.into()),
                };
            }
            ConnSet::Many(runs) => {
                if runs.remove(conn) && runs.len() < SOME_MAX / 2 {
                    *self = ConnSet::Some(runs.from(None).collect());
                }
            }
        }
        None
    }
}

fn visit_most(
    mut rest: impl Iterator<Item = ConnRef>,
    most: usize,
    visit: &mut impl FnMut(ConnRef),
) -> Option<ConnRef> {
    let mut last = None;
    for conn in rest.by_ref().take(most) {
        visit(conn);
        last = Some(conn);
    }
    rest.next().and(last)
}
