//! A log before the files: what is appended to many streams at one time is on disk by one sync.
//!
//! An append is written into its stream's file, which a crash of the machine may take, and into the
//! log, with all others that come meanwhile as one group. It is acknowledged once the group is on
//! disk. The files are synced later, when one of the log's two halves is full: its files are synced
//! while the other one is written, and it begins anew. At a start the files are given what they
//! have lost of it. So a file that has all is as it would be without a log.
//!
//! After a failure nobody knows what the log has. Nothing more is appended before all files are
//! synced and both halves are empty.
//!
//! Cost: of disk two halves; a copy of what is appended, for as long as its group waits, and its
//! bytes once more to the disk; 20 bytes of memory for each stream that a half has something of.

mod batch;
mod replay;
mod segment;

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::mem;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};
use sys::plain_file;

use self::batch::WaitingGroup;
pub(crate) use self::batch::{Batch, EntryPlace, Unstored};
pub(crate) use self::replay::settle;
use self::replay::{HalfEnds, Haste, apply, empty, sync_files, writable};
use self::segment::{ENTRY_HEAD_BYTES, Generation, SECTOR, Segment, group_bytes};
use crate::disk::{self, Doubt};
use crate::file::FileName;

/// The names of both halves, which versions share.
const FILES: [&str; 2] = ["log.0", "log.1"];

/// The longest append that is logged: a longer one is worth a sync of its own file.
const ENTRY_BYTES_MAX: u64 = 64 << 10;

/// Bytes of a batch at most, and so of a group: its memory, and how long it is on its way.
const BATCH_BYTES_MAX: u64 = 4 << 20;

const BROKEN: &str = "the log of the streams could not be written";

/// Files of which one half has something at most, about: they are synced at once.
const HALF_FILES_MAX: usize = 16 << 10;

/// The log.
#[derive(Debug)]
pub(crate) struct SharedLog {
    dir: PathBuf,
    doubt: Arc<Doubt>,
    halves: [File; 2],
    /// Of one half.
    half_bytes: u64,
    state: Mutex<LogState>,
    /// Something of what others do is over.
    is_over: Condvar,
}

#[derive(Debug)]
struct LogState {
    waiting: WaitingGroup,
    /// Whether a group is written, or both halves are emptied.
    is_busy: bool,
    /// Whether the files of the half that is full are synced.
    is_settling: bool,
    /// Whether nobody knows what the log has.
    is_broken: bool,
    /// The half that is written.
    active: usize,
    generation: Generation,
    /// Where its next group begins, and the number of that.
    at: u64,
    number: u64,
    /// Where the other half ends.
    full_end: u64,
    /// Files of which each half has something that they may not have on disk.
    touched: [HashSet<FileName>; 2],
    /// Groups that were written, and how many there were when it was looked last whether there are
    /// more.
    groups: u64,
    groups_seen: u64,
}

impl SharedLog {
    /// As [`SharedLog::open`], with halves of so many bytes. None if they have none, or cannot be
    /// made.
    pub(crate) fn open_or_none(
        dir: &Path,
        doubt: &Arc<Doubt>,
        half_bytes: u64,
        last: u64,
    ) -> Option<SharedLog> {
        if half_bytes == 0 {
            return None;
        }
        let opened = SharedLog::open(dir, doubt, half_bytes, last).inspect_err(|error| {
            tracing::warn!(
                "durable streams have no log ({error}): each append is synced for itself, and \
                 many streams are slower"
            );
        });
        opened.ok()
    }

    /// An empty log below `dir`, after what was there was [settled](settle) up to a generation.
    ///
    /// # Errors
    /// The disk fails, or has no room for it.
    fn open(dir: &Path, doubt: &Arc<Doubt>, half_bytes: u64, last: u64) -> io::Result<SharedLog> {
        let open = |name: &str| plain_file::open(&dir.join(name), writable().create(true));
        let halves = [open(FILES[0])?, open(FILES[1])?];
        // A disk that is full fails with the files, not with the log.
        let allocate = |half| plain_file::allocate(half, half_bytes);
        if let Err(error) = halves.iter().try_for_each(allocate) {
            // What it has is in files. The rest of the disk is theirs.
            halves.iter().try_for_each(|half| half.set_len(0))?;
            return Err(error);
        }
        halves.iter().try_for_each(File::sync_all)?;
        let generation = empty(&halves, last)?;
        File::open(dir)?.sync_all()?;
        let state = LogState {
            waiting: WaitingGroup::default(),
            is_busy: false,
            is_settling: false,
            is_broken: false,
            active: 1,
            generation,
            at: SECTOR as u64,
            number: 1,
            full_end: SECTOR as u64,
            touched: <[HashSet<FileName>; 2]>::default(),
            groups: 0,
            groups_seen: 0,
        };
        let (state, is_over) = (Mutex::new(state), Condvar::new());
        let (dir, doubt) = (dir.into(), Arc::clone(doubt));
        Ok(SharedLog { dir, doubt, halves, half_bytes, state, is_over })
    }

