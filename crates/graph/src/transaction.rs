//! One change of the store, in which both directions, the names and the count stay together.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use heed::{MdbError, RwTxn};
use hub::{Id, IdText, Subscription};

use super::follower::Moved;
use super::lists::{Lists, Uncommitted};
use super::open::{Store, Tables};
use super::pair::TextPair;
use super::pins::{self, Pins};
use super::replica_state::{LogPlace, ReplicaState};
use super::sum::{self, State, Table};
use super::verify::META_STATE;

/// A writing transaction. Dropped before [`Transaction::commit`], it never was.
pub(super) struct Transaction<'s> {
    store: &'s Store,
    txn: RwTxn<'s>,
    pins: Pins<'s>,
    subscriptions: u64,
    uncommitted: Uncommitted,
    /// What the store is a copy of once this is committed, when it is one.
    pub(super) replica: Option<ReplicaState>,
    /// The part of `replica` that was taken from the store's follower.
    place: Option<LogPlace>,
    /// What changed, while somebody sums up.
    moved: Option<Vec<Moved>>,
    /// LMDB lets the next writer in once it has committed; pins and state must be settled too.
    committed: MutexGuard<'s, State>,
}

impl<'s> Transaction<'s> {
    /// Waits for the transaction that is under way, if any. [`Store::usable`] was asked before.
    pub(super) fn begin(store: &'s Store) -> heed::Result<Transaction<'s>> {
        // After a panic under the lock its transaction was undone, so the next one may go on.
        let committed = store.committed.lock().unwrap_or_else(PoisonError::into_inner);
        Transaction::after(store, committed)
    }

    /// The one after `committed`.
    pub(super) fn after(
        store: &'s Store,
        committed: MutexGuard<'s, State>,
    ) -> heed::Result<Transaction<'s>> {
        if !store.lock.is_held() {
            return Err(io::Error::other("another process has the store").into());
        }
        let txn = store.env.write_txn()?;
        // It has its number from there, and would be written over the newest one.
        store.with_lock_file().map_err(io::Error::other)?;
        // Until it answers, another one does, out of the same dictionary.
        let shared = !store.installed.load(Ordering::Relaxed);
        let pins = Pins::new(&store.names, store.tables.names, shared);
        let subscriptions = committed.subscriptions;
        let uncommitted = Uncommitted::new(committed.sums);
        let place = *store.follower.place();
        let at = |state: ReplicaState| ReplicaState { at: place.unwrap_or(state.at), ..state };
        let replica = committed.replica.map(at);
        let moved = store.follower.moved().as_ref().map(|_| Vec::new());
        Ok(Transaction {
            store,
            txn,
            pins,
            subscriptions,
            uncommitted,
            replica,
            place,
            moved,
            committed,
        })
    }

    /// The pair, when it is new.
    pub(super) fn add(&mut self, pair: TextPair<'_>) -> heed::Result<Option<Subscription>> {
        let (subscriber, subscribee) = (self.pin(pair.subscriber)?, self.pin(pair.subscribee)?);
        let pair = Subscription { subscriber, subscribee };
        let new = self.both(Lists::insert, pair)?;
        self.subscriptions += u64::from(new);
        Ok(new.then_some(pair))
    }

    /// The pair, when it was there.
    pub(super) fn remove(&mut self, pair: TextPair<'_>) -> heed::Result<Option<Subscription>> {
        let id = |text| self.store.names.lookup(text);
        let (subscriber, subscribee) = (id(pair.subscriber), id(pair.subscribee));
        let (Some(subscriber), Some(subscribee)) = (subscriber, subscribee) else {
            return Ok(None);
        };
        let pair = Subscription { subscriber, subscribee };
        let there = self.both(Lists::remove, pair)?;
        if there {
            self.subscriptions -= 1;
            self.forget(subscriber)?;
            self.forget(subscribee)?;
        }
        Ok(there.then_some(pair))
    }

    /// The name of `id`, which somebody holds, will be stored with this transaction.
    pub(super) fn pin_held(&mut self, id: Id) -> heed::Result<()> {
        let name = self.store.names.text(id).expect("a name that is held has a text");
        self.pin(IdText::Name(&name))?;
        Ok(())
    }

    /// The id of `text`, whose name will be stored with this transaction.
    fn pin(&mut self, text: IdText<'_>) -> heed::Result<Id> {
        self.pins.pin(text, &self.txn)
    }

    /// Drops the name of `id` when no pair refers to it any more.
    fn forget(&mut self, id: Id) -> heed::Result<()> {
        let Tables { followers, following, .. } = self.store.tables;
        if id.is_name() && !followers.has(&self.txn, id)? && !following.has(&self.txn, id)? {
            self.pins.forget(id, &self.txn)?;
        }
        Ok(())
    }

