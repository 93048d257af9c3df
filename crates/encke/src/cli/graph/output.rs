//! A file that is written whole or not at all.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Writes beside `path`, in a file that only its owner may read, and renames that when `write` has
/// succeeded and all is on the disk. So nothing half done ever stands at `path`, and what stood
/// there stays until then. What a killed process leaves beside it is written over by the next one.
pub(super) fn whole<T>(
    path: &Path,
    write: impl FnOnce(&mut File, &Path) -> Result<T>,
) -> Result<T> {
    let name = path.file_name().with_context(|| {
        format!("{} names no file: end the path with the name of one", path.display())
    })?;
    // The rename would put a file in the place of a device, or of a link.
    let is_other = fs::symlink_metadata(path).is_ok_and(|there| !there.is_file());
    ensure!(
        !is_other,
        "{} exists and is not a regular file: name a file, or a new path",
        path.display()
    );
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
    let file = options.write(true).create_new(true).mode(0o600).open(partial);
    let mut file = file.context("see that its directory is there and may be written")?;
    let written = write(&mut file, partial)?;
    file.sync_all()?;
    fs::rename(partial, path)?;
    let directory = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    File::open(directory.map_or_else(|| PathBuf::from("."), Path::to_owned))?.sync_all()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn what_is_no_file_is_not_replaced_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| dir.path().join(name));
        let write = |path: &Path| whole(path, |out, _| Ok(out.write_all(b"new")?));
        fs::write(&file, "old").unwrap();
        symlink(&file, &link).unwrap();
        for path in [link.as_path(), dir.path()] {
            let refused = format!("{:#}", write(path).unwrap_err());
            assert!(refused.contains("is not a regular file"), "{refused}");
        }
        assert_eq!(fs::read(&file).unwrap(), b"old");
        write(&file).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