    /// Whether an append of so many bytes goes by the log.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        bytes as u64 <= ENTRY_BYTES_MAX.min(self.half_bytes / 4)
    }

    /// Whether a batch has room for an append of so many bytes that the log [takes].
    ///
    /// [takes]: SharedLog::takes
    pub(crate) fn fits(&self, batch: &Batch, bytes: usize) -> bool {
        let all = (batch.len() + ENTRY_HEAD_BYTES + bytes) as u64;
        batch.is_empty() || all <= self.batch_bytes_max()
    }

    /// So that a group fits into a half.
    fn batch_bytes_max(&self) -> u64 {
        BATCH_BYTES_MAX.min(self.half_bytes / 2)
    }

    /// Returns when something may be appended: a log that has failed begins anew before.
    ///
    /// # Errors
    /// The disk fails still.
    pub(crate) fn ready(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.is_broken { self.settle_all(&mut state) } else { Ok(()) }
    }

    /// Has appends, which their files have, go to the disk with a group. Returns once they are
    /// there.
    ///
    /// # Errors
    /// They may not be there.
    pub(crate) fn store(&self, batch: Batch) -> Result<(), Unstored> {
        let mut state = self.state.lock();
        while !state.waiting.batch.is_empty()
            && (state.waiting.batch.len() + batch.len()) as u64 > self.batch_bytes_max()
        {
            self.go_on(&mut state);
        }
        if state.is_broken {
            return Err(Unstored { why: BROKEN.into(), is_unsure: false });
        }
        state.waiting.batch.extend(batch);
        let group = Arc::clone(&state.waiting.group);
        loop {
            match group.outcome.get() {
                Some(Ok(())) => return Ok(()),
                Some(Err(why)) => return Err(Unstored { why: why.clone(), is_unsure: true }),
                None => self.go_on(&mut state),
            }
        }
    }

    /// Waits for what others are at, or writes the group that waits.
    fn go_on(&self, state: &mut MutexGuard<'_, LogState>) {
        if state.is_busy {
            self.is_over.wait(state);
            return;
        }
        let waiting = mem::take(&mut state.waiting);
        state.is_busy = true;
        let WaitingGroup { batch, group } = waiting;
        let written = self.write_group(state, batch);
        state.is_busy = false;
        let _ = group.outcome.set(written.map_err(|error| error.to_string()));
        self.is_over.notify_all();
    }

    fn write_group(&self, state: &mut MutexGuard<'_, LogState>, batch: Batch) -> io::Result<()> {
        if state.is_broken {
            return Err(io::Error::other(BROKEN));
        }
        let bytes = group_bytes(batch.len());
        let files = state.touched[state.active].len();
        if state.at + bytes > self.half_bytes || files >= HALF_FILES_MAX {
            self.change_halves(state)?;
        }
        let active = state.active;
        state.touched[active].extend(&batch.names);
        let failures = batch.failures;
        let group = batch.into_group(state.generation, state.number);
        let (half, at) = (&self.halves[active], state.at);
        let write = || disk::write_at(half, &group, at).and_then(|()| disk::sync(half));
        let written = unlocked(state, write);
        match written {
            Ok(()) => {
                (state.at, state.number) = (at + bytes, state.number + 1);
                // Of a file that was not synced in between the log had not all.
                if failures.is_some_and(|failures| failures < self.doubt.failures()) {
                    self.doubt.give_back_failed();
                }
            }
            Err(_) => state.is_broken = true,
        }
        state.groups += 1;
        written
    }

    /// Begins the other half anew, once all that it has is in files on disk.
    fn change_halves(&self, state: &mut MutexGuard<'_, LogState>) -> io::Result<()> {
        while !state.touched[1 - state.active].is_empty() {
            self.settle_full(state, Haste::AtOnce)?;
        }
        state.full_end = state.at;
        state.active = 1 - state.active;
        state.generation = Generation::new(state.generation.number + 1);
        (state.at, state.number) = (0, 0);
        Ok(())
    }

    /// Whether a half waits for its files to be synced, and nobody is at it. It does not wait.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full_in(&self.state.lock())
    }

    /// After a failure who needs the half tries it again.
    fn is_full_in(&self, state: &LogState) -> bool {
        let is_sound = !state.is_broken && !self.doubt.has_failed();
        is_sound && !state.is_settling && !state.touched[1 - state.active].is_empty()
    }

    /// Syncs the files of a half that is full, if there is one and nobody is at it.
    pub(crate) fn settle(&self) {
        let mut state = self.state.lock();
        if self.is_full_in(&state) {
            let _ = self.settle_full(&mut state, Haste::Leisurely);
        }
    }

    /// Syncs the files of the half that is full, or waits for who does.
    fn settle_full(&self, state: &mut MutexGuard<'_, LogState>, haste: Haste) -> io::Result<()> {
        if state.is_settling {
            self.is_over.wait(state);
            return Ok(());
        }
        let full = 1 - state.active;
        let names = Vec::from_iter(state.touched[full].iter().copied());
        let again = self.halves_to_store_again(state);
        state.is_settling = true;
        let settled = unlocked(state, || self.sync_all(&names, haste, again));
        state.is_settling = false;
        match settled {
            Ok(()) => state.touched[full].clear(),
            Err(_) => self.doubt.fail(),
        }
        self.is_over.notify_all();
        settled
    }

    /// Empties the log if nothing was appended since it was asked last: call it every few seconds.
    pub(crate) fn rest(&self) {
        let mut state = self.state.lock();
        let groups = state.groups;
        let is_idle = mem::replace(&mut state.groups_seen, groups) == groups;
        drop(state);
        if is_idle {
            self.empty();
        }
    }

    /// Empties the log. Appends wait for what came while files were synced, which is short.
    pub(crate) fn empty(&self) {
        let mut state = self.state.lock();
        while state.is_settling {
            self.is_over.wait(&mut state);
        }
        let names = HashSet::<FileName>::from_iter(state.touched.iter().flatten().copied());
        if names.is_empty() {
            return;
        }
        if !self.doubt.has_failed() {
            let names = Vec::from_iter(names);
            state.is_settling = true;
            let synced = unlocked(&mut state, || sync_files(&self.dir, &names, Haste::AtOnce));
            state.is_settling = false;
            self.is_over.notify_all();
            if synced.is_err() {
                // The kernel says it once.
                return self.doubt.fail();
            }
        }
        // Or the next append tries it.
        let _ = self.settle_all(&mut state);
    }

    /// Syncs all files, and empties both halves.
    fn settle_all(&self, state: &mut MutexGuard<'_, LogState>) -> io::Result<()> {
        while state.is_busy || state.is_settling {
            self.is_over.wait(state);
        }
        let names = Vec::from_iter(state.touched.iter().flatten().copied());
        let (again, last) = (self.halves_to_store_again(state), state.generation.number);
        (state.is_busy, state.is_settling) = (true, true);
        let emptied = unlocked(state, || {
            self.sync_all(&names, Haste::AtOnce, again)?;
            empty(&self.halves, last)
        });
        (state.is_busy, state.is_settling) = (false, false);
        self.is_over.notify_all();
        // A half may be empty, and the other one not.
        state.is_broken = emptied.is_err();
        if state.is_broken {
            self.doubt.fail();
        }
        state.generation = emptied?;
        state.touched.iter_mut().for_each(HashSet::clear);
        (state.active, state.at, state.number) = (1, SECTOR as u64, 1);
        state.full_end = SECTOR as u64;
        Ok(())
    }

    /// Where both halves end, the older one first, if files are to be written once more by them.
    fn halves_to_store_again(&self, state: &LogState) -> Option<HalfEnds> {
        let halves = [(1 - state.active, state.full_end), (state.active, state.at)];
        self.doubt.take_failed().then_some(halves)
    }

    /// Has files on disk. After a sync that failed the kernel takes for written what is not, so
    /// they are written once more.
    fn sync_all(
        &self,
        names: &[FileName],
        haste: Haste,
        again: Option<HalfEnds>,
    ) -> io::Result<()> {
        if let Some(halves) = again {
            for (half, end) in halves {
                let mut bytes = vec![0; end as usize];
                self.halves[half].read_exact_at(&mut bytes, 0)?;
                let segment = segment::read(&bytes, 0);
                let segment = Segment { damaged_at: None, ..segment };
                apply(&self.dir, &[segment])?;
            }
        }
        sync_files(&self.dir, names, haste)?;
        // Who syncs one of them for himself, and fails, takes the failure from who does it here.
        if self.doubt.has_failed() { Err(io::Error::other("the disk fails")) } else { Ok(()) }
    }
}

/// Does `work` while others may have the state. A panic is an error, so nobody waits for ever.
fn unlocked<T>(
    state: &mut MutexGuard<'_, LogState>,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    MutexGuard::unlocked(state, || {
        let grief = || io::Error::other("what was to be written came to grief");
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(grief()))
    })
}

#[cfg(test)]
mod tests;
