//! The one thread that writes: all that is queued is one write, and one sync covers all writes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use crate::disk::DiskFile;
use crate::record::decode;
use crate::recovery::{HEADER, header, name};
use crate::table::{Place, Segment};
use crate::{Failed, Shared, Sync, Waiter};

const SYNC_EVERY: Duration = Duration::from_secs(1);
/// What is kept in memory until it is synced, so that it can be written again: beyond it, a sync.
const UNSYNCED_BYTES_MAX: usize = 4 << 20;

pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) sequence: u32,
    pub(crate) open: Option<Open>,
    /// Bytes of records that are not synced; the first `written` of them are with the kernel.
    pub(crate) unsynced: Vec<u8>,
    pub(crate) written: usize,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) synced_at: Instant,
}

pub(crate) struct Open {
    pub(crate) sequence: u32,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) bytes: u64,
    pub(crate) synced: u64,
}

impl Writer {
    pub(crate) fn run(mut self) {
        loop {
            let closing = self.take();
            let result = self.turn(closing);
            self.shared.failing.store(result.is_err(), Release);
            if result.is_err() {
                self.fail();
            }
            let durable = self.shared.durable.load(Acquire);
            let (done, wait) = self.waiters.drain(..).partition(|waiter| waiter.number <= durable);
            self.waiters = wait;
            let done: Vec<Waiter> = done;
            done.into_iter().for_each(|waiter| (waiter.done)(Ok(())));
            if closing {
                self.waiters.drain(..).for_each(|waiter| (waiter.done)(Err(Failed)));
                *self.shared.closed.lock() = Some(result);
                return;
            }
        }
    }

    /// Waits for work and takes it; whether the journal is being closed.
    fn take(&mut self) -> bool {
        let mut queue = self.shared.queue.lock();
        if queue.bytes.is_empty() && queue.waiters.is_empty() && !queue.closing {
            match self.unsynced.is_empty() {
                true => self.shared.wake.wait(&mut queue),
                false => drop(self.shared.wake.wait_for(&mut queue, SYNC_EVERY)),
            }
        }
        self.unsynced.append(&mut queue.bytes);
        self.waiters.append(&mut queue.waiters);
        queue.closing
    }

    fn turn(&mut self, closing: bool) -> io::Result<()> {
        self.write()?;
        let written = self.shared.written.load(Acquire);
        let durable = self.shared.durable.load(Acquire);
        let asked = self.waiters.iter().any(|w| w.number > durable && w.number <= written);
        let due = asked
            || closing
            || self.shared.config.sync == Sync::Always
            || self.unsynced.len() > UNSYNCED_BYTES_MAX
            || self.synced_at.elapsed() >= SYNC_EVERY;
        if due && !self.unsynced.is_empty() { self.sync() } else { Ok(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        if self.written == self.unsynced.len() {
            return Ok(());
        }
        if self.open.as_ref().is_some_and(|open| open.bytes >= self.shared.config.segment_bytes) {
            self.sync()?;
            self.open = None;
        }
        if self.open.is_none() {
            self.create()?;
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let bytes = &self.unsynced[self.written..];
        open.file.write_at(bytes, open.bytes)?;
        let mut table = self.shared.table.write();
        let mut at = 0;
        while let Some((record, length)) = decode(&bytes[at..]) {
            let (number, offset) = (record.number, open.bytes + at as u64);
            let segment = open.sequence;
            table.insert(&record, Place { number, segment, offset, bytes: length as u32 });
            self.shared.written.store(number, Release);
            at += length;
        }
        debug_assert_eq!(at, bytes.len(), "the queue holds whole records");
        open.bytes += at as u64;
        self.shared.release(at);
        self.written = self.unsynced.len();
        drop(table);
        self.shared.drop_over();
        Ok(())
    }

    fn create(&mut self) -> io::Result<()> {
        let Some((first, _)) = decode(&self.unsynced[self.written..]) else { return Ok(()) };
        self.sequence += 1;
        let (disk, dir) = (&self.shared.disk, &self.shared.config.dir);
        let path = dir.join(name(self.sequence, first.number));
        let file = disk.create(&path)?;
        let made = file
            .write_at(&header(), 0)
            .and_then(|()| file.sync())
            .and_then(|()| disk.sync_dir(dir));
        if let Err(error) = made {
            // Best effort: a file without a record is cut at the next start.
            let _ = disk.remove(&path);
            return Err(error);
        }
        let mut table = self.shared.table.write();
        let last = first.number.saturating_sub(1);
        let (bytes, expires_ms) = (HEADER, 0);
        let segment = Segment { file: Arc::clone(&file), path, last, bytes, expires_ms };
        table.segments.insert(self.sequence, segment);
        self.open = Some(Open { sequence: self.sequence, file, bytes, synced: bytes });
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.file.sync()?;
        open.synced = open.bytes;
        self.unsynced.drain(..self.written);
        self.written = 0;
        self.synced_at = Instant::now();
        self.shared.durable.store(self.shared.written.load(Acquire), Release);
        Ok(())
    }

    /// After a failed write or sync nothing since the last good sync is trusted: its waiters are
    /// told, and it is written again into a fresh segment.
    fn fail(&mut self) {
        self.waiters.drain(..).for_each(|waiter| (waiter.done)(Err(Failed)));
        let durable = self.shared.durable.load(Acquire);
        let mut table = self.shared.table.write();
        table.forget_above(durable);
        if let Some(open) = self.open.take() {
            // Best effort: the next segment's name says where this one's records end.
            let _ = open.file.cut(open.synced).and_then(|()| open.file.sync());
            if open.synced == HEADER {
                // Nothing in it counts; a disk that is full for long leaves no empty files.
                if let Some(empty) = table.segments.remove(&open.sequence) {
                    let _ = self.shared.disk.remove(&empty.path);
                }
            } else if let Some(segment) = table.segments.get_mut(&open.sequence) {
                (segment.bytes, segment.last) = (open.synced, segment.last.min(durable));
            }
        }
        drop(table);
        // What is written again takes its room in the queue again.
        self.shared.reserved.fetch_add(self.written, Release);
        self.written = 0;
        self.shared.written.store(durable, Release);
        self.pause();
    }

    /// Waits before the next try, unless the journal is closed meanwhile.
    fn pause(&self) {
        let until = Instant::now() + SYNC_EVERY;
        let mut queue = self.shared.queue.lock();
        while !queue.closing && !self.shared.wake.wait_until(&mut queue, until).timed_out() {}
    }
}
