//! A log of records on disk, found by key: files and bytes, nothing of what they mean.
//!
//! Records go to one writer thread. All that is queued is one write, and one `fdatasync` answers
//! all who wait. After a write that nobody waited for the writer sleeps for a millisecond, so a
//! busy log is written a thousand times a second and appending wakes nobody. A record is read from
//! the moment it is appended. Segments of a bounded size are dropped oldest first. Each that is
//! full gets an index in a file beside it. So memory holds about a byte for each key in each sealed
//! segment, and a start reads the last segment and small tables. The open segment's index is in
//! memory: up to 64 bytes a record.
//!
//! After a crash the log ends at the first byte that cannot be read behind the last known sync. The
//! torn tail is cut and told. What is behind that sync is written once more before it counts. What
//! cannot be read before it is damage: told, never served, and what follows it counts. A segment
//! that is gone is told as a hole. `src/scan.rs` has the rules.
//!
//! What it does not do: a bit that flips behind the last mark of the segment that was written last
//! is taken for a torn tail (the last sync's mark is written at once and synced with the next). A
//! segment is dropped as a whole, so counts and ages of each key are for the reader to obey. The
//! first segments, once dropped or lost all together, are not missed. A start on a full disk cannot
//! write what was not synced once more: that counts, and a power loss may take it.
//!
//! # Streams of bytes
//!
//! `crates/streams` keeps one file for each Durable Stream and syncs each append by itself. Here an
//! append would be one record. The path and the stream's own number are its key. The data, the
//! producer's sequence and the close are its body, and its answer waits for
//! [`Journal::wait_durable`]. Many streams then share one sync. Three things are missing for it. A
//! stream that is never dropped needs its records copied out of old segments, and an offset within
//! a record needs a place in bytes beside its number. The state of an open stream (tail, closed,
//! producers) has to be found from its last record instead of from its whole file.

mod count;
#[cfg(test)]
mod crash;
mod disk;
#[cfg(test)]
mod faults;
mod format;
mod index;
mod left;
#[cfg(test)]
mod model;
mod offline;
mod queue;
mod read;
mod record;
mod recovery;
mod scan;
mod shared;
#[cfg(test)]
mod sim;
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unreadable;
mod writer;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, RwLock};

use queue::{Queue, Waiter};
use shared::{MetDamage, Shared};
use table::OpenSegment;

pub use disk::{Disk, DiskFile, RealDisk};
pub use left::Bound;
pub use offline::{Report, check, export};
pub use record::{Record, RecordRead};
use recovery::Recovered;
pub use recovery::{Cut, Damage, Found};

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
    /// Bytes of all files; the oldest segments are dropped for it, but for the one that is written.
    pub bytes_max: u64,
    /// Bytes after which a segment is sealed; a fourth of `bytes_max` and 1 GiB at most.
    pub segment_bytes: u64,
    /// When it is synced.
    pub sync: Sync,
}

/// Why a log was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The disk said no, or another process has the log.
    #[error(
        "the log cannot be opened: {0}; look at its disk, owner and mode, or move the log away: \
         another one begins then"
    )]
    Io(io::Error),
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

/// How much one read answers at most, and the time that decides what has expired.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    /// Records at most.
    pub records: usize,
    /// Stops once the records read take that many bytes on disk.
    pub bytes: usize,
    /// Records that expire at this time or before are passed over, in milliseconds since 1970.
    pub now_ms: u64,
}

/// What a read says about the records it gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Nothing of the key above this number was dropped or lost.
    pub from: u64,
    /// Whether there may be more in that direction, also when none was given.
    pub more: bool,
    /// From where the next read goes on: its `above`, or its `below`.
    pub next: u64,
}

