//! Folders as archives that are the same bytes on every machine: owned by root, dated by the
//! commit, in order of name.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::{done, output};

/// What stands in `folder` as `archive`, in tar's format of POSIX 1988, which all read.
pub(super) fn tar(folder: &Path, archive: &Path, date: u64) -> anyhow::Result<()> {
    tar_of(folder, archive, date, &["."])
}

/// Only `names` in `folder`, in that order.
pub(super) fn tar_of(
    folder: &Path,
    archive: &Path,
    date: u64,
    names: &[&str],
) -> anyhow::Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=ustar", "--sort=name", "--numeric-owner"]);
    // Whatever the umask of who packs: all may read, and go into folders.
    tar.args(["--owner=0", "--group=0", "--mode=u=rwX,go=rX"]).arg(format!("--mtime=@{date}"));
    tar.arg("--file").arg(archive).arg("--directory").arg(folder);
    done(tar.args(names))
}

/// Adds an empty folder with an owner and a mode to `archive`. tar writes one owner for all that it
/// is given at once.
pub(super) fn add_folder(
    archive: &Path,
    folder: &str,
    (owner, mode): (u32, u32),
    date: u64,
) -> anyhow::Result<()> {
    let there = with_ending(archive, ".folder");
    make_folder(&there.join(folder), mode)?;
    let mut tar = Command::new("tar");
    tar.args(["--append", "--format=ustar", "--numeric-owner", "--no-recursion"]);
    tar.arg(format!("--owner=:{owner}")).arg(format!("--group=:{owner}"));
    tar.arg(format!("--mtime=@{date}")).arg("--file").arg(archive);
    done(tar.arg("--directory").arg(&there).arg(folder))?;
    fs::remove_dir_all(&there).with_context(|| there.display().to_string())
}

/// `file.gz`, without the name and the date of the file in it.
pub(super) fn gzip(file: &Path) -> anyhow::Result<PathBuf> {
    gzip_at("-6", file)
}

/// Likewise at a level of gzip.
pub(super) fn gzip_at(level: &str, file: &Path) -> anyhow::Result<PathBuf> {
    done(Command::new("gzip").args(["--no-name", "--force", "--keep", level]).arg(file))?;
    Ok(with_ending(file, ".gz"))
}

/// In hexadecimal.
pub(super) fn sha256(file: &Path) -> anyhow::Result<String> {
    let line = output(Command::new("sha256sum").arg("--").arg(file))?;
    // A name with a backslash would begin the line with one.
    let sum = line.trim_start_matches('\\').split(' ').next();
    Ok(sum.context("sha256sum prints a sum")?.to_owned())
}

/// `path` with `ending` at its end, whatever dots it has.
pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// A folder and those above it.
pub(super) fn make_folder(folder: &Path, mode: u32) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    fs::set_permissions(folder, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// A file of `bytes`, in a folder that is made for it.
pub(super) fn write(path: &Path, bytes: impl AsRef<[u8]>, mode: u32) -> anyhow::Result<()> {
    let place = || path.display().to_string();
    let folder = path.parent().context("a file is in a folder")?;
    fs::create_dir_all(folder).with_context(place)?;
    fs::write(path, bytes).with_context(place)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).with_context(place)
}

/// A copy of the file `from`.
pub(super) fn copy(from: &Path, to: &Path, mode: u32) -> anyhow::Result<()> {
    let bytes = fs::read(from).with_context(|| from.display().to_string())?;
    write(to, bytes, mode)
}

/// A copy of everything below the folder `from`.
pub(super) fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            copy(&entry.path(), &to, 0o644)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn archive_of_the_same_files_is_the_same_whoever_made_them_and_when() {
        let place = std::env::temp_dir().join(format!("encke-archive-{}", std::process::id()));
        let sums: Vec<String> = [("a", 0o600, ["x", "y"]), ("b", 0o644, ["y", "x"])]
            .into_iter()
            .map(|(folder, mode, names)| {
                let folder = place.join(folder);
                // Made in another order, with another mask, at another time.
                names.iter().for_each(|name| write(&folder.join(name), *name, mode).unwrap());
                make_folder(&folder, mode | 0o111).unwrap();
                symlink("x", folder.join("link")).unwrap();
                let file = with_ending(&folder, ".tar");
                tar(&folder, &file, 1_000_000).unwrap();
                add_folder(&file, "data", (10001, 0o700), 1_000_000).unwrap();
                sha256(&gzip(&file).unwrap()).unwrap()
            })
            .collect();
        fs::remove_dir_all(&place).unwrap();
        assert_eq!(sums[0], sums[1]);
    }
}
