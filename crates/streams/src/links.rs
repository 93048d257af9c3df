//! The names of a file beside its stream's: of forks that read it, and of one that was deleted.
//!
//! A fork reads its ancestors' content from their files. Each of these has one more name, a hard
//! link beside the file of the fork: `.0` is the oldest ancestor. So what a fork needs stays as
//! long as the fork, whatever becomes of the ancestors' own names, and the file system counts who
//! needs a file. A stream that is deleted while forks need its file is renamed to `.gone`, so that
//! its path is not used again; the last fork that ends leaves that name alone, which is removed by
//! whoever looks at the path, or by the [sweep](crate::Store::sweep).
//!
//! Links are on disk before their fork is. Those without one are removed at the next start.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::disk::Doubt;

/// The suffix of files that are being made.
pub(crate) const NEW: &str = "new";

/// The suffix of a deleted stream's file.
const GONE: &str = "gone";

/// What a name in the directory of a stream's file stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FileKind {
    /// A stream.
    Stream,
    /// A stream that is deleted, and may be needed by forks.
    Gone,
    /// An ancestor of a fork.
    Link,
    /// One that was being made when its process ended.
    Unfinished,
    /// Nothing of ours.
    Foreign,
}

impl FileKind {
    /// The kind of a file, by its name.
    pub(crate) fn of(file: &Path) -> FileKind {
        match file.extension().map(|suffix| suffix.to_str()) {
            None => FileKind::Stream,
            Some(Some(NEW)) => FileKind::Unfinished,
            Some(Some(GONE)) => FileKind::Gone,
            Some(Some(number)) if number.parse::<u8>().is_ok() => FileKind::Link,
            Some(_) => FileKind::Foreign,
        }
    }
}

/// What is left of a stream that was deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Remains {
    /// Nothing.
    None,
    /// Its file, which forks need.
    Needed,
    /// Its file was the last of it, and is removed now; it had so many bytes.
    Removed(u64),
}

/// The name of ancestor `number` of the fork in `file`.
pub(crate) fn link_of(file: &Path, number: usize) -> PathBuf {
    file.with_extension(number.to_string())
}

/// The name of a file whose stream was deleted while forks needed it.
pub(crate) fn gone(file: &Path) -> PathBuf {
    file.with_extension(GONE)
}

/// The file of the fork whose link this is.
pub(crate) fn fork_of(link: &Path) -> PathBuf {
    link.with_extension("")
}

/// Gives each of these files, the oldest ancestor's first, a name beside the fork's `file`.
pub(crate) fn make(file: &Path, ancestors: &[PathBuf], doubt: &Doubt) -> io::Result<()> {
    let made = (|| {
        for (number, ancestor) in ancestors.iter().enumerate() {
            let link = link_of(file, number);
            // A fork that was at this path before may have left it.
            remove_if_there(&link)?;
            fs::hard_link(ancestor, link)?;
        }
        doubt.sync_directory_of(file)
    })();
    if made.is_err() {
        remove(file, ancestors.len());
    }
    made
}

/// Removes the names of a fork's ancestors. One that stays is removed at the next start.
pub(crate) fn remove(file: &Path, ancestors: usize) {
    for number in 0..ancestors {
        let _ = fs::remove_file(link_of(file, number));
    }
}

/// Removes the stream in `file`, but keeps the file as long as forks need it. Its directory is to
/// be synced then.
pub(crate) fn remove_stream(file: &Path, ancestors: usize, doubt: &Doubt) -> io::Result<Remains> {
    // By its new name nobody makes a further link to it.
    fs::rename(file, gone(file))?;
    if ancestors > 0 {
        // A fork that comes back after a power loss has its ancestors.
        doubt.sync_directory_of(file)?;
        remove(file, ancestors);
    }
    settle(file)
}

/// What is left of a stream that was deleted and had this `file`.
pub(crate) fn settle(file: &Path) -> io::Result<Remains> {
    let gone = gone(file);
    let found = match fs::symlink_metadata(&gone) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Remains::None),
        Err(error) => return Err(error),
    };
    if found.nlink() > 1 {
        return Ok(Remains::Needed);
    }
    fs::remove_file(gone)?;
    Ok(Remains::Removed(found.len()))
}

fn remove_if_there(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
