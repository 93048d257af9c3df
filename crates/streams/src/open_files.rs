//! Files of streams that are open to be appended to, so that an append is one write.
//!
//! A file is found by its name and the number of its stream, which no other stream of that path
//! ever has in this process. So none of a deleted stream is found for its successor. It is closed
//! when its stream is deleted or has failed, and some seconds after its last append.
//!
//! All who append share one table of descriptors.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use sys::plain_file;

use crate::file::FileName;

/// Descriptors at most.
const FILES_MAX: u64 = 4_096;

/// One of so many that the process may have.
const PART: u64 = 8;

/// Which stream's file.
pub(crate) type FileKey = (FileName, u64);

/// The open files.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    /// Of half of them.
    half: usize,
    files: Mutex<Files>,
}

type ByKey = HashMap<FileKey, Arc<File>>;

#[derive(Debug, Default)]
struct Files {
    /// Those that were used lately.
    used: ByKey,
    /// The others, which are closed next.
    idle: ByKey,
}

impl OpenFiles {
    /// None, and later a part of what the process may have.
    pub(crate) fn new() -> OpenFiles {
        let most = sys::limits::descriptors().map_or(0, |limit| limit.soft / PART);
        OpenFiles::at_most(most.min(FILES_MAX) as usize)
    }

    fn at_most(files: usize) -> OpenFiles {
        OpenFiles { half: files / 2, files: Mutex::default() }
    }

    /// The file of a stream, which is held, open to be written.
    pub(crate) fn open(
        &self,
        key: FileKey,
        path: impl FnOnce() -> PathBuf,
    ) -> io::Result<Arc<File>> {
        let mut files = self.files.lock();
        if let Some(file) = files.used.get(&key) {
            return Ok(Arc::clone(file));
        }
        let file = match files.idle.remove(&key) {
            Some(file) => file,
            None => {
                drop(files);
                let file = Arc::new(plain_file::open(&path(), File::options().write(true))?);
                files = self.files.lock();
                file
            }
        };
        if self.half == 0 {
            return Ok(file);
        }
        let full = if files.used.len() >= self.half { files.age() } else { ByKey::new() };
        files.used.insert(key, Arc::clone(&file));
        drop(files);
        // Closed when nobody waits for it.
        drop(full);
        Ok(file)
    }

    /// Closes the file of a stream, which is held.
    pub(crate) fn close(&self, key: FileKey) {
        let mut files = self.files.lock();
        let closed = [files.used.remove(&key), files.idle.remove(&key)];
        drop(files);
        drop(closed);
    }

    /// Closes those that were not used since the last call but one at most: call it every few
    /// seconds.
    pub(crate) fn close_idle(&self) {
        let closed = self.files.lock().age();
        drop(closed);
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        let files = self.files.lock();
        files.used.len() + files.idle.len()
    }
}

impl Files {
    /// Those to be closed.
    fn age(&mut self) -> ByKey {
        mem::replace(&mut self.idle, mem::take(&mut self.used))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    fn key(number: u8) -> FileKey {
        ([number; 20], 1)
    }

    #[test]
    fn files_in_use_stay_open_within_their_bound_and_idle_ones_are_closed() {
        let dir = TempDir::new().unwrap();
        let path = |number: u8| dir.path().join(number.to_string());
        (0..9).for_each(|number| fs::write(path(number), b"").unwrap());
        let files = OpenFiles::at_most(4);
        let open = |number: u8| files.open(key(number), || path(number));
        let first = open(0).unwrap();
        for number in (0..9).flat_map(|number| [number, 0]) {
            open(number).unwrap();
            assert!(files.count() <= 4);
        }
        assert!(Arc::ptr_eq(&first, &open(0).unwrap()), "it was used all the time");
        files.close_idle();
        assert!(Arc::ptr_eq(&first, &open(0).unwrap()));
        files.close_idle();
        files.close_idle();
        assert_eq!((files.count(), Arc::strong_count(&first)), (0, 1));
        // Where none stay open all are opened.
        let none = OpenFiles::at_most(1);
        none.open(key(0), || path(0)).unwrap();
        assert_eq!(none.count(), 0);
    }

    #[test]
    fn file_of_another_stream_of_the_path_is_another_one_and_a_closed_one_is_opened_anew() {
        let dir = TempDir::new().unwrap();
        let path = || dir.path().join("s");
        fs::write(path(), b"").unwrap();
        let files = OpenFiles::at_most(4);
        let first = files.open(([0; 20], 1), path).unwrap();
        fs::remove_file(path()).unwrap();
        files.open(([0; 20], 2), path).unwrap_err();
        files.close(([0; 20], 1));
        assert_eq!(Arc::strong_count(&first), 1);
        files.open(([0; 20], 1), path).unwrap_err();
    }
}
