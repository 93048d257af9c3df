//! The friends graph: who hears what is sent about whom, stored in LMDB.
//!
//! A subscription is a pair (subscriber, subscribee), kept in both directions. Reading happens in
//! place in the page cache, on any thread, without waiting ([`hub::Followers`], pages, counts).
//! Changes go through one writer thread and are answered when they are durable. A file of pairs is
//! loaded in bulk, in one transaction.
//!
//! The store is its own record ([`Graph::open`]), or a copy that follows a log of changes
//! ([`replica::Replica::open`]).
//!
//! It does not know who is online, and it keeps no history. A slow disk costs its callers time,
//! never the connected users.
//!
//! Cost: about 1 µs for 15 followers, some 0.3 ms for a durable change alone, 20 bytes on disk per
//! subscription of a typical graph. Figures: `cargo bench -p graph --bench graph`.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod acquired_names;
mod backup;
mod block;
mod bulk;
mod catch_up;
mod check;
mod degrees;
mod edge_list;
mod error;
mod follower;
mod handover;
mod health;
mod key;
mod lists;
mod lock;
mod map;
mod marker;
mod open;
mod pages;
mod pair;
mod pins;
mod read;
mod read_only;
pub mod replica;
mod replica_mark;
mod replica_state;
mod row;
mod stats;
mod sum;
mod transaction;
mod verify;
mod write;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use arc_swap::{ArcSwap, Guard};
use hub::Names;
use tokio::sync::{mpsc, oneshot};

pub use backup::{Backup, BackupError, ExportError, RestoreError, check_backup, restore};
pub use bulk::{LoadError, LoadOptions, LoadReport, Phase, Progress};
pub use check::{Check, check};
pub use degrees::{Degrees, PowerLaw};
pub use edge_list::{Line, LineError, Malformed, for_each_line};
pub use error::{OpenError, OpenReason, ReadError, Unusable, WriteError};
pub use handover::{Beside, HandedOver, LetGoError};
pub use open::GraphOptions;
pub use pair::{OwnedId, Pair};
pub use read::Page;
pub use stats::Stats;
pub use verify::FORMAT;

use open::Store;
use write::{QUEUE_MAX, Request, WriteChange};

/// An open store. Clones share it; when the last one is dropped, requests that were accepted are
/// finished, the file is closed and the directory is free for another process.
#[derive(Clone)]
pub struct Graph(Arc<Shared>);

struct Shared {
    /// `None` in a replica, and while being dropped.
    queue: Option<mpsc::Sender<Request>>,
    writer: Option<JoinHandle<()>>,
    /// One table for all stores that ever stand below: ids that others hold stay what they are.
    names: Arc<Names>,
    /// A replica that is rebuilt gets another one, while look-ups go on in the one before.
    store: ArcSwap<Store>,
}

impl Graph {
    /// Opens the store in `dir`, and makes both when they are not there yet.
    pub fn open(dir: &Path, options: &GraphOptions) -> Result<Graph, OpenError> {
        Graph::start(Store::open(dir, options)?)
    }

    /// Starts the writer of a store that is ours.
    fn start(store: Store) -> Result<Graph, OpenError> {
        let store = Arc::new(store);
        let (queue, requests) = mpsc::channel(QUEUE_MAX);
        let writing = Arc::clone(&store);
        let writer = thread::Builder::new()
            .name("graph-writer".into())
            .spawn(move || write::run(&writing, requests))
            .map_err(|error| OpenError {
                dir: store.dir.clone(),
                reason: OpenReason::Thread(error),
            })?;
        Ok(Graph::new(store, Some(queue), Some(writer)))
    }

    fn new(
        store: Arc<Store>,
        queue: Option<mpsc::Sender<Request>>,
        writer: Option<JoinHandle<()>>,
    ) -> Graph {
        let names = Arc::clone(&store.names);
        Graph(Arc::new(Shared { queue, writer, names, store: ArcSwap::new(store) }))
    }

    /// The names of the store, and of everybody who is online.
    pub fn names(&self) -> &Arc<Names> {
        &self.0.names
    }

    /// How many subscriptions are stored.
    pub fn subscriptions(&self) -> u64 {
        self.store().subscriptions.load(Ordering::Relaxed)
    }

    /// Whether changes can be kept: the directory is still there, and nothing was found damaged.
    pub fn usable(&self) -> Result<(), Unusable> {
        self.store().usable()
    }

    /// Bytes of the store's file.
    pub fn disk_bytes(&self) -> Result<u64, ReadError> {
        Ok(self.store().env.real_disk_size()?)
    }

    /// Stores `pairs`; answers how many were new, once they are durable.
    ///
    /// Waits while the queue is full. A caller that stops waiting may have its pairs stored or not.
    pub async fn add(&self, pairs: Vec<Pair>) -> Result<u64, WriteError> {
        self.change(WriteChange::Add, pairs).await
    }

    /// Removes `pairs`; answers how many were there, once that is durable.
    pub async fn remove(&self, pairs: Vec<Pair>) -> Result<u64, WriteError> {
        self.change(WriteChange::Remove, pairs).await
    }

    /// [`Graph::add`] for a thread without an async runtime.
    pub fn add_blocking(&self, pairs: Vec<Pair>) -> Result<u64, WriteError> {
        self.change_blocking(WriteChange::Add, pairs)
    }

    /// [`Graph::remove`] for a thread without an async runtime.
    pub fn remove_blocking(&self, pairs: Vec<Pair>) -> Result<u64, WriteError> {
        self.change_blocking(WriteChange::Remove, pairs)
    }

    async fn change(&self, change: WriteChange, pairs: Vec<Pair>) -> Result<u64, WriteError> {
        let (reply, answer) = oneshot::channel();
        let request = Request { change, pairs, reply };
        self.queue()?.send(request).await.map_err(|_| WriteError::Stopped)?;
        answer.await.map_err(|_| WriteError::Stopped)?
    }

    fn change_blocking(&self, change: WriteChange, pairs: Vec<Pair>) -> Result<u64, WriteError> {
        let (reply, answer) = oneshot::channel();
        let request = Request { change, pairs, reply };
        self.queue()?.blocking_send(request).map_err(|_| WriteError::Stopped)?;
        answer.blocking_recv().map_err(|_| WriteError::Stopped)?
    }

    fn queue(&self) -> Result<&mpsc::Sender<Request>, WriteError> {
        self.0.queue.as_ref().ok_or(WriteError::IsReplica)
    }

    /// The store as of now. Whoever reads more than once keeps it: a replica may be swapped.
    fn store(&self) -> Guard<Arc<Store>> {
        self.0.store.load()
    }

    /// The store, when its pairs are changed here.
    fn own_record(&self) -> Result<Guard<Arc<Store>>, WriteError> {
        self.queue().map(|_| self.store())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(writer) = self.writer.take() {
            // A panic there was already reported by its own hook; the store is closed all the same.
            let _ = writer.join();
        }
    }
}

#[cfg(test)]
mod tests;