impl Config {
    /// A segment's bytes for a log of that many, so that there are some 64 segments.
    pub fn segment_bytes_for(bytes_max: u64) -> u64 {
        (bytes_max / 64).clamp(256 << 10, 256 << 20)
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
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Bytes of all segments and of their indices.
    pub bytes: u64,
    /// Segments.
    pub segments: usize,
    /// Records that are synced, expired ones too.
    pub records: u64,
    /// The smallest number on disk.
    pub first: Option<u64>,
    /// The greatest number on disk.
    pub last: Option<u64>,
    /// Syncs of records since the start.
    pub syncs: u64,
    /// Writes and syncs that failed since the start.
    pub failures: u64,
    /// Bytes that wait to be written.
    pub queued: usize,
    /// Whether the last write or sync failed.
    pub failing: bool,
}

impl Journal {
    /// Opens the log, cuts a torn tail and starts the writer.
    pub fn open(config: Config, disk: Arc<dyn Disk>) -> Result<Opened, OpenError> {
        let lock = disk.lock(&config.dir)?;
        let Recovered { table, found, salt, sequence } = recovery::recover(&config.dir, &*disk)?;
        let last = table.last;
        let open = table.open.as_ref().map(|open| {
            let (bytes, file) = (open.summary.end, Arc::clone(&open.file));
            writer::Open { file, bytes, synced: bytes }
        });
        let shared = Arc::new(Shared {
            config,
            disk,
            queue: Mutex::new(Queue::new(last, salt)),
            wake: Condvar::new(),
            open_bytes: AtomicU64::new(open.as_ref().map_or(0, |open| open.bytes)),
            table: RwLock::new(table),
            reserved: AtomicUsize::new(0),
            written: AtomicU64::new(last),
            durable: AtomicU64::new(last),
            failing: AtomicBool::new(false),
            syncs: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            doomed: Mutex::default(),
            closed: Mutex::new(None),
            met: Mutex::new(MetDamage::beside(&found.damaged)),
            _lock: lock,
        });
        let writer = writer::Writer::new(Arc::clone(&shared), salt, sequence, open);
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
        let wakes = self.shared.queue.lock().append(&record);
        // The writer gives these back once they are written; the rest goes with the room.
        room.bytes -= bytes;
        if wakes {
            self.shared.wake.notify_one();
        }
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
        let waiter = Waiter { number, done: Box::new(done) };
        if self.shared.queue.lock().wait(waiter) {
            self.shared.wake.notify_one();
        }
    }

    /// The records of a key above the number, oldest first, also those that are not written yet.
    pub fn after(
        &self,
        key: &[u8],
        above: u64,
        most: Most,
        out: &mut Vec<RecordRead>,
    ) -> io::Result<Slice> {
        self.shared.read(key, (above, u64::MAX), (most, false), out)
    }

    /// The records of a key below the number, newest first, also those that are not written yet.
    pub fn before(
        &self,
        key: &[u8],
        below: u64,
        most: Most,
        out: &mut Vec<RecordRead>,
    ) -> io::Result<Slice> {
        self.shared.read(key, (0, below), (most, true), out)
    }

    /// The greatest number of a key that can be read, expired or not.
    pub fn last_of(&self, key: &[u8]) -> Option<u64> {
        let mut out = Vec::new();
        let most = Most { records: 1, bytes: usize::MAX, now_ms: 0 };
        self.shared.read(key, (0, u64::MAX), (most, true), &mut out).ok()?;
        out.first().map(|record| record.number)
    }

    /// The number of the newest record of a key that is over the bound, counted from its newest
    /// record back; 0 if none is. Expired and lost records count. It reads one record at most.
    pub fn over(&self, key: &[u8], bound: Bound) -> io::Result<u64> {
        self.shared.over(key, bound)
    }

    /// Drops the oldest segments all of whose records have expired, and those that are over the
    /// bound, but for the last segment. A log that was opened with a smaller bound is over it until
    /// then, or until a record comes.
    pub fn drop_expired(&self, now_ms: u64) -> io::Result<()> {
        self.shared.drop_while(&|table| {
            // What is synced of the open segment: the writer makes room for all else.
            let bytes = |open: &OpenSegment| open.summary.end + open.index_bytes_at_most();
            let open = table.open.as_ref().map_or(0, bytes);
            let is_over = table.sealed_bytes() + open > self.shared.config.bytes_max;
            is_over || table.has_expired(now_ms)
        })
    }

    /// Damage that reads have met since the last call: once of each file that was whole before.
    pub fn take_damage_met(&self) -> Vec<Damage> {
        std::mem::take(&mut self.shared.met.lock().pending)
    }

    /// Figures of the log.
    pub fn stats(&self) -> Stats {
        let shared = &self.shared;
        let table = shared.table.read();
        Stats {
            bytes: table.sealed_bytes() + shared.open_bytes.load(Relaxed),
            segments: table.segments(),
            records: table.records(),
            first: table.first(),
            last: (table.records() > 0).then_some(table.last),
            syncs: shared.syncs.load(Relaxed),
            failures: shared.failures.load(Relaxed),
            queued: shared.reserved.load(Relaxed),
            failing: shared.failing.load(Acquire),
        }
    }

    /// Writes and syncs what is queued and ends the writer; nothing is appended afterwards.
    pub fn close(self) -> io::Result<()> {
        self.thread.close()
    }
}
