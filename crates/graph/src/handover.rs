//! The store changes hands between two processes that both live: one serves, the other one is to
//! take its place.
//!
//! 1. The successor opens the store *beside* ([`Graph::open_beside`]): LMDB's file is mapped by
//!    both, and LMDB's own lock file tells each of the snapshots that the other one reads. The
//!    successor looks at nothing but the names: the other process has looked at the rest.
//! 2. The owner lets go ([`Graph::let_go`]): what it accepted is on disk, then the directory's lock
//!    is free. It goes on reading, also what the successor stores.
//! 3. The successor takes it ([`Beside::take`]), and what was changed since 1. Or it fails, and the
//!    owner takes it back ([`Graph::take_back`]).
//!
//! Whoever holds the directory's lock writes, and nobody else. In between nobody does: a process
//! that dies leaves a store that the next one opens as after any crash, with all checks.
//!
//! Cost: letting go syncs a file of 100 bytes, taking reads a page; see [`super::catch_up`] for
//! names that changed meanwhile.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use std::{io, process};

use heed::EnvFlags;
use hub::Names;
use thiserror::Error;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;

use super::Graph;
use super::catch_up::{Unmatched, newest, read_state};
use super::error::{OpenError, OpenReason, Unusable};
use super::lock::{DirectoryLock, lock_until, look_until};
use super::map::{data_file, map};
use super::marker::Recorded;
use super::open::{GraphOptions, Store, find_tables, restore_names};
use super::replica_mark::Mark;
use super::write::{Request, WriteChange};

/// How long what is under way may take before the store is let go of.
const LET_GO_WITHIN: Duration = Duration::from_secs(2);

/// How long the one before may take to let go: it may be dying, with much memory to give back.
const TAKE_WITHIN: Duration = Duration::from_secs(2);

/// What the store held when it was let go of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandedOver {
    /// The number of the last commit.
    pub transaction: u64,
    /// Stored pairs.
    pub subscriptions: u64,
    /// One number that stands for all of it.
    pub digest: u64,
}

/// Why a store was not let go of. It is this process's as before.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LetGoError {
    /// The store is a node's copy.
    #[error("the graph here is a node's copy, which its cluster changes; it is not handed over")]
    IsReplica,
    /// A change takes long.
    #[error(
        "the graph is being changed for more than {} s, as when a file is loaded; try again when \
         that is done", LET_GO_WITHIN.as_secs()
    )]
    Busy,
    /// It cannot be relied upon.
    #[error(transparent)]
    Unusable(#[from] Unusable),
}

impl Graph {
    /// Whether the store is this process's: it was not let go of, or is taken back.
    pub fn is_ours(&self) -> bool {
        self.0.store.load().lock.is_held()
    }

    /// Lets another process have the store, once all changes are durable that were accepted before.
    /// Those that come from now on fail with [`super::WriteError::HandedOver`]; look-ups go on.
    /// Called again, it says the same again.
    ///
    /// Waits for 2 s at most, and belongs on a thread that may block.
    pub fn let_go(&self) -> Result<HandedOver, LetGoError> {
        let store = self.0.store.load_full();
        let until = Instant::now() + LET_GO_WITHIN;
        store.usable()?;
        self.finish(until)?;
        let committed = lock_until(&store.committed, until).ok_or(LetGoError::Busy)?;
        let marker = store.marker(*committed);
        // A disk without room for it keeps the one that was there: that only says less.
        let mark = || drop(marker.write(&store.dir));
        if !store.lock.let_go(until, mark) {
            return Err(LetGoError::Busy);
        }
        let (transaction, subscriptions) = (marker.transaction, marker.subscriptions);
        Ok(HandedOver { transaction, subscriptions, digest: marker.digest })
    }

    /// Takes the store back that was let go of, and goes on. An error leaves it as it is: somebody
    /// else has it, and this may be called again.
    ///
    /// Waits for up to 2 s while another process has it, and belongs on a thread that may block.
    pub fn take_back(&self) -> Result<(), OpenError> {
        let store = self.0.store.load_full();
        store.take_over(Vec::new()).map_err(|reason| OpenError { dir: store.dir.clone(), reason })
    }

    /// Calls `write` if the directory is this process's, which it is until that returns: for files
    /// beside the store. It must not change the graph.
    pub fn while_ours<T>(&self, write: impl FnOnce() -> T) -> Option<T> {
        self.store().lock.while_held(write)
    }

