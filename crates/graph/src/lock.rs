//! A directory belongs to one process at a time.
//!
//! `lock` is held with flock(2), which the kernel releases however the process ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process;

use super::error::OpenReason;

/// Holds the directory for this process. Its file has our process id in it until we are done.
pub(super) struct DirectoryLock {
    file: File,
    path: PathBuf,
}

impl DirectoryLock {
    pub(super) fn take(dir: &Path) -> Result<DirectoryLock, OpenReason> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let path = dir.join("lock");
        let mut file = options.open(&path).map_err(OpenReason::Directory)?;
        let locked = file.try_lock();
        let mut text = String::new();
        // What stands there is for people only.
        let _ = file.read_to_string(&mut text);
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenReason::InUse { pid: text.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(OpenReason::Directory(error)),
        }
        let lock = DirectoryLock { file, path };
        // Without room for it, nobody is the worse for it: a full disk can be read.
        let _ = lock.write(&format!("{}\n", process::id()));
        Ok(lock)
    }

    /// Whether the directory is still there and its lock is still the one that we hold.
    pub(super) fn check(&self) -> io::Result<()> {
        still_there(&self.path, &self.file)
    }

    fn write(&self, text: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(text.as_bytes(), 0)
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // If either fails, nobody is the worse for it: the kernel unlocks when the process ends.
        let _ = self.write("");
        // Closing alone would not do: a process that is being started at this moment has the
        // descriptor too, until its exec.
        let _ = self.file.unlock();
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
