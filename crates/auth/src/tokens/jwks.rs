//! A set of keys that changes while the server runs: a file, or a URL of whoever issues tokens.
//!
//! A file is read again as [all files of keys](mod@super::reload) are. A URL is asked when its
//! answer is too old, when a token names a key that is not in the set, but never twice within ten
//! seconds, and on SIGHUP. Whatever goes wrong, the keys that are known stay, so nobody's stream
//! depends on that server; it is logged once, and counted each time.

pub(super) mod fetch;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hyper::Uri;
use thiserror::Error;
use tokio::sync::Notify;

use self::fetch::FetchError;
use super::jwk::{self, JwkError, KeysOfSet, Origin};
use super::key::{Key, KeyKind};
use super::key_file::{self, KeyFileFault, KeyFileWarning, warn};

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
    pub(super) source: JwksSource,
    /// Whether somebody who misses a key may call for a look.
    pub(super) willing: AtomicBool,
    pub(super) call: Notify,
    /// Somebody who may wants a look now.
    pub(super) order: Notify,
    pub(super) keys: AtomicU64,
    pub(super) looks: AtomicU64,
    pub(super) failures: AtomicU64,
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
    pub(super) fn keys_of_file(&self, path: &Path) -> Result<Vec<Arc<Key>>, LookError> {
        match self.read_file(path) {
            Ok(set) => Ok(self.keys_found(set)),
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                Err(error)
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
    pub(super) fn keys_found(&self, set: KeysOfSet) -> Vec<Arc<Key>> {
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

    /// How many keys it has, how often it was looked at, and how often that failed.
    pub(super) fn counts(&self) -> [u64; 3] {
        [&self.keys, &self.looks, &self.failures].map(|count| count.load(Ordering::Relaxed))
    }
}
