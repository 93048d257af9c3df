//! The one thread that writes: all that is queued is one write, and one sync covers all writes.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use crate::disk::DiskFile;
use crate::format::{HEADER, Header, MARK, index_path, mark, name};
use crate::index::{Summary, bytes_at_most};
use crate::queue::{Chunk, Waiter, WriterState};
use crate::record::{hash, parse};
use crate::shared::Shared;
use crate::table::OpenSegment;
use crate::{Failed, Sync};

const SYNC_EVERY: Duration = Duration::from_secs(1);
/// How long the writer lets records gather after a write, unless somebody waits for the disk. At
/// 10,000 records a second ten of them share a write and its two switches of threads.
const SHORT_SLEEP: Duration = Duration::from_millis(1);
/// What is kept in memory until it is synced, so that it can be written again: beyond it, a sync.
const UNSYNCED_BYTES_MAX: u64 = 4 << 20;
/// Records that go into the table at once: readers wait as long.
const INSERT_AT_ONCE: usize = 512;

pub(crate) struct Writer {
    shared: Arc<Shared>,
    salt: u32,
    sequence: u32,
    open: Option<Open>,
    /// What is not synced, in order.
    unsynced: Vec<Chunk>,
    /// Up to there the chunks are with the kernel, and on disk.
    written: u64,
    synced: u64,
    /// The records between these two.
    placed: Vec<Placed>,
    hashes: Vec<u32>,
    waiters: Vec<Waiter>,
    synced_at: Instant,
    /// A sync has ended and no mark says so yet.
    mark_due: bool,
    /// Something was written since the last short sleep, and more may come at once.
    has_written: bool,
}

pub(crate) struct Open {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) bytes: u64,
    pub(crate) synced: u64,
}

