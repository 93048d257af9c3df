//! The files of keys, those of `--token-key` and that of `--token-jwks`, at the start and whenever
//! they change: as [certificates](crate::file_watch), and on SIGHUP.
//!
//! At the start a file that cannot be used is an error. Afterwards it is refused, told and counted,
//! and its keys from before stay, also when it is gone: whoever wants to take the last key away
//! stops the server. A key that is no more in its file verifies nothing from then on. What it has
//! verified before is forgotten with it, and streams stay.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::jwks::Jwks;
use super::key::Key;
use super::key_file::{KeyFileFault, TokenKeyFileError};
use super::rules::{TokenRulesError, keys_of_file};
use super::verifier::Verifier;
use crate::file_watch::{FileWatch, Stamps, look};

/// Which files there are.
pub(super) struct KeyFiles {
    /// Those of keys, and behind them that of the set, if it is a file.
    paths: Vec<PathBuf>,
    /// How many of them are of keys.
    plain: usize,
    /// Secrets that everybody knows are refused.
    is_reached: bool,
    /// What they looked like before they were read the first time.
    first_look: Stamps,
    /// Held for as long as reading takes, so that what was read first is never taken last.
    reading: Mutex<()>,
    taken: AtomicU64,
    refused: AtomicU64,
}

/// What became of files that were read again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reloaded {
    /// Their keys are as on disk.
    pub taken: u64,
    /// They cannot be used, and their keys from before stay.
    pub refused: u64,
}

/// The keys that are known, by where they are from.
pub(super) struct KnownFiles {
    /// Of each file.
    of_files: Vec<Vec<Arc<Key>>>,
    pub(super) of_url: Vec<Arc<Key>>,
}

impl KeyFiles {
    pub(super) fn new(keys: Vec<PathBuf>, set: Option<PathBuf>, is_reached: bool) -> KeyFiles {
        let plain = keys.len();
        let paths: Vec<PathBuf> = keys.into_iter().chain(set).collect();
        let (reading, taken, refused) = Default::default();
        let first_look = look(&paths);
        KeyFiles { first_look, paths, plain, is_reached, reading, taken, refused }
    }

    /// Reads them all, each by itself.
    fn read(
        &self,
        jwks: Option<&Jwks>,
    ) -> impl Iterator<Item = Result<Vec<Arc<Key>>, TokenRulesError>> {
        let read = move |(place, path): (usize, &PathBuf)| {
            let keys = match jwks {
                Some(jwks) if place >= self.plain => jwks.keys_of_file(path),
                _ => keys_of_file(path),
            }?;
            if self.is_reached && keys.iter().any(|key| key.is_known()) {
                let fault = KeyFileFault::Known;
                return Err(TokenKeyFileError { path: path.clone(), fault }.into());
            }
            Ok(keys)
        };
        self.paths.iter().enumerate().map(read)
    }

    pub(super) fn counts(&self) -> Reloaded {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Reloaded { taken: read(&self.taken), refused: read(&self.refused) }
    }
}

impl KnownFiles {
    /// # Errors
    /// The first file that cannot be used.
    pub(super) fn at_start(
        files: &KeyFiles,
        jwks: Option<&Jwks>,
    ) -> Result<KnownFiles, TokenRulesError> {
        Ok(KnownFiles { of_files: files.read(jwks).collect::<Result<_, _>>()?, of_url: Vec::new() })
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Arc<Key>> {
        self.of_files.iter().flatten().chain(&self.of_url).cloned()
    }
}

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
