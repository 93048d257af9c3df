//! Here is what a replica does beside its caller. Once a second the place in the log is stored and
//! the file is synced, so that closing it has little left to write.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::open::Store;
use crate::replica_mark::Mark;
use crate::transaction::Transaction;
use crate::{Graph, Shared};

/// What a close may have to write, and a place in the log that a kill may lose, is of so long.
const INTERVAL: Duration = Duration::from_secs(1);

/// The thread. Dropping it waits for its end.
pub(super) struct Syncing {
    stop: Option<mpsc::SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Syncing {
    pub(super) fn start(graph: &Graph) -> io::Result<Syncing> {
        let (stop, stopped) = mpsc::sync_channel(0);
        let shared = Arc::clone(&graph.0);
        let run = move || run(&shared, &stopped);
        let thread = thread::Builder::new().name("graph-sync".into()).spawn(run)?;
        Ok(Syncing { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Syncing {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was already reported by its own hook.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, stopped: &mpsc::Receiver<()>) {
    let mut synced = 0;
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let store = shared.store.load_full();
        if store.usable().is_err() {
            continue;
        }
        // A disk that is full now may have room in a second.
        let _ = store.store_place();
        let last = store.env.info().last_txn_id;
        if last != synced && store.sync_replica() {
            synced = last;
        }
    }
}

impl Store {
    /// Stores the place that the log has been followed to, if it is not stored yet.
    fn store_place(&self) -> heed::Result<()> {
        if self.follower.place().is_none() {
            return Ok(());
        }
        Transaction::begin(self)?.commit()
    }

    /// Makes all that was committed durable. Pages that a disk has refused may be in the cache now
    /// and gone later, so nobody asks twice, and the next start does not believe the file either.
    fn sync_replica(&self) -> bool {
        if let Err(error) = self.env.force_sync() {
            self.found_damaged(&format!("the disk could not keep it: {error}"));
            let _ = Mark::refused().write(&self.dir);
        }
        self.damage.get().is_none()
    }

    /// Nobody changes it any more.
    pub(super) fn close_replica(&self) {
        let closing = self.installed.load(Ordering::Relaxed) && self.usable().is_ok();
        if !closing || self.store_place().is_err() || !self.sync_replica() {
            return;
        }
        self.mark();
        // Without it the replica is made anew after the machine's next boot.
        let _ = Mark::closed(self.transaction()).write(&self.dir);
    }
}
