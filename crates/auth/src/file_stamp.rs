//! What tells one version of a file from the next without reading it.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Inode, length and times of a file. A file that is replaced has another inode, one that is
/// written over another time or length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileStamp([i64; 7]);

impl FileStamp {
    /// The stamp of the file to which `path` leads now.
    pub fn of(path: &Path) -> io::Result<FileStamp> {
        Ok(FileStamp::from(&std::fs::metadata(path)?))
    }
}

impl From<&Metadata> for FileStamp {
    fn from(metadata: &Metadata) -> FileStamp {
        FileStamp([
            metadata.dev() as i64,
            metadata.ino() as i64,
            metadata.len() as i64,
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
        ])
    }
}
