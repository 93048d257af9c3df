//! A set of keys that changes while the server runs: a file, or a URL of whoever issues tokens.
//!
//! A file is read again as [all files of keys](mod@super::reload) are. A URL is asked when its
//! answer is too old, when a token names a key that is not in the set, and on SIGHUP. It is never
//! asked twice within ten seconds. Whatever goes wrong, the keys that are known stay, so nobody's
//! stream depends on that server. It is logged once, and counted each time.

mod fetch;

use std::fmt;
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
use super::key::{Key, KeyKind};
use super::key_file::{self, KeyFileFault, KeyFileWarning};
use super::limits::{JWKS_AGE, JWKS_PAUSE};
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
    /// Somebody who may wants a look now.
    order: Notify,
    keys: AtomicU64,
    looks: AtomicU64,
    failures: AtomicU64,
}

impl Jwks {
    pub(super) fn new(source: JwksSource) -> Jwks {
        let (willing, call, order) = Default::default();
        let (keys, looks, failures) = Default::default();
        Jwks { source, willing, call, order, keys, looks, failures }
    }

    /// A token names a key that is not there. Costs a load, and once in ten seconds more. Relaxed:
    /// nothing else hangs on the flag, and a call that is missed comes with the next token.
    pub(super) fn look_soon(&self) {
        if self.willing.load(Ordering::Relaxed) && self.willing.swap(false, Ordering::Relaxed) {
            self.call.notify_one();
        }
    }

    /// Has the URL asked as soon as may be, whatever was asked before.
    pub(super) fn look_now(&self) {
        self.order.notify_one();
    }

    /// Whether another set may be there before the next look: with a file nobody knows that sooner.
    pub(super) fn is_asked(&self) -> bool {
        matches!(self.source, JwksSource::Url(_))
    }

    /// Its file, if it is one.
    pub(super) fn file(&self) -> Option<&Path> {
        match &self.source {
            JwksSource::File(path) => Some(path),
            JwksSource::Url(_) => None,
        }
    }

    /// The keys in its file `path`.
    pub(super) fn keys_of_file(&self, path: &Path) -> Result<Vec<Arc<Key>>, TokenRulesError> {
        match self.read_file(path) {
            Ok(set) => Ok(self.told(set)),
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                Err(TokenRulesError::Jwks { path: path.to_owned(), error })
            }
        }
    }

    fn read_file(&self, path: &Path) -> Result<KeysOfSet, LookError> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        let (bytes, mode) = key_file::bytes(path).map_err(LookError::File)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| LookError::Text)?;
        let text = text.trim_start_matches('\u{feff}');
        let set = jwk::set(text, Origin::File).map_err(LookError::Set)?;
        let is_secret = set.keys.iter().any(|key| matches!(key.kind(), KeyKind::Secret(_)));
        if is_secret && mode & 0o077 != 0 {
            warn(path, KeyFileWarning::Readable);
        }
        Ok(set)
    }

    /// What a look has found, of which the log is told what is new.
    fn told(&self, set: KeysOfSet) -> Vec<Arc<Key>> {
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
        keys.into_iter().map(Arc::new).collect()
    }

    pub(super) fn tell(&self, figures: &mut VerifierFigures) {
        figures.jwks_keys = self.keys.load(Ordering::Relaxed);
        figures.jwks_looks = self.looks.load(Ordering::Relaxed);
        figures.jwks_failures = self.failures.load(Ordering::Relaxed);
    }
}

/// Keeps the set of a verifier up to date that a URL has.
pub struct JwksKeeper {
    verifier: Arc<Verifier>,
    fetcher: Fetcher,
    failing: bool,
    /// The least time from one look to the next.
    pause: Duration,
}

impl JwksKeeper {
    /// The keeper of the set of `verifier`; `None` where no URL has one.
    ///
    /// # Errors
    /// The system trusts no certificates, which https needs.
    pub fn new(verifier: Arc<Verifier>) -> Result<Option<JwksKeeper>, LookError> {
        let Some(JwksSource::Url(url)) = verifier.jwks().map(|jwks| &jwks.source) else {
            return Ok(None);
        };
        let fetcher = Fetcher::new(url.clone()).map_err(LookError::Fetch)?;
        Ok(Some(JwksKeeper { verifier, fetcher, failing: false, pause: JWKS_PAUSE }))
    }

    /// Looks at the set, for ten seconds at most, and says when to look again. Worth to be awaited
    /// once before clients are let in: their tokens are refused until it is done.
    pub async fn look(&mut self) -> Duration {
        let verifier = Arc::clone(&self.verifier);
        let Some(jwks) = verifier.jwks() else { return JWKS_AGE };
        let (looked, again) = self.fetch(jwks).await;
        match looked {
            Ok(set) => {
                verifier.replace_set(jwks.told(set));
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

    async fn fetch(&self, jwks: &Jwks) -> (Result<KeysOfSet, LookError>, Duration) {
        jwks.looks.fetch_add(1, Ordering::Relaxed);
        match self.fetcher.fetch().await {
            Ok(fetched) => {
                let text = fetched.text.trim_start_matches('\u{feff}');
                let set = jwk::set(text, Origin::Url).map_err(LookError::Set);
                (set, fetched.age)
            }
            Err(error) => (Err(LookError::Fetch(error)), JWKS_AGE),
        }
    }

    /// Looks again and again, until `stop`.
    pub async fn run(mut self, mut again: Duration, stop: CancellationToken) {
        let verifier = Arc::clone(&self.verifier);
        let Some(jwks) = verifier.jwks() else { return };
        loop {
            if stop.run_until_cancelled(self.rest(jwks, again)).await.is_none() {
                return;
            }
            jwks.willing.store(false, Ordering::Relaxed);
            again = self.look().await;
        }
    }

    /// Waits until it is time for the next look: at an order, or after `again` at the latest.
    async fn rest(&self, jwks: &Jwks, again: Duration) {
        // What is missing in the first seconds after a look is missing in the set.
        let pause = self.pause.min(again);
        debug_assert!(pause <= again);
        if tokio::time::timeout(pause, jwks.order.notified()).await.is_ok() {
            return;
        }
        // While there is no answer the set is asked for again and again.
        let again_at = if self.failing { Duration::ZERO } else { again - pause };
        jwks.willing.store(true, Ordering::Relaxed);
        let called = async {
            tokio::select! {
                () = jwks.call.notified() => {}
                () = jwks.order.notified() => {}
            }
        };
        // Called or not, it is time.
        let _ = tokio::time::timeout(again_at, called).await;
    }
}

#[cfg(test)]
mod tests;
