//! Replacing certificates while the server runs: when their [files](auth::file_watch) change, and
//! on SIGHUP.

use std::path::PathBuf;
use std::sync::Arc;

use auth::file_watch::FileWatch;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::{Certificates, PairFiles};

/// Reads what has changed until `stop`.
pub(crate) async fn run(certificates: Arc<Certificates>, stop: CancellationToken) {
    let first_look = certificates.first_look.clone();
    let mut watch = FileWatch::new(paths(&certificates.files), first_look);
    while watch.changed(&stop).await {
        tracing::info!("files of certificates have changed and are read again");
        read(&certificates).await;
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
