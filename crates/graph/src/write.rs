//! Changes: one writer thread, one transaction and one sync for all requests that wait.
//!
//! A caller is answered only when its pairs are on disk. While one commit syncs, further requests
//! gather in the bounded queue and share the next one (group commit), so durable changes a second
//! grow with the number of callers.

use std::io::{self, ErrorKind};

use heed::MdbError;
use tokio::sync::{mpsc, oneshot};

use super::error::{Unusable, WriteError, is_damage};
use super::open::Store;
use super::pair::Pair;
use super::transaction::Transaction;

/// Requests that may wait; further callers wait for a place.
pub(super) const QUEUE_MAX: usize = 1024;

/// A group takes no further request once it has this many pairs: some 0.3 s of work.
const GROUP_PAIRS_MAX: usize = 65_536;

/// Also LMDB's word for a write that took fewer bytes than it was given, as on a disk that fills.
const EIO: i32 = 5;

/// What to do with the pairs of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WriteChange {
    Add,
    Remove,
}

/// Pairs to change, and where the answer goes: how many were changed.
pub(super) struct Request {
    pub(super) change: WriteChange,
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
        let outcome = apply(store, &group);
        let answers = outcome.as_ref().map_or(group.len(), Vec::len);
        debug_assert_eq!(answers, group.len(), "each request has its own answer");
        for (n, request) in group.into_iter().enumerate() {
            let answer = outcome.as_ref().map(|counts| counts[n]).map_err(WriteError::clone);
            // A caller that is gone does not need its answer; what it asked for is done.
            let _ = request.reply.send(answer);
        }
    }
}

fn apply(store: &Store, group: &[Request]) -> Result<Vec<u64>, WriteError> {
    store.usable()?;
    // Another process that had the store open too and was killed must not keep its pages for ever.
    // Without this they are only used later.
    let _ = store.env.clear_stale_readers();
    if group.iter().all(|request| request.pairs.is_empty()) {
        return Ok(vec![0; group.len()]);
    }
    let counts = change(store, group).map_err(|error| store.write_error(error))?;
    // Whoever removed the directory meanwhile removed this with it.
    store.usable()?;
    Ok(counts)
}

fn change(store: &Store, group: &[Request]) -> heed::Result<Vec<u64>> {
    let mut transaction = Transaction::begin(store)?;
    let mut counts = Vec::with_capacity(group.len());
    for request in group {
        let mut count = 0;
        for pair in &request.pairs {
            count += u64::from(match request.change {
                WriteChange::Add => transaction.add(pair.as_text())?.is_some(),
                WriteChange::Remove => transaction.remove(pair.as_text())?.is_some(),
            });
        }
        debug_assert!(count <= request.pairs.len() as u64, "a pair was changed twice");
        counts.push(count);
    }
    transaction.commit()?;
    Ok(counts)
}

impl Store {
    /// What a failed transaction means for the one who asked for it.
    pub(super) fn write_error(&self, error: heed::Error) -> WriteError {
        let read = self.env.read_txn().map(drop);
        if let Err(heed::Error::Mdb(MdbError::Panic)) = read {
            // LMDB could not write the file's head, and has closed itself (MDB_FATAL_ERROR).
            self.found_damaged("the disk failed at the last step of a commit");
            return WriteError::Unknown(error.to_string());
        }
        if let Err(unusable) = self.with_lock_file() {
            return unusable.into();
        }
        if is_damage(&error) {
            let damage = self.damage.get_or_init(|| error.to_string());
            return Unusable::Damaged(damage.clone()).into();
        }
        if !self.lock.is_held() {
            return WriteError::HandedOver;
        }
        match error {
            heed::Error::Mdb(MdbError::MapFull) => WriteError::SizeLimit(self.env.info().map_size),
            heed::Error::Io(error) if is_full(&error) => WriteError::DiskFull(error.to_string()),
            heed::Error::Io(error) if error.raw_os_error() == Some(EIO) => {
                WriteError::DiskFull("a write failed or was cut short".into())
            }
            other => WriteError::Store(other.to_string()),
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    use ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge | ReadOnlyFilesystem)
}
