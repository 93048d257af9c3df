//! A file that is written whole or not at all.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Writes beside `path`, in a file that only its owner may read, and renames that when `write` has
/// succeeded and all is on the disk. So nothing half done ever stands at `path`, and what stood
/// there stays until then. What a killed process leaves beside it is written over by the next one.
pub(super) fn whole<T>(
    path: &Path,
    write: impl FnOnce(&mut File, &Path) -> Result<T>,
) -> Result<T> {
    let name = path.file_name().context("it needs the name of a file")?;
    let partial = path.with_file_name(format!("{}.partial", name.to_string_lossy()));
    let written = finish(&partial, path, write);
    if written.is_err() {
        // What is wrong is told already.
        let _ = fs::remove_file(&partial);
    }
    written.with_context(|| format!("{} was not written", path.display()))
}

fn finish<T>(
    partial: &Path,
    path: &Path,
    write: impl FnOnce(&mut File, &Path) -> Result<T>,
) -> Result<T> {
    let mut options = File::options();
    // Its own file, or none: what somebody else put there is not followed.
    let _ = fs::remove_file(partial);
    let mut file = options.write(true).create_new(true).mode(0o600).open(partial)?;
    let written = write(&mut file, partial)?;
    file.sync_all()?;
    fs::rename(partial, path)?;
    let directory = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    File::open(directory.map_or_else(|| PathBuf::from("."), Path::to_owned))?.sync_all()?;
    Ok(written)
}
