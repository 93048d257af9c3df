//! Files that are read again while the server runs, when they change: certificates and keys of
//! tokens.
//!
//! They are looked at by `stat` through whatever links lead to them. So it does not matter how they
//! are replaced: written over, renamed into place, or by a link that leads elsewhere, as certbot
//! and Kubernetes do it. Notices of the kernel (inotify) would have to follow each link on the way,
//! and never come on some file systems. What is being written, and files that change one after the
//! other, as a certificate and its key, are read when nothing has changed for one more look. A look
//! costs a microsecond or two per file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::file_stamp::FileStamp;

/// How often the files are looked at. What is new is in use after one to two of these.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What files look like; `None` for one that is not there.
pub type Stamps = Vec<Option<FileStamp>>;

/// What they look like now.
pub fn look(paths: &[PathBuf]) -> Stamps {
    paths.iter().map(|path| FileStamp::of(path).ok()).collect()
}

/// Waits for changes of files.
#[derive(Debug)]
pub struct FileWatch {
    paths: Arc<[PathBuf]>,
    changes: Changes,
    ticks: Interval,
}

impl FileWatch {
    /// Of these files, which looked like `first` before they were read the first time.
    pub fn new(paths: Vec<PathBuf>, first: Stamps) -> FileWatch {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        FileWatch { paths: paths.into(), changes: Changes::new(first), ticks }
    }

    /// Waits until the files are others than before and rest; false where `stop` comes first, or
    /// there are no files.
    pub async fn changed(&mut self, stop: &CancellationToken) -> bool {
        while !self.paths.is_empty() {
            tokio::select! {
                _ = self.ticks.tick() => {}
                () = stop.cancelled() => return false,
            }
            let paths = Arc::clone(&self.paths);
            // Fails only while the runtime ends.
            let Ok(stamps) = spawn_blocking(move || look(&paths)).await else { return false };
            if self.changes.are_settled(stamps) {
                return true;
            }
        }
        false
    }
}

/// Changes that were seen and are not read yet.
#[derive(Debug)]
struct Changes {
    last: Stamps,
    pending: bool,
}

impl Changes {
    fn new(stamps: Stamps) -> Changes {
        Changes { last: stamps, pending: false }
    }

    /// Whether something has changed, and nothing more since the look before this one.
    fn are_settled(&mut self, now: Stamps) -> bool {
        if now != self.last {
            (self.last, self.pending) = (now, true);
            return false;
        }
        std::mem::take(&mut self.pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_is_read_once_when_the_files_rest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let look = || vec![FileStamp::of(&path).ok()];
        let mut changes = Changes::new(look());
        assert!(!changes.are_settled(look()));
        std::fs::write(&path, "1").unwrap();
        assert!(!changes.are_settled(look()), "it may be changing still");
        std::fs::write(&path, "12").unwrap();
        assert!(!changes.are_settled(look()), "it was");
        assert!(changes.are_settled(look()));
        assert!(!changes.are_settled(look()), "it was read");
        std::fs::remove_file(&path).unwrap();
        assert!(!changes.are_settled(look()));
        assert!(changes.are_settled(look()));
    }

    #[test]
    fn link_that_leads_elsewhere_is_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two, link, new] = ["1", "2", "link", "new"].map(|name| dir.path().join(name));
        for path in [&one, &two] {
            std::fs::write(path, "x").unwrap();
        }
        std::os::unix::fs::symlink(&one, &link).unwrap();
        let look = || vec![FileStamp::of(&link).ok()];
        let mut changes = Changes::new(look());
        std::os::unix::fs::symlink(&two, &new).unwrap();
        std::fs::rename(&new, &link).unwrap();
        assert!(!changes.are_settled(look()));
        assert!(changes.are_settled(look()));
    }
}
