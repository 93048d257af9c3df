//! One change of the store, in which both directions, the names and the count stay together.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use heed::{MdbError, RwTxn};
use hub::{Id, IdText, Subscription};

use super::lists::{Lists, Uncommitted};
use super::open::{Store, Tables};
use super::pair::{OwnedId, Pair};
use super::pins::Pins;
use super::sum::State;
use super::verify::META_STATE;

/// A writing transaction. Dropped before [`Transaction::commit`], it never was.
pub(super) struct Transaction<'s> {
    store: &'s Store,
    txn: RwTxn<'s>,
    pins: Pins<'s>,
    subscriptions: u64,
    uncommitted: Uncommitted,
    /// LMDB lets the next writer in once it has committed; pins and state must be settled too.
    committed: MutexGuard<'s, State>,
}

impl<'s> Transaction<'s> {
    /// Waits for the transaction that is under way, if any. [`Store::usable`] was asked before.
    pub(super) fn begin(store: &'s Store) -> heed::Result<Transaction<'s>> {
        // After a panic under the lock its transaction was undone, so the next one may go on.
        let committed = store.committed.lock().unwrap_or_else(PoisonError::into_inner);
        let txn = store.env.write_txn()?;
        let pins = Pins::new(&store.names, store.tables.names);
        let subscriptions = committed.subscriptions;
        let uncommitted = Uncommitted::new(committed.sums);
        Ok(Transaction { store, txn, pins, subscriptions, uncommitted, committed })
    }

    /// True when the pair is new.
    pub(super) fn add(&mut self, pair: &Pair) -> heed::Result<bool> {
        let subscriber = self.pin(pair.subscriber.as_text())?;
        let subscribee = self.pin(pair.subscribee.as_text())?;
        let new = self.both(Lists::insert, Subscription { subscriber, subscribee })?;
        self.subscriptions += u64::from(new);
        Ok(new)
    }

    /// True when the pair was there.
    pub(super) fn remove(&mut self, pair: &Pair) -> heed::Result<bool> {
        let id = |owned: &OwnedId| self.store.names.lookup(owned.as_text());
        let (subscriber, subscribee) = (id(&pair.subscriber), id(&pair.subscribee));
        let (Some(subscriber), Some(subscribee)) = (subscriber, subscribee) else {
            return Ok(false);
        };
        let there = self.both(Lists::remove, Subscription { subscriber, subscribee })?;
        if there {
            self.subscriptions -= 1;
            self.forget(subscriber)?;
            self.forget(subscribee)?;
        }
        Ok(there)
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

    /// The same change in both directions, which must agree.
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
        };
        let bytes = state.to_bytes(&store.names.key());
        store.tables.meta.put(&mut self.txn, META_STATE, &bytes)?;
        self.txn.commit()?;
        *self.committed = state;
        store.subscriptions.store(state.subscriptions, Ordering::Relaxed);
        self.pins.settle();
        store.level();
        Ok(())
    }
}

type ListChange = fn(Lists, &mut RwTxn<'_>, Id, Id, &mut Uncommitted) -> heed::Result<bool>;
