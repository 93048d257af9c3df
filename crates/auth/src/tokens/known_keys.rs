//! The files of keys that are read again when they change ([`mod@super::reload`]), and the keys
//! that are known from them and from a URL.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::jwks::Jwks;
use super::key::Key;
use super::key_file::{KeyFileFault, TokenKeyFileError};
use super::rules::{TokenRulesError, keys_of_file};
use crate::file_watch::{Stamps, look};

/// Which files there are.
pub(super) struct KeyFiles {
    /// Those of keys, and behind them that of the set, if it is a file.
    pub(super) paths: Vec<PathBuf>,
    /// How many of them are of keys.
    plain: usize,
    /// Secrets that everybody knows are refused.
    is_reached: bool,
    /// What they looked like before they were read the first time.
    pub(super) first_look: Stamps,
    /// Held for as long as reading takes, so that what was read first is never taken last.
    pub(super) reading: Mutex<()>,
    pub(super) taken: AtomicU64,
    pub(super) refused: AtomicU64,
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
    pub(super) of_files: Vec<Vec<Arc<Key>>>,
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
    pub(super) fn read(
        &self,
        jwks: Option<&Jwks>,
    ) -> impl Iterator<Item = Result<Vec<Arc<Key>>, TokenRulesError>> {
        let read = move |(place, path): (usize, &PathBuf)| {
            let keys = match jwks {
                Some(jwks) if place >= self.plain => jwks
                    .keys_of_file(path)
                    .map_err(|error| TokenRulesError::Jwks { path: path.clone(), error }),
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
