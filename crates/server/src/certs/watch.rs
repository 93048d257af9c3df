//! Replacing certificates while the server runs: when their files change, and on SIGHUP.
//!
//! The files are looked at by `stat` through whatever links lead to them, so it does not matter how
//! they are replaced: written over, renamed into place, or by a link that leads elsewhere from now
//! on, as certbot and Kubernetes do it. Notices of the kernel (inotify) would have to follow each
//! link on the way, and never come on some file systems. Certificate and key are two files, which
//! change one after the other: they are read when nothing has changed for one more look. A look
//! costs a microsecond or two per file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{Certificates, PairFiles};
use crate::file_stamp::FileStamp;

/// How often the files are looked at. A new certificate is in use after one to two of these.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What the files looked like; `None` for one that is not there.
pub(super) type Stamps = Vec<Option<FileStamp>>;

/// Reads what has changed until `stop`.
pub(crate) async fn run(certificates: Arc<Certificates>, stop: CancellationToken) {
    let paths: Arc<[PathBuf]> = paths(&certificates.files).into();
    if paths.is_empty() {
        return;
    }
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut changes = Changes::new(certificates.first_look.clone());
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => return,
        }
        let paths = Arc::clone(&paths);
        // Fails only while the runtime ends.
        let Ok(stamps) = spawn_blocking(move || look(&paths)).await else { return };
        if changes.are_settled(stamps) {
            tracing::info!("files of certificates have changed and are read again");
            read(&certificates).await;
        }
    }
}

/// Reads the files again whether they changed or not, and asks for an automatic certificate if one
/// could not be had, as SIGHUP asks for.
pub(crate) async fn reload(certificates: &Arc<Certificates>) {
    if let Some(acme) = certificates.acme() {
        acme.now.notify_waiters();
    }
    read(certificates).await;
}

async fn read(certificates: &Arc<Certificates>) {
    if certificates.files.is_empty() {
        return;
    }
    let certificates = Arc::clone(certificates);
    // Fails only while the runtime ends.
    let Ok(reloaded) = spawn_blocking(move || certificates.reload()).await else { return };
    tracing::info!(taken = reloaded.taken, refused = reloaded.refused, "certificates were read");
}

/// The files of all pairs.
pub(super) fn paths(files: &[PairFiles]) -> Vec<PathBuf> {
    files.iter().flat_map(|files| [files.certificate.clone(), files.key.clone()]).collect()
}

/// What they look like now.
pub(super) fn look(paths: &[PathBuf]) -> Stamps {
    paths.iter().map(|path| FileStamp::of(path).ok()).collect()
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
