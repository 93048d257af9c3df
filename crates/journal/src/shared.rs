//! What the journal's users, its readers and its writer share.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::AcqRel;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use parking_lot::{Condvar, Mutex, RwLock};

use crate::Config;
use crate::disk::Disk;
use crate::format::index_path;
use crate::queue::Queue;
use crate::recovery::Damage;
use crate::table::Table;

/// Offsets in a segment have 32 bits, and its last record may be long.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// Memory orders: each number is stored by the writer alone, after what it speaks of.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) queue: Mutex<Queue>,
    pub(crate) wake: Condvar,
    pub(crate) table: RwLock<Table>,
    pub(crate) reserved: AtomicUsize,
    pub(crate) written: AtomicU64,
    pub(crate) durable: AtomicU64,
    pub(crate) failing: AtomicBool,
    /// Figures alone: bytes of the open segment, syncs, and writes or syncs that failed.
    pub(crate) open_bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) failures: AtomicU64,
    /// Files of dropped segments, oldest first, that are to be removed.
    pub(crate) doomed: Mutex<VecDeque<PathBuf>>,
    pub(crate) closed: Mutex<Option<io::Result<()>>>,
    pub(crate) met: Mutex<MetDamage>,
    pub(crate) _lock: File,
}

/// Damage that reads have met.
#[derive(Default)]
pub(crate) struct MetDamage {
    /// Nobody has asked for it yet.
    pub(crate) pending: Vec<Damage>,
    /// Files of which some was told: no more than were ever damaged.
    files: HashSet<PathBuf>,
}

impl MetDamage {
    /// None yet, beside what was found at the start.
    pub(crate) fn beside(found: &[Damage]) -> MetDamage {
        let files = found.iter().map(|damage| damage.file.clone()).collect();
        MetDamage { pending: Vec::new(), files }
    }
}

impl Shared {
    pub(crate) fn release(&self, bytes: usize) {
        self.reserved.fetch_sub(bytes, AcqRel);
    }

    /// Some records of the file between these numbers cannot be read. That is told of each file
    /// once: every read may meet it again.
    pub(crate) fn meet(&self, file: &Path, (after, before): (u64, u64)) {
        let mut met = self.met.lock();
        if !met.files.contains(file) {
            met.files.insert(file.to_owned());
            met.pending.push(Damage { file: file.to_owned(), after, before });
        }
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        let config = &self.config;
        config.segment_bytes.min(config.bytes_max / 4).min(SEGMENT_BYTES_MAX)
    }

    /// Drops the oldest segments while they and that many bytes are over the bound.
    pub(crate) fn drop_over(&self, open: u64) {
        let over = |table: &Table| table.sealed_bytes() + open > self.config.bytes_max;
        if over(&self.table.read()) {
            // A file that stays is removed with the next one, or at the next start.
            let _ = self.drop_while(&|table| over(table));
        }
    }

    /// Forgets the oldest segments, then removes their files, with nothing locked that is read.
    pub(crate) fn drop_while(&self, wanted: &dyn Fn(&Table) -> bool) -> io::Result<()> {
        let mut dropped = Vec::new();
        let mut table = self.table.write();
        while wanted(&table) {
            let Some(oldest) = table.drop_oldest() else { break };
            dropped.push(oldest);
        }
        drop(table);
        let mut doomed = self.doomed.lock();
        doomed.extend(dropped.iter().map(|segment| segment.path.clone()));
        let any = !doomed.is_empty();
        // In order: one that is gone before an older one would be a hole.
        while let Some(path) = doomed.front() {
            let _ = self.disk.remove(&index_path(path));
            match self.disk.remove(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => drop(doomed.pop_front()),
            }
        }
        if any { self.disk.sync_dir(&self.config.dir) } else { Ok(()) }
    }
}
