//! The files of keys, those of `--token-key` and that of `--token-jwks`, at the start and whenever
//! they change: as [certificates](crate::file_watch), and on SIGHUP.
//!
//! At the start a file that cannot be used is an error. Afterwards it is refused, told and counted,
//! and its keys from before stay, also when it is gone: whoever wants to take the last key away
//! stops the server. A key that is no more in its file verifies nothing from then on; what it has
//! verified before is forgotten with it, and streams stay.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::key::Key;
use super::known_keys::Reloaded;
use super::verifier::Verifier;
use crate::file_watch::FileWatch;

impl Verifier {
    /// Reads the files of keys again. Waits for the disk.
    pub(super) fn read_files(&self) -> Reloaded {
        let files = self.files();
        let _reading = files.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reloaded = Reloaded::default();
        let mut found: Vec<Option<Vec<Arc<Key>>>> = Vec::with_capacity(files.paths.len());
        for read in files.read(self.jwks()) {
            match read {
                Ok(_) => reloaded.taken += 1,
                Err(ref error) => {
                    reloaded.refused += 1;
                    tracing::error!("the keys before stay in use: {error}");
                }
            }
            found.push(read.ok());
        }
        self.learn(|known| {
            for (keys, found) in known.of_files.iter_mut().zip(found) {
                *keys = found.unwrap_or_else(|| std::mem::take(keys));
            }
        });
        files.taken.fetch_add(reloaded.taken, Ordering::Relaxed);
        files.refused.fetch_add(reloaded.refused, Ordering::Relaxed);
        reloaded
    }
}

/// Reads the files of `verifier` whenever they have changed, until `stop`.
pub async fn watch(verifier: Arc<Verifier>, stop: CancellationToken) {
    let files = verifier.files();
    let mut watch = FileWatch::new(files.paths.clone(), files.first_look.clone());
    while watch.changed(&stop).await {
        tracing::info!("files with keys of tokens have changed and are read again");
        read(&verifier).await;
    }
}

/// Reads the files again whether they changed or not, and has the URL asked, as SIGHUP asks for.
pub async fn reload(verifier: &Arc<Verifier>) {
    if let Some(jwks) = verifier.jwks() {
        jwks.look_now();
    }
    read(verifier).await;
}

async fn read(verifier: &Arc<Verifier>) {
    if verifier.files().paths.is_empty() {
        return;
    }
    let verifier = Arc::clone(verifier);
    // Fails only while the runtime ends.
    let Ok(reloaded) = spawn_blocking(move || verifier.read_files()).await else { return };
    let Reloaded { taken, refused } = reloaded;
    tracing::info!(taken, refused, "files with keys of tokens were read");
}

#[cfg(test)]
mod tests;