    /// Tells those who sum up of a pair that changed.
    pub(super) fn moved(&mut self, moved: Moved) {
        self.moved.iter_mut().for_each(|all| all.push(moved));
    }

    /// Stores a name, which somebody else pins: past [`Pins`], whose other store may need it too.
    pub(super) fn put_name(&mut self, id: Id, name: &str) -> heed::Result<()> {
        let key = pins::key(id);
        self.uncommitted.sums.add(Table::Names, sum::of_name(&key, name.as_bytes()));
        self.store.tables.names.put(&mut self.txn, &key, name)
    }

    /// The name that another process has stored under `stored` has the id that it has here from now
    /// on, in all lists.
    pub(super) fn rename(&mut self, stored: Id, name: &str) -> heed::Result<()> {
        let known = self.pin(IdText::Name(name))?;
        let of = |id| if id == stored { known } else { id };
        for subscriber in self.list(Table::Followers, stored)? {
            let before = Subscription { subscriber, subscribee: stored };
            let after = Subscription { subscriber: of(subscriber), subscribee: known };
            self.replace(before, after)?;
        }
        for subscribee in self.list(Table::Following, stored)? {
            let before = Subscription { subscriber: stored, subscribee };
            self.replace(before, Subscription { subscriber: known, subscribee })?;
        }
        let key = pins::key(stored);
        self.uncommitted.sums.remove(Table::Names, sum::of_name(&key, name.as_bytes()));
        self.store.tables.names.delete(&mut self.txn, &key)?;
        Ok(())
    }

    /// A pair takes another one's place: there are as many as before.
    fn replace(&mut self, before: Subscription, after: Subscription) -> heed::Result<()> {
        let was_there = self.both(Lists::remove, before)?;
        let is_new = self.both(Lists::insert, after)?;
        debug_assert!(was_there && is_new, "{before:?} or {after:?} was counted twice");
        Ok(())
    }

    fn list(&self, table: Table, subject: Id) -> heed::Result<Vec<Id>> {
        let mut ids = Vec::new();
        let lists = self.store.tables.lists(table);
        lists.slice(&self.txn, subject, None, usize::MAX, |id| ids.push(id))?;
        Ok(ids)
    }

    /// Counts subscriptions that were written past [`Transaction::add`].
    pub(super) fn added(&mut self, count: u64) {
        self.subscriptions += count;
    }

    pub(super) fn tables(&self) -> Tables {
        self.store.tables
    }

    /// What writing to the lists takes.
    pub(super) fn parts(&mut self) -> (&mut RwTxn<'s>, &mut Uncommitted) {
        (&mut self.txn, &mut self.uncommitted)
    }

    /// Makes a change in both directions, which must agree.
    fn both(&mut self, change: ListChange, pair: Subscription) -> heed::Result<bool> {
        let Subscription { subscriber, subscribee } = pair;
        let Tables { followers, following, .. } = self.store.tables;
        let (txn, uncommitted) = (&mut self.txn, &mut self.uncommitted);
        let changed = change(followers, txn, subscribee, subscriber, uncommitted)?;
        if changed && !change(following, txn, subscriber, subscribee, uncommitted)? {
            return Err(MdbError::Corrupted.into());
        }
        Ok(changed)
    }

    /// Makes everything durable; names that no pair refers to any more lose their pin.
    pub(super) fn commit(mut self) -> heed::Result<()> {
        let store = self.store;
        self.pins.write(&mut self.txn, &mut self.uncommitted.sums)?;
        let state = State {
            transaction: self.txn.id() as u64,
            subscriptions: self.subscriptions,
            sums: self.uncommitted.sums,
            replica: self.replica,
        };
        debug_assert!(state.transaction > self.committed.transaction, "commits are numbered");
        debug_assert!(
            state.subscriptions > 0
                || state.sums.of(Table::Followers) == 0 && state.sums.of(Table::Following) == 0,
            "no pair is left, and yet some are summed up"
        );
        debug_assert!(state.replica.is_some() || self.committed.replica.is_none());
        let bytes = state.to_bytes(&store.names.key());
        store.tables.meta.put(&mut self.txn, META_STATE, &bytes)?;
        self.txn.commit()?;
        *self.committed = state;
        store.follower.settle(self.place, self.moved.take());
        store.subscriptions.store(state.subscriptions, Ordering::Relaxed);
        self.pins.settle();
        store.level();
        Ok(())
    }
}

type ListChange = fn(Lists, &mut RwTxn<'_>, Id, Id, &mut Uncommitted) -> heed::Result<bool>;
