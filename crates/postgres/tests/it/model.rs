//! A replica as a set of pairs: it follows by changes alone.

use std::collections::BTreeSet;

use postgres::{Pair, Place, PostgresError, PostgresStore};

pub(crate) struct Replica {
    pub(crate) place: Place,
    pub(crate) pairs: BTreeSet<Pair>,
}

impl Replica {
    pub(crate) async fn bootstrap(store: &PostgresStore) -> Replica {
        let (place, pairs) = crate::support::stored(store).await;
        Replica { place, pairs: pairs.into_iter().collect() }
    }

    /// Applies pages until it is where the graph is. What a change adds was not there, what it
    /// removes was.
    pub(crate) async fn catch_up(&mut self, store: &PostgresStore) -> Result<(), PostgresError> {
        loop {
            let page = store.changes_after(self.place).await?;
            for change in page.changes {
                assert_eq!(change.place.version, self.place.version + 1);
                for pair in &change.removed {
                    assert!(self.pairs.remove(pair), "{pair:?} was not there");
                }
                for pair in change.added {
                    assert!(self.pairs.insert(pair.clone()), "{pair:?} was there");
                }
                self.place = change.place;
            }
            if self.place == page.head {
                return Ok(());
            }
        }
    }

    pub(crate) fn sorted(&self) -> Vec<Pair> {
        self.pairs.iter().cloned().collect()
    }
}
