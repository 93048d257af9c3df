//! A set of keys that changes while the server runs: a file, or a URL of whoever issues tokens.
//!
//! A file is looked at every second and read when it is another one. A URL is asked when its answer
//! is too old, and when a token names a key that is not in the set, but never twice within ten
//! seconds. Whatever goes wrong, the keys that are known stay, so nobody's stream depends on that
//! server; it is logged once, and counted each time.

mod fetch;

use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hyper::Uri;
use thiserror::Error;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::fetch::{FetchError, Fetcher};
use super::jwk::{self, JwkError, KeysOfSet, Origin};
use super::key::KeyKind;
use super::key_file::{self, KeyFileFault, KeyFileWarning};
use super::limits::{JWKS_AGE, JWKS_LOOK, JWKS_PAUSE};
use super::rules::{TokenRulesError, warn};
use super::verifier::{Verifier, VerifierFigures};

/// Where a set of keys is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JwksSource {
    /// A file.
    File(PathBuf),
    /// A URL, http or https.
    Url(Uri),
}

impl FromStr for JwksSource {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<JwksSource, &'static str> {
        if !text.contains("://") {
            return Ok(JwksSource::File(text.into()));
        }
        let url: Uri = text.parse().map_err(|_| "it is no URL")?;
        match (url.scheme_str(), url.authority()) {
            (Some("http" | "https"), Some(authority)) if authority.as_str().contains('@') => {
                Err("a set of keys is public: a URL without user and password")
            }
            (Some("http" | "https"), Some(_)) => Ok(JwksSource::Url(url)),
            _ => Err("a set of keys has a URL that begins with https:// or http://, or is a file"),
        }
    }
}

/// Without the query, which may hold what is nobody's business.
impl fmt::Display for JwksSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JwksSource::File(path) => write!(f, "{}", path.display()),
            JwksSource::Url(url) => {
                let authority = url.authority().map_or("", |authority| authority.as_str());
                write!(f, "{}://{authority}{}", url.scheme_str().unwrap_or(""), url.path())
            }
        }
    }
}

/// Why a look at a set gave no keys.
#[derive(Debug, Error)]
pub enum LookError {
    /// The file cannot be read.
    #[error("{0}")]
    File(KeyFileFault),
    /// The URL gave no answer that could be read.
    #[error(transparent)]
    Fetch(FetchError),
    /// What came is no set of keys.
    #[error("{0}")]
    Set(JwkError),
    /// It is no text.
    #[error("it is no JSON")]
    Text,
}

/// A set of keys, and when it is to be looked at.
pub(super) struct Jwks {
    source: JwksSource,
    /// Whether somebody who misses a key may call for a look.
    willing: AtomicBool,
    call: Notify,
    keys: AtomicU64,
    looks: AtomicU64,
    failures: AtomicU64,
}

impl Jwks {
    pub(super) fn new(source: JwksSource) -> Jwks {
        let (willing, call) = (AtomicBool::new(false), Notify::new());
        let (keys, looks, failures) = Default::default();
        Jwks { source, willing, call, keys, looks, failures }
    }

    /// A token names a key that is not there. Costs a load, and once in ten seconds more. Relaxed:
    /// nothing else hangs on the flag, and a call that is missed comes with the next token.
    pub(super) fn look_soon(&self) {
        if self.willing.load(Ordering::Relaxed) && self.willing.swap(false, Ordering::Relaxed) {
            self.call.notify_one();
        }
    }

    /// A file is read before the start goes on; what is wrong with it ends the start.
    pub(super) fn read_at_start(&self, verifier: &Verifier) -> Result<(), TokenRulesError> {
        let JwksSource::File(path) = &self.source else { return Ok(()) };
        let read = self.read_file(path);
        let set = read.map_err(|error| TokenRulesError::Jwks { path: path.clone(), error })?;
        self.take(set, verifier);
        Ok(())
    }

    fn read_file(&self, path: &Path) -> Result<KeysOfSet, LookError> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        let (bytes, mode) = key_file::bytes(path).map_err(LookError::File)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| LookError::Text)?;
        let set = jwk::set(text, Origin::File).map_err(LookError::Set)?;
        let is_secret = set.keys.iter().any(|key| matches!(key.kind(), KeyKind::Secret(_)));
        if is_secret && mode & 0o077 != 0 {
            warn(path, KeyFileWarning::Readable);
        }
        Ok(set)
    }

    /// Takes what a look has found.
    fn take(&self, set: KeysOfSet, verifier: &Verifier) {
        let KeysOfSet { keys, others } = set;
        let before = self.keys.swap(keys.len() as u64, Ordering::Relaxed);
        let source = &self.source;
        if before != keys.len() as u64 {
            tracing::info!("keys of {source} that tokens are verified with: {}", keys.len());
            if let Some((place, error)) = others.first() {
                let count = others.len();
                tracing::warn!("{count} keys of {source} are not used; number {place}: {error}");
            }
        }
        if keys.is_empty() && before != 0 {
            tracing::warn!("{source} has no key any more: tokens signed with its keys are refused");
        }
        verifier.replace_set(keys);
    }

    pub(super) fn tell(&self, figures: &mut VerifierFigures) {
        figures.jwks_keys = self.keys.load(Ordering::Relaxed);
        figures.jwks_looks = self.looks.load(Ordering::Relaxed);
        figures.jwks_failures = self.failures.load(Ordering::Relaxed);
    }
}

