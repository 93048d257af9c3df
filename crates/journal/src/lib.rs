//! A log of records on disk, found by key: files and bytes, nothing of what they mean.
//!
//! Records go to one writer thread; all that is queued is one write, and one `fdatasync` answers
//! all who wait. Segments of a bounded size are dropped oldest first. At the start all segments
//! are read once, and the place of each record is kept in memory, about 32 bytes for each of its
//! keys: the start and the memory grow with what is kept. A torn tail is cut and told; records
//! behind damage in an older segment are told and not served.
//!
//! What it does not do yet:
//! - Sealed segments have no index: a start reads all files, and memory grows with the records.
//! - A damaged record in the last segment is taken for a torn tail: what follows it is cut.
//! - A segment whose file is gone is not noticed: a header does not say what came before it.
//! - A removed file is dropped with the table locked, and its name is not synced: readers wait for
//!   a slow disk there.
//! - A page of [`Journal::before`] whose records have all expired does not say where to go on.
//!
//! # Streams of bytes
//!
//! `crates/streams` keeps one file for each Durable Stream and syncs each append by itself. Here an
//! append would be one record: the path and the stream's own number are its key, the data, the
//! producer's sequence and the close are its body, and its answer waits for
//! [`Journal::wait_durable`]. Many streams then share one sync. Three things are missing for it:
//! a stream that is never dropped needs its records copied out of old segments, an offset within a
//! record needs a place in bytes beside its number, and the state of an open stream (tail, closed,
//! producers) has to be found from its last record instead of from its whole file.

#[cfg(test)]
mod crash;
mod disk;
mod record;
mod recovery;
#[cfg(test)]
mod sim;
mod table;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::{Condvar, Mutex, RwLock};

pub use disk::{Disk, DiskFile, RealDisk};
pub use record::{Record, RecordRead};
pub use recovery::{Cut, Damage, Found};
pub use table::{Most, Slice};

/// Bytes that may wait for the writer.
const QUEUE_BYTES_MAX: usize = 8 << 20;

/// When what is written is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// When somebody waits for it, and at most a second later when records go on coming.
    Group,
    /// After each group.
    Always,
}

/// Where and how much.
#[derive(Clone, Debug)]
pub struct Config {
    /// The directory, made if absent.
    pub dir: PathBuf,
    /// Bytes of all segments; over it the oldest is dropped, but for the one that is written.
    pub bytes_max: u64,
    /// Bytes after which a segment is sealed.
    pub segment_bytes: u64,
    /// When it is synced.
    pub sync: Sync,
}

/// Why a log was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The disk said no, or another process has the log.
    #[error("the log cannot be opened: {0}")]
    Io(#[from] io::Error),
    /// A newer program wrote it.
    #[error(
        "{} was written by a newer version; start that one, or move the log away",
        file.display()
    )]
    Format {
        /// The segment.
        file: PathBuf,
    },
}

/// Why there is no room for a record now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// Too much waits for the writer; try again.
    #[error("too many bytes wait for the log's writer")]
    Queue,
    /// The disk is full or fails; the writer tries again each second.
    #[error("the log's disk is full or fails")]
    Disk,
}

/// The disk failed while a record was waited for: it may be on disk later, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log's disk failed")]
pub struct Failed;

pub(crate) struct Waiter {
    pub(crate) number: u64,
    pub(crate) done: Box<dyn FnOnce(Result<(), Failed>) + Send>,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) bytes: Vec<u8>,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) last: u64,
    pub(crate) closing: bool,
}

/// Memory orders: each number is stored by the writer alone, after what it speaks of.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) queue: Mutex<Queue>,
    pub(crate) wake: Condvar,
    pub(crate) table: RwLock<table::Table>,
    pub(crate) reserved: AtomicUsize,
    pub(crate) written: AtomicU64,
    pub(crate) durable: AtomicU64,
    pub(crate) failing: AtomicBool,
    pub(crate) closed: Mutex<Option<io::Result<()>>>,
    _lock: File,
}

impl Shared {
    pub(crate) fn release(&self, bytes: usize) {
        self.reserved.fetch_sub(bytes, AcqRel);
    }

    /// Drops the oldest segments while all are over the bound.
    pub(crate) fn drop_over(&self) {
        let mut table = self.table.write();
        while table.segments.len() > 1 && table.bytes() > self.config.bytes_max {
            let Some(path) = table.drop_oldest() else { break };
            // A file that stays is dropped at the next start again.
            let _ = self.disk.remove(&path);
        }
    }
}

/// Room for one record in the queue; given back when it is dropped unused.
pub struct Room {
    shared: Arc<Shared>,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.shared.release(self.bytes);
    }
}

/// Closes the log when the last of the journal's clones goes.
struct Thread {
    shared: Arc<Shared>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Thread {
    fn close(&self) -> io::Result<()> {
        self.shared.queue.lock().closing = true;
        self.shared.wake.notify_all();
        if let Some(handle) = self.handle.lock().take() {
            handle.join().map_err(|_| io::Error::other("the log's writer panicked"))?;
        }
        self.shared.closed.lock().take().unwrap_or(Ok(()))
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // Best effort: who wants to know closes.
        let _ = self.close();
    }
}

/// An open log.
#[derive(Clone)]
pub struct Journal {
    shared: Arc<Shared>,
    thread: Arc<Thread>,
}

/// An opened log and what was in it.
pub struct Opened {
    /// The log.
    pub journal: Journal,
    /// What was in it.
    pub found: Found,
}

/// Figures of the log.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// Bytes of all segments.
    pub bytes: u64,
    /// Segments.
    pub segments: usize,
    /// Whether the last write or sync failed.
    pub failing: bool,
}