/// A record that is written and not synced.
pub(crate) struct Placed {
    number: u64,
    offset: u32,
    expires_ms: u64,
    weight: u32,
    keys: usize,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, salt: u32, sequence: u32, open: Option<Open>) -> Writer {
        Writer {
            shared,
            salt,
            sequence,
            // What is in it was synced at the start.
            mark_due: open.is_some(),
            open,
            unsynced: Vec::new(),
            written: 0,
            synced: 0,
            placed: Vec::new(),
            hashes: Vec::new(),
            waiters: Vec::new(),
            synced_at: Instant::now(),
            has_written: false,
        }
    }

    pub(crate) fn run(mut self) {
        loop {
            if self.mark_due && self.shared.queue.lock().is_idle() {
                // Best effort: without it, damage before it is taken for a torn tail.
                let _ = self.mark();
            }
            let (closing, due) = self.take();
            let result = self.turn(due);
            self.shared.failing.store(result.is_err(), Release);
            if result.is_err() {
                self.fail();
            }
            let durable = self.shared.durable.load(Acquire);
            let (done, wait) = self.waiters.drain(..).partition(|waiter| waiter.number <= durable);
            self.waiters = wait;
            answer(done, Ok(()));
            if closing {
                answer(self.waiters.drain(..).collect(), Err(Failed));
                *self.shared.closed.lock() = Some(result);
                return;
            }
        }
    }

    /// Waits for work and takes it; whether the journal is being closed and whether to sync.
    fn take(&mut self) -> (bool, bool) {
        let shared = Arc::clone(&self.shared);
        let mut queue = shared.queue.lock();
        if std::mem::take(&mut self.has_written) && queue.waiters.is_empty() && !queue.closing {
            // What ends it early has set the state.
            queue.writer = WriterState::ShortSleep;
            let until = Instant::now() + SHORT_SLEEP;
            while queue.writer == WriterState::ShortSleep
                && !queue.closing
                && !shared.wake.wait_until(&mut queue, until).timed_out()
            {}
        }
        // What failed is tried again at once: it has paused.
        if queue.is_idle() && !shared.failing.load(Relaxed) {
            queue.writer = WriterState::Waits;
            match self.unsynced.is_empty() {
                true => shared.wake.wait(&mut queue),
                false => drop(shared.wake.wait_for(&mut queue, SYNC_EVERY)),
            }
        }
        queue.writer = WriterState::Works;
        self.waiters.append(&mut queue.waiters);
        let durable = self.shared.durable.load(Acquire);
        let last = queue.last;
        let asked = self.waiters.iter().any(|w| w.number > durable && w.number <= last);
        let due = asked
            || queue.closing
            || self.shared.config.sync == Sync::Always
            || self.written - self.synced > UNSYNCED_BYTES_MAX
            || self.synced_at.elapsed() >= SYNC_EVERY;
        self.unsynced.extend(queue.take(due));
        (queue.closing, due)
    }

    fn turn(&mut self, due: bool) -> io::Result<()> {
        // Those before are with the kernel already; a sync on the way may take them away.
        let first = self.unsynced.partition_point(|chunk| chunk.end() <= self.written);
        let unwritten = self.unsynced[first..].to_vec();
        for chunk in &unwritten {
            while self.written < chunk.end() {
                self.write(chunk)?;
            }
            self.has_written = self.shared.config.sync == Sync::Group;
        }
        if due && !self.unsynced.is_empty() {
            self.sync()?;
            debug_assert!(self.unsynced.is_empty(), "a sync in its turn covers all");
            let forgotten = self.shared.queue.lock().forget_frozen();
            drop(forgotten);
        }
        Ok(())
    }

    /// Writes of a chunk what the segment has space for, and at least one record.
    fn write(&mut self, chunk: &Chunk) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|open| open.bytes >= self.shared.segment_bytes()) {
            self.sync()?;
            self.seal();
        }
        let bytes = &chunk.bytes[(self.written - chunk.at) as usize..];
        let Some((first, first_bytes)) = parse(bytes) else { unreachable!("chunks are whole") };
        self.make_room(first_bytes as u64);
        if self.open.is_none() {
            self.create(first.number)?;
        }
        self.mark()?;
        let Some(open) = &mut self.open else { unreachable!("it was just created") };
        let (before, hashes) = (self.placed.len(), self.hashes.len());
        let mut length = 0;
        while let Some((record, next)) = parse(&bytes[length..]) {
            let offset = open.bytes + length as u64;
            if length > 0 && offset + next as u64 > self.shared.segment_bytes() {
                break;
            }
            let keys = self.hashes.len();
            self.hashes.extend(record.keys().map(|key| hash(key, self.salt)));
            let keys = self.hashes.len() - keys;
            self.placed.push(Placed {
                number: record.number,
                offset: offset as u32,
                expires_ms: record.expires_ms,
                weight: record.weight(),
                keys,
            });
            length += next;
        }
        let file = Arc::clone(&open.file);
        let at = open.bytes;
        self.make_room(length as u64);
        if let Err(error) = file.write_at(&bytes[..length], at) {
            self.placed.truncate(before);
            self.hashes.truncate(hashes);
            return Err(error);
        }
        let Some(open) = &mut self.open else { unreachable!("it is open") };
        open.bytes += length as u64;
        self.shared.open_bytes.store(open.bytes, Relaxed);
        self.written += length as u64;
        if let Some(last) = self.placed.last() {
            self.shared.written.store(last.number, Release);
        }
        self.shared.release(length);
        Ok(())
    }

    /// Says in the segment that all before is on disk, if that was not said.
    fn mark(&mut self) -> io::Result<()> {
        let Some(open) = self.open.as_mut().filter(|_| self.mark_due) else { return Ok(()) };
        self.mark_due = false;
        debug_assert_eq!(open.bytes, open.synced, "nothing was written since the sync");
        let last = self.shared.durable.load(Acquire);
        open.file.write_at(&mark(self.salt, open.bytes, last), open.bytes)?;
        open.bytes += MARK as u64;
        Ok(())
    }

    /// Drops the oldest segments while there is no room for that many bytes more.
    fn make_room(&self, bytes: u64) {
        let index = match &self.shared.table.read().open {
            Some(open) => open.index_bytes_at_most(),
            None => bytes_at_most(0, 0),
        };
        // Two keys a record, each of 13 bytes in the index, are the most that is usual.
        let index = index + 26 * self.placed.len() as u64;
        let open = self.open.as_ref().map_or(HEADER, |open| open.bytes);
        self.shared.drop_over(open + MARK as u64 + index + bytes);
    }

    fn create(&mut self, first: u64) -> io::Result<()> {
        self.sequence += 1;
        let (disk, dir) = (&self.shared.disk, &self.shared.config.dir);
        let path = dir.join(name(self.sequence, first));
        let file = disk.create(&path)?;
        let previous = self.shared.durable.load(Acquire);
        let header = Header { salt: self.salt, previous, sequence: self.sequence };
        let made = file
            .write_at(&header.bytes(), 0)
            .and_then(|()| file.sync())
            .and_then(|()| disk.sync_dir(dir));
        if let Err(error) = made {
            // Best effort: a file without a record counts for nothing at the next start.
            let _ = disk.remove(&path);
            return Err(error);
        }
        let summary = Summary { end: HEADER, first, last: previous, ..Summary::default() };
        let id = (self.sequence, path);
        let open = OpenSegment::new(id, Arc::clone(&file), self.salt, summary);
        self.shared.open_bytes.store(HEADER, Relaxed);
        self.shared.table.write().open = Some(open);
        self.open = Some(Open { file, bytes: HEADER, synced: HEADER });
        self.mark_due = false;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.file.sync()?;
        self.shared.syncs.fetch_add(1, Relaxed);
        open.synced = open.bytes;
        self.synced = self.written;
        self.synced_at = Instant::now();
        self.mark_due = true;
        self.insert();
        let synced = self.synced;
        self.unsynced.retain(|chunk| chunk.end() > synced);
        let durable = self.shared.written.load(Acquire);
        self.shared.durable.store(durable, Release);
        Ok(())
    }

    /// Moves the records that were synced into the table.
    fn insert(&mut self) {
        let mut hashes = self.hashes.drain(..);
        let synced = self.open.as_ref().map_or(HEADER, |open| open.synced);
        for placed in self.placed.chunks(INSERT_AT_ONCE) {
            let mut table = self.shared.table.write();
            let Some(open) = &mut table.open else { break };
            open.summary.end = synced;
            for one in placed {
                open.insert(
                    (one.number, one.offset),
                    (one.expires_ms, one.weight),
                    hashes.by_ref().take(one.keys),
                );
            }
            if let Some(one) = placed.last() {
                table.last = one.number;
            }
        }
        drop(hashes);
        self.placed.clear();
    }

    /// Makes the open segment's index, which takes a moment, and goes on without an open segment.
    fn seal(&mut self) {
        self.open = None;
        let sealed = match &self.shared.table.read().open {
            Some(open) => open.seal(&*self.shared.disk),
            None => return,
        };
        let mut table = self.shared.table.write();
        table.push(sealed);
        let open = table.open.take();
        self.shared.open_bytes.store(0, Relaxed);
        drop(table);
        // Its index in memory is large: it is not dropped with the table locked.
        drop(open);
    }

    /// After a failed write or sync nothing since the last good sync is trusted: its waiters are
    /// told, and it is written again into a fresh segment.
    fn fail(&mut self) {
        self.shared.failures.fetch_add(1, Relaxed);
        answer(self.waiters.drain(..).collect(), Err(Failed));
        if let Some(open) = self.open.take() {
            // Best effort: the next segment's name says where this one's records end.
            let _ = open.file.cut(open.synced).and_then(|()| open.file.sync());
            if open.synced == HEADER {
                // Nothing in it counts; a disk that is full for long leaves no empty files.
                let empty = self.shared.table.write().open.take();
                self.shared.open_bytes.store(0, Relaxed);
                if let Some(empty) = empty {
                    let _ = self.shared.disk.remove(&empty.path);
                    let _ = self.shared.disk.remove(&index_path(&empty.path));
                }
            } else {
                self.seal();
            }
        }
        // What is written again takes its room in the queue again.
        self.shared.reserved.fetch_add((self.written - self.synced) as usize, Release);
        self.written = self.synced;
        self.placed.clear();
        self.hashes.clear();
        self.mark_due = false;
        let durable = self.shared.durable.load(Acquire);
        self.shared.written.store(durable, Release);
        self.pause();
    }

    /// Waits before the next try, unless the journal is closed meanwhile.
    fn pause(&self) {
        let until = Instant::now() + SYNC_EVERY;
        let mut queue = self.shared.queue.lock();
        // Whatever comes is written when it is over.
        queue.writer = WriterState::Works;
        while !queue.closing && !self.shared.wake.wait_until(&mut queue, until).timed_out() {}
    }
}

/// Answers those who wait. A panic is theirs alone: it was reported, and the log goes on.
fn answer(waiters: Vec<Waiter>, result: Result<(), Failed>) {
    for waiter in waiters {
        let _ = catch_unwind(AssertUnwindSafe(|| (waiter.done)(result)));
    }
}
