//! Very many connections in order: runs of up to 128, found by a tree.
//!
//! A run that is full is parted at its end if that is where the new one belongs. Else it is parted
//! between two workers if it has connections of several, else in the middle. So slots that each
//! worker gives away one after the other make full runs. One that has become short joins a
//! neighbour. So a connection takes 9 to 14 bytes, and 19 at the most; to put one in or take one
//! out moves a kilobyte at the most.

use std::collections::BTreeMap;

use crate::conn_ref::ConnRef;

/// Connections of a run.
pub(super) const RUN_MAX: usize = 128;

/// A run of fewer joins a neighbour, if both have at most three quarters of a run then.
const RUN_MIN: usize = RUN_MAX / 4;

/// Connections in order, more than a run has or had.
pub(crate) struct Runs {
    /// By a reference that is not greater than any of the run's, and greater than all of the run
    /// before. The first one stands under the least that there is, and may be empty.
    runs: BTreeMap<ConnRef, Vec<ConnRef>>,
    len: usize,
}

impl Runs {
    /// The runs of some in order.
    pub(super) fn of(conns: Vec<ConnRef>) -> Runs {
        debug_assert!(conns.is_sorted() && conns.len() <= RUN_MAX);
        let len = conns.len();
        Runs { runs: BTreeMap::from([(ConnRef::LEAST, conns)]), len }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All from the run on in which `after` is or would be, in order.
    pub(super) fn from(&self, after: Option<ConnRef>) -> impl Iterator<Item = ConnRef> {
        let first = self.runs.range(..=after.unwrap_or(ConnRef::LEAST)).next_back();
        let first = first.map_or(ConnRef::LEAST, |(&key, _)| key);
        self.runs.range(first..).flat_map(|(_, run)| run.iter().copied())
    }

    pub(super) fn contains(&self, conn: ConnRef) -> bool {
        let run = self.runs.range(..=conn).next_back();
        run.is_some_and(|(_, run)| run.binary_search(&conn).is_ok())
    }

    /// Puts `conn` in; whether it is new.
    pub(super) fn insert(&mut self, conn: ConnRef) -> bool {
        let Some((_, run)) = self.runs.range_mut(..=conn).next_back() else { return false };
        let Err(place) = run.binary_search(&conn) else { return false };
        self.len += 1;
        if run.len() < RUN_MAX {
            run.insert(place, conn);
            return true;
        }
        let mut right = run.split_off(parting(run, place));
        if place <= run.len() && run.len() < RUN_MAX {
            run.insert(place, conn);
        } else {
            right.insert(place - run.len(), conn);
        }
        if let Some(&key) = right.first() {
            self.runs.insert(key, right);
        }
        true
    }

    /// Takes `conn` out; whether it was there.
    pub(super) fn remove(&mut self, conn: ConnRef) -> bool {
        let Some((&key, run)) = self.runs.range_mut(..=conn).next_back() else { return false };
        let Ok(place) = run.binary_search(&conn) else { return false };
        run.remove(place);
        self.len -= 1;
        if 2 * run.len() < run.capacity() {
            run.shrink_to(run.len() + run.len() / 2);
        }
        if run.len() < RUN_MIN {
            self.join(key);
        }
        true
    }

    /// Joins the run under `key` with the one before it or behind it, if there is room.
    fn join(&mut self, key: ConnRef) {
        let len = |run: Option<(&ConnRef, &Vec<ConnRef>)>| run.map(|(&key, run)| (key, run.len()));
        let before = len(self.runs.range(..key).next_back());
        let behind = len(self.runs.range(key..).nth(1));
        let own = self.runs.get(&key).map_or(0, Vec::len);
        let fits = |&(_, len): &(ConnRef, usize)| len + own <= RUN_MAX / 4 * 3;
        let joined = before.filter(fits).map(|(before, _)| (before, key));
        let joined = joined.or_else(|| behind.filter(fits).map(|(behind, _)| (key, behind)));
        if let Some((left, right)) = joined
            && let Some(moved) = self.runs.remove(&right)
            && let Some(run) = self.runs.get_mut(&left)
        {
            run.reserve_exact(moved.len());
            run.extend(moved);
        }
    }
}

/// Where a full run is parted into which one more is to be put at `place`.
fn parting(run: &[ConnRef], place: usize) -> usize {
    let workers = || Some((run.first()?.worker(), run.last()?.worker()));
    match workers() {
        _ if place == run.len() => place,
        Some((first, last)) if first != last => run.partition_point(|conn| conn.worker() < last),
        _ => run.len() / 2,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Bytes of a run, and of its place in a tree whose nodes are half full.
    fn bytes(run: &Vec<ConnRef>) -> usize {
        8 * run.capacity() + 16 + 2 * size_of::<(ConnRef, Vec<ConnRef>)>()
    }

    impl Runs {
        fn bytes(&self) -> usize {
            self.runs.values().map(bytes).sum()
        }
    }

    fn conn(slot: usize) -> ConnRef {
        ConnRef::new(3, slot, 1)
    }

    #[test]
    fn runs_are_what_an_ordered_set_says() {
        let mut random = fastrand::Rng::with_seed(testing::seed());
        let (mut runs, mut model) = (Runs::of(Vec::new()), BTreeSet::new());
        for round in 0..200_000 {
            // It grows for a while, then it shrinks to nothing, again and again.
            let grows = round / 20_000 % 2 == 0;
            let conn = conn(random.usize(..30_000));
            if random.usize(..8) < if grows { 7 } else { 1 } {
                assert_eq!(runs.insert(conn), model.insert(conn));
            } else {
                let near = model.range(conn..).next().copied().unwrap_or(conn);
                assert_eq!(runs.remove(near), model.remove(&near));
            }
            assert_eq!(runs.len(), model.len());
            if round % 1_000 == 999 {
                assert!(runs.from(None).eq(model.iter().copied()));
                let after = conn;
                let rest = runs.from(Some(after)).skip_while(|conn| *conn <= after);
                assert!(rest.eq(model.range(after..).copied().filter(|conn| *conn > after)));
                let most = 19 * model.len() + 2 * (8 * RUN_MAX + 80);
                assert!(runs.bytes() <= most, "{} of {}", runs.bytes(), model.len());
            }
        }
    }

    #[test]
    fn slots_that_are_given_away_in_order_make_full_runs() {
        const CONNS: usize = 100_000;
        let mut runs = Runs::of(Vec::new());
        let conn = |n: usize| ConnRef::new(n % 10, n / 10, 1);
        (0..CONNS).for_each(|n| assert!(runs.insert(conn(n))));
        assert!(runs.bytes() < 9 * CONNS, "{} bytes", runs.bytes());
        (0..CONNS).for_each(|n| assert!(runs.remove(conn(n)) && !runs.remove(conn(n))));
        assert_eq!((runs.len(), runs.runs.len()), (0, 1));
    }
}
