//! One change of the store, in which both directions, the names and the count stay together.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use heed::{MdbError, RwTxn};
use hub::{Id, IdText, Subscription};

use super::block::BlockBuf;
use super::lists::Lists;
use super::open::{META_SUBSCRIPTIONS, Store, Tables, level};
use super::pair::{OwnedId, Pair};
use super::pins::Pins;

/// A writing transaction. Dropped before [`Transaction::commit`], it never was.
pub(super) struct Transaction<'s> {
    store: &'s Store,
    pub(super) txn: RwTxn<'s>,
    pins: Pins<'s>,
    subscriptions: u64,
    buffer: BlockBuf,
    /// LMDB lets the next writer in once it has committed; pins and count must be settled too.
    _alone: MutexGuard<'s, ()>,
}

impl<'s> Transaction<'s> {
    /// Waits for the transaction that is under way, if any.
    pub(super) fn begin(store: &'s Store) -> heed::Result<Transaction<'s>> {
        // After a panic under the lock its transaction was undone, so the next one may go on.
        let alone = store.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let txn = store.env.write_txn()?;
        let pins = Pins::new(&store.names, store.tables.names);
        let subscriptions = store.subscriptions.load(Ordering::Relaxed);
        Ok(Transaction {
            store,
            txn,
            pins,
            subscriptions,
            buffer: BlockBuf::default(),
            _alone: alone,
        })
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

    /// The id of `text`, whose name will be stored with this transaction.
    pub(super) fn pin(&mut self, text: IdText<'_>) -> heed::Result<Id> {
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

    /// The same change in both directions, which must agree.
    fn both(&mut self, change: ListChange, pair: Subscription) -> heed::Result<bool> {
        let Subscription { subscriber, subscribee } = pair;
        let Tables { followers, following, .. } = self.store.tables;
        let (txn, buffer) = (&mut self.txn, &mut self.buffer);
        let changed = change(followers, txn, subscribee, subscriber, buffer)?;
        if changed && !change(following, txn, subscriber, subscribee, buffer)? {
            return Err(MdbError::Corrupted.into());
        }
        Ok(changed)
    }

    /// Makes everything durable; names that no pair refers to any more lose their pin.
    pub(super) fn commit(mut self) -> heed::Result<()> {
        let count = self.subscriptions;
        self.store.tables.meta.put(&mut self.txn, META_SUBSCRIPTIONS, &count.to_le_bytes())?;
        self.pins.write(&mut self.txn)?;
        self.txn.commit()?;
        self.store.subscriptions.store(count, Ordering::Relaxed);
        self.pins.settle();
        // The change is durable, whether this works or not.
        let _ = level(&self.store.env);
        Ok(())
    }
}

type ListChange = fn(Lists, &mut RwTxn<'_>, Id, Id, &mut BlockBuf) -> heed::Result<bool>;
