//! Look-ups. Each is one short read transaction on the caller's thread: a snapshot, which neither
//! waits for the writer nor makes it wait.
//!
//! A thread reads one thing at a time: a visitor must not itself read the graph.

use hub::{Followers, FollowersError, Id, SLICE_MAX};

use super::Graph;
use super::error::ReadError;
use super::lists::Lists;

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
        self.page(self.store().tables.followers, subscribee, after, limit)
    }

    /// Whom `subscriber` follows: at most `limit` ids (at least 1) that stand after `after`.
    pub fn page_following(
        &self,
        subscriber: Id,
        after: Option<Id>,
        limit: usize,
    ) -> Result<Page, ReadError> {
        self.page(self.store().tables.following, subscriber, after, limit)
    }

    /// How many follow `subscribee`. Cost: a millisecond at a million.
    pub fn count_followers(&self, subscribee: Id) -> Result<u64, ReadError> {
        let txn = self.store().env.read_txn()?;
        Ok(self.store().tables.followers.count(&txn, subscribee)?)
    }

    /// How many `subscriber` follows.
    pub fn count_following(&self, subscriber: Id) -> Result<u64, ReadError> {
        let txn = self.store().env.read_txn()?;
        Ok(self.store().tables.following.count(&txn, subscriber)?)
    }

    fn page(
        &self,
        lists: Lists,
        subject: Id,
        after: Option<Id>,
        limit: usize,
    ) -> Result<Page, ReadError> {
        let txn = self.store().env.read_txn()?;
        let mut ids = Vec::new();
        let next = lists.slice(&txn, subject, after, limit.max(1), |id| ids.push(id))?;
        Ok(Page { ids, next })
    }

    fn visit(
        &self,
        lists: Lists,
        subject: Id,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        let txn = self.store().env.read_txn().map_err(ReadError::from)?;
        Ok(lists.slice(&txn, subject, after, SLICE_MAX, visit).map_err(ReadError::from)?)
    }
}

impl Followers for Graph {
    fn slice(
        &self,
        subject: Id,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        self.visit(self.store().tables.followers, subject, after, visit)
    }

    fn slice_of_following(
        &self,
        subscriber: Id,
        after: Option<Id>,
        visit: &mut dyn FnMut(Id),
    ) -> Result<Option<Id>, FollowersError> {
        self.visit(self.store().tables.following, subscriber, after, visit)
    }
}
