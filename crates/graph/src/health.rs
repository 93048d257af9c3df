//! Whether the store can be relied upon while it is open: its directory is still there, its file is
//! still whole, nothing was found damaged.
//!
//! What is acknowledged must be where the next start looks for it. A file that was removed goes on
//! working, and is gone with the process. So each commit asks, before and after. Cost: some
//! microseconds of stat(2).

use std::sync::atomic::Ordering;

use sys::mapped::Guard;

use super::error::{ReadError, Unusable, is_damage};
use super::lock::still_there;
use super::map::data_file;
use super::open::Store;

impl Store {
    /// Whether changes can be kept.
    pub(super) fn usable(&self) -> Result<(), Unusable> {
        self.readable()?;
        if let Some(damage) = self.damage.get() {
            return Err(Unusable::Damaged(damage.clone()));
        }
        let gone = |error| Unusable::Gone { dir: self.dir.clone(), error };
        let there = self.lock.check().and_then(|()| still_there(&data_file(&self.dir), &self.file));
        // Asked last: a replica that is swapped is told so before another file has its place.
        if self.installed.load(Ordering::SeqCst) {
            there.map_err(|error| gone(error.to_string()))?;
        }
        let bytes = self.file.metadata().map_err(|error| gone(error.to_string()))?.len();
        if bytes < self.file_bytes.load(Ordering::Relaxed) {
            self.found_damaged("it was cut short while it was open");
            return self.readable();
        }
        Ok(())
    }

    /// Whether what was read is what the file holds.
    pub(super) fn readable(&self) -> Result<(), Unusable> {
        self.with_lock_file()?;
        if self.guard.has_faulted() {
            self.found_damaged("a part of it could not be read, or it was cut short");
        }
        if let Some(why) = &self.awaits {
            return Err(Unusable::MustRebuild(why.clone()));
        }
        match self.damage.get() {
            Some(damage) if self.unreadable.load(Ordering::Relaxed) => {
                Err(Unusable::Damaged(damage.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Whether LMDB's lock file is there. Zeros in its place say that the first commit is the
    /// newest one, so nothing is read or written by them.
    pub(super) fn with_lock_file(&self) -> Result<(), Unusable> {
        let is_lost = self.lock_guard.as_ref().is_some_and(Guard::has_faulted);
        if is_lost { Err(Unusable::LockFile) } else { Ok(()) }
    }

    /// From now on nothing is read or written.
    pub(super) fn found_damaged(&self, what: &str) {
        self.damage.get_or_init(|| what.to_owned());
        self.unreadable.store(true, Ordering::Relaxed);
    }

    /// What a failed look-up means. Damage of one list keeps others readable, and ends all writing.
    pub(super) fn read_error(&self, error: heed::Error) -> ReadError {
        if is_damage(&error) {
            self.damage.get_or_init(|| error.to_string());
        }
        self.readable().err().map_or_else(|| error.into(), ReadError::from)
    }

    /// Makes the file as long as its pages say. A commit leaves it shorter when it gave back the
    /// last pages that it took; a look-up in them would meet the end of the file.
    pub(super) fn level(&self) {
        let pages = self.env.info().last_page_number as u64 + 1;
        let expected = pages * u64::from(self.env.unnamed_database_stat().page_size);
        let found = |file: &std::fs::File| file.metadata().map_or(0, |metadata| metadata.len());
        // While another process has the directory, the file is longer by now than we know.
        if self.lock.is_held()
            && found(&self.file) < expected
            && let Ok(file) = self.env.try_clone_inner_file()
        {
            // What is committed is durable, whether this works or not.
            let _ = file.set_len(expected);
        }
        self.file_bytes.store(found(&self.file), Ordering::Relaxed);
    }
}
