//! What is asked of the disk about what is appended: few calls, which a test counts and has fail.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

/// One of the calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DiskCall {
    Write,
    Sync,
    Cut,
    SyncDirectory,
}

/// What may not be on disk as it is read.
#[derive(Debug)]
pub(crate) struct Doubt {
    /// Files that were last changed up to this time, in milliseconds since 1970. Relaxed: it is
    /// raised by who forgets the stream, under whose lock it is read again.
    until_ms: AtomicU64,
    /// Whether a sync may have failed since it was asked last: the kernel then takes for written
    /// what is not.
    has_failed: AtomicBool,
    /// How many syncs may have failed. Who takes the flag above sees what raised it here.
    failures: AtomicU64,
    /// Directories that were not synced: no more than there are.
    directories: Mutex<HashSet<PathBuf>>,
}

impl Doubt {
    /// In files that were last changed up to this time.
    pub(crate) fn until(ms: u64) -> Doubt {
        let (has_failed, failures) = (AtomicBool::new(false), AtomicU64::new(0));
        Doubt { until_ms: AtomicU64::new(ms), has_failed, failures, directories: Mutex::default() }
    }

    /// Whether it is in a file that was last changed at this time.
    pub(crate) fn is_in(&self, changed_ms: u64) -> bool {
        changed_ms <= self.until_ms.load(Ordering::Relaxed)
    }

    /// It is in all that was changed up to now.
    pub(crate) fn raise(&self) {
        self.until_ms.fetch_max(sys::clock::unix_ms(), Ordering::Relaxed);
    }

    /// Whether a sync may have failed since [`Doubt::take_failed`].
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Whether a sync may have failed since this was asked last.
    pub(crate) fn take_failed(&self) -> bool {
        self.has_failed.swap(false, Ordering::AcqRel)
    }

    /// What is on disk is asked for once more, though it was [taken](Doubt::take_failed).
    pub(crate) fn give_back_failed(&self) {
        self.has_failed.store(true, Ordering::Release);
    }

    /// A sync may have failed.
    pub(crate) fn fail(&self) {
        self.failures.fetch_add(1, Ordering::Release);
        self.has_failed.store(true, Ordering::Release);
    }

    /// How many syncs may have failed.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Acquire)
    }

    /// Raises it if what was written, synced or cut has failed.
    pub(crate) fn raise_by<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|_| {
            self.raise();
            self.fail();
        })
    }

    /// Syncs the directory of `file`.
    pub(crate) fn sync_directory_of(&self, file: &Path) -> io::Result<()> {
        let directory = file.parent().ok_or(ErrorKind::InvalidInput)?;
        self.directories.lock().insert(directory.into());
        called(DiskCall::SyncDirectory, None)?;
        File::open(directory)?.sync_all()?;
        self.directories.lock().remove(directory);
        Ok(())
    }

    /// Syncs the directory of `file` if that has failed.
    pub(crate) fn settle_directory_of(&self, file: &Path) -> io::Result<()> {
        let is_in = file.parent().is_some_and(|parent| self.directories.lock().contains(parent));
        if is_in { self.sync_directory_of(file) } else { Ok(()) }
    }
}

/// Writes all of the bytes at a place.
pub(crate) fn write_at(file: &File, bytes: &[u8], position: u64) -> io::Result<()> {
    called(DiskCall::Write, Some(file))?;
    file.write_all_at(bytes, position)?;
    #[cfg(test)]
    power::written(file, position, bytes.len());
    Ok(())
}

/// Returns once the data of the file and its length are on disk (`fdatasync`).
pub(crate) fn sync(file: &File) -> io::Result<()> {
    called(DiskCall::Sync, Some(file))?;
    file.sync_data()?;
    #[cfg(test)]
    power::synced(file);
    Ok(())
}

/// Returns once a file that is new is on disk.
pub(crate) fn sync_new(file: &File) -> io::Result<()> {
    #[cfg(test)]
    power::made(file);
    file.sync_all()
}

/// Cuts the file to the length.
pub(crate) fn cut(file: &File, len: u64) -> io::Result<()> {
    called(DiskCall::Cut, Some(file))?;
    file.set_len(len)
}

#[cfg(not(test))]
fn called(_call: DiskCall, _file: Option<&File>) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
use self::faults::called;
#[cfg(test)]
pub(crate) mod power;

/// Calls of the test that runs on this thread.
#[cfg(test)]
pub(crate) mod faults {
    use std::cell::RefCell;

    use super::*;

    /// `EIO` of Linux.
    const EIO: i32 = 5;

    thread_local! {
        static CALLS: RefCell<Vec<DiskCall>> = const { RefCell::new(Vec::new()) };
        static FAILING: RefCell<Vec<DiskCall>> = const { RefCell::new(Vec::new()) };
    }

    /// From now on calls of these kinds fail, and no others.
    pub(crate) fn fail(calls: &[DiskCall]) {
        FAILING.set(calls.into());
    }

    /// The calls since it was asked last.
    pub(crate) fn calls() -> Vec<DiskCall> {
        CALLS.take()
    }

    pub(super) fn called(call: DiskCall, file: Option<&File>) -> io::Result<()> {
        power::called(call, file)?;
        CALLS.with_borrow_mut(|calls| calls.push(call));
        match FAILING.with_borrow(|failing| failing.contains(&call)) {
            true => Err(io::Error::from_raw_os_error(EIO)),
            false => Ok(()),
        }
    }
}