    /// Opens the store in `dir` beside the process that has it open, to take it over.
    pub fn open_beside(dir: &Path, options: &GraphOptions) -> Result<Beside, OpenError> {
        match Store::open_beside(dir, options) {
            Ok(store) => Ok(Beside { store, unmatched: Vec::new() }),
            Err(reason) => Err(OpenError { dir: dir.to_owned(), reason }),
        }
    }

    /// Waits until the writer has answered all requests that are in the queue now.
    fn finish(&self, until: Instant) -> Result<(), LetGoError> {
        let queue = self.queue().map_err(|_| LetGoError::IsReplica)?;
        let (reply, mut answer) = oneshot::channel();
        let mut request = Some(Request { change: WriteChange::Add, pairs: Vec::new(), reply });
        let sent = look_until(until, || match queue.try_send(request.take()?) {
            Err(TrySendError::Full(same)) => {
                request = Some(same);
                None
            }
            _ => Some(()),
        });
        sent.ok_or(LetGoError::Busy)?;
        // It ends with an answer of any kind, or with the writer.
        let has_none = |answer| matches!(answer, Err(oneshot::error::TryRecvError::Empty));
        let answered = look_until(until, || (!has_none(answer.try_recv())).then_some(()));
        answered.ok_or(LetGoError::Busy)
    }
}

/// A store that another process has: its names are known, and it is not read yet. Dropped, nothing
/// was.
pub struct Beside {
    store: Store,
    /// As of the last look.
    unmatched: Vec<Unmatched>,
}

impl Beside {
    /// The names of the store as of the last look, and of everybody who is online: those of the
    /// graph that it will be.
    pub fn names(&self) -> &Arc<Names> {
        &self.store.names
    }

    /// Looks what the other process has changed since the last look. Done shortly before
    /// [`Beside::take`], it leaves little to do there.
    pub fn catch_up(&mut self) -> Result<(), OpenError> {
        let store = &self.store;
        let mut known = store.committed.lock().unwrap_or_else(PoisonError::into_inner);
        let looked = store.look_again(&mut known, &mut self.unmatched);
        looked.map_err(|reason| OpenError { dir: store.dir.clone(), reason })
    }

    /// Makes it ours, once the other process has let go of it or is dead, for which it waits up to
    /// 2 s.
    pub fn take(self) -> Result<Graph, OpenError> {
        let Beside { store, unmatched } = self;
        store.installed.store(true, Ordering::SeqCst);
        let taken = store.take_over(unmatched);
        taken.map_err(|reason| OpenError { dir: store.dir.clone(), reason })?;
        Graph::start(store)
    }
}

impl Store {
    /// Opens what another process has open. It has looked through the file, so nobody else need.
    fn open_beside(dir: &Path, options: &GraphOptions) -> Result<Store, OpenReason> {
        let lock = Arc::new(DirectoryLock::beside(dir)?);
        if Mark::is_in(dir) {
            return Err(OpenReason::IsReplica);
        }
        // LMDB would make a file.
        let there = data_file(dir).metadata().is_ok_and(|metadata| metadata.len() > 0);
        if !there {
            return Err(OpenReason::Gone { subscriptions: None });
        }
        let env = map(dir, options.map_bytes, EnvFlags::empty())?;
        // The first look registers this process by its id.
        let tables = find_tables(&env).map_err(|reason| match reason {
            OpenReason::Directory(error) if error.kind() == io::ErrorKind::WouldBlock => {
                OpenReason::SamePid { pid: process::id() }
            }
            other => other,
        })?;
        let (txn, state) = newest(|| env.read_txn(), tables)?;
        let names = Arc::new(restore_names(&txn, tables)?);
        drop(txn);
        Store::new(dir, dir, env, state, Some(names), lock)
    }

    /// Takes the directory's lock, and catches up with what another process did.
    fn take_over(&self, unmatched: Vec<Unmatched>) -> Result<(), OpenReason> {
        let known = self.committed.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lock.is_held() {
            return Ok(());
        }
        self.lock.take_within(TAKE_WITHIN)?;
        let taken = self.is_the_one().and_then(|()| self.catch_up(known, unmatched));
        if taken.is_err() {
            // Its names may not be those that we know, so nothing is to be changed yet.
            self.lock.let_go(Instant::now(), || {});
        }
        taken
    }

    /// Whether the file is the one that the directory's last owner left there.
    fn is_the_one(&self) -> Result<(), OpenReason> {
        self.usable()?;
        // A process that was killed in a commit may have written the newest head, and not have said
        // so to the others. LMDB mends that when the next one begins to write.
        self.env.write_txn()?.abort();
        let txn = self.env.read_txn()?;
        let state = read_state(&txn, self.tables)?;
        Recorded::read(&self.dir)?.admits(Some(self.marker(state)))
    }
}
