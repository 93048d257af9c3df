//! Where the files of streams are: by a hash of their paths, so nothing has to be looked up.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// Directories over which files are spread.
pub(crate) const DIRECTORIES: usize = 256;

/// The directory of number `number` in `dir`.
pub(crate) fn directory(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("{number:02x}"))
}

/// What the name of a file is made of: the first bytes of the SHA-256 of its stream's path.
pub(crate) type FileName = [u8; 20];

/// The name of the file of the stream at `path`.
pub(crate) fn file_name(path: &str) -> FileName {
    let hash = Sha256::digest(path.as_bytes());
    *hash.first_chunk().expect("a hash has 32 bytes")
}

/// The file of this name in `dir`.
pub(crate) fn file_named(dir: &Path, bytes: &FileName) -> PathBuf {
    let mut name = String::with_capacity(2 * bytes[1..].len());
    for byte in &bytes[1..] {
        // It never fails.
        let _ = write!(name, "{byte:02x}");
    }
    directory(dir, bytes[0].into()).join(name)
}

/// The file of the stream at `path` in `dir`.
#[cfg(test)]
pub(crate) fn file_of(dir: &Path, path: &str) -> PathBuf {
    file_named(dir, &file_name(path))
}

/// An error that says which file is meant: there may be many of them.
pub(crate) fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
