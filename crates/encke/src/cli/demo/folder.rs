//! Where a demo has its files: the directory that was asked for, or one that goes with the demo.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

/// How often the removal is tried while there comes something in, and how long to wait in between:
/// a second in all.
const REMOVALS_MAX: usize = 100;
const REMOVE_EVERY: Duration = Duration::from_millis(10);

/// The directory of a demo. Dropping it removes a temporary one.
pub(super) enum Folder {
    /// It was asked for, and stays.
    Named(PathBuf),
    /// It is removed.
    Temporary(TempDir),
}

impl Folder {
    /// The one that was `asked` for, or a new one.
    pub(super) fn new(asked: Option<&Path>) -> Result<Folder> {
        Ok(match asked {
            Some(dir) => Folder::Named(dir.to_owned()),
            None => Folder::Temporary(
                tempfile::tempdir()
                    .context("there is no place for the graph; name one with --data or TMPDIR")?,
            ),
        })
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Folder::Named(dir) => dir,
            Folder::Temporary(dir) => dir.path(),
        }
    }

    /// The demo has ended: a temporary one is removed.
    pub(super) fn close(self) -> Result<()> {
        match self {
            Folder::Named(_) => Ok(()),
            Folder::Temporary(dir) => {
                let path = dir.path();
                remove(path).with_context(|| {
                    format!("cannot remove {}; see what is left there", path.display())
                })
            }
        }
    }
}

/// Removes all of `dir`. Who writes in there has been ended or makes no directory any more, but the
/// thread of a graph that was broken off may come to its end right now and leave a note in there.
fn remove(dir: &Path) -> io::Result<()> {
    let mut tries = 1;
    loop {
        match fs::remove_dir_all(dir) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty && tries < REMOVALS_MAX => {
                thread::sleep(REMOVE_EVERY);
                tries += 1;
            }
            removed => return removed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_goes_also_while_somebody_leaves_notes_in_it() {
        for _ in 0..20 {
            let folder = Folder::new(None).unwrap();
            let path = folder.path().to_owned();
            let dir = path.clone();
            let writer = thread::spawn(move || {
                for _ in 0..500 {
                    // Once it is gone there is none to be made.
                    let _ = fs::write(dir.join("note"), "x");
                }
            });
            folder.close().unwrap();
            assert!(!path.exists());
            writer.join().unwrap();
            assert!(!path.exists());
        }
    }

    #[test]
    fn folder_that_was_asked_for_stays() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(Some(dir.path())).unwrap();
        assert_eq!(folder.path(), dir.path());
        folder.close().unwrap();
        assert!(dir.path().exists());
    }
}
