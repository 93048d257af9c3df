//! What a server is told about tokens at its start.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::claims::{ReadBy, Wanted};
use super::jwks::{JwksSource, LookError};
use super::key::Key;
use super::key_file::{self, TokenKeyFileError};
use super::limits::LEEWAY_MAX;

/// Which tokens are taken.
#[derive(Clone, Debug)]
pub struct TokenRules {
    /// Files with keys.
    pub keys: Vec<PathBuf>,
    /// A set of keys that may change at any time.
    pub jwks: Option<JwksSource>,
    /// By whom tokens are issued (`iss`); anybody unless set.
    pub issuer: Option<String>,
    /// For whom they are (`aud`): each must be for one of these. Where none is set, a token that is
    /// for somebody is refused.
    pub audiences: Vec<String>,
    /// By how much clocks may differ.
    pub leeway: Duration,
    /// Whether each must have an end (`exp`).
    pub exp_required: bool,
    /// Whether others than this machine can reach the streams: then no secret is taken that
    /// everybody knows.
    pub is_reached: bool,
    /// Who reads what they grant.
    pub read_by: ReadBy,
}

impl Default for TokenRules {
    fn default() -> TokenRules {
        TokenRules {
            keys: Vec::new(),
            jwks: None,
            issuer: None,
            audiences: Vec::new(),
            leeway: Duration::from_secs(10),
            exp_required: true,
            is_reached: false,
            read_by: ReadBy::Us,
        }
    }
}

/// Why a server cannot verify tokens.
#[derive(Debug, Error)]
pub enum TokenRulesError {
    /// No signature could be verified.
    #[error("there is no key to verify tokens with: give --token-key FILE or --token-jwks")]
    NoKey,
    /// More leeway than clocks that are looked after could need.
    #[error("the leeway of tokens is at most 600 s: set the clocks of both machines instead")]
    Leeway,
    /// A key file cannot be used.
    #[error("the key of tokens in {0}")]
    KeyFile(#[from] TokenKeyFileError),
    /// The set in a file cannot be used.
    #[error("the keys of tokens in {}: {error}", path.display())]
    Jwks {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        error: LookError,
    },
}

impl TokenRules {
    pub(super) fn wanted(&self) -> Result<Wanted, TokenRulesError> {
        if self.keys.is_empty() && self.jwks.is_none() {
            return Err(TokenRulesError::NoKey);
        }
        if self.leeway > LEEWAY_MAX {
            return Err(TokenRulesError::Leeway);
        }
        Ok(Wanted {
            issuer: self.issuer.clone(),
            audiences: self.audiences.clone(),
            leeway: self.leeway.as_secs(),
            expiry: self.exp_required,
            read_by: self.read_by,
        })
    }
}

/// The keys in the file `path`.
pub(super) fn keys_of_file(path: &Path) -> Result<Vec<Arc<Key>>, TokenRulesError> {
    let read =
        key_file::read(path).map_err(|fault| TokenKeyFileError { path: path.to_owned(), fault })?;
    for warning in read.warnings {
        key_file::warn(path, warning);
    }
    Ok(read.keys.into_iter().map(Arc::new).collect())
}
