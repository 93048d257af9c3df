//! What the journal asks of a file system: few calls, so that a test can put another below it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sys::plain_file;

use crate::OpenError;

/// By what a disk says that it cannot read a place: `EIO`, `EBADMSG` and `EUCLEAN` of Linux.
const UNREADABLE: [i32; 3] = [5, 74, 117];
/// What Linux reads at least, so what it cannot read around a bad sector.
const BLOCK: usize = 4096;
/// A bad disk takes seconds for each block that it cannot read: behind so many of a file the rest
/// of it counts as one.
const UNREADABLE_MAX: usize = 8;

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
pub(crate) struct RealFile {
    pub(crate) file: File,
    path: Box<Path>,
    /// Some file systems do not count the names of a file.
    has_name: bool,
}

/// What a call on a file came to.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
struct FileError {
    path: Box<Path>,
    error: io::Error,
}

impl RealFile {
    /// Opens a plain file to read it.
    pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<RealFile> {
        let file = named(path, plain_file::open(path, options.read(true)))?;
        let has_name = named(path, file.metadata())?.nlink() > 0;
        Ok(RealFile { file, path: path.into(), has_name })
    }

    fn named<T>(&self, done: io::Result<T>) -> io::Result<T> {
        named(&self.path, done)
    }
}

fn named<T>(path: &Path, done: io::Result<T>) -> io::Result<T> {
    done.map_err(|error| io::Error::new(error.kind(), FileError { path: path.into(), error }))
}

/// It says what the error says, which is no further cause.
impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        OpenError::Io(error)
    }
}

/// Whether what was to be read is as good as damaged: something has cut the file, or its disk
/// cannot read that place.
pub(crate) fn is_lost(error: &io::Error) -> bool {
    error.kind() == ErrorKind::UnexpectedEof || is_unreadable(error)
}

fn is_unreadable(error: &io::Error) -> bool {
    let named = || error.get_ref()?.downcast_ref::<FileError>()?.error.raw_os_error();
    error.raw_os_error().or_else(named).is_some_and(|code| UNREADABLE.contains(&code))
}

/// What a file has from its beginning on.
pub(crate) struct ReadAround {
    /// With zeros in place of what its disk cannot read: no sum fits those.
    pub(crate) bytes: Vec<u8>,
    /// The end of the last such place, and why.
    pub(crate) unread: Option<(u64, io::Error)>,
}

/// Reads so many bytes of a file, or as many as it has, around places that its disk cannot read.
pub(crate) fn read_around(file: &dyn DiskFile, length: u64) -> io::Result<ReadAround> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length as usize)?;
    bytes.resize(length as usize, 0);
    match file.read_at(&mut bytes, 0) {
        Err(error) if is_lost(&error) => read_blocks(file, bytes),
        read => read.map(|()| ReadAround { bytes, unread: None }),
    }
}

fn read_blocks(file: &dyn DiskFile, mut bytes: Vec<u8>) -> io::Result<ReadAround> {
    let (length, mut unread, mut failed) = (bytes.len(), None, 0);
    for start in (0..length).step_by(BLOCK) {
        let end = length.min(start + BLOCK);
        match file.read_at(&mut bytes[start..end], start as u64) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                let left = (file.len()? as usize).clamp(start, end);
                file.read_at(&mut bytes[start..left], start as u64)?;
                bytes.truncate(left);
                break;
            }
            Err(error) if is_unreadable(&error) => {
                failed += 1;
                let end = if failed < UNREADABLE_MAX { end } else { length };
                bytes[start..end].fill(0);
                unread = Some((end as u64, error));
                if end == length {
                    break;
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(ReadAround { bytes, unread })
}

impl DiskFile for RealFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.named(self.file.write_all_at(bytes, offset))
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        #[cfg(test)]
        self.named(faults::read(&self.path, offset..offset + into.len() as u64))?;
        self.named(self.file.read_exact_at(into, offset))
    }

    fn sync(&self) -> io::Result<()> {
        self.named(self.file.sync_data())?;
        // A file that was removed takes bytes, and nobody finds them at the next start.
        match self.named(self.file.metadata())?.nlink() {
            0 if self.has_name => {
                self.named(Err(io::Error::new(ErrorKind::NotFound, "the file was removed")))
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
            Err(TryLockError::WouldBlock) => {
                Err(io::Error::new(ErrorKind::ResourceBusy, "another process has this log open"))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile::open(path, OpenOptions::new().write(true))?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile::open(path, OpenOptions::new().write(true).create_new(true))?))
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

/// Places of files that this thread cannot read.
#[cfg(test)]
pub(crate) mod faults {
    use std::cell::RefCell;
    use std::ops::Range;

    use super::*;

    thread_local! {
        static PLACES: RefCell<Vec<(PathBuf, Range<u64>)>> = const { RefCell::new(Vec::new()) };
    }

    /// From now on these places cannot be read, and no others.
    pub(crate) fn fail_reads(places: &[(&Path, Range<u64>)]) {
        PLACES
            .set(places.iter().map(|(path, place)| (path.to_path_buf(), place.clone())).collect());
    }

    pub(super) fn read(path: &Path, wanted: Range<u64>) -> io::Result<()> {
        let is_in = |(bad, place): &(PathBuf, Range<u64>)| {
            bad == path && place.start < wanted.end && wanted.start < place.end
        };
        match PLACES.with_borrow(|places| places.iter().any(is_in)) {
            true => Err(io::Error::from_raw_os_error(UNREADABLE[0])),
            false => Ok(()),
        }
    }
}