/// Keeps the set of a verifier up to date.
pub struct JwksKeeper {
    verifier: Arc<Verifier>,
    /// For a URL.
    fetcher: Option<Fetcher>,
    /// That of the file which was read.
    stamp: Option<Stamp>,
    failing: bool,
    /// The least time from one look to the next.
    pause: Duration,
}

type Stamp = [i64; 5];

impl JwksKeeper {
    /// The keeper of the set of `verifier`; `None` where it has none.
    ///
    /// # Errors
    /// The system trusts no certificates, which https needs.
    pub fn new(verifier: Arc<Verifier>) -> Result<Option<JwksKeeper>, LookError> {
        let Some(jwks) = verifier.jwks() else { return Ok(None) };
        let fetcher = match &jwks.source {
            JwksSource::File(_) => None,
            JwksSource::Url(url) => Some(Fetcher::new(url.clone()).map_err(LookError::Fetch)?),
        };
        Ok(Some(JwksKeeper { verifier, fetcher, stamp: None, failing: false, pause: JWKS_PAUSE }))
    }

    /// Looks at the set, for ten seconds at most, and says when to look again. Worth to be awaited
    /// once before clients are let in: their tokens are refused until it is done.
    pub async fn look(&mut self) -> Duration {
        let verifier = Arc::clone(&self.verifier);
        let Some(jwks) = verifier.jwks() else { return JWKS_AGE };
        let (looked, again) = match &jwks.source {
            JwksSource::File(path) => (self.look_at_file(jwks, path), JWKS_LOOK),
            JwksSource::Url(_) => self.fetch(jwks).await,
        };
        match looked {
            Ok(None) => {}
            Ok(Some(set)) => {
                jwks.take(set, &verifier);
                if std::mem::take(&mut self.failing) {
                    tracing::info!("the keys of tokens can be had from {} again", jwks.source);
                }
            }
            Err(error) => {
                jwks.failures.fetch_add(1, Ordering::Relaxed);
                if !std::mem::replace(&mut self.failing, true) {
                    let known = jwks.keys.load(Ordering::Relaxed);
                    tracing::warn!(
                        "the keys of tokens cannot be had from {}: {error}; {}",
                        jwks.source,
                        match known {
                            0 => "tokens signed with them are refused until they can",
                            _ => "the keys that are known stay in use",
                        }
                    );
                }
            }
        }
        again
    }

    /// `None` where the file is the one that was read.
    fn look_at_file(&mut self, jwks: &Jwks, path: &Path) -> Result<Option<KeysOfSet>, LookError> {
        let metadata = fs::metadata(path).map_err(|error| LookError::File(KeyFileFault::Io(error)));
        let stamp = metadata.as_ref().ok().map(stamp);
        if stamp.is_some() && stamp == self.stamp {
            return Ok(None);
        }
        metadata?;
        // A file that is wrong is not read again until it is another one.
        self.stamp = stamp;
        jwks.read_file(path).map(Some)
    }

    async fn fetch(&mut self, jwks: &Jwks) -> (Result<Option<KeysOfSet>, LookError>, Duration) {
        let Some(fetcher) = &self.fetcher else { return (Ok(None), JWKS_AGE) };
        jwks.looks.fetch_add(1, Ordering::Relaxed);
        match fetcher.fetch().await {
            Ok(fetched) => {
                let set = jwk::set(&fetched.text, Origin::Url).map_err(LookError::Set);
                (set.map(Some), fetched.age)
            }
            Err(error) => (Err(LookError::Fetch(error)), JWKS_AGE),
        }
    }

    /// Looks again and again, until `stop`.
    pub async fn run(mut self, mut again: Duration, stop: CancellationToken) {
        let verifier = Arc::clone(&self.verifier);
        let Some(jwks) = verifier.jwks() else { return };
        loop {
            // What is missing in the first seconds after a look is missing in the set.
            let pause = self.pause.min(again);
            if tokio::time::timeout(pause, stop.cancelled()).await.is_ok() {
                return;
            }
            // While there is no answer the set is asked for again and again.
            let again_at = if self.failing { Duration::ZERO } else { again - pause };
            jwks.willing.store(true, Ordering::Relaxed);
            let called = tokio::time::timeout(again_at, jwks.call.notified());
            if stop.run_until_cancelled(called).await.is_none() {
                return;
            }
            jwks.willing.store(false, Ordering::Relaxed);
            again = self.look().await;
        }
    }
}

fn stamp(metadata: &Metadata) -> Stamp {
    [
        metadata.ino() as i64,
        metadata.len() as i64,
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime_nsec(),
    ]
}

#[cfg(test)]
mod tests;
