//! What the journal asks of a file system: few calls, so that a test can put another below it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sys::plain_file;

/// A file of the journal: read and written at places, by several threads at once.
#[expect(clippy::len_without_is_empty, reason = "nobody asks whether a file is empty")]
pub trait DiskFile: Send + Sync {
    /// Writes all of the bytes at the place.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Fills the whole of the buffer from the place.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;
    /// Returns once the file's data and length are on disk (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
    /// The length of the file in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Cuts the file to the length.
    fn cut(&self, bytes: u64) -> io::Result<()>;
}

/// A file system with the journal's directory.
pub trait Disk: Send + Sync {
    /// Makes the directory if it is absent and locks it; the lock is held as long as the file.
    fn lock(&self, dir: &Path) -> io::Result<File>;
    /// Opens a file to read and write it.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Makes a file that was not there.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The paths in the directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Returns once the names in the directory are on disk.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// The machine's own file system.
#[derive(Debug, Default)]
pub struct RealDisk;

/// Its errors name it: an operator is to find the disk.
struct RealFile {
    file: File,
    path: Box<Path>,
    /// Some file systems do not count the names of a file.
    has_name: bool,
}

impl RealFile {
    fn open(path: &Path, options: &mut OpenOptions) -> io::Result<RealFile> {
        let file = named(path, plain_file::open(path, options.read(true).write(true)))?;
        let has_name = named(path, file.metadata())?.nlink() > 0;
        Ok(RealFile { file, path: path.into(), has_name })
    }

    fn named<T>(&self, done: io::Result<T>) -> io::Result<T> {
        named(&self.path, done)
    }
}

fn named<T>(path: &Path, done: io::Result<T>) -> io::Result<T> {
    done.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

impl DiskFile for RealFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.named(self.file.write_all_at(bytes, offset))
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.named(self.file.read_exact_at(into, offset))
    }

    fn sync(&self) -> io::Result<()> {
        self.named(self.file.sync_data())?;
        // A file that was removed takes bytes, and nobody finds them at the next start.
        match self.named(self.file.metadata())?.nlink() {
            0 if self.has_name => {
                self.named(Err(io::Error::new(io::ErrorKind::NotFound, "the file was removed")))
            }
            _ => Ok(()),
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.named(self.file.metadata())?.len())
    }

    fn cut(&self, bytes: u64) -> io::Result<()> {
        self.named(self.file.set_len(bytes))
    }
}

impl Disk for RealDisk {
    fn lock(&self, dir: &Path) -> io::Result<File> {
        std::fs::create_dir_all(dir)?;
        let path = dir.join("lock");
        let mut options = OpenOptions::new();
        let file = plain_file::open(&path, options.create(true).truncate(false).write(true));
        let file = named(&path, file)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "another process has this log open",
            )),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile::open(path, &mut OpenOptions::new())?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile::open(path, OpenOptions::new().create_new(true))?))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}