impl Journal {
    /// Opens the log, cuts a torn tail and starts the writer.
    pub fn open(config: Config, disk: Arc<dyn Disk>) -> Result<Opened, OpenError> {
        let lock = disk.lock(&config.dir)?;
        let (table, found) = recovery::recover(&config.dir, &*disk)?;
        let last = found.last.unwrap_or(0);
        let sequence = table.segments.keys().next_back().copied().unwrap_or(0);
        let shared = Arc::new(Shared {
            config,
            disk,
            queue: Mutex::new(Queue { last, ..Queue::default() }),
            wake: Condvar::new(),
            table: RwLock::new(table),
            reserved: AtomicUsize::new(0),
            written: AtomicU64::new(last),
            durable: AtomicU64::new(last),
            failing: AtomicBool::new(false),
            closed: Mutex::new(None),
            _lock: lock,
        });
        // Each start begins a segment of its own: what was found is never written to again.
        let writer = writer::Writer {
            shared: Arc::clone(&shared),
            sequence,
            open: None,
            unsynced: Vec::new(),
            written: 0,
            waiters: Vec::new(),
            synced_at: Instant::now(),
        };
        let handle = std::thread::Builder::new().name("journal".into()).spawn(|| writer.run())?;
        let handle = Mutex::new(Some(handle));
        let thread = Arc::new(Thread { shared: Arc::clone(&shared), handle });
        Ok(Opened { journal: Journal { shared, thread }, found })
    }

    /// Room for a record of that many bytes (`Record::bytes`); never blocks.
    pub fn reserve(&self, bytes: usize) -> Result<Room, NoRoom> {
        if self.shared.failing.load(Acquire) {
            return Err(NoRoom::Disk);
        }
        let fits = |now: usize| now.checked_add(bytes).filter(|sum| *sum <= QUEUE_BYTES_MAX);
        match self.shared.reserved.fetch_update(AcqRel, Relaxed, fits) {
            Ok(_) => Ok(Room { shared: Arc::clone(&self.shared), bytes }),
            Err(_) => Err(NoRoom::Queue),
        }
    }

    /// Queues a record; it waits for no disk. Its number must be above all before.
    pub fn append(&self, mut room: Room, record: Record<'_>) {
        let bytes = record.bytes();
        assert!(bytes <= room.bytes, "a record fits into the room reserved for it");
        let mut queue = self.shared.queue.lock();
        assert!(record.number > queue.last, "numbers ascend");
        queue.last = record.number;
        record.encode(&mut queue.bytes);
        drop(queue);
        // The writer gives these back once they are written; the rest goes with the room.
        room.bytes -= bytes;
        self.shared.wake.notify_one();
    }

    /// All up to this number is on disk.
    pub fn durable(&self) -> u64 {
        self.shared.durable.load(Acquire)
    }

    /// All up to this number is with the kernel.
    pub fn written(&self) -> u64 {
        self.shared.written.load(Acquire)
    }

    /// Asks for a sync; the writer calls once all up to the number is on disk, or has failed.
    pub fn wait_durable(
        &self,
        number: u64,
        done: impl FnOnce(Result<(), Failed>) + Send + 'static,
    ) {
        self.shared.queue.lock().waiters.push(Waiter { number, done: Box::new(done) });
        self.shared.wake.notify_one();
    }

    /// The records of a key above the number, oldest first.
    pub fn after(
        &self,
        key: &[u8],
        above: u64,
        most: Most,
        out: &mut Vec<RecordRead>,
    ) -> io::Result<Slice> {
        self.read(key, (above, u64::MAX), (most, false), out)
    }

    /// The records of a key below the number, newest first.
    pub fn before(
        &self,
        key: &[u8],
        below: u64,
        most: Most,
        out: &mut Vec<RecordRead>,
    ) -> io::Result<Slice> {
        self.read(key, (0, below), (most, true), out)
    }

    fn read(
        &self,
        key: &[u8],
        between: (u64, u64),
        (most, newest_first): (Most, bool),
        out: &mut Vec<RecordRead>,
    ) -> io::Result<Slice> {
        let table = self.shared.table.read();
        let mut from = table.floor;
        let places = table.places(key, between, most.records.saturating_add(1), newest_first);
        drop(table);
        let mut bytes = 0;
        for (at, (place, file)) in places.iter().enumerate() {
            if at == most.records || bytes >= most.bytes {
                return Ok(Slice { from, more: true });
            }
            bytes += place.bytes as usize;
            match table::read(place, &**file)? {
                Some(record) if record.expires_ms > most.now_ms => out.push(record),
                Some(record) => from = from.max(record.number),
                None => from = from.max(place.number),
            }
        }
        Ok(Slice { from, more: false })
    }

    /// The greatest number of a key, expired or not.
    pub fn last_of(&self, key: &[u8]) -> Option<u64> {
        self.shared.table.read().last_of(key)
    }

    /// Drops the oldest segments all of whose records have expired, but for the last segment.
    pub fn drop_expired(&self, now_ms: u64) -> io::Result<()> {
        let mut table = self.shared.table.write();
        while table.segments.len() > 1
            && table.segments.values().next().is_some_and(|oldest| oldest.expires_ms <= now_ms)
        {
            let Some(path) = table.drop_oldest() else { break };
            self.shared.disk.remove(&path)?;
        }
        Ok(())
    }

    /// Figures of the log.
    pub fn stats(&self) -> Stats {
        let table = self.shared.table.read();
        let failing = self.shared.failing.load(Acquire);
        Stats { bytes: table.bytes(), segments: table.segments.len(), failing }
    }

    /// Writes and syncs what is queued and ends the writer; nothing is appended afterwards.
    pub fn close(self) -> io::Result<()> {
        self.thread.close()
    }
}
