//! A directory belongs to one process at a time.
//!
//! `lock` is held with flock(2), which the kernel releases however the process ends. It is what
//! changes hands when another process takes the directory over (see [`super::handover`]).

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sys::plain_file;

use super::error::OpenReason;

/// Between two looks at what rings nobody.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// Holds the directory for this process, or waits beside the one that does. Whoever holds it has
/// his process id in its file until he is done.
pub(super) struct DirectoryLock {
    file: File,
    path: PathBuf,
    /// Whether it is ours. Changed by who writes to the store or may not do so yet, with its state
    /// locked: that orders it for writers; for others it is an early word.
    held: AtomicBool,
    /// Held while something else than the store is written into the directory.
    writing: Mutex<()>,
}

impl DirectoryLock {
    pub(super) fn take(dir: &Path) -> Result<DirectoryLock, OpenReason> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let lock = DirectoryLock::open(dir, &mut options)?;
        lock.try_take()?;
        Ok(lock)
    }

    /// Waits beside the process that holds `dir`: nothing is taken, and nothing made.
    pub(super) fn beside(dir: &Path) -> Result<DirectoryLock, OpenReason> {
        let lock = DirectoryLock::open(dir, OpenOptions::new().read(true).write(true))?;
        match lock.file.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(lock),
            Err(TryLockError::Error(error)) => Err(OpenReason::Directory(error)),
            Ok(()) => {
                let _ = lock.file.unlock();
                Err(OpenReason::NotHeld)
            }
        }
    }

    /// Reads beside others who only read; fails if a process has `dir`. Nothing is made.
    pub(super) fn share(dir: &Path) -> Result<DirectoryLock, OpenReason> {
        let lock = match DirectoryLock::open(dir, OpenOptions::new().read(true)) {
            Err(OpenReason::Directory(error)) if error.kind() == io::ErrorKind::NotFound => {
                let file = File::open(dir).map_err(OpenReason::Directory)?;
                DirectoryLock::of(file, dir.to_owned())
            }
            opened => opened?,
        };
        match lock.file.try_lock_shared() {
            Ok(()) => Ok(lock),
            Err(TryLockError::WouldBlock) => Err(OpenReason::InUse { pid: lock.pid() }),
            Err(TryLockError::Error(error)) => Err(OpenReason::Directory(error)),
        }
    }

    fn open(dir: &Path, options: &mut OpenOptions) -> Result<DirectoryLock, OpenReason> {
        let path = dir.join("lock");
        let file = plain_file::open(&path, options).map_err(OpenReason::Directory)?;
        Ok(DirectoryLock::of(file, path))
    }

    fn of(file: File, path: PathBuf) -> DirectoryLock {
        DirectoryLock { file, path, held: AtomicBool::new(false), writing: Mutex::new(()) }
    }

    /// Takes it, waiting up to `within` for the process that has it to let go or to end.
    pub(super) fn take_within(&self, within: Duration) -> Result<(), OpenReason> {
        let taken = look_until(Instant::now() + within, || match self.try_take() {
            Err(OpenReason::InUse { .. }) => None,
            tried => Some(tried),
        });
        taken.unwrap_or_else(|| Err(OpenReason::InUse { pid: self.pid() }))
    }

    fn try_take(&self) -> Result<(), OpenReason> {
        match self.file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenReason::InUse { pid: self.pid() }),
            Err(TryLockError::Error(error)) => return Err(OpenReason::Directory(error)),
        }
        self.held.store(true, Ordering::Release);
        // Without room for it, nobody is the worse for it: a full disk can be read.
        let _ = self.write(&format!("{}\n", process::id()));
        Ok(())
    }

    /// Lets go of it once nothing is being written any more; `last` is written before. `false`, and
    /// all is as it was, when that would take longer than `until`.
    pub(super) fn let_go(&self, until: Instant, last: impl FnOnce()) -> bool {
        let Some(_writing) = lock_until(&self.writing, until) else { return false };
        if self.is_held() {
            last();
            self.release();
        }
        true
    }

    fn release(&self) {
        self.held.store(false, Ordering::Release);
        // If either fails, nobody is the worse for it: the kernel unlocks when the process ends.
        let _ = self.write("");
        // Closing alone would not do: a process that is being started at this moment has the
        // descriptor too, until its exec.
        let _ = self.file.unlock();
    }

    /// Whether it is ours.
    pub(super) fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Calls `write` if the directory is ours, which it is until that returns.
    pub(super) fn while_held<T>(&self, write: impl FnOnce() -> T) -> Option<T> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_held().then(write)
    }

    /// Whether the directory is still there and its lock is still the one that we have open.
    pub(super) fn check(&self) -> io::Result<()> {
        still_there(&self.path, &self.file)
    }

    /// Who says that it is his. For people only.
    fn pid(&self) -> Option<u32> {
        let mut text = String::new();
        let mut file = &self.file;
        file.rewind().and_then(|()| file.read_to_string(&mut text)).ok()?;
        text.trim().parse().ok()
    }

    fn write(&self, text: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(text.as_bytes(), 0)
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        if self.is_held() {
            self.release();
        }
    }
}

/// Locks `mutex`, unless somebody else has it until then.
pub(super) fn lock_until<T>(mutex: &Mutex<T>, until: Instant) -> Option<MutexGuard<'_, T>> {
    use std::sync::TryLockError::{Poisoned, WouldBlock};
    look_until(until, || match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(Poisoned(error)) => Some(error.into_inner()),
        Err(WouldBlock) => None,
    })
}

/// Looks, and looks again, until it finds something or the time is up.
pub(super) fn look_until<T>(until: Instant, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        let found = look();
        if found.is_some() || Instant::now() >= until {
            return found;
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Whether `path` still leads to `file`.
pub(super) fn still_there(path: &Path, file: &File) -> io::Result<()> {
    let (named, open) = (path.metadata()?, file.metadata()?);
    if (named.dev(), named.ino()) == (open.dev(), open.ino()) {
        return Ok(());
    }
    Err(io::Error::other("another file has been put in its place"))
}
