//! Changes: one writer thread, one transaction and one sync for all requests that wait.
//!
//! A caller is answered only when its pairs are on disk. While one commit syncs, further requests
//! gather in the bounded queue and share the next one (group commit), so durable changes a second
//! grow with the number of callers. Both directions of a pair, the names and the count change in
//! one transaction.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use heed::{MdbError, RoTxn, RwTxn};
use hub::{Id, IdText, Names, Subscription};
use tokio::sync::{mpsc, oneshot};

use super::block::BlockBuf;
use super::error::WriteError;
use super::lists::Lists;
use super::open::{META_SUBSCRIPTIONS, Store, Tables};
use super::pair::{OwnedId, Pair};

/// Requests that may wait; further callers wait for a place.
pub(super) const QUEUE_MAX: usize = 1024;

/// A group takes no further request once it has this many pairs: some 0.3 s of work.
const GROUP_PAIRS_MAX: usize = 65_536;

/// LMDB's word for a write that took fewer bytes than it was given, as on a disk that fills up.
const EIO: i32 = 5;

/// What to do with the pairs of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Add,
    Remove,
}

/// Pairs to change, and where the answer goes: how many were changed.
pub(super) struct Request {
    pub(super) change: Change,
    pub(super) pairs: Vec<Pair>,
    pub(super) reply: oneshot::Sender<Result<u64, WriteError>>,
}

/// The writer thread: ends when all senders are gone and the queue is empty.
pub(super) fn run(store: &Store, mut queue: mpsc::Receiver<Request>) {
    while let Some(first) = queue.blocking_recv() {
        let mut pairs = first.pairs.len();
        let mut group = vec![first];
        while pairs < GROUP_PAIRS_MAX
            && let Ok(next) = queue.try_recv()
        {
            pairs += next.pairs.len();
            group.push(next);
        }
        let outcome = apply(store, &group).map_err(|error| store.write_error(error));
        for (n, request) in group.into_iter().enumerate() {
            // A caller that is gone does not need its answer; what it asked for is done.
            let _ =
                request.reply.send(outcome.as_ref().map(|counts| counts[n]).map_err(Clone::clone));
        }
    }
}

fn apply(store: &Store, group: &[Request]) -> heed::Result<Vec<u64>> {
    let mut transaction = Transaction::begin(store)?;
    let mut counts = Vec::with_capacity(group.len());
    for request in group {
        let mut count = 0;
        for pair in &request.pairs {
            count += u64::from(match request.change {
                Change::Add => transaction.add(pair)?,
                Change::Remove => transaction.remove(pair)?,
            });
        }
        counts.push(count);
    }
    transaction.commit()?;
    Ok(counts)
}

/// A writing transaction that keeps both directions, the names and the count together.
pub(super) struct Transaction<'s> {
    store: &'s Store,
    pub(super) txn: RwTxn<'s>,
    pins: Pins<'s>,
    subscriptions: u64,
    buffer: BlockBuf,
    /// LMDB lets the next writer in as soon as it has committed; pins and count must be settled too.
    _alone: MutexGuard<'s, ()>,
}

impl<'s> Transaction<'s> {
    /// Waits for the transaction that is under way, if any.
    pub(super) fn begin(store: &'s Store) -> heed::Result<Transaction<'s>> {
        // After a panic under the lock its transaction was undone, so the next one may go on.
        let alone = store.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let txn = store.env.write_txn()?;
        let pins = Pins { names: &store.names, touched: HashMap::new() };
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
    fn add(&mut self, pair: &Pair) -> heed::Result<bool> {
        let subscriber = self.pin(pair.subscriber.as_text())?;
        let subscribee = self.pin(pair.subscribee.as_text())?;
        let new = self.both(Lists::insert, Subscription { subscriber, subscribee })?;
        self.subscriptions += u64::from(new);
        Ok(new)
    }

    /// True when the pair was there.
    fn remove(&mut self, pair: &Pair) -> heed::Result<bool> {
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

    /// The id of `text`, and its name stored with this transaction.
    pub(super) fn pin(&mut self, text: IdText<'_>) -> heed::Result<Id> {
        let id = self.store.names.pin(text);
        if let IdText::Name(name) = text {
            let pin = self.pins.touch(id, self.store, &self.txn)?;
            if !std::mem::replace(&mut pin.stored, true) {
                self.store.tables.names.put(&mut self.txn, &name_key(id), name)?;
            }
        }
        Ok(id)
    }

    /// Drops the name of `id` when no pair refers to it any more.
    fn forget(&mut self, id: Id) -> heed::Result<()> {
        let Tables { followers, following, names, .. } = self.store.tables;
        if id.is_name() && !followers.has(&self.txn, id)? && !following.has(&self.txn, id)? {
            self.pins.touch(id, self.store, &self.txn)?.stored = false;
            names.delete(&mut self.txn, &name_key(id))?;
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
        self.txn.commit()?;
        self.store.subscriptions.store(count, Ordering::Relaxed);
        self.pins.settle();
        Ok(())
    }
}

type ListChange = fn(Lists, &mut RwTxn<'_>, Id, Id, &mut BlockBuf) -> heed::Result<bool>;

fn name_key(id: Id) -> [u8; 8] {
    id.to_bits().to_be_bytes()
}

/// The names that a transaction pinned or let go. Dropped before [`Pins::settle`], the transaction
/// has failed, and names that were not stored before lose their pin again.
struct Pins<'s> {
    names: &'s Names,
    touched: HashMap<Id, Pin>,
}

#[derive(Clone, Copy)]
struct Pin {
    /// Before the transaction.
    was_stored: bool,
    /// As the transaction has it.
    stored: bool,
}

impl Pins<'_> {
    /// How it stands with the name of `id`.
    fn touch(&mut self, id: Id, store: &Store, txn: &RoTxn<'_>) -> heed::Result<&mut Pin> {
        Ok(match self.touched.entry(id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let stored = store.tables.names.get(txn, &name_key(id))?.is_some();
                entry.insert(Pin { was_stored: stored, stored })
            }
        })
    }

    /// The transaction is committed.
    fn settle(mut self) {
        self.unpin(|pin| !pin.stored);
    }

    fn unpin(&mut self, unneeded: impl Fn(Pin) -> bool) {
        for (id, pin) in self.touched.drain() {
            if unneeded(pin) {
                self.names.unpin(id);
            }
        }
    }
}

impl Drop for Pins<'_> {
    fn drop(&mut self) {
        self.unpin(|pin| !pin.was_stored);
    }
}

impl Store {
    /// What a failed transaction means for the one who asked for it.
    pub(super) fn write_error(&self, error: heed::Error) -> WriteError {
        match error {
            heed::Error::Mdb(MdbError::MapFull) => WriteError::SizeLimit(self.env.info().map_size),
            heed::Error::Io(error) if is_full(&error) => WriteError::DiskFull(error.to_string()),
            heed::Error::Io(error) if error.raw_os_error() == Some(EIO) => {
                WriteError::DiskFull("a write was cut short".into())
            }
            other => WriteError::Store(other.to_string()),
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    let full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge];
    full.contains(&error.kind())
}
