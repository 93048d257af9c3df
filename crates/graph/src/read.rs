//! Look-ups. Each is one short read transaction on the caller's thread: a snapshot, which neither
//! waits for the writer nor makes it wait.
//!
//! A thread reads one thing at a time: a visitor must not itself read the graph.

use heed::RoTxn;
use hub::{Followers, FollowersError, Id, SLICE_MAX};

use super::Graph;
use super::error::ReadError;
use super::open::Store;
use super::sum::Table;

/// Some ids of a list, and where to go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// Ascending by their bits: integers by value, then names in an order of their own.
    pub ids: Vec<Id>,
    /// What to give as `after` for the next page; `None` when this is the last one.
    pub next: Option<Id>,
}

impl Graph {
    /// Who follows `subscribee`: at most `limit` ids (at least 1) that stand after `after`.
    pub fn page_followers(
        &self,
        subscribee: Id,
        after: Option<Id>,
        limit: usize,
    ) -> Result<Page, ReadError> {
        self.page(Table::Followers, subscribee, after, limit)
    }

    /// Whom `subscriber` follows: at most `limit` ids (at least 1) that stand after `after`.
    pub fn page_following(
        &self,
        subscriber: Id,
        after: Option<Id>,
        limit: usize,
    ) -> Result<Page, ReadError> {
        self.page(Table::Following, subscriber, after, limit)
    }

    fn page(
        &self,
        table: Table,
        subject: Id,
        after: Option<Id>,
        limit: usize,
    ) -> Result<Page, ReadError> {
        let mut ids = Vec::new();
        let read = |store: &Store, txn: &RoTxn<'_>| {
            let lists = store.tables.lists(table);
            lists.slice(txn, subject, after, limit.max(1), |id| ids.push(id))
        };
        let next = self.store().read(read)?;
        debug_assert!(ids.len() <= limit.max(1));
        debug_assert!(next.is_none() || next == ids.last().copied(), "ids would be left out");
        Ok(Page { ids, next })
    }

    fn visit(
        &self,
        table: Table,
        subject: Id,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        let read = |store: &Store, txn: &RoTxn<'_>| {
            store.tables.lists(table).slice(txn, subject, after, SLICE_MAX, visit)
        };
        Ok(self.store().read(read)?)
    }
}

impl Store {
    /// Calls `look` with a snapshot, and believes it only when the file could be read.
    pub(super) fn read<T>(
        &self,
        look: impl FnOnce(&Store, &RoTxn<'_>) -> heed::Result<T>,
    ) -> Result<T, ReadError> {
        let found = self.env.read_txn().and_then(|txn| look(self, &txn));
        let found = found.map_err(|error| self.read_error(error))?;
        self.readable()?;
        Ok(found)
    }
}

impl Followers for Graph {
    fn slice(
        &self,
        subject: Id,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        self.visit(Table::Followers, subject, after, visit)
    }

    fn slice_of_following(
        &self,
        subscriber: Id,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        self.visit(Table::Following, subscriber, after, visit)
    }
}
